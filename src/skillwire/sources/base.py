"""Source: the protocol through which server and host get skills, wherever they come from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from skillwire.errors import Issue, Severity, SkillNotFound
from skillwire.skill import (
    DYNAMIC,
    NO_SIZE,
    SkillEntry,
    SkillUri,
    child_uri,
    is_inside,
    path_below,
    shown_uri,
    skill_root,
)

if TYPE_CHECKING:
    from skillwire.catalog import Query

# Beyond this, listing everything again is cheaper than requesting each skill.
_MOST_CHANGES: Final = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a source left out or serves with a warning, and the reasons. `place` is an untrusted
    path or URI; `str` makes it safe to print.
    """

    place: str
    issues: tuple[Issue, ...]

    @property
    def is_left_out(self) -> bool:
        """Whether it is left out; otherwise it is served with a warning."""
        return any(issue.severity is Severity.ERROR for issue in self.issues)

    def __str__(self) -> str:
        return f"{shown_uri(self.place)}: " + "; ".join(str(issue) for issue in self.issues)


@dataclass(frozen=True, slots=True)
class DirectoryChild:
    """One direct child of a directory. `size` is known for listed files, `None` for directories.

    `uri` is unchecked text of the source: for a remote server, it is checked before it is used (SEC-10).
    """

    uri: str
    name: str
    is_directory: bool
    size: int | None = None


class Validator(Protocol):
    """Tells whether the bytes of an earlier read are current."""

    def is_fresh(self) -> bool:
        """False as soon as there is any doubt. Must not block."""
        ...


class SkillValidator(Validator):
    """A validator that also notices when the skill is replaced, removed or hidden. With any other, bytes are
    current only while the listing is the same, too.
    """


