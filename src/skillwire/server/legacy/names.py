"""SkillNames: the names by which tools and prompts call skills."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cached_property
from typing import Final

from skillwire.errors import AmbiguousName, SkillNotFound
from skillwire.issues import shown
from skillwire.server.catalog import Catalog
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SCHEME, SkillUri, skill_root, split_uri


class SkillNames:
    """The names of skills in tools and prompts. `names` are those of the listed skills, in order.

    A skill with a unique name is called by it. All others are called by their path, such as
    `team/release-notes`, which works for every skill.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        shared = Counter(entry.name for entry in catalog.entries)
        self.names: dict[str, SkillEntry] = {
            entry.name if shared[entry.name] == 1 else skill_path(entry): entry for entry in catalog.listed
        }

    @cached_property
    def _by_path(self) -> dict[str, SkillEntry]:
        return {skill_path(entry): entry for entry in self.catalog.entries}

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
            raise AmbiguousName(requested, map(skill_path, called))
        near = get_close_matches(requested, self.names, n=3) if len(self.names) <= _MANY else []
        hint = f"; perhaps {_either(near)}" if near else ""
        raise SkillNotFound(f"There is no skill called {shown(requested)!r}{hint}", uri=requested)


_MANY: Final = 2000

PREFIX: Final = f"{SCHEME}://"


def skill_path(entry: SkillEntry) -> str:
    """The path of a skill, as in `team/release-notes`."""
    root = skill_root(entry.uri)
    if "%" not in root and root.startswith(PREFIX):
        return root[len(PREFIX) :]  # Fast, because there may be ten thousand.
    parts = split_uri(root)
    return "/".join((parts.authority, *parts.segments))


def _either(names: Iterable[str]) -> str:
    return " or ".join(names)
