"""RegistryApp: a registry over HTTP. Readers use MCP at `/mcp`; publishers have a path of their own.

Callers with the same permissions share one `SkillServer` over what they may see. Nothing of another view is
in it, so nothing of it can leak: not from a cache, not to a session, not in a notification.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from skillwire.errors import (
    FormatError,
    LimitExceeded,
    RefusedByPolicy,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VersionConflict,
)
from skillwire.issues import Issue, shown
from skillwire.registry.access import ALL, Access, Caller, Role
from skillwire.registry.catalog import StoreCatalog, View
from skillwire.registry.drafts import PUBLISH_PATH, Draft, parse_draft
from skillwire.registry.endpoints import OCI_PATH, SITE_PATH, OciEndpoint, SiteEndpoint
from skillwire.registry.login import METADATA_PATH, Login, OAuthSettings, resource_metadata
from skillwire.registry.publishing import Publishing
from skillwire.registry.source import Feed, StoreSource
from skillwire.registry.store import Store
from skillwire.server.app import SkillServer
from skillwire.server.http.app import HEALTH_PATH, MCP_PATH, METRICS_PATH, HostNames, McpEndpoint
from skillwire.server.http.asgi import Receive, Scope, Send, refuse_method, respond
from skillwire.server.http.telemetry import METRICS_TYPE, ObservedApp, Request
from skillwire.server.legacy.features import LegacyFeatures
from skillwire.server.options import DEFAULT_OPTIONS, ServerOptions
from skillwire.skill.digests import digest_of

_MOST_VIEWS: Final = 256
_CHECK_SECONDS: Final = 1.0
_JSON: Final = b"application/json"
_STATUS: Final[tuple[tuple[type[SkillwireError], int], ...]] = (
    (SkillNotFound, 404),
    (VersionConflict, 409),
    (LimitExceeded, 413),
    (RefusedByPolicy, 422),
    (FormatError, 422),
)
_AWAY: Final = "the registry's database cannot be used right now: try again later"

_log = logging.getLogger(__name__)


class RegistryApp(ObservedApp):
    """The ASGI application of one replica. It must run with its lifespan. Each request passes these steps:

    1. the health check, and how to sign in,
    2. the caller, who must have been granted something,
    3. the metrics,
    4. the `Host` header,
    5. the path: MCP, publishing, the index of a site, OCI.
    """

    def __init__(
        self,
        store: Store,
        *,
        options: ServerOptions = DEFAULT_OPTIONS,
        name: str = "skillwire",
        instructions: str | None = None,
        oauth: OAuthSettings | None = None,
        allowed_hosts: Iterable[str] = (),
        stateless: bool = False,
    ) -> None:
        super().__init__()
        # Features that describe all skills at once are of no use here, nor is a prompt for each of 100,000.
        features = LegacyFeatures(
            index="off", manifests=False, prompt_xml=False, prompts=False, tools=options.legacy_features.tools
        )
        self._options = replace(options, cache_scope="private", legacy_features=features)
        self._name = name
        self._instructions = instructions
        self._stateless = stateless
        self._store = store
        self._hosts = HostNames(allowed_hosts)
        self._feed = Feed(store)
        self._publishing = Publishing(store, limits=options.limits)
        self._login = Login(Access(store), oauth)
        self._views: OrderedDict[View, _Running] = OrderedDict()
        self._starting = asyncio.Lock()
        self._site = SiteEndpoint()
        self._oci = OciEndpoint()

    def end_streams(self) -> None:
        """End the event streams that clients keep open."""
        for running in self._views.values():
            running.app.end_streams()

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            try:
                await self._feed.start()
            except SkillwireError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            stack.push_async_callback(self._feed.stop)
            stack.push_async_callback(self._close_views)
            checking = asyncio.create_task(self._end_revoked())
            stack.callback(checking.cancel)
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _close_views(self) -> None:
        while self._views:
            _, running = self._views.popitem()
            await running.stop()

    async def _serve(self, scope: Scope, receive: Receive, request: Request) -> None:
        path, send = str(scope["path"]), request.observe
        if path == HEALTH_PATH:
            await self._report_health(scope, send)
            return
        if path.startswith(METADATA_PATH) and self._login.oauth is not None:
            if not await refuse_method(scope, send):
                await _send_json(scope, send, 200, resource_metadata(self._login.oauth))
            return
        try:
            caller = await self._login.caller(scope["headers"])
        except SourceError as error:
            self._log_outage(error)
            await respond(scope, send, 503, f"{_AWAY}\n")
            return
        if caller is None or not caller.roles:
            await self._refuse(scope, send, is_given=caller is None)
            return
        request.user = caller.name
        if path == METRICS_PATH:
            await self._report_metrics(scope, send)
        elif not self._hosts.match(scope):
            text = "This registry is not known under the name in the Host header; allow it with --allow-host"
            await respond(scope, send, 421, f"{text}\n")
        else:
            try:
                await self._answer(caller, scope, receive, send)
            except SourceError as error:
                self._log_outage(error)
                await _send_json(scope, send, 503, {"error": _AWAY})
            except SkillwireError as error:
                status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
                await _send_json(scope, send, status, {"error": str(error)})

    async def _answer(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == MCP_PATH:
            running = await self._running_for(caller.view)
            await running.app(scope, receive, send)
        elif path == PUBLISH_PATH:
            await self._publish(caller, scope, receive, send)
        elif path.startswith(SITE_PATH):
            await self._site(StoreCatalog(self._store, caller.view), scope, send)
        elif path.startswith(OCI_PATH):
            await self._oci(StoreCatalog(self._store, caller.view), scope, send)
        else:
            await respond(scope, send, 404, "Not Found\n")

    async def _end_revoked(self) -> None:
        """End the streams of callers who may no longer see what they did."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            for view, running in list(self._views.items()):
                for request in running.app.open_requests():
                    try:
                        caller = await self._login.caller(request.headers)
                    except SkillwireError:
                        continue  # The caller cannot be checked now.
                    if caller is None or caller.view != view:
                        request.end()

    async def _running_for(self, view: View) -> _Running:
        running = self._views.get(view)
        if running is None:
            async with self._starting:
                running = self._views.get(view)
                if running is None:
                    source = StoreSource(self._store, view, feed=self._feed)
                    server = SkillServer(
                        source, name=self._name, instructions=self._instructions, options=self._options
                    )
                    running = _Running(server.endpoint(self._hosts.all, stateless=self._stateless))
                    await running.start()
                    self._views[view] = running
                    while len(self._views) > _MOST_VIEWS:
                        _, oldest = self._views.popitem(last=False)
                        await oldest.stop()
        self._views.move_to_end(view)
        return running

    async def _publish(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept a manifest and some of its files. Respond with what is missing, or publish a complete
        version."""
        if scope["method"] != "POST":
            await respond(scope, send, 405, "Method Not Allowed\n", headers=[(b"allow", b"POST")])
            return
        draft, contents = await self._parts(caller, scope, receive)
        if not caller.may(Role.READ, draft.namespace):
            raise SkillNotFound(f"there is no namespace {draft.namespace}")
        if not caller.may(Role.PUBLISH, draft.namespace):
            await _send_json(scope, send, 403, {"error": f"you may not publish to {draft.namespace}"})
            return
        wanted = {file.digest for file in draft.files}
        if contents:
            if any(digest_of(data) not in wanted for data in contents):
                raise _bad_request("a file is not in the manifest, or does not match its digest")
            await anyio.to_thread.run_sync(partial(self._publishing.upload, draft.namespace, contents))
        missing = await anyio.to_thread.run_sync(partial(self._publishing.missing, draft))
        if missing:
            await _send_json(scope, send, 202, {"missing": missing})
            return
        done = await anyio.to_thread.run_sync(partial(self._publishing.publish, draft, by=caller.name))
        body = {
            "namespace": done.namespace,
            "name": done.name,
            "version": done.version,
            "set_digest": done.set_digest,
            "signer": done.signer or None,
            "is_new": done.is_new,
        }
        await _send_json(scope, send, 201 if done.is_new else 200, body)

    async def _parts(self, caller: Caller, scope: Scope, receive: Receive) -> tuple[Draft, list[bytes]]:
        from starlette.datastructures import UploadFile
        from starlette.exceptions import HTTPException
        from starlette.formparsers import MultiPartException
        from starlette.requests import ClientDisconnect, Request

        limits = self._options.limits
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        most = limits.bytes_per_skill + (1 << 20)
        if not length.isdigit() or int(length) > most:
            raise LimitExceeded(f"a request to publish must declare its length, at most {most:,} bytes")
        try:
            form = await Request(scope, receive).form(
                max_files=limits.files_per_skill, max_fields=1, max_part_size=limits.http_body_bytes
            )
        except (MultiPartException, HTTPException, ClientDisconnect) as error:
            raise _bad_request(f"the form cannot be read: {shown(str(error), 200)}") from None
        try:
            manifest = form.get("manifest")
            if not isinstance(manifest, str):
                raise _bad_request("the field manifest is missing")
            try:
                draft = parse_draft(_with_namespace(json.loads(manifest), caller), limits=limits)
            except (ValueError, RecursionError):
                raise _bad_request("the field manifest is not JSON") from None
            contents = [await part.read() for _, part in form.multi_items() if isinstance(part, UploadFile)]
        finally:
            await form.close()
        return draft, contents

    async def _refuse(self, scope: Scope, send: Send, *, is_given: bool) -> None:
        challenge = 'Bearer realm="skillwire"'
        if is_given:
            challenge += ', error="invalid_token"'
        if self._login.oauth is not None:
            base = self._login.oauth.audience.removesuffix(MCP_PATH).rstrip("/")
            challenge += f', resource_metadata="{base}{METADATA_PATH}"'
        headers = [(b"www-authenticate", challenge.encode())]
        await respond(scope, send, 401, "A bearer token is required.\n", headers=headers)

    async def _report_metrics(self, scope: Scope, send: Send) -> None:
        if await refuse_method(scope, send):
            return
        gauges = {
            "views": ("Servers for callers with the same permissions.", float(len(self._views))),
            "change": ("The number of the last change that was seen.", float(self._feed.number)),
            "connections": ("Open HTTP connections.", float(self.connections())),
            "start_time_seconds": ("When the server started.", self.telemetry.started),
        }
        await respond(scope, send, 200, self.telemetry.render(gauges), media=METRICS_TYPE)

    async def _report_health(self, scope: Scope, send: Send) -> None:
        if await refuse_method(scope, send):
            return
        try:
            await anyio.to_thread.run_sync(StoreCatalog(self._store, View()).last_change)
        except SourceError as error:
            self._log_outage(error)
            await _send_json(scope, send, 503, {"status": "error"})
            return
        await _send_json(scope, send, 200, {"status": "ok"})

    def _log_outage(self, error: SourceError) -> None:
        """For the operator alone: the message names the database."""
        self.telemetry.warn(_log, "database", str(error))


class _Running:
    """The endpoint of a view, in a task of its own."""

    def __init__(self, app: McpEndpoint) -> None:
        self.app = app
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it, or raise the reason why it does not start."""
        started = asyncio.Event()
        self._task = asyncio.create_task(self.app.run(self._stopping, started))
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait([self._task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            await self._task

    async def stop(self) -> None:
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait([self._task])


async def _send_json(scope: Scope, send: Send, status: int, value: object) -> None:
    await respond(scope, send, status, json.dumps(value) + "\n", media=_JSON)


def _with_namespace(manifest: object, caller: Caller) -> object:
    """The manifest, with the namespace where it names none and the caller can publish to one only."""
    if not isinstance(manifest, dict) or manifest.get("namespace"):  # pyright: ignore[reportUnknownMemberType]
        return manifest  # pyright: ignore[reportUnknownVariableType]
    own = [namespace for namespace in caller.roles if caller.may(Role.PUBLISH, namespace)]
    if len(own) != 1 or own == [ALL]:
        raise _bad_request("the manifest names no namespace: say which one")
    return {**manifest, "namespace": own[0]}  # pyright: ignore[reportUnknownVariableType]


def _bad_request(message: str) -> FormatError:
    return FormatError(Issue(rule="publish-request", message=message, fix="use skillwire publish"))
