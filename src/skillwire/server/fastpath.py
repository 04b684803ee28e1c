"""FastPath: responses to the most common requests without the SDK.

Requests of 2026-07-28 come from the HTTP middleware and from the stdio loop. Of the 2025 revisions, only the
beginning of a connection over stdio is answered here: see `EarlySession` in `stdio.py`. Any request that is
not fully understood, or that ends in an error, goes to the SDK. A test sends the same requests both ways and
compares the responses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from json.encoder import encode_basestring
from typing import Final, Generic, TypeVar, cast

from skillwire.documents import JsonObject, JsonValue, is_object
from skillwire.errors import ApprovalRequired, Refusal
from skillwire.server.library import Catalog, ServerOptions, cut_page
from skillwire.server.results import INTERNAL_ERROR, SkillResults
from skillwire.skill import DYNAMIC, SkillEntry
from skillwire.sources import SkillValidator, Validator
from skillwire.wire import METHOD_GET, METHOD_LIST, METHOD_READ_DIRECTORY, declaration_in, entry_to_wire

V = TypeVar("V")
# The approximate overhead of an entry beyond its key and value.
_OVERHEAD = 400


class ResponseCache(Generic[V]):
    """A cache that drops the oldest values when it is full."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0
        self._sizes: dict[bytes, int] = {}
        self._values: dict[bytes, V] = {}

    def get(self, key: bytes) -> V | None:
        return self._values.get(key)

    def put(self, key: bytes, value: V, size: int = 0) -> None:
        """Add a value of `size` bytes, unless it would take more than an eighth of the cache."""
        self.drop(key)
        taken = len(key) + size + _OVERHEAD
        if taken > self._most // 8:
            return
        self._values[key] = value
        self._sizes[key] = taken
        self._held += taken
        while self._held > self._most:
            self.drop(next(iter(self._values)))

    def drop(self, key: bytes) -> None:
        """Remove a value, if it is there."""
        if key in self._values:
            del self._values[key]
            self._held -= self._sizes.pop(key)


ERA: Final = "2026-07-28"
METHOD_DISCOVER: Final = "server/discover"
METHOD_READ: Final = "resources/read"
LISTS: Final = (
    METHOD_LIST,
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
)
"""The methods that list something, of every revision."""
_PARAMS: Final = {
    METHOD_DISCOVER: frozenset({"_meta"}),
    **dict.fromkeys(LISTS, frozenset({"_meta", "cursor"})),
    METHOD_GET: frozenset({"_meta", "uri"}),
    METHOD_READ: frozenset({"_meta", "uri"}),
    METHOD_READ_DIRECTORY: frozenset({"_meta", "uri", "cursor"}),
}
"""The methods with a fast path, each with the parameters that it may have."""

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
_ENVELOPE_KEYS: Final = frozenset({VERSION_KEY, _CLIENT_KEY, _CAPABILITIES_KEY})
ENVELOPE: Final[Mapping[str, object]] = {VERSION_KEY: ERA, _CAPABILITIES_KEY: {}}
"""The least that the `_meta` of a request of this revision has."""
_CLIENT_FIELDS: Final = frozenset({"name", "version", "title", "description", "websiteUrl"})
_LARGEST_ID: Final = 2**53
_LONGEST_ID: Final = 256
# Longer requests are parsed each time.
LONGEST_CACHED: Final = 2048
# Clients put the id first (the Python SDK and most others) or last (the TypeScript SDK).
HEAD: Final = b'{"jsonrpc":"2.0","id":'
_TAIL: Final = b',"jsonrpc":"2.0","id":'
_LONGEST_NUMBER: Final = 16


@dataclass(frozen=True, slots=True)
class FastRequest:
    """A parsed request. `id_json` is its id as JSON. `key` says what a response that can be cached depends
    on, however the request was written.
    """

    method: str
    id_json: bytes
    uri: str | None
    cursor: str | None
    has_extension: bool = False
    """Whether the client declares the skills extension."""
    key: bytes = b""

    @property
    def name(self) -> bytes | None:
        """The required `Mcp-Name` header of this request over HTTP; `None` if it is not checked."""
        if self.method != METHOD_READ:
            return None
        uri = self.uri or ""
        # A header cannot contain a line break, so such a request never matches its headers.
        return uri.encode("ascii") if uri.isascii() and uri.isprintable() else b"\n"


def parse_request(body: bytes) -> FastRequest | None:
    """The request in a message, or `None` if it is for the SDK."""
    try:
        request: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not is_object(request) or len(request) != 4 or request.get("jsonrpc") != "2.0":
        return None
    method, params = request.get("method"), request.get("params")
    if not isinstance(method, str) or not is_object(params):
        return None
    known = _PARAMS.get(method)
    id_json = plain_id(request.get("id"))
    if known is None or id_json is None or not known.issuperset(params):
        return None
    uri, cursor = params.get("uri"), params.get("cursor")
    if "uri" in known and not isinstance(uri, str):
        return None
    if cursor is not None and not isinstance(cursor, str):
        return None
    meta = params.get("_meta")
    if ("cursor" in params and cursor is None) or not _is_plain_envelope(meta):
        return None
    has_extension = is_object(meta) and declares_extension(meta.get(_CAPABILITIES_KEY))
    asked = uri if isinstance(uri, str) else None
    key = f"{method}\0{asked or ''}".encode("utf-8", "surrogatepass")
    return FastRequest(method, id_json, asked, cursor, has_extension, key)


