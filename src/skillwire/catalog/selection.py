"""Selection: which skills of a server the user wants, by name.

Every rule narrows. A skill passes if each list in `include` has a matching pattern, and no pattern in
`exclude` matches. So rules of several files can be combined in any order, and none can allow what
another excludes.
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
    """Patterns such as `refund*`, ignoring case. `include` has one list for each file that has rules."""

    include: tuple[tuple[str, ...], ...] = ()
    exclude: tuple[str, ...] = ()

    def narrowed(self, *, include: Iterable[str] | None = None, exclude: Iterable[str] = ()) -> Selection:
        """Add rules: includes are intersected, excludes merged; an empty include denies all."""
        included = self.include if include is None else (*self.include, tuple(include))
        return Selection(included, (*self.exclude, *exclude))

    def admits(self, entry: SkillEntry) -> bool:
        """Whether the user wants this skill."""
        if not self.include and not self.exclude:
            return True
        # Both the name as the server sent it and as it is shown: hidden characters must not evade a pattern.
        names = {fold_handle(entry.name), fold_handle(plain_name(entry))}
        return all(_fits(names, patterns) for patterns in self.include) and not _fits(names, self.exclude)


EVERYTHING: Final = Selection()


def _fits(names: Iterable[str], patterns: Iterable[str]) -> bool:
    folded = [fold_handle(pattern) for pattern in patterns]
    return any(fnmatchcase(name, pattern) for name in names for pattern in folded)
