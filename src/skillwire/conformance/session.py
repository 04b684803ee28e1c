"""Session: one conversation with a server on one protocol revision.

It writes the envelope that the revision requires, enforces the deadline and the budget, and stops asking a
server that has stopped answering. It returns answers unchanged.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal, TypeAlias, get_args

import anyio

from skillwire.conformance.channels import Channel
from skillwire.conformance.messages import MOST_VALUES, Answer, Exchanges, Reply, RequestFailure, answer_from
from skillwire.documents import JsonObject, is_object
from skillwire.errors import SourceError
from skillwire.limits import Limits
from skillwire.text import shown
from skillwire.version import VERSION
from skillwire.wire import EXTENSION_ID

Revision: TypeAlias = Literal["2025-11-25", "2026-07-28"]
REVISIONS: Final[tuple[Revision, ...]] = get_args(Revision)
"""The protocol revisions that are tried: the last with an `initialize` handshake, and the stateless one."""
MODERN: Final[Revision] = "2026-07-28"

_META: Final = "io.modelcontextprotocol/"
_NAMED: Final = {"resources/read": "uri"}
_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_PATIENCE: Final = 3
"""After this many unanswered requests no more are sent."""
_VALUES_HELD: Final = 4 * MOST_VALUES
"""After this many JSON values in total, no more are received: the answers of a run are held in memory."""
_CLIENT_ERRORS: Final = range(400, 500)


class NotSupported(SourceError):
    """The server answered, and does not support this protocol revision."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The server's introduction."""

    answer: Answer
    protocol_version: str
    capabilities: object
    instructions: str
    server: str = ""
    """Name and version, as the server gives them."""


