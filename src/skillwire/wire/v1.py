"""The final extension (D6): `skills/list`, `skills/get` and `resources/directory/read` as JSON.

Writing never fails. Reading an entry returns a complete one or raises a `FormatError` with every issue. In a
response of a server, a bad entry becomes an issue and does not affect the others; any other deviation from
the extension is a `FormatError`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

from skillwire.documents import JsonObject, JsonValue, is_list, is_object
from skillwire.errors import FormatError, Issue, LimitExceeded
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import (
    DIRECTORY,
    DYNAMIC,
    NO_SIZE,
    Dialect,
    Digest,
    DraftDetails,
    Dynamic,
    SkillEntry,
    SkillResource,
    SkillUri,
    is_digest,
    is_plain,
    is_size,
    parse_digest,
    parse_uri,
    shown_uri,
    skill_root,
)
from skillwire.trust import manifest_issues

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
    files: list[SkillResource] = []
    for number, item in enumerate(wire):
        if (plain := _plain_resource(item)) is not None:
            files.append(plain)
            continue
        place = f"resources[{number}]"
        if not is_object(item):
            issues.append(_issue("resource-shape", f"{place} is not an object", "send uri, digest, size"))
            continue
        uri = _uri(item.get("uri"), f"{place}.uri", issues)
        digest = _digest(item.get("digest"), f"{place}.digest", issues)
        size = whole_number(item.get("size"))
        if unsized and "size" not in item:
            size = NO_SIZE
        elif not is_size(size):
            issues.append(
                _issue("resource-size", f"{place}.size is not a number of bytes", "send the file's length")
            )
            continue
        if uri is not None and digest is not None:
            files.append(SkillResource(uri, digest, size))
    if skill is not None:
        issues.extend(manifest_issues((file.uri for file in files), skill))
    return tuple(files)


def _plain_resource(item: object) -> SkillResource | None:
    """A file that is listed just as it should be, as nearly all are; `None` for a closer look."""
    if not isinstance(item, dict):
        return None
    file = cast("dict[str, object]", item)
    uri, digest, size = file.get("uri"), file.get("digest"), file.get("size")
    if not is_size(size) or not isinstance(uri, str) or not is_plain(uri):
        return None
    if not isinstance(digest, str) or not is_digest(digest):
        return None
    return SkillResource(SkillUri(uri), Digest(digest), size)


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


_ISSUES_PER_ENTRY = 5
_SPREAD = 16
_LARGEST_TTL = 10**12


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of `skills/list`. `ttl_ms` is `None` if the server did not send it.

    `spellings` are the URIs that the server does not write in canonical form.
    """

    entries: tuple[SkillEntry, ...]
    issues: tuple[Issue, ...]
    next_cursor: str | None
    ttl_ms: int | None
    spellings: dict[SkillUri, str] = field(default_factory=dict[SkillUri, str])


@dataclass(frozen=True, slots=True)
class WireChild:
    """A child in a response to `resources/directory/read`."""

    uri: str
    """As the server wrote it: it is not checked yet, and may be outside of the directory or no URI at
    all."""
    is_directory: bool


@dataclass(frozen=True, slots=True)
class DirectoryPage:
    """One page of `resources/directory/read`."""

    children: tuple[WireChild, ...]
    next_cursor: str | None


def listed_items(answer: object) -> Sequence[object]:
    """The entries of a page of `skills/list`, unread."""
    return _list_in(answer, "skills")


def same_page(page: ListPage, answer: object) -> ListPage:
    """The page of an answer with the same entries as this page."""
    return replace(page, next_cursor=_cursor(answer), ttl_ms=_ttl(answer))


def list_page(answer: object, *, accept_drafts: bool = False, limits: Limits = DEFAULT_LIMITS) -> ListPage:
    """A page of `skills/list` (LST-1). An empty cursor ends the listing, because some servers send one.

    Files without a size are accepted, as in the draft of summer 2026; with `accept_drafts`, so are entries
    without files (D5).
    """
    items = listed_items(answer)
    if len(items) > limits.entries_per_server:
        # SEC-9: millions of empty entries fit into one response, and each would produce issues.
        raise LimitExceeded(f"a page of a listing has more than {limits.entries_per_server:,} entries")
    entries: list[SkillEntry] = []
    issues: list[Issue] = []
    spellings: dict[SkillUri, str] = {}
    for item in items:
        try:
            _check_extent(item, limits)
            entry = entry_from_wire(item, unsized=True, unlisted=accept_drafts)
            entries.append(entry)
            spellings.update(wire_spellings(item, entry))
        except FormatError as error:
            where = item.get("uri") if is_object(item) else None
            place = shown_uri(where) if isinstance(where, str) else "an entry without a URI"
            issues.extend(
                Issue(rule=issue.rule, message=issue.message, fix=issue.fix, file=place)
                for issue in error.issues[:_ISSUES_PER_ENTRY]
            )
    return ListPage(tuple(entries), tuple(issues), _cursor(answer), _ttl(answer), spellings)


