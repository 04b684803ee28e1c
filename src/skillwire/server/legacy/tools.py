"""SkillTools: skills for clients that only support tools.

`load_skill` returns `SKILL.md` unchanged, `read_skill_file` another file of the skill. If the catalog does
not fit into the description of a tool, there is also `search_skills`. A gateway adds `list_skill_files`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from skillwire.catalog.search import Document, SearchIndex
from skillwire.catalog.tokenize import parse_query
from skillwire.errors import AmbiguousName, FormatError, SkillNotFound
from skillwire.issues import shown
from skillwire.json_types import JsonObject, JsonValue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.catalog import Catalog
from skillwire.server.handlers import Context, is_modern
from skillwire.server.legacy.names import PREFIX, SkillNames, skill_path
from skillwire.server.library import SkillLibrary
from skillwire.server.options import ServerOptions
from skillwire.server.results import file_content
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SkillUri, child_uri, is_inside, parse_uri, path_below, skill_root
from skillwire.text import clean_line
from skillwire.wire.declaration import declaration_in
from skillwire.wire.v1 import APPROVAL_META

LOAD: Final = "load_skill"
READ: Final = "read_skill_file"
SEARCH: Final = "search_skills"
LIST: Final = "list_skill_files"
NAMES: Final = frozenset({LOAD, READ, SEARCH, LIST})
_READ_ONLY: Final[JsonObject] = {"readOnlyHint": True, "openWorldHint": False}


@dataclass(frozen=True)
class _Derived:
    """What is derived from one catalog."""

    names: SkillNames
    tools: tuple[JsonObject, ...]

    @cached_property
    def index(self) -> SearchIndex[str]:
        return SearchIndex(
            Document(
                name, entry.name, clean_line(entry.description).text, name, digest=_skill_md_digest(entry)
            )
            for name, entry in self.names.names.items()
        )


class LegacyFeature:
    """The common base of tools and prompts: a library, its options and the texts of its skills."""

    def __init__(
        self, library: SkillLibrary, options: ServerOptions, texts: SkillTexts | None = None
    ) -> None:
        self._library = library
        self._options = options
        self._texts = texts or SkillTexts()


class SkillTools(LegacyFeature):
    """The tools, for all clients or only for those without the extension."""

    _derived: _Derived | None = None

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        if params and params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "the cursor does not belong to this listing")
        tools: list[JsonValue] = []
        if self._options.legacy_features.tools == "always" or not knows_extension(ctx):
            if self._library.paged is not None:
                count = await self._library.count()
                tools.extend(self._searched(f"There are {count:,} skills") if count else ())
            else:
                tools.extend(self._from(await self._library.catalog()).tools)
        result: JsonObject = {"tools": tools}
        if is_modern(ctx):
            # A shared cache must not give one client's list to a client of another kind.
            scope = "private" if self._options.legacy_features.tools == "auto" else self._options.cache_scope
            result.update(resultType="complete", ttlMs=self._library.ttl_ms(), cacheScope=scope)
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
        """The input schema of a tool; `None` if it is not ours."""
        return _SCHEMAS.get(name)

    def differs(self, before: Catalog, after: Catalog) -> bool:
        """Whether the list of tools changed."""
        if after.paged is not None:
            return False  # Their descriptions do not name skills.
        known = self._derived
        old = known.tools if known and known.names.catalog is before else self._tools(SkillNames(before))
        return old != self._from(after).tools

    async def _content(self, tool: str, arguments: Mapping[str, Any]) -> JsonObject:
        if tool == SEARCH:
            return _text(await self._search(_argument(arguments, "query")))
        entry = await self._find(_argument(arguments, "name"))
        if tool == LOAD:
            return _text(await skill_text(self._library, entry, self._texts, limits=self._options.limits))
        uri = skill_root(entry.uri)
        is_whole = tool == LIST and arguments.get("path") in (None, "", ".", "./")
        path = "" if is_whole else _argument(arguments, "path").removeprefix("./")
        for segment in () if is_whole else (path.removesuffix("/") if tool == LIST else path).split("/"):
            uri = child_uri(uri, segment)
        if tool == LIST:
            return _text(self._texts.files(entry, uri, await self._files(entry, uri)))
        content = file_content(uri, (await self._library.read(uri)).data)
        text = content.get("text")
        if isinstance(text, str):
            return _text(self._texts.file(entry, uri, text))
        return {"type": "resource", "resource": content}

    async def _files(self, entry: SkillEntry, directory: SkillUri) -> list[str]:
        """The files of a skill below one of its directories, with their sizes if known."""
        if entry.resources is not DYNAMIC:
            found = [
                ("/".join(path_below(file.uri, skill_root(entry.uri))), file.size)
                for file in entry.resources
                if is_inside(file.uri, directory)
            ]
            return [f"{clean_line(path).text} ({size} bytes)" for path, size in found]
        page = await self._library.read_directory(directory, None)
        return [clean_line(child.name).text + ("/" if child.is_directory else "") for child in page.items]

    async def _find(self, name: str) -> SkillEntry:
        paged = self._library.paged
        if paged is None:
            return self._from(await self._library.catalog()).names.find(name)
        requested = name.strip().strip("/")
        if requested.startswith(PREFIX):
            return await self._library.get_skill(parse_uri(requested))
        called = await paged.find(requested)
        if len(called) > 1:
            raise AmbiguousName(requested, map(skill_path, called))
        if not called:
            raise SkillNotFound(f"There is no skill called {shown(requested)!r}; find one with {SEARCH}")
        return called[0]

    async def _search(self, query: str) -> str:
        asked = parse_query(query, limits=self._options.limits)
        paged = self._library.paged
        if paged is not None:
            found = await paged.search(asked, self._options.limits.search_results)
            named = [(skill_path(entry), entry) for entry in found]
        else:
            derived = self._from(await self._library.catalog())
            matches = derived.index.search(asked, limit=self._options.limits.search_results)
            named = [(match.key, derived.names.names[match.key]) for match in matches]
        if not named:
            return f"No skill matches {shown(query)!r}. Try other words."
        lines = [_line(name, entry, self._options.limits) for name, entry in named]
        return "\n".join([*_within(lines, self._options.limits.search_chars), f"Load one with {LOAD}."])

    def _from(self, catalog: Catalog) -> _Derived:
        derived = self._derived
        if derived is None or derived.names.catalog is not catalog:
            names = SkillNames(catalog)
            derived = self._derived = _Derived(names, self._tools(names))
        return derived

    def _tools(self, names: SkillNames) -> tuple[JsonObject, ...]:
        if not names.names:
            return ()
        room = self._options.limits.tool_description_chars
        if _length(names.names) > room:
            return self._searched(f"There are {len(names.names)} skills")
        lines = [_line(*named, self._options.limits) for named in names.names.items()]
        if _length(lines) <= room:
            load = _load_tool("\n".join([_LOAD_ABOUT, "Skills:", *lines]))
            return (load, _READ_TOOL, *self._further(searching=False))
        about = f"{_LOAD_ABOUT} Skills: {', '.join(names.names)}. {SEARCH} says what they are for."
        return (_load_tool(about), _READ_TOOL, *self._further(searching=True))

    def _searched(self, what: str) -> tuple[JsonObject, ...]:
        """The tools if the skills are too many to name."""
        return (
            _load_tool(f"{_LOAD_ABOUT} {what}: find the right one with {SEARCH}."),
            _READ_TOOL,
            *self._further(searching=True),
        )

    def _further(self, *, searching: bool) -> tuple[JsonObject, ...]:
        """The tools other than load and read."""
        is_every = self._options.legacy_features.every_tool
        return (*((_SEARCH_TOOL,) if searching or is_every else ()), *((_LIST_TOOL,) if is_every else ()))


class SkillTexts:
    """How tools and prompts show a skill to a model: unchanged, below one line about it."""

    def skill(self, entry: SkillEntry, text: str, files: list[str]) -> str:
        """A `SKILL.md`; `files` are the paths of its other files."""
        heading = f"Skill {entry.name} ({entry.uri})."
        if files:
            heading += f" Its other files, for {READ}: {', '.join(files)}."
        return f"{heading}\n\n{text}"

    def file(self, entry: SkillEntry, uri: SkillUri, text: str) -> str:
        """Another file of a skill."""
        return text

    def files(self, entry: SkillEntry, directory: SkillUri, lines: list[str]) -> str:
        """The files below a directory of a skill."""
        return "\n".join(lines) or "There are no files."


async def skill_text(
    library: SkillLibrary, entry: SkillEntry, texts: SkillTexts, *, limits: Limits = DEFAULT_LIMITS
) -> str:
    """The `SKILL.md` of a skill for a model, with the names of its other files."""
    data = (await library.read(entry.uri)).data
    # The entry that matches these bytes: the read may have found a newer one.
    entry = await library.get_skill(entry.uri)
    root = skill_root(entry.uri)
    files: list[str] = []
    if entry.resources is not DYNAMIC:
        files = ["/".join(path_below(file.uri, root)) for file in entry.resources if file.uri != entry.uri]
        more = len(files) - limits.file_pointers
        files = files[: limits.file_pointers] + ([f"and {more} more"] if more > 0 else [])
    return texts.skill(entry, data.decode("utf-8"), files)


def knows_extension(ctx: Context) -> bool:
    """Whether the client declared the extension, at the handshake or with this request (CAP-4)."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and declaration_in(capabilities.model_dump(by_alias=True)) is not None


