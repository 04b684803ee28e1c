"""ResponseCache: values by key, with a limit on their total size."""

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")
# The approximate overhead of an entry beyond its key and value.
_OVERHEAD = 400


class ResponseCache(Generic[V]):
    """A cache that drops the oldest values when it is full."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0
        self._sizes: dict[bytes, int] = {}
        self._values: dict[bytes, V] = {}

    def get(self, key: bytes) -> V | None:
        return self._values.get(key)

    def put(self, key: bytes, value: V, size: int = 0) -> None:
        """Add a value of `size` bytes, unless it would take more than an eighth of the cache."""
        self.drop(key)
        taken = len(key) + size + _OVERHEAD
        if taken > self._most // 8:
            return
        self._values[key] = value
        self._sizes[key] = taken
        self._held += taken
        while self._held > self._most:
            self.drop(next(iter(self._values)))

    def drop(self, key: bytes) -> None:
        """Remove a value, if it is there."""
        if key in self._values:
            del self._values[key]
            self._held -= self._sizes.pop(key)
