"""Call: a request as prepared bytes, of 2026-07-28 by default, and what its answer must contain.

Each time it is sent, only its id differs, as it does when many clients ask for the same thing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.tree import Skill, digest

VERSION: Final = "2026-07-28"
CLIENTS_VERSION: Final = "2025-06-18"
GREETED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
FIRST_ID: Final = 1_000_000  # Every id has seven digits, so that a request's length is known beforehand.
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class WrongAnswer(Exception):
    """A server gave a wrong answer, so its speed does not matter."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request in two halves around its id. The right answer contains all of `marks`."""

    head: bytes
    tail: bytes
    marks: tuple[bytes, ...]
    is_echoed: bool = True
    """Whether the answer carries the id. That of a bare application does not."""

    def line(self, identity: int) -> bytes:
        """The request as a line of JSON, or with its HTTP head before it."""
        return b"%s%d%s" % (self.head, identity, self.tail)

    def is_right(self, answer: bytes, identity: int) -> bool:
        if self.is_echoed and b'"id":%d' % identity not in answer:
            return False
        for mark in self.marks:  # noqa: SIM110 - a generator is the dearest part of it
            if mark not in answer:
                return False
        return True

    def over_http(self, host: str, path: str = "/mcp") -> Call:
        """The same call as an HTTP request with the headers of its revision."""
        length = len(self.line(FIRST_ID))
        message = json.loads(self.line(FIRST_ID))
        headers = [
            f"POST {path} HTTP/1.1",
            f"Host: {host}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {VERSION}",
            f"Mcp-Method: {message['method']}",
            *([f"Mcp-Name: {message['params']['uri']}"] if "uri" in message["params"] else []),
            f"Content-Length: {length}",
        ]
        return Call(
            "\r\n".join([*headers, "", ""]).encode() + self.head, self.tail, self.marks, self.is_echoed
        )

    def to_bare(self) -> Call:
        """The same call to a bare application, which answers with the same number of meaningless bytes."""
        return Call(self.head, self.tail, (), is_echoed=False)


def make_call(method: str, params: Mapping[str, object], marks: Sequence[bytes] = ()) -> Call:
    rest = json.dumps({"method": method, "params": {**params, "_meta": _META}}, separators=(",", ":"))
    return Call(b'{"jsonrpc":"2.0","id":', b"," + rest[1:].encode() + b"\n", tuple(marks))


def plain_call(method: str, params: Mapping[str, object], marks: Sequence[bytes] = ()) -> Call:
    """A request of a 2025 revision, as agent clients send it."""
    rest = json.dumps({"method": method, "params": params}, separators=(",", ":"))
    return Call(b'{"jsonrpc":"2.0","id":', b"," + rest[1:].encode() + b"\n", tuple(marks))


def greeting_call() -> Call:
    """`initialize` of the revision that agent clients use."""
    client = {"name": "benchmark", "version": "1"}
    params = {"protocolVersion": CLIENTS_VERSION, "capabilities": {}, "clientInfo": client}
    return plain_call("initialize", params, [b'"protocolVersion"'])


def list_call(cursor: str | None = None) -> Call:
    return make_call("skills/list", {} if cursor is None else {"cursor": cursor}, [b'"skills"'])


def read_call(skill: Skill, file: str = "SKILL.md") -> Call:
    """Read a file. The answer must contain all of it, as JSON."""
    content = json.dumps(skill.files[file].decode("ascii"))[1:-1].encode()
    return make_call("resources/read", {"uri": skill.uri_of(file)}, [content])


def get_call(skill: Skill) -> Call:
    """Ask for an entry. The answer must contain the digest of every file."""
    return make_call("skills/get", {"uri": skill.uri}, [each.encode() for each in skill.digests.values()])


def result_of(answer: bytes) -> dict[str, Any]:
    """The result in an answer; a server may wrap it in one server-sent event."""
    text = answer.strip()
    if not text.startswith(b"{"):
        text = b"".join(line[5:].strip() for line in text.splitlines() if line.startswith(b"data:"))
    try:
        message: dict[str, Any] = json.loads(text)
        return message["result"]
    except (ValueError, KeyError, TypeError):
        raise WrongAnswer(f"no result: {answer[:500]!r}") from None


def check_read(skill: Skill, file: str, result: Mapping[str, Any]) -> None:
    """The content's digest is the one that the tree was made with."""
    [content] = result["contents"]
    if content["uri"] != skill.uri_of(file) or digest(content["text"].encode()) != digest(skill.files[file]):
        raise WrongAnswer(f"{skill.uri_of(file)} came with other bytes")


def check_entry(skill: Skill, entry: Mapping[str, Any]) -> None:
    """An entry has the URI, the name and the digest and size of every file."""
    given = {resource["uri"]: resource["digest"] for resource in entry["resources"]}
    name = entry["frontmatter"]["name"]
    if entry["uri"] != skill.uri or given != skill.digests or name != skill.path.rpartition("/")[2]:
        raise WrongAnswer(f"{skill.uri} has another entry: {json.dumps(entry)[:500]}")
