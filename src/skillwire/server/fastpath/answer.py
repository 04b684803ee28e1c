"""FastPath: responses to the most common requests of 2026-07-28, without the SDK.

The fast path is called by the HTTP middleware and by the stdio loop. Any request that it does not fully
understand, or that ends in an error, goes to the SDK. A test sends the same requests both ways and compares
the responses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Final

from skillwire.errors import ApprovalRequired, Refusal
from skillwire.json_types import JsonObject, JsonValue
from skillwire.server.catalog import Catalog, cut_page
from skillwire.server.fastpath.cache import ResponseCache
from skillwire.server.fastpath.parse import (
    ERA,
    HEAD,
    METHOD_DISCOVER,
    METHOD_READ,
    SERVER_KEY,
    FastRequest,
    parse_request,
    split_id,
)
from skillwire.server.legacy.features import LegacyFeatures
from skillwire.server.results import SkillResults
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.sources.base import Validator
from skillwire.wire.v1 import DIRECTORY_READ_SETTING, EXTENSION_ID, METHOD_GET, entry_to_wire

_CACHED_ENTRY_BYTES: Final = 32 << 20
_CACHED_REQUEST_BYTES: Final = 8 << 20
_CACHED_RESPONSE_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A cached response without its beginning and id. It is valid while the catalog and the file are
    unchanged. The HTTP headers of a request must have this `method` and `name`.
    """

    tail: bytes
    method: bytes
    name: bytes | None
    catalog: Catalog
    validator: Validator | None
    uri: str | None
    ttl_ms: int

    def to(self, id_json: bytes) -> bytes:
        """The complete response to a request with this id."""
        return HEAD + id_json + self.tail


def discovery(instructions: str, legacy_features: LegacyFeatures, *, watched: bool) -> JsonObject:
    """The result of `server/discover`. A test compares it with the SDK's."""
    changes: JsonObject = {"listChanged": watched}
    capabilities: JsonObject = {
        "completions": {},
        "extensions": {EXTENSION_ID: {DIRECTORY_READ_SETTING: True}},
        "resources": {"subscribe": watched, **changes},
    }
    if legacy_features.tools != "never":
        capabilities["tools"] = changes
    if legacy_features.prompts:
        capabilities["prompts"] = changes
    return {
        "supportedVersions": [ERA],
        "capabilities": capabilities,
        "instructions": instructions,
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }


class EntryCache:
    """A cache of the JSON of entries, of at most `room` bytes, which several fast paths can share."""

    def __init__(self, room: int = _CACHED_ENTRY_BYTES) -> None:
        # By identity, together with the entry: a changed entry is another object.
        self._made: dict[int, tuple[SkillEntry, bytes]] = {}
        self._room = room
        self._size = 0

    def encode(self, entry: SkillEntry) -> bytes:
        cached = self._made.get(id(entry))
        if cached is not None:
            return cached[1]
        made = _encode_entry(entry)
        self._size += len(made)
        if self._size > self._room:
            self._made.clear()
            self._size = len(made)
        self._made[id(entry)] = (entry, made)
        return made


