"""EntryView: an entry as a server sent it, with every violation that the entry itself shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from skillwire.conformance.messages import describe, describe_field, whole_number
from skillwire.conformance.rules import Violation
from skillwire.errors import FormatError
from skillwire.issues import shown
from skillwire.json_types import is_list, is_object
from skillwire.limits import DEFAULT_LIMITS, MIB
from skillwire.skill.digests import Digest, parse_digest
from skillwire.skill.entries import DYNAMIC
from skillwire.skill.lint import RESERVED_METADATA
from skillwire.skill.uris import SCHEME, SkillUri, is_inside, parse_uri, shown_uri, skill_root


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
