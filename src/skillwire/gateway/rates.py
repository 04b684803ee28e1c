"""RateLimit: how many requests a caller may make, so that one who makes too many does not affect others."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

_MOST_CALLERS: Final = 10_000


class RateLimit:
    """A steady number of requests a minute for each caller, with room for a burst; and a number of concurrent
    ones.

    The burst is what a caller may make in ten seconds. With 0 there is no limit.
    """

    def __init__(self, per_minute: int, at_once: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_minute / 60
        self._burst = max(10.0, per_minute / 6)
        self._at_once = at_once
        self._clock = clock
        self._room: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._open: dict[str, int] = {}

    def wait_seconds(self, caller: str) -> float:
        """Count a request; 0 if it may be served, and otherwise in how many seconds the next may be."""
        if not self._rate:
            return 0.0
        now = self._clock()
        room, last = self._room.get(caller, (self._burst, now))
        room = min(self._burst, room + (now - last) * self._rate)
        is_allowed = room >= 1
        self._room[caller] = (room - 1 if is_allowed else room, now)
        self._room.move_to_end(caller)
        if len(self._room) > _MOST_CALLERS:
            self._room.popitem(last=False)
        return 0.0 if is_allowed else (1 - room) / self._rate

    @contextmanager
    def serving(self, caller: str) -> Generator[bool]:
        """Count a request while it is served; false if the caller has too many open already."""
        count = self._open.get(caller, 0)
        self._open[caller] = count + 1
        try:
            yield not self._at_once or count < self._at_once
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]