def split_id(body: bytes) -> tuple[bytes, bytes]:
    """The numeric id of a body and the rest of it; both empty if the body has neither of the usual forms.

    The rest begins with a comma if the id came first, and with a brace if it came last. With any other number
    as id, it is well-formed if it was before.
    """
    if len(body) > LONGEST_CACHED:
        return b"", b""
    if body.startswith(HEAD):
        end = body.find(b",", len(HEAD), len(HEAD) + _LONGEST_NUMBER)
        number, rest = body[len(HEAD) : end], body[end:]
    else:
        end = body.rfind(_TAIL, -len(_TAIL) - _LONGEST_NUMBER)
        number, rest = body[end + len(_TAIL) : -1], body[:end]
        # Without this check, the rest of the first form followed by an id would match it.
        if body[:1] != b"{" or body[-1:] != b"}":
            return b"", b""
    if end < 0 or not number.isdigit() or (number[:1] == b"0" and number != b"0"):
        return b"", b""
    return number, rest


def declares_extension(capabilities: object) -> bool:
    """Whether the capabilities of a client contain the skills extension (CAP-4)."""
    return is_object(capabilities) and declaration_in(capabilities) is not None


def plain_id(value: object) -> bytes | None:
    """The JSON of an unambiguous id: an integer that a double can represent, or a short string."""
    if type(value) is int and -_LARGEST_ID <= value <= _LARGEST_ID:
        return b"%d" % value
    if isinstance(value, str) and len(value) <= _LONGEST_ID and value.isprintable():
        return json.dumps(value, ensure_ascii=False).encode("utf-8")
    return None


def is_plain_client(client: object) -> bool:
    """Whether the description of a client has a name, a version and nothing but text."""
    return (
        is_object(client)
        and _CLIENT_FIELDS.issuperset(client)
        and {"name", "version"} <= client.keys()
        and all(isinstance(value, str) for value in client.values())
    )


def _is_plain_envelope(meta: object) -> bool:
    """Whether the envelope is complete and has nothing that the SDK might treat specially."""
    if not is_object(meta) or meta.get(VERSION_KEY) != ERA or not _ENVELOPE_KEYS.issuperset(meta):
        return False
    if not is_plain_client(meta.get(_CLIENT_KEY, {"name": "", "version": ""})):
        return False
    capabilities = meta.get(_CAPABILITIES_KEY)
    if not is_object(capabilities):
        return False
    if not capabilities:
        return True
    extensions = capabilities.get("extensions")
    return (
        set(capabilities) == {"extensions"}
        and is_object(extensions)
        and all(map(is_object, extensions.values()))
    )


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


