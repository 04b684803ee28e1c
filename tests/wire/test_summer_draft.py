"""The draft of July and August 2026 (D5): the same methods, with less in their answers."""

from __future__ import annotations

from typing import Any

import pytest

from skillwire.errors import FormatError
from skillwire.skill import DYNAMIC, NO_SIZE, Dialect, digest_of, parse_uri
from skillwire.wire import entry_from_wire, entry_to_wire
from skillwire.wire.v1 import list_page, single_entry

URI = "skill://acme/refunds/SKILL.md"
FILE = {"uri": URI, "digest": digest_of(b"x")}
ENTRY: dict[str, Any] = {
    "uri": URI,
    "frontmatter": {"name": "refunds", "description": "d"},
    "resources": [FILE],
}
WITHOUT_FILES = {key: value for key, value in ENTRY.items() if key != "resources"}


def test_a_file_without_a_size_is_taken_and_marked_as_a_draft() -> None:
    entry = list_page({"skills": [ENTRY]}).entries[0]
    assert entry.resources is not DYNAMIC
    assert (entry.resources[0].size, entry.dialect) == (NO_SIZE, Dialect.SUMMER_DRAFT)
    assert entry.carried_fields is None
    assert "size" not in entry_to_wire(entry)["resources"][0]  # pyright: ignore


def test_an_entry_with_every_size_is_no_draft() -> None:
    sized = {**ENTRY, "resources": [{**FILE, "size": 1}]}
    assert list_page({"skills": [sized]}).entries[0].draft is None


def test_a_size_that_is_there_must_be_one() -> None:
    for size in (-1, "1", True, None, 1.5):
        page = list_page({"skills": [{**ENTRY, "resources": [{**FILE, "size": size}]}]})
        assert page.entries == ()
        assert page.issues[0].rule == "resource-size"


def test_an_entry_without_files_is_invalid_unless_the_user_accepts_drafts() -> None:
    assert list_page({"skills": [WITHOUT_FILES]}).issues[0].rule == "entry-resources"
    accepted = list_page({"skills": [WITHOUT_FILES]}, accept_drafts=True).entries[0]
    assert (accepted.resources, accepted.dialect) == (DYNAMIC, Dialect.SUMMER_DRAFT)
    answer = {"skill": WITHOUT_FILES}
    assert single_entry(answer, parse_uri(URI), accept_drafts=True).is_dynamic
    with pytest.raises(FormatError):
        single_entry(answer, parse_uri(URI))


@pytest.mark.parametrize("resources", [None, {}, "static", 3])
def test_files_that_are_something_else_are_invalid_even_then(resources: object) -> None:
    page = list_page({"skills": [{**ENTRY, "resources": resources}]}, accept_drafts=True)
    assert page.issues[0].rule == "entry-resources"


def test_answers_may_lack_what_later_revisions_want() -> None:
    page = list_page({"skills": []})
    assert (page.ttl_ms, page.next_cursor, page.entries) == (None, None, ())


def test_the_final_extension_still_wants_sizes() -> None:
    with pytest.raises(FormatError, match="size is not a number"):
        entry_from_wire(ENTRY)


def test_a_uri_that_the_server_spells_otherwise_is_kept_in_its_spelling() -> None:
    raw = "skill://acme/caf\u00e9/SKILL.md"
    file = "skill://acme/caf%c3%a9/a%2Db.md"
    entry = {
        "uri": raw,
        "frontmatter": {},
        "resources": [
            {"uri": raw, "digest": digest_of(b""), "size": 0},
            {"uri": file, "digest": digest_of(b""), "size": 0},
        ],
    }
    page = list_page({"skills": [entry]})
    assert page.spellings == {
        "skill://acme/caf%C3%A9/SKILL.md": raw,
        "skill://acme/caf%C3%A9/a-b.md": file,
    }
