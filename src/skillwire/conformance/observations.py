"""Observations: what a server answered on one protocol revision. The checks read nothing else.

`Neighbor` is a URI that resembles a real one and is not it. A server that compares URIs loosely answers for
it. A neighbor is `impossible` if no server could legitimately serve it: it contains a name that we made up,
or is not a well-formed skill URI (FMT-9).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol

from skillwire.conformance.channels import Unsolicited
from skillwire.conformance.entries import EntryView, FileSeen
from skillwire.conformance.messages import Answer, Exchanges, same_entry
from skillwire.conformance.session import MODERN, Opening, Revision
from skillwire.documents import JsonObject, is_list, is_object
from skillwire.errors import FormatError
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import DIRECTORY, SkillUri, is_inside, parse_uri, shown_uri, split_uri
from skillwire.wire import DIRECTORY_READ_SETTING, EXTENSION_ID, METHOD_READ_DIRECTORY

NO_SUCH: Final = "skillwire-verify-no-such"


@dataclass(frozen=True, slots=True)
class Neighbor:
    """`how` says how it differs from the real URI."""

    how: str
    uri: str
    impossible: bool = True


def file_neighbors(uri: str) -> Iterator[Neighbor]:
    """Neighbors of the URI of a file, such as a SKILL.md."""
    scheme, _, rest = uri.partition("://")
    directory, _, name = rest.rpartition("/")
    yield from _of_path(scheme, directory, name)
    yield Neighbor("with a trailing slash", f"{uri}/")
    yield Neighbor("with a query", f"{uri}?{NO_SUCH}")
    yield Neighbor("with an encoded backslash", f"{scheme}://{directory}%5C{name}")
    yield Neighbor("with an encoded NUL", f"{uri}%00.md")
    yield Neighbor("encoded twice", f"{scheme}://{directory}/%25{ord(name[0]):02X}{name[1:]}")
    first, _, below = directory.partition("/")
    if below:
        # The directory of a skill is its name: a shorter one is another skill, or none.
        parent, _, last = directory.rpartition("/")
        if len(last) > 1:
            yield Neighbor(
                "with a shortened directory", f"{scheme}://{parent}/{last[:-1]}/{name}", impossible=False
            )
        if last.upper() != last:
            yield Neighbor(
                "with its directory in another case",
                f"{scheme}://{parent}/{last.upper()}/{name}",
                impossible=False,
            )
        yield Neighbor("without its first segment", f"{scheme}://{below}/{name}", impossible=False)
    elif len(first) > 1:
        yield Neighbor("with a shortened directory", f"{scheme}://{first[:-1]}/{name}", impossible=False)
    yield Neighbor("with a longer directory", f"{scheme}://{directory}-{NO_SUCH}/{name}")


def directory_neighbors(uri: str) -> Iterator[Neighbor]:
    """Neighbors of the URI of a directory. A slash at its end is not tried: it may be accepted."""
    scheme, _, rest = uri.partition("://")
    parent, slash, name = rest.rpartition("/")
    if slash:
        yield from _of_path(scheme, parent, name)
        yield Neighbor("without its first segment", f"{scheme}://{rest.partition('/')[2]}", impossible=False)
    else:
        yield Neighbor("below another segment", f"{scheme}://{NO_SUCH}/{rest}")
        yield Neighbor("with a longer name", f"{scheme}://{rest}-{NO_SUCH}")
        if len(name) > 1:
            yield Neighbor("with a shortened name", f"{scheme}://{name[:-1]}", impossible=False)


def _of_path(scheme: str, parent: str, name: str) -> Iterator[Neighbor]:
    yield Neighbor("below another segment", f"{scheme}://{NO_SUCH}/{parent}/{name}")
    yield Neighbor("with a longer name", f"{scheme}://{parent}/{name}-{NO_SUCH}")
    if len(name) > 1:
        yield Neighbor("with a shortened name", f"{scheme}://{parent}/{name[:-1]}", impossible=False)
    # Percent escapes mean the same in either case, so a name that has some is left alone.
    if name.swapcase() != name and "%" not in name:
        yield Neighbor("in another case", f"{scheme}://{parent}/{name.swapcase()}", impossible=False)
    yield Neighbor("with a doubled slash", f"{scheme}://{parent}//{name}")
    yield Neighbor("with an encoded slash", f"{scheme}://{parent}%2F{name}")


class Probe(Enum):
    """Requests that a server has to refuse."""

    LIST_CURSOR = auto()
    LIST_NO_PARAMS = auto()
    GET_UNKNOWN = auto()
    GET_FILE = auto()
    GET_DIRECTORY = auto()
    GET_NOTHING = auto()
    GET_EMPTY = auto()
    GET_NUMBER = auto()
    READ_UNKNOWN = auto()
    READ_UNKNOWN_SKILL = auto()
    READ_DIRECTORY = auto()
    READ_CLIMB = auto()
    READ_ENCODED_CLIMB = auto()
    READ_ENCODED_SLASH = auto()
    DIRECTORY_NOTHING = auto()
    DIRECTORY_UNKNOWN = auto()
    DIRECTORY_UNKNOWN_INSIDE = auto()
    DIRECTORY_FILE = auto()
    DIRECTORY_CURSOR = auto()


@dataclass(frozen=True, slots=True)
class Paged:
    """A listing in pages. `endless` says why reading stopped early, if it did."""

    pages: tuple[Answer, ...] = ()
    endless: str = ""
    left_out: int = 0
    """Items that were counted and dropped, because there are too many or too many of them are useless."""

    def items(self, key: str) -> list[object]:
        """The items of all pages that have an array under `key`."""
        found: list[object] = []
        for page in self.pages:
            values = (page.result or {}).get(key)
            found.extend(values if is_list(values) else ())
        return found

    @property
    def failed(self) -> bool:
        """Whether any page is missing for a reason that has a finding of its own."""
        return any(page.failure is not None for page in self.pages)

    @property
    def is_complete(self) -> bool:
        """Whether every page was answered and nothing was left out."""
        return not self.endless and not self.left_out and all(page.result is not None for page in self.pages)

    @property
    def first(self) -> Answer | None:
        return self.pages[0] if self.pages else None


@dataclass(frozen=True, slots=True)
class ChildSeen:
    """A child of a directory, as the server sent it. `uri` is `None` if it cannot be used."""

    raw: object
    uri: SkillUri | None
    asked: str

    @property
    def fields(self) -> Mapping[str, object]:
        return self.raw if is_object(self.raw) else {}

    @property
    def is_directory(self) -> bool:
        return self.fields.get("mimeType") == DIRECTORY


@dataclass(frozen=True, slots=True)
class DirectorySeen:
    """One directory. `is_announced` if another directory has it as a child."""

    uri: SkillUri
    paged: Paged
    children: tuple[ChildSeen, ...] = ()
    is_announced: bool = False

    @property
    def answered(self) -> bool:
        return bool(self.paged.pages) and self.paged.pages[0].result is not None


@dataclass(frozen=True, slots=True)
class UnlistedSkill:
    """A skill that is not listed, but that the server shows or names. `answer` is that of `skills/get`."""

    uri: SkillUri
    answer: Answer
    is_named: bool = False
    """Whether the server's instructions name it."""
    read_error: str = ""
    """The error for reading it, though a directory or a manifest shows it."""


