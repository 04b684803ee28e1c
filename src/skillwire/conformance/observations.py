"""Observations: what a server answered on one protocol revision. The checks read nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from skillwire.conformance.channels import Unsolicited
from skillwire.conformance.contents import FileSeen
from skillwire.conformance.entries import EntryView
from skillwire.conformance.messages import Answer
from skillwire.conformance.neighbors import Neighbor
from skillwire.conformance.session import MODERN, Opening, Revision
from skillwire.json_types import is_list, is_object
from skillwire.skill.files import DIRECTORY
from skillwire.skill.uris import SkillUri
from skillwire.wire.v1 import DIRECTORY_READ_SETTING, EXTENSION_ID


class Probe(Enum):
    """Requests that a server has to refuse."""

    LIST_CURSOR = auto()
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
    DIRECTORY_UNKNOWN = auto()
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
class Candidate:
    """A skill that is not listed, but that the server shows or names. `answer` is that of `skills/get`."""

    uri: SkillUri
    answer: Answer
    is_named: bool = False
    """Whether the server's instructions name it."""


@dataclass(frozen=True, slots=True)
class Burst:
    """The same request sent many times concurrently: how many different answers came."""

    method: str
    about: str
    times: int
    different: int


@dataclass(frozen=True, slots=True)
class SecondLook:
    """What a new connection answered about one skill before anything was listed on it."""

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
    candidates: tuple[Candidate, ...] = ()
    directories: dict[SkillUri, DirectorySeen] = field(default_factory=dict[SkillUri, DirectorySeen])
    too_deep: str = ""
    files: dict[SkillUri, FileSeen] = field(default_factory=dict[SkillUri, FileSeen])
    again: dict[SkillUri, FileSeen] = field(default_factory=dict[SkillUri, FileSeen])
    probes: dict[Probe, Answer] = field(default_factory=dict[Probe, Answer])
    bursts: tuple[Burst, ...] = ()
    resources: Paged = Paged()
    failures: tuple[Answer, ...] = ()
    unsolicited: Unsolicited = field(default_factory=Unsolicited)
    skipped: int = 0
    """Requests that were not sent, because the server was gone or the budget was spent."""
    get_neighbors: list[tuple[Neighbor, Answer]] = field(default_factory=list[tuple[Neighbor, Answer]])
    read_neighbors: list[tuple[Neighbor, Answer]] = field(default_factory=list[tuple[Neighbor, Answer]])
    directory_neighbors: list[tuple[Neighbor, Answer]] = field(default_factory=list[tuple[Neighbor, Answer]])
    neighbor_file: SkillUri | None = None
    """The file whose neighbors were read."""
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

    def changes(self, uri: SkillUri) -> bool:
        """Whether two reads of a file gave different bytes."""
        one, other = self.files.get(uri), self.again.get(uri)
        return bool(one and other and one.digest and other.digest and one.digest != other.digest)
