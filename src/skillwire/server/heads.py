"""Heads of HTTP requests: where a request ends, and whether the fast lane may take it.

Two doors ask: the one before uvicorn, which has a head as bytes, and the ASGI application, which has its
fields. Both are strict. A field that is not known here may mean something to the SDK, so the request is its.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from skillwire.server.fastpath.parse import ERA
from skillwire.server.http.auth import BearerToken

Fields: TypeAlias = list[tuple[bytes, bytes]]

MOST_BODY: Final = 65_536
END_OF_HEAD: Final = b"\r\n\r\n"
# Stricter than HTTP on purpose: one blank after the colon, none at the end, printable ASCII alone.
_FIRST_LINE: Final = re.compile(rb"(POST|GET|DELETE|HEAD|OPTIONS) [!-~]+ HTTP/1\.1")
_FIELD: Final = re.compile(rb"([A-Za-z][A-Za-z0-9-]*): ([!-~](?:[ -~]*[!-~])?)")
_ACCEPTED: Final = frozenset(
    {
        b"application/json, text/event-stream",
        b"application/json,text/event-stream",
        b"text/event-stream, application/json",
        b"text/event-stream,application/json",
    }
)
# Fields that say nothing about the request itself. With any other one the request is the SDK's.
_HARMLESS: Final = frozenset(
    {
        b"accept-encoding",
        b"accept-language",
        b"authorization",
        b"cache-control",
        b"connection",
        b"pragma",
        b"sec-fetch-mode",
        b"traceparent",
        b"tracestate",
        b"user-agent",
    }
)
_CHECKED: Final = frozenset(
    {
        b"accept",
        b"content-length",
        b"content-type",
        b"host",
        b"mcp-method",
        b"mcp-name",
        b"mcp-protocol-version",
    }
)
_UNDERSTOOD: Final = _HARMLESS | _CHECKED
# Fields after which a length does not tell where the request ends, or what follows it.
_UNSETTLING: Final = frozenset(
    {b"expect", b"http2-settings", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request: the length of its body, and what it says of it, when it is for the lane."""

    length: int
    method: bytes = b""
    name: bytes = b""
    is_for_lane: bool = False

    def fits(self, method: bytes, name: bytes | None) -> bool:
        """Whether it says of the body what is in there. A `name` of `None` may be any."""
        return self.method == method and (name is None or self.name == name)


class HeadRules:
    """What a head must be like at one server: addressed to `path` at one of `hosts`, with the token."""

    def __init__(self, *, path: str, hosts: Iterable[str], token: BearerToken | None) -> None:
        self.path = path
        self._first_line = f"POST {path} HTTP/1.1".encode("ascii")
        self._hosts = frozenset(host.encode("ascii") for host in hosts)
        self._token = token

    def read(self, head: bytes) -> RequestHead | None:
        """The head from its bytes. `None` when they do not say plainly where the request ends."""
        first, *lines = head.removesuffix(END_OF_HEAD).split(b"\r\n")
        fields: Fields = []
        for line in lines:
            field = _FIELD.fullmatch(line)
            if field is None:
                return None
            fields.append((field[1].lower(), field[2]))
        length = _plain_length(fields)
        if length is None or not _FIRST_LINE.fullmatch(first):
            return None
        # The token is a matter of the application elsewhere; here nothing else stands before the lane.
        may_pass = first == self._first_line and (self._token is None or self._token.is_in(fields))
        return (self.check(fields) if may_pass else None) or RequestHead(length)

    def check(self, fields: Fields) -> RequestHead | None:
        """The head of a request that the lane may take, from its fields, or `None` when it is the SDK's."""
        known = dict(fields)
        if len(known) != len(fields) or not _UNDERSTOOD.issuperset(known):
            return None
        get = known.get
        length = get(b"content-length", b"")
        if (
            get(b"content-type") != b"application/json"
            or get(b"accept") not in _ACCEPTED
            or get(b"mcp-protocol-version") != ERA.encode("ascii")
            or not length.isdigit()
            or len(length) > 6
            or int(length) > MOST_BODY
            or get(b"host", b"").rpartition(b":")[0] not in self._hosts
        ):
            return None
        return RequestHead(int(length), get(b"mcp-method", b""), get(b"mcp-name", b""), is_for_lane=True)


def _plain_length(fields: Fields) -> int | None:
    """The length of a request's body; `None` when it is not plain, or the connection ends with it."""
    names = [name for name, _ in fields]
    if not _UNSETTLING.isdisjoint(names):
        return None
    if any(value.lower() != b"keep-alive" for name, value in fields if name == b"connection"):
        return None
    lengths = [value for name, value in fields if name == b"content-length"]
    if not lengths:
        return 0
    is_plain = len(lengths) == 1 and lengths[0].isdigit() and len(lengths[0]) <= 6
    return int(lengths[0]) if is_plain and int(lengths[0]) <= MOST_BODY else None
