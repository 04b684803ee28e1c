"""The index dialects (D4, D3, D2): the resource `skill://index.json`, read into entries.

They are distinguished entry by entry: frontmatter as an object is D4, a digest is D3, neither is D2. Only D3
with `file-digests` lists a skill's files with digests; otherwise the entry has no list of files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

from skillwire.errors import FormatError
from skillwire.issues import Issue, shown
from skillwire.json_types import JsonObject, JsonValue, is_list, is_object
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.dialects import Dialect, Draft
from skillwire.skill.digests import Digest, parse_digest
from skillwire.skill.entries import DYNAMIC, NO_SIZE, SkillEntry, SkillResource
from skillwire.skill.uris import SkillUri, child_uri, shown_uri, skill_name_in, skill_root
from skillwire.wire.legacy import LegacyListing, left_out, reason, skill_md_uri
from skillwire.wire.templates import SkillTemplate, parse_template

INDEX_URI: Final = "skill://index.json"
FILE_DIGESTS: Final = "io.modelcontextprotocol.skills/file-digests"
_SKILL_TYPE: Final = "skill-md"
_NAMED: Final = frozenset({"name", "description"})


def parse_index(data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> LegacyListing:
    """The skills of an index, or a `FormatError` if it is not one. A bad entry does not affect the others."""
    try:
        index = json.loads(data)
    except (ValueError, RecursionError):
        raise _no_index("it is not JSON") from None
    items = cast("Mapping[str, object]", index).get("skills") if isinstance(index, dict) else None
    if not is_list(items):
        raise _no_index("it has no list of skills")
    entries: dict[SkillUri, SkillEntry] = {}
    issues: list[Issue] = []
    spellings: dict[SkillUri, str] = {}
    templates: dict[str, SkillTemplate] = {}
    for number, item in enumerate(items):
        place = f"skills[{number}]"
        if number >= limits.entries_per_server:
            more = len(items) - number
            issues.append(
                left_out(place, f"{more:,} more entries were passed over", "ask for a shorter index")
            )
            break
        try:
            if is_object(item) and item.get("type") == "mcp-resource-template":
                template = parse_template(item.get("url"), item.get("description"))
                templates[template.template] = template
                continue
            entry = _entry(item, place)
        except FormatError as error:
            issues.append(left_out(place, reason(error), error.issues[0].fix))
            continue
        if entries.setdefault(entry.uri, entry) is not entry:
            issues.append(left_out(place, f"{shown_uri(entry.uri)} is listed twice", "the first one is used"))
        elif entry.draft is not None and entry.draft.spelling != entry.uri:
            spellings[entry.uri] = entry.draft.spelling
    return LegacyListing(tuple(entries.values()), tuple(issues), spellings, tuple(templates.values()))


def _entry(item: object, place: str) -> SkillEntry:
    if not is_object(item):
        raise _refused(f"{place} is not an object", "tell the server's operator")
    kind = item.get("type", _SKILL_TYPE)
    url = item.get("url")
    match kind:
        case "skill-md":
            pass
        case "archive":
            raise _refused("it comes only as an archive, which is not loaded", "ask for it as single files")
        case _:
            raise _refused(f"its type {shown(str(kind))!r} is not known", "nothing to do: it was skipped")
    if not isinstance(url, str):
        if item.get("archives"):
            raise _refused("it comes only as an archive, which is not loaded", "ask for it as single files")
        raise _refused("it has no url", "tell the server's operator")
    uri = skill_md_uri(url)
    digest = _digest(item.get("digest"))
    frontmatter = item.get("frontmatter")
    if is_object(frontmatter):
        dialect, fields, carried = Dialect.INDEX_WITH_FRONTMATTER, cast("JsonObject", frontmatter), None
    else:
        dialect = Dialect.INDEX if digest is None else Dialect.INDEX_WITH_DIGESTS
        fields = cast(
            "JsonObject", {key: item[key] for key in sorted(_NAMED) if isinstance(item.get(key), str)}
        )
        carried = frozenset(fields)
        # Missing fields are not compared; a missing name is the directory's.
        fields.setdefault("name", skill_name_in(uri))
    files = _files(uri, digest, item.get("_meta"))
    draft = Draft(
        dialect=dialect,
        carried=carried,
        digests=() if files or digest is None else ((uri, digest),),
        spelling=url,
    )
    return SkillEntry(uri, fields, files or DYNAMIC, _meta(item.get("_meta")), draft)


def _files(uri: SkillUri, digest: Digest | None, meta: object) -> tuple[SkillResource, ...]:
    """Every file with its digest, if the entry has them (D3); otherwise empty."""
    listed = meta.get(FILE_DIGESTS) if is_object(meta) else None
    if not is_list(listed):
        return ()
    root = skill_root(uri)
    digests: dict[SkillUri, Digest] = {}
    for item in listed:
        path = item.get("path") if is_object(item) else None
        found = _digest(item.get("digest")) if is_object(item) else None
        if not isinstance(path, str) or found is None:
            raise _refused("its list of file digests is not one", "tell the server's operator")
        file = root
        for segment in path.split("/"):
            file = child_uri(file, segment)
        if file in digests:
            raise _refused(f"it lists {shown_uri(file)} twice", "tell the server's operator")
        digests[file] = found
    if digest is not None and digests.setdefault(uri, digest) != digest:
        raise _refused("it names two digests for its SKILL.md", "tell the server's operator")
    if uri not in digests:
        return ()  # Incomplete, so nothing can be bound to it.
    return tuple(SkillResource(file, digests[file], NO_SIZE) for file in sorted(digests))


def _digest(value: object) -> Digest | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _refused("its digest is not a string", "tell the server's operator")
    return parse_digest(value)


def _meta(value: object) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", dict(value)) if is_object(value) else {}


def _refused(message: str, fix: str) -> FormatError:
    return FormatError.of(rule="index-entry", message=message, fix=fix)


def _no_index(message: str) -> FormatError:
    return FormatError.of(
        rule="index", message=f"{INDEX_URI} is not an index: {message}", fix="tell its operator"
    )
