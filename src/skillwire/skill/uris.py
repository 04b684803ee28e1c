"""SkillUri: the URI of a skill or one of its files, checked so that it cannot leave its directory.

A URI that passed `parse_uri` has a scheme, an authority and path segments; each segment, decoded once, is a
plain file name. `..`, `.`, empty segments, encoded slashes, backslashes and NUL cannot occur (FMT-9), so its
segments can be safely joined to a directory. The authority is a name, never a network host (FMT-6).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NewType
from urllib.parse import quote, unquote_to_bytes

from skillwire.errors import FormatError
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS

SkillUri = NewType("SkillUri", str)
"""A string that `parse_uri` accepted or `make_uri` created."""

SCHEME = "skill"
SKILL_FILE = "SKILL.md"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
# RFC 3986: reg-name = *( unreserved / pct-encoded / sub-delims ); pchar adds ":" and "@".
_REG_NAME = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
_SAFE_IN_REG_NAME = "!$&'()*+,;="
_SAFE_IN_SEGMENT = _SAFE_IN_REG_NAME + ":@"
_PLAIN = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*")
_PLAIN_URI = re.compile(rf"{SCHEME}:/(?:/{_PLAIN.pattern})+")
_SHOWN = 200
_REMEMBERED = 16_384
_REMEMBERED_LENGTH = 256


@dataclass(frozen=True, slots=True)
class UriParts:
    """The parts of a URI. `authority` is decoded for `skill:`, and unchanged for any other scheme."""

    scheme: str
    authority: str
    segments: tuple[str, ...]


def split_uri(text: str) -> UriParts:
    """Split a URI and check every part of it, or raise a `FormatError`."""
    if len(text) > DEFAULT_LIMITS.uri_bytes:
        raise _refused(text, f"the URI has more than {DEFAULT_LIMITS.uri_bytes} characters", "shorten it")
    match = _SCHEME.match(text)
    if match is None:
        raise _refused(text, "the URI has no scheme", f"write it as {SCHEME}://NAME/{SKILL_FILE}")
    scheme = match[1].lower()
    if scheme == "file":
        # SEC-3: refused by scheme, regardless of slashes.
        raise _refused(text, "a file: URI never names a skill", f"use a {SCHEME}:// URI")
    rest = text[match.end() :]
    if not rest.startswith("//"):
        raise _refused(text, "the URI has no authority", f"write it as {scheme}://NAME/{SKILL_FILE}")
    if "?" in rest or "#" in rest:
        raise _refused(
            text, "the URI has a query or a fragment", "leave it out, or encode ? as %3F and # as %23"
        )
    raw_authority, *raw_segments = rest[2:].split("/")
    if scheme == SCHEME:
        if not _REG_NAME.fullmatch(_encode_non_ascii(raw_authority)):
            raise _refused(
                text,
                "the first segment is not a valid reg-name",
                "use letters, digits and hyphens, and percent-encode the rest",
            )
        authority = _decode_segment(text, raw_authority)
    else:
        authority = raw_authority
        if authority in ("", ".", "..") or _has_forbidden(authority):
            raise _refused(
                text, "the URI's authority is empty or not plain", "name the server's own prefix first"
            )
    return UriParts(scheme, authority, tuple(_decode_segment(text, raw) for raw in raw_segments))


def parse_uri(text: str) -> SkillUri:
    """The URI in its canonical spelling, or a `FormatError`."""
    # Most URIs are already canonical and have no special characters.
    if is_plain(text):
        return SkillUri(text)
    # A server sees the same few thousand URIs again and again. Long ones are not cached.
    return _parse_again(text) if len(text) <= _REMEMBERED_LENGTH else _parse(text)


def is_plain(text: str) -> bool:
    """Whether a text is a canonical `skill://` URI without encoded characters."""
    return len(text) <= DEFAULT_LIMITS.uri_bytes and _PLAIN_URI.fullmatch(text) is not None


def _parse(text: str) -> SkillUri:
    parts = split_uri(text)
    return _join(parts.scheme, parts.authority, parts.segments)


_parse_again = lru_cache(maxsize=_REMEMBERED)(_parse)


def make_uri(path: Iterable[str]) -> SkillUri:
    """The `skill://` URI of a path given as plain segments (FMT-3), or a `FormatError`."""
    segments = list(path)
    if not segments:
        raise _refused("", "the path has no segments", "name at least the skill")
    for segment in segments:
        _check_segment(segment, segment)
    return _join(SCHEME, segments[0], segments[1:])


def child_uri(parent: SkillUri, name: str) -> SkillUri:
    """The URI of `name` in the directory `parent`."""
    # Most names need neither a check nor encoding, and there may be tens of thousands.
    if _PLAIN.fullmatch(name):
        return SkillUri(f"{parent}/{name}")
    _check_segment(name, name)
    return SkillUri(f"{parent}/{quote(name, safe=_SAFE_IN_SEGMENT)}")


def skill_root(uri: SkillUri) -> SkillUri:
    """The directory of a `SKILL.md` URI, without `/SKILL.md` (FMT-4)."""
    root, slash, name = uri.rpartition("/")
    # `skill://SKILL.md` has no directory: `SKILL.md` is the authority.
    if not slash or name != SKILL_FILE or "://" not in root:
        raise _refused(uri, f"the URI does not end in /{SKILL_FILE}", f"name the skill by its {SKILL_FILE}")
    return SkillUri(root)


def skill_name_in(uri: SkillUri) -> str:
    """The last segment of the skill path, which must equal the frontmatter's name (FMT-3)."""
    root = skill_root(uri)
    if is_plain(root):
        return root.rpartition("/")[2]
    parts = split_uri(root)
    return parts.segments[-1] if parts.segments else parts.authority


