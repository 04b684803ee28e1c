"""PageLimits: when to stop following the cursors of a paged listing (LST-1, SEC-9)."""

from __future__ import annotations

from enum import Enum

from skillwire.limits import DEFAULT_LIMITS, Limits


class Stop(Enum):
    """Why no further page is requested."""

    LAST = "last"
    """It is complete: the page has no cursor."""
    LOOP = "loop"
    """The page has a cursor that an earlier page had."""
    PAGES = "pages"
    """It has more pages than `Limits.pages`."""
    ITEMS = "items"
    """It has more items than `Limits.entries_per_server`."""


class PageLimits:
    """Counts the pages and items of one listing. Create a new one for each listing."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._cursors: set[str] = set()
        self.pages = 0
        self.items = 0

    def stop(self, next_cursor: str | None, items: int) -> Stop | None:
        """Count a page. Returns why to stop after it, or `None` to request `next_cursor`."""
        self.pages += 1
        self.items += items
        if self.items > self._limits.entries_per_server:
            return Stop.ITEMS
        if not next_cursor:
            return Stop.LAST
        if next_cursor in self._cursors:
            return Stop.LOOP
        if self.pages >= self._limits.pages:
            return Stop.PAGES
        self._cursors.add(next_cursor)
        return None
