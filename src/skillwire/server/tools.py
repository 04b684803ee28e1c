"""SkillTools: skills for clients that only support tools. Nothing here depends on the SDK.

`load_skill` returns `SKILL.md` unchanged, `read_skill_file` another file of the skill. If the catalog does
not fit into the description of a tool, there is also `search_skills`. A gateway adds `list_skill_files`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from skillwire.documents import JsonObject, JsonValue
from skillwire.errors import AmbiguousName, FormatError, PolicyRefused, Refusal, SkillNotFound
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.library import Catalog, ServerOptions, SkillLibrary, file_content
from skillwire.skill import (
    DYNAMIC,
    SCHEME,
    SkillEntry,
    SkillUri,
    child_uri,
    is_inside,
    parse_uri,
    path_below,
    skill_root,
    split_uri,
)
from skillwire.text import clean_line, shown
from skillwire.wire import APPROVAL_META, INVALID_PARAMS


class SkillNames:
    """The names of skills in tools and prompts. `names` are those of the listed skills, in order.

    A skill with a unique name is called by it. All others are called by their path, such as
    `team/release-notes`, which works for every skill.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        shared = Counter(entry.name for entry in catalog.entries)
        self.names: dict[str, SkillEntry] = {
            entry.name if shared[entry.name] == 1 else path_name(entry): entry for entry in catalog.listed
        }

    @cached_property
    def _by_path(self) -> dict[str, SkillEntry]:
        return {path_name(entry): entry for entry in self.catalog.entries}

    @cached_property
    def _by_name(self) -> dict[str, list[SkillEntry]]:
        found: defaultdict[str, list[SkillEntry]] = defaultdict(list)
        for entry in self.catalog.entries:
            found[entry.name].append(entry)
        return found

    def find(self, name: str) -> SkillEntry:
        """The skill with a name, path or URI; raises `SkillNotFound`, or `AmbiguousName` with all paths."""
        requested = name.strip().strip("/")
        entry = self._by_path.get(requested) or self.catalog.by_uri.get(SkillUri(requested))
        if entry is not None:
            return entry
        called = self._by_name.get(requested, [])
        if len(called) == 1:
            return called[0]
        if called:
            raise AmbiguousName(requested, map(path_name, called))
        from difflib import get_close_matches  # Not needed to start.

        near = get_close_matches(requested, self.names, n=3) if len(self.names) <= _MANY else []
        hint = f"; perhaps {_either(near)}" if near else ""
        raise SkillNotFound(f"There is no skill called {shown(requested)!r}{hint}", uri=requested)


_MANY: Final = 2000

PREFIX: Final = f"{SCHEME}://"


def path_name(entry: SkillEntry) -> str:
    """The path of a skill, as in `team/release-notes`."""
    root = skill_root(entry.uri)
    if "%" not in root and root.startswith(PREFIX):
        return root[len(PREFIX) :]  # Fast, because there may be ten thousand.
    parts = split_uri(root)
    return "/".join((parts.authority, *parts.segments))


def _either(names: Iterable[str]) -> str:
    return " or ".join(names)


LOAD: Final = "load_skill"
READ: Final = "read_skill_file"
SEARCH: Final = "search_skills"
LIST: Final = "list_skill_files"
NAMES: Final = frozenset({LOAD, READ, SEARCH, LIST})
_READ_ONLY: Final[JsonObject] = {"readOnlyHint": True, "openWorldHint": False}


@dataclass(frozen=True)
class _Derived:
    """Values derived from one catalog."""

    names: SkillNames
    tools: tuple[JsonObject, ...]

    @cached_property
    def name_at(self) -> dict[SkillUri, str]:
        return {entry.uri: name for name, entry in self.names.names.items()}


class LegacyFeature:
    """The common base of tools and prompts: a library, its options and the texts of its skills."""

    def __init__(
        self, library: SkillLibrary, options: ServerOptions, texts: SkillTexts | None = None
    ) -> None:
        self._library = library
        self._options = options
        self._texts = texts or SkillTexts()


