"""ResponseCache: a few things kept ready by key, within a bound on the bytes they take."""

from __future__ import annotations

from typing import Generic, TypeVar

Kept = TypeVar("Kept")
# What a key, a value and their places in a dictionary take beside their bytes, roughly.
_OVERHEAD = 400


class ResponseCache(Generic[Kept]):
    """Keeps what was put there last. When there is no more room, what was put there first goes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0
        self._sizes: dict[bytes, int] = {}
        self._things: dict[bytes, Kept] = {}

    def get(self, key: bytes) -> Kept | None:
        return self._things.get(key)

    def put(self, key: bytes, thing: Kept, size: int = 0) -> None:
        """Keep a thing of so many bytes, unless it alone would take an eighth of the shelf."""
        self.drop(key)
        taken = len(key) + size + _OVERHEAD
        if taken > self._most // 8:
            return
        self._things[key] = thing
        self._sizes[key] = taken
        self._held += taken
        while self._held > self._most:
            self.drop(next(iter(self._things)))

    def drop(self, key: bytes) -> None:
        """Forget a thing, if it is there."""
        if key in self._things:
            del self._things[key]
            self._held -= self._sizes.pop(key)
