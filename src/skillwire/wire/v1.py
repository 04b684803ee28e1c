"""The final extension (D6): `skills/list`, `skills/get` and `resources/directory/read` as JSON.

Writing never fails. Reading returns a complete entry or raises a `FormatError` with every issue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

from skillwire.errors import FormatError
from skillwire.issues import Issue
from skillwire.json_types import JsonObject, JsonValue, is_list, is_object
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import (
    DYNAMIC,
    NO_SIZE,
    Dialect,
    Digest,
    DraftDetails,
    Dynamic,
    SkillEntry,
    SkillResource,
    SkillUri,
    is_inside,
    is_plain,
    parse_digest,
    parse_uri,
    shown_uri,
    skill_root,
)
from skillwire.skill.entries import is_digest

EXTENSION_ID = "io.modelcontextprotocol/skills"
METHOD_LIST = "skills/list"
METHOD_GET = "skills/get"
METHOD_READ_DIRECTORY = "resources/directory/read"

INVALID_PARAMS = -32602
"""The JSON-RPC error for a mistake of the caller."""
DIRECTORY_READ_SETTING = "directoryRead"
QUERY_ID = "dev.skillwire/query"
"""A vendor extension: if server and client declare it, `skills/list` takes `query` and `limit`."""
APPROVAL_META = "dev.skillwire/approval"
"""Set by a gateway in an entry's `_meta`: `required` means that a person has to approve the skill first."""
# JSON numbers are exact up to here, and no file is longer.
_LARGEST_SIZE = 2**53 - 1
_NO_META: Mapping[str, object] = MappingProxyType({})

T = TypeVar("T")


def entry_to_wire(entry: SkillEntry) -> JsonObject:
    """An entry as an object of a listing (ENT-1)."""
    resources: JsonValue
    if entry.resources is DYNAMIC:
        resources = DYNAMIC.value
    else:
        resources = [_resource_to_wire(file) for file in entry.resources]
    wire: JsonObject = {"uri": entry.uri, "frontmatter": dict(entry.frontmatter), "resources": resources}
    if entry.meta:
        wire["_meta"] = dict(entry.meta)
    return wire


def entry_from_wire(wire: object, *, unsized: bool = False, unlisted: bool = False) -> SkillEntry:
    """The entry in an object of a listing, or a `FormatError` with every issue (ENT-2).

    For the draft of summer 2026 (D5), `unsized` accepts files without a size, which are checked by digest
    alone, and `unlisted` treats an entry without `resources` as dynamic.
    """
    if not is_object(wire):
        raise FormatError(
            _issue("entry-shape", "an entry is not an object", "send uri, frontmatter, resources")
        )
    issues: list[Issue] = []
    uri = _uri(wire.get("uri"), "uri", issues)
    if uri is not None:
        try:
            skill_root(uri)
        except FormatError as error:
            issues.extend(error.issues)
    frontmatter = wire.get("frontmatter")
    if not is_object(frontmatter):
        issues.append(_issue("entry-frontmatter", "frontmatter is not an object", "send the YAML as JSON"))
        frontmatter = {}
    draft: DraftDetails | None = None
    if unlisted and "resources" not in wire:
        resources = DYNAMIC
        draft = DraftDetails(dialect=Dialect.SUMMER_DRAFT)
    else:
        resources = _resources(wire.get("resources"), uri, issues, unsized=unsized)
        if resources is not DYNAMIC and any(file.size == NO_SIZE for file in resources):
            draft = DraftDetails(dialect=Dialect.SUMMER_DRAFT)
    meta = wire.get("_meta", _NO_META)
    if not is_object(meta):
        issues.append(_issue("entry-meta", "_meta is not an object", "send an object or leave it out"))
        meta = _NO_META
    if issues or uri is None:
        raise FormatError(issues)
    return SkillEntry(uri, cast("JsonObject", frontmatter), resources, cast("JsonObject", meta), draft)


