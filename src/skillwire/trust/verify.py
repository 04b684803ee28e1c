"""Verification: do these bytes match the entry?

1. The entry is complete and valid: each file once, `SKILL.md` among them, all inside the skill's directory,
   and the name is the last segment of the skill's path (ENT-2, FMT-1 to FMT-3).
2. The entry is within the limits, which is checked before anything is fetched (ENT-6).
3. The entry lists the file (VER-3).
4. For a dynamic skill, which lists nothing, the file is inside its directory, and everything retrieved so far
   is within the limit (ENT-6).
5. The size is the entry's (VER-1).
6. The digest is the entry's (VER-1).
7. The frontmatter of `SKILL.md` is the entry's, field by field, for a dynamic skill too (VER-2).

`check_entry` takes steps 1 and 2, `verify_file` steps 3 to 6, `verify_skill_md` steps 3 to 7;
`filter_directory` removes what a directory read shows beyond the entry (VER-4). The host decides when to
fetch (VER-5) and to refresh (VER-6), and what counts as a load (VER-7).

Passing only means that the server is consistent. It does not mean that a skill is harmless, or say who wrote
it, and no message here suggests that (VER-8).
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import InitVar, dataclass
from typing import ClassVar, Final, NamedTuple, NewType, NoReturn, Protocol, final
from urllib.parse import quote, unquote

from skillwire.documents import JsonValue, is_list, is_object
from skillwire.errors import (
    DigestMismatch,
    FormatError,
    FrontmatterMismatch,
    Issue,
    LimitExceeded,
    SizeMismatch,
    UnlistedFile,
)
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import (
    DYNAMIC,
    NO_SIZE,
    SKILL_FILE,
    Digest,
    SkillDocument,
    SkillEntry,
    SkillUri,
    child_uri,
    digest_of,
    file_conflicts,
    is_inside,
    is_plain_path,
    is_size,
    name_issues,
    parse_skill_md,
    parse_uri,
    path_below,
    shown_uri,
    skill_name_in,
    skill_root,
)
from skillwire.text import clean_line, decode_text, shown
from skillwire.trust.origin import Origin

_SHOWN = 40
_MOST = 8


def frontmatter_differences(
    listed: Mapping[str, object], found: Mapping[str, object], *, only_fields: Collection[str] | None = None
) -> tuple[str, ...]:
    """One line for each of the first few differences; empty if there are none.

    `only_fields` are the fields that an older dialect has; others are not compared.
    """
    if only_fields is not None:
        listed = {key: value for key, value in listed.items() if key in only_fields}
        found = {key: value for key, value in found.items() if key in only_fields}
    differences: list[str] = []
    # A stack, not recursion: a server chooses how deep its JSON goes.
    waiting: list[tuple[str, object, object]] = [("", listed, found)]
    while waiting and len(differences) < _MOST:
        place, one, other = waiting.pop()
        if is_object(one) and is_object(other):
            for key in sorted({*one, *other}, reverse=True):
                inner = f"{place}.{_plain(key)}" if place else _plain(key)
                if key not in other:
                    differences.append(f"{inner} is missing in the file")
                elif key not in one:
                    differences.append(f"{inner} is not in the entry")
                else:
                    waiting.append((inner, one[key], other[key]))
        elif is_list(one) and is_list(other):
            if len(one) != len(other):
                differences.append(f"{place} has {len(other)} items, the entry says {len(one)}")
            else:
                rows = zip(one, other, strict=True)
                pairs = [(f"{place}[{number}]", *pair) for number, pair in enumerate(rows)]
                waiting.extend(reversed(pairs))
        elif not _same_scalar(one, other):
            differences.append(f"{place} is {_shown(other)}, the entry says {_shown(one)}")
    return tuple(differences[:_MOST])


def _same_scalar(one: object, other: object) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one == other
    # Only numbers are left. NaN equals nothing, so the skill is refused.
    return isinstance(one, int | float) and isinstance(other, int | float) and _same_number(one, other)


def _same_number(one: float, other: float) -> bool:
    # Most readers treat JSON numbers as doubles, so a server in JavaScript rounds long integers.
    try:
        return float(one) == float(other)
    except OverflowError:
        return one == other


def _plain(key: str) -> str:
    quoted = json.dumps(key)
    return key if quoted == f'"{key}"' and len(key) <= _SHOWN else _cut(quoted)


def _shown(value: object) -> str:
    if is_object(value):
        return "an object"
    if is_list(value):
        return "a list"
    # ASCII JSON cannot contain terminal escapes.
    return _cut(json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


CheckedEntry = NewType("CheckedEntry", SkillEntry)
"""An entry that `check_entry` accepted. The host holds it while the skill is in use."""

_SEAL: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sealed:
    """Only one function of this file creates instances: no subclasses, copies or unpickled objects."""

    made_by: ClassVar[str]
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError(f"a {type(self).__name__} is made by {self.made_by} alone")

    def __init_subclass__(cls) -> None:
        if cls.__bases__ != (_Sealed,):
            raise TypeError(f"{cls.__bases__[0].__name__} has no subclasses")

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFile(_Sealed):
    """The bytes of one file of a skill, which match its entry.

    Only `verify_file` creates one. Rendering accepts nothing else, so unverified bytes cannot reach a prompt.
    """

    origin: Origin
    skill: SkillUri
    uri: SkillUri
    path: str
    """The path below the skill's directory, in plain segments joined by `/`."""
    data: bytes
    digest: Digest
    bound: bool
    """Whether the entry lists this digest; a dynamic skill lists none."""
    made_by = "verify_file"

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def text(self) -> str | None:
        """The file as text, or `None` if it is binary."""
        return decode_text(self.data)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSkill(_Sealed):
    """A verified `SKILL.md`, parsed, with its entry."""

    entry: CheckedEntry
    file: VerifiedFile
    frontmatter: Mapping[str, JsonValue]
    body: str
    """The text below the frontmatter."""
    body_line: int
    """The line of `SKILL.md` that the body starts at, counted from 1."""
    made_by = "verify_skill_md"

    @property
    def origin(self) -> Origin:
        return self.file.origin


