"""SkillTools: skills for clients that know only tools. This is the server speaking about its own files.

`load_skill` gives a `SKILL.md` as it is, `read_skill_file` a file beside it. A large catalog does not fit
into the description of a tool; then there is `search_skills` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from skillwire.catalog.matching import Matcher
from skillwire.errors import AmbiguousName, FormatError, SkillNotFound
from skillwire.issues import shown
from skillwire.json_types import JsonObject, JsonValue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.catalog import Catalog
from skillwire.server.handlers import Context, is_modern
from skillwire.server.legacy.features import ToolsMode
from skillwire.server.legacy.tool_names import SkillNames
from skillwire.server.library import SkillLibrary
from skillwire.server.results import CacheAdvice, file_content
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import child_uri, path_below, skill_root
from skillwire.text import clean_line
from skillwire.wire.declaration import declaration_in

LOAD: Final = "load_skill"
READ: Final = "read_skill_file"
SEARCH: Final = "search_skills"
NAMES: Final = frozenset({LOAD, READ, SEARCH})
_READ_ONLY: Final[JsonObject] = {"readOnlyHint": True, "openWorldHint": False}


@dataclass(frozen=True)
class _Made:
    """What was made from one catalog."""

    roll: SkillNames
    tools: tuple[JsonObject, ...]

    @cached_property
    def matcher(self) -> Matcher[str]:
        return Matcher({name: entry.description for name, entry in self.roll.names.items()})


class SkillTools:
    """The tools, for every client or only for those that do not know the extension."""

    def __init__(
        self,
        library: SkillLibrary,
        cache: CacheAdvice,
        mode: ToolsMode,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._library = library
        self._cache = cache
        self._mode = mode
        self._limits = limits
        self._made: _Made | None = None

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        if params and params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "there is one page; start without a cursor")
        tools: list[JsonValue] = []
        if self._mode == "always" or not knows_extension(ctx):
            tools.extend(self._from(await self._library.catalog()).tools)
        result: JsonObject = {"tools": tools}
        if is_modern(ctx):
            # Whoever shares an answer must not give one client's list to another kind of client.
            scope = "private" if self._mode == "auto" else self._cache.scope
            result.update(resultType="complete", ttlMs=self._cache.ttl_ms, cacheScope=scope)
        return result

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> JsonObject:
        if params.name not in NAMES:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool called {shown(params.name)!r}")
        arguments = params.arguments or {}
        try:
            content = await self._content(params.name, arguments)
            result: JsonObject = {"content": [content], "isError": False}
        except (SkillNotFound, AmbiguousName) as error:
            result = {"content": [_text(str(error))], "isError": True}
        except FormatError as error:
            result = {"content": [_text(error.issues[0].message)], "isError": True}
        if is_modern(ctx):
            result["resultType"] = "complete"
        return result

    def schema_of(self, name: str) -> Mapping[str, Any] | None:
        """What a tool takes; `None` when it is none of ours."""
        return _SCHEMAS.get(name)

    def differs(self, before: Catalog, after: Catalog) -> bool:
        """Whether the list of tools is another one."""
        known = self._made
        old = known.tools if known and known.roll.catalog is before else self._tools(SkillNames(before))
        return old != self._from(after).tools

    async def _content(self, tool: str, arguments: Mapping[str, Any]) -> JsonObject:
        made = self._from(await self._library.catalog())
        if tool == SEARCH:
            return _text(self._found(made, _argument(arguments, "query")))
        entry = made.roll.find(_argument(arguments, "name"))
        if tool == LOAD:
            return _text(await skill_text(self._library, entry, limits=self._limits))
        uri = skill_root(entry.uri)
        for segment in _argument(arguments, "path").removeprefix("./").split("/"):
            uri = child_uri(uri, segment)
        content = file_content(uri, (await self._library.read(uri)).data)
        text = content.get("text")
        return _text(text) if isinstance(text, str) else {"type": "resource", "resource": content}

    def _found(self, made: _Made, query: str) -> str:
        asked = query[: self._limits.search_query_chars]
        names = made.matcher.best(asked, limit=self._limits.search_results)
        if not names:
            return f"No skill fits {shown(query)!r}. Try other words."
        lines = [_line(name, made.roll.names[name], self._limits) for name in names]
        return "\n".join([*_within(lines, self._limits.search_chars), f"Load one with {LOAD}."])

    def _from(self, catalog: Catalog) -> _Made:
        made = self._made
        if made is None or made.roll.catalog is not catalog:
            roll = SkillNames(catalog)
            made = self._made = _Made(roll, self._tools(roll))
        return made

    def _tools(self, roll: SkillNames) -> tuple[JsonObject, ...]:
        if not roll.names:
            return ()
        what = "Load a skill: instructions for one kind of task. Do so before you start on such a task."
        room = self._limits.tool_description_chars
        tools: list[JsonObject] = []
        if _length(roll.names) > room:
            what = f"{what} There are {len(roll.names)}: find the right one with {SEARCH}."
            tools.append(_SEARCH_TOOL)
        elif _length(lines := [_line(*named, self._limits) for named in roll.names.items()]) <= room:
            what = "\n".join([what, "Skills:", *lines])
        else:
            what = f"{what} Skills: {', '.join(roll.names)}. {SEARCH} tells what they are for."
            tools.append(_SEARCH_TOOL)
        load: JsonObject = {
            "name": LOAD,
            "title": "Load a skill",
            "description": what,
            "inputSchema": _SCHEMAS[LOAD],
            "annotations": _READ_ONLY,
        }
        return (load, _READ_TOOL, *tools)


async def skill_text(library: SkillLibrary, entry: SkillEntry, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """The `SKILL.md` of a skill as it is, below a line that says what it is and which files are beside it."""
    data = (await library.read(entry.uri)).data
    # The entry that fits these bytes: reading may have found a newer one.
    entry = await library.get_skill(entry.uri)
    root = skill_root(entry.uri)
    heading = f"Skill {entry.name} ({entry.uri})."
    if entry.resources is not DYNAMIC:
        files = ["/".join(path_below(file.uri, root)) for file in entry.resources if file.uri != entry.uri]
        if files:
            more = len(files) - limits.file_pointers
            files = files[: limits.file_pointers] + ([f"and {more} more"] if more > 0 else [])
            heading += f" Other files of it, for {READ}: {', '.join(files)}."
    return f"{heading}\n\n{data.decode('utf-8')}"


def knows_extension(ctx: Context) -> bool:
    """Whether the client said that it knows the extension: at the handshake, or with this request (CAP-4)."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and declaration_in(capabilities.model_dump(by_alias=True)) is not None


