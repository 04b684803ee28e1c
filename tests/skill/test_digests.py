"""Digests: `sha256:` and 64 lowercase hexadecimal digits of the raw bytes."""

from __future__ import annotations

import hashlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontmatter_blocks import only_issue
from skillwire.skill import digest_of, parse_digest, parse_set_digest, set_digest

EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.requirement("ENT-3")
def test_a_digest_is_sha256_of_the_raw_bytes() -> None:
    assert digest_of(b"") == EMPTY
    assert digest_of(b"a\r\n") != digest_of(b"a\n")
    assert digest_of(b"\xef\xbb\xbfa") == "sha256:" + hashlib.sha256(b"\xef\xbb\xbfa").hexdigest()


@pytest.mark.requirement("ENT-3")
@given(st.binary())
def test_a_digest_that_was_made_is_read_back(data: bytes) -> None:
    assert parse_digest(digest_of(data)) == digest_of(data)


@pytest.mark.requirement("ENT-3")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256:",
        EMPTY.removeprefix("sha256:"),
        EMPTY[:-1],
        EMPTY + "0",
        EMPTY + "\n",
        " " + EMPTY,
        EMPTY.upper(),
        EMPTY.replace("e", "E"),
        EMPTY.replace("sha256", "sha512"),
        EMPTY.replace("e", "g"),
        EMPTY.replace("0", "٠"),
        "\x1b" * 1000,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    issue = only_issue(parse_digest, text)
    assert issue.rule == "digest-shape"
    assert len(issue.message) < 500


# The vectors that ToolHive published for `contentDigest` of its lock file.
TOOLHIVE_VECTORS = [
    ({"a.txt": b"hello world"}, "sha256:79d1b89c9733bc5a3c51bd715612a85ab13add6933cb9aa7cc1ae44fd5d181a3"),
    (
        {"SKILL.md": b"# Skill", "refs/guide.md": b"guide"},
        "sha256:9b46342aaebede490f12bf67a5ecb4be507c7684ee5e11a0511b54c701f464bd",
    ),
]


@pytest.mark.parametrize(("files", "expected"), TOOLHIVE_VECTORS)
def test_the_digest_of_a_set_of_files_equals_toolhives(files: dict[str, bytes], expected: str) -> None:
    assert set_digest((path, digest_of(data)) for path, data in files.items()) == expected
    assert parse_set_digest(expected) == expected


_NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/\\"), min_size=1).filter(
    lambda name: name not in (".", "..")
)
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)


@given(st.dictionaries(_PATHS, st.binary(), min_size=1), st.randoms())
def test_the_order_of_the_files_does_not_matter(files: dict[str, bytes], random: Random) -> None:
    rows = [(path, digest_of(data)) for path, data in files.items()]
    expected = set_digest(rows)
    random.shuffle(rows)
    assert set_digest(rows) == expected
    path, data = next(iter(files.items()))
    assert set_digest({**dict(rows), path: digest_of(data + b"x")}.items()) != expected
    assert set_digest({**dict(rows), path + "x/y": digest_of(data)}.items()) != expected


@pytest.mark.parametrize(
    "paths",
    [
        [],
        ["a", "a"],
        [""],
        ["/a"],
        ["a/"],
        ["a//b"],
        ["."],
        ["a/./b"],
        [".."],
        ["a/../b"],
        ["a\0b"],
        ["a\nb"],
        ["a\x7f"],
        ["a\\b"],
        ["\ud800"],
    ],
)
def test_a_set_that_could_be_written_like_another_has_no_digest(paths: list[str]) -> None:
    assert only_issue(set_digest, [(path, digest_of(b"")) for path in paths]).rule == "set-digest"
