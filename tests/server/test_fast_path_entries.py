"""The fast path encodes entries itself. They are the same as those of the slow path, whatever is in them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from skillwire import DYNAMIC, SkillEntry, SkillResource, SkillUri, digest_of
from skillwire.server.fastpath import _encode_entry  # pyright: ignore[reportPrivateUsage]
from skillwire.wire import entry_to_wire

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(TEXT, VALUES, max_size=5), st.lists(st.binary(max_size=9), max_size=4), st.booleans())
def test_an_entry_is_encoded_as_its_wire_object_is(
    frontmatter: dict[str, Any], files: list[bytes], is_dynamic: bool
) -> None:
    resources = tuple(
        SkillResource(SkillUri(f'skill://a/"{number}\\.md'), digest_of(data), len(data))
        for number, data in enumerate(files)
    )
    entry = SkillEntry(SkillUri("skill://a/SKILL.md"), frontmatter, DYNAMIC if is_dynamic else resources)
    wire = json.dumps(entry_to_wire(entry), ensure_ascii=False, separators=(",", ":"))
    assert _encode_entry(entry) == wire.encode()
