"""Digests: `sha256:` and 64 lowercase hexadecimal digits of the raw bytes."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import FormatError
from skillwire.skill.digests import digest_of, parse_digest

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
    with pytest.raises(FormatError) as caught:
        parse_digest(text)
    (issue,) = caught.value.issues
    assert issue.rule == "digest-shape"
    assert issue.fix
    assert issue.message.isprintable()
    assert len(issue.message) < 500
