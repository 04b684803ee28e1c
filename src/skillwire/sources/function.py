"""FunctionSource: skills that a function makes, whole, as a folder in memory.

A function returns the files of one skill: a mapping from relative path to text or bytes, or just the text of
`SKILL.md`. A static skill is made once and listed with digests. A dynamic one is made anew on every read and
listed as `"dynamic"`, since nobody can say beforehand what its bytes will be (ENT-2).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import anyio

from skillwire.errors import FormatError, SkillNotFound, SourceError
from skillwire.issues import Issue, Severity, shown
from skillwire.skill.digests import digest_of
from skillwire.skill.entries import DYNAMIC, SkillEntry, SkillResource
from skillwire.skill.fields import field_issues
from skillwire.skill.frontmatter import parse_skill_md
from skillwire.skill.uris import SKILL_FILE, SkillUri, child_uri, is_inside, make_uri, path_below, shown_uri
from skillwire.sources.base import DirectoryChild, Problem, Read, Source

SkillFiles: TypeAlias = Mapping[str, str | bytes] | str
Maker: TypeAlias = Callable[[], SkillFiles | Awaitable[SkillFiles]]
MakerT = TypeVar("MakerT", bound=Maker)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Made:
    """The files of a skill by their URI."""

    entry: SkillEntry
    files: Mapping[SkillUri, bytes]


@dataclass(slots=True)
class _Recipe:
    root: SkillUri
    name: str
    maker: Maker
    is_dynamic: bool
    made: _Made | None = None
    making: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def skill_md(self) -> SkillUri:
        return child_uri(self.root, SKILL_FILE)


class FunctionSource(Source):
    """Skills made by functions. Decorate each with `static` or `dynamic` and the skill's path."""

    def __init__(self) -> None:
        self._recipes: dict[SkillUri, _Recipe] = {}
        self._listing: tuple[SkillEntry, ...] = ()
        self._problems: tuple[Problem, ...] = ()

    def static(self, path: str) -> Callable[[MakerT], MakerT]:
        """Serve what the function returns when it is first asked for, with digests."""
        return self._register(path, is_dynamic=False)

    def dynamic(self, path: str) -> Callable[[MakerT], MakerT]:
        """Serve what the function returns at each read; only its frontmatter must stay the same."""
        return self._register(path, is_dynamic=True)

    async def list_entries(self) -> Sequence[SkillEntry]:
        entries: list[SkillEntry] = []
        problems: list[Problem] = []
        for root, recipe in sorted(self._recipes.items()):
            try:
                # What a dynamic skill says of itself stays the same, so a listing need not make it again.
                entries.append((recipe.made or await self._make(recipe)).entry)
            except SourceError as error:
                issue = Issue(rule="function-failed", message=_reason(error), fix="fix the function")
                problems.append(Problem(root, (issue,)))
        self._problems = tuple(problems)
        if tuple(entries) != self._listing:
            self._listing = tuple(entries)
        return self._listing

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        for recipe in self._recipes.values():
            if recipe.skill_md == uri:
                return (await self._make(recipe)).entry
        raise SkillNotFound(f"No skill is served at {shown_uri(uri)}", uri=uri)

    async def read(self, uri: SkillUri) -> Read:
        for recipe in self._recipes.values():
            if is_inside(uri, recipe.root):
                made = await self._make(recipe)
                if uri in made.files:
                    return Read(made.files[uri])
        raise SkillNotFound(f"No file is served at {shown_uri(uri)}", uri=uri)

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        children: dict[SkillUri, DirectoryChild] = {}
        for root, recipe in self._recipes.items():
            if is_inside(root, uri):
                # A level above the skill: it is there, whatever its function does.
                name = path_below(root, uri)[0]
                child = child_uri(uri, name)
                children[child] = DirectoryChild(child, name, is_directory=True)
            elif root == uri or is_inside(uri, root):
                children.update(_children(await self._make(recipe), uri))
        if not children:
            raise SkillNotFound(f"No directory is served at {shown_uri(uri)}", uri=uri)
        return tuple(children[child] for child in sorted(children))

    def problems(self) -> Sequence[Problem]:
        return self._problems

    def _register(self, path: str, *, is_dynamic: bool) -> Callable[[MakerT], MakerT]:
        segments = path.split("/")
        root = make_uri(segments)

        def decorate(maker: MakerT) -> MakerT:
            for other in self._recipes:
                # FMT-8: a skill's manifest holds what nests in it, so two functions cannot share a directory.
                if other == root or is_inside(other, root) or is_inside(root, other):
                    raise ValueError(
                        f"the path {path!r} is taken by {other}; give each skill a directory of its own"
                    )
            self._recipes[root] = _Recipe(root, segments[-1], maker, is_dynamic)
            return maker

        return decorate

    async def _make(self, recipe: _Recipe) -> _Made:
        # One at a time: two answers of a static skill must not come from two different makings.
        async with recipe.making:
            if recipe.made is not None and not recipe.is_dynamic:
                return recipe.made
            try:
                returned = recipe.maker()
                made = _assemble(recipe, await returned if inspect.isawaitable(returned) else returned)
            except Exception as error:
                # Somebody else's function: whatever it raises costs this one skill, and is the operator's
                # to read, not the client's.
                _log.warning("the function behind %s failed: %s", recipe.root, error)
                raise SourceError(f"the function behind {recipe.root} failed") from error
            recipe.made = made
            return made


