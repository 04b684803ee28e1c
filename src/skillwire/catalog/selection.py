"""Selection: which skills of a server the user wants to see, by name.

Every rule narrows. A skill passes when each list of wanted names has a pattern that fits, and no pattern of
unwanted names does. So rules of several places can be put together in any order, and none can let in what
another keeps out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from skillwire.catalog.naming import fold_handle, plain_name
from skillwire.skill.entries import SkillEntry


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns such as `refund*`, compared without case. `wanted` has a list for each place with a say."""

    wanted: tuple[tuple[str, ...], ...] = ()
    unwanted: tuple[str, ...] = ()

    def narrowed(self, *, include: Iterable[str] | None = None, exclude: Iterable[str] = ()) -> Selection:
        """With one more place's rules: includes intersect, excludes unite, an empty include denies all."""
        wanted = self.wanted if include is None else (*self.wanted, tuple(include))
        return Selection(wanted, (*self.unwanted, *exclude))

    def admits(self, entry: SkillEntry) -> bool:
        """Whether the user wants to see this skill."""
        # The name as the server spells it, and as it is shown: hidden characters are no way past a pattern.
        names = {fold_handle(entry.name), fold_handle(plain_name(entry))}
        return all(_fits(names, patterns) for patterns in self.wanted) and not _fits(names, self.unwanted)


EVERYTHING: Final = Selection()


def _fits(names: Iterable[str], patterns: Iterable[str]) -> bool:
    folded = [fold_handle(pattern) for pattern in patterns]
    return any(fnmatchcase(name, pattern) for name in names for pattern in folded)
