"""SkillMethods: the methods of the extension and the resource methods, as handlers of the MCP SDK.

Each handler parses what it was given, asks the library and shapes the answer for the protocol era that the
client speaks. An error says what was asked for, in message and data (GET-1, DIR-3, RD-1).
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillwire.errors import FormatError, SkillNotFound
from skillwire.issues import shown
from skillwire.server.library import SkillLibrary
from skillwire.skill.entries import DYNAMIC, JsonObject, SkillEntry
from skillwire.skill.media import DIRECTORY, MARKDOWN, media_type
from skillwire.skill.uris import SCHEME, SKILL_FILE, parse_uri
from skillwire.sources.base import DirectoryChild
from skillwire.wire.v1 import METHOD_GET, METHOD_LIST, METHOD_READ_DIRECTORY, entry_to_wire

Context: TypeAlias = ServerRequestContext[Any, Any]
Handler: TypeAlias = Callable[[Context, Any], Awaitable[Any]]

FRONTMATTER_META_PREFIX = "io.modelcontextprotocol.skills/"
_META_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SHORT = 2048

_log = logging.getLogger(__name__)


class UriParams(types.RequestParams):
    uri: str


class DirectoryParams(types.RequestParams):
    uri: str
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class CacheAdvice:
    """How long a client may keep an answer, and whether it may share it (LST-2, GET-2)."""

    ttl_ms: int = 60_000
    scope: Literal["public", "private"] = "public"

    def __post_init__(self) -> None:
        if self.ttl_ms < 0:
            raise ValueError("ttl_ms must not be negative")


class SkillMethods:
    """The handlers. They hold no state but the library."""

    def __init__(self, library: SkillLibrary, cache: CacheAdvice) -> None:
        self.library = library
        self._cache = cache

    def extension_methods(self) -> tuple[tuple[str, type[types.RequestParams], Handler], ...]:
        """What declaring the extension commits a server to (CAP-2), and the directory method."""
        return (
            (METHOD_LIST, types.PaginatedRequestParams, self.list_skills),
            (METHOD_GET, UriParams, self.get_skill),
            (METHOD_READ_DIRECTORY, DirectoryParams, self.read_directory),
        )

    async def list_skills(self, ctx: Context, params: types.PaginatedRequestParams) -> JsonObject:
        with _errors():
            page = await self.library.list_skills(params.cursor)
        result: JsonObject = {"skills": [entry_to_wire(entry) for entry in page.items]}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        return self._complete(ctx, result)

    async def get_skill(self, ctx: Context, params: UriParams) -> JsonObject:
        with _errors(params.uri):
            entry = await self.library.get_skill(parse_uri(params.uri))
        return self._complete(ctx, {"skill": entry_to_wire(entry)})

    async def read_directory(self, ctx: Context, params: DirectoryParams) -> JsonObject:
        with _errors(params.uri):
            page = await self.library.read_directory(parse_uri(params.uri), params.cursor)
            result: JsonObject = {"resources": [await self._child(child) for child in page.items]}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        return self._complete(ctx, result)

    async def list_resources(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        with _errors():
            page = await self.library.list_skills(params.cursor if params else None, listing="resources")
        result: JsonObject = {"resources": [skill_md_resource(entry) for entry in page.items]}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        return self._complete(ctx, result)

    async def list_templates(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        if params and params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "there is one page; start without a cursor")
        template: JsonObject = {
            "uriTemplate": f"{SCHEME}://{{+path}}",
            "name": "skill-file",
            "title": "A file of a skill",
            "description": "A file that a skill's entry lists: its SKILL.md, a reference, a script.",
        }
        return self._complete(ctx, {"resourceTemplates": [template]})

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> JsonObject:
        asked = str(params.uri)
        with _errors(asked):
            uri = parse_uri(asked)
            data = await self.library.read(uri)
        content: JsonObject = {"uri": uri, "mimeType": media_type(unquote(uri.rpartition("/")[2]))}
        # RD-2: text only when decoding loses nothing. Python's strict UTF-8 round-trips, BOM and CRLF too.
        try:
            content["text"] = data.decode("utf-8")
        except UnicodeDecodeError:
            content["blob"] = base64.b64encode(data).decode("ascii")
        return self._complete(ctx, {"contents": [content]})

    async def _child(self, child: DirectoryChild) -> JsonObject:
        if child.is_directory:
            return {"uri": child.uri, "name": child.name, "mimeType": DIRECTORY}
        if child.name == SKILL_FILE:
            try:
                return skill_md_resource(await self.library.get_skill(child.uri))
            except SkillNotFound:
                pass  # A nested SKILL.md that is no valid skill is plain Markdown.
        resource: JsonObject = {"uri": child.uri, "name": child.name, "mimeType": media_type(child.name)}
        if child.size is not None:
            resource["size"] = child.size
        return resource

    def _complete(self, ctx: Context, result: JsonObject) -> JsonObject:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            result.update(resultType="complete", ttlMs=self._cache.ttl_ms, cacheScope=self._cache.scope)
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


@contextmanager
def _errors(uri: str | None = None) -> Generator[None]:
    """Turn errors into JSON-RPC errors: the caller's are -32602, all others -32603 (RD-1)."""
    data = None if uri is None else {"uri": uri if len(uri) <= _SHORT else shown(uri)}
    try:
        yield
    except SkillNotFound as error:
        raise MCPError(types.INVALID_PARAMS, str(error), data) from None
    except FormatError as error:
        raise MCPError(types.INVALID_PARAMS, error.issues[0].message, data) from None
    except Exception as error:
        # What went wrong in here may name paths and more: it is for the operator alone.
        _log.error("%s: %s", "skills/list" if uri is None else shown(uri), error)
        what = "the skills" if uri is None else shown(uri, _SHORT)
        message = f"The server cannot serve {what} now; try again, or tell its operator"
        raise MCPError(types.INTERNAL_ERROR, message, data) from None
