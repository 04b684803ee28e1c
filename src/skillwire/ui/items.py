"""Overview and SkillItem: the skills of a host with their status, searched, filtered and divided into pages.

Everything in an item is text; templates escape all of it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from urllib.parse import urlencode

import anyio
from markupsafe import Markup

from skillwire.consent import State
from skillwire.consent.states import UNCHECKED
from skillwire.errors import SkillwireError
from skillwire.host import SkillReview
from skillwire.install.lock import is_script
from skillwire.limits import MIB
from skillwire.skill import DYNAMIC, NO_SIZE, path_below, skill_root
from skillwire.text import split_hidden
from skillwire.trust import OriginKind, Scan, SignatureState, SignatureVerdict, requested_tools, shown_path
from skillwire.ui.code import reveal
from skillwire.ui.scans import SkillScans, scan_rows
from skillwire.words import counted, human_size

if TYPE_CHECKING:
    from skillwire.catalog import HostSkill
    from skillwire.host import SkillHost

_DESCRIPTION_CHARS: Final = 1024
_TONES: Final = {
    State.APPROVED: "ok",
    State.ALLOWED: "ok",
    State.NOT_APPROVED: "new",
    State.CHANGED: "wait",
    State.DECLINED: "bad",
    State.REFUSED: "bad",
}
_ORIGINS: Final = {OriginKind.LOCAL: "local", OriginKind.PROJECT: "project", OriginKind.MCP: "MCP"}


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that differs from what was approved."""

    kind: str
    """The value of its `ChangeKind`, which the templates show and use as a class."""
    path: str


@dataclass(frozen=True, slots=True)
class FileItem:
    """A file of a skill."""

    path: str
    """For display: an unusual name is percent-encoded. Links have `real_path`, which is the name as it
    is."""
    real_path: str
    size: str
    """For display, such as `1.2 MB`."""
    bytes: int
    """0 when an older dialect does not say it."""
    digest: str


