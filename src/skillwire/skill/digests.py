"""Digest: `sha256:` and 64 lowercase hexadecimal digits of the raw bytes (ENT-3)."""

from __future__ import annotations

import hashlib
import re
from typing import NewType

from skillwire.errors import FormatError
from skillwire.issues import Issue

Digest = NewType("Digest", str)
"""A string that `parse_digest` accepted or `digest_of` made."""

_SHAPE = re.compile(r"sha256:[0-9a-f]{64}")


def digest_of(data: bytes) -> Digest:
    """The digest of these bytes."""
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def parse_digest(text: str) -> Digest:
    """The text as a `Digest`, or a `FormatError`."""
    if not _SHAPE.fullmatch(text):
        raise FormatError(
            Issue(
                rule="digest-shape",
                message=f"{text[:80]!r} is not a digest",
                fix="write sha256: and 64 lowercase hexadecimal digits",
            )
        )
    return Digest(text)