def discovery(instructions: str, options: ServerOptions) -> JsonObject:
    """The result of `server/discover`. A test compares it with the SDK's."""
    legacy_features, watched = options.legacy_features, options.watch
    changes: JsonObject = {"listChanged": watched}
    capabilities: JsonObject = {
        "completions": {},
        "extensions": {**options.extensions},
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

    `discovery` may wait for what it names. `observe` is called for each response with the method, the URI and
    whether it was cached. `room` is the size of the response cache.
    """

    def __init__(
        self,
        results: SkillResults,
        server_info: Mapping[str, JsonValue],
        discovery: Callable[[], Awaitable[JsonObject]] | None = None,
        *,
        entries: EntryCache | None = None,
        observe: Callable[[str, str | None, bool], None] | None = None,
        room: int = _CACHED_RESPONSE_BYTES,
    ) -> None:
        self._results = results
        self._server_info = dict(server_info)
        self._stamp = b',"_meta":' + encode({SERVER_KEY: self._server_info})
        self._discovery = discovery
        self._entries = entries or EntryCache()
        self._observe = observe
        self._requests: ResponseCache[FastRequest] = ResponseCache(min(room, _CACHED_REQUEST_BYTES))
        self._responses: ResponseCache[CachedResponse] = ResponseCache(room)

    def cached(self, body: bytes) -> tuple[bytes, CachedResponse] | None:
        """The cached response to a request that came with the same bytes before, except for the id, and the
        id to use.
        """
        id_json, key = split_id(body)
        request = self._requests.get(key)
        cached = None if request is None else self._cached(request)
        return None if cached is None else (id_json, cached)

    def _cached(self, request: FastRequest) -> CachedResponse | None:
        """The cached response to a request, however it was written. It is valid while every source has the
        same entries, or the validator notices every change, the file's validator is fresh, and its cache
        lifetime is the same.
        """
        cached = self._responses.get(request.key)
        if cached is None:
            return None
        library = self._results.library
        if (
            self._is_current(cached.catalog, cached.validator)
            and (cached.validator is None or cached.validator.is_fresh())
            and cached.ttl_ms == library.ttl_ms(cached.uri)
        ):
            if self._observe is not None:
                self._observe(cached.method.decode("ascii"), cached.uri, True)
            return cached
        self._responses.drop(request.key)
        return None

    def _is_current(self, catalog: Catalog, validator: Validator | None) -> bool:
        """Whether a response from this catalog is current, as far as the validator does not tell."""
        library = self._results.library
        if library.paged is not None and isinstance(validator, SkillValidator):
            return True
        return catalog is library.current_catalog()

    def parse(self, body: bytes) -> FastRequest | None:
        """The parsed request, or `None` if it is for the SDK."""
        id_json, key = split_id(body)
        seen = self._requests.get(key) if key else None
        if seen is not None:
            return replace(seen, id_json=id_json)
        request = parse_request(body)
        # A body that only differs in its id need not be parsed again. The key must not contain a second id in
        # any spelling.
        if request is None or request.id_json != id_json or b'"id"' in key or b"\\" in key:
            return request
        self._requests.put(key, request)
        return request

    async def respond(self, request: FastRequest) -> bytes | None:
        """The complete JSON-RPC response, or `None` if the request is for the SDK."""
        if (cached := self._cached(request)) is not None:
            return cached.to(request.id_json)
        library = self._results.library
        try:
            # What a server says of itself does not wait for its catalog.
            is_discovery = request.method == METHOD_DISCOVER
            catalog = library.current_catalog() if is_discovery else await self._results.catalog()
            result, validator = await self._result(request)
        except Refusal as refusal:
            # What is unavailable was waited for. The SDK would wait for it a second time.
            return _unavailable(refusal, request.id_json) if refusal.code == INTERNAL_ERROR else None
        except ApprovalRequired:
            return None
        if result is None:
            return None
        if self._observe is not None:
            self._observe(request.method, request.uri, False)
        tail = b',"result":' + result + self._stamp + b"}}"
        # A change during the request may or may not be reflected in this response.
        if catalog is not None and self._is_current(catalog, validator):
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
                return encode(await results.read_directory(uri, request.cursor, modern=True))[:-1], None
            case "server/discover":
                return None if self._discovery is None else encode(await self._discovery())[:-1], None
            case _:
                listed = await self._list(request, modern=True)
                return None if listed is None else encode(listed)[:-1], None

    async def _list(self, request: FastRequest, *, modern: bool) -> JsonObject | None:
        """A page of what a method lists; `None` if the server does not have that method."""
        results, cursor = self._results, request.cursor
        match request.method:
            case "skills/list":
                return await results.list_skills(cursor, modern=modern)
            case "resources/list":
                return await results.list_resources(cursor, modern=modern)
            case "resources/templates/list":
                return await results.list_templates(cursor, modern=modern)
            case "prompts/list":
                return await results.list_prompts(cursor, modern=modern)
            case "tools/list":
                extension = request.has_extension
                return await results.list_tools(cursor, modern=modern, has_extension=extension)
            case _:
                return None

    # The 2025 revisions

    async def introduction(self, revision: str) -> JsonObject | None:
        """The result of `initialize`; `None` if the SDK has to answer."""
        if self._discovery is None:
            return None
        found = await self._discovery()
        return {
            "protocolVersion": revision,
            "capabilities": found["capabilities"],
            "serverInfo": self._server_info,
            "instructions": found["instructions"],
        }

    async def listing(self, request: FastRequest) -> tuple[JsonObject, Catalog] | None:
        """Return the listing of a method for a client of a 2025 revision, and the catalog that it is from;
        `None` if the SDK has to answer.
        """
        try:
            catalog = await self._results.catalog()
            listed = await self._list(request, modern=False)
        except (Refusal, ApprovalRequired):
            return None
        if listed is None:
            return None
        if self._observe is not None:
            self._observe(request.method, None, False)
        return listed, catalog

    async def is_current(self, catalog: Catalog) -> bool:
        """Whether nothing is known to have changed since this catalog."""
        try:
            return await self._results.catalog() is catalog
        except (Refusal, ApprovalRequired):
            return True  # The next request reports what is wrong.

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


def _unavailable(refusal: Refusal, id_json: bytes) -> bytes:
    """The error of a request for what cannot be served at the moment, as the SDK writes it."""
    error: JsonObject = {"code": refusal.code, "message": str(refusal)}
    if refusal.data is not None:
        error["data"] = cast("JsonObject", refusal.data)
    return HEAD + id_json + b',"error":' + encode(error) + b"}"


def _encode_entry(entry: SkillEntry) -> bytes:
    """The JSON of an entry. Its files are most of it, so they are encoded directly."""
    if entry.resources is DYNAMIC or entry.meta or entry.draft:
        return encode(entry_to_wire(entry))
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
        return encode(content)
    return encode(content)[:-1] + b',"text":' + encode_basestring(text).encode("utf-8") + b"}"


def _rest(trailer: JsonObject) -> bytes:
    """The last fields of a result, as the continuation of an object."""
    return b"," + encode(trailer)[1:-1]


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: JsonValue) -> bytes:
    """A value as compact JSON."""
    return _compact.encode(value).encode("utf-8")
