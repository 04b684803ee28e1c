"""EntryView: an entry as a server sent it, with every violation that the entry itself shows.

The rules of a manifest are here a second time, on purpose. `trust.manifest_issues` decides whether a host
uses a skill, on entries that were parsed. A report names the clause of every deviation in what was sent,
reads on after each of them, and does not have what only our host refuses.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from skillwire.conformance.messages import Answer, describe, describe_field, whole_number
from skillwire.conformance.rules import Violation
from skillwire.documents import is_list, is_object
from skillwire.errors import FormatError
from skillwire.limits import DEFAULT_LIMITS, MIB
from skillwire.skill import (
    DYNAMIC,
    RESERVED_METADATA,
    SCHEME,
    SKILL_FILE,
    Digest,
    SkillUri,
    digest_of,
    is_inside,
    parse_digest,
    parse_uri,
    shown_uri,
    skill_root,
)
from skillwire.text import shown
from skillwire.trust import MAX_BUNDLE_BYTES, SIGNATURE_FILE, HiddenText, find_hidden_text


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a manifest."""

    uri: SkillUri
    asked: str
    """Its URI as the server spells it."""
    digest: str | None
    """`None` if it is missing or malformed; that is a violation of its own."""
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    """An entry as far as it could be read.

    `raw` is what was sent, of whatever type, and `asked` the URI as the server spells it. A report calls the
    entry by its `place`. Without a usable `uri`, nothing more is asked about it.
    """

    raw: object
    place: str
    uri: SkillUri | None = None
    asked: str = ""
    frontmatter: Mapping[str, object] | None = None
    files: Mapping[SkillUri, ListedFile] = field(default_factory=dict[SkillUri, ListedFile])
    is_dynamic: bool = False
    has_manifest: bool = False
    """Whether the manifest can be compared with what the server serves."""
    violations: tuple[Violation, ...] = ()

    @property
    def root(self) -> SkillUri | None:
        return None if self.uri is None else skill_root(self.uri)


def view_entry(raw: object, place: str) -> EntryView:
    """Check an entry on its own. `place` names it if it has no URI."""
    if not is_object(raw):
        return EntryView(raw=raw, place=place, violations=(Violation("ENT-1/shape", describe(raw), place),))
    given = raw.get("uri")
    if not isinstance(given, str):
        return EntryView(
            raw=raw, place=place, violations=(Violation("ENT-1/uri", describe_field(raw, "uri"), place),)
        )
    place = shown_uri(given)
    uri, violations = check_uri(given, place)
    if uri is not None:
        try:
            skill_root(uri)
        except FormatError:
            violations.append(Violation("FMT-1/skill-md", place, place))
            uri = None
    frontmatter = raw.get("frontmatter")
    if not is_object(frontmatter):
        violations.append(Violation("ENT-1/frontmatter", describe_field(raw, "frontmatter"), place))
        frontmatter = None
    else:
        violations.extend(_reserved_metadata(frontmatter, place))
    violations.extend(_meta_violations(raw, place))
    manifest = _Manifest(raw, uri, place, {violation.rule for violation in violations})
    view = EntryView(raw=raw, place=place, uri=uri, asked=given, frontmatter=frontmatter)
    return replace(
        view,
        files=manifest.files,
        is_dynamic=raw.get("resources") == DYNAMIC.value,
        has_manifest=is_list(raw.get("resources")) and not manifest.is_doubtful,
        violations=(*violations, *manifest.violations),
    )


# RFC 3986: what may appear in a URI unencoded. Whether a % encodes something is for the parser.
_URI_CHARACTERS: Final = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*")
_REG_NAME: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")


