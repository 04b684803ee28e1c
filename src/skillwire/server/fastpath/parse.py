"""FastRequest: a request of 2026-07-28 that is well formed in every respect, parsed without the SDK.

In that revision, requests are independent and each has its own envelope. The parser is strict where the SDK
is lenient: a request with anything unknown, such as an extra key or an unusual id, goes to the SDK unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skillwire.json_types import is_object
from skillwire.wire.v1 import METHOD_GET, METHOD_LIST, METHOD_READ_DIRECTORY

ERA: Final = "2026-07-28"
METHOD_DISCOVER: Final = "server/discover"
METHOD_READ: Final = "resources/read"
_PARAMS: Final = {
    METHOD_DISCOVER: frozenset({"_meta"}),
    METHOD_LIST: frozenset({"_meta", "cursor"}),
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
_CLIENT_FIELDS: Final = frozenset({"name", "version", "title"})
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
    """A parsed request. `id_json` is its id as JSON. `key` is the body without the id, if equal keys mean
    equal requests; otherwise it is empty.
    """

    method: str
    id_json: bytes
    uri: str | None
    cursor: str | None
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


def _id(value: object) -> bytes | None:
    """Whether an id is unambiguous: an integer that a double can represent, or a short string."""
    if type(value) is int and -_LARGEST_ID <= value <= _LARGEST_ID:
        return b"%d" % value
    if isinstance(value, str) and len(value) <= _LONGEST_ID and value.isprintable():
        return json.dumps(value, ensure_ascii=False).encode("utf-8")
    return None


def _is_plain_envelope(meta: object) -> bool:
    """Whether the envelope is complete and has nothing that the SDK might treat specially."""
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
