"""SkillEntry: a skill as a server lists it, and what it consists of: names, URIs, paths and digests.

A value of one of these types proves that it was checked: which are well formed, and which work everywhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Final, Literal, NamedTuple, NewType, TypeGuard
from urllib.parse import quote, unquote_to_bytes

from skillwire.documents import JsonValue
from skillwire.errors import FormatError, Issue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.text import shown

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
        raise _bad_uri(text, f"the URI has more than {DEFAULT_LIMITS.uri_bytes} characters", "shorten it")
    match = _SCHEME.match(text)
    if match is None:
        raise _bad_uri(text, "the URI has no scheme", f"write it as {SCHEME}://NAME/{SKILL_FILE}")
    scheme = match[1].lower()
    if scheme == "file":
        # SEC-3: refused by scheme, regardless of slashes.
        raise _bad_uri(text, "a file: URI never names a skill", f"use a {SCHEME}:// URI")
    rest = text[match.end() :]
    if not rest.startswith("//"):
        raise _bad_uri(text, "the URI has no authority", f"write it as {scheme}://NAME/{SKILL_FILE}")
    if "?" in rest or "#" in rest:
        raise _bad_uri(
            text, "the URI has a query or a fragment", "leave it out, or encode ? as %3F and # as %23"
        )
    raw_authority, *raw_segments = rest[2:].split("/")
    if scheme == SCHEME:
        if not _REG_NAME.fullmatch(_encode_non_ascii(raw_authority)):
            raise _bad_uri(
                text,
                "the first segment is not a valid reg-name",
                "use letters, digits and hyphens, and percent-encode the rest",
            )
        authority = _decode_segment(text, raw_authority)
    else:
        authority = raw_authority
        if authority in ("", ".", "..") or _has_forbidden(authority):
            raise _bad_uri(
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
        raise _bad_uri("", "the path has no segments", "name at least the skill")
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
        raise _bad_uri(uri, f"the URI does not end in /{SKILL_FILE}", f"name the skill by its {SKILL_FILE}")
    return SkillUri(root)


def skill_name_in(uri: SkillUri) -> str:
    """The last segment of the skill path, which must equal the frontmatter's name (FMT-3)."""
    root = skill_root(uri)
    if "%" not in root:
        return root.rpartition("/")[2]  # A canonical URI has only one encoding.
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
        raise _bad_uri(uri, "the URI has a % that is not an encoding", "write a literal % as %25")
    try:
        segment = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeError:
        raise _bad_uri(uri, "a segment of the URI is not UTF-8", "percent-encode UTF-8 bytes") from None
    _check_segment(uri, segment)
    return segment


def _check_segment(uri: str, segment: str) -> None:
    if segment in ("", ".", ".."):
        raise _bad_uri(uri, f"the path has a segment {segment!r}", "name files by plain path segments")
    if "/" in segment or "\\" in segment or "\0" in segment:
        raise _bad_uri(
            uri, "a segment contains a slash, a backslash or NUL", "name files by plain path segments"
        )
    try:
        segment.encode("utf-8")
    except UnicodeEncodeError:
        raise _bad_uri(uri, "a file name is not valid Unicode", "rename the file") from None


def _has_forbidden(authority: str) -> bool:
    return any(char in "\\\0" or char.isspace() or not char.isprintable() for char in authority)


def _encode_non_ascii(raw: str) -> str:
    # Lenient: a client may send `skill://café` unencoded. Our own URIs are always encoded.
    return "".join(char if char.isascii() else "%00" for char in raw)


def _bad_uri(uri: str, message: str, fix: str) -> FormatError:
    return FormatError.of(rule="uri", message=f"{message}: {shown_uri(uri)}", fix=fix)


SkillName = NewType("SkillName", str)
"""A string that `parse_name` accepted."""

MAX_NAME_LENGTH = 64
# The common case, checked quickly.
_USUAL: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*+")


def name_issues(name: str) -> list[Issue]:
    """All problems with a name (FMT-2); empty if it is valid."""
    issues: list[Issue] = []
    if len(name) <= MAX_NAME_LENGTH and _USUAL.fullmatch(name):
        return issues

    def remark(rule: str, message: str, fix: str) -> None:
        issues.append(Issue(rule=rule, message=message, fix=fix))

    if not name:
        remark("name-empty", "the name is empty", "give the skill the name of its directory")
        return issues
    if len(name) > MAX_NAME_LENGTH:
        remark(
            "name-too-long",
            f"the name has {len(name)} characters, {MAX_NAME_LENGTH} are allowed",
            "shorten the name and its directory",
        )
    strange = sorted({char for char in name if char != "-" and not _is_name_character(char)})
    if strange:
        shown = " ".join(repr(char) for char in strange[:8])
        remark(
            "name-characters",
            f"the name has characters that are not allowed: {shown}",
            "use lowercase letters, digits and single hyphens",
        )
    if name.startswith("-") or name.endswith("-"):
        remark("name-edge-hyphen", "the name starts or ends with a hyphen", "remove the hyphen at the edge")
    if "--" in name:
        remark("name-double-hyphen", "the name has two hyphens in a row", "use single hyphens")
    return issues


