"""The response cache: entries stay while there is room."""

from __future__ import annotations

from skillwire.server.fastpath import ResponseCache


def test_the_oldest_entry_is_evicted_first() -> None:
    cache: ResponseCache[int] = ResponseCache(10_000)
    for number in range(100):
        cache.put(b"%d" % number, number, 600)
    kept = [number for number in range(100) if cache.get(b"%d" % number) is not None]
    assert kept == list(range(91, 100))  # nine of about a thousand bytes each


def test_a_replaced_entry_is_counted_once() -> None:
    cache: ResponseCache[int] = ResponseCache(10_000)
    for number in range(100):
        cache.put(b"same", number, 600)
    cache.put(b"other", 1, 600)
    assert (cache.get(b"same"), cache.get(b"other")) == (99, 1)


def test_what_would_fill_the_cache_alone_is_not_cached_and_evicts_nothing() -> None:
    cache: ResponseCache[int] = ResponseCache(10_000)
    cache.put(b"small", 1)
    cache.put(b"large", 2, 9_000)
    assert (cache.get(b"small"), cache.get(b"large")) == (1, None)


def test_dropped_entries_free_their_space() -> None:
    cache: ResponseCache[int] = ResponseCache(10_000)
    for _ in range(100):
        cache.put(b"a", 1, 600)
        cache.drop(b"a")
        cache.drop(b"a")
    for number in range(9):
        cache.put(b"%d" % number, number, 600)
    assert cache.get(b"0") == 0