def check_entry(entry: SkillEntry, *, limits: Limits = DEFAULT_LIMITS) -> CheckedEntry:
    """Accept an entry before anything of the skill is fetched.

    Raises a `FormatError` with every issue, or `LimitExceeded` with the reason. For an older dialect, only
    the frontmatter fields that it has are required.
    """
    # Step 1. ENT-2, FMT-1 to FMT-3: complete and valid.
    issues = _frontmatter_issues(entry, skill_name_in(entry.uri))
    if entry.resources is DYNAMIC:
        if issues:
            raise FormatError(issues)
        return CheckedEntry(entry)
    issues += manifest_issues((file.uri for file in entry.resources), entry.uri)
    for file in entry.resources:
        # A draft may have no size.
        if not is_size(file.size) and (file.size != NO_SIZE or entry.draft is None):
            issues.append(_manifest_issue("size", file.uri, "has a size that is not a number of bytes"))
    if issues:
        raise FormatError(issues)
    # Step 2. ENT-6: refused by the entry alone.
    if over := excess(len(entry.resources), entry.total_size, limits):
        raise LimitExceeded(
            f"{entry.uri} has {over.number} {over.unit}, at most {over.most} are loaded: "
            f"ask for a smaller skill, or raise {over.unit}_per_skill"
        )
    return CheckedEntry(entry)