@dataclass(frozen=True)
class SkillItem:
    """One skill on a page."""

    review: SkillReview
    verdict: SignatureVerdict | None = None
    """Who signed it; `None` when that was not checked yet."""
    asked_by: tuple[str, ...] = ()
    """The callers of a gateway who asked for it."""
    hidden: int | None = None
    """How many hidden characters its texts have; `None` when that was not checked."""
    new_tools: tuple[str, ...] = ()
    """The tools that it asks for and did not ask for when it was approved."""

    scans: tuple[Scan, ...] | None = ()
    """The findings of the scanners of the policy; `None` while it is not scanned."""

    @property
    def scan_rows(self) -> tuple[tuple[str, str, list[Markup]], ...]:
        return scan_rows(self.scans or ())

    @property
    def review_reasons(self) -> tuple[str, ...]:
        """Why it must be opened before it is approved, each in a few words; none if it need not be."""
        if not self.can_decide:
            return ()
        found: list[str] = []
        if self.hidden is None:
            found.append("text not checked yet")
        elif self.hidden:
            found.append("unreadable here" if self.hidden < 0 else counted(self.hidden, "hidden character"))
        if self.scans is None:
            found.append("not scanned yet")
        elif any(scan.problem for scan in self.scans):
            found.append("not scanned")
        elif findings := sum(count for scan in self.scans for level, count in scan.counts if level):
            found.append(counted(findings, "finding"))
        if self.scripts:
            found.append(counted(len(self.scripts), "script"))
        if self.new_tools:
            found.append(f"asks for {counted(len(self.new_tools), 'tool')}")
        if self.signer_change:
            found.append("signer changed")
        elif self.verdict is None:
            found.append("signature not checked yet")
        elif self.signer_tone == "removed":
            found.append("unknown signer")
        return tuple(found)

    @property
    def signer(self) -> str:
        """Who signed it, in words."""
        return "signature not checked yet" if self.verdict is None else str(self.verdict)

    @property
    def signer_tone(self) -> str:
        if self.verdict is None or self.verdict.state is SignatureState.UNSIGNED:
            return ""
        return "added" if self.verdict.is_signed else "removed"

    @property
    def signer_change(self) -> str:
        return self.review.status.signer_change

    @property
    def handle(self) -> str:
        return self.review.skill.handle

    @property
    def label(self) -> str:
        return self.review.skill.origin.label

    @property
    def uri(self) -> str:
        return self.review.skill.uri

    @cached_property
    def id(self) -> str:
        """Its element id in a page, the same for as long as it is the same skill."""
        return "s" + hashlib.sha256(f"{self.label}\0{self.uri}".encode()).hexdigest()[:16]

    @cached_property
    def digest(self) -> str:
        return self.review.digest or ""

    @property
    def key(self) -> dict[str, str | int]:
        """The query that identifies it in an address."""
        return {"on": self.label, "uri": self.uri}

    def file_href(self, path: str) -> str:
        return address("/skill", {**self.key, "file": path})

    @property
    def href(self) -> str:
        return address("/skill", self.key)

    @property
    def diff_href(self) -> str:
        return address("/diff", self.key)

    @cached_property
    def description(self) -> Markup:
        """On one line, with every hidden character as a mark that names it."""
        text = " ".join(self.review.skill.entry.description.split())
        more = Markup("…") if len(text) > _DESCRIPTION_CHARS else Markup()
        return reveal(text[:_DESCRIPTION_CHARS]) + more

    @property
    def origin_words(self) -> str:
        origin = self.review.skill.origin
        return f"{_ORIGINS[origin.kind]} · {origin.label}"

    @property
    def state(self) -> str:
        return self.review.status.state.value

    @property
    def state_words(self) -> str:
        return self.review.status.words

    @property
    def is_disabled(self) -> bool:
        return not self.review.skill.enabled

    @property
    def state_sentence(self) -> str:
        return self.review.sentence

    @property
    def tone(self) -> str:
        return _TONES.get(self.review.status.state, "") if self.review.skill.enabled else ""

    @property
    def can_decide(self) -> bool:
        """Whether it can be approved here: a skill with a fixed set of files that is not approved."""
        waits = self.review.waits or self.review.status.state is State.DECLINED
        return waits and bool(self.digest)

    @property
    def is_approved(self) -> bool:
        return self.review.status.state is State.APPROVED

    @property
    def grant_words(self) -> str:
        given = self.review.granted
        return (
            f"Granted: {', '.join(given)}."
            if given
            else "It may be read. Neither tools nor running code are granted."
        )

    @property
    def tools(self) -> tuple[str, ...]:
        return self.review.requested_tools

    @cached_property
    def scripts(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files if is_script(file.real_path, b""))

    @cached_property
    def files(self) -> tuple[FileItem, ...]:
        entry = self.review.skill.entry
        if entry.resources is DYNAMIC:
            return ()
        root = skill_root(entry.uri)
        listed: list[FileItem] = []
        for resource in entry.resources:
            path = "/".join(path_below(resource.uri, root))
            size = "" if resource.size == NO_SIZE else human_size(resource.size)
            listed.append(FileItem(shown_path(path), path, size, max(resource.size, 0), resource.digest))
        return tuple(sorted(listed, key=lambda file: (file.real_path != "SKILL.md", file.real_path)))

    @property
    def file_count(self) -> str:
        entry = self.review.skill.entry
        return "dynamic" if entry.resources is DYNAMIC else f"{len(entry.resources):,}"

    @property
    def files_words(self) -> str:
        entry = self.review.skill.entry
        if entry.resources is DYNAMIC:
            return ""
        count = len(entry.resources)
        return f"{count:,} {'file' if count == 1 else 'files'}, {human_size(entry.total_size)}"

    @property
    def remarks(self) -> list[str]:
        return [
            *([f"requested by {', '.join(self.asked_by)}"] if self.asked_by else []),
            *(
                ["nested in another skill: it needs a decision of its own"]
                if self.review.status.nested
                else []
            ),
            *(["checked when loaded"] if self.review.skill.entry.is_dynamic else []),
            *([self.review.skill.entry.dialect.short] if self.review.skill.entry.dialect.short else []),
        ]

    @cached_property
    def changes(self) -> tuple[ChangedFile, ...]:
        root = skill_root(self.review.skill.uri)
        return tuple(
            ChangedFile(change.kind.value, shown_path("/".join(path_below(change.uri, root))))
            for change in self.review.status.changes
        )