def whole_number(value: object) -> object:
    """A JSON number, normalized: `82.0` is 82. Other values are unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _resource_to_wire(file: SkillResource) -> JsonObject:
    wire: JsonObject = {"uri": file.uri, "digest": file.digest}
    if file.size != NO_SIZE:
        wire["size"] = file.size
    return wire


def _resources(
    wire: object, skill: SkillUri | None, issues: list[Issue], *, unsized: bool
) -> tuple[SkillResource, ...] | Literal[Dynamic.DYNAMIC]:
    if wire == DYNAMIC.value:
        return DYNAMIC
    if not is_list(wire):
        # ENT-2: absent or anything else makes the entry invalid.
        issues.append(
            _issue("entry-resources", 'resources is neither a list nor "dynamic"', "list every file")
        )
        return ()
    files: dict[SkillUri, SkillResource] = {}
    for number, item in enumerate(wire):
        if (plain := _plain_resource(item)) is not None and plain.uri not in files:
            files[plain.uri] = plain
            continue
        place = f"resources[{number}]"
        if not is_object(item):
            issues.append(_issue("resource-shape", f"{place} is not an object", "send uri, digest, size"))
            continue
        uri = _uri(item.get("uri"), f"{place}.uri", issues)
        digest = _digest(item.get("digest"), f"{place}.digest", issues)
        size = NO_SIZE if unsized and "size" not in item else whole_number(item.get("size"))
        too_long = isinstance(size, int) and size > _LARGEST_SIZE
        if not isinstance(size, int) or isinstance(size, bool) or too_long or (size < 0 and "size" in item):
            issues.append(
                _issue("resource-size", f"{place}.size is not a number of bytes", "send the file's length")
            )
            continue
        if uri is None or digest is None:
            continue
        if uri in files:
            issues.append(
                _issue("resource-twice", f"{shown_uri(uri)} is listed twice", "list each file once")
            )
        files[uri] = SkillResource(uri, digest, size)
    if skill is not None:
        issues.extend(_manifest_issues(skill, files))
    return tuple(files.values())


def _plain_resource(item: object) -> SkillResource | None:
    """A file that is listed just as it should be, as nearly all are; `None` for a closer look."""
    if not isinstance(item, dict):
        return None
    file = cast("dict[str, object]", item)
    uri, digest, size = file.get("uri"), file.get("digest"), file.get("size")
    # `type`, for a truth value is a number to Python.
    if (
        type(size) is not int
        or not 0 <= size <= _LARGEST_SIZE
        or not isinstance(uri, str)
        or not is_plain(uri)
    ):
        return None
    if not isinstance(digest, str) or not is_digest(digest):
        return None
    return SkillResource(SkillUri(uri), Digest(digest), size)


def _manifest_issues(skill: SkillUri, files: Mapping[SkillUri, SkillResource]) -> list[Issue]:
    root = SkillUri(skill.rpartition("/")[0])
    issues = [
        _issue(
            "resource-outside",
            f"{shown_uri(uri)} is outside the skill {shown_uri(root)}",
            "list only its own files",
        )
        for uri in files
        if not is_inside(uri, root)
    ]
    if skill not in files:
        issues.append(_issue("resource-no-skill-md", "the list of files lacks SKILL.md", "list every file"))
    return issues


def _uri(value: object, place: str, issues: list[Issue]) -> SkillUri | None:
    if isinstance(value, str):
        return _parsed(parse_uri, value, issues)
    issues.append(_issue("entry-uri", f"{place} is not a string", "send the URI as a string"))
    return None


def _digest(value: object, place: str, issues: list[Issue]) -> Digest | None:
    if isinstance(value, str):
        return _parsed(parse_digest, value, issues)
    issues.append(_issue("resource-digest", f"{place} is not a string", "send sha256: and 64 hex digits"))
    return None


def _parsed(parse: Callable[[str], T], text: str, issues: list[Issue]) -> T | None:
    try:
        return parse(text)
    except FormatError as error:
        issues.extend(error.issues)
        return None


def _issue(rule: str, message: str, fix: str) -> Issue:
    return Issue(rule=rule, message=message, fix=fix)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The extension, declared. `directory_read` allows `resources/directory/read` (CAP-1, CAP-3)."""

    directory_read: bool = False
    place: str = field(default="extensions", compare=False)
    """The capability field that had it: `extensions`, or `experimental` as in drafts."""


