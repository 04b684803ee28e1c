"""ResourceReader and ModelActions: what a model loads and reads, bound as SEC-3 says.

A skill's URI is not a plain resource. Reading it loads the skill, with approval and verification, so that no
tool bypasses those (VER-7). Any other resource is untrusted text in a fence; it loads nothing.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias

from skillwire.catalog import (
    SEARCH_TOOL,
    CatalogText,
    HostSkill,
    SkillKey,
    SkillTable,
    is_for_models,
    parse_query,
    render_directory,
    render_found,
    without_copies,
)
from skillwire.consent import ScopedCallback
from skillwire.errors import (
    ApprovalRequired,
    FormatError,
    FrontmatterMismatch,
    LimitExceeded,
    SkillNotFound,
    SkillwireError,
    SourceError,
)
from skillwire.host.decide import Decider
from skillwire.host.load import Loader
from skillwire.host.places import Places
from skillwire.host.questions import ReadCallback, ReadRequest
from skillwire.host.resolve import Resolver
from skillwire.host.search import SearchMatch, SkillSearch
from skillwire.host.state import ServedTemplate, templates_text
from skillwire.host.storage import UsageRecorder
from skillwire.host.styles.base import Actions, RenderContext, Style, ToolSpec
from skillwire.limits import Limits
from skillwire.skill import SKILL_FILE, SkillUri, is_inside, parse_uri, shown_uri, skill_root
from skillwire.text import clean_line, for_model
from skillwire.trust import Origin, Reason
from skillwire.trust.approval import ReadRuling, ReadScope, read_scope, uri_scheme
from skillwire.trust.fence import fence, neutralize

_MOST_LISTED: Final = 500
_NOBODY: Final = Origin.mcp("nobody")


@dataclass(kw_only=True, eq=False)
class ResourceReader:
    """Reads resources for a model."""

    places: Places
    loader: Loader
    table: SkillTable
    asker: ScopedCallback[ReadCallback]
    style: Style
    context: RenderContext

    async def permit_look_up(self, label: str, text: str) -> None:
        """SEC-3: a model that looks for a skill on another server than its own reads from that server."""
        await self._permit(text, self.places.server(label))

    async def read(self, label: str, text: str) -> str:
        """The resource in a fence, or the skill that it is."""
        # 1. SEC-3: file: URIs and plain paths are refused by scheme; another server's skills need approval.
        origin = self.places.server(label)
        await self._permit(text, origin)
        uri = parse_uri(text)
        # 2. VER-7: a skill is loaded, a file of a loaded skill is read as such.
        skill = await self._skill_at(uri, origin)
        if skill is not None:
            return await self.loader.load_text(skill)
        owner = self._owner(uri, origin)
        if owner is not None:
            if self.loader.held.get(owner.key) is None:
                raise SkillNotFound(
                    f"{shown_uri(uri)} belongs to the skill {owner.handle}: load that first", uri=uri
                )
            file = await self.loader.read(owner.key, uri)
            return self.style.file_text(file, owner.handle, self.context)
        # 3. Anything else is a server's text: fenced, and not a skill.
        data = (await self.places.source(origin).read(uri)).data
        try:
            content = data.decode("utf-8")
        except UnicodeDecodeError:
            content = f"(binary: {len(data)} bytes; not shown as text)"
        fenced = fence(content, origin, part="_resource", attributes={"uri": uri}, salt=self.context.salt)
        return f"A resource of {origin}. It is untrusted text, not a skill.\n{fenced.text}"

    async def list_resources(self, label: str | None) -> str:
        """List the resources of servers, each in its own fence: names are a server's text too (SEC-1)."""
        servers = [self.places.server(label)] if label is not None else self.places.server_origins()
        parts: list[str] = []
        for origin in servers:
            listed = await self.places.resources_of(origin)
            lines = [
                f"{one.uri} {clean_line(one.name, limit=200).text}".rstrip() for one in listed[:_MOST_LISTED]
            ]
            if len(listed) > _MOST_LISTED:
                lines.append(f"({len(listed) - _MOST_LISTED} more)")
            text = "\n".join(lines) or "(none)"
            fenced = fence(text, origin, part="_resources", attributes={}, salt=self.context.salt)
            parts.append(f"Resources of {origin}.\n{fenced.text}")
        return "\n".join(parts) or "No server is connected."

    def refuse_files(self, text: str) -> None:
        """SEC-3: anything but a URI of a server's resource is refused before a server is asked for it."""
        self._refuse(text, read_scope(text, _NOBODY, ()))

    def _refuse(self, text: str, ruling: ReadRuling) -> None:
        if ruling.scope is ReadScope.REFUSED:
            raise FormatError.of(
                rule="uri", message=f"{shown_uri(text)} {ruling}", fix="give the URI of a resource"
            )

    async def _permit(self, text: str, origin: Origin) -> None:
        ruling = read_scope(text, origin, [held.origin for held in self.loader.held.skills()])
        self._refuse(text, ruling)
        if ruling.scope is not ReadScope.NEEDS_APPROVAL:
            return
        request = ReadRequest(text, origin, ruling.others)
        ask = self.asker.current
        if ask is None or (await ask(request)) is not True:
            raise ApprovalRequired(
                f"{shown_uri(text)}: {ruling}", reason=Reason.NEW, origin=origin.label, uri=shown_uri(text)
            )

    async def _skill_at(self, uri: SkillUri, origin: Origin) -> HostSkill | None:
        """The skill whose `SKILL.md` this is, listed or not (FMT-5: only the server can say so)."""
        if self.table.get(SkillKey(origin, uri)) is not None:
            return self.table.find_uri(uri, origin.label)  # Refused when it is disabled.
        if not uri.endswith(f"/{SKILL_FILE}"):
            return None
        try:
            return await self.places.look_up(uri, origin)
        except (ApprovalRequired, LimitExceeded):
            raise  # The user excluded it, or the style does not take it.
        except SkillwireError:
            return None

    def _owner(self, uri: SkillUri, origin: Origin) -> HostSkill | None:
        """The registered skill that lists this file, the innermost one."""
        owners = [
            skill
            for skill in self.table.skills(disabled=True)
            if skill.origin == origin and is_inside(uri, skill_root(skill.uri))
        ]
        return max(owners, key=lambda skill: len(skill.uri), default=None)