def is_inside(uri: SkillUri, root: SkillUri) -> bool:
    """Whether a URI is below a directory; both must be canonical."""
    return uri.startswith(root + "/")


def path_below(uri: SkillUri, root: SkillUri) -> tuple[str, ...]:
    """The decoded segments from a directory to a URI below it."""
    if "%" not in uri and uri.startswith(f"{root}/"):
        return tuple(uri[len(root) + 1 :].split("/"))  # Most have nothing to decode.
    return split_uri(uri).segments[len(split_uri(root).segments) :]


def shown_uri(text: str) -> str:
    """A URI or path for a message: printable and shortened."""
    return shown(text, _SHOWN)


def _join(scheme: str, authority: str, segments: Iterable[str]) -> SkillUri:
    first = quote(authority, safe=_SAFE_IN_REG_NAME) if scheme == SCHEME else authority
    return SkillUri("/".join([f"{scheme}://{first}", *(quote(s, safe=_SAFE_IN_SEGMENT) for s in segments)]))


def _decode_segment(uri: str, raw: str) -> str:
    if _BAD_PERCENT.search(raw):
        raise _refused(uri, "the URI has a % that is not an encoding", "write a literal % as %25")
    try:
        segment = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeError:
        raise _refused(uri, "a segment of the URI is not UTF-8", "percent-encode UTF-8 bytes") from None
    _check_segment(uri, segment)
    return segment


def _check_segment(uri: str, segment: str) -> None:
    if segment in ("", ".", ".."):
        raise _refused(uri, f"the path has a segment {segment!r}", "name files by plain path segments")
    if "/" in segment or "\\" in segment or "\0" in segment:
        raise _refused(
            uri, "a segment contains a slash, a backslash or NUL", "name files by plain path segments"
        )
    try:
        segment.encode("utf-8")
    except UnicodeEncodeError:
        raise _refused(uri, "a file name is not valid Unicode", "rename the file") from None


def _has_forbidden(authority: str) -> bool:
    return any(char in "\\\0" or char.isspace() or not char.isprintable() for char in authority)


def _encode_non_ascii(raw: str) -> str:
    # Lenient: a client may send `skill://café` unencoded. Our own URIs are always encoded.
    return "".join(char if char.isascii() else "%00" for char in raw)


def _refused(uri: str, message: str, fix: str) -> FormatError:
    return FormatError.of(rule="uri", message=f"{message}: {shown_uri(uri)}", fix=fix)
