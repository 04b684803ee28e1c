"""LegacyResources: resources that describe skills for clients of older dialects.

These are `skill://index.json`, `skill://prompt-xml` and a `_manifest` for each skill. If a skill, a directory
or a file has one of these URIs, it is served instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from skillwire.errors import AmbiguousName, FormatError, Refusal, SkillNotFound
from skillwire.json_types import JsonObject, JsonValue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.legacy.tools import LegacyFeature, SkillNames, skill_text, waiting
from skillwire.server.library import Catalog, LegacyFeatures, Page, cut_page, has_same_metadata
from skillwire.skill import (
    DYNAMIC,
    SKILL_FILE,
    Dialect,
    SkillEntry,
    SkillUri,
    media_type,
    path_below,
    skill_root,
)
from skillwire.wire import INDEX_URI, INVALID_PARAMS, is_legacy_resource
from skillwire.wire.index import write_index
from skillwire.wire.legacy_resources import MANIFEST, PROMPT_XML_URI, write_manifest, write_prompt_xml

_TASK = "task"


class SkillPrompts(LegacyFeature):
    """The prompts. Each has one optional argument, the task to use the skill for."""

    _names: SkillNames | None = None

    async def list_prompts(self, cursor: str | None, *, modern: bool) -> JsonObject:
        current = await self._current()
        names = sorted(current.names)
        try:
            page = cut_page(names, names, cursor, size=self._library.page_size, listing="prompts")
        except FormatError as error:
            raise Refusal(error.issues[0].message, code=INVALID_PARAMS) from None
        prompts: list[JsonValue] = [_prompt(name, current.names[name]) for name in page.items]
        result: JsonObject = {"prompts": prompts}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        if modern:
            scope = self._options.cache_scope
            result.update(resultType="complete", ttlMs=self._library.ttl_ms(), cacheScope=scope)
        return result

    async def get_prompt(self, name: str, arguments: Mapping[str, str], *, modern: bool) -> JsonObject:
        try:
            entry = (await self._current()).find(name)
            text = await skill_text(self._library, entry, self._texts, limits=self._options.limits)
        except (SkillNotFound, AmbiguousName) as error:
            raise Refusal(str(error), code=INVALID_PARAMS, data={"name": name}) from None
        task = arguments.get(_TASK, "").strip()
        if task:
            text = f"{text.rstrip()}\n\nUse this skill for the following task:\n{task}\n"
        message: JsonObject = {"role": "user", "content": {"type": "text", "text": text}}
        result: JsonObject = {"description": entry.description, "messages": [message]}
        if modern:
            result["resultType"] = "complete"
        return result

    async def knows(self, name: str) -> bool:
        """Whether there is a skill with this name."""
        try:
            (await self._current()).find(name)
        except SkillNotFound:
            return False
        except AmbiguousName:
            return True
        return True

    async def _current(self) -> SkillNames:
        catalog = await self._library.catalog()
        if self._names is None or self._names.catalog is not catalog:
            self._names = SkillNames(catalog)
        return self._names


def _prompt(name: str, entry: SkillEntry) -> JsonObject:
    argument: JsonObject = {"name": _TASK, "description": "The task to use the skill for.", "required": False}
    description = entry.description + waiting(entry)
    return {"name": name, "description": description, "arguments": [argument]}


JSON: Final = "application/json"
XML: Final = "application/xml"
_SHAPES: Final = {
    "april-2026": Dialect.INDEX,
    "early-june-2026": Dialect.INDEX_WITH_DIGESTS,
    "june-2026": Dialect.INDEX_WITH_FRONTMATTER,
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
        if not self._features.list_legacy:
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
        if not self._features.list_files:
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
        return uri == INDEX_URI and self._features.index != "april-2026"


def manifest_uri(entry: SkillEntry) -> SkillUri:
    """The URI of a skill's manifest. FastMCP derives it from the path of the skill."""
    return SkillUri(f"{skill_root(entry.uri)}/{MANIFEST}")
