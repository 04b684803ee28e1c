"""Names, URIs and paths of skills and their files: which are well formed, and which work everywhere."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, NewType
from urllib.parse import quote, unquote_to_bytes

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


_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{name}{number}" for name in ("com", "lpt") for number in "0123456789¹²³"}
)
_FORBIDDEN: Final = frozenset('<>:"|?*\\')
_LONGEST: Final = 255
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
        raise _bad_path(f"the path '{shown(path)}' is not plain")
    size = len(path.encode())
    if (
        size > limits.path_bytes
        or path.count("/") >= limits.directory_depth
        # No file system has it.
        or (size > _LONGEST and any(len(segment.encode()) > _LONGEST for segment in path.split("/")))
    ):
        raise _bad_path(f"the path '{shown(path, 80)}' is too long")
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
        raise _bad_path(f"{shown(conflict.path)} {conflict.reason}")


def check_portable(paths: Iterable[str], *, limits: Limits = DEFAULT_LIMITS) -> None:
    """Refuse paths that cannot be installed on every system: for what is published to readers unknown."""
    listed = tuple(safe_path(path, limits=limits) for path in paths)
    if problems := portability_problems(listed):
        raise _bad_path(problems[0])


def windows_problem(path: str) -> str:
    """Why Windows refuses a path, for a person; empty if it does not."""
    for segment in path.split("/"):
        if bad := sorted(_FORBIDDEN & set(segment)):
            return f"{shown(path)} contains {' '.join(bad)}"
        if segment.endswith((" ", ".")):
            return f"{shown(path)} has a name that ends with a space or a dot"
        if segment.partition(".")[0].rstrip(" ").casefold() in _DEVICES:
            return f"{shown(path)} contains the name of a device"
        if len(segment) > _LONGEST:
            return f"{shown(path)} has a name with more than {_LONGEST} characters"
    return ""


def clashes(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of paths that are the same on a file system that ignores case or how accents are encoded."""
    first: dict[str, str] = {}
    found: dict[tuple[str, str], None] = {}
    for path in sorted(paths):
        segments = path.split("/")
        for length in range(1, len(segments) + 1):
            part = "/".join(segments[:length])
            other = first.setdefault(_fold(part), part)
            if other != part:
                found[other, part] = None
    return tuple(found)


def portability_problems(paths: Iterable[str]) -> tuple[str, ...]:
    """Return what keeps a skill from being installed everywhere, one line each."""
    listed = tuple(paths)
    return (
        *(f"not possible on Windows: {problem}" for path in listed if (problem := windows_problem(path))),
        *(
            f"on macOS and Windows, {shown(one)} and {shown(other)} are the same name"
            for one, other in clashes(listed)
        ),
    )


def _fold(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _bad_path(message: str) -> FormatError:
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
