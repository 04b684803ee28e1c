"""Parses the responses of a server: a page of a listing, one entry, a directory, the bytes of a file.

A bad entry becomes an issue and does not affect the others. Any other deviation from the extension is a
`FormatError`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from skillwire.errors import FormatError, LimitExceeded
from skillwire.issues import Issue
from skillwire.json_types import JsonValue, is_list, is_object
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import DIRECTORY, DYNAMIC, SkillEntry, SkillUri, parse_uri, shown_uri
from skillwire.wire.v1 import entry_from_wire, whole_number

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