def verify_file(
    entry: CheckedEntry,
    uri: SkillUri,
    data: bytes,
    origin: Origin,
    *,
    retrieved: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> VerifiedFile:
    """Check the bytes of one file against the held entry, or raise a `VerificationError`.

    `retrieved` is the number of bytes retrieved before; it limits a dynamic skill, whose entry has no sizes.
    """
    digest = digest_of(data)
    root = skill_root(entry.uri)
    if entry.resources is DYNAMIC:
        # Step 4. ENT-6: inside the directory, and within the limit all together.
        if not is_inside(uri, root) or not is_plain_path("/".join(path_below(uri, root))):
            raise UnlistedFile(uri=shown_uri(uri), skill=entry.uri)
        if _known_digest(entry, uri) not in (None, digest):
            # VER-1: the list of files is incomplete, but has this digest.
            raise DigestMismatch(uri=uri, expected=str(_known_digest(entry, uri)), actual=digest)
        if retrieved + len(data) > limits.bytes_per_skill:
            raise LimitExceeded(
                f"{entry.uri} has sent more than {limits.bytes_per_skill} bytes: it is cut off; "
                "release it, or raise bytes_per_skill"
            )
    else:
        # Step 3. VER-3: only what the entry lists.
        listed = next((resource for resource in entry.resources if resource.uri == uri), None)
        if listed is None:
            raise UnlistedFile(uri=shown_uri(uri), skill=entry.uri)
        # Step 5. VER-1: the size.
        if listed.size != NO_SIZE and len(data) != listed.size:
            raise SizeMismatch(uri=uri, expected=listed.size, actual=len(data))
        # Step 6. VER-1: the digest.
        if digest != listed.digest:
            raise DigestMismatch(uri=uri, expected=listed.digest, actual=digest)
    return VerifiedFile(
        origin=origin,
        skill=entry.uri,
        uri=uri,
        path="/".join(path_below(uri, root)),
        data=data,
        digest=digest,
        bound=not entry.is_dynamic,
        seal=_SEAL,
    )


def verify_skill_md(
    entry: CheckedEntry, data: bytes, origin: Origin, *, retrieved: int = 0, limits: Limits = DEFAULT_LIMITS
) -> VerifiedSkill:
    """Check a skill's own `SKILL.md`, bytes and frontmatter, or raise a `VerificationError` or `FormatError`.

    A nested `SKILL.md` that is read as a supporting file goes through `verify_file`: its frontmatter has no
    effect there (FMT-8).
    """
    file = verify_file(entry, entry.uri, data, origin, retrieved=retrieved, limits=limits)
    document = _document(entry, data, limits)
    # Step 7. VER-2: any difference refuses the skill; for an older dialect, in the fields that it has.
    differences = frontmatter_differences(
        entry.frontmatter, document.frontmatter, only_fields=entry.carried_fields
    )
    if differences:
        raise FrontmatterMismatch(uri=entry.uri, differences=differences)
    return VerifiedSkill(
        entry=entry,
        file=file,
        frontmatter=document.frontmatter,
        body=document.body,
        body_line=document.body_line,
        seal=_SEAL,
    )


def _document(entry: CheckedEntry, data: bytes, limits: Limits) -> SkillDocument:
    """The parts of a `SKILL.md`. A dialect without frontmatter does not require any."""
    if entry.carried_fields == frozenset() and not data.removeprefix(BOM_UTF8).startswith(b"---"):
        text = data.decode("utf-8", "replace")
        return SkillDocument({}, text, 1)
    return parse_skill_md(data, file=shown_uri(entry.uri), limits=limits)


def _frontmatter_issues(entry: SkillEntry, expected: str) -> list[Issue]:
    only_fields = entry.carried_fields
    issues: list[Issue] = []
    if only_fields is None or "name" in only_fields:
        issues += name_issues(entry.name)
        if entry.name != expected:
            issues.append(
                Issue(
                    rule="name-not-directory",
                    message=f"the name is {shown(entry.name)!r}, the path ends in {shown(expected)!r}",
                    fix="give the skill the name of its directory",
                )
            )
    if (only_fields is None or "description" in only_fields) and not entry.description.strip():
        issues.append(
            Issue(
                rule="description-missing",
                message="the entry has no description",
                fix="say in the frontmatter what the skill is for",
            )
        )
    return issues


def _known_digest(entry: CheckedEntry, uri: SkillUri) -> Digest | None:
    return dict(entry.draft.digests).get(uri) if entry.draft else None


def manifest_issues(files: Iterable[str], skill_md: str = SKILL_FILE) -> list[Issue]:
    """Return every reason why these are not the files of one skill (ENT-2).

    `files` are canonical URIs, with that of the skill as `skill_md`; or, as in a lock, paths below its
    directory. The one place of these rules: entries, locks, archives and publications differ in what they are
    read from, not in what a skill is.
    """
    issues: list[Issue] = []
    name = skill_md.rpartition("/")[2]
    below = skill_md.removesuffix(name)
    inside: list[str] = []
    for file in files:
        if not file.startswith(below):
            issues.append(_manifest_issue("outside", file, "is outside the skill's directory"))
            continue
        path = file[len(below) :]
        inside.append(path)
        # FMT-9. A canonical URI without encoded characters has a plain path.
        if (not below or "%" in path) and not is_plain_path(unquote(path) if below else path):
            issues.append(_manifest_issue("path", file, "is not a plain path without control characters"))
    for conflict in file_conflicts(inside):
        issues.append(_manifest_issue(conflict.kind, below + conflict.path, conflict.reason))
    if name not in inside:
        issues.append(_manifest_issue("no-skill-md", skill_md, "is not among the listed files"))
    return issues


def _manifest_issue(kind: str, file: str, message: str) -> Issue:
    return Issue(
        rule=f"resource-{kind}",
        message=f"{shown_uri(file)} {message}",
        fix="list every file of the skill once, by a plain path",
    )


class Excess(NamedTuple):
    """By what a skill is too large: this number of `files` or `bytes`, where `most` are allowed."""

    unit: str
    number: int
    most: int


def excess(files: int, size: int, limits: Limits = DEFAULT_LIMITS) -> Excess | None:
    """By what a skill of this many files and bytes is larger than a host must load (ENT-6)."""
    if files > limits.files_per_skill:
        return Excess("files", files, limits.files_per_skill)
    if size > limits.bytes_per_skill:
        return Excess("bytes", size, limits.bytes_per_skill)
    return None


_ODD: Final = re.compile("[%<>\"'&`\\\\:]")


def skill_file(entry: CheckedEntry, path: str) -> SkillUri:
    """The URI of a file of the skill, or `UnlistedFile` (VER-3).

    The path is relative to the skill's directory (FMT-10) and may be percent-encoded, like a Markdown link.
    The file's URI works too.
    """
    for uri in _readings(skill_root(entry.uri), path):
        if entry.resources is DYNAMIC or any(resource.uri == uri for resource in entry.resources):
            return uri
    raise UnlistedFile(uri=shown(path), skill=entry.uri)


def skill_directory(entry: CheckedEntry, path: str = "") -> SkillUri:
    """The URI of a directory of the skill, or `UnlistedFile`. The empty path is the skill's own directory."""
    root = skill_root(entry.uri)
    plain = path.rstrip("/")
    if plain in ("", ".", root):
        return root
    for uri in _readings(root, plain):
        if entry.resources is DYNAMIC or any(is_inside(resource.uri, uri) for resource in entry.resources):
            return uri
    raise UnlistedFile(uri=shown(path), skill=entry.uri)


def shown_path(path: str) -> str:
    """A file's path as it is shown. `skill_file` accepts it, even for unusual names."""
    odd = clean_line(path).text != path or _ODD.search(path)
    return quote(path, safe="/") if odd else path


def _readings(root: SkillUri, path: str) -> Iterator[SkillUri]:
    """The URIs inside the skill that the path may mean, most likely first."""
    if "://" in path:
        try:
            uri = parse_uri(path)
        except FormatError:
            return
        if is_inside(uri, root):
            yield uri
        return
    # Decoded first, because a percent sign is shown encoded.
    for plain in dict.fromkeys((unquote(path), path)):
        try:
            yield _below(root, plain.removeprefix("./").split("/"))
        except FormatError:
            # A path that decodes to `..` is not tried unchanged, because a server may decode it again.
            return


def _below(root: SkillUri, segments: list[str]) -> SkillUri:
    uri = root
    for segment in segments:
        # FMT-9: rejects `..`, empty and otherwise invalid segments.
        uri = child_uri(uri, segment)
    return uri


CHANGED = "the skill changed since its entry was read: refresh it and approve it again to see its files"


class Child(Protocol):
    """One child in a directory read."""

    @property
    def uri(self) -> str: ...
    @property
    def is_directory(self) -> bool: ...


@dataclass(frozen=True, slots=True, order=True)
class ListedChild:
    """A child that may be shown. `size` is that of the entry; `None` for directories and dynamic skills."""

    uri: SkillUri
    name: str
    is_directory: bool
    size: int | None = None


@dataclass(frozen=True, slots=True)
class DirectoryView:
    """A directory of a held skill, safe to show."""

    children: tuple[ListedChild, ...]
    unlisted: tuple[SkillUri, ...] = ()
    """VER-4: inside the skill, but not in the held entry. Neither shown as files of the skill nor read."""
    rejected: tuple[str, ...] = ()
    """SEC-10: outside the directory, of another origin, or not a URI; safe for a message."""
    missing: tuple[SkillUri, ...] = ()
    """VER-4: in the held entry, and no longer shown by the server. Not shown either."""

    @property
    def remark(self) -> str:
        """Return the warning for the user if the skill no longer matches its entry; otherwise empty."""
        return CHANGED if self.unlisted or self.missing else ""


def listed_children(entry: CheckedEntry, directory: SkillUri) -> DirectoryView:
    """The direct children of a directory, from the entry alone; empty for a dynamic skill."""
    if entry.resources is DYNAMIC:
        return DirectoryView(())
    children: dict[SkillUri, ListedChild] = {}
    for resource in entry.resources:
        if not is_inside(resource.uri, directory):
            continue
        first, *deeper = path_below(resource.uri, directory)
        uri = child_uri(directory, first)
        size = None if deeper or resource.size == NO_SIZE else resource.size
        children[uri] = ListedChild(uri, first, bool(deeper), size)
    return DirectoryView(tuple(sorted(children.values())))


def filter_directory(entry: CheckedEntry, directory: SkillUri, children: Iterable[Child]) -> DirectoryView:
    """Return what may be shown of a server's response to a directory read of a held skill."""
    root = skill_root(entry.uri)
    listed = {child.uri: child for child in listed_children(entry, directory).children}
    kept: dict[SkillUri, ListedChild] = {}
    unlisted: list[SkillUri] = []
    rejected: list[str] = []
    for child in children:
        try:
            uri = parse_uri(child.uri)
        except FormatError:
            rejected.append(shown_uri(child.uri))
            continue
        # SEC-10: a direct child of this directory, which is itself in the skill.
        direct = is_inside(uri, directory) and len(path_below(uri, directory)) == 1
        if not direct or not (directory == root or is_inside(directory, root)):
            rejected.append(shown_uri(child.uri))
        elif entry.resources is DYNAMIC:
            kept[uri] = ListedChild(uri, path_below(uri, directory)[0], child.is_directory)
        elif uri in listed and listed[uri].is_directory == child.is_directory:
            kept[uri] = listed[uri]
        else:
            # VER-4: a directory read never extends the manifest.
            unlisted.append(uri)
    missing = tuple(uri for uri in listed if uri not in kept)
    return DirectoryView(tuple(sorted(kept.values())), tuple(unlisted), tuple(rejected), missing)