@dataclass(frozen=True, slots=True)
class Burst:
    """The same request sent many times concurrently: how many different answers came."""

    method: str
    about: str
    times: int
    different: int


@dataclass(frozen=True, slots=True)
class SecondLook:
    """The answer of a new connection about one skill before anything was listed on it."""

    skill: EntryView
    get: Answer
    read: FileSeen | None = None
    directory: Answer | None = None
    failure: str = ""
    """Why there was no second connection, if there was none."""


@dataclass(slots=True, kw_only=True)
class Observations:
    """Filled in step by step by the probe."""

    revision: Revision
    opening: Opening
    listing: Paged = Paged()
    relisting: Paged | None = None
    entries: tuple[EntryView, ...] = ()
    """Every entry of the listing."""
    checked: tuple[EntryView, ...] = ()
    """Those whose files were read, unlisted ones included."""
    gets: dict[SkillUri, Answer] = field(default_factory=dict[SkillUri, Answer])
    candidates: tuple[UnlistedSkill, ...] = ()
    directories: dict[SkillUri, DirectorySeen] = field(default_factory=dict[SkillUri, DirectorySeen])
    too_deep: str = ""
    files: dict[SkillUri, FileSeen] = field(default_factory=dict[SkillUri, FileSeen])
    again: dict[SkillUri, FileSeen] = field(default_factory=dict[SkillUri, FileSeen])
    probes: dict[Probe, Answer] = field(default_factory=dict[Probe, Answer])
    other_methods: tuple[Answer, ...] = ()
    """Answers to methods under `skills/` that the extension does not define."""
    early: tuple[tuple[SkillUri, Answer, FileSeen], ...] = ()
    """A skill that was known before anything was listed: its entry and its file, as answered then."""
    bursts: tuple[Burst, ...] = ()
    resources: Paged = Paged()
    failures: tuple[Answer, ...] = ()
    passing: tuple[Answer, ...] = ()
    """Failures that did not happen again."""
    exchanges: Exchanges = field(default_factory=Exchanges)
    unsolicited: Unsolicited = field(default_factory=Unsolicited)
    skipped: int = 0
    """Requests that were not sent, because the server was gone or the budget was spent."""
    get_neighbors: list[tuple[Neighbor, Answer]] = field(default_factory=list[tuple[Neighbor, Answer]])
    read_neighbors: list[tuple[Neighbor, Answer]] = field(default_factory=list[tuple[Neighbor, Answer]])
    directory_neighbors: list[tuple[Neighbor, Answer]] = field(default_factory=list[tuple[Neighbor, Answer]])
    second: SecondLook | None = None

    @property
    def is_modern(self) -> bool:
        return self.revision == MODERN

    @property
    def capabilities(self) -> Mapping[str, object]:
        found = self.opening.capabilities
        return found if is_object(found) else {}

    @property
    def settings(self) -> Mapping[str, object] | None:
        """The extension's settings, where they are declared as they should be or nearly so."""
        for place in ("extensions", "experimental"):
            declared = self.capabilities.get(place)
            if is_object(declared) and EXTENSION_ID in declared:
                found = declared[EXTENSION_ID]
                if not is_object(found):
                    return {}
                nested = found.get("config")
                return nested if is_object(nested) else found
        return None

    @property
    def reads_directories(self) -> bool:
        return bool(self.settings) and (self.settings or {}).get(DIRECTORY_READ_SETTING) is True

    @property
    def has_steady_listing(self) -> bool:
        """Whether the listing is complete, and the same when asked again."""
        again = self.relisting
        return (
            again is not None
            and self.listing.is_complete
            and same_entry(self.listing.items("skills"), again.items("skills"))
        )

    @property
    def listing_changed(self) -> bool:
        """Whether two complete listings differ."""
        again = self.relisting
        is_complete = again is not None and again.is_complete and self.listing.is_complete
        return is_complete and not self.has_steady_listing

    def changes(self, uri: SkillUri) -> bool:
        """Whether two reads of a file gave different bytes."""
        one, other = self.files.get(uri), self.again.get(uri)
        return bool(one and other and one.digest and other.digest and one.digest != other.digest)