def _line(name: str, entry: SkillEntry, limits: Limits) -> str:
    return f"- {name}: {clean_line(entry.description, limit=limits.description_chars).text}"


def _within(lines: Iterable[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


def _length(texts: Iterable[str]) -> int:
    return sum(len(text) + 2 for text in texts)


def _argument(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise SkillNotFound(f"The argument {name!r} is missing: it is a text")
    return value


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _schema(**properties: str) -> JsonObject:
    described: JsonObject = {
        name: {"type": "string", "description": description} for name, description in properties.items()
    }
    return {
        "type": "object",
        "properties": described,
        "required": [*properties],
        "additionalProperties": False,
    }


_SCHEMAS: Final[dict[str, JsonObject]] = {
    LOAD: _schema(name="The name of the skill."),
    READ: _schema(
        name="The name of the skill.", path="The file's path inside the skill, as in references/guide.md."
    ),
    SEARCH: _schema(query="What the skill should be good for, in a few words."),
}
_READ_TOOL: Final[JsonObject] = {
    "name": READ,
    "title": "Read a file of a skill",
    "description": f"Read a file of a skill that {LOAD} or its instructions name.",
    "inputSchema": _SCHEMAS[READ],
    "annotations": _READ_ONLY,
}
_SEARCH_TOOL: Final[JsonObject] = {
    "name": SEARCH,
    "title": "Search skills",
    "description": f"Find skills by what they are good for. Load one with {LOAD}.",
    "inputSchema": _SCHEMAS[SEARCH],
    "annotations": _READ_ONLY,
}