def wire_spellings(item: object, entry: SkillEntry) -> dict[SkillUri, str]:
    """The URIs of an entry that its server writes differently. Requests use the server's spelling."""
    if not is_object(item):
        return {}
    spellings: dict[SkillUri, str] = {}
    raw, files = item.get("uri"), item.get("resources")
    if isinstance(raw, str) and raw != entry.uri:
        spellings[entry.uri] = raw
    if entry.resources is not DYNAMIC and is_list(files):
        for file, item in zip(entry.resources, files, strict=True):
            raw = item.get("uri") if is_object(item) else None
            if isinstance(raw, str) and raw != file.uri:
                spellings[file.uri] = raw
    return spellings


def single_entry(
    answer: object, uri: SkillUri, *, accept_drafts: bool = False, limits: Limits = DEFAULT_LIMITS
) -> SkillEntry:
    """The entry in a response to `skills/get`, which must be the requested one (GET-1)."""
    if not is_object(answer) or "skill" not in answer:
        raise _malformed("the answer to skills/get has no skill")
    _check_extent(answer["skill"], limits)
    entry = entry_from_wire(answer["skill"], unsized=True, unlisted=accept_drafts)
    if entry.uri != uri:
        raise _malformed(f"skills/get for {shown_uri(uri)} returned {shown_uri(entry.uri)}")
    return entry


def directory_page(answer: object, *, limits: Limits = DEFAULT_LIMITS) -> DirectoryPage:
    """A page of `resources/directory/read` (DIR-1)."""
    children: list[WireChild] = []
    items = _list_in(answer, "resources")
    if len(items) > limits.entries_per_server:
        raise LimitExceeded(f"a page of a directory has more than {limits.entries_per_server:,} children")
    for item in items:
        uri = item.get("uri") if is_object(item) else None
        if not is_object(item) or not isinstance(uri, str):
            raise _malformed("a child of a directory has no URI")
        children.append(WireChild(uri, item.get("mimeType") == DIRECTORY))
    return DirectoryPage(tuple(children), _cursor(answer))


def file_bytes(answer: object, uri: SkillUri, *, spelling: str = "") -> bytes:
    """The bytes in a response to `resources/read` (RD-2); the server may use its own spelling of the URI."""
    for item in _list_in(answer, "contents"):
        if not is_object(item) or (item.get("uri") != (spelling or uri) and not _names(item.get("uri"), uri)):
            continue
        text, blob = item.get("text"), item.get("blob")
        if isinstance(text, str):
            try:
                return text.encode("utf-8")
            except UnicodeEncodeError:
                raise _malformed(f"the text of {shown_uri(uri)} is not Unicode") from None
        if isinstance(blob, str):
            try:
                return base64.b64decode(blob, validate=True)
            except (binascii.Error, ValueError):
                raise _malformed(f"the blob of {shown_uri(uri)} is not base64") from None
    raise _malformed(f"the answer to resources/read holds nothing for {shown_uri(uri)}")


def content_count(answer: object) -> int:
    """The number of contents in a response to `resources/read`; the first match is used."""
    return len(_list_in(answer, "contents"))


def extent(value: object, most: int) -> int:
    """The amount of text and values in a piece of JSON; counting stops beyond `most`."""
    total = 0
    # A stack, not recursion: a server chooses how deep its JSON goes.
    waiting = [cast("JsonValue", value)]
    while waiting and total <= most:
        item = waiting.pop()
        total += 1
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            total += sum(map(len, item))
            waiting.extend(item.values())
    return total


def _check_extent(item: object, limits: Limits) -> None:
    """SEC-9: an absurdly large entry is refused before it is parsed."""
    if not is_object(item):
        return
    resources, most = item.get("resources"), limits.frontmatter_bytes * _SPREAD
    if extent([item.get("frontmatter"), item.get("_meta")], most) > most:
        raise FormatError.of(
            rule="entry-too-large", message="the entry is far too long", fix="shorten its frontmatter"
        )
    if is_list(resources) and len(resources) > limits.files_per_skill * _SPREAD:
        raise FormatError.of(
            rule="entry-too-large",
            message=f"the entry lists {len(resources):,} files; {limits.files_per_skill} are loaded",
            fix="list fewer files",
        )


def _names(value: object, uri: SkillUri) -> bool:
    try:
        return isinstance(value, str) and parse_uri(value) == uri
    except FormatError:
        return False


def _list_in(answer: object, key: str) -> Sequence[object]:
    items = answer.get(key) if is_object(answer) else None
    if not is_list(items):
        raise _malformed(f"the answer has no list of {key}")
    return items


def _cursor(answer: object) -> str | None:
    cursor = answer.get("nextCursor") if is_object(answer) else None
    if cursor is None or cursor == "":
        return None
    if not isinstance(cursor, str):
        raise _malformed("nextCursor is not a string")
    return cursor


def _ttl(answer: object) -> int | None:
    ttl = whole_number(answer.get("ttlMs")) if is_object(answer) else None
    # Limited, because JSON numbers have no maximum.
    return min(ttl, _LARGEST_TTL) if isinstance(ttl, int) and not isinstance(ttl, bool) and ttl >= 0 else None


def _malformed(message: str) -> FormatError:
    return FormatError.of(rule="answer", message=message, fix="tell the server's operator")
