"""A few words find the right one of many short texts."""

from __future__ import annotations

import pytest

from skillwire.catalog.matching import Matcher

TEXTS = {
    "invoices": "Checks bills and pays them.",
    "code-review": "Reviews changes to code. Use when somebody asks for a review.",
    "refunds": "Pays money back to customers.",
    "カタログ": "商品目録を調べる。",
    "straße": "Findet Wege durch die Stadt.",
}


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("invoice", "invoices"),
        ("reviewing code", "code-review"),
        ("CODE", "code-review"),
        ("give customers their money back", "refunds"),
        ("目録", "カタログ"),
        ("STRASSE", "straße"),
        ("the refund of a bill that somebody paid", "refunds"),
    ],
)
def test_the_best_comes_first(query: str, first: str) -> None:
    assert Matcher(TEXTS).best(query, limit=3)[0] == first


@pytest.mark.parametrize("query", ["", "  ", "?!", "zebra"])
def test_what_fits_nothing_finds_nothing(query: str) -> None:
    assert Matcher(TEXTS).best(query, limit=3) == []


def test_no_more_than_asked_for_and_always_in_the_same_order() -> None:
    matcher = Matcher({f"skill-{number}": "the same" for number in range(50)})
    assert matcher.best("same", limit=3) == ["skill-0", "skill-1", "skill-10"]