def address(path: str, query: Mapping[str, str | int]) -> str:
    """A path of this server with a query; what is empty is left out."""
    given = {name: value for name, value in query.items() if value not in ("", 0)}
    return f"{path}?{urlencode(given)}" if given else path


class PageLinks:
    """The addresses of one page that differ in one value."""

    def __init__(self, path: str, query: Mapping[str, str | int], name: str = "page") -> None:
        self._path = path
        self._query = query
        self._name = name

    def __call__(self, value: str | int) -> str:
        return address(self._path, {**self._query, self._name: value})


_DEEPEST: Final = 8
"""Folders are nested at most this deep; the rest of a longer path stays in the name of the file."""
_OPEN_FILES: Final = 40
"""A skill with at most this many files is shown with all folders open."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file in a folder."""

    name: str
    """Cleaned, for display. Below the deepest folder that is shown it is the rest of the path, with its
    slashes."""
    file: FileItem
    is_current: bool
    """Whether it is the file that is open on the page."""


@dataclass(slots=True)
class Folder:
    """A folder with what is in it, in the order of the files."""

    name: str
    count: int
    """How many files are below it, on this page of the list or another."""
    is_open: bool
    nodes: list[Folder | Leaf] = field(default_factory=list["Folder | Leaf"])


def file_tree(
    files: Sequence[FileItem], shown: Iterable[FileItem], current: str
) -> tuple[Folder | Leaf, ...]:
    """The tree of the files that are shown, of all `files` of a skill.

    The folders above the current file are open; all are in a skill with few files.
    """
    counts = Counter(folder for file in files for folder in _folders(file.real_path))
    above = set(_folders(current))
    top = Folder("", len(files), is_open=True)
    known = {"": top}
    for file in shown:
        parent, path = top, ""
        for path in _folders(file.real_path):
            if path not in known:
                is_open = len(files) <= _OPEN_FILES or path in above
                known[path] = Folder(shown_path(path.rpartition("/")[2]), counts[path], is_open)
                parent.nodes.append(known[path])
            parent = known[path]
        name = file.real_path[len(path) + 1 :] if path else file.real_path
        parent.nodes.append(Leaf(shown_path(name), file, file.real_path == current))
    return tuple(top.nodes)


def _folders(path: str) -> list[str]:
    """The paths of the folders above a file, from the top."""
    parts = path.split("/")[:-1][:_DEEPEST]
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


Item = TypeVar("Item")
_SEARCHED: Final = 500
_MOST_SIGNATURES: Final = 2_000
_MOST_ASKED: Final = 10_000
_MOST_TEXTS: Final = 20_000
_MOST_FILES: Final = 32
_MOST_BYTES: Final = MIB
"""A skill with more files or bytes is not checked for the inbox: it has to be opened."""
_TEXT_SECONDS: Final = 0.5
_TOGETHER: Final = 8
NOT_SIGNED: Final = "not signed"
_SIGNER_WORDS: Final = {
    SignatureState.UNSIGNED: NOT_SIGNED,
    SignatureState.UNKNOWN: "unknown publisher",
    SignatureState.DIFFERS: "files differ from the signature",
}
_ORDER: Final = {State.CHANGED: 0, State.NOT_APPROVED: 1}


@dataclass(frozen=True, slots=True)
class ItemPage(Generic[Item]):
    """Some of many items."""

    rows: Sequence[Item]
    number: int
    count: int
    total: int


