"""Is it a URI? One detector for every tool that takes either a name, a path or a URI (RFC 3986)."""

from __future__ import annotations

import re
from typing import Final

from skillwire.issues import shown
from skillwire.trust.guards import looks_like_uri

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[/\\]{2}")
# White space and controls that a lenient reader drops or skips.
_DROPPED: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029]")


def is_uri(text: str) -> bool:
    """Whether the text opens with `<scheme>://`, as a lenient reader would see it."""
    return _URI.match(_DROPPED.sub("", text)) is not None


def file_refusal(path: str, tool: str) -> str:
    """Why a file tool does not take this path; empty when it is a path. `tool` is the one that reads URIs."""
    # SEC-3: `file:/x` has one slash and is a URI all the same.
    if not looks_like_uri(path):
        return ""
    return f"{shown(path)} is a URI, not a file: read it with {tool}"
