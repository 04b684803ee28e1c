"""Session: one conversation with a server on one era of the protocol.

It writes the envelope that the era wants, keeps the deadline and the budget, and stops asking a server that
has stopped answering. What it brings back is untouched.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, Literal, TypeAlias, get_args

import anyio

from skillwire.conformance.channels import Channel
from skillwire.conformance.responses import Answer, Failure, Reply, answer_from
from skillwire.errors import SourceError
from skillwire.issues import shown
from skillwire.json_types import JsonObject
from skillwire.limits import Limits
from skillwire.version import VERSION
from skillwire.wire.v1 import EXTENSION_ID

Era: TypeAlias = Literal["2025-11-25", "2026-07-28"]
ERAS: Final[tuple[Era, ...]] = get_args(Era)
MODERN: Final[Era] = "2026-07-28"

_META: Final = "io.modelcontextprotocol/"
_NAMED: Final = {"resources/read": "uri"}
_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_PATIENCE: Final = 3
"""So many requests may go unanswered before no more are sent."""


class EraNotSpoken(SourceError):
    """The server does not speak this era of the protocol, or does not speak at all."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How the conversation began."""

    answer: Answer
    protocol_version: str
    capabilities: object
    instructions: str


@dataclass(slots=True)
class Session:
    """Asks one request at a time or many side by side. `failures` are those without a usable answer."""

    channel: Channel
    era: Era
    limits: Limits
    max_bytes: int
    failures: list[Answer] = field(default_factory=list[Answer])
    taken: int = 0
    skipped: int = 0
    _version: str = ""
    _session: str = ""
    _ids: int = 0
    _unanswered: int = 0
    _gone: bool = False

    async def open(self) -> Opening:
        """Say who we are and hear who the server is."""
        if self.era == MODERN:
            self._version = MODERN
            answer = await self._first("server/discover", {})
        else:
            answer = await self._first("initialize", _hello())
        result = answer.result or {}
        if self.era != MODERN:
            spoken = result.get("protocolVersion")
            if not isinstance(spoken, str):
                raise EraNotSpoken("its answer to initialize has no protocolVersion")
            self._version = spoken
            note: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self.channel.tell(note, self._headers("notifications/initialized", {}))
        instructions = result.get("instructions")
        return Opening(
            answer,
            self._version,
            result.get("capabilities"),
            instructions if isinstance(instructions, str) else "",
        )

    async def close(self) -> None:
        if self._session:
            with anyio.move_on_after(self.limits.call_seconds):
                await self.channel.end(self._headers("", {}))

    async def ask(self, method: str, params: JsonObject) -> Answer:
        """The answer to one request, whatever becomes of it."""
        about = params.get("uri")
        named = about if isinstance(about, str) else ""
        if self._gone or self.taken > self.max_bytes:
            self.skipped += 1
            return Answer(method=method, about=named, failure=Failure.SKIPPED, reason="not asked")
        self._ids += 1
        id = self._ids
        reply = Reply(failure=Failure.MUTE, reason=f"no answer within {self.limits.call_seconds:g} s")
        with anyio.move_on_after(self.limits.call_seconds):
            reply = await self.channel.exchange(
                self._message(id, method, params), self._headers(method, params)
            )
        self._session = self._session or reply.session
        self.taken += reply.size
        answer = answer_from(reply, method=method, about=named, id=id)
        if answer.failure is not None:
            self._note(answer)
        return answer

    def _note(self, answer: Answer) -> None:
        if self._gone:
            return  # One broken connection fails many requests; it is told of once.
        self.failures.append(answer)
        self._unanswered += answer.failure in (Failure.MUTE, Failure.LOST)
        self._gone = self._unanswered >= _PATIENCE or (
            self.channel.is_one_pipe and answer.failure in (Failure.LOST, Failure.TOO_LARGE)
        )

    async def _first(self, method: str, params: JsonObject) -> Answer:
        limits, self.limits = self.limits, _hurried(self.limits)
        answer = await self.ask(method, params)
        self.limits = limits
        if answer.result is not None:
            return answer
        self.failures.clear()
        said = self.channel.last_words
        words = f" (it said: {said})" if said else ""
        if answer.error is not None:
            raise EraNotSpoken(f"it refused {method} with {answer.error}{words}")
        raise EraNotSpoken(f"{method}: {shown(answer.reason, 200)}{words}")

    def _message(self, id: int, method: str, params: JsonObject) -> JsonObject:
        sent: JsonObject = dict(params)
        if self.era == MODERN:
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
        if self.era == MODERN:
            headers["Mcp-Method"] = method
            name = params.get(_NAMED.get(method, ""))
            if isinstance(name, str):
                headers["Mcp-Name"] = _header_value(name)
        return headers


def _hello() -> JsonObject:
    return {
        "protocolVersion": ERAS[0],
        "clientInfo": _client_info(),
        "capabilities": _capabilities(),
    }


@cache
def _client_info() -> JsonObject:
    return {"name": "skillwire-verify", "version": VERSION}


def _capabilities() -> JsonObject:
    # CAP-4: a client says that it knows the extension.
    return {"extensions": {EXTENSION_ID: {}}}


def _hurried(limits: Limits) -> Limits:
    """For the first word: a server that does not speak this era may well keep silent."""
    return replace(limits, call_seconds=min(limits.call_seconds, limits.connect_seconds))


def _header_value(value: str) -> str:
    if _HEADER_SAFE.fullmatch(value) and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode('ascii')}?="