@dataclass(slots=True)
class Session:
    """Sends one request at a time or many at once. `failures` are the requests without a usable answer."""

    channel: Channel
    revision: Revision
    limits: Limits
    max_bytes: int
    failures: list[Answer] = field(default_factory=list[Answer])
    passing: list[Answer] = field(default_factory=list[Answer])
    """Failures that did not happen again when the same was asked once more."""
    exchanges: Exchanges = field(default_factory=Exchanges)
    taken: int = 0
    skipped: int = 0
    _values: int = 0
    _version: str = ""
    _session: str = ""
    _ids: int = 0
    _unanswered: int = 0
    _gone: bool = False

    async def open(self) -> Opening:
        """Introduce ourselves and return the server's introduction.

        Raises `NotSupported` when the server refuses the revision, and `SourceError` when it does not answer:
        silence says nothing about a server, so it is never taken for a refusal.
        """
        if self.revision == MODERN:
            self._version = MODERN
            answer = await self._first("server/discover", {})
        else:
            answer = await self._first("initialize", _hello())
        result = answer.result or {}
        if self.revision != MODERN:
            chosen = result.get("protocolVersion")
            if not isinstance(chosen, str):
                raise SourceError("its answer to initialize has no protocolVersion")
            self._version = chosen
            note: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            with anyio.move_on_after(self.limits.call_seconds):
                await self.channel.notify(note, self._headers("notifications/initialized", {}))
        instructions = result.get("instructions")
        return Opening(
            answer,
            self._version,
            result.get("capabilities"),
            instructions if isinstance(instructions, str) else "",
            server_name(result),
        )

    async def close(self) -> None:
        if self._session:
            with anyio.move_on_after(self.limits.call_seconds):
                await self.channel.end(self._headers("", {}))

    async def ask(self, method: str, params: JsonObject | None) -> Answer:
        """The answer to one request, or why there is none. With `None`, the request has no `params`.

        What may have failed by chance is asked once more, over a new connection where there are several.
        """
        answer = await self._ask_once(method, params)
        if answer.may_be_transient and not (self._gone or self._is_closed(answer)):
            again = await self._ask_once(method, params, fresh=True)
            if again.failure is not RequestFailure.SKIPPED:
                if not again.may_be_transient:
                    self.passing.append(answer)
                answer = again
        if answer.failure not in (None, RequestFailure.SKIPPED):
            self._note(answer)
        self.exchanges.add(method, params, answer)
        return answer

    def _is_closed(self, answer: Answer) -> bool:
        """Whether the one connection that there is has ended."""
        return self.channel.is_one_pipe and answer.failure is RequestFailure.CONNECTION

    async def _ask_once(self, method: str, params: JsonObject | None, *, fresh: bool = False) -> Answer:
        about = (params or {}).get("uri")
        named = about if isinstance(about, str) else ""
        if self._gone or self.taken > self.max_bytes or self._values > _VALUES_HELD:
            self.skipped += 1
            return Answer(method=method, about=named, failure=RequestFailure.SKIPPED, reason="not asked")
        self._ids += 1
        id = self._ids
        reply = Reply(failure=RequestFailure.NO_ANSWER, reason=self._silence())
        with anyio.move_on_after(self.limits.call_seconds):
            reply = await self.channel.exchange(
                self._message(id, method, params), self._headers(method, params or {}), fresh=fresh
            )
        if reply.failure is RequestFailure.NO_ANSWER:
            reply = Reply(failure=RequestFailure.NO_ANSWER, reason=self._silence())
        self._session = self._session or reply.session
        self.taken += reply.size
        self._values += reply.values
        return answer_from(reply, method=method, about=named, id=id)

    def _silence(self) -> str:
        reason = f"no answer within {self.limits.call_seconds:g} s"
        stray = self.channel.unsolicited.stray_output
        if stray:
            reason += f"; its standard output has a line that is not a message: `{stray[0]}`"
        return reason

    def _note(self, answer: Answer) -> None:
        if self._gone:
            return  # One broken connection fails many requests; it is reported once.
        self.failures.append(answer)
        self._unanswered += answer.failure in (RequestFailure.NO_ANSWER, RequestFailure.CONNECTION)
        self._gone = self._unanswered >= _PATIENCE or (
            self.channel.is_one_pipe
            and answer.failure in (RequestFailure.CONNECTION, RequestFailure.TOO_LARGE)
        )

    async def _first(self, method: str, params: JsonObject) -> Answer:
        answer = await self.ask(method, params)
        if answer.result is not None:
            return answer
        self.failures.clear()
        if answer.error is not None:
            raise NotSupported(f"it refused {method} with {answer.error}")
        reason = f"{method}: {shown(answer.reason, 300)}"
        advice = answer.advice
        if answer.failure is RequestFailure.NO_ANSWER and not advice:
            stray = bool(self.channel.unsolicited.stray_output)
            advice = (
                "write logs to standard error; standard output carries messages only"
                if stray
                else "give a slow server longer with --timeout, or verify one revision with --protocol"
            )
        text = f"{reason} ({advice})" if advice else reason
        lines = self.channel.error_output
        if lines:
            text += "; its standard error ends with:" + "".join(f"\n  {line}" for line in lines)
        if answer.failure is RequestFailure.HTTP and answer.status in _CLIENT_ERRORS:
            raise NotSupported(text)
        raise SourceError(text)

    def _message(self, id: int, method: str, params: JsonObject | None) -> JsonObject:
        if params is None and self.revision != MODERN:
            return {"jsonrpc": "2.0", "id": id, "method": method}
        sent: JsonObject = dict(params or {})
        if self.revision == MODERN:
            sent["_meta"] = {
                f"{_META}protocolVersion": MODERN,
                f"{_META}clientInfo": _client_info(),
                f"{_META}clientCapabilities": _capabilities(),
            }
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": sent}

    def _headers(self, method: str, params: Mapping[str, object]) -> dict[str, str]:
        headers = {"Accept": "application/json, text/event-stream"}
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        if self._version:
            headers["MCP-Protocol-Version"] = self._version
        if self.revision == MODERN:
            headers["Mcp-Method"] = method
            name = params.get(_NAMED.get(method, ""))
            if isinstance(name, str):
                headers["Mcp-Name"] = _header_value(name)
        return headers


def server_name(result: Mapping[str, object]) -> str:
    """The name and version in a server's introduction, which 2026-07-28 has in `_meta`; fit to be shown."""
    info = result.get("serverInfo")
    meta = result.get("_meta")
    if not is_object(info) and is_object(meta):
        info = meta.get(f"{_META}serverInfo")
    if not is_object(info) or not isinstance(info.get("name"), str):
        return ""
    version = info.get("version")
    return shown(f"{info['name']} {version}".strip() if isinstance(version, str) else f"{info['name']}", 80)


def _hello() -> JsonObject:
    return {
        "protocolVersion": REVISIONS[0],
        "clientInfo": _client_info(),
        "capabilities": _capabilities(),
    }


@cache
def _client_info() -> JsonObject:
    return {"name": "skillwire-verify", "version": VERSION}


def _capabilities() -> JsonObject:
    # CAP-4: a client declares that it supports the extension.
    return {"extensions": {EXTENSION_ID: {}}}


def _header_value(value: str) -> str:
    if _HEADER_SAFE.fullmatch(value) and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode('ascii')}?="
