"""The answers of servers, as JSON of any shape."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from skillwire.errors import FormatError, LimitExceeded
from skillwire.limits import Limits
from skillwire.skill import parse_uri
from skillwire.wire.v1 import directory_page, extent, file_bytes, list_page, single_entry

URI = parse_uri("skill://refunds/SKILL.md")
DIGEST = "sha256:" + "0" * 64
ENTRY: dict[str, Any] = {
    "uri": URI,
    "frontmatter": {"name": "refunds", "description": "Pays."},
    "resources": [{"uri": URI, "digest": DIGEST, "size": 1}],
}


@pytest.mark.requirement("LST-1", "ENT-2")
def test_good_entries_are_taken_and_bad_ones_become_issues_that_name_their_uri() -> None:
    page = list_page({"skills": [ENTRY, {**ENTRY, "resources": "all"}, 7, {"uri": 7}], "nextCursor": "next"})
    assert [entry.uri for entry in page.entries] == [URI]
    assert page.next_cursor == "next"
    assert {issue.file for issue in page.issues} == {URI, "an entry without a URI"}


@pytest.mark.parametrize(
    ("ttl", "taken"), [(0, 0), (7, 7), (10**400, 10**12), (-1, None), (True, None), ("7", None)]
)
def test_a_time_to_live_is_a_usable_number(ttl: object, taken: int | None) -> None:
    assert list_page({"skills": [], "ttlMs": ttl}).ttl_ms == taken


@pytest.mark.parametrize("cursor", [None, ""])
def test_an_empty_cursor_ends_a_listing(cursor: object) -> None:
    assert list_page({"skills": [], "nextCursor": cursor}).next_cursor is None


@pytest.mark.parametrize("answer", [None, 7, "x", [], {}, {"skills": None}, {"skills": {}}, {"skills": "x"}])
def test_what_is_no_listing_is_refused(answer: object) -> None:
    with pytest.raises(FormatError, match="no list of skills"):
        list_page(answer)


def test_a_cursor_that_is_no_string_is_refused() -> None:
    with pytest.raises(FormatError, match="nextCursor"):
        list_page({"skills": [], "nextCursor": 7})


@pytest.mark.requirement("SEC-9")
def test_a_page_of_too_many_entries_is_refused_before_one_is_read() -> None:
    limits = Limits(entries_per_server=3)
    with pytest.raises(LimitExceeded, match="more than 3 entries"):
        list_page({"skills": [{}] * 4}, limits=limits)
    with pytest.raises(LimitExceeded, match="more than 3 children"):
        directory_page({"resources": [{}] * 4}, limits=limits)


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "change",
    [
        {"frontmatter": {"name": "refunds", "description": "x" * 2_000_000}},
        {"frontmatter": {"name": "refunds", "list": [0] * 2_000_000}},
        {"frontmatter": {"name" * 500_000: 1}},
        {"_meta": {"x": "y" * 2_000_000}},
        {"resources": [{}] * 10_000},
    ],
)
def test_an_entry_that_is_far_too_large_is_one_issue(change: dict[str, Any]) -> None:
    page = list_page({"skills": [{**ENTRY, **change}]})
    assert page.entries == ()
    assert [issue.rule for issue in page.issues] == ["entry-too-large"]
    with pytest.raises(FormatError):
        single_entry({"skill": {**ENTRY, **change}}, URI)


@pytest.mark.requirement("SEC-9")
def test_a_bad_entry_leaves_only_a_few_issues() -> None:
    page = list_page({"skills": [{**ENTRY, "resources": [0] * 5000}]})
    assert 0 < len(page.issues) <= 5


@pytest.mark.requirement("ENT-6")
def test_the_largest_skill_that_must_load_fits_into_an_entry() -> None:
    files = [{"uri": f"skill://refunds/{'x' * 200}/{n}.md", "digest": DIGEST, "size": 1} for n in range(511)]
    front = {"name": "refunds", "description": "x" * 1024, "notes": "y" * 60_000}
    page = list_page(
        {"skills": [{**ENTRY, "frontmatter": front, "resources": [*ENTRY["resources"], *files]}]}
    )
    assert page.issues == ()
    assert len(page.entries) == 1


def test_an_extent_is_text_and_values_and_stops_being_counted() -> None:
    assert extent({"ab": ["cde", 1, None]}, 100) == 1 + 2 + 1 + (1 + 3) + 1 + 1
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert extent(deep, 50) == 51


@pytest.mark.parametrize(
    ("content", "data"),
    [
        ({"uri": URI, "text": "h\u00e9\r\n\ufeff"}, "h\u00e9\r\n\ufeff".encode()),
        ({"uri": URI, "blob": base64.b64encode(b"\xff\x00").decode()}, b"\xff\x00"),
        ({"uri": "SKILL://refunds/SKILL%2Emd", "text": "x"}, b"x"),
        ({"uri": URI, "text": ""}, b""),
    ],
)
def test_the_bytes_of_a_file_come_as_text_or_as_base64(content: dict[str, Any], data: bytes) -> None:
    assert file_bytes({"contents": [{"uri": "skill://other/x", "text": "no"}, content]}, URI) == data


@pytest.mark.parametrize(
    "contents",
    [
        None,
        [],
        [None],
        [{"uri": URI}],
        [{"text": "x"}],
        [{"uri": "skill://other/SKILL.md", "text": "x"}],
        [{"uri": "no uri", "text": "x"}],
        [{"uri": URI, "text": 7}],
        [{"uri": URI, "text": "\ud800"}],
        [{"uri": URI, "blob": "not base64!"}],
        [{"uri": URI, "blob": "\u00e9"}],
    ],
)
def test_an_answer_that_holds_no_such_file_is_refused(contents: object) -> None:
    with pytest.raises(FormatError):
        file_bytes({"contents": contents}, URI)


@pytest.mark.requirement("DIR-1")
@pytest.mark.parametrize("children", [None, [7], [{}], [{"uri": 7}]])
def test_a_directory_whose_children_have_no_uri_is_refused(children: object) -> None:
    with pytest.raises(FormatError):
        directory_page({"resources": children})


@pytest.mark.requirement("DIR-1")
def test_an_empty_directory_is_a_directory() -> None:
    assert directory_page({"resources": []}).children == ()
