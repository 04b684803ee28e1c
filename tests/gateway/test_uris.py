"""Every skill of every upstream has one URI of its own at a gateway, and the way back is the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import FormatError
from skillwire.gateway.upstreams import downstream_root, upstream_uri
from skillwire.skill import SkillUri, make_uri, parse_uri, split_uri

LABELS = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)
PLAIN = st.sampled_from(["a", "b", "~", "~skill", "~github", "~repo", "a b", "é", "100%", "x:y"])
SEGMENTS = PLAIN | st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=6
).filter(lambda text: text not in (".", ".."))
HOSTS = st.sampled_from(["a", "b", "example.org", "~skill", "x-1", "~"])
SCHEMES = st.sampled_from(["github", "repo", "skills", "x-a.b+c"])


def made(parts: list[str]) -> SkillUri | None:
    try:
        return make_uri(parts)
    except FormatError:
        return None  # Not every text can be an authority.


def other(scheme: str, host: str, below: list[str]) -> SkillUri | None:
    path = make_uri(["x", *below]).removeprefix("skill://x")
    try:
        return parse_uri(f"{scheme}://{host}{path}")
    except FormatError:
        return None


ROOTS = (
    st.builds(made, st.lists(SEGMENTS, min_size=1, max_size=4))
    | st.builds(other, SCHEMES, HOSTS, st.lists(SEGMENTS, max_size=3))
).filter(lambda uri: uri is not None)


@given(label=LABELS, root=ROOTS)
def test_every_uri_of_an_upstream_comes_back_from_the_gateway(label: str, root: SkillUri) -> None:
    served = downstream_root(label, root)
    parts = split_uri(served)
    assert (parts.scheme, parts.authority) == ("skill", label.casefold())
    assert upstream_uri(served) == (label.casefold(), root)
    # The name comes last, as it does upstream.
    original = split_uri(root)
    assert parts.segments[-1] == (original.segments[-1] if original.segments else original.authority)


@given(first=st.tuples(LABELS, ROOTS), second=st.tuples(LABELS, ROOTS))
def test_two_skills_never_share_a_uri(first: tuple[str, SkillUri], second: tuple[str, SkillUri]) -> None:
    is_same = (first[0].casefold(), first[1]) == (second[0].casefold(), second[1])
    assert (downstream_root(*first) == downstream_root(*second)) is is_same


@given(path=st.lists(SEGMENTS, min_size=1, max_size=5), label=LABELS)
def test_whatever_a_client_asks_for_leads_to_the_skill_of_that_uri_or_nowhere(
    path: list[str], label: str
) -> None:
    asked = make_uri([label, *path])
    found = upstream_uri(asked)
    if found is not None:
        assert downstream_root(*found) == asked


@pytest.mark.parametrize(
    ("upstream", "served"),
    [
        ("skill://refunds", "skill://shop/refunds"),
        ("skill://team/refunds", "skill://shop/team/refunds"),
        ("github://org/repo/refunds", "skill://shop/~github/org/repo/refunds"),
        ("skill://~github/org/refunds", "skill://shop/~skill/~github/org/refunds"),
    ],
)
def test_another_scheme_is_a_segment_that_no_path_can_have(upstream: str, served: str) -> None:
    root = parse_uri(upstream)
    assert downstream_root("Shop", root) == served
    assert upstream_uri(SkillUri(served)) == ("shop", root)


@pytest.mark.parametrize(
    "uri", ["skill://shop", "skill://shop/~github", "skill://shop/~skill/a", "github://shop/a"]
)
def test_a_spelling_that_the_gateway_does_not_use_is_not_found(uri: str) -> None:
    assert upstream_uri(parse_uri(uri)) is None
