"""FunctionSource: skills that a function makes, whole, as a folder in memory.

A function returns the files of one skill: a mapping from relative path to text or bytes, or just the text of
`SKILL.md`. A static skill is made once and listed with digests. A dynamic one is made anew on every read and
listed as `"dynamic"`, since nobody can say beforehand what its bytes will be (ENT-2).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from skillwire.errors import FormatError, SkillNotFound, SourceError
from skillwire.issues import Issue, Severity
from skillwire.skill.digests import digest_of
from skillwire.skill.entries import DYNAMIC, SkillEntry, SkillResource
from skillwire.skill.fields import field_issues
from skillwire.skill.frontmatter import parse_skill_md
from skillwire.skill.uris import SKILL_FILE, SkillUri, child_uri, is_inside, make_uri, path_below, shown_uri
from skillwire.sources.base import DirectoryChild, Problem

SkillFiles: TypeAlias = Mapping[str, str | bytes] | str
Maker: TypeAlias = Callable[[], SkillFiles | Awaitable[SkillFiles]]
MakerT = TypeVar("MakerT", bound=Maker)


@dataclass(frozen=True, slots=True)
class _Made:
    """The files of a skill by their URI."""

    entry: SkillEntry
    files: Mapping[SkillUri, bytes]


@dataclass(slots=True)
class _Recipe:
    root: SkillUri
    maker: Maker
    is_dynamic: bool
    made: _Made | None = None


class FunctionSource:
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
        for uri, recipe in sorted(self._recipes.items()):
            try:
                entries.append((await self._make(recipe)).entry)
            except SourceError as error:
                issue = Issue(rule="function-failed", message=str(error), remedy="mend the function")
                problems.append(Problem(uri, (issue,)))
        self._problems = tuple(problems)
        if tuple(entries) != self._listing:
            self._listing = tuple(entries)
        return self._listing

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        recipe = self._recipes.get(uri)
        if recipe is None:
            raise SkillNotFound(f"No skill is served at {shown_uri(uri)}", uri=uri)
        return (await self._make(recipe)).entry

    async def read(self, uri: SkillUri) -> bytes:
        for recipe in self._recipes.values():
            if is_inside(uri, recipe.root):
                made = await self._make(recipe)
                if uri in made.files:
                    return made.files[uri]
        raise SkillNotFound(f"No file is served at {shown_uri(uri)}", uri=uri)

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        children: dict[SkillUri, DirectoryChild] = {}
        for recipe in self._recipes.values():
            if recipe.root != uri and not is_inside(recipe.root, uri) and not is_inside(uri, recipe.root):
                continue
            for file, data in (await self._make(recipe)).files.items():
                if is_inside(file, uri):
                    name, *deeper = path_below(file, uri)
                    child = child_uri(uri, name)
                    children[child] = DirectoryChild(child, name, bool(deeper), None if deeper else len(data))
        if not children:
            raise SkillNotFound(f"No directory is served at {shown_uri(uri)}", uri=uri)
        return tuple(children[child] for child in sorted(children))

    def problems(self) -> Sequence[Problem]:
        return self._problems

    def _register(self, path: str, *, is_dynamic: bool) -> Callable[[MakerT], MakerT]:
        root = make_uri(path.split("/"))
        uri = child_uri(root, SKILL_FILE)
        if uri in self._recipes:
            raise ValueError(f"the path {path!r} has a skill already; give each skill a path of its own")

        def decorate(maker: MakerT) -> MakerT:
            self._recipes[uri] = _Recipe(root, maker, is_dynamic)
            return maker

        return decorate

    async def _make(self, recipe: _Recipe) -> _Made:
        if recipe.made is not None:
            return recipe.made
        try:
            returned = recipe.maker()
            made = _assemble(recipe, await returned if inspect.isawaitable(returned) else returned)
        except Exception as error:
            # Somebody else's function: whatever it raises costs this one skill.
            raise SourceError(f"the function behind {recipe.root} failed: {error}") from error
        if not recipe.is_dynamic:
            recipe.made = made
        return made


def _assemble(recipe: _Recipe, returned: SkillFiles) -> _Made:
    given = {SKILL_FILE: returned} if isinstance(returned, str) else returned
    files: dict[SkillUri, bytes] = {}
    for path, content in given.items():
        uri = recipe.root
        for segment in path.split("/"):
            uri = child_uri(uri, segment)
        files[uri] = content.encode("utf-8") if isinstance(content, str) else bytes(content)
    skill_md = child_uri(recipe.root, SKILL_FILE)
    if skill_md not in files:
        raise FormatError(
            Issue(rule="no-skill-md", message=f"{recipe.root} has no SKILL.md", remedy="return one")
        )
    frontmatter = parse_skill_md(files[skill_md], file=skill_md).frontmatter
    name = recipe.root.rpartition("/")[2]
    issues = [
        issue
        for issue in field_issues(frontmatter, directory=name, file=skill_md)
        if issue.severity is Severity.ERROR
    ]
    if issues:
        raise FormatError(issues)
    if recipe.is_dynamic:
        return _Made(SkillEntry(skill_md, frontmatter, DYNAMIC), files)
    resources = tuple(SkillResource(uri, digest_of(files[uri]), len(files[uri])) for uri in sorted(files))
    return _Made(SkillEntry(skill_md, frontmatter, resources), files)