def paged(items: Sequence[Item], number: int, size: int) -> ItemPage[Item]:
    """One page of items; the nearest one when there is no such page."""
    count = max(-(-len(items) // size), 1)
    number = min(max(number, 1), count)
    return ItemPage(items[(number - 1) * size : number * size], number, count, len(items))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which skills to show. An empty field matches all."""

    query: str = ""
    origin: str = ""
    state: str = ""
    signer: str = ""

    def admits(self, review: SkillReview) -> bool:
        """Whether a skill has the requested origin and state."""
        return self.origin in ("", review.skill.origin.label) and self.state in (
            "",
            review.status.state.value,
        )


class Overview:
    """Reviews of all skills, rebuilt when a listing or an approval changes."""

    def __init__(self, host: SkillHost) -> None:
        self._host = host
        self._skills: tuple[HostSkill, ...] | None = None
        self._revisions: tuple[int, ...] = ()
        self._reviews: tuple[SkillReview, ...] = ()
        self._signers: tuple[object, int, list[str]] = (None, 0, [])
        self._asked: dict[tuple[str, str], list[str]] = {}
        self.checked = 0
        """How often signatures were checked."""
        self.text_requested = anyio.Event()
        """Set when there are skills whose texts are to be checked."""
        self._hidden: OrderedDict[str, int] = OrderedDict()
        self._unchecked: dict[str, SkillReview] = {}
        self._texts_checked = anyio.Event()
        self.scans = SkillScans(host)

    def reviews(self) -> tuple[SkillReview, ...]:
        """Every skill with its approval status, local ones first."""
        skills, approvals = self._host.skills(disabled=True), self._host.consent.revision
        revisions = (
            approvals,
            self._host.signatures.revision,
            self._host.rules.revision,
            self._host.decide.scans.revision,
        )
        if skills is not self._skills or revisions != self._revisions:
            self._reviews = tuple(self._host.decide.review(skill) for skill in skills)
            self._skills, self._revisions = skills, revisions
        return self._reviews

    async def prepare(self) -> None:
        """Check the signatures without which a state would not be true: those of origins that require one."""
        await self._host.signatures.check_all()

    def ask(self, label: str, uri: str, caller: str) -> None:
        """Record that a caller of a gateway asked for a skill."""
        callers = self._asked.setdefault((label, uri), [])
        name = caller or "your client"
        if name not in callers:
            callers.append(name)
        while len(self._asked) > _MOST_ASKED:
            del self._asked[next(iter(self._asked))]

    def asked_by(self, review: SkillReview) -> tuple[str, ...]:
        """The callers of a gateway who asked for a skill."""
        return tuple(self._asked.get((review.skill.origin.label, review.skill.uri), ()))

    def waiting(self, origin: str = "") -> list[SkillReview]:
        """Return the skills to decide about: what was asked for, what changed, what is new."""
        found = [one for one in self.reviews() if one.waits and origin in ("", one.skill.origin.label)]
        return sorted(found, key=lambda one: (not self.asked_by(one), _ORDER[one.status.state]))

    def not_yet_waiting(self) -> list[str]:
        """Return what is neither decided nor in the inbox, in words: there is nothing to decide about yet."""
        unchecked = sum(one.skill.enabled and one.status.reason == UNCHECKED for one in self.reviews())
        return [f"The signatures of {counted(unchecked, 'skill')} are being checked."] if unchecked else []

    def waiting_by_origin(self) -> list[tuple[str, int]]:
        """How many skills of each origin need a decision."""
        return sorted(Counter(review.skill.origin.label for review in self.waiting()).items())

    def item(self, review: SkillReview, caller: str = "") -> SkillItem:
        """A skill as a page shows it, to the user or to a caller of a gateway."""
        skill, consent = review.skill, self._host.consent
        shown = consent.record(consent.key(skill.origin, skill.uri, caller)).shown
        before = requested_tools(shown.frontmatter.get("allowed-tools")) if shown is not None else ()
        return SkillItem(
            review,
            self._host.signatures.known(skill),
            self.asked_by(review),
            hidden=self._hidden.get(review.digest or ""),
            new_tools=tuple(tool for tool in review.requested_tools if tool not in before),
            scans=self.scans.known(review),
        )

    async def request_texts(self, reviews: Iterable[SkillReview]) -> None:
        """Have the texts of these skills checked for hidden characters, and wait for that for a moment."""
        unknown = {one.digest: one for one in reviews if one.digest and one.digest not in self._hidden}
        if not unknown:
            return
        self._unchecked |= unknown
        checked = self._texts_checked
        self.text_requested.set()
        with anyio.move_on_after(_TEXT_SECONDS):
            await checked.wait()

    async def check_texts(self) -> bool:
        """Count the hidden characters of what was requested. Returns whether anything was checked."""
        self.text_requested = anyio.Event()
        unchecked, self._unchecked = self._unchecked, {}
        limiter = anyio.CapacityLimiter(_TOGETHER)

        async def check(digest: str, review: SkillReview) -> None:
            async with limiter:
                self._hidden[digest] = await self._count_hidden(review)

        async with anyio.create_task_group() as tasks:
            for digest, review in unchecked.items():
                tasks.start_soon(check, digest, review)
        while len(self._hidden) > _MOST_TEXTS:
            self._hidden.popitem(last=False)
        done, self._texts_checked = self._texts_checked, anyio.Event()
        done.set()
        return bool(unchecked)

    async def _count_hidden(self, review: SkillReview) -> int:
        """The hidden characters in all texts of a skill; -1 if they cannot be read, or are too many to."""
        skill = review.skill
        entry = skill.entry
        if entry.resources is DYNAMIC or len(entry.resources) > _MOST_FILES or entry.total_size > _MOST_BYTES:
            return -1
        root, found = skill_root(entry.uri), 0
        for resource in entry.resources:
            path = "/".join(path_below(resource.uri, root))
            try:
                file = await self._host.files.preview(skill.uri, path, server=skill.origin.label)
            except SkillwireError:
                return -1
            found += sum(len(run) for run, is_hidden in split_hidden(file.text or "") if is_hidden)
        return found

    def signers(self) -> list[str]:
        """The signers that occur: publishers, and the words for skills without a good signature."""
        if self._signers[0] is not self.reviews() or self._signers[1] != self.checked:
            found = {self.signer_of(review) for review in self.reviews()}
            self._signers = (self.reviews(), self.checked, sorted(found))
        return self._signers[2] if self._signers[2] != [NOT_SIGNED] else []

    def signer_of(self, review: SkillReview) -> str:
        verdict = self._host.signatures.known(review.skill)
        if verdict is None:
            return "not checked"
        return verdict.publisher if verdict.is_signed else _SIGNER_WORDS.get(verdict.state, "not valid")

    async def check_signatures(self) -> None:
        """Check the signatures that have not been checked yet; one small file each."""
        signatures = self._host.signatures
        unknown = [one.skill for one in self.reviews() if signatures.known(one.skill) is None]
        await signatures.check_all(unknown[:_MOST_SIGNATURES])
        self.checked += bool(unknown)

    def origins(self) -> list[str]:
        return sorted({review.skill.origin.label for review in self.reviews()})

    def states(self) -> list[State]:
        """The states that occur."""
        present = {review.status.state for review in self.reviews()}
        return [state for state in State if state in present]

    async def find(self, wanted: Filter) -> list[SkillReview]:
        """The matching skills, best first if words are searched for."""
        reviews = self.reviews()
        if not wanted.query.strip():
            return self._signed_by(wanted.signer, [review for review in reviews if wanted.admits(review)])
        by_key = {review.skill.key: review for review in reviews}
        by_handle = {review.skill.handle: review for review in reviews}
        found: list[SkillReview] = []
        for match in await self._host.search(wanted.query, limit=_SEARCHED):
            # A page lists every skill; copies with the same text are left out only for a model.
            named = (by_key.get(match.skill.key), *(by_handle.get(handle) for handle in match.copies))
            found += [review for review in named if review is not None and wanted.admits(review)]
        return self._signed_by(wanted.signer, found)

    def _signed_by(self, signer: str, reviews: list[SkillReview]) -> list[SkillReview]:
        return [review for review in reviews if self.signer_of(review) == signer] if signer else reviews
