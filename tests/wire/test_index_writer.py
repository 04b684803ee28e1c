"""What is written in an index dialect is read back as the same skills."""

from __future__ import annotations

import json

import pytest

from sample_entries import make_entry
from skillwire.skill import DYNAMIC, Dialect, SkillEntry
from skillwire.wire.legacy import INDEX_DIALECTS, SCHEMA, parse_index, write_index

ENTRIES = [
    make_entry("skill://acme/refunds/SKILL.md", {"été/#1?.md": b"x"}, fields={"license": "MIT", "n": 1}),
    make_entry("skill://notes/SKILL.md", description='Quotes " and <tags> & ünïcode'),
    make_entry("skill://live/SKILL.md", dynamic=True),
]


def digests(entry: SkillEntry) -> dict[str, str]:
    return {} if entry.resources is DYNAMIC else {file.uri: file.digest for file in entry.resources}


@pytest.mark.parametrize("dialect", INDEX_DIALECTS)
def test_an_index_is_read_back_as_it_was_written(dialect: Dialect) -> None:
    listing = parse_index(write_index(ENTRIES, dialect))
    assert listing.issues == ()
    assert [(e.uri, e.name, e.description) for e in listing.entries] == [
        (e.uri, e.name, e.description) for e in ENTRIES
    ]


def test_the_april_shape_has_names_and_no_digests() -> None:
    index = json.loads(write_index(ENTRIES[:1], Dialect.INDEX))
    assert index == {
        "$schema": SCHEMA,
        "skills": [
            {
                "name": "refunds",
                "type": "skill-md",
                "description": "Pays money back.",
                "url": "skill://acme/refunds/SKILL.md",
            }
        ],
    }
    [entry] = parse_index(write_index(ENTRIES[:1], Dialect.INDEX)).entries
    assert (entry.dialect, entry.is_dynamic) == (Dialect.INDEX, True)


def test_the_early_june_shape_binds_every_file_by_its_digest() -> None:
    entries = parse_index(write_index(ENTRIES, Dialect.INDEX_WITH_DIGESTS)).entries
    assert [digests(entry) for entry in entries] == [digests(entry) for entry in ENTRIES]
    assert entries[0].dialect is Dialect.INDEX_WITH_DIGESTS
    assert entries[2].is_dynamic


def test_the_late_june_shape_carries_the_whole_frontmatter() -> None:
    data = write_index(ENTRIES, Dialect.INDEX_WITH_FRONTMATTER)
    entries = parse_index(data).entries
    assert [entry.frontmatter for entry in entries] == [entry.frontmatter for entry in ENTRIES]
    assert entries[0].dialect is Dialect.INDEX_WITH_FRONTMATTER
    assert all({"name", "type"}.isdisjoint(item) for item in json.loads(data)["skills"])
    assert ["digest" in item for item in json.loads(data)["skills"]] == [True, True, False]


def test_a_dialect_without_an_index_is_refused() -> None:
    with pytest.raises(ValueError, match="D1 has no index"):
        write_index(ENTRIES, Dialect.MANIFEST)
