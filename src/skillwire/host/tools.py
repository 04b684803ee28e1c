"""Tools for a model: JSON schemas and handlers that any framework can call.

A handler gives a `ToolResult`, also when something is wrong: then it says what in words that a model can act
on, and `is_error` is set. What a server wrote is in a fence; the rest is our own text.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.catalog.render import SEARCH_TOOL, CatalogText, is_for_models, render_found
from skillwire.catalog.tokenize import parse_query
from skillwire.errors import (
    ApprovalRequired,
    FormatError,
    FrontmatterMismatch,
    SkillNotFound,
    SkillwireError,
    SourceError,
)
from skillwire.host.search import FoundSkill
from skillwire.host.styles.base import Actions, RenderContext, Style, ToolSpec
from skillwire.host.templates import ServedTemplate, templates_text
from skillwire.limits import Limits
from skillwire.text import clean_line
from skillwire.trust.fence import neutralize

_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to a tool call: it enters the conversation as a tool's result, never as a system message."""

    text: str
    is_error: bool = False


Handler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as models are told about it, and the function behind it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    handler: Handler = field(repr=False)

    def for_anthropic(self) -> dict[str, Any]:
        """The definition in the shape of Anthropic's Messages API."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    def for_openai(self) -> dict[str, Any]:
        """The definition in the shape of OpenAI's Chat Completions API."""
        function = {"name": self.name, "description": self.description, "parameters": self.input_schema}
        return {"type": "function", "function": function}


class ToolHost(Actions, Protocol):
    """What the tools need of a host: ways to text that a model may see. A search finds what is offered."""

    async def search(self, query: str, *, server: str | None = None) -> Sequence[FoundSkill]: ...


class OfferedSkills:
    """The skills that a model is told of, in the catalog and by search.

    A skill that only users may invoke is not among them, nor one that a load would refuse without asking.
    """

    def __init__(
        self, registry: Registry, is_offered: Callable[[RegisteredSkill], bool], revision: Callable[[], int]
    ) -> None:
        """`is_offered` may change its answer when `revision` changes."""
        self._registry = registry
        self._is_offered = is_offered
        self._revision = revision
        self._from: tuple[tuple[RegisteredSkill, ...], int] | None = None
        self._skills: tuple[RegisteredSkill, ...] = ()
        self._keys: frozenset[SkillKey] = frozenset()

    def skills(self) -> tuple[RegisteredSkill, ...]:
        """The skills, the same tuple while nothing changes."""
        known, revision = self._registry.skills(), self._revision()
        # The registry gives the same tuple while nothing has changed.
        if self._from is None or known is not self._from[0] or revision != self._from[1]:
            offered = tuple(one for one in known if is_for_models(one.entry) and self._is_offered(one))
            if offered != self._skills or self._from is None:
                self._skills, self._keys = offered, frozenset(one.key for one in offered)
            self._from = known, revision
        return self._skills

    def keys(self) -> frozenset[SkillKey]:
        self.skills()
        return self._keys


class CatalogCache:
    """The catalog as it was last requested. Agents ask before every turn, and skills seldom change."""

    def __init__(
        self,
        offered: OfferedSkills,
        style: Style,
        context: RenderContext,
        templates: Callable[[], Sequence[ServedTemplate]],
    ) -> None:
        self._offered = offered
        self._templates = templates
        self._shown_templates: Sequence[ServedTemplate] = ()
        self._style = style
        self._context = context
        self._budget = context.limits.catalog_chars
        self._working: tuple[str, ...] = ()
        self._skills: tuple[RegisteredSkill, ...] | None = None
        self._text = CatalogText("")

    def get(self, budget: int | None, working: Collection[str]) -> CatalogText:
        """The catalog within so many characters, for whoever works on these paths."""
        requested = self._context.limits.catalog_chars if budget is None else budget, tuple(working)
        if requested != (self._budget, self._working):
            self._budget, self._working = requested
            self._skills = None
        return self.current()

    def current(self) -> CatalogText:
        """The catalog as of now, requested as the last time."""
        skills, templates = self._offered.skills(), self._templates()
        if skills is not self._skills or templates != self._shown_templates:
            limits = replace(self._context.limits, catalog_chars=self._budget)
            visible = self._style.visible(skills, self._working)
            made = self._style.catalog(visible, replace(self._context, limits=limits))
            room = self._budget - len(made.text) - 1
            below = templates_text(templates, self._style.resource_tool, room, limits)
            self._text = replace(made, text="\n".join(filter(None, (made.text, below))))
            self._skills, self._shown_templates = skills, templates
        return self._text