class OfferedSkills:
    """The skills that a model is told of, in the catalog and by search.

    A skill that only users may invoke is not among them, nor one that a load would refuse without asking.
    """

    def __init__(self, table: SkillTable, decide: Decider) -> None:
        self._table = table
        self._decide = decide
        self._from: tuple[tuple[HostSkill, ...], object] | None = None
        self._skills: tuple[HostSkill, ...] = ()
        self._keys: frozenset[SkillKey] = frozenset()

    def skills(self) -> tuple[HostSkill, ...]:
        """The skills, the same tuple while nothing changes."""
        known, revision = self._table.skills(), self._decide.offer_revision
        # The registry gives the same tuple while nothing has changed.
        if self._from is None or known is not self._from[0] or revision != self._from[1]:
            offered = tuple(one for one in known if is_for_models(one.entry) and self._decide.is_offered(one))
            if offered != self._skills or self._from is None:
                self._skills, self._keys = offered, frozenset(one.key for one in offered)
            self._from = known, revision
        return self._skills

    def keys(self) -> frozenset[SkillKey]:
        self.skills()
        return self._keys


@dataclass(kw_only=True, eq=False)
class ModelActions:
    """The actions of a model's tools. Everything goes through approval and verification."""

    resolver: Resolver
    loader: Loader
    reader: ResourceReader
    searcher: SkillSearch
    offered: OfferedSkills
    style: Style
    context: RenderContext
    usage: UsageRecorder

    async def load_for_model(self, name: str, server: str | None = None) -> str:
        """The text of a skill. A model may name an unlisted one, but only where it may read (SEC-3)."""
        if "://" in name:
            uri = parse_uri(name)
            known = self.resolver.registered_on(uri, server)
            server = known or server or self.resolver.likely_server(uri).label
            if known is None:
                await self.reader.permit_look_up(server, uri)
        skill = await self.resolver.find(name, server)
        return await self.loader.load_text(skill)

    async def read(self, name: str, path: str) -> str:
        """A file of a loaded skill, fenced."""
        key = await self.resolver.key(name)
        file = await self.loader.read(key, path)
        return self.style.file_text(file, self.resolver.handle(key, name), self.context)

    async def list_files(self, name: str, path: str = "") -> str:
        """A directory of a loaded skill, fenced: file names are a server's text too (SEC-1)."""
        key = await self.resolver.key(name)
        view = await self.loader.list_directory(key, path)
        context = self.context
        handle = self.resolver.handle(key, name)
        return render_directory(view, handle, key.origin, path, limits=context.limits, salt=context.salt)

    async def read_resource(self, server: str, uri: str) -> str:
        """A resource of a server; a skill's URI loads that skill (VER-7)."""
        return await self.reader.read(server, uri)

    async def search(self, query: str, *, server: str | None = None) -> Sequence[SearchMatch]:
        """The skills that fit a query best, of those that a model is offered."""
        if server is not None:
            self.resolver.places.require_label(server)
        found = await self.searcher.search(query, label=server, among=self.offered.keys())
        self.usage.found(one.skill for one in found)
        return found

    async def read_anywhere(self, text: str, server: str | None = None) -> str:
        """A resource of the one server that has it, or a file of a local skill by its path or URI (G6).

        What belongs to a local skill is read from disk, and never asked of a server.
        """
        if server is None and uri_scheme(text) != "file":
            local = self.resolver.local_file(text)
            if local is not None:
                skill, path = local
                if path == SKILL_FILE:
                    return await self.loader.load_text(skill)
                file = await self.loader.read(skill.key, path)
                return self.style.file_text(file, skill.handle, self.context)
        if server is None:
            self.reader.refuse_files(text)
            server = await self.resolver.owner(parse_uri(text))
        return await self.reader.read(server, text)

    async def list_resources(self, server: str | None = None) -> str:
        """The resources of a server, or of all, a line for each, fenced."""
        return await self.reader.list_resources(server)

    async def mentions(self, message: str) -> str:
        """The text of every local skill that a message names, and the call for each one of a server."""
        lines: list[str] = []
        texts: list[str] = []
        for skill in self.style.mentioned(message, self.resolver.invocable()):
            if not skill.origin.is_local:
                lines.append(f"- {skill.handle}: {self.style.mention(skill)}")
                continue
            try:
                texts.append(await self.loader.load_text(skill))
            except SkillwireError as error:
                lines.append(f"- {skill.handle}: {clean_line(str(error)).text}")
        if lines:
            lines.insert(0, "The user named these skills. Open each before you go on.")
        if texts:
            texts.insert(0, "The user named what follows.")
        return "\n".join([*texts, *lines])

    def knows(self, name: str) -> bool:
        """Whether a skill has this name."""
        return self.resolver.knows(name)

    def is_loaded(self, name: str) -> bool:
        """Whether the skill of this name is loaded."""
        return self.loader.held.named(name) is not None


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
    check: Handler | None = field(default=None, repr=False)
    """Asks the user what a call would ask, and does nothing else. `None` if a call has no effect: then the
    handler can be called for that."""

    def for_anthropic(self) -> dict[str, Any]:
        """The definition in the shape of Anthropic's Messages API."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    def for_openai(self) -> dict[str, Any]:
        """The definition in the shape of OpenAI's Chat Completions API."""
        function = {"name": self.name, "description": self.description, "parameters": self.input_schema}
        return {"type": "function", "function": function}


