"""The index dialects, in captured shapes and as a hostile server would change them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import FormatError
from skillwire.skill import DYNAMIC, NO_SIZE, Dialect, SkillEntry, digest_of
from skillwire.wire.legacy import FILE_DIGESTS, parse_index

DIGEST = digest_of(b"x")
OTHER = digest_of(b"y")
D4 = {
    "url": "skill://acme/refunds/SKILL.md",
    "digest": DIGEST,
    "frontmatter": {"name": "refunds", "description": "Pays money back.", "license": "MIT"},
    "archives": [{"url": "skill://acme/refunds.zip", "mediaType": "application/zip", "digest": DIGEST}],
}
D3 = {
    "type": "skill-md",
    "name": "refunds",
    "description": "Pays money back.",
    "url": "skill://refunds/SKILL.md",
    "digest": DIGEST,
}
D2 = {key: value for key, value in D3.items() if key != "digest"}


def index(*entries: object, **top: object) -> bytes:
    return json.dumps({**top, "skills": list(entries)}).encode()


def only(entry: object) -> SkillEntry:
    listing = parse_index(index(entry))
    assert listing.issues == ()
    return listing.entries[0]


def with_files(*files: object, entry: dict[str, Any] = D3) -> dict[str, Any]:
    return {**entry, "_meta": {FILE_DIGESTS: list(files)}}


def test_d4_carries_the_whole_frontmatter_and_the_digest_of_skill_md_alone() -> None:
    entry = only(D4)
    assert (entry.dialect, entry.resources) == (Dialect.INDEX_WITH_FRONTMATTER, DYNAMIC)
    assert entry.frontmatter == D4["frontmatter"]
    assert entry.draft is not None
    assert (entry.draft.carried, entry.draft.digests) == (None, ((entry.uri, DIGEST),))


def test_d3_without_file_digests_is_not_bound_but_its_digest_is_kept() -> None:
    entry = only(D3)
    assert (entry.dialect, entry.resources) == (Dialect.INDEX_WITH_DIGESTS, DYNAMIC)
    assert entry.frontmatter == {"name": "refunds", "description": "Pays money back."}
    assert entry.draft is not None
    assert entry.draft.digests == ((entry.uri, DIGEST),)


def test_d3_with_file_digests_is_bound_to_every_file() -> None:
    entry = only(with_files({"path": "references/a b.md", "digest": OTHER}))
    assert entry.resources is not DYNAMIC
    assert [(file.uri, file.digest, file.size) for file in entry.resources] == [
        ("skill://refunds/SKILL.md", DIGEST, NO_SIZE),
        ("skill://refunds/references/a%20b.md", OTHER, NO_SIZE),
    ]


def test_file_digests_that_leave_out_skill_md_bind_nothing() -> None:
    assert only(with_files({"path": "a.md", "digest": OTHER}, entry=D2)).resources is DYNAMIC


def test_d2_carries_name_and_description_and_binds_nothing() -> None:
    entry = only(D2)
    assert (entry.dialect, entry.resources) == (Dialect.INDEX, DYNAMIC)
    assert entry.draft is not None
    assert entry.draft.carried == {"name", "description"}
    assert entry.draft.digests == ()


@pytest.mark.requirement("FMT-5")
@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("github://owner/repo/skills/refunds/SKILL.md", "github://owner/repo/skills/refunds/SKILL.md"),
        ("https://shop.example:8080/refunds/SKILL.md", "https://shop.example:8080/refunds/SKILL.md"),
        ("skill://refunds", "skill://refunds/SKILL.md"),
        ("skill://refunds/", "skill://refunds/SKILL.md"),
        ("skill://acme/caf\u00e9/SKILL.md", "skill://acme/caf%C3%A9/SKILL.md"),
    ],
)
def test_any_scheme_and_spelling_is_read_and_the_server_is_asked_in_its_own(url: str, uri: str) -> None:
    listing = parse_index(index({**D2, "url": url}))
    assert listing.entries[0].uri == uri
    assert listing.spellings.get(listing.entries[0].uri, uri) == url


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"type": "archive", "url": "skill://a.zip", "digest": DIGEST}, "only as an archive"),
        ({key: value for key, value in D4.items() if key != "url"}, "only as an archive"),
        ({"type": "mcp-resource-template", "url": "skill://docs/{product/SKILL.md"}, "cannot be filled in"),
        ({"type": "mcp-resource-template", "url": "skill://docs/SKILL.md"}, "cannot be filled in"),
        ({"type": "mcp-resource-template", "url": "skill://docs/{a}/{a}/SKILL.md"}, "an argument twice"),
        ({"type": "mcp-resource-template", "url": "skill://docs/{a}"}, "does not end in /SKILL.md"),
        ({"type": "mcp-resource-template", "url": "file:///{a}/SKILL.md"}, "file: URI"),
        ({"type": "mcp-resource-template", "url": 7}, "has no url"),
        ({"type": "hologram", "url": "skill://a/SKILL.md"}, "'hologram' is not known"),
        ({"type": 7, "url": "skill://a/SKILL.md"}, "'7' is not known"),
        ({"name": "a"}, "has no url"),
        ({**D2, "url": 3}, "has no url"),
        ({**D2, "url": "file:///etc/passwd"}, "file: URI"),
        ({**D2, "url": "skill://a/../b/SKILL.md"}, "'..'"),
        ({**D2, "url": "skill://a/%2e%2e/SKILL.md"}, "'..'"),
        ({**D2, "digest": "md5:1"}, "is not a digest"),
        ({**D2, "digest": 5}, "digest is not a string"),
        ("a string", "is not an object"),
        (with_files({"path": "../x", "digest": OTHER}), "'..'"),
        (with_files({"path": "a", "digest": None}), "list of file digests"),
        (with_files({"path": 1, "digest": OTHER}), "list of file digests"),
        (with_files("a"), "list of file digests"),
        (with_files({"path": "a", "digest": OTHER}, {"path": "a", "digest": OTHER}), "twice"),
        (with_files({"path": "SKILL.md/a", "digest": OTHER}), "lies below a file"),
        (with_files({"path": "a\nb", "digest": OTHER}), "control characters"),
        (with_files({"path": "SKILL.md", "digest": OTHER}), "two digests"),
    ],
)
def test_what_cannot_be_used_is_reported_with_its_reason_and_affects_only_itself(
    entry: object, said: str
) -> None:
    listing = parse_index(index(entry, {**D2, "name": "good", "url": "skill://good/SKILL.md"}))
    assert [found.name for found in listing.entries] == ["good"]
    assert [issue.file for issue in listing.issues] == ["skills[0]"]
    assert said in listing.issues[0].message


def test_a_skill_that_is_listed_twice_is_taken_once() -> None:
    listing = parse_index(index(D2, {**D2, "description": "Another."}))
    assert [entry.description for entry in listing.entries] == ["Pays money back."]
    assert "listed twice" in listing.issues[0].message


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"skills": {}}', b"[" * 100_000])
def test_something_that_is_no_index_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="is not an index"):
        parse_index(data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "url", "name", "digest", "frontmatter", "_meta", FILE_DIGESTS, "path"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(entries=st.lists(JSON, max_size=5))
def test_no_json_makes_anything_but_entries_and_issues(entries: list[Any]) -> None:
    listing = parse_index(index(*entries))
    assert len(listing.entries) + len(listing.issues) == len(entries)
