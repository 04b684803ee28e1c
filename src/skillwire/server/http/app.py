"""McpEndpoint: the ASGI application at `/mcp`, and `library_app`, the HTTP frontend of a skill library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread

from skillwire.access import Caller, Identity
from skillwire.errors import SkillwireError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.net import ArchiveFile, archive_file, write_tar_gz
from skillwire.server.fastpath import ERA, FastPath
from skillwire.server.http.asgi import (
    CALLER,
    Asgi,
    BodyGate,
    EventStreams,
    Headers,
    LazyApp,
    LifespanApp,
    OpenRequest,
    Receive,
    Scope,
    Send,
    refuse_method,
    replay,
    respond,
)
from skillwire.server.http.frontend import MCP_PATH, Gauges, HttpFrontend, Route, ServiceStatus, State
from skillwire.server.http.pool import ViewPool
from skillwire.server.library import SkillLibrary
from skillwire.skill import DYNAMIC, Digest, SkillEntry, digest_of, path_below, skill_root
from skillwire.sources.wellknown import SCHEMA

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

FOLDER: Final = "/.well-known/agent-skills/"
_DESCRIPTION: Final = 1024
"""The longest description that the index may have, in characters."""
_SHORT: Final = 16
"""How many digits of the digest are in the name of an archive."""


@dataclass(frozen=True, slots=True)
class _Artifact:
    """An archive that is served.

    Its path changes with its bytes, so it can be cached for ever.
    """

    entry: SkillEntry
    data: bytes
    digest: Digest

    @property
    def path(self) -> str:
        return f"{self.entry.name}-{self.digest[len('sha256:') :][:_SHORT]}.tar.gz"


class SkillSite:
    """Responds with the index and its archives. Access is checked before."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library
        self._artifacts: dict[str, _Artifact] = {}
        self._building = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if await refuse_method(scope, send):
            return
        await self._answer(scope, send, unquote(scope["path"][len(FOLDER) :]))

    async def _answer(self, scope: Scope, send: Send, name: str) -> None:
        artifacts = await self._current()
        if name == "index.json":
            rows = [
                {
                    "name": one.entry.name,
                    "type": "archive",
                    "description": one.entry.description[:_DESCRIPTION],
                    "url": quote(one.path),
                    "digest": one.digest,
                }
                for one in artifacts.values()
            ]
            body = json.dumps({"$schema": SCHEMA, "skills": rows}, indent=1) + "\n"
            await respond(scope, send, 200, body, media=b"application/json")
            return
        found = next((one for one in artifacts.values() if one.path == name), None)
        if found is None:
            await respond(scope, send, 404, "Not Found\n")
        else:
            headers = [(b"content-type", b"application/gzip"), (b"content-length", b"%d" % len(found.data))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            body = b"" if scope["method"] == "HEAD" else found.data
            await send({"type": "http.response.body", "body": body})

    async def _current(self) -> dict[str, _Artifact]:
        """The archive of every listed skill by name; unchanged ones are reused."""
        async with self._building:
            entries = await self._library.entries()
            made: dict[str, _Artifact] = {}
            for entry in entries:
                if entry.resources is DYNAMIC or entry.name in made:
                    continue  # An index has each name once.
                known = self._artifacts.get(entry.name)
                if known is not None and known.entry == entry:
                    made[entry.name] = known
                    continue
                try:
                    made[entry.name] = await self._make(entry)
                except SkillwireError:
                    continue  # It changed while it was read; the next request includes it.
            self._artifacts = made
            return made

    async def _make(self, entry: SkillEntry) -> _Artifact:
        root = skill_root(entry.uri)
        files: list[ArchiveFile] = []
        for resource in () if entry.resources is DYNAMIC else entry.resources:
            data = (await self._library.read(resource.uri)).data
            path = "/".join(path_below(resource.uri, root))
            files.append(archive_file(path, data))
        data = await anyio.to_thread.run_sync(write_tar_gz, files)
        return _Artifact(entry, data, digest_of(data))


_MOST_BODY: Final = 65_536
_ACCEPTED: Final = frozenset(
    {
        b"application/json, text/event-stream",
        b"application/json,text/event-stream",
        b"text/event-stream, application/json",
        b"text/event-stream,application/json",
    }
)
# Headers that do not change the meaning of a request. With any other header, the request is for the SDK.
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
_KNOWN: Final = _HARMLESS | _CHECKED
_VERSION: Final = ERA.encode("ascii")


class RequestHead(NamedTuple):
    """The requirements that the headers of an eligible request set for its body."""

    length: int
    method: bytes
    name: bytes

    def matches(self, method: bytes, name: bytes | None) -> bool:
        """Whether the headers match the body. A `name` of `None` is not compared."""
        return self.method == method and (name is None or self.name == name)


class FastPathMiddleware:
    """Responds through the fast path if possible, and passes everything else on."""

    def __init__(self, fast_path: FastPath, app: Asgi) -> None:
        self._fast_path = fast_path
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_eligible = scope["method"] == "POST" and not scope["query_string"]
        head = check_headers(scope["headers"]) if is_eligible else None
        if head is None:
            await self._app(scope, receive, send)
            return
        message = await receive()
        body: bytes = message.get("body", b"")
        messages = [message]
        while message.get("more_body", False) and len(body) <= head.length:
            message = await receive()
            messages.append(message)
            body += message.get("body", b"")
        is_whole = message["type"] == "http.request" and len(body) == head.length
        response = await self._respond(head, body) if is_whole else None
        if response is None:
            await self._app(scope, replay(messages, receive), send)
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(response))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": response})

    async def _respond(self, head: RequestHead, body: bytes) -> bytes | None:
        found = self._fast_path.cached(body)
        if found is not None:
            id_json, cached = found
            return cached.to(id_json) if head.matches(cached.method, cached.name) else None
        request = self._fast_path.parse(body)
        if request is None or not head.matches(request.method.encode("ascii"), request.name):
            return None
        return await self._fast_path.respond(request)