class Pager(Protocol):
    """Reads a listing to its end."""

    async def pages(self, method: str, params: JsonObject, key: str) -> Paged: ...


class DirectoryWalk:
    """Level by level, each directory once. Children that are not below their parent are never followed."""

    def __init__(self, reader: Pager, skills: Sequence[EntryView], *, is_whole: bool) -> None:
        self._reader = reader
        self._roots = [entry.root for entry in skills if entry.root is not None]
        self._files = [(entry.root, uri) for entry in skills if entry.root for uri in entry.files]
        # With only some skills to be checked, the rest of the tree is not read.
        self._is_whole = is_whole
        self._announced: set[SkillUri] = set()
        self.seen: dict[SkillUri, DirectorySeen] = {}
        self.too_deep = ""

    async def run(
        self,
        each: Callable[[str, Iterable[SkillUri], Callable[[SkillUri], Awaitable[None]]], Awaitable[None]],
    ) -> None:
        level = set(self._roots)
        for root in self._roots:
            level |= set(ancestors(root))
        for root, file in self._files:
            level |= {up for up in ancestors(file) if is_inside(up, root)}
        most = DEFAULT_LIMITS.verified_directories
        while level and len(self.seen) < most:
            await each("walking directories", sorted(level)[: most - len(self.seen)], self._read)
            level = set(self._next())

    async def _read(self, uri: SkillUri) -> None:
        paged = await self._reader.pages(METHOD_READ_DIRECTORY, {"uri": uri}, "resources")
        children = tuple(_child(item) for item in paged.items("resources"))
        self.seen[uri] = DirectorySeen(uri, paged, children, uri in self._announced)

    def _next(self) -> Iterator[SkillUri]:
        for directory in list(self.seen.values()):
            for child in directory.children:
                uri = child.uri
                if (
                    uri is None
                    or uri in self.seen
                    or not child.is_directory
                    or not is_direct(uri, directory.uri)
                ):
                    continue
                if len(split_uri(uri).segments) > DEFAULT_LIMITS.directory_depth:
                    self.too_deep = shown_uri(uri)
                elif self._is_whole or any(uri == root or is_inside(uri, root) for root in self._roots):
                    self._announced.add(uri)
                    yield uri


def ancestors(uri: SkillUri) -> Iterator[SkillUri]:
    """The directories above a URI, down to the authority (DIR-2)."""
    while (up := uri.rpartition("/")[0]) and not up.endswith("/"):
        uri = SkillUri(up)
        yield uri


def is_direct(uri: SkillUri, directory: SkillUri) -> bool:
    return is_inside(uri, directory) and "/" not in uri[len(directory) + 1 :]


def _child(raw: object) -> ChildSeen:
    asked = raw.get("uri") if is_object(raw) else None
    if not isinstance(asked, str):
        return ChildSeen(raw, None, "")
    try:
        # FMT-4: a slash at the end is a violation, not a reason to stop.
        return ChildSeen(raw, parse_uri(asked.removesuffix("/")), asked)
    except FormatError:
        return ChildSeen(raw, None, asked)
