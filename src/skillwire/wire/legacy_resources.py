"""Resources for clients without the extension: manifests, scans of listings, and the XML of a prompt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from skillwire.documents import DocumentError, JsonObject, JsonValue, is_list, is_object, read_json
from skillwire.errors import FormatError, Issue
from skillwire.skill import (
    DYNAMIC,
    SCHEME,
    SKILL_FILE,
    Dialect,
    DraftDetails,
    SkillEntry,
    SkillResource,
    SkillUri,
    child_uri,
    is_size,
    parse_digest,
    path_below,
    skill_name_in,
    skill_root,
)
from skillwire.text import clean_line, escape_xml, shown
from skillwire.trust import manifest_issues
from skillwire.wire.index import (
    LegacyListing,
    ListedResource,
    is_legacy_resource,
    left_out,
    reason,
    skill_md_uri,
)


def write_manifest(entry: SkillEntry) -> bytes:
    """The manifest of a skill whose files are listed."""
    if entry.resources is DYNAMIC:
        raise ValueError(f"{entry.uri} lists no files")
    root = skill_root(entry.uri)
    files: list[JsonValue] = [
        {"path": "/".join(path_below(file.uri, root)), "size": file.size, "hash": file.digest}
        for file in entry.resources
    ]
    manifest: JsonObject = {"skill": skill_name_in(entry.uri), "files": files}
    return json.dumps(manifest, ensure_ascii=False, indent=2).encode("utf-8")


def bind_to_manifest(entry: SkillEntry, data: bytes) -> SkillEntry:
    """The entry with the files of its manifest, or a `FormatError`.

    A manifest without `SKILL.md` is incomplete, so nothing can be bound to it.
    """
    try:
        manifest = read_json(data, what="a manifest")
    except DocumentError:
        raise _refused("its manifest is not JSON") from None
    listed = manifest.get("files") if is_object(manifest) else None
    if not is_list(listed):
        raise _refused("its manifest has no list of files")
    root = skill_root(entry.uri)
    files = sorted((_file(root, item) for item in listed), key=lambda file: file.uri)
    if all(file.uri != entry.uri for file in files):
        return replace(entry, resources=DYNAMIC)
    if issues := manifest_issues((file.uri for file in files), entry.uri):
        raise _refused(f"in its manifest, {issues[0].message}")
    return replace(entry, resources=tuple(files))


def _file(root: SkillUri, item: object) -> SkillResource:
    path = item.get("path") if is_object(item) else None
    size = item.get("size") if is_object(item) else None
    digest = item.get("hash") if is_object(item) else None
    if not isinstance(path, str) or not isinstance(digest, str):
        raise _refused("its manifest has a file without path or hash")
    if not is_size(size):
        raise _refused(f"its manifest gives {shown(path)} no size")
    uri = root
    for segment in path.split("/"):
        uri = child_uri(uri, segment)
    return SkillResource(uri, parse_digest(digest), size)


def _refused(message: str) -> FormatError:
    return FormatError.of(rule="manifest", message=message, fix="tell the server's operator")


MANIFEST: Final = "_manifest"
_PREFIX: Final = f"{SCHEME}://"


@dataclass(frozen=True, slots=True)
class ResourcePage:
    resources: tuple[ListedResource, ...]
    next_cursor: str | None


def resource_page(answer: object) -> ResourcePage:
    """A page of `resources/list`. Resources without a URI are skipped."""
    items = answer.get("resources") if is_object(answer) else None
    if not is_object(answer) or not is_list(items):
        raise FormatError.of(
            rule="answer", message="the answer has no list of resources", fix="tell the server's operator"
        )
    found: list[ListedResource] = []
    for item in items:
        uri = item.get("uri") if is_object(item) else None
        if is_object(item) and isinstance(uri, str):
            name, media = _string(item.get("name")), _string(item.get("mimeType"))
            found.append(ListedResource(uri, _string(item.get("description")), name, media))
    cursor = answer.get("nextCursor")
    return ResourcePage(tuple(found), cursor if isinstance(cursor, str) and cursor else None)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def with_manifests(resources: Sequence[ListedResource]) -> dict[str, ListedResource]:
    """The `SKILL.md` resources that have a manifest, by the URI of the manifest (D1)."""
    uris = {resource.uri for resource in resources}
    found: dict[str, ListedResource] = {}
    for resource in resources:
        root, slash, name = resource.uri.rpartition("/")
        manifest = f"{root}/{MANIFEST}"
        if slash and name == SKILL_FILE and resource.uri.startswith(_PREFIX) and manifest in uris:
            found[manifest] = resource
    return found


def bare_resources(resources: Sequence[ListedResource]) -> list[ListedResource]:
    """Every resource whose URI looks like that of a skill or of its files."""
    return [one for one in resources if one.uri.startswith(_PREFIX) and not is_legacy_resource(one.uri)]


def bare_skills(resources: Sequence[ListedResource]) -> LegacyListing:
    """Every resource whose URI looks like a skill's (D0). None of them is confirmed to be a skill."""
    entries: dict[SkillUri, SkillEntry] = {}
    issues: list[Issue] = []
    spellings: dict[SkillUri, str] = {}
    # A proper SKILL.md comes first, so that `skill://demo` does not replace it.
    listed = bare_resources(resources)
    for resource in sorted(listed, key=lambda resource: not resource.uri.endswith(f"/{SKILL_FILE}")):
        try:
            entry = scanned_entry(resource, Dialect.BARE_SCAN)
        except FormatError as error:
            issues.append(left_out(shown(resource.uri), reason(error), error.issues[0].fix))
            continue
        if entry.uri not in entries:
            entries[entry.uri] = entry
            if resource.uri != entry.uri:
                spellings[entry.uri] = resource.uri
    return LegacyListing(tuple(entries.values()), tuple(issues), spellings)


def scanned_entry(resource: ListedResource, dialect: Dialect) -> SkillEntry:
    """An entry for a resource without frontmatter, named after its directory."""
    uri = skill_md_uri(resource.uri)
    frontmatter: JsonObject = {"name": skill_name_in(uri), "description": resource.description}
    draft = DraftDetails(
        dialect=dialect,
        carried=frozenset(),
        confirmed=dialect is not Dialect.BARE_SCAN,
        spelling=resource.uri,
    )
    return SkillEntry(uri, frontmatter, DYNAMIC, {}, draft)


PROMPT_XML_URI: Final = "skill://prompt-xml"


def write_prompt_xml(entries: Iterable[SkillEntry], *, limit: int = 100_000) -> bytes:
    """The skills as `<available_skills>`, at most `limit` characters; the rest are counted in a comment.

    Hidden characters and those not allowed in XML are removed (SEC-11).
    """
    skills: list[str] = []
    left_out = 0
    for entry in entries:
        skill = _skill(entry.name, entry.description, entry.uri)
        limit -= len(skill) + 1
        if limit >= 0 and not left_out:
            skills.append(skill)
        else:
            left_out += 1
    if left_out:
        skills.append(f"<!-- {left_out} more skills are not shown -->")
    return "\n".join(["<available_skills>", *skills, "</available_skills>", ""]).encode("utf-8")


@lru_cache(maxsize=16_384)
def _skill(name: str, description: str, uri: str) -> str:
    """One skill. Cached, because cleaning is slow and most skills do not change."""
    return "\n".join(
        [
            "<skill>",
            f"<name>{_escaped(name)}</name>",
            f"<description>{_escaped(description)}</description>",
            f"<location>{_escaped(uri)}</location>",
            "</skill>",
        ]
    )


def _escaped(text: str) -> str:
    return escape_xml(clean_line(text).text)
