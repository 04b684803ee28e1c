"""SkillItem: a skill as the pages show it. Everything in it is text; templates escape all of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup

from skillwire.consent import State
from skillwire.host import SkillReview
from skillwire.install.lock import is_script
from skillwire.skill import DYNAMIC, NO_SIZE, path_below, skill_root
from skillwire.trust import OriginKind, SignatureState, SignatureVerdict, shown_path
from skillwire.ui.code import reveal
from skillwire.words import counted, human_size

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

    @property
    def badges(self) -> tuple[str, ...]:
        """Why it must be opened before it is approved, each in a few words; none if it need not be."""
        if not self.can_decide:
            return ()
        found: list[str] = []
        if self.hidden is None:
            found.append("text not checked yet")
        elif self.hidden:
            found.append("unreadable here" if self.hidden < 0 else counted(self.hidden, "hidden character"))
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