@dataclass(frozen=True, slots=True)
class ExtraTool:
    """A tool of a gateway: its definition, and what it does with a skill. It gives a text, and whether that
    is an error."""

    definition: JsonObject
    act: Callable[[SkillEntry, Mapping[str, Any]], Awaitable[tuple[str, bool]]]


class SkillTools(LegacyFeature):
    """The tools, for all clients or only for those without the extension."""

    extra: ExtraTool | None = None
    _derived: _Derived | None = None

    def __init__(
        self,
        library: SkillLibrary,
        options: ServerOptions,
        texts: SkillTexts | None = None,
        *,
        search: Callable[[str, int], Awaitable[Sequence[SkillEntry]]],
    ) -> None:
        super().__init__(library, options, texts)
        self._searched_for = search

    async def list_tools(self, cursor: str | None, *, modern: bool, has_extension: bool) -> JsonObject:
        """The tools, for a client that declared the extension or did not."""
        if cursor is not None:
            raise Refusal("the cursor does not belong to this listing", code=INVALID_PARAMS)
        tools: list[JsonValue] = []
        if self._options.legacy_features.tools == "always" or not has_extension:
            if self._library.paged is not None:
                count = await self._library.count()
                tools.extend(self._searched(f"There are {count:,} skills") if count else ())
            else:
                tools.extend(self._from(await self._library.catalog()).tools)
        elif self.extra is not None:
            tools.append(self.extra.definition)  # The extension has no way to do what it does.
        result: JsonObject = {"tools": tools}
        if modern:
            # A shared cache must not give one client's list to a client of another kind.
            scope = "private" if self._options.legacy_features.tools == "auto" else self._options.cache_scope
            result.update(resultType="complete", ttlMs=self._library.ttl_ms(), cacheScope=scope)
        return result

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, modern: bool) -> JsonObject:
        """The result of a call; a mistake in its arguments is a result too, for the model to read."""
        if not await self.knows(name):
            raise Refusal(f"There is no tool called {shown(name)!r}", code=INVALID_PARAMS)
        try:
            if self.extra is not None and name == self.extra.definition["name"]:
                text, is_error = await self.extra.act(
                    await self._find(_argument(arguments, "name")), arguments
                )
                result: JsonObject = {"content": [_text(text)], "isError": is_error}
            else:
                result = {"content": [await self._content(name, arguments)], "isError": False}
        except (SkillNotFound, AmbiguousName, PolicyRefused) as error:
            result = {"content": [_text(str(error))], "isError": True}
        except FormatError as error:
            result = {"content": [_text(error.issues[0].message)], "isError": True}
        if modern:
            result["resultType"] = "complete"
        return result

    def schema_of(self, name: str) -> Mapping[str, Any] | None:
        """The input schema of a tool; `None` if it is not ours."""
        if self.extra is not None and name == self.extra.definition["name"]:
            return cast("Mapping[str, Any]", self.extra.definition["inputSchema"])
        return _SCHEMAS.get(name)

    async def knows(self, name: str) -> bool:
        """Whether a tool of this name is ours."""
        return name in NAMES or (self.extra is not None and name == self.extra.definition["name"])

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
            raise AmbiguousName(requested, map(path_name, called))
        if not called:
            raise SkillNotFound(f"There is no skill called {shown(requested)!r}; find one with {SEARCH}")
        return called[0]

    async def _search(self, query: str) -> str:
        found = await self._searched_for(query, self._options.limits.search_results)
        names: dict[SkillUri, str] = {}
        if self._library.paged is None:
            names = self._from(await self._library.catalog()).name_at
        named = [(names.get(entry.uri) or path_name(entry), entry) for entry in found]
        if not named:
            return f"No skill seems to fit {shown(query)!r}. Try other words, or work without a skill."
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
        extra = () if self.extra is None else (self.extra.definition,)
        further = (*((_SEARCH_TOOL,) if searching or is_every else ()), *((_LIST_TOOL,) if is_every else ()))
        return (*further, *extra)


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
