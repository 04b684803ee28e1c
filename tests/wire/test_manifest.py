"""The manifests of D1 and the scans of plain resources, with shapes as FastMCP and others write them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_entries import make_entry
from skillwire.errors import FormatError
from skillwire.skill import DYNAMIC, Dialect, digest_of
from skillwire.wire import ListedResource
from skillwire.wire.legacy import (
    bare_skills,
    bind_to_manifest,
    resource_page,
    scanned_entry,
    with_manifests,
    write_manifest,
)

SKILL = ListedResource("skill://demo/SKILL.md", "Shows things.")
FILE = {"path": "SKILL.md", "size": 1, "hash": digest_of(b"x")}


def manifest(*files: object) -> bytes:
    return json.dumps({"skill": "demo", "files": list(files)}, indent=2).encode()


def listed(*uris: str) -> list[ListedResource]:
    return [ListedResource(uri, "") for uri in uris]


def test_a_manifest_binds_a_skill_to_every_file_that_it_lists() -> None:
    data = manifest({"path": "references/a.md", "size": 3, "hash": digest_of(b"abc")}, FILE)
    entry = bind_to_manifest(scanned_entry(SKILL, Dialect.MANIFEST), data)
    assert entry.resources is not DYNAMIC
    assert [(file.uri, file.size) for file in entry.resources] == [
        ("skill://demo/SKILL.md", 1),
        ("skill://demo/references/a.md", 3),
    ]
    assert (entry.name, entry.description, entry.carried_fields) == ("demo", "Shows things.", frozenset())


def test_a_manifest_without_skill_md_is_not_complete_and_binds_nothing() -> None:
    data = manifest({"path": "a.md", "size": 1, "hash": digest_of(b"x")})
    assert bind_to_manifest(scanned_entry(SKILL, Dialect.MANIFEST), data).resources is DYNAMIC


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"files": {}}',
        manifest("a"),
        manifest({"path": "a", "size": 1}),
        manifest({"path": 1, "size": 1, "hash": digest_of(b"")}),
        manifest({**FILE, "size": -1}),
        manifest({**FILE, "size": True}),
        manifest({**FILE, "hash": "sha1:00"}),
        manifest({**FILE, "path": "../../etc/passwd"}),
        manifest({**FILE, "path": "/etc/passwd"}),
        manifest({**FILE, "path": "a\\b"}),
        manifest(FILE, FILE),
        manifest(FILE, {**FILE, "path": "SKILL.md/x"}),
        manifest(FILE, {**FILE, "path": "a\nb"}),
        manifest({**FILE, "size": 2**53}),
    ],
)
def test_an_invalid_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        bind_to_manifest(scanned_entry(SKILL, Dialect.MANIFEST), data)


@given(data=st.binary(max_size=200) | st.text(max_size=50).map(lambda text: manifest(text)))
def test_no_bytes_make_anything_but_an_entry_or_the_documented_error(data: bytes) -> None:
    with suppress(FormatError):
        bind_to_manifest(scanned_entry(SKILL, Dialect.MANIFEST), data)


def test_only_a_skill_md_beside_a_manifest_belongs_to_d1() -> None:
    resources = listed(
        "skill://demo/SKILL.md",
        "skill://demo/_manifest",
        "skill://alone/SKILL.md",
        "skill://odd/_manifest",
        "other://x/SKILL.md",
        "other://x/_manifest",
        "SKILL.md",
    )
    assert with_manifests(resources) == {"skill://demo/_manifest": resources[0]}


@pytest.mark.requirement("FMT-5")
def test_a_bare_scan_takes_what_looks_like_a_skill_and_calls_it_unconfirmed() -> None:
    found = bare_skills(
        listed(
            "skill://demo",
            "skill://demo/SKILL.md",
            "skill://a/b/c",
            "skill://ipinfo/usage",
            "skill://trailing/",
            "https://example.com/SKILL.md",
        )
    )
    assert [entry.uri for entry in found.entries] == [
        "skill://demo/SKILL.md",
        "skill://a/b/c/SKILL.md",
        "skill://ipinfo/usage/SKILL.md",
        "skill://trailing/SKILL.md",
    ]
    assert {entry.draft.confirmed for entry in found.entries if entry.draft} == {False}
    assert set(found.spellings.values()) == {"skill://a/b/c", "skill://ipinfo/usage", "skill://trailing/"}


def test_resources_that_describe_skills_are_never_taken_for_skills() -> None:
    aids = ["skill://index.json", "skill://demo/_manifest", "skill://prompt-xml", "skill://prompt-xml/"]
    assert bare_skills(listed(*aids)).entries == ()


def test_an_invalid_uri_affects_only_itself() -> None:
    found = bare_skills(listed("skill://bad name", "skill://good"))
    assert [entry.uri for entry in found.entries] == ["skill://good/SKILL.md"]
    assert found.issues[0].file == "skill://bad name"


@pytest.mark.parametrize("answer", [None, [], {}, {"resources": {}}])
def test_an_answer_without_resources_is_refused(answer: Any) -> None:
    with pytest.raises(FormatError, match="no list of resources"):
        resource_page(answer)


def test_a_page_of_resources_is_read_leniently() -> None:
    page = resource_page(
        {"resources": [{"uri": "a://b", "description": 3}, {"name": "x"}, 7], "nextCursor": ""}
    )
    assert (page.resources, page.next_cursor) == ((ListedResource("a://b", ""),), None)
    assert resource_page({"resources": [], "nextCursor": "next"}).next_cursor == "next"


def test_a_manifest_is_read_back_as_it_was_written() -> None:
    entry = make_entry("skill://refunds/SKILL.md", {"a b/ü#.md": b"x", "z.bin": b"\xff" * 10})
    bare = replace(entry, resources=DYNAMIC)
    assert bind_to_manifest(bare, write_manifest(entry)).resources == entry.resources


def test_a_manifest_has_the_names_that_its_dialect_uses() -> None:
    entry = make_entry("skill://refunds/SKILL.md", {"SKILL.md": b"---\nname: refunds\n---\n"})
    assert json.loads(write_manifest(entry)) == {
        "skill": "refunds",
        "files": [{"path": "SKILL.md", "size": 22, "hash": digest_of(b"---\nname: refunds\n---\n")}],
    }


def test_a_skill_that_lists_no_files_has_no_manifest() -> None:
    with pytest.raises(ValueError, match="lists no files"):
        write_manifest(make_entry(dynamic=True))