def _skill_md_digest(entry: SkillEntry) -> str:
    if entry.resources is DYNAMIC:
        return ""
    return next((file.digest for file in entry.resources if file.uri == entry.uri), "")


def _line(name: str, entry: SkillEntry, limits: Limits) -> str:
    return f"- {name}: {clean_line(entry.description, limit=limits.description_chars).text}{waiting(entry)}"


def waiting(entry: SkillEntry) -> str:
    """A note for a skill that a person has to approve first."""
    return " (asks the user for approval first)" if entry.meta.get(APPROVAL_META) == "required" else ""


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
        raise SkillNotFound(f"The argument {name!r} is missing; give it as text")
    return value


def _load_tool(about: str) -> JsonObject:
    return {
        "name": LOAD,
        "title": "Load a skill",
        "description": about,
        "inputSchema": _SCHEMAS[LOAD],
        "annotations": _READ_ONLY,
    }


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
    SEARCH: _schema(query="What the skill should do, in a few words."),
    LIST: {
        **_schema(name="The name of the skill.", path="A directory inside the skill; all of it by default."),
        "required": ["name"],
    },
}
_LIST_TOOL: Final[JsonObject] = {
    "name": LIST,
    "title": "List the files of a skill",
    "description": f"List the files of a skill, for {READ}.",
    "inputSchema": _SCHEMAS[LIST],
    "annotations": _READ_ONLY,
}
_LOAD_ABOUT: Final = "Load a skill: instructions for one kind of task. Load it before you start such a task."
_READ_TOOL: Final[JsonObject] = {
    "name": READ,
    "title": "Read a file of a skill",
    "description": f"Read a file that {LOAD} or a skill's instructions name.",
    "inputSchema": _SCHEMAS[READ],
    "annotations": _READ_ONLY,
}
_SEARCH_TOOL: Final[JsonObject] = {
    "name": SEARCH,
    "title": "Search skills",
    "description": f"Find skills by what they do. Load one with {LOAD}.",
    "inputSchema": _SCHEMAS[SEARCH],
    "annotations": _READ_ONLY,
}
