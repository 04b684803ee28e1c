"""What may be shown of a held skill's directories: never more than its entry lists (VER-4, SEC-10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from skillwire.errors import FormatError
from skillwire.skill.entries import DYNAMIC, NO_SIZE
from skillwire.skill.uris import SkillUri, child_uri, is_inside, parse_uri, path_below, shown_uri, skill_root
from skillwire.trust.verify import CheckedEntry

CHANGED = "the skill changed since its entry was read: refresh it and approve it again to see the new files"


class Child(Protocol):
    """One child in a directory read."""

    @property
    def uri(self) -> str: ...
    @property
    def is_directory(self) -> bool: ...


@dataclass(frozen=True, slots=True, order=True)
class ListedChild:
    """A child that may be shown. `size` is that of the entry; `None` for directories and dynamic skills."""

    uri: SkillUri
    name: str
    is_directory: bool
    size: int | None = None


@dataclass(frozen=True, slots=True)
class DirectoryView:
    """A directory of a held skill, safe to show."""

    children: tuple[ListedChild, ...]
    unlisted: tuple[SkillUri, ...] = ()
    """VER-4: inside the skill, but not in the held entry. Neither shown as files of the skill nor read."""
    rejected: tuple[str, ...] = ()
    """SEC-10: outside the directory, of another origin, or not a URI; safe for a message."""

    @property
    def remark(self) -> str:
        """What to tell the user if the skill no longer matches its entry; otherwise empty."""
        return CHANGED if self.unlisted else ""


def listed_children(entry: CheckedEntry, directory: SkillUri) -> DirectoryView:
    """The direct children of a directory, from the entry alone; empty for a dynamic skill."""
    if entry.resources is DYNAMIC:
        return DirectoryView(())
    children: dict[SkillUri, ListedChild] = {}
    for resource in entry.resources:
        if not is_inside(resource.uri, directory):
            continue
        first, *deeper = path_below(resource.uri, directory)
        uri = child_uri(directory, first)
        size = None if deeper or resource.size == NO_SIZE else resource.size
        children[uri] = ListedChild(uri, first, bool(deeper), size)
    return DirectoryView(tuple(sorted(children.values())))


def filter_directory(entry: CheckedEntry, directory: SkillUri, children: Iterable[Child]) -> DirectoryView:
    """What may be shown of a server's response to a directory read of a held skill."""
    root = skill_root(entry.uri)
    listed = {child.uri: child for child in listed_children(entry, directory).children}
    kept: dict[SkillUri, ListedChild] = {}
    unlisted: list[SkillUri] = []
    rejected: list[str] = []
    for child in children:
        try:
            uri = parse_uri(child.uri)
        except FormatError:
            rejected.append(shown_uri(child.uri))
            continue
        # SEC-10: a direct child of this directory, which is itself in the skill.
        direct = is_inside(uri, directory) and len(path_below(uri, directory)) == 1
        if not direct or not (directory == root or is_inside(directory, root)):
            rejected.append(shown_uri(child.uri))
        elif entry.resources is DYNAMIC:
            kept[uri] = ListedChild(uri, path_below(uri, directory)[0], child.is_directory)
        elif uri in listed and listed[uri].is_directory == child.is_directory:
            kept[uri] = listed[uri]
        else:
            # VER-4: a directory read never extends the manifest.
            unlisted.append(uri)
    return DirectoryView(tuple(sorted(kept.values())), tuple(unlisted), tuple(rejected))