def parse_name(name: str) -> SkillName:
    """The name as a `SkillName`, or a `FormatError` with every issue."""
    if issues := name_issues(name):
        raise FormatError(issues)
    return SkillName(name)


def _is_name_character(char: str) -> bool:
    # Letters without case (Arabic, Chinese, ...) count. Mathematical capitals have no lowercase form.
    return char.isalnum() and char == char.lower() and not char.isupper()


LONGEST_SEGMENT: Final = 255
"""Bytes or characters: no file system has longer names."""
# An empty segment, a dot or two, a backslash, a control character, or half a character.
_NOT_PLAIN: Final = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|[\\\x00-\x1f\x7f\ud800-\udfff]")
_DRIVE: Final = re.compile(r"[^/]:(?:/|\Z)")


def is_plain_path(path: str) -> bool:
    """Whether a path is relative, in plain segments joined by `/`, without control characters (FMT-9)."""
    return _NOT_PLAIN.search(path) is None


def safe_path(path: str, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """The path in plain segments, or a `FormatError` if it could leave its folder."""
    while path.startswith("./"):
        path = path[2:]
    if not is_plain_path(path) or _DRIVE.match(path):
        raise path_error(f"the path '{shown(path)}' is not plain")
    size = len(path.encode())
    if (
        size > limits.path_bytes
        or path.count("/") >= limits.directory_depth
        # No file system has it.
        or (
            size > LONGEST_SEGMENT
            and any(len(segment.encode()) > LONGEST_SEGMENT for segment in path.split("/"))
        )
    ):
        raise path_error(f"the path '{shown(path, 80)}' is too long")
    return path


def is_skill_file(path: str) -> bool:
    """Whether a path is that of a `SKILL.md`."""
    return path == SKILL_FILE or path.endswith(f"/{SKILL_FILE}")


def folders_of(path: str) -> Iterator[str]:
    """The folders that a path lies in, the outermost first; the empty path is the first of all."""
    yield ""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


class PathConflict(NamedTuple):
    """A path that cannot be a file beside the others: it is there `twice`, or lies below one (`in-file`)."""

    kind: str
    path: str
    reason: str


def file_conflicts(paths: Iterable[str], folders: Iterable[str] = ()) -> Iterator[PathConflict]:
    """Yield every path that cannot be a file beside the others. `folders` may not be files or below one."""
    files: dict[str, None] = {}
    for path in paths:
        if path in files:
            yield PathConflict("twice", path, "is listed twice")
        files[path] = None
    # Whether a folder is a file or below one. Each is looked up once, however deep and many the paths are.
    below = {"": False}
    for path in (*files, *(f"{folder}/" for folder in folders)):
        parent = path.rpartition("/")[0]
        passed: list[str] = []
        while parent not in below:
            passed.append(parent)
            if parent in files:
                below[parent] = True
            else:
                parent = parent.rpartition("/")[0]
        is_below = below[parent]
        below.update(dict.fromkeys(passed, is_below))
        if is_below:
            yield PathConflict("in-file", path, "lies below a file")


def check_files(paths: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Refuse the files of an archive or a repository that have a conflict."""
    for conflict in file_conflicts(paths, folders):
        raise path_error(f"{shown(conflict.path)} {conflict.reason}")


def path_error(message: str) -> FormatError:
    """The error for files whose paths cannot be used."""
    return FormatError.of(
        rule="paths", message=message, fix="use plain relative paths that differ by more than case"
    )


def skill_path(uri: SkillUri) -> tuple[str, ...]:
    """The plain segments of a skill's path, `SKILL.md` left out."""
    if "%" in uri:
        parts = split_uri(uri)
        path = (parts.authority, *parts.segments)
    else:
        path = tuple(uri.partition("://")[2].split("/"))  # A canonical URI has only one encoding.
    return path[:-1] if path[-1] == SKILL_FILE and len(path) > 1 else path


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
        # Whoever hashes a set may not have checked it: the same path with two digests is no set.
        if path == previous:
            raise _refused_set(f"the file {path[:200]!r} is listed twice", "list each file once")
        if not is_plain_path(path):
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


def _refused_set(message: str, fix: str) -> FormatError:
    return FormatError.of(rule="set-digest", message=message, fix=fix)


class Dialect(StrEnum):
    """The ways in which servers list skills, from the newest to the oldest."""

    FINAL = "D6"
    SUMMER_DRAFT = "D5"
    INDEX_WITH_FRONTMATTER = "D4"
    INDEX_WITH_DIGESTS = "D3"
    INDEX = "D2"
    MANIFEST = "D1"
    BARE_SCAN = "D0"

    @property
    def meaning(self) -> str:
        """The full name of the dialect, for people."""
        return _MEANINGS[self]

    @property
    def short(self) -> str:
        """The short name of the dialect, for a table; empty for the final extension."""
        return _SHORT[self]


_MEANINGS = {
    Dialect.FINAL: "Skills extension (final)",
    Dialect.SUMMER_DRAFT: "Skills extension (July 2026 draft)",
    Dialect.INDEX_WITH_FRONTMATTER: "skill index (June 2026 draft)",
    Dialect.INDEX_WITH_DIGESTS: "skill index with digests (early June 2026 draft)",
    Dialect.INDEX: "skill index (April 2026 draft)",
    Dialect.MANIFEST: "resources with manifests, as FastMCP serves them",
    Dialect.BARE_SCAN: "resources whose URIs look like skills",
}
_SHORT = {
    Dialect.FINAL: "",
    Dialect.SUMMER_DRAFT: "July draft",
    Dialect.INDEX_WITH_FRONTMATTER: "June draft",
    Dialect.INDEX_WITH_DIGESTS: "early June draft",
    Dialect.INDEX: "April draft",
    Dialect.MANIFEST: "manifest",
    Dialect.BARE_SCAN: "unconfirmed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftDetails:
    """The details of an entry of an older dialect.

    `carried` are the frontmatter fields that were listed, the only ones that can be compared (VER-2); `None`
    means all. `digests` are known digests of a skill whose list of files is incomplete. No server called an
    unconfirmed skill a skill: its URI only looks like one (FMT-5). `spelling` is its URI as the server writes
    it.
    """

    dialect: Dialect
    carried: frozenset[str] | None = None
    digests: tuple[tuple[SkillUri, Digest], ...] = ()
    confirmed: bool = True
    spelling: str = ""


class Dynamic(Enum):
    """The type of `DYNAMIC`, its only value."""

    DYNAMIC = "dynamic"


DYNAMIC: Final = Dynamic.DYNAMIC
"""Replaces the list of files if the skill's content is generated on request (ENT-2)."""


NO_SIZE: Final = -1
"""Replaces the size if an older dialect only lists the digest."""


# JSON numbers are exact up to here, and no file is longer.
_LARGEST_SIZE: Final = 2**53 - 1


def is_size(value: object) -> TypeGuard[int]:
    """Whether a value is the size of a file (ENT-3)."""
    # `type`, for a truth value is a number to Python.
    return type(value) is int and 0 <= value <= _LARGEST_SIZE


@dataclass(frozen=True, slots=True)
class SkillResource:
    """One file of a skill."""

    uri: SkillUri
    digest: Digest
    """The digest of its bytes as they are served: before any decoding, and with the line ends that they
    have."""
    size: int
    """Its length in bytes, or `NO_SIZE`."""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """One skill. `resources` has every file once, including `SKILL.md`, or is `DYNAMIC`. `draft` is set for
    an older dialect.
    """

    uri: SkillUri
    frontmatter: Mapping[str, JsonValue]
    resources: tuple[SkillResource, ...] | Literal[Dynamic.DYNAMIC]
    meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    draft: DraftDetails | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect in which the server listed this skill."""
        return self.draft.dialect if self.draft else Dialect.FINAL

    @property
    def carried_fields(self) -> frozenset[str] | None:
        """The frontmatter fields that can be compared; `None` means all of them (VER-2)."""
        return self.draft.carried if self.draft else None

    @property
    def name(self) -> str:
        """The frontmatter's name."""
        name = self.frontmatter.get("name")
        return name if isinstance(name, str) else ""

    @property
    def description(self) -> str:
        """The frontmatter's description."""
        description = self.frontmatter.get("description")
        return description if isinstance(description, str) else ""

    @property
    def is_dynamic(self) -> bool:
        return self.resources is DYNAMIC

    @property
    def total_size(self) -> int:
        """The total size of all files with a listed size; 0 for a dynamic skill."""
        return 0 if self.resources is DYNAMIC else sum([max(file.size, 0) for file in self.resources])
