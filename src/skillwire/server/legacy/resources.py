"""LegacyResources: resources that describe skills for clients of older dialects.

These are `skill://index.json`, `skill://prompt-xml` and a `_manifest` for each skill. If a skill, a directory
or a file has one of these URIs, it is served instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.catalog import Catalog, Page, cut_page, has_same_metadata
from skillwire.server.legacy.features import LegacyFeatures
from skillwire.skill.dialects import Dialect
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.files import media_type
from skillwire.skill.uris import SKILL_FILE, SkillUri, path_below, skill_root
from skillwire.wire.index import INDEX_URI
from skillwire.wire.index_writer import write_index
from skillwire.wire.legacy import is_legacy_resource
from skillwire.wire.manifest import write_manifest
from skillwire.wire.prompt_xml import PROMPT_XML_URI, write_prompt_xml
from skillwire.wire.scan import MANIFEST

JSON: Final = "application/json"
XML: Final = "application/xml"
_SHAPES: Final = {
    "d2": Dialect.INDEX,
    "d3": Dialect.INDEX_WITH_DIGESTS,
    "d4": Dialect.INDEX_WITH_FRONTMATTER,
}


@dataclass(frozen=True, slots=True)
class LegacyResource:
    """One legacy resource, as it is listed."""

    uri: SkillUri
    name: str
    description: str
    media_type: str


@dataclass(frozen=True, slots=True)
class _Listing:
    """Everything in `resources/list` for one catalog."""

    catalog: Catalog
    items: tuple[SkillEntry | LegacyResource, ...]
    keys: tuple[str, ...]


class LegacyResources:
    """The legacy resources of a catalog. Those of the last catalog are cached."""

    def __init__(self, legacy_features: LegacyFeatures, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._features = legacy_features
        self._limits = limits
        self._listing: _Listing | None = None
        self._made: tuple[Catalog, dict[str, bytes]] | None = None

    def page(self, catalog: Catalog, cursor: str | None, *, size: int) -> Page[SkillEntry | LegacyResource]:
        """A page of `resources/list`: each `SKILL.md`, and the listed legacy resources."""
        listing = self._listing
        if listing is None or listing.catalog is not catalog:
            found = [*catalog.listed, *self._resources(catalog), *self._files(catalog)]
            items = sorted(found, key=lambda item: item.uri)
            listing = _Listing(catalog, tuple(items), tuple(item.uri for item in items))
            self._listing = listing
        return cut_page(listing.items, listing.keys, cursor, size=size, listing="resources")

    def content(self, catalog: Catalog, uri: SkillUri) -> bytes | None:
        """The bytes of a legacy resource; `None` if there is none at this URI."""
        if not is_legacy_resource(uri) or catalog.paged is not None:
            return None  # A resource that describes all skills is useless if they are too many to list.
        if uri in (INDEX_URI, PROMPT_XML_URI):
            return self._whole(catalog, uri) if self._has(catalog, uri) else None
        entry = catalog.by_uri.get(SkillUri(f"{uri.removesuffix(MANIFEST)}{SKILL_FILE}"))
        if entry is None or not self._has_manifest(entry):
            return None
        return write_manifest(entry)

    def media_type(self, uri: SkillUri) -> str:
        return XML if uri == PROMPT_XML_URI else JSON

    @property
    def has_manifests(self) -> bool:
        return self._features.manifests

    def _resources(self, catalog: Catalog) -> Iterator[LegacyResource]:
        # Clients know the URIs. In listings they would clutter every resource picker.
        if not self._features.listed:
            return
        if self._has(catalog, INDEX_URI):
            yield LegacyResource(
                SkillUri(INDEX_URI), "index.json", "The skills of this server, as one index.", JSON
            )
        if self._has(catalog, PROMPT_XML_URI):
            yield LegacyResource(
                SkillUri(PROMPT_XML_URI), "prompt-xml", "The skills of this server, for a system prompt.", XML
            )
        for entry in catalog.listed:
            if self._has_manifest(entry):
                description = f"The files of the skill {entry.name}, with sizes and hashes."
                yield LegacyResource(manifest_uri(entry), f"{entry.name}/{MANIFEST}", description, JSON)

    def _files(self, catalog: Catalog) -> Iterator[LegacyResource]:
        """Every supporting file once; a file of a nested skill also belongs to the outer one."""
        if not self._features.files:
            return
        listed = {entry.uri for entry in catalog.listed}
        files = {
            file.uri: entry
            for entry in catalog.listed
            for file in (() if entry.resources is DYNAMIC else entry.resources)
            if file.uri not in listed
        }
        for uri, entry in files.items():
            path = "/".join(path_below(uri, skill_root(entry.uri)))
            media = media_type(path.rpartition("/")[2])
            yield LegacyResource(uri, f"{entry.name}/{path}", f"A file of the skill {entry.name}.", media)

    def _has(self, catalog: Catalog, uri: str) -> bool:
        is_on = self._features.index != "off" if uri == INDEX_URI else self._features.prompt_xml
        return is_on and not catalog.has_directory(uri)

    def _has_manifest(self, entry: SkillEntry) -> bool:
        """Whether a skill lists its files, and none of them has the URI of the manifest."""
        uri = manifest_uri(entry)
        if not self._features.manifests or entry.resources is DYNAMIC:
            return False
        return not any(file.uri == uri or file.uri.startswith(f"{uri}/") for file in entry.resources)

    def _whole(self, catalog: Catalog, uri: str) -> bytes:
        if self._made is None:
            self._made = (catalog, {})
        elif self._made[0] is not catalog:
            # A resource without digests only changes with the frontmatter.
            is_kept = has_same_metadata(self._made[0], catalog)
            kept = {at: made for at, made in self._made[1].items() if is_kept and not self._has_digests(at)}
            self._made = (catalog, kept)
        made = self._made[1]
        if uri not in made:
            if uri == INDEX_URI:
                made[uri] = write_index(catalog.listed, _SHAPES[self._features.index])
            else:
                made[uri] = write_prompt_xml(catalog.listed, limit=self._limits.prompt_xml_chars)
        return made[uri]

    def _has_digests(self, uri: str) -> bool:
        return uri == INDEX_URI and self._features.index != "d2"


def manifest_uri(entry: SkillEntry) -> SkillUri:
    """The URI of a skill's manifest. FastMCP derives it from the path of the skill."""
    return SkillUri(f"{skill_root(entry.uri)}/{MANIFEST}")
