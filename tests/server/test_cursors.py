"""Cursors name a place, so that whoever pages sees every unchanged item once, whatever comes and goes."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire import FormatError
from skillwire.server.library import cut_page

KEYS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), unique=True, max_size=20)


@pytest.mark.requirement("LST-1")
@given(st.data(), KEYS, st.integers(1, 8))
def test_every_item_that_stays_is_seen_once_while_others_come_and_go(
    data: st.DataObject, initial: list[str], size: int
) -> None:
    everything = set(initial)
    present = set(initial)
    stayed = set(initial)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        keys = sorted(present)
        page = cut_page(keys, keys, cursor, size=size, listing="x")
        assert len(page.items) <= size
        seen.extend(page.items)
        if page.next_cursor is None:
            break
        assert len(page.items) == size
        cursor = page.next_cursor
        added = set(data.draw(KEYS)) - everything if len(everything) < 60 else set[str]()
        removed = data.draw(st.sets(st.sampled_from(keys)))
        everything |= added
        present = (present | added) - removed
        stayed -= removed
    assert len(seen) == len(set(seen)), "seen twice"
    assert stayed <= set(seen), "skipped"


@given(KEYS, st.integers(1, 30))
def test_pages_of_every_size_give_the_whole_listing_in_order(keys: list[str], size: int) -> None:
    keys = sorted(keys)
    got: list[str] = []
    cursor: str | None = None
    pages = 0
    while True:
        page = cut_page(keys, keys, cursor, size=size, listing="x")
        got.extend(page.items)
        pages += 1
        if (cursor := page.next_cursor) is None:
            break
    assert got == keys
    assert pages == max(1, -(-len(keys) // size)), "no empty last page"


@pytest.mark.requirement("LST-1")
@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "zzz",
        "!!!!",
        "é",
        "\0",
        "=" * 9,
        "A" * 1_000_000,
        base64.b64encode(b"\xff\xfe").decode(),
        "eAph\n",
    ],
)
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(FormatError, match="does not belong to this listing"):
        cut_page(["a"], ["a"], cursor, size=1, listing="x")


@given(st.text())
def test_any_text_is_a_cursor_or_refused(cursor: str) -> None:
    try:
        page = cut_page(["a", "b"], ["a", "b"], cursor, size=1, listing="x")
    except FormatError:
        return
    assert set(page.items) <= {"a", "b"}


def test_a_cursor_of_another_listing_is_refused() -> None:
    cursor = cut_page(["a", "b"], ["a", "b"], None, size=1, listing="x").next_cursor
    assert cut_page(["a", "b"], ["a", "b"], cursor, size=1, listing="x").items == ["b"]
    with pytest.raises(FormatError):
        cut_page(["a", "b"], ["a", "b"], cursor, size=1, listing="y")