def check_uri(text: str, place: str) -> tuple[SkillUri | None, list[Violation]]:
    """A URI in its canonical spelling, and what is wrong with it as written (FMT-3, FMT-9)."""
    violations: list[Violation] = []
    scheme, _, rest = text.partition("://")
    first = rest.partition("/")[0]
    if not _URI_CHARACTERS.fullmatch(text):
        strange = next(char for char in text if not _URI_CHARACTERS.fullmatch(char))
        violations.append(Violation("FMT-9/encoding", f"{shown(repr(strange))} in {shown_uri(text)}", place))
    elif scheme.lower() == SCHEME and first and not _REG_NAME.fullmatch(first):
        return None, [Violation("FMT-3/reg-name", shown(first), place)]
    try:
        uri = parse_uri(text)
    except FormatError as error:
        return None, [Violation("FMT-9/uri", error.issues[0].message, place)]
    if scheme.lower() != SCHEME:
        violations.append(Violation("FMT-3/scheme", shown(scheme), place))
    return uri, violations


class _Manifest:
    def __init__(
        self, entry: Mapping[str, object], skill: SkillUri | None, place: str, known: set[str]
    ) -> None:
        wire = entry.get("resources")
        self.files: dict[SkillUri, ListedFile] = {}
        self.violations: list[Violation] = []
        self.is_doubtful = False
        # What is wrong with the URI of the skill is wrong with all of them, and reported once.
        self._known = known & {"FMT-3/reg-name", "FMT-3/scheme", "FMT-9/encoding", "FMT-9/uri"}
        if wire == DYNAMIC.value:
            return
        if not is_list(wire):
            self.violations.append(Violation("ENT-2/resources", describe_field(entry, "resources"), place))
            return
        for number, item in enumerate(wire):
            self.is_doubtful |= not self._take(item, f"{place} resources[{number}]", place)
        if skill is None:
            return
        root = skill_root(skill)
        for uri in list(self.files):
            if not is_inside(uri, root):
                self.violations.append(Violation("ENT-2/outside", shown_uri(uri), place))
                del self.files[uri]
        if skill not in self.files and not self.is_doubtful:
            self.violations.append(Violation("ENT-2/skill-md", f"{len(self.files)} files without it", place))
        self.violations.extend(self._limits(len(wire), place))

    def _take(self, item: object, where: str, place: str) -> bool:
        """Whether the item could be read."""
        asked = item.get("uri") if is_object(item) else None
        if not is_object(item) or not isinstance(asked, str):
            self.violations.append(
                Violation("ENT-2/item", describe(item) if asked is None else describe(asked), where)
            )
            return False
        uri, violations = check_uri(asked, place)
        self.violations.extend(violation for violation in violations if violation.rule not in self._known)
        if uri is None:
            return False
        if uri in self.files:
            self.violations.append(Violation("ENT-2/twice", shown_uri(asked), place))
            return True
        digest, size = _digest(item.get("digest")), whole_number(item.get("size"))
        if digest is None:
            seen = describe_field(item, "digest")
            self.violations.append(Violation("ENT-3/digest-format", seen, shown_uri(asked)))
        if size is None or size < 0:
            self.violations.append(
                Violation("ENT-3/size-type", describe_field(item, "size"), shown_uri(asked))
            )
            size = None
        self.files[uri] = ListedFile(uri, asked, digest, size)
        return True

    def _limits(self, count: int, place: str) -> Iterator[Violation]:
        """ENT-6: sizes for which a host may decline a skill from its entry alone."""
        if count > DEFAULT_LIMITS.files_per_skill:
            yield Violation("ENT-6/files", f"{count} files", place)
        total = sum(file.size or 0 for file in self.files.values())
        if total > DEFAULT_LIMITS.bytes_per_skill:
            yield Violation("ENT-6/bytes", f"{total / MIB:.1f} MiB", place)


def _digest(value: object) -> Digest | None:
    try:
        return parse_digest(value) if isinstance(value, str) else None
    except FormatError:
        return None


def _reserved_metadata(frontmatter: Mapping[str, object], place: str) -> Iterator[Violation]:
    metadata = frontmatter.get("metadata")
    for key in metadata if is_object(metadata) else ():
        if key.startswith(RESERVED_METADATA):
            yield Violation("ENT-7/reserved", shown(key), place)


