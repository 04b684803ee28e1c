"""SkillNames: the names by which tools and prompts call the skills of a catalog.

A skill that shares its name with no other goes by it. Others go by their path, such as `team/release-notes`;
the path works for every skill.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cached_property

from skillwire.errors import AmbiguousName, SkillNotFound
from skillwire.issues import shown
from skillwire.server.catalog import Catalog
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SCHEME, SkillUri, skill_root, split_uri


class SkillNames:
    """The names of one catalog. `names` are those of the skills that are listed, in their order."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        shared = Counter(entry.name for entry in catalog.entries)
        self.names: dict[str, SkillEntry] = {
            entry.name if shared[entry.name] == 1 else path_of(entry): entry for entry in catalog.listed
        }

    @cached_property
    def _by_path(self) -> dict[str, SkillEntry]:
        return {path_of(entry): entry for entry in self.catalog.entries}

    @cached_property
    def _by_name(self) -> dict[str, list[SkillEntry]]:
        found: defaultdict[str, list[SkillEntry]] = defaultdict(list)
        for entry in self.catalog.entries:
            found[entry.name].append(entry)
        return found

    def find(self, name: str) -> SkillEntry:
        """The skill of a name, a path or a URI; else `SkillNotFound`, or `AmbiguousName` with all paths."""
        wanted = name.strip().strip("/")
        entry = self._by_path.get(wanted) or self.catalog.by_uri.get(SkillUri(wanted))
        if entry is not None:
            return entry
        called = self._by_name.get(wanted, [])
        if len(called) == 1:
            return called[0]
        if called:
            raise AmbiguousName(wanted, map(path_of, called))
        near = get_close_matches(wanted, self.names, n=3) if len(self.names) <= _MANY else []
        hint = f"; perhaps {_either(near)}" if near else ""
        raise SkillNotFound(f"There is no skill called {shown(wanted)!r}{hint}", uri=wanted)


_MANY = 2000
_PREFIX = f"{SCHEME}://"


def path_of(entry: SkillEntry) -> str:
    """The path of a skill, as in `team/release-notes`."""
    root = skill_root(entry.uri)
    if "%" not in root and root.startswith(_PREFIX):
        return root[len(_PREFIX) :]  # The shortest way, for ten thousand of them.
    parts = split_uri(root)
    return "/".join((parts.authority, *parts.segments))


def _either(names: Iterable[str]) -> str:
    return " or ".join(names)