def check_headers(headers: Headers) -> RequestHead | None:
    """The requirements of an eligible request; `None` for a request that is for the SDK."""
    known = dict(headers)
    if len(known) != len(headers) or not _KNOWN.issuperset(known):
        return None
    get = known.get
    length = get(b"content-length", b"")
    if (
        get(b"content-type") != b"application/json"
        or get(b"accept") not in _ACCEPTED
        or get(b"mcp-protocol-version") != _VERSION
        or not length.isdigit()
        or len(length) > 6
        or int(length) > _MOST_BODY
    ):
        return None
    return RequestHead(int(length), get(b"mcp-method", b""), get(b"mcp-name", b""))


SITE_PATH: Final = "/.well-known/agent-skills/"
_ONLY: Final = None
"""The key of the one view of a library: all callers see the same."""


def library_app(
    library: SkillLibrary,
    endpoint: McpEndpoint,
    identity: Identity[Caller],
    *,
    allowed_hosts: Iterable[str],
    well_known: bool,
    limits: Limits,
) -> HttpFrontend[Caller, None]:
    """The frontend of a library. With `well_known`, the skills are also served under
    `/.well-known/agent-skills/`."""
    routes: list[Route[Caller]] = []
    if well_known:
        site = SkillSite(library)

        async def serve_site(_caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
            await site(scope, receive, send)

        routes.append(Route(SITE_PATH, serve_site, is_prefix=True))
    pool: ViewPool[None] = ViewPool(lambda _key: (endpoint, None), limits=limits)

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        view = await pool.acquire(_ONLY)  # Held, so that it stays open without requests.
        try:
            yield
        finally:
            pool.release(view)

    async def state() -> State:
        await library.count()
        return "ok"

    async def counts() -> tuple[int, int]:
        return await library.count(), sum(problem.is_left_out for problem in await library.problems())

    async def health() -> dict[str, object]:
        skills, left_out = await counts()
        return {"skills": skills, "left_out": left_out}

    async def gauges() -> Gauges:
        skills, left_out = await counts()
        return {
            "skills": ("Skills served.", float(skills)),
            "skills_left_out": ("Files and skills left out.", float(left_out)),
        }

    return HttpFrontend(
        identity,
        pool,
        routes,
        view_of=lambda _caller, _headers: _ONLY,
        status=ServiceStatus(state=state, health=health, gauges=gauges),
        running=running,
        allowed_hosts=allowed_hosts,
        limits=limits,
    )


class McpEndpoint:
    """The application at `/mcp`: the fast path, and the SDK's application for all other requests.

    `server` creates the SDK's server when it is first needed; `fast_path` wraps its application; `around` is
    open while the endpoint runs. `names` are the host names that it responds to. With `streamed`, each
    response of a 2025 revision is a stream, so that the server can send requests to the client.
    """

    def __init__(
        self,
        server: Callable[[], Server[Any]],
        *,
        fast_path: Callable[[Asgi], Asgi] | None,
        around: Callable[[], AbstractAsyncContextManager[object]],
        names: Iterable[str],
        stateless: bool = False,
        streamed: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.names = tuple(names)

        def load() -> LifespanApp:
            return _SdkApp(server(), names=self.names, stateless=stateless, streamed=streamed, limits=limits)

        self._sdk = LazyApp(load, around)
        self._streams = EventStreams(self._sdk)
        gate = BodyGate(self._streams, limits)
        self._app: Asgi = gate if fast_path is None else fast_path(gate)

    async def run(self, stopping: asyncio.Event, started: asyncio.Event) -> None:
        """Run without the ASGI lifespan protocol until `stopping` is set. `started` is set once it runs."""
        await self._sdk.run(stopping, started)

    def end_streams(self) -> None:
        """End the event streams that clients keep open."""
        self._streams.end()

    def open_requests(self) -> list[OpenRequest]:
        """The requests that are not over, event streams above all; those of the fast path are none."""
        return list(self._streams.requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class _SdkApp:
    """The SDK's application for Streamable HTTP."""

    def __init__(
        self,
        server: Server[Any],
        *,
        names: Iterable[str],
        stateless: bool,
        streamed: bool,
        limits: Limits,
    ) -> None:
        from mcp.server.transport_security import TransportSecuritySettings

        hosts = [spelling for name in names for spelling in (name, f"{name}:*")]
        self._app = server.streamable_http_app(
            streamable_http_path=MCP_PATH,
            json_response=not streamed,
            stateless_http=stateless,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=True,
                allowed_hosts=hosts,
                allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
            ),
            max_request_body_size=limits.http_body_bytes,
            session_idle_timeout=limits.session_idle_seconds,
            max_sessions=limits.sessions,
        )

    def lifespan(self) -> AbstractAsyncContextManager[object]:
        return self._app.router.lifespan_context(self._app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller | None = scope.get(CALLER)
        if caller is not None and caller.credential:
            # A session works only for the caller that opened it: the SDK compares this.
            scope = {**scope, "user": _user(caller.name)}
        await self._app(scope, receive, send)


@lru_cache(maxsize=10_000)
def _user(name: str) -> Any:
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    return AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[]))
