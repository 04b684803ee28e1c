"""Digest: `sha256:` and 64 lowercase hexadecimal digits of the raw bytes (ENT-3).

`set_digest` is one digest for all files of a skill. It covers only their paths and bytes: no URI, modes or
times. ToolHive's `contentDigest` is computed in the same way.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NewType

from skillwire.errors import FormatError

Digest = NewType("Digest", str)
"""A string that `parse_digest` accepted or `digest_of` computed."""

SetDigest = NewType("SetDigest", str)
"""The digest of a set of files, computed by `set_digest`."""

_PREFIX = "sha256:"
_SHAPE = re.compile(r"sha256:[0-9a-f]{64}")


def digest_of(data: bytes) -> Digest:
    """The digest of these bytes."""
    return Digest(_PREFIX + hashlib.sha256(data).hexdigest())


def is_digest(text: str) -> bool:
    """Whether a text is a digest."""
    return _SHAPE.fullmatch(text) is not None


def parse_digest(text: str) -> Digest:
    """The text as a `Digest`, or a `FormatError`."""
    if not is_digest(text):
        raise FormatError.of(
            rule="digest-shape",
            message=f"{text[:80]!r} is not a digest",
            fix="write sha256: and 64 lowercase hexadecimal digits",
        )
    return Digest(text)


def set_digest(files: Iterable[tuple[str, Digest]]) -> SetDigest:
    """The digest of all files of a skill, given as pairs of path and digest.

    The order of `files` does not matter. Raises a `FormatError` for an empty set, and for a path that is not
    plain and relative, is repeated, or has control characters, so that different sets never have the same
    digest.
    """
    lines: list[bytes] = []
    rows = sorted(files)
    if not rows:
        raise _refused_set("a skill has no files", "a skill has at least its SKILL.md")
    previous = ""
    for path, digest in rows:
        if path == previous:
            raise _refused_set(f"the file {path[:200]!r} is listed twice", "list each file once")
        if _NOT_PLAIN.search(path):
            raise _refused_set(
                f"{path[:200]!r} is not the path of a file in a skill",
                "use plain segments joined by /, without control characters",
            )
        lines.append(b"%b\0%b\n" % (path.encode("utf-8"), bytes.fromhex(digest[len(_PREFIX) :])))
        previous = path
    return SetDigest(digest_of(b"".join(lines)))


def parse_set_digest(text: str) -> SetDigest:
    """The text as a `SetDigest`, or a `FormatError`."""
    return SetDigest(parse_digest(text))


# A control character, half of a surrogate pair, or a segment that is empty, `.` or `..`.
_NOT_PLAIN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]|(?:^|/)\.{0,2}(?:/|\Z)")


def _refused_set(message: str, fix: str) -> FormatError:
    return FormatError.of(rule="set-digest", message=message, fix=fix)