_RESERVED_PREFIX: Final = re.compile(r"(?:[^/.]+\.)?(?:modelcontextprotocol|mcp)(?:\.[^/]*)?/")


def _meta_violations(raw: Mapping[str, object], place: str) -> Iterator[Violation]:
    meta = raw.get("_meta", {})
    if not is_object(meta):
        yield Violation("ENT-8/meta", describe(meta), place)
        return
    for key in meta:
        if "/" not in key:
            yield Violation("ENT-8/prefix", f"{shown(key)} has no prefix", place)
        elif _RESERVED_PREFIX.match(key):
            yield Violation("ENT-8/prefix", f"{shown(key)} has a reserved prefix", place)


_BOM: Final = b"\xef\xbb\xbf"
_REPLACED: Final = "\ufffd"
_MARKDOWN: Final = (".md", ".markdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSeen:
    """A file as it was read. `digest` is empty if no bytes arrived."""

    uri: SkillUri
    violations: tuple[Violation, ...] = ()
    digest: str = ""
    size: int = 0
    fields: Mapping[str, object] | None = None
    """The content without its bytes."""
    is_text: bool = False
    data: bytes | None = None
    hidden: tuple[HiddenText, ...] = ()
    listed: ListedFile | None = None
    """The entry that it was compared with."""
    envelope: Answer | None = None
    """The answer without its contents."""

    @property
    def mime(self) -> str | None:
        mime = (self.fields or {}).get("mimeType")
        return mime if isinstance(mime, str) else None


def see_file(
    answer: Answer,
    uri: SkillUri,
    listed: ListedFile | None,
    *,
    others: Mapping[SkillUri, ListedFile | None] | None = None,
    read_text: bool = True,
) -> FileSeen:
    """Check an answer to `resources/read`. `listed` is what the entry says about the file.

    A result may have several contents: each one is checked, against `others` if it is another file. Hidden
    text is searched for only with `read_text`: once is enough.
    """
    place = shown_uri(uri)
    if answer.failure is not None:
        return FileSeen(uri=uri)  # A failure has a finding of its own.
    if answer.error is not None:
        return FileSeen(uri=uri, violations=(Violation("RD-1/listed", str(answer.error), place),))
    contents = (answer.result or {}).get("contents")
    if not is_list(contents) or not contents or not all(is_object(content) for content in contents):
        seen = f"{len(contents)} contents" if is_list(contents) else "no array of contents"
        return FileSeen(uri=uri, violations=(Violation("RD-1/shape", seen, place),))
    found = [content for content in contents if is_object(content)]
    own = [content for content in found if _uri_of(content) == uri]
    violations: list[Violation] = []
    for content in found:
        other = _uri_of(content)
        if other is not None and other != uri and others and other in others:
            violations.extend(_see(content, other, others[other], shown_uri(other))[0])
    if not own:
        violations.append(Violation("RD-1/uri", describe_field(found[0], "uri"), place))
        own = found[:1]
    seen_file = FileSeen(uri=uri)
    for content in reversed(own):
        problems, data = _see(content, uri, listed, place)
        violations.extend(problems)
        fields = {key: value for key, value in content.items() if key not in ("text", "blob")}
        seen_file = FileSeen(
            uri=uri,
            digest=digest_of(data) if data is not None else "",
            size=len(data or b""),
            fields=fields,
            is_text=isinstance(content.get("text"), str),
            data=data if _is_kept(uri, data) else None,
            hidden=_hidden(uri, data) if read_text and data is not None else (),
            listed=listed if data is not None else None,
        )
    envelope = replace(answer, result={**(answer.result or {}), "contents": None})
    return replace(seen_file, violations=tuple(dict.fromkeys(violations)), envelope=envelope)


def _is_kept(uri: SkillUri, data: bytes | None) -> bool:
    """Whether the bytes are needed again: of a `SKILL.md`, and of a signature that is not too long."""
    is_signature = uri.endswith(f"/{SIGNATURE_FILE}") and len(data or b"") <= MAX_BUNDLE_BYTES
    return uri.endswith(f"/{SKILL_FILE}") or is_signature


def content_digests(answer: Answer) -> set[str]:
    """The digests of all contents of an answer whose bytes can be decoded."""
    contents = (answer.result or {}).get("contents")
    found: set[str] = set()
    for content in contents if is_list(contents) else ():
        data = _bytes(content, "", []) if is_object(content) else None
        if data is not None:
            found.add(digest_of(data))
    return found


def content_uris(answer: Answer) -> list[SkillUri | None]:
    """The URIs of all contents of an answer, `None` for one that cannot be parsed."""
    contents = (answer.result or {}).get("contents")
    return (
        [_uri_of(content) if is_object(content) else None for content in contents]
        if is_list(contents)
        else []
    )


def _uri_of(content: Mapping[str, object]) -> SkillUri | None:
    given = content.get("uri")
    try:
        return parse_uri(given) if isinstance(given, str) else None
    except FormatError:
        return None


def _see(
    content: Mapping[str, object], uri: SkillUri, listed: ListedFile | None, place: str
) -> tuple[list[Violation], bytes | None]:
    violations: list[Violation] = []
    data = _bytes(content, place, violations)
    if data is not None and listed is not None:
        violations.extend(_compare(data, content.get("text"), listed, place))
    return violations, data


def _bytes(content: Mapping[str, object], place: str, violations: list[Violation]) -> bytes | None:
    text, blob = content.get("text"), content.get("blob")
    if isinstance(text, str) == isinstance(blob, str):
        seen = "text and blob" if isinstance(text, str) else "neither text nor blob"
        violations.append(Violation("RD-1/shape", seen, place))
        return None
    if isinstance(text, str):
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            violations.append(Violation("RD-2/lossy", "text with half a surrogate pair", place))
            return None
    try:
        data = base64.b64decode(str(blob), validate=True)
    except (binascii.Error, ValueError) as error:
        violations.append(Violation("RD-2/base64", str(error), place))
        return None
    if base64.b64encode(data).decode("ascii") != blob:
        # RFC 4648: the bits after the last byte are zero; otherwise two texts stand for the same bytes.
        violations.append(Violation("RD-2/base64", "unused bits that are not zero", place))
        return None
    return data


def _compare(data: bytes, text: object, listed: ListedFile, place: str) -> list[Violation]:
    """VER-1, from the server's side. A lost byte order mark or line ending is named as such."""
    digest = digest_of(data)
    if listed.digest is not None and digest != listed.digest:
        if isinstance(text, str) and (loss := _loss(data, text, listed.digest)):
            return [Violation("RD-2/lossy", loss, place)]
        expected = f"{digest}, the digest of the {len(data)} bytes read"
        return [Violation("ENT-3/digest", f"{listed.digest} in the entry", place, expected)]
    if listed.size is not None and listed.size != len(data):
        expected = f"{len(data)} bytes, the number that was read"
        return [Violation("ENT-3/size", f"{listed.size} bytes in the entry", place, expected)]
    return []


def _loss(data: bytes, text: str, digest: str) -> str:
    if digest_of(_BOM + data) == digest:
        return "text without the byte order mark of the file"
    lines = data.replace(b"\r\n", b"\n")
    if digest in (digest_of(lines.replace(b"\n", b"\r\n")), digest_of(data.replace(b"\n", b"\r"))):
        return "text with different line endings than the file"
    if digest == digest_of(_BOM + lines.replace(b"\n", b"\r\n")):
        return "text without the byte order mark and line endings of the file"
    if digest in (digest_of(data + b"\n"), digest_of(data.removesuffix(b"\n"))):
        return "text with a different last line ending than the file"
    return "text with replacement characters for bytes that are not UTF-8" if _REPLACED in text else ""


def _hidden(uri: SkillUri, data: bytes) -> tuple[HiddenText, ...]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ()
    return find_hidden_text(text, markdown=uri.lower().endswith(_MARKDOWN))
