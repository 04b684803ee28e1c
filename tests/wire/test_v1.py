"""Entries as JSON and back. What was written is read back; everything else is an entry or a `FormatError`."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skillwire import DYNAMIC, FormatError, SkillEntry, SkillResource
from skillwire.skill import SkillUri, child_uri, digest_of, make_uri
from skillwire.trust import manifest_issues
from skillwire.wire import entry_from_wire, entry_to_wire

SEGMENTS = st.text(
    st.characters(exclude_characters="/\\", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8
).filter(lambda text: text not in (".", ".."))
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=4)


@st.composite
def entries(draw: st.DrawFn) -> SkillEntry:
    root = make_uri(draw(st.lists(SEGMENTS, min_size=1, max_size=3)))
    uri = child_uri(root, "SKILL.md")
    frontmatter, meta = draw(OBJECTS), draw(OBJECTS)
    if draw(st.booleans()):
        return SkillEntry(uri, frontmatter, DYNAMIC, meta)
    files = {uri: draw(st.binary(max_size=8))}
    for path in draw(st.lists(st.lists(SEGMENTS, min_size=1, max_size=3), max_size=4)):
        at = root
        for segment in path:
            at = child_uri(at, segment)
        files[at] = draw(st.binary(max_size=8))
    assume(not manifest_issues(files, uri))
    resources = tuple(SkillResource(at, digest_of(data), len(data)) for at, data in files.items())
    return SkillEntry(uri, frontmatter, resources, meta)


def wire(**changes: object) -> dict[str, Any]:
    """A good entry with some of its fields changed; `...` leaves one out."""
    good = {
        "uri": "skill://a/SKILL.md",
        "frontmatter": {"name": "a", "description": "d"},
        "resources": [resource()],
    }
    return {key: value for key, value in {**good, **changes}.items() if value is not ...}


def resource(**changes: object) -> dict[str, Any]:
    good = {"uri": "skill://a/SKILL.md", "digest": digest_of(b""), "size": 0}
    return {key: value for key, value in {**good, **changes}.items() if value is not ...}


@pytest.mark.requirement("ENT-1", "ENT-2", "ENT-3", "ENT-8")
@given(entries())
def test_an_entry_survives_the_wire(entry: SkillEntry) -> None:
    assert entry_from_wire(json.loads(json.dumps(entry_to_wire(entry)))) == entry


@given(JSON)
def test_any_json_is_an_entry_or_a_format_error(value: object) -> None:
    with pytest.raises(FormatError) as refused:
        entry_from_wire(value)
    assert refused.value.issues


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(["uri", "frontmatter", "resources", "_meta"], JSON)))
def test_any_value_in_any_field_is_an_entry_or_a_format_error(changes: dict[str, object]) -> None:
    with suppress(FormatError):
        assert entry_from_wire(wire(**changes)).uri == "skill://a/SKILL.md"


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(["uri", "digest", "size"], JSON)))
def test_any_value_in_a_resource_is_an_entry_or_a_format_error(changes: dict[str, object]) -> None:
    other = resource(uri="skill://a/b")
    with suppress(FormatError):
        entry = entry_from_wire(wire(resources=[resource(), {**other, **changes}]))
        assert entry.resources is not DYNAMIC
        assert [file.uri for file in entry.resources] == ["skill://a/SKILL.md", "skill://a/b"]


@pytest.mark.requirement("ENT-1", "ENT-2")
@pytest.mark.parametrize(
    ("value", "rules"),
    [
        ([], ["entry-shape"]),
        (wire(uri=...), ["entry-uri"]),
        (wire(uri=5), ["entry-uri"]),
        (wire(uri="nowhere"), ["uri"]),
        (wire(uri="skill://a/README.md"), ["uri", "resource-no-skill-md"]),
        (wire(uri="skill://SKILL.md"), ["uri", "resource-no-skill-md"]),
        (wire(uri="file:///a/SKILL.md"), ["uri"]),
        (wire(frontmatter=...), ["entry-frontmatter"]),
        (wire(frontmatter="name: a"), ["entry-frontmatter"]),
        (wire(resources=...), ["entry-resources"]),
        (wire(resources=None), ["entry-resources"]),
        (wire(resources="Dynamic"), ["entry-resources"]),
        (wire(resources={}), ["entry-resources"]),
        (wire(resources=[]), ["resource-no-skill-md"]),
        (wire(resources=[resource(), 5]), ["resource-shape"]),
        (wire(resources=[resource(), resource()]), ["resource-twice"]),
        (wire(resources=[resource(), resource(uri="skill://a/%53KILL.md")]), ["resource-twice"]),
        (wire(resources=[resource(), resource(uri="skill://b/x")]), ["resource-outside"]),
        (wire(resources=[resource(), resource(uri="skill://ab/x")]), ["resource-outside"]),
        (wire(resources=[resource(), resource(uri="skill://a")]), ["resource-outside"]),
        (wire(resources=[resource(), resource(uri="skill://a/../b")]), ["uri"]),
        (wire(resources=[resource(), resource(uri="skill://a/SKILL.md/x")]), ["resource-in-file"]),
        (wire(resources=[resource(), resource(uri="skill://a/x%1B")]), ["resource-path"]),
        (wire(resources=[resource(), resource(uri=...)]), ["entry-uri"]),
        (wire(resources=[resource(digest=...)]), ["resource-digest", "resource-no-skill-md"]),
        (wire(resources=[resource(digest="sha256:AB")]), ["digest-shape", "resource-no-skill-md"]),
        (wire(resources=[resource(size=...)]), ["resource-size", "resource-no-skill-md"]),
        (wire(resources=[resource(size=-1)]), ["resource-size", "resource-no-skill-md"]),
        (wire(resources=[resource(size=True)]), ["resource-size", "resource-no-skill-md"]),
        (wire(resources=[resource(size=1.5)]), ["resource-size", "resource-no-skill-md"]),
        (wire(resources=[resource(size="1")]), ["resource-size", "resource-no-skill-md"]),
        (wire(_meta=[]), ["entry-meta"]),
        (
            wire(uri=5, frontmatter=5, resources=5, _meta=5),
            ["entry-uri", "entry-frontmatter", "entry-resources", "entry-meta"],
        ),
    ],
)
def test_every_issue_of_a_bad_entry_is_found(value: object, rules: list[str]) -> None:
    with pytest.raises(FormatError) as refused:
        entry_from_wire(value)
    assert [issue.rule for issue in refused.value.issues] == rules
    assert all(issue.fix for issue in refused.value.issues)


@pytest.mark.requirement("FMT-9")
def test_uris_are_read_in_any_spelling_and_kept_in_one() -> None:
    entry = entry_from_wire(
        wire(
            uri="SKILL://caf%c3%a9/SKILL%2Emd",
            resources=[resource(uri="skill://café/SKILL.md"), resource(uri="skill://caf%C3%A9/a b")],
        )
    )
    assert entry.uri == "skill://caf%C3%A9/SKILL.md"
    assert [file.uri for file in entry.resources] == [entry.uri, "skill://caf%C3%A9/a%20b"]  # type: ignore[union-attr]


@pytest.mark.requirement("ENT-7", "ENT-8", "FMT-2")
def test_unknown_fields_and_reserved_metadata_survive_as_they_are() -> None:
    frontmatter = {
        "name": "a",
        "description": "d",
        "x-unknown": [1, None, {"deep": 1.5}],
        "metadata": {"io.modelcontextprotocol/undefined": "kept"},
    }
    meta = {"com.example/note": {"a": 1}}
    entry = entry_from_wire(wire(frontmatter=frontmatter, _meta=meta, later="ignored"))
    assert (entry.frontmatter, entry.meta) == (frontmatter, meta)
    assert entry_to_wire(entry) == wire(frontmatter=frontmatter, _meta=meta)


def test_an_entry_without_meta_is_written_without_it() -> None:
    entry = SkillEntry(SkillUri("skill://a/SKILL.md"), {}, DYNAMIC)
    assert entry_to_wire(entry) == {"uri": entry.uri, "frontmatter": {}, "resources": "dynamic"}
