"""Cursors that name a place in a sorted listing, so that a reload neither skips nor repeats (LST-1)."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from skillwire.errors import FormatError
from skillwire.issues import Issue

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a listing, and the cursor of the part after it."""

    items: Sequence[T]
    next_cursor: str | None


def cut_page(
    items: Sequence[T], keys: Sequence[str], cursor: str | None, *, size: int, listing: str
) -> Page[T]:
    """The page of `items` after `cursor`. `keys` are their sort keys; `listing` names what is paged.

    A cursor holds the key of the last item that was given out. It stays good when that item is gone.
    """
    start = 0 if cursor is None else bisect_right(keys, _decode(cursor, listing))
    end = start + size
    more = end < len(items)
    return Page(items[start:end], _encode(keys[end - 1], listing) if more else None)


def _encode(key: str, listing: str) -> str:
    return base64.urlsafe_b64encode(f"{listing}\n{key}".encode()).decode("ascii").rstrip("=")


def _decode(cursor: str, listing: str) -> str:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        named, newline, key = (
            base64.b64decode(padded, altchars=b"-_", validate=True).decode("utf-8").partition("\n")
        )
    except (binascii.Error, ValueError):
        named, newline, key = "", "", ""
    if not newline or named != listing:
        raise FormatError(
            Issue(
                rule="cursor",
                message="the cursor is not one of this listing",
                fix="start without a cursor",
            )
        )
    return key