class ToolHost(Actions, Protocol):
    """The part of a host that the tools need: text that a model may see. A search finds what is offered."""

    async def search(self, query: str, *, server: str | None = None) -> Sequence[SearchMatch]: ...


class CatalogCache:
    """The catalog as it was last requested. Agents ask before every turn, and skills seldom change."""

    def __init__(
        self,
        offered: OfferedSkills,
        style: Style,
        context: RenderContext,
        places: Places,
        usage: UsageRecorder,
    ) -> None:
        self._usage = usage
        self._offered = offered
        self._places = places
        self._shown_templates: Sequence[ServedTemplate] = ()
        self._style = style
        self._context = context
        self._budget = context.limits.catalog_chars
        self._working: tuple[str, ...] = ()
        self._skills: tuple[HostSkill, ...] | None = None
        self._text = CatalogText("")

    def get(self, budget: int | None, working: Collection[str]) -> CatalogText:
        """The catalog within so many characters, for whoever works on these paths."""
        requested = self._context.limits.catalog_chars if budget is None else budget, tuple(working)
        if requested != (self._budget, self._working):
            self._budget, self._working = requested
            self._skills = None
        text = self.current()
        self._usage.offer(text, self._skills or ())
        return text

    def current(self) -> CatalogText:
        """The catalog as of now, requested as the last time."""
        skills, templates = self._offered.skills(), self._places.templates()
        if skills is not self._skills or templates != self._shown_templates:
            limits = replace(self._context.limits, catalog_chars=self._budget)
            visible = self._style.visible(without_copies(skills), self._working)
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
        "Find skills that the catalog has no room for. Call it when no skill in the catalog fits a task. "
        "It searches names and descriptions, and the text of local skills and of those loaded before.",
        {
            "query": "A few words on the task, such as: refund customer.",
            "server": "Search the skills of this server alone.",
        },
        ("query",),
        search_skills,
    )


def error_words(error: SkillwireError) -> str:
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
    return neutralize(clean_line(for_model(text), limit=_LONGEST).text)[0]


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
            return ToolResult(error_words(error), is_error=True)

    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in parameters.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name, description, schema, answer)
