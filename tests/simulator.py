"""A skill server in memory that is honest until it is told otherwise; each attack is one line.

    sim = Simulator()
    sim.skill("refunds", files={"references/a.md": b"..."}).swap_file("references/a.md", b"other bytes")
    async with opened(tmp_path, evil=sim) as host:
        ...

It is the SDK's own low-level server, so a host meets it through the front door, on both eras. Every request
is kept in `requests`: that nothing was fetched can be shown.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from skillwire.host import ServerConfig, SkillHost, ToolResult
from skillwire.skill import digest_of
from skillwire.wire import EXTENSION_ID

DESCRIPTION = "Pays money back. Use when a customer asks for a refund."


def skill_md(name: str, body: str, fields: Mapping[str, str]) -> bytes:
    lines = "".join(f"{key}: {value}\n" for key, value in fields.items())
    return f"---\nname: {name}\n{lines}---\n{body}".encode()


@dataclass
class SimulatedSkill:
    """A skill and what its server says about it. Without attacks the two agree."""

    uri: str
    files: dict[str, bytes]
    frontmatter: dict[str, Any]
    is_dynamic: bool = False
    is_listed: bool = True
    unlisted: set[str] = field(default_factory=set[str])
    claimed: dict[str, bytes] = field(default_factory=dict[str, bytes])
    lies: dict[str, Any] = field(default_factory=dict[str, Any])
    resources: list[dict[str, Any]] | None = None
    meta: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def root(self) -> str:
        return self.uri.removesuffix("/SKILL.md")

    def file_uri(self, path: str) -> str:
        return f"{self.root}/{path}"

    def entry(self) -> dict[str, Any]:
        """The entry as the server lists it."""
        listed: Any = self.resources
        if listed is None:
            described = {**self.files, **self.claimed}
            listed = [
                {"uri": self.file_uri(path), "digest": digest_of(data), "size": len(data)}
                for path, data in described.items()
                if path not in self.unlisted
            ]
        wire = {
            "uri": self.uri,
            "frontmatter": {**self.frontmatter, **self.lies},
            "resources": "dynamic" if self.is_dynamic else listed,
        }
        return {**wire, "_meta": self.meta} if self.meta else wire

    # Honest changes

    def change_file(self, path: str, data: bytes) -> SimulatedSkill:
        """The server has a new version, and its entry says so."""
        self.files[path] = data
        return self

    def change_body(self, body: str) -> SimulatedSkill:
        head, _, _ = self.files["SKILL.md"].decode().rpartition("---\n")
        return self.change_file("SKILL.md", f"{head}---\n{body}".encode())

    # Attacks

    def swap_file(self, path: str, data: bytes) -> SimulatedSkill:
        """Serve other bytes than the entry says."""
        self.claimed[path] = self.files[path]
        self.files[path] = data
        return self

    def swap_body(self, body: str) -> SimulatedSkill:
        """Serve another `SKILL.md` than the entry says."""
        honest = self.files["SKILL.md"]
        self.change_body(body)
        self.claimed["SKILL.md"] = honest
        return self

    def slip_in(self, path: str, data: bytes) -> SimulatedSkill:
        """Serve a file that the entry does not list."""
        self.files[path] = data
        self.unlisted.add(path)
        return self

    def lie_frontmatter(self, **fields: Any) -> SimulatedSkill:
        """Say other things in the listing than the file says."""
        self.lies.update(fields)
        return self

    def hide(self) -> SimulatedSkill:
        """Serve it, but leave it out of the listing."""
        self.is_listed = False
        return self


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    params: dict[str, Any]


Answer = Callable[[Mapping[str, Any]], Awaitable[Any]]


class Simulator:
    """The server. `server` is what a `SkillHost` is given."""

    def __init__(
        self,
        *,
        instructions: str = "",
        declare: Mapping[str, Any] | None = {},
        page_size: int = 100,
        ttl_ms: int = 60_000,
    ) -> None:
        self.requests: list[Request] = []
        self.skills: dict[str, SimulatedSkill] = {}
        self.resources: dict[str, bytes] = {}
        self.tools: dict[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {}
        self.page_size = page_size
        self.ttl_ms = ttl_ms
        self.directories: dict[str, list[dict[str, Any]]] = {}
        self.client_capabilities: list[Any] = []
        self._answers: dict[str, Answer] = {}
        self._honest: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "skills/list": self._list,
            "skills/get": self._get,
            "resources/read": self._read,
            "resources/list": self._list_resources,
            "resources/directory/read": self._read_directory,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
        }
        self._declared = declare
        self.server: Server[Any] = Server("simulator", instructions=instructions)
        if declare is not None:
            self.server.extensions[EXTENSION_ID] = dict(declare)
        self.server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._nothing)
        self.server.add_request_handler("resources/list", types.PaginatedRequestParams, self._nothing)
        for method in ("skills/list", "skills/get", "resources/directory/read"):
            self.server.add_request_handler(method, _AnyParams, self._nothing)
        self.server.middleware.append(self._answer)

    def skill(
        self,
        name: str,
        *,
        path: str = "",
        body: str = "# How to\nDo it with care.\n",
        files: Mapping[str, bytes] | None = None,
        description: str = DESCRIPTION,
        fields: Mapping[str, str] | None = None,
        dynamic: bool = False,
    ) -> SimulatedSkill:
        """The skill of this name, made when it is not there yet. `fields` are more frontmatter strings."""
        uri = f"skill://{path or name}/SKILL.md"
        if uri not in self.skills:
            front = {"description": description, **(fields or {})}
            self.skills[uri] = SimulatedSkill(
                uri,
                {"SKILL.md": skill_md(name, body, front), **(files or {})},
                {"name": name, **front},
                is_dynamic=dynamic,
            )
        return self.skills[uri]

    def tool(self, name: str, answer: Callable[[Mapping[str, Any]], str], *, description: str = "") -> None:
        """A tool of the server, which answers with a text."""
        for method in ("tools/list", "tools/call") if not self.tools else ():
            self.server.add_request_handler(method, _AnyParams, self._nothing)
        self.tools[name] = (description, answer)

    def asked(self, method: str) -> list[dict[str, Any]]:
        """The parameters of every request of this method."""
        return [request.params for request in self.requests if request.method == method]

    def read_uris(self) -> list[str]:
        """The URIs of everything that was fetched."""
        return [params["uri"] for params in self.asked("resources/read")]

    # Attacks

    def never_answer(self, method: str) -> None:
        async def silence(params: Mapping[str, Any]) -> Any:
            await anyio.sleep_forever()

        self._answers[method] = silence

    def hold(self, method: str, until: anyio.Event) -> anyio.Event:
        """Answer only when the event has come, however late that is. The event returned is set when the
        first request arrives."""
        arrived = anyio.Event()

        async def late(params: Mapping[str, Any]) -> Any:
            arrived.set()
            await until.wait()
            return self._honest[method](params)

        self._answers[method] = late
        return arrived

    def refuse(self, method: str, message: str = "no", code: int = types.INTERNAL_ERROR) -> None:
        async def refusal(params: Mapping[str, Any]) -> Any:
            raise MCPError(code, message)

        self._answers[method] = refusal

    def answer(self, method: str, result: Any) -> None:
        """Answer with this, whatever was asked."""

        async def fixed(params: Mapping[str, Any]) -> Any:
            return result

        self._answers[method] = fixed

    def answer_with(self, method: str, answer: Answer) -> None:
        """Answer with what a function makes of the parameters."""
        self._answers[method] = answer

    def endless_pages(self) -> None:
        """Every page of the listing has a next one, with new skills on it."""
        counter = iter(range(10**9))

        async def page(params: Mapping[str, Any]) -> Any:
            number = next(counter)
            entry = Simulator().skill(f"skill-{number}").entry()
            return {"skills": [entry], "nextCursor": f"page-{number}"}

        self._answers["skills/list"] = page

    def looping_pages(self) -> None:
        """The second page of the listing leads back to itself."""

        async def page(params: Mapping[str, Any]) -> Any:
            entries = [skill.entry() for skill in self.skills.values()]
            return {"skills": entries, "nextCursor": "again"}

        self._answers["skills/list"] = page

    def behave(self, method: str) -> None:
        """Answer honestly again."""
        self._answers.pop(method, None)

    # The server

    async def _nothing(self, ctx: Any, params: Any) -> Any:
        raise AssertionError("the middleware answers")

    async def _answer(self, ctx: Any, call_next: CallNext) -> HandlerResult:
        params = dict(ctx.params or {})
        meta = params.pop("_meta", None)
        self.requests.append(Request(ctx.method, params))
        self.client_capabilities.append(meta or params.get("capabilities"))
        if ctx.method in self._answers:
            return await self._answers[ctx.method](params)
        if ctx.method in self._honest:
            return self._honest[ctx.method](params)
        result = await call_next(ctx)
        if ctx.method == "initialize" and isinstance(result, dict) and self._declared is not None:
            # The 2025 era's schema knows no extensions, so the SDK leaves them out.
            result["capabilities"].setdefault("extensions", {})[EXTENSION_ID] = dict(self._declared)
        return result

    def _list(self, params: Mapping[str, Any]) -> Any:
        listed = [skill for skill in self.skills.values() if skill.is_listed]
        start = int(params.get("cursor") or 0)
        page = listed[start : start + self.page_size]
        result = self._cacheable({"skills": [skill.entry() for skill in page]})
        if start + self.page_size < len(listed):
            result["nextCursor"] = str(start + self.page_size)
        return result

    def _get(self, params: Mapping[str, Any]) -> Any:
        skill = self.skills.get(params["uri"])
        if skill is None:
            raise MCPError(types.INVALID_PARAMS, f"no skill {params['uri']}")
        return self._cacheable({"skill": skill.entry()})

    def _read(self, params: Mapping[str, Any]) -> Any:
        uri = params["uri"]
        served = {
            skill.file_uri(path): data for skill in self.skills.values() for path, data in skill.files.items()
        }
        data = {**served, **self.resources}.get(uri)
        if data is None:
            raise MCPError(types.INVALID_PARAMS, f"no resource {uri}")
        try:
            content = {"uri": uri, "text": data.decode()}
        except UnicodeDecodeError:
            content = {"uri": uri, "blob": base64.b64encode(data).decode()}
        return self._cacheable({"contents": [content]})

    def _list_resources(self, params: Mapping[str, Any]) -> Any:
        return self._cacheable({"resources": [{"uri": uri, "name": uri} for uri in self.resources]})

    def _read_directory(self, params: Mapping[str, Any]) -> Any:
        if params["uri"] not in self.directories:
            raise MCPError(types.INVALID_PARAMS, f"no directory {params['uri']}")
        return self._cacheable({"resources": self.directories[params["uri"]]})

    def _list_tools(self, params: Mapping[str, Any]) -> Any:
        schema = {"type": "object"}
        tools = [
            {"name": name, "description": said, "inputSchema": schema}
            for name, (said, _) in self.tools.items()
        ]
        return self._cacheable({"tools": tools})

    def _call_tool(self, params: Mapping[str, Any]) -> Any:
        text = self.tools[params["name"]][1](params.get("arguments") or {})
        return {"content": [{"type": "text", "text": text}], "resultType": "complete"}

    def _cacheable(self, result: dict[str, Any]) -> dict[str, Any]:
        return {**result, "resultType": "complete", "ttlMs": self.ttl_ms, "cacheScope": "private"}


class _AnyParams(types.RequestParams):
    pass


@asynccontextmanager
async def opened(
    folder: Path,
    *,
    config: Mapping[str, Any] | None = None,
    host_options: Mapping[str, Any] | None = None,
    **servers: Simulator | ServerConfig | str,
) -> AsyncGenerator[SkillHost]:
    """A host on these servers, with its files below `folder`. `config` is for every simulated server."""
    made = {
        label: ServerConfig(instance=given.server, **(config or {}))
        if isinstance(given, Simulator)
        else given
        for label, given in servers.items()
    }
    host = make_host(folder, servers=made, **(host_options or {}))
    async with host:
        yield host


def make_host(folder: Path, **options: Any) -> SkillHost:
    """A host that keeps its files below `folder` and looks at no directory that it is not given."""
    return SkillHost(
        **{
            "default_directories": False,
            "cache_directory": folder / "cache",
            "approvals_file": folder / "approvals.sqlite",
            **options,
        }
    )


def unreachable() -> Simulator:
    """A server of this process that no client can connect to."""
    sim = Simulator()
    for method in ("initialize", "server/discover"):
        sim.refuse(method, "not now")
    return sim


def plain_server() -> tuple[Server[Any], list[str]]:
    """A server with neither skills nor resources, and the methods that it is asked for."""
    asked: list[str] = []
    server: Server[Any] = Server("plain")

    async def note(ctx: Any, call_next: CallNext) -> HandlerResult:
        asked.append(ctx.method)
        return await call_next(ctx)

    server.middleware.append(note)
    return server, asked


async def agree(question: object) -> bool:
    """A user who says yes to everything."""
    return True


async def call(host: SkillHost, tool: str, **arguments: Any) -> ToolResult:
    """Call one of the host's tools, as a model would."""
    return await next(known for known in host.tools() if known.name == tool).handler(arguments)