def _reason(error: SourceError) -> str:
    return f"{error}: {shown(str(error.__cause__), 400)}"


def _children(made: _Made, directory: SkillUri) -> Iterator[tuple[SkillUri, DirectoryChild]]:
    for file, data in made.files.items():
        if is_inside(file, directory):
            name, *deeper = path_below(file, directory)
            child = child_uri(directory, name)
            yield child, DirectoryChild(child, name, bool(deeper), None if deeper else len(data))


def _assemble(recipe: _Recipe, returned: SkillFiles) -> _Made:
    files = _files(recipe.root, {SKILL_FILE: returned} if isinstance(returned, str) else returned)
    if recipe.skill_md not in files:
        raise _mistake("no-skill-md", "it returned no SKILL.md", "return one")
    frontmatter = parse_skill_md(files[recipe.skill_md], file=SKILL_FILE).frontmatter
    found = field_issues(frontmatter, directory=recipe.name, file=SKILL_FILE)
    if issues := [issue for issue in found if issue.severity is not Severity.ADVICE]:
        raise FormatError(issues)
    if recipe.is_dynamic:
        return _Made(SkillEntry(recipe.skill_md, frontmatter, DYNAMIC), files)
    resources = tuple(SkillResource(uri, digest_of(files[uri]), len(files[uri])) for uri in sorted(files))
    return _Made(SkillEntry(recipe.skill_md, frontmatter, resources), files)


def _files(root: SkillUri, returned: object) -> dict[SkillUri, bytes]:
    """The files by their URI. What a function returns is checked: no type holds at run time."""
    if not isinstance(returned, Mapping):
        raise _mistake("files-shape", f"it returned {type(returned).__name__}", "return text or a mapping")
    files: dict[SkillUri, bytes] = {}
    directories: set[SkillUri] = set()
    for path, content in returned.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(path, str) or not isinstance(content, str | bytes | bytearray):
            raise _mistake("files-shape", f"{path!r} is no path with text or bytes", "return str or bytes")
        uri = root
        for segment in path.split("/"):
            directories.add(uri)
            uri = child_uri(uri, segment)
        files[uri] = content.encode("utf-8") if isinstance(content, str) else bytes(content)
    if both := directories & files.keys():
        raise _mistake("files-shape", f"{min(both)} is a file and a directory", "give each its own path")
    return files


def _mistake(rule: str, message: str, fix: str) -> FormatError:
    return FormatError.of(rule=rule, message=message, fix=fix)
