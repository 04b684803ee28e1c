"""The shelf: what is put there stays while there is room."""

from __future__ import annotations

from skillwire.server.fastpath.cache import ResponseCache


def test_the_oldest_entry_is_evicted_first() -> None:
    shelf: ResponseCache[int] = ResponseCache(10_000)
    for number in range(100):
        shelf.put(b"%d" % number, number, 600)
    kept = [number for number in range(100) if shelf.get(b"%d" % number) is not None]
    assert kept == list(range(91, 100))  # nine of about a thousand bytes each


def test_a_replaced_entry_is_counted_once() -> None:
    shelf: ResponseCache[int] = ResponseCache(10_000)
    for number in range(100):
        shelf.put(b"same", number, 600)
    shelf.put(b"other", 1, 600)
    assert (shelf.get(b"same"), shelf.get(b"other")) == (99, 1)


def test_what_would_fill_the_cache_alone_is_not_cached_and_evicts_nothing() -> None:
    shelf: ResponseCache[int] = ResponseCache(10_000)
    shelf.put(b"small", 1)
    shelf.put(b"large", 2, 9_000)
    assert (shelf.get(b"small"), shelf.get(b"large")) == (1, None)


def test_dropped_entries_free_their_space() -> None:
    shelf: ResponseCache[int] = ResponseCache(10_000)
    for _ in range(100):
        shelf.put(b"a", 1, 600)
        shelf.drop(b"a")
        shelf.drop(b"a")
    for number in range(9):
        shelf.put(b"%d" % number, number, 600)
    assert shelf.get(b"0") == 0
