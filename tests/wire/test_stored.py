"""Entries as they are stored, with nothing lost and everything checked when read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from sample_entries import make_entry
from skillwire.errors import FormatError
from skillwire.skill import DYNAMIC, NO_SIZE, Dialect, DraftDetails, SkillEntry, digest_of
from skillwire.wire import entry_from_stored, entry_to_stored

FINAL = make_entry(files={"a.md": b"a"})
assert FINAL.resources is not DYNAMIC
UNSIZED = dataclasses.replace(
    FINAL,
    resources=tuple(dataclasses.replace(file, size=NO_SIZE) for file in FINAL.resources),
    draft=DraftDetails(dialect=Dialect.SUMMER_DRAFT),
)
INDEXED = dataclasses.replace(
    make_entry(dynamic=True),
    draft=DraftDetails(
        dialect=Dialect.INDEX_WITH_DIGESTS,
        carried=frozenset({"name", "description"}),
        digests=((FINAL.uri, digest_of(b"x")),),
        confirmed=False,
        spelling="skill://acme/refunds",
    ),
)


@pytest.mark.parametrize("entry", [FINAL, UNSIZED, INDEXED, make_entry(dynamic=True)])
def test_what_is_kept_comes_back_as_it_was(entry: SkillEntry) -> None:
    assert entry_from_stored(json.loads(json.dumps(entry_to_stored(entry)))) == entry


@pytest.mark.parametrize(
    "draft",
    [
        {},
        {"dialect": "D9", "carried": None, "digests": [], "confirmed": True, "spelling": ""},
        {"dialect": "D2", "carried": 5, "digests": [], "confirmed": True, "spelling": ""},
        {
            "dialect": "D2",
            "carried": None,
            "digests": [["skill://a/b", "x"]],
            "confirmed": True,
            "spelling": "",
        },
    ],
)
def test_what_was_damaged_is_refused(draft: dict[str, Any]) -> None:
    with pytest.raises(FormatError):
        entry_from_stored({**entry_to_stored(FINAL), "draft": draft})


def test_files_without_sizes_are_refused_unless_their_dialect_is_kept_too() -> None:
    stored = entry_to_stored(UNSIZED)
    del stored["draft"]
    with pytest.raises(FormatError, match="damaged"):
        entry_from_stored(stored)
