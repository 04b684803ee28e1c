"""A paged listing ends, whatever the server says (LST-1, SEC-9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skillwire.limits import DEFAULT_LIMITS
from skillwire.wire import PageLimits, Stop

SMALL = replace(DEFAULT_LIMITS, pages=3, entries_per_server=10)


@pytest.mark.parametrize(
    ("pages", "stop"),
    [
        pytest.param([(None, 1)], Stop.LAST, id="one page"),
        pytest.param([("a", 1), ("", 1)], Stop.LAST, id="an empty cursor"),
        pytest.param([("a", 5), ("b", 5), (None, 0)], Stop.LAST, id="exactly as much as allowed"),
        pytest.param([("a", 1), ("a", 1)], Stop.LOOP, id="the same cursor again"),
        pytest.param([("a", 1), ("b", 1), ("a", 1)], Stop.LOOP, id="a loop of two"),
        pytest.param([("a", 1), ("b", 1), ("c", 1)], Stop.PAGES, id="too many pages"),
        pytest.param([("a", 11)], Stop.ITEMS, id="too many items on one page"),
        pytest.param([("a", 6), (None, 6)], Stop.ITEMS, id="too many items in all"),
    ],
)
def test_a_listing_stops_for_a_reason(pages: list[tuple[str | None, int]], stop: Stop) -> None:
    limits = PageLimits(SMALL)
    *earlier, last = (limits.stop(cursor, items) for cursor, items in pages)
    assert (set(earlier) <= {None}, last) == (True, stop)
