"""A small independent skill server in plain Python, whose answers can be changed in one place at a time.

It shares no code with Skillwire, so that the checks are not tested against their own reading of the rules.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import anyio
import anyio.lowlevel

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
EXTENSION = "io.modelcontextprotocol/skills"

REFUNDS = "skill://acme/billing/refunds"
INTERNAL = "skill://acme/billing/audit-trail"
ATLAS = "skill://atlas"
NESTED = "skill://atlas/routes/map-reading"
NAMED = "skill://plan-b"
EMAIL = f"{REFUNDS}/examples/email.md"
BOM = f"{REFUNDS}/notes/bom.txt"
LOGO = f"{ATLAS}/logo.bin"

Json = dict[str, Any]


def skill_md(name: str, description: str, body: str = "# Steps\n", **fields: str) -> bytes:
    extra = "".join(f"{key}: {value}\n" for key, value in fields.items())
    return f"---\nname: {name}\ndescription: {description}\n{extra}---\n{body}".encode()


@cache
def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class Tree:
    """What is served. `empty` are directories without a file, `frontmatter` is what entries say."""

    files: dict[str, bytes] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)
    listed: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    frontmatter: dict[str, Json] = field(default_factory=dict)
    instructions: str = ""

    @property
    def skills(self) -> list[str]:
        return [*self.listed, *self.unlisted]

    def add(self, root: str, description: str, *, listed: bool = True, **fields: Any) -> None:
        name = root.rpartition("/")[2]
        self.frontmatter[root] = {"name": name, "description": description, **fields}
        self.files[f"{root}/SKILL.md"] = skill_md(name, description, **fields)
        (self.listed if listed else self.unlisted).append(root)

    def inside(self, root: str) -> list[str]:
        return sorted(uri for uri in self.files if uri.startswith(f"{root}/"))

    def directories(self) -> set[str]:
        found = set(self.empty)
        for uri in [*self.files, *(f"{empty}/x" for empty in self.empty)]:
            while (uri := uri.rpartition("/")[0]) and not uri.endswith("/"):
                found.add(uri)
        return found


def plant() -> Tree:
    """Nested and unlisted skills, an empty directory, and bytes that a careless server would change."""
    tree = Tree()
    tree.add(REFUNDS, "Refund an order and tell the customer. Use when money goes back.", license="MIT")
    tree.files[EMAIL] = b"Dear customer,\r\nyour money is back.\r\n"
    tree.files[BOM] = b"\xef\xbb\xbfwith a mark\n"
    tree.empty.add(f"{REFUNDS}/drafts")
    tree.add(ATLAS, "Find any place on any map. Use when somebody asks where something is.")
    tree.files[LOGO] = bytes(range(256))
    tree.add(NESTED, "Read a map and its legend. Use when a map is part of the question.")
    tree.files[f"{NESTED}/legend.txt"] = b"red: road\n"
    tree.add(INTERNAL, "Keep a trail of every refund. Use when an audit is due.", listed=False)
    tree.add(NAMED, "What to do when the first plan fails. Use when all else failed.", listed=False)
    tree.instructions = f"When all else fails, load {NAMED}/SKILL.md."
    return tree


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message}


Bend = Callable[["CleanServer", str, Json, Json], Awaitable[Json | None]]
"""Takes the server, method, parameters and a right answer; gives a wrong one, or `None` for none at all."""


@dataclass
class CleanServer:
    """Answers as it should, and then lets `bend` spoil the answer and `bend_entry` every entry."""

    tree: Tree = field(default_factory=plant)
    bend: Bend | None = None
    bend_entry: Callable[[str, Json], Any] | None = None
    page_size: int = 2
    counts: Counter[str] = field(default_factory=Counter)
    running: int = 0
    accepted: int = 202
    """The HTTP status for notifications."""

    async def handle(self, message: Json) -> Json | None:
        """The response to a request."""
        method, params = message["method"], message.get("params") or {}
        era = MODERN if "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {}) else LEGACY
        self.running += 1
        try:
            await anyio.lowlevel.checkpoint()
            answer: Json = {"jsonrpc": "2.0", "id": message["id"]}
            try:
                answer["result"] = self.answer(method, params, era)
            except Refused as refused:
                answer["error"] = refused.error
            return (
                answer if self.bend is None else await self.bend(self, method, {**params, "era": era}, answer)
            )
        finally:
            self.running -= 1

    def answer(self, method: str, params: Json, era: str) -> Json:
        known = {
            "initialize": self.initialize,
            "server/discover": self.discover,
            "skills/list": self.list_skills,
            "skills/get": self.get_skill,
            "resources/list": self.list_resources,
            "resources/read": self.read,
            "resources/directory/read": self.read_directory,
        }
        if method not in known:
            raise Refused(-32601, f"no method {method}")
        result = known[method](params)
        if era == MODERN:
            result |= {"resultType": "complete", "ttlMs": 1000, "cacheScope": "public"}
        return result

    def hello(self) -> Json:
        return {
            "capabilities": {"resources": {}, "extensions": {EXTENSION: {"directoryRead": True}}},
            "instructions": self.tree.instructions,
            "serverInfo": {"name": "clean", "version": "1"},
        }

    def initialize(self, _params: Json) -> Json:
        return {"protocolVersion": LEGACY, **self.hello()}

    def discover(self, _params: Json) -> Json:
        return {"supportedVersions": [MODERN], **self.hello()}

    def entry(self, root: str) -> Any:
        entry: Json = {
            "uri": f"{root}/SKILL.md",
            "frontmatter": dict(self.tree.frontmatter[root]),
            "resources": [
                {
                    "uri": uri,
                    "digest": digest(self.tree.files[uri]),
                    "size": len(self.tree.files[uri]),
                }
                for uri in self.tree.inside(root)
            ],
        }
        return entry if self.bend_entry is None else self.bend_entry(root, entry)

    def list_skills(self, params: Json) -> Json:
        return self.page([self.entry(root) for root in self.tree.listed], params, "skills")

    def get_skill(self, params: Json) -> Json:
        uri = params.get("uri")
        for root in self.tree.skills:
            if uri == f"{root}/SKILL.md":
                return {"skill": self.entry(root)}
        raise Refused(-32602, f"no skill at {uri}")

    def list_resources(self, params: Json) -> Json:
        found = [
            {
                "uri": f"{root}/SKILL.md",
                "name": self.tree.frontmatter[root]["name"],
                "description": self.tree.frontmatter[root]["description"],
                "mimeType": "text/markdown",
            }
            for root in self.tree.listed
        ]
        return self.page(found, params, "resources")

    def read(self, params: Json) -> Json:
        uri = params["uri"]
        if uri not in self.tree.files:
            raise Refused(-32602, f"no resource at {uri}")
        data = self.tree.files[uri]
        content: Json = {"uri": uri, "mimeType": self.mime(uri)}
        try:
            content["text"] = data.decode()
        except UnicodeDecodeError:
            content["blob"] = base64.b64encode(data).decode()
        return {"contents": [content]}

    def read_directory(self, params: Json) -> Json:
        uri = params.get("uri")
        if uri not in self.tree.directories():
            raise Refused(-32602, f"no directory at {uri}")
        children: list[Json] = []
        directories = self.tree.directories()
        for child in sorted({*self.tree.files, *directories}):
            if child.rpartition("/")[0] == uri:
                is_file = child in self.tree.files
                mime = self.mime(child) if is_file else "inode/directory"
                size = {"size": len(self.tree.files[child])} if is_file else {}
                children.append({"uri": child, "name": child.rpartition("/")[2], "mimeType": mime, **size})
        return self.page(children, params, "resources")

    def mime(self, uri: str) -> str:
        ends = {".md": "text/markdown", ".txt": "text/plain"}
        return next((mime for end, mime in ends.items() if uri.endswith(end)), "application/octet-stream")

    def page(self, items: list[Any], params: Json, key: str) -> Json:
        cursor = params.get("cursor", "0")
        if not cursor.isdigit():
            raise Refused(-32602, "no such cursor")
        start, end = int(cursor), int(cursor) + self.page_size
        more = {"nextCursor": str(end)} if end < len(items) else {}
        return {key: items[start:end], **more}

    async def __call__(self, scope: Json, receive: Any, send: Any) -> None:
        """The server as an ASGI application; an answer may carry `http`, which overrules how it is sent."""
        assert scope["type"] == "http"
        body = b""
        more = True
        while more:
            event = await receive()
            body += event.get("body", b"")
            more = event.get("more_body", False)
        message = json.loads(body) if body else {}
        status, kind, sent = self.accepted, "application/json", b""
        headers: list[tuple[bytes, bytes]] = []
        if "id" in message:
            answer = await self.handle(message)
            if answer is None:
                await anyio.sleep_forever()
                return
            http = answer.pop("http", {})
            status = http.get("status", 200)
            kind = http.get("kind", kind)
            sent = http.get("body", json.dumps(answer).encode())
            headers = http.get("headers", [])
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", kind.encode()), *headers],
            }
        )
        await send({"type": "http.response.body", "body": sent})
