"""The files of a skill as a tree of folders. It does no input or output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from skillwire.trust.paths import shown_path
from skillwire.ui.items import ListedFile

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
    file: ListedFile
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
    files: Sequence[ListedFile], shown: Iterable[ListedFile], current: str
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
