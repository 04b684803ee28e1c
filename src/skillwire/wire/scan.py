"""Scans (D1, D0): skills found among a server's resources.

A `SKILL.md` beside a `_manifest` is D1, and the manifest lists its files. Any other URI with the scheme
`skill:` is D0: a scheme alone proves nothing, so such a skill is unconfirmed (FMT-5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skillwire.errors import FormatError
from skillwire.issues import Issue, shown
from skillwire.json_types import JsonObject, is_list, is_object
from skillwire.skill.dialects import Dialect, Draft
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SCHEME, SKILL_FILE, SkillUri, skill_name_in
from skillwire.wire.legacy import (
    LegacyListing,
    ListedResource,
    is_legacy_resource,
    left_out,
    reason,
    skill_md_uri,
)

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
            name, media = _text(item.get("name")), _text(item.get("mimeType"))
            found.append(ListedResource(uri, _text(item.get("description")), name, media))
    cursor = answer.get("nextCursor")
    return ResourcePage(tuple(found), cursor if isinstance(cursor, str) and cursor else None)


def _text(value: object) -> str:
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
    draft = Draft(
        dialect=dialect,
        carried=frozenset(),
        confirmed=dialect is not Dialect.BARE_SCAN,
        spelling=resource.uri,
    )
    return SkillEntry(uri, frontmatter, DYNAMIC, {}, draft)