def make_tools(
    host: ToolHost,
    specs: Sequence[ToolSpec],
    *,
    catalog: CatalogText,
    searching: bool | None = None,
    limits: Limits,
) -> tuple[Tool, ...]:
    """The tools of a style, bound to one host, and with `searching` one that searches.

    By default that is when the catalog leaves something out. A tool that lists the names it takes has those
    of the catalog, unless some are missing there.
    """
    searching = not catalog.is_whole if searching is None else searching
    names = catalog.shown if not catalog.omitted else ()
    tools = tuple(_bound(spec, host, names) for spec in specs)
    return (*tools, _search_tool(host, limits)) if searching else tools


def _bound(spec: ToolSpec, host: ToolHost, names: Sequence[str]) -> Tool:
    async def act(arguments: Mapping[str, Any]) -> str:
        return await spec.action(host, arguments)

    tool = _tool(spec.name, spec.description, dict(spec.parameters), spec.required, act)
    if spec.names and names:
        tool.input_schema["properties"][spec.names]["enum"] = list(names)
    return tool


def _search_tool(host: ToolHost, limits: Limits) -> Tool:
    async def search_skills(arguments: Mapping[str, Any]) -> str:
        query = arguments["query"]
        if not parse_query(query, limits=limits):
            raise SkillNotFound(f"{SEARCH_TOOL}: query has no words: say what the task is about")
        found = await host.search(query, server=arguments.get("server") or None)
        # SEC-1: descriptions alone. A passage of a body is skill text, which takes the way of loading.
        return render_found(
            [one.skill for one in found if not one.partial],
            [one.skill for one in found if one.partial],
            limits=limits,
        )

    return _tool(
        SEARCH_TOOL,
        "Find skills that the catalog has no room for. Call it when no skill in the catalog fits a task.",
        {
            "query": "A few words on the task, such as: refund customer.",
            "server": "Search the skills of this server alone.",
        },
        ("query",),
        search_skills,
    )


def _words(error: SkillwireError) -> str:
    """An error for a model: our own words, and of a server's none, or a quotation that cannot end itself."""
    match error:
        case ApprovalRequired():
            return f"{_line(str(error))}. Only the user can do that: tell them."
        case FrontmatterMismatch():
            return f"the frontmatter of {_line(error.uri)} is not what its server listed: it is not used"
        case SourceError():
            return _line(error.plain)
        case FormatError():
            rules = ", ".join(dict.fromkeys(issue.rule for issue in error.issues))
            return f"that is not well formed ({rules}). Details may quote others: {_quoted(str(error))}"
        case _:
            return _line(str(error))


def _line(text: str) -> str:
    return neutralize(clean_line(text, limit=_LONGEST).text)[0]


def _quoted(text: str) -> str:
    return json.dumps(_line(text), ensure_ascii=False)


def _tool(
    name: str,
    description: str,
    parameters: Mapping[str, str],
    required: tuple[str, ...],
    handler: Callable[[Mapping[str, Any]], Awaitable[str]],
) -> Tool:
    async def answer(arguments: Mapping[str, Any]) -> ToolResult:
        if not isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            return ToolResult(f"{name}: the arguments must be an object", is_error=True)
        for key in parameters:
            value = arguments.get(key)
            if value is not None and not isinstance(value, str):
                return ToolResult(f"{name}: {key} must be a string", is_error=True)
        missing = [key for key in required if not arguments.get(key)]
        if missing:
            return ToolResult(f"{name}: say {' and '.join(missing)}", is_error=True)
        try:
            return ToolResult(await handler(arguments))
        except SkillwireError as error:
            return ToolResult(_words(error), is_error=True)

    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in parameters.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name, description, schema, answer)
