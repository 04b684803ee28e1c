"""FastPath: answers to the commonest requests of the 2026-07-28 era, without the SDK on the way.

On that era each request stands alone and carries its own envelope, so a request that is well formed in every
respect can be answered from the library at once. The lane is strict where the SDK is lenient: it takes only
requests that it understands whole. It refuses none and invents nothing. Whatever else there is, an unknown
key, an odd id, an error to be told, is the SDK's, which then sees the request untouched. A test sends the
same requests both ways and wants the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Final

from skillwire.errors import Refusal
from skillwire.json_types import JsonObject, JsonValue, is_object
from skillwire.server.catalog import Catalog
from skillwire.server.fastpath.cache import ResponseCache
from skillwire.server.legacy.features import LegacyFeatures
from skillwire.server.results import SkillResults
from skillwire.skill.entries import SkillEntry
from skillwire.sources.base import Validator
from skillwire.wire.v1 import (
    DIRECTORY_READ_SETTING,
    EXTENSION_ID,
    METHOD_GET,
    METHOD_LIST,
    METHOD_READ_DIRECTORY,
    entry_to_wire,
)

ERA: Final = "2026-07-28"
METHOD_DISCOVER: Final = "server/discover"
METHOD_READ: Final = "resources/read"

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
_ENVELOPE_KEYS: Final = frozenset({VERSION_KEY, _CLIENT_KEY, _CAPABILITIES_KEY})
ENVELOPE: Final[Mapping[str, object]] = {VERSION_KEY: ERA, _CAPABILITIES_KEY: {}}
"""The least that a request of this era carries."""
_CLIENT_FIELDS: Final = frozenset({"name", "version", "title"})
_PARAMS: Final = {
    METHOD_DISCOVER: frozenset({"_meta"}),
    METHOD_LIST: frozenset({"_meta", "cursor"}),
    METHOD_GET: frozenset({"_meta", "uri"}),
    METHOD_READ: frozenset({"_meta", "uri"}),
    METHOD_READ_DIRECTORY: frozenset({"_meta", "uri", "cursor"}),
}
_LARGEST_ID: Final = 2**53
_LONGEST_ID: Final = 256
_KEPT_ENTRIES: Final = 20_000
_KEPT_REQUEST_BYTES: Final = 8 << 20
_KEPT_ANSWER_BYTES: Final = 16 << 20
_LONGEST_KEPT: Final = 2048
# Where clients put the id: the Python SDK and most others first, the TypeScript SDK last.
_HEAD: Final = b'{"jsonrpc":"2.0","id":'
_TAIL: Final = b',"jsonrpc":"2.0","id":'
_LONGEST_NUMBER: Final = 16


@dataclass(frozen=True, slots=True)
class FastRequest:
    """A request that the lane understands. `id_json` is its id as it goes into the answer.

    `key` is all of it but its id, where that is known to be the only difference to the next such request.
    `name` is what an HTTP request of this kind must have in its `Mcp-Name`; `None` when nobody looks.
    """

    method: str
    id_json: bytes
    uri: str | None
    cursor: str | None
    key: bytes = b""

    @property
    def name(self) -> bytes | None:
        if self.method != METHOD_READ:
            return None
        uri = self.uri or ""
        # No field can hold a line break, so such a request never fits its head.
        return uri.encode("ascii") if uri.isascii() and uri.isprintable() else b"\n"


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """An answer, from what follows its id. It stands while the catalog and the file behind it are the same.

    `method` and `name` are those of `FastRequest`, as they stand in the head of an HTTP request.
    """

    tail: bytes
    method: bytes
    name: bytes | None
    catalog: Catalog
    validator: Validator | None

    def to(self, id_json: bytes) -> bytes:
        """The whole answer to a request with this id."""
        return _HEAD + id_json + self.tail


def discovery(instructions: str, legacy_features: LegacyFeatures, *, watched: bool) -> JsonObject:
    """What a server says of itself to `server/discover`; the SDK says the same, which a test holds."""
    changes: JsonObject = {"listChanged": watched}
    capabilities: JsonObject = {
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


class FastPath:
    """Answers requests of one server. `discovery` is what it says of itself; without it, the SDK says it."""

    def __init__(
        self, answers: SkillResults, server_info: Mapping[str, JsonValue], discovery: JsonObject | None = None
    ) -> None:
        self._answers = answers
        self._stamp = b',"_meta":' + _encode({_SERVER_KEY: dict(server_info)})
        self._discovery = None if discovery is None else _encode(discovery)[:-1]
        # An entry's JSON is made once. The entry is kept beside it, so that a new one is never mistaken.
        self._entries: dict[str, tuple[SkillEntry, bytes]] = {}
        self._requests: ResponseCache[FastRequest] = ResponseCache(_KEPT_REQUEST_BYTES)
        self._kept: ResponseCache[CachedResponse] = ResponseCache(_KEPT_ANSWER_BYTES)

    def again(self, body: bytes) -> tuple[bytes, CachedResponse] | None:
        """The answer to a request that was answered before, if it still stands, and the id to give it.

        What was kept is the lane's own answer to the same bytes, id apart. It stands while every source has
        the same entries, and while the file behind it has the size, the times and the identity that it had
        when it was hashed.
        """
        id_json, key = _cut_id(body)
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.catalog is self._answers.library.current_catalog() and (
            kept.validator is None or kept.validator.is_fresh()
        ):
            return id_json, kept
        self._kept.drop(key)
        return None

    def match(self, body: bytes) -> FastRequest | None:
        """The request in a message, when the lane understands all of it."""
        id_json, key = _cut_id(body)
        seen = self._requests.get(key) if key else None
        if seen is not None:
            return FastRequest(seen.method, id_json, seen.uri, seen.cursor, key)
        request = self._parse(body)
        # A body that differs from this one in its number alone need not be parsed again. No second id, in
        # whatever spelling, may hide in what is kept.
        if request is None or request.id_json != id_json or b'"id"' in key or b"\\" in key:
            return request
        request = FastRequest(request.method, id_json, request.uri, request.cursor, key)
        self._requests.put(key, request)
        return request

    def _parse(self, body: bytes) -> FastRequest | None:
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
        id_json = _id(request.get("id"))
        if known is None or id_json is None or not known.issuperset(params):
            return None
        uri, cursor = params.get("uri"), params.get("cursor")
        if "uri" in known and not isinstance(uri, str):
            return None
        if cursor is not None and not isinstance(cursor, str):
            return None
        if ("cursor" in params and cursor is None) or not _is_plain_envelope(params.get("_meta")):
            return None
        return FastRequest(method, id_json, uri if isinstance(uri, str) else None, cursor)

    async def answer(self, request: FastRequest) -> bytes | None:
        """The whole JSON-RPC answer, or `None` when it is for the SDK to give."""
        library = self._answers.library
        try:
            catalog = await self._answers.catalog()
            result, validator = await self._result(request)
        except Refusal:
            return None
        if result is None:
            return None
        tail = b',"result":' + result + self._stamp + b"}}"
        # What changed meanwhile may or may not be in this answer.
        if request.key and library.current_catalog() is catalog:
            self._keep(request, tail, catalog, validator)
        return _HEAD + request.id_json + tail

    def _keep(self, request: FastRequest, tail: bytes, catalog: Catalog, validator: Validator | None) -> None:
        """Cache a response that can be validated later. Pages are large and quick to make: they are not."""
        if request.method == METHOD_READ:
            if validator is None:
                return
        elif request.method not in (METHOD_GET, METHOD_DISCOVER):
            return
        kept = CachedResponse(tail, request.method.encode("ascii"), request.name, catalog, validator)
        self._kept.put(request.key, kept, len(tail))

    async def _result(self, request: FastRequest) -> tuple[bytes | None, Validator | None]:
        """The result without its closing brace, and the validator of what was read."""
        answers, uri = self._answers, request.uri or ""
        match request.method:
            case "skills/list":
                page = await answers.page_of_skills(request.cursor)
                entries = b",".join([self._entry(entry) for entry in page.items])
                return b'{"skills":[' + entries + b"]" + _rest(answers.closing(page.next_cursor)), None
            case "skills/get":
                entry = await answers.entry_at(uri)
                return b'{"skill":' + self._entry(entry) + _rest(answers.closing(None)), None
            case "resources/read":
                content, validator = await answers.content_at(uri)
                return b'{"contents":[' + _content(content) + b"]" + _rest(answers.closing(None)), validator
            case "resources/directory/read":
                return _encode(await answers.read_directory(uri, request.cursor, modern=True))[:-1], None
            case _:
                return self._discovery, None

    def _entry(self, entry: SkillEntry) -> bytes:
        kept = self._entries.get(entry.uri)
        if kept is not None and kept[0] is entry:
            return kept[1]
        if len(self._entries) >= _KEPT_ENTRIES:
            self._entries.clear()
        made = _encode(entry_to_wire(entry))
        self._entries[entry.uri] = (entry, made)
        return made


def _content(content: JsonObject) -> bytes:
    """The contents of a resource. Its text is most of the answer, so it takes the shortest way."""
    text = content.pop("text", None)
    if not isinstance(text, str):
        return _encode(content)
    return _encode(content)[:-1] + b',"text":' + encode_basestring(text).encode("utf-8") + b"}"


def _rest(closing: JsonObject) -> bytes:
    """The closing fields of a result as the continuation of an object."""
    return b"," + _encode(closing)[1:-1]


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _encode(value: JsonValue) -> bytes:
    return _compact.encode(value).encode("utf-8")


def _cut_id(body: bytes) -> tuple[bytes, bytes]:
    """The number that is a body's id, and the rest; both empty where the body is not of a usual form.

    A rest that begins with a comma is of the first form, one that begins with a brace of the second, so that
    no two bodies with different meanings have the same one.
    """
    if len(body) > _LONGEST_KEPT:
        return b"", b""
    if body.startswith(_HEAD):
        end = body.find(b",", len(_HEAD), len(_HEAD) + _LONGEST_NUMBER)
        number, rest = body[len(_HEAD) : end], body[end:]
    else:
        end = body.rfind(_TAIL, -len(_TAIL) - _LONGEST_NUMBER)
        number, rest = body[end + len(_TAIL) : -1], body[:end]
        if body[-1:] != b"}":
            return b"", b""
    if end < 0 or not number.isdigit() or (number[:1] == b"0" and number != b"0"):
        return b"", b""
    return number, rest


def _id(value: object) -> bytes | None:
    """An id that every reader takes for the same: a whole number that a double can hold, or a short text."""
    if type(value) is int and -_LARGEST_ID <= value <= _LARGEST_ID:
        return b"%d" % value
    if isinstance(value, str) and len(value) <= _LONGEST_ID and value.isprintable():
        return json.dumps(value, ensure_ascii=False).encode("utf-8")
    return None


def _is_plain_envelope(meta: object) -> bool:
    """Whether the envelope is complete and holds nothing that the SDK might look at twice."""
    if not is_object(meta) or meta.get(VERSION_KEY) != ERA or not _ENVELOPE_KEYS.issuperset(meta):
        return False
    client = meta.get(_CLIENT_KEY, {"name": "", "version": ""})
    if (
        not is_object(client)
        or not _CLIENT_FIELDS.issuperset(client)
        or not {"name", "version"} <= client.keys()
    ):
        return False
    if not all(isinstance(value, str) for value in client.values()):
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
