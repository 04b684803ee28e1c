"""URIs: plain path segments behind a scheme and a name, with nothing in them that could leave a directory."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontmatter_blocks import only_issue
from skillwire.errors import FormatError
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import (
    SkillUri,
    UriParts,
    child_uri,
    is_inside,
    make_uri,
    parse_uri,
    path_below,
    shown_uri,
    skill_name_in,
    skill_root,
    split_uri,
)


@pytest.mark.requirement("FMT-3", "FMT-9")
@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (["a", "SKILL.md"], "skill://a/SKILL.md"),
        (["acme", "billing", "refunds", "SKILL.md"], "skill://acme/billing/refunds/SKILL.md"),
        (["a", "b c.md"], "skill://a/b%20c.md"),
        (["a", "100%.md"], "skill://a/100%25.md"),
        (["a", "%2e%2e"], "skill://a/%252e%252e"),
        (["a", "q?#[x].md"], "skill://a/q%3F%23%5Bx%5D.md"),
        (["a", "x:y@z!$&'()*+,;=~._-"], "skill://a/x:y@z!$&'()*+,;=~._-"),
        (["café", "é.md"], "skill://caf%C3%A9/%C3%A9.md"),
        (["x y", "SKILL.md"], "skill://x%20y/SKILL.md"),
        (["x:y@z", "SKILL.md"], "skill://x%3Ay%40z/SKILL.md"),
        (["a", "..."], "skill://a/..."),
        (["a", " "], "skill://a/%20"),
        (["a", "tab\tnew\nline"], "skill://a/tab%09new%0Aline"),
    ],
)
def test_a_path_is_encoded_on_writing_and_decoded_once_on_reading(path: list[str], uri: str) -> None:
    assert make_uri(path) == uri
    assert split_uri(uri) == UriParts("skill", path[0], tuple(path[1:]))
    assert parse_uri(uri) == uri


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("SKILL://a/b", "skill://a/b"),
        ("skill://caf\u00e9/\u00e9", "skill://caf%C3%A9/%C3%A9"),
        ("skill://a/%7e%41", "skill://a/~A"),
        ("skill://a/b%3ac", "skill://a/b:c"),
        ("skill://%61/b", "skill://a/b"),
        ("Docs+v1.0://Host:80/x%20y", "docs+v1.0://Host:80/x%20y"),
        ("https://example.org/skills/a/SKILL.md", "https://example.org/skills/a/SKILL.md"),
    ],
)
def test_spellings_of_one_uri_become_one(written: str, canonical: str) -> None:
    assert parse_uri(written) == canonical


@pytest.mark.requirement("FMT-9")
@pytest.mark.parametrize(
    "uri",
    [
        "",
        "a",
        "/a/b",
        "://a/b",
        "1skill://a",
        "skill:a/b",
        "skill:/a/b",
        "skill://",
        "skill:///a",
        "skill://a/",
        "skill://a//b",
        "skill://a/.",
        "skill://a/./b",
        "skill://a/../b",
        "skill://../a",
        "skill://./a",
        "skill://%2e%2e/a",
        "skill://a/%2e%2e/b",
        "skill://a/.%2E/b",
        "skill://a/%2E",
        "skill://a/b%2fc",
        "skill://a%2Fb/c",
        "skill://a/b%5Cc",
        "skill://a/b\\c",
        "skill://a\\b/c",
        "skill://a/b%00",
        "skill://a/b\0",
        "skill://a/%",
        "skill://a/%2",
        "skill://a/%zz",
        "skill://a/%ff",
        "skill://a/%C3",
        "skill://a/%ED%A0%80",
        "skill://a/\ud800",
        "skill://\ud800/a",
        "skill://a b/c",
        "skill://a@b/c",
        "skill://a:80/c",
        "skill://[::1]/c",
        "skill://a/b?c",
        "skill://a/b#c",
        "skill://a?b",
        "other:///a",
        "other://a b/c",
        "other://a\\b/c",
        "other://a\u202eb/c",
        "other://a/..",
        "file:///etc/passwd",
        "file:/etc/passwd",
        "file:etc/passwd",
        "FILE://host/etc/passwd",
        "file://///etc/passwd",
    ],
)
def test_a_uri_that_is_not_plain_is_refused(uri: str) -> None:
    assert only_issue(parse_uri, uri).rule == "uri"


@pytest.mark.requirement("FMT-9")
@pytest.mark.parametrize(
    "path",
    [
        [],
        [""],
        ["a", ""],
        ["a", "."],
        ["a", ".."],
        [".."],
        ["a/b"],
        ["a", "b\\c"],
        ["a", "\0"],
        ["a", "\udcff"],
    ],
)
def test_a_path_that_is_not_plain_is_never_written(path: list[str]) -> None:
    with pytest.raises(FormatError):
        make_uri(path)
    if path:
        with pytest.raises(FormatError):
            child_uri(SkillUri("skill://a"), path[-1])


def test_a_huge_uri_is_refused_unread_and_shown_in_part() -> None:
    with pytest.raises(FormatError) as caught:
        parse_uri("skill://a/" + "x" * 10_000_000)
    assert len(str(caught.value)) < 500
    assert parse_uri("skill://a/" + "x" * (DEFAULT_LIMITS.uri_bytes - 10))


@pytest.mark.requirement("FMT-4")
def test_the_root_of_a_skill_is_its_uri_without_the_file() -> None:
    uri = make_uri(["acme", "refunds", "SKILL.md"])
    root = skill_root(uri)
    assert root == "skill://acme/refunds"
    assert child_uri(root, "SKILL.md") == uri
    assert child_uri(root, "a b.md") == "skill://acme/refunds/a%20b.md"


@pytest.mark.requirement("FMT-3", "FMT-4")
@pytest.mark.parametrize(
    "uri",
    ["skill://a", "skill://a/b.md", "skill://a/skill.md", "skill://a/SKILL.md/b", "skill://SKILL.md", "x"],
)
def test_only_the_uri_of_a_skill_file_has_a_root_and_a_name(uri: str) -> None:
    with pytest.raises(FormatError, match=r"SKILL\.md"):
        skill_root(SkillUri(uri))
    with pytest.raises(FormatError, match=r"SKILL\.md"):
        skill_name_in(SkillUri(uri))


@pytest.mark.requirement("FMT-3")
@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("skill://refunds/SKILL.md", "refunds"),
        ("skill://acme/billing/refunds/SKILL.md", "refunds"),
        ("skill://caf%C3%A9/SKILL.md", "café"),
        ("https://example.org/a/SKILL.md", "a"),
    ],
)
def test_the_last_segment_of_the_skill_path_is_the_name(uri: str, name: str) -> None:
    assert skill_name_in(parse_uri(uri)) == name


@pytest.mark.requirement("FMT-6")
def test_the_authority_is_a_name_and_never_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a URI was looked up on the network")

    for look_up in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "create_connection"):
        monkeypatch.setattr(socket, look_up, refuse)
    uri = parse_uri("skill://localhost/a/SKILL.md")
    assert split_uri(uri).authority == "localhost"
    assert skill_name_in(uri) == "a"
    assert (
        child_uri(skill_root(parse_uri("https://example.org/a/SKILL.md")), "b.md")
        == "https://example.org/a/b.md"
    )


def test_a_directory_holds_what_lies_below_it_and_no_namesake() -> None:
    root = parse_uri("skill://acme/a")
    assert is_inside(parse_uri("skill://acme/a/b%20c/d.md"), root)
    assert path_below(parse_uri("skill://acme/a/b%20c/d.md"), root) == ("b c", "d.md")
    assert not is_inside(root, root)
    assert not is_inside(parse_uri("skill://acme/ab/c.md"), root)
    assert not is_inside(parse_uri("skill://acme"), root)


def test_a_uri_in_a_message_is_printable_and_short() -> None:
    assert shown_uri("skill://a/b c") == "skill://a/b c"
    assert shown_uri("a\n\x1b[31m\u202e") == "a\\u000a\\u001b[31m\\u202e"
    assert len(shown_uri("x" * 10_000)) <= 201


SEGMENT = st.text(st.characters(exclude_characters="/\\\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda segment: segment not in (".", "..")
)


@pytest.mark.requirement("FMT-9")
@given(st.lists(SEGMENT, min_size=1, max_size=6))
def test_any_plain_path_survives_the_round_trip(path: list[str]) -> None:
    uri = make_uri(path)
    assert uri.isascii()
    assert uri.isprintable()
    parts = split_uri(uri)
    assert [parts.authority, *parts.segments] == path
    assert parse_uri(uri) == uri


@pytest.mark.requirement("FMT-9")
@given(st.lists(st.text(st.sampled_from("aZ0._~-"), max_size=4), min_size=1, max_size=4))
def test_a_uri_of_plain_characters_is_taken_as_its_parts_are(path: list[str]) -> None:
    uri = f"skill://{'/'.join(path)}"
    try:
        parts = split_uri(uri)
    except FormatError:
        with pytest.raises(FormatError):
            parse_uri(uri)
    else:
        assert parse_uri(uri) == make_uri([parts.authority, *parts.segments])


@pytest.mark.requirement("FMT-9")
@given(st.sampled_from(["", "skill://", "skill://a/", "x://a/", "SKILL://%"]), st.text())
def test_any_text_is_a_uri_of_plain_segments_or_refused(start: str, text: str) -> None:
    try:
        uri = parse_uri(start + text)
    except FormatError:
        return
    assert parse_uri(uri) == uri
    for segment in split_uri(uri).segments:
        assert segment not in ("", ".", "..")
        assert not set(segment) & set("/\\\0")
