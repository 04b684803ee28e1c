"""RegistryApp: a registry over HTTP. Readers use MCP at `/mcp`; publishers have a path of their own.

Callers with the same permissions share one `SkillServer` over what they may see. Nothing of another view is
in it, so nothing of it can be answered: not from a cache, not to a session, not as a notification.
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
from typing import Final, cast

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
from skillwire.registry.doors import OCI_PATH, SITE_PATH, OciDoor, SiteDoor
from skillwire.registry.drafts import Draft, parse_draft
from skillwire.registry.login import Login, OAuthSettings, resource_metadata
from skillwire.registry.publishing import Publishing
from skillwire.registry.source import Feed, StoreSource
from skillwire.registry.store import Store
from skillwire.server.app import SkillServer
from skillwire.server.http.app import HEALTH_PATH, MCP_PATH, HttpApp
from skillwire.server.http.asgi import Asgi, Message, Receive, Scope, Send, respond
from skillwire.server.legacy.features import LegacyFeatures
from skillwire.server.options import DEFAULT_OPTIONS, ServerOptions
from skillwire.skill.digests import digest_of
from skillwire.version import VERSION

PUBLISH_PATH: Final = "/registry/v1/publish"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_MOST_VIEWS: Final = 256
_JSON: Final = b"application/json"
_STATUS: Final[tuple[tuple[type[SkillwireError], int], ...]] = (
    (SkillNotFound, 404),
    (VersionConflict, 409),
    (LimitExceeded, 413),
    (RefusedByPolicy, 422),
    (FormatError, 422),
    (SourceError, 503),
)

_log = logging.getLogger(__name__)


class RegistryApp:
    """The ASGI application of one replica. It must run with its lifespan."""

    def __init__(
        self,
        store: Store,
        *,
        options: ServerOptions = DEFAULT_OPTIONS,
        name: str = "skillwire",
        oauth: OAuthSettings | None = None,
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        # What describes all skills at once is no use here, and a prompt for each of 100,000 neither.
        features = LegacyFeatures(
            index="off", manifests=False, prompt_xml=False, prompts=False, tools=options.legacy_features.tools
        )
        self._options = replace(options, cache_scope="private", legacy_features=features)
        self._name = name
        self._store = store
        self._hosts = tuple(allowed_hosts)
        self._feed = Feed(store)
        self._publishing = Publishing(store, limits=options.limits)
        self._login = Login(Access(store), oauth)
        self._views: OrderedDict[View, _Running] = OrderedDict()
        self._starting = asyncio.Lock()
        self._site = SiteDoor(store)
        self._oci = OciDoor(store)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

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
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _close_views(self) -> None:
        while self._views:
            _, running = self._views.popitem()
            await running.stop()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == HEALTH_PATH:
            await self._report_health(scope, send)
            return
        if path.startswith(METADATA_PATH) and self._login.oauth is not None:
            await _send_json(scope, send, 200, resource_metadata(self._login.oauth))
            return
        try:
            caller = await self._login.caller(scope["headers"])
        except SourceError as error:
            await respond(scope, send, 503, f"{error}\n")
            return
        if caller is None or not caller.roles:
            await self._refuse(scope, send, is_given=caller is None)
            return
        try:
            await self._answer(caller, scope, receive, send)
        except SkillwireError as error:
            status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
            await _send_json(scope, send, status, {"error": str(error)})

    async def _answer(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == MCP_PATH:
            app = await self._app_for(caller.view)
            await app(scope, receive, send)
        elif path == PUBLISH_PATH:
            await self._publish(caller, scope, receive, send)
        elif path.startswith(SITE_PATH):
            await self._site(StoreCatalog(self._store, caller.view), scope, send)
        elif path.startswith(OCI_PATH):
            await self._oci(StoreCatalog(self._store, caller.view), scope, send)
        else:
            await respond(scope, send, 404, "Not Found\n")

    async def _app_for(self, view: View) -> Asgi:
        running = self._views.get(view)
        if running is None:
            async with self._starting:
                running = self._views.get(view)
                if running is None:
                    server = SkillServer(
                        StoreSource(self._store, view, feed=self._feed),
                        name=self._name,
                        options=self._options,
                    )
                    running = _Running(cast("HttpApp", server.http_app(allowed_hosts=self._hosts)))
                    await running.start()
                    self._views[view] = running
                    while len(self._views) > _MOST_VIEWS:
                        _, oldest = self._views.popitem(last=False)
                        await oldest.stop()
        self._views.move_to_end(view)
        return running.app

    async def _publish(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a manifest and some of its files. Say what is missing, or publish what is complete."""
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
                raise _bad_request("a file is not in the manifest, or not as its digest says")
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
            raise LimitExceeded(f"a request to publish says its length, and has at most {most:,} bytes")
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

    async def _report_health(self, scope: Scope, send: Send) -> None:
        try:
            await anyio.to_thread.run_sync(StoreCatalog(self._store, View()).last_change)
        except SourceError as error:
            _log.error("%s", error)
            await _send_json(scope, send, 503, {"status": "error", "database": "away"})
            return
        await _send_json(scope, send, 200, {"status": "ok", "version": VERSION, "change": self._feed.number})


class _Running:
    """An application with its lifespan, in a task of its own."""

    def __init__(self, app: HttpApp) -> None:
        self.app = app
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(started))
        await started

    async def stop(self) -> None:
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, started: asyncio.Future[None]) -> None:
        is_first = True

        async def receive() -> Message:
            nonlocal is_first
            if is_first:
                is_first = False
                return {"type": "lifespan.startup"}
            await self._stopping.wait()
            return {"type": "lifespan.shutdown"}

        async def send(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete" and not started.done():
                started.set_result(None)

        try:
            await self.app({"type": "lifespan"}, receive, send)
        except Exception as error:
            if not started.done():
                started.set_exception(error)
            else:
                _log.error("a view of the registry ended: %s", error)


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
