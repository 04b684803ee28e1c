"""SkillResults: the results of the extension's methods and of the resource methods, as plain JSON values.

Nothing here depends on the SDK: its handlers and the fast path send the same results. A request that has no
result raises `Refusal`, with the requested URI in its message and data (GET-1, DIR-3, RD-1).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from skillwire.catalog import skill_path
from skillwire.errors import ApprovalRequired, FormatError, PolicyRefused, Refusal, SkillNotFound
from skillwire.json_types import JsonObject, JsonValue
from skillwire.server.legacy.resources import LegacyResource, LegacyResources, SkillPrompts
from skillwire.server.legacy.tools import SkillTexts, SkillTools
from skillwire.server.library import DEFAULT_OPTIONS, Catalog, Page, ServerOptions, SkillLibrary, file_content
from skillwire.skill import (
    DIRECTORY,
    DYNAMIC,
    MARKDOWN,
    SCHEME,
    SKILL_FILE,
    SkillEntry,
    media_type,
    parse_uri,
    path_below,
    skill_root,
)
from skillwire.sources import DirectoryChild, Validator
from skillwire.text import shown
from skillwire.wire import INVALID_PARAMS, entry_to_wire, is_legacy_resource

if TYPE_CHECKING:
    from skillwire.server.search import LibrarySearch

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
            from skillwire.server.search import LibrarySearch  # Not needed to start.

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