class FastPath:
    """Responds for one server. Without `discovery`, `server/discover` is left to the SDK.

    `observe` is called for each response with the method, the URI and whether it was cached. `room` is the
    size of the response cache.
    """

    def __init__(
        self,
        results: SkillResults,
        server_info: Mapping[str, JsonValue],
        discovery: Callable[[], JsonObject] | None = None,
        *,
        entries: EntryCache | None = None,
        observe: Callable[[str, str | None, bool], None] | None = None,
        room: int = _CACHED_RESPONSE_BYTES,
    ) -> None:
        self._results = results
        self._stamp = b',"_meta":' + _encode({SERVER_KEY: dict(server_info)})
        self._discovery = discovery
        self._entries = entries or EntryCache()
        self._observe = observe
        self._requests: ResponseCache[FastRequest] = ResponseCache(min(room, _CACHED_REQUEST_BYTES))
        self._responses: ResponseCache[CachedResponse] = ResponseCache(room)

    def cached(self, body: bytes) -> tuple[bytes, CachedResponse] | None:
        """The cached response to a request with the same bytes except for the id, and the id to use. It is
        valid while every source has the same entries, the file's validator is fresh, and its cache lifetime
        is the same.
        """
        id_json, key = split_id(body)
        cached = self._responses.get(key)
        if cached is None:
            return None
        library = self._results.library
        if (
            cached.catalog is library.current_catalog()
            and (cached.validator is None or cached.validator.is_fresh())
            and cached.ttl_ms == library.ttl_ms(cached.uri)
        ):
            if self._observe is not None:
                self._observe(cached.method.decode("ascii"), cached.uri, True)
            return id_json, cached
        self._responses.drop(key)
        return None

    def parse(self, body: bytes) -> FastRequest | None:
        """The parsed request, or `None` if it is for the SDK."""
        id_json, key = split_id(body)
        seen = self._requests.get(key) if key else None
        if seen is not None:
            return FastRequest(seen.method, id_json, seen.uri, seen.cursor, key)
        request = parse_request(body)
        # A body that only differs in its id need not be parsed again. The key must not contain a second id in
        # any spelling.
        if request is None or request.id_json != id_json or b'"id"' in key or b"\\" in key:
            return request
        request = FastRequest(request.method, id_json, request.uri, request.cursor, key)
        self._requests.put(key, request)
        return request

    async def respond(self, request: FastRequest) -> bytes | None:
        """The complete JSON-RPC response, or `None` if the request is for the SDK."""
        library = self._results.library
        try:
            catalog = await self._results.catalog()
            result, validator = await self._result(request)
        except (Refusal, ApprovalRequired):
            return None
        if result is None:
            return None
        if self._observe is not None:
            self._observe(request.method, request.uri, False)
        tail = b',"result":' + result + self._stamp + b"}}"
        # A change during the request may or may not be reflected in this response.
        if request.key and library.current_catalog() is catalog:
            self._cache(request, tail, catalog, validator)
        return HEAD + request.id_json + tail

    def _cache(
        self, request: FastRequest, tail: bytes, catalog: Catalog, validator: Validator | None
    ) -> None:
        """Cache a response that can be validated later. Pages are not cached: they are large and quick to
        build.
        """
        if request.method == METHOD_READ:
            if validator is None:
                return
        elif request.method not in (METHOD_GET, METHOD_DISCOVER):
            return
        cached = CachedResponse(
            tail,
            request.method.encode("ascii"),
            request.name,
            catalog,
            validator,
            request.uri,
            self._results.library.ttl_ms(request.uri),
        )
        self._responses.put(request.key, cached, len(tail))

    async def _result(self, request: FastRequest) -> tuple[bytes | None, Validator | None]:
        """The result without its closing brace, and the validator of what was read."""
        results, uri = self._results, request.uri or ""
        match request.method:
            case "skills/list":
                page = await results.page_of_skills(request.cursor)
                entries = b",".join([self._entry(entry) for entry in page.items])
                if page.next_cursor is not None and results.library.paged is None:
                    # Called after the response is written, so that encoding happens while the client reads
                    # this page.
                    asyncio.get_running_loop().call_soon(self._prepare, page.next_cursor)
                return b'{"skills":[' + entries + b"]" + _rest(results.trailer(page.next_cursor)), None
            case "skills/get":
                entry = await results.entry_at(uri)
                return b'{"skill":' + self._entry(entry) + _rest(results.trailer(None, uri)), None
            case "resources/read":
                content, validator = await results.content_at(uri)
                trailer = _rest(results.trailer(None, uri))
                return b'{"contents":[' + _content(content) + b"]" + trailer, validator
            case "resources/directory/read":
                return _encode(await results.read_directory(uri, request.cursor, modern=True))[:-1], None
            case _:
                return None if self._discovery is None else _encode(self._discovery())[:-1], None

    def _prepare(self, cursor: str) -> None:
        """Encode the entries of the page that will probably be requested next."""
        library = self._results.library
        catalog = library.current_catalog()
        if catalog is not None:
            keys, size = catalog.keys, library.page_size
            for entry in cut_page(catalog.listed, keys, cursor, size=size, listing="skills").items:
                self._entry(entry)

    def _entry(self, entry: SkillEntry) -> bytes:
        if self._results.library.paged is not None:
            return _encode_entry(entry)  # Each page has new objects: a cache of them is never hit.
        return self._entries.encode(entry)


def _encode_entry(entry: SkillEntry) -> bytes:
    """The JSON of an entry. Its files are most of it, so they are encoded directly."""
    if entry.resources is DYNAMIC or entry.meta or entry.draft:
        return _encode(entry_to_wire(entry))
    quote = encode_basestring
    files = ",".join(
        [
            f'{{"uri":{quote(file.uri)},"digest":{quote(file.digest)},"size":{file.size}}}'
            for file in entry.resources
        ]
    )
    frontmatter = _text(dict(entry.frontmatter))
    return f'{{"uri":{quote(entry.uri)},"frontmatter":{frontmatter},"resources":[{files}]}}'.encode()


def _text(value: JsonValue) -> str:
    """A value as JSON. Almost all frontmatter is text, for which a JSON encoder is slow."""
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        members = [f"{encode_basestring(key)}:{_text(member)}" for key, member in value.items()]
        return f"{{{','.join(members)}}}"
    return _compact.encode(value)


def _content(content: JsonObject) -> bytes:
    """The contents of a resource. Text is most of the response, so it is encoded directly."""
    text = content.pop("text", None)
    if not isinstance(text, str):
        return _encode(content)
    return _encode(content)[:-1] + b',"text":' + encode_basestring(text).encode("utf-8") + b"}"


def _rest(trailer: JsonObject) -> bytes:
    """The last fields of a result, as the continuation of an object."""
    return b"," + _encode(trailer)[1:-1]


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _encode(value: JsonValue) -> bytes:
    return _compact.encode(value).encode("utf-8")
