"""SkillResults: the results of the extension's methods and of the resource methods, as plain JSON values.

Nothing here depends on the SDK: its handlers and the fast path send the same results. A request that has no
result raises `Refusal`, with the requested URI in its message and data (GET-1, DIR-3, RD-1).

`LegacyResources` describe skills for clients of older dialects: `skill://index.json`, `skill://prompt-xml`
and a `_manifest` for each skill. If a skill, a directory or a file has one of these URIs, it is served
instead.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillwire.documents import JsonObject, JsonValue
from skillwire.errors import (
    AmbiguousName,
    ApprovalRequired,
    FormatError,
    PolicyRefused,
    Refusal,
    SkillNotFound,
)
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.library import (
    DEFAULT_OPTIONS,
    Catalog,
    LegacyFeatures,
    Page,
    ServerOptions,
    SkillLibrary,
    cut_page,
    file_content,
    has_same_metadata,
)
from skillwire.server.tools import LegacyFeature, SkillNames, SkillTexts, SkillTools, skill_text, waiting
from skillwire.skill import (
    DIRECTORY,
    DYNAMIC,
    MARKDOWN,
    SCHEME,
    SKILL_FILE,
    Dialect,
    SkillEntry,
    SkillUri,
    media_type,
    parse_uri,
    path_below,
    skill_path,
    skill_root,
)
from skillwire.sources import DirectoryChild, Validator
from skillwire.text import shown
from skillwire.wire import INDEX_URI, INVALID_PARAMS, entry_to_wire, is_legacy_resource
from skillwire.wire.legacy import MANIFEST, PROMPT_XML_URI, write_index, write_manifest, write_prompt_xml

if TYPE_CHECKING:
    from skillwire.server.search import LibrarySearch

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


INTERNAL_ERROR: Final = -32603
APPROVAL_REQUIRED: Final = -32010
"""The error of a request for a skill that exists and that its client may not have: nobody approved it, or a
policy refuses it."""
FRONTMATTER_META_PREFIX: Final = "io.modelcontextprotocol.skills/"
_META_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SHORT: Final = 2048
PATH_TEMPLATE: Final = f"{SCHEME}://{{+path}}"
NAME_TEMPLATE: Final = f"{SCHEME}://{{name}}/{{+path}}"
_MOST_VALUES: Final = 100

_log = logging.getLogger(__name__)


class SkillResults:
    """Results from a library. `modern` means that the client uses 2026-07-28 or later (LST-2).

    `texts` decides how tools and prompts show a skill. `tools` and `prompts` are `None` if there are none.
    """

    def __init__(
        self,
        library: SkillLibrary,
        options: ServerOptions = DEFAULT_OPTIONS,
        texts: SkillTexts | None = None,
    ) -> None:
        features = options.legacy_features
        self.library = library
        self.options = options
        self.legacy_resources = LegacyResources(features, limits=options.limits)
        self._search: LibrarySearch | None = None
        self.on_found: Callable[[Sequence[SkillEntry]], None] = lambda entries: None
        """Called with the results of each search."""
        self.tools = (
            None if features.tools == "never" else SkillTools(library, options, texts, search=self.search)
        )
        self.prompts = SkillPrompts(library, options, texts) if features.prompts else None

    async def catalog(self) -> Catalog:
        """The current catalog."""
        with _errors():
            return await self.library.catalog()

    async def search(self, query: str, limit: int) -> Sequence[SkillEntry]:
        """The skills that fit a query best, best first."""
        if self._search is None:
            from skillwire.server.search import LibrarySearch

            self._search = LibrarySearch(self.library, self.options.limits)
        found = await self._search.search(query, limit)
        self.on_found(found)
        return found

    async def page_of_skills(self, cursor: str | None) -> Page[SkillEntry]:
        """A page of the listing."""
        with _errors():
            return await self.library.list_skills(cursor)

    async def entry_at(self, uri: str) -> SkillEntry:
        """The entry of one skill."""
        with _errors(uri):
            return await self.library.get_skill(parse_uri(uri))

    def trailer(self, next_cursor: str | None, uri: str | None = None) -> JsonObject:
        """The last fields of every modern result that can be cached: the cursor of the next page and the
        cache advice. `uri` is set if the result is about one skill or file.
        """
        trailer: JsonObject = {} if next_cursor is None else {"nextCursor": next_cursor}
        ttl_ms = self.library.ttl_ms(uri)
        trailer.update(resultType="complete", ttlMs=ttl_ms, cacheScope=self.options.cache_scope)
        return trailer

    async def list_skills(self, cursor: str | None, *, modern: bool) -> JsonObject:
        page = await self.page_of_skills(cursor)
        skills = [entry_to_wire(entry) for entry in page.items]
        return self._complete({"skills": [*skills]}, page.next_cursor, modern)

    async def find_skills(self, query: str, limit: int | None, *, modern: bool) -> JsonObject:
        """The skills that fit a query best, best first, as one page of the listing."""
        wanted = self.options.limits.search_results if limit is None else limit
        if not 1 <= wanted <= self.library.page_size:
            raise Refusal(f"limit is not from 1 to {self.library.page_size}", code=INVALID_PARAMS)
        with _errors():
            found = await self.search(query, wanted)
        return self._complete({"skills": [entry_to_wire(entry) for entry in found]}, None, modern)

    async def get_skill(self, uri: str, *, modern: bool) -> JsonObject:
        return self._complete({"skill": entry_to_wire(await self.entry_at(uri))}, None, modern, uri)

    async def read_directory(self, uri: str, cursor: str | None, *, modern: bool) -> JsonObject:
        with _errors(uri):
            page = await self.library.read_directory(parse_uri(uri), cursor)
            children = [await self._child(child) for child in page.items]
        result: JsonObject = {"resources": [*children]}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        # The extension has no cache advice for a directory: what a skill consists of is in its entry.
        return {**result, "resultType": "complete"} if modern else result

    async def list_resources(self, cursor: str | None, *, modern: bool) -> JsonObject:
        page: Page[SkillEntry] | Page[SkillEntry | LegacyResource]
        with _errors():
            if self.library.paged is not None:
                page = await self.library.list_skills(cursor, listing="resources")
            else:
                catalog = await self.library.catalog()
                page = self.legacy_resources.page(catalog, cursor, size=self.library.page_size)
        resources = [
            skill_md_resource(item) if isinstance(item, SkillEntry) else legacy_resource(item)
            for item in page.items
        ]
        return self._complete({"resources": [*resources]}, page.next_cursor, modern)

    async def complete(
        self, template: str, argument: str, value: str, known: Mapping[str, str], *, modern: bool
    ) -> JsonObject | None:
        """Values for an argument of one of our templates (R2); `None` for a template that is not ours.

        `known` are the arguments that are already filled in. Unlisted skills are not suggested.
        """
        if template not in (PATH_TEMPLATE, NAME_TEMPLATE):
            return None
        catalog = await self.catalog()
        found: set[str] = set()
        for entry in catalog.listed:
            path = skill_path(entry.uri)
            files = [entry.uri] if entry.resources is DYNAMIC else [file.uri for file in entry.resources]
            below = ["/".join(path_below(uri, skill_root(entry.uri))) for uri in files]
            if template == PATH_TEMPLATE:
                found.update(f"{'/'.join(path)}/{file}" for file in below if argument == "path")
            elif len(path) == 1 and argument == "name":
                found.add(path[0])
            elif len(path) == 1 and argument == "path" and known.get("name", path[0]) == path[0]:
                found.update(below)
        fitting = sorted(one for one in found if one.startswith(value))
        values: list[JsonValue] = [*fitting[:_MOST_VALUES]]
        completion: JsonObject = {
            "values": values,
            "total": len(fitting),
            "hasMore": len(fitting) > _MOST_VALUES,
        }
        return {"completion": completion, **({"resultType": "complete"} if modern else {})}

    async def list_tools(self, cursor: str | None, *, modern: bool, has_extension: bool) -> JsonObject | None:
        """The tools; `None` if this server has none for anybody."""
        if self.tools is None:
            return None
        with _errors():
            return await self.tools.list_tools(cursor, modern=modern, has_extension=has_extension)

    async def list_prompts(self, cursor: str | None, *, modern: bool) -> JsonObject | None:
        """A page of the prompts; `None` if this server has none."""
        if self.prompts is None:
            return None
        with _errors():
            return await self.prompts.list_prompts(cursor, modern=modern)

    async def list_templates(self, cursor: str | None, *, modern: bool) -> JsonObject:
        if cursor is not None:
            raise Refusal("the cursor does not belong to this listing", code=INVALID_PARAMS)
        template: JsonObject = {
            "uriTemplate": PATH_TEMPLATE,
            "name": "skill-file",
            "title": "A file of a skill",
            "description": "A file that a skill's entry lists: its SKILL.md, a reference, a script.",
        }
        templates: list[JsonValue] = [template]
        if self.legacy_resources.has_manifests:
            templates.append(
                {
                    "uriTemplate": NAME_TEMPLATE,
                    "name": "skill-file-by-name",
                    "title": "A file of a skill whose path is its name",
                    "description": "A file that the skill's _manifest lists.",
                }
            )
        return self._complete({"resourceTemplates": templates}, None, modern)

    async def content_at(self, asked: str) -> tuple[JsonObject, Validator | None]:
        """The contents of one file, and the validator that can tell later whether they are current."""
        with _errors(asked):
            uri = parse_uri(asked)
            if is_legacy_resource(uri):
                made = self.legacy_resources.content(await self.library.catalog(), uri)
                if made is not None:
                    media = self.legacy_resources.media_type(uri)
                    return {"uri": uri, "mimeType": media, "text": made.decode("utf-8")}, None
            read = await self.library.read(uri)
            return file_content(uri, read.data), read.validator

    async def read_resource(self, asked: str, *, modern: bool) -> JsonObject:
        content, _ = await self.content_at(asked)
        return self._complete({"contents": [content]}, None, modern, asked)

    async def _child(self, child: DirectoryChild) -> JsonObject:
        if child.is_directory:
            return {"uri": child.uri, "name": child.name, "mimeType": DIRECTORY}
        if child.name == SKILL_FILE:
            try:
                return skill_md_resource(await self.library.get_skill(parse_uri(child.uri)))
            except SkillNotFound:
                pass  # A nested SKILL.md that is not a valid skill is plain Markdown.
        resource: JsonObject = {"uri": child.uri, "name": child.name, "mimeType": media_type(child.name)}
        if child.size is not None:
            resource["size"] = child.size
        return resource

    def _complete(
        self, result: JsonObject, next_cursor: str | None, modern: bool, uri: str | None = None
    ) -> JsonObject:
        if modern:
            result.update(self.trailer(next_cursor, uri))
        elif next_cursor is not None:
            result["nextCursor"] = next_cursor
        return result


def skill_md_resource(entry: SkillEntry) -> JsonObject:
    """The `Resource` object of a `SKILL.md`, with name and description from its frontmatter (FMT-7)."""
    resource: JsonObject = {
        "uri": entry.uri,
        "name": entry.name,
        "description": entry.description,
        "mimeType": MARKDOWN,
    }
    for file in () if entry.resources is DYNAMIC else entry.resources:
        if file.uri == entry.uri:
            resource["size"] = file.size
    meta: JsonObject = {
        FRONTMATTER_META_PREFIX + key: value
        for key, value in entry.frontmatter.items()
        if key not in ("name", "description") and _META_NAME.fullmatch(key)
    }
    if meta:
        resource["_meta"] = meta
    return resource


def legacy_resource(item: LegacyResource) -> JsonObject:
    """The `Resource` object of a legacy resource."""
    return {
        "uri": item.uri,
        "name": item.name,
        "description": item.description,
        "mimeType": item.media_type,
    }


@contextmanager
def _errors(uri: str | None = None) -> Generator[None]:
    """Turn errors into refusals: -32602 for mistakes of the caller, -32010 for what a policy refuses, -32603
    for everything else (RD-1)."""
    data: JsonObject | None = None if uri is None else {"uri": uri if len(uri) <= _SHORT else shown(uri)}
    try:
        yield
    except SkillNotFound as error:
        raise Refusal(str(error), code=INVALID_PARAMS, data=data) from None
    except FormatError as error:
        raise Refusal(error.issues[0].message, code=INVALID_PARAMS, data=data) from None
    except PolicyRefused as error:
        raise Refusal(str(error), code=APPROVAL_REQUIRED, data=data) from None
    except (ApprovalRequired, Refusal):
        raise  # A person has to be asked first, which the caller may be able to do; or it is refused already.
    except Exception as error:
        # An internal error may contain paths, so it only goes to the operator's log.
        _log.error("%s: %s", "skills/list" if uri is None else shown(uri), error)
        what = "the skills" if uri is None else shown(uri, _SHORT)
        message = f"The server cannot serve {what} right now; try again later or tell its operator"
        raise Refusal(message, code=INTERNAL_ERROR, data=data) from None