def declaration_in(capabilities: object, extension: str = EXTENSION_ID) -> Declaration | None:
    """The declaration of an extension in capabilities, or `None`.

    CAP-5: `experimental` in place of `extensions`, settings below `config`, and `[]` for `{}` are understood.
    """
    if not is_object(capabilities):
        return None
    for place in ("extensions", "experimental"):
        declared = capabilities.get(place)
        if is_object(declared) and extension in declared:
            settings = declared[extension]
            if is_object(settings):
                nested = settings.get("config")
                named = nested if is_object(nested) else settings
                return Declaration(named.get(DIRECTORY_READ_SETTING) is True, place)
            if settings == []:
                return Declaration(place=place)
    return None


class Stop(Enum):
    """Why no further page is requested."""

    LAST = "last"
    """It is complete: the page has no cursor."""
    LOOP = "loop"
    """The page has a cursor that an earlier page had."""
    PAGES = "pages"
    """It has more pages than `Limits.pages`."""
    ITEMS = "items"
    """It has more items than `Limits.entries_per_server`."""


class PageLimits:
    """Counts the pages and items of one listing. Create a new one for each listing."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._cursors: set[str] = set()
        self.pages = 0
        self.items = 0

    def stop(self, next_cursor: str | None, items: int) -> Stop | None:
        """Count a page. Returns why to stop after it, or `None` to request `next_cursor`."""
        self.pages += 1
        self.items += items
        if self.items > self._limits.entries_per_server:
            return Stop.ITEMS
        if not next_cursor:
            return Stop.LAST
        if next_cursor in self._cursors:
            return Stop.LOOP
        if self.pages >= self._limits.pages:
            return Stop.PAGES
        self._cursors.add(next_cursor)
        return None


_DRAFT = "draft"


def entry_to_stored(entry: SkillEntry) -> JsonObject:
    """The entry as JSON, without loss."""
    stored = entry_to_wire(entry)
    if entry.draft is not None:
        draft = entry.draft
        stored[_DRAFT] = {
            "dialect": draft.dialect.value,
            "carried": None if draft.carried is None else [*sorted(draft.carried)],
            "digests": [[uri, digest] for uri, digest in draft.digests],
            "confirmed": draft.confirmed,
            "spelling": draft.spelling,
        }
    return stored


def entry_from_stored(stored: object) -> SkillEntry:
    """The entry, or a `FormatError` if we did not write it."""
    entry = entry_from_wire(stored, unsized=True)
    kept = cast("Mapping[str, Any]", stored).get(_DRAFT)
    if kept is None:
        return entry if entry.draft is None else _refuse()
    try:
        draft = _stored_draft(kept)
    except (KeyError, TypeError, ValueError):
        return _refuse()
    return SkillEntry(entry.uri, entry.frontmatter, entry.resources, entry.meta, draft)


def entry_as_stored(stored: dict[str, Any]) -> SkillEntry:
    """The entry of a file that is known to be just as we wrote it: nothing of it is checked again."""
    files = stored["resources"]
    resources = (
        DYNAMIC
        if files == DYNAMIC.value
        else tuple([SkillResource(file["uri"], file["digest"], file.get("size", NO_SIZE)) for file in files])
    )
    draft = _stored_draft(stored[_DRAFT]) if _DRAFT in stored else None
    return SkillEntry(stored["uri"], stored["frontmatter"], resources, stored.get("_meta", _NO_META), draft)


def _stored_draft(stored: Mapping[str, Any]) -> DraftDetails:
    return DraftDetails(
        dialect=Dialect(stored["dialect"]),
        carried=None if stored["carried"] is None else frozenset(stored["carried"]),
        digests=tuple((parse_uri(uri), parse_digest(digest)) for uri, digest in stored["digests"]),
        confirmed=stored["confirmed"] is True,
        spelling=str(stored["spelling"]),
    )


def _refuse() -> SkillEntry:
    raise FormatError.of(
        rule="stored-entry", message="a stored entry is damaged", fix="approve the skill again"
    )