@dataclass(frozen=True, slots=True)
class Read:
    """The bytes of a file, and a validator that tells later whether they are current. Without a validator,
    the bytes are never cached.
    """

    data: bytes
    validator: Validator | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A visible change.

    `uri` is that of the `SKILL.md` of the skill that changed. `None` means that the listing changed: skills
    were added or removed, or several changed at once.
    """

    uri: SkillUri | None = None


class Source(Protocol):
    """Skills from one place.

    For a custom source, subclass `Source` and implement `list_entries` and `read`; all other methods have
    defaults. Override `get_entry` if you have unlisted skills, and `changes` if you can report changes. An
    object that is not a subclass works too if it has all of these methods.

    `list_entries` returns the same object while nothing changes, so that callers can cache derived data. The
    bytes of a read match the entry that is current at that moment.
    """

    is_paged: ClassVar[bool] = False
    """Whether the listing is too large to hold; see `PagedSource`."""

    async def open(self) -> None:
        """Prepare for use: scan, connect. Called before anything else, and again after `aclose`. Constructors
        open nothing, so that creating a source neither blocks nor fails.
        """

    async def aclose(self) -> None:
        """Release what `open` acquired."""

    @abstractmethod
    async def list_entries(self) -> Sequence[SkillEntry]:
        """Every listed skill, sorted by URI."""
        ...

    @abstractmethod
    async def read(self, uri: SkillUri) -> Read:
        """The bytes of a file, or `SkillNotFound`."""
        ...

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        """The current entry of the skill whose `SKILL.md` is at this URI, or `SkillNotFound`."""
        for entry in await self.list_entries():
            if entry.uri == uri:
                return entry
        raise SkillNotFound(f"No skill is served at {shown_uri(uri)}", uri=uri)

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        """The direct children of a directory, sorted by URI, or `SkillNotFound`."""
        children = listed_directory(await self.list_entries(), uri)
        if not children:
            raise SkillNotFound(f"No directory is served at {shown_uri(uri)}", uri=uri)
        return children

    async def changes(self) -> AsyncGenerator[Change]:
        """Each visible change from now on. The default ends at once: nothing ever changes.

        Iterate it in one task and close it there, with `contextlib.aclosing`.
        """
        return
        yield

    @property
    def is_starting(self) -> bool:
        """Whether a listing waits for servers that have not answered yet. Skills of others can be read."""
        return False

    def current_entries(self) -> Sequence[SkillEntry] | None:
        """Return what `list_entries` would return, if that is known without waiting; otherwise `None`.

        A server caches responses only while this returns the same object.
        """
        return None

    async def refresh(self) -> None:
        """Discard caches, so that the next `list_entries` is current."""

    def problems(self) -> Sequence[Problem]:
        """The skills that were left out when they were last listed, and why."""
        return ()

    def ttl_ms(self, uri: str | None, most: int) -> int:
        """How long a result about one URI, or about all skills, may be cached, in milliseconds."""
        return most

    def follow(self, uris: Collection[SkillUri]) -> None:
        """Set the URIs at and below which clients want changes, replacing those of earlier calls. For sources
        that must subscribe to get them. `changes` reports everything in any case.
        """

    async def at_hand(self, uri: SkillUri) -> bytes | None:
        """The bytes of a file that may be searched: only if no server is asked for them, no person, and no
        program that generates them. Of other skills, name and description are searched.
        """
        return None

    def local_path(self, uri: SkillUri) -> str | None:
        """The path of a file on this machine, if it has one."""
        return None


class PagedSource(Source, Protocol):
    """A source with too many skills to list at once: a server without other sources reads it in pages.
    `list_entries` still returns all of them, for use with other sources. `current_entries` returns an object
    that identifies the state of the source, a different one after each change.
    """

    is_paged: ClassVar[bool] = True

    @abstractmethod
    async def list_page(self, after: SkillUri | None, size: int) -> Sequence[SkillEntry]:
        """The next listed skills after a URI, in the order of their URIs."""
        ...

    @abstractmethod
    async def count(self) -> int:
        """How many skills are listed."""
        ...

    @abstractmethod
    async def find(self, name: str) -> Sequence[SkillEntry]:
        """The skills with a name, or with a path such as `team/release-notes`."""
        ...

    @abstractmethod
    async def search(self, query: Query, limit: int) -> Sequence[SkillEntry]:
        """The skills that match best, best first."""
        ...

    @abstractmethod
    def current_entries(self) -> Sequence[SkillEntry]: ...

    @property
    @abstractmethod
    def number(self) -> int:
        """The number of the last change."""
        ...

    @abstractmethod
    def changed_files(self, after: int) -> tuple[bool, frozenset[SkillUri]]:
        """Return what changed after a number: whether the listing did, and the files that did."""
        ...


def changes_between(before: Sequence[SkillEntry], after: Sequence[SkillEntry]) -> tuple[Change, ...]:
    """The changes from one listing to the next: one per skill, or a single one for the listing. It is the
    listing that changed if skills were added or removed, if frontmatter changed, or if no entry shows a
    difference.
    """
    if len(before) != len(after):
        return (Change(),)
    changed: list[Change] = []
    for was, now in zip(before, after, strict=True):
        if was is now or was == now:
            continue
        if was.uri != now.uri or was.frontmatter != now.frontmatter or len(changed) == _MOST_CHANGES:
            return (Change(),)
        changed.append(Change(now.uri))
    return tuple(changed) or (Change(),)


def listed_directory(entries: Sequence[SkillEntry], uri: SkillUri) -> tuple[DirectoryChild, ...]:
    """The direct children of a directory according to the entries; empty if there is no directory."""
    files: list[tuple[SkillUri, int]] = []
    for entry in entries:
        if entry.resources is DYNAMIC:
            files.append((entry.uri, NO_SIZE))
        else:
            files += [(file.uri, file.size) for file in entry.resources]
    return children_among(files, uri)


def children_among(files: Iterable[tuple[SkillUri, int]], uri: SkillUri) -> tuple[DirectoryChild, ...]:
    """The direct children of a directory among these files, each with its size or `NO_SIZE`."""
    children: dict[SkillUri, DirectoryChild] = {}
    for file, size in files:
        if is_inside(file, uri):
            name, *deeper = path_below(file, uri)
            child = child_uri(uri, name)
            known = None if deeper or size == NO_SIZE else size
            children[child] = DirectoryChild(child, name, bool(deeper), known)
    return tuple(children[child] for child in sorted(children))


@dataclass(frozen=True, slots=True)
class Conflict:
    """A skill of source number `owner` that is in the place of the skill `winner` of another source."""

    uri: SkillUri
    owner: int
    winner: SkillUri
    winning_owner: int


@dataclass(frozen=True, slots=True)
class Ownership:
    """The directory of every skill that may be served, with the number of its source."""

    owners: Mapping[SkillUri, int]
    lost: tuple[Conflict, ...]

    def owner_of(self, uri: SkillUri) -> int | None:
        """The source of the skill at or around a URI; `None` outside of skills."""
        return next((self.owners[at] for at in directories_down_to(uri) if at in self.owners), None)


def resolve_conflicts(skills: Iterable[tuple[SkillUri, int]]) -> Ownership:
    """Resolve the conflicts of skills, given as the URI of their `SKILL.md` and their source's number."""
    owners: dict[SkillUri, int] = {}
    lost: list[Conflict] = []
    # Outermost first; the sort is stable, so that the first source comes first.
    for uri, owner in sorted(skills, key=lambda skill: skill[0].count("/")):
        root = skill_root(uri)
        taken = next((at for at in directories_down_to(root) if owners.get(at, owner) != owner), None)
        if taken is None:
            owners[root] = owner
        else:
            lost.append(Conflict(uri, owner, SkillUri(f"{taken}/SKILL.md"), owners[taken]))
    return Ownership(owners, tuple(lost))


def directories_down_to(uri: SkillUri) -> Iterator[SkillUri]:
    """The directories around a URI, outermost first, and the URI itself."""
    at = uri.find("/", uri.index("://") + 3)
    while at >= 0:
        yield SkillUri(uri[:at])
        at = uri.find("/", at + 1)
    yield uri
