"""RegistryApp: a registry over HTTP. Readers use MCP at `/mcp`; publishers have a path of their own.

`StoreIdentity` knows the callers, by tokens of the registry or by access tokens of an identity provider.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias, TypeVar, cast
from urllib.parse import unquote

import anyio
import anyio.to_thread

from skillwire.access import AccessRefusal, AccessTokens, BearerIdentity, OAuthSettings
from skillwire.access.identity import NO_TOKEN
from skillwire.documents import DocumentError
from skillwire.errors import (
    FormatError,
    Issue,
    LimitExceeded,
    PolicyRefused,
    RefusedByPolicy,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VersionConflict,
)
from skillwire.host.policies import SIGNATURE_SUFFIX
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.registry.access import (
    ALL,
    NOBODY,
    PREFIX,
    Access,
    RegistryCaller,
    Role,
    RoleMissing,
    Subject,
    token_hash,
)
from skillwire.registry.administration import ADMIN_PATH, Administration
from skillwire.registry.endpoints import (
    FEED_PATH,
    OCI_PATH,
    SITE_PATH,
    OciEndpoint,
    RevokedEndpoint,
    SiteEndpoint,
    namespaces_in,
)
from skillwire.registry.publications import PUBLISH_PATH, Publication, Published, parse_publication
from skillwire.registry.publishing import Publishing
from skillwire.registry.queries import SkillQueries, View
from skillwire.registry.source import Feed, StoreSource
from skillwire.registry.store import Store, StoreBusy
from skillwire.server import (
    DEFAULT_OPTIONS,
    HostNames,
    HttpFrontend,
    LegacyFeatures,
    McpEndpoint,
    Receive,
    Route,
    Scope,
    Send,
    ServerOptions,
    ServiceStatus,
    SkillServer,
    State,
    ViewPool,
    parse_json,
)
from skillwire.server.http.asgi import JSON, PeekedBody, respond, respond_json
from skillwire.text import shown

_FRESH_SECONDS: Final = 1.0
"""Who was looked up within this time is not looked up again, so a revoked token ends soon."""
_STALE_WAIT_SECONDS: Final = 0.5
"""How long somebody who is known waits for a database that does not answer."""
_WAIT_SECONDS: Final = 5.0
"""How long anybody else waits for it."""
_MOST_CACHED: Final = 10_000
_TOKEN: Final = re.compile(re.escape(PREFIX.encode()) + rb"[A-Za-z0-9_-]{20,100}")
_JWT: Final = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


@dataclass(slots=True)
class _Known:
    """The answer of the database about somebody, and when it was asked."""

    caller: RegistryCaller | None
    at: float
    asking: asyncio.Task[None] | None = None
    asked: float = 0.0
    error: SourceError | None = None


class StoreIdentity(BearerIdentity[RegistryCaller]):
    """Finds the callers of a registry in its database. Without a token, they are `anyone`.

    While the database does not answer, those who are known are let in as they were known last, for
    `registry_stale_seconds`: they can read what is in memory.
    """

    def __init__(
        self, access: Access, oauth: OAuthSettings | None = None, *, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        super().__init__(limits)
        self._access = access
        self._stale_seconds = limits.registry_stale_seconds
        self._oauth = None if oauth is None else AccessTokens(oauth)
        self._channel = "stable" if oauth is None else oauth.channel
        self._known: OrderedDict[Subject, _Known] = OrderedDict()
        self._subjects: OrderedDict[bytes, tuple[Subject, float, float]] = OrderedDict()
        if oauth is not None:
            self.sign_in_metadata: Mapping[str, object] | None = oauth.sign_in_metadata
            self.metadata_url = oauth.metadata_url

    async def recheck(self, callers: Sequence[RegistryCaller]) -> Sequence[RegistryCaller | None]:
        """One look into the database for all callers together."""
        subjects = [caller.subject for caller in callers]
        distinct = list(dict.fromkeys(subjects))
        found = dict(zip(distinct, await self._look_up(distinct), strict=True))
        for subject, caller in found.items():
            # A client whose stream ends connects again at once, and must not be let in as before.
            if known := self._known.get(subject):
                known.caller, known.at = caller, time.monotonic()
        now = time.time()
        return [
            None if caller.expires < now else found[subject]
            for caller, subject in zip(callers, subjects, strict=True)
        ]

    async def refresh(self) -> None:
        """Nothing to read: everybody is looked up."""

    async def _anonymous(self) -> RegistryCaller | AccessRefusal:
        caller = await self._caller(NOBODY)
        return caller if caller is not None and caller.roles else NO_TOKEN

    def _recent(self, token: bytes) -> RegistryCaller | None:
        now = time.monotonic()
        subject, expires = self._subject(token)
        known = None if subject is None else self._known.get(subject)
        if known is None or known.caller is None or not known.caller.roles:
            return None
        age = now - known.at
        if age > self._stale_seconds or (age > _FRESH_SECONDS and not self._is_waiting(known, now)):
            return None
        return _until(known.caller, expires)

    async def _find(self, token: bytes) -> RegistryCaller | None:
        subject, expires = self._subject(token)
        if subject is None and self._oauth is not None and _JWT.fullmatch(token):
            user = await self._oauth.check(token.decode("ascii"))
            if user is not None:
                subject, expires = Subject("user", user.subject, user.groups), user.expires
                self._remember(token, subject, expires, time.monotonic() + _FRESH_SECONDS)
        if subject is None:
            return None
        caller = await self._caller(subject)
        # Somebody without any role gets the same response as somebody who is not known.
        return None if caller is None or not caller.roles else _until(caller, expires)

    def _subject(self, token: bytes) -> tuple[Subject | None, float]:
        """Whose token it is, as far as that is known without asking anyone."""
        found = self._subjects.get(token)
        if found is None:
            if not _TOKEN.fullmatch(token):
                return None, 0.0
            subject = Subject("token", token_hash(token.decode("ascii")))
            found = self._remember(token, subject, math.inf, math.inf)
        subject, expires, until = found
        return (subject, expires) if until == math.inf or until > time.monotonic() else (None, 0.0)

    def _remember(
        self, token: bytes, subject: Subject, expires: float, until: float
    ) -> tuple[Subject, float, float]:
        """Whose token it is, for the next request with it. Whether it is valid is another question."""
        found = self._subjects[token] = (subject, expires, until)
        while len(self._subjects) > _MOST_CACHED:
            self._subjects.popitem(last=False)
        return found

    def _is_waiting(self, known: _Known, now: float) -> bool:
        """Whether the database was asked about somebody and does not answer."""
        return known.asking is not None and now - known.asked > _STALE_WAIT_SECONDS

    async def _caller(self, subject: Subject) -> RegistryCaller | None:
        now = time.monotonic()
        known = self._known.get(subject)
        if known is None:
            known = self._known[subject] = _Known(None, float("-inf"))
            while len(self._known) > _MOST_CACHED:
                self._known.popitem(last=False)
        elif now - known.at > self._stale_seconds:
            known.caller = None
        elif now - known.at < _FRESH_SECONDS or (known.caller and self._is_waiting(known, now)):
            return known.caller
        if known.asking is None:
            known.asked = now
            known.asking = asyncio.create_task(self._ask(subject, known))
        seconds = _STALE_WAIT_SECONDS if known.caller is not None else _WAIT_SECONDS
        done, _ = await asyncio.wait([known.asking], timeout=seconds)
        # While the database is unavailable, known callers can read what is in memory.
        if known.caller is None and (known.error is not None or not done):
            raise known.error or SourceError(f"the registry's database did not answer in {seconds:g} s")
        return known.caller

    async def _ask(self, subject: Subject, known: _Known) -> None:
        try:
            [known.caller] = await self._look_up([subject])
            known.at, known.error = time.monotonic(), None
            if subject in self._known:
                self._known.move_to_end(subject)
        except SourceError as error:
            known.error = error
        finally:
            known.asking = None

    async def _look_up(self, subjects: Sequence[Subject]) -> list[RegistryCaller | None]:
        ask = partial(self._access.callers, subjects, channel=self._channel)
        return await anyio.to_thread.run_sync(ask)


def _until(caller: RegistryCaller, expires: float) -> RegistryCaller:
    return caller if caller.expires == expires else replace(caller, expires=expires)


T = TypeVar("T")

Serve: TypeAlias = Callable[[RegistryCaller, Scope, Receive, Send], Awaitable[None]]

_STATUS: Final[tuple[tuple[type[SkillwireError], int], ...]] = (
    (SkillNotFound, 404),
    (VersionConflict, 409),
    (LimitExceeded, 413),
    (PolicyRefused, 403),
    (RoleMissing, 403),
    (RefusedByPolicy, 422),
    (FormatError, 422),
)
# Publications follow each other in the database: more of them at a time would only compete with readers.
_WRITERS: Final = 2
_DEGRADED_SECONDS: Final = 10.0
_AWAY: Final = "the registry's database cannot be used right now: try again later"

_log = logging.getLogger(__name__)


class RegistryApp(HttpFrontend[RegistryCaller, View]):
    """The ASGI application of one replica. It must run with its lifespan.

    Its routes are MCP, publishing, the index of a site, and OCI. Callers with the same permissions share one
    `SkillServer` over what they may see.
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
        # Features that describe all skills at once are of no use here, nor is a prompt for each of 100,000.
        features = LegacyFeatures(
            index="off", manifests=False, prompt_xml=False, prompts=False, tools=options.legacy_features.tools
        )
        self._options = replace(options, cache_scope="private", legacy_features=features)
        self._store = store
        self._feed = Feed(store)
        self._publishing = Publishing(store, limits=options.limits)
        self._administration = Administration(store)
        # Publishers wait here for their turn, not in the threads that readers need too.
        self._writers = anyio.CapacityLimiter(_WRITERS)
        # Commands of administrators may take long, as `prune` does: publishers do not wait for them.
        self._administrators = anyio.CapacityLimiter(_WRITERS)
        self._refused = self._published = 0
        self._has_current_tables = False
        self._site = SiteEndpoint()
        self._oci = OciEndpoint()
        self._revoked = RevokedEndpoint(store, lambda: self._feed.number)
        hosts = HostNames(allowed_hosts).all

        def make(view: View) -> tuple[McpEndpoint, None]:
            source = StoreSource(store, view, feed=self._feed)
            own = replace(self._options, limits=pool.limits_of_next)
            server = SkillServer(source, name=name, instructions=instructions, options=own)
            return server.endpoint(hosts, stateless=stateless), None

        pool: ViewPool[View] = ViewPool(make, limits=options.limits)
        super().__init__(
            StoreIdentity(Access(store), oauth, limits=options.limits),
            pool,
            (
                Route(PUBLISH_PATH, self._answering(self._publish)),
                Route(ADMIN_PATH, self._answering(self._administrate)),
                Route(SITE_PATH, self._answering(self._serve_site), is_prefix=True),
                Route(OCI_PATH, self._answering(self._serve_oci), is_prefix=True),
            ),
            view_of=lambda caller, _headers: caller.view,
            status=ServiceStatus(state=self._state, health=self._health, gauges=self._gauges),
            running=self._follow,
            open_paths=dict.fromkeys((FEED_PATH, FEED_PATH + SIGNATURE_SUFFIX), self._serve_revoked),
            allowed_hosts=allowed_hosts,
            limits=options.limits,
        )

    async def _write(self, call: Callable[[], T], limiter: anyio.CapacityLimiter | None = None) -> T:
        """Call what writes to the database, in a thread. Whoever finds the queue full is told at once."""
        queue = limiter or self._writers
        if queue.statistics().tasks_waiting >= self._options.limits.registry_queue:
            self._refused += 1
            raise StoreBusy
        return await anyio.to_thread.run_sync(call, limiter=queue)

    @asynccontextmanager
    async def _follow(self) -> AsyncGenerator[None]:
        await self._feed.start()
        if self._feed.has_read:
            await self._check_tables()
        try:
            yield
        finally:
            await self._feed.stop()

    async def serve_view(self, caller: RegistryCaller, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the view of its caller. Somebody who did not sign in and asks for what is not
        open to anyone is told how to."""
        if not caller.credential and scope["method"] == "POST":
            body = await PeekedBody.read(receive, self._options.limits)
            if any(not caller.view.has(namespace) for namespace in await namespaces_in(scope, body.data)):
                await self.refuse(scope, send, NO_TOKEN)
                return
            receive = body.receive
        await super().serve_view(caller, scope, receive, send)

    async def _serve_revoked(self, scope: Scope, send: Send) -> None:
        async with self._errors(scope, send):
            await self._revoked(scope, send)

    def _answering(self, serve: Serve) -> Serve:
        """`serve`, with an error as JSON."""

        async def answer(caller: RegistryCaller, scope: Scope, receive: Receive, send: Send) -> None:
            async with self._errors(scope, send):
                await serve(caller, scope, receive, send)

        return answer

    @asynccontextmanager
    async def _errors(self, scope: Scope, send: Send) -> AsyncGenerator[None]:
        """Respond with an error as JSON."""
        try:
            yield
        except SourceError as error:
            # The message of another error is for the operator alone: it names the database.
            self.telemetry.warn(_log, "database", str(error))
            is_busy = isinstance(error, StoreBusy)
            headers = [(b"retry-after", b"2" if is_busy else b"1")]
            text = json.dumps({"error": str(error) if is_busy else _AWAY})
            await respond(scope, send, 503, f"{text}\n", media=JSON, headers=headers)
        except SkillwireError as error:
            status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
            by = {"refused_by": "policy"} if isinstance(error, PolicyRefused) else {}
            await respond_json(scope, send, status, {"error": str(error), **by})

    async def _serve_site(self, caller: RegistryCaller, scope: Scope, receive: Receive, send: Send) -> None:
        if not await self._refuse_closed(caller, SITE_PATH, scope, send):
            await self._site(SkillQueries(self._store, caller.view), scope, send)

    async def _serve_oci(self, caller: RegistryCaller, scope: Scope, receive: Receive, send: Send) -> None:
        if not await self._refuse_closed(caller, OCI_PATH, scope, send):
            await self._oci(SkillQueries(self._store, caller.view), scope, send)

    async def _refuse_closed(self, caller: RegistryCaller, prefix: str, scope: Scope, send: Send) -> bool:
        """Say how to sign in, if a path is in a namespace that is not open to anyone."""
        namespace, slash, _ = unquote(scope["path"][len(prefix) :]).partition("/")
        if caller.credential or not slash or caller.view.has(namespace):
            return False
        await self.refuse(scope, send, NO_TOKEN)
        return True

    async def _refuse_write(self, caller: RegistryCaller, scope: Scope, send: Send) -> bool:
        """Refuse a request that cannot write: another method than POST, or nobody who signed in."""
        if scope["method"] != "POST":
            await respond(scope, send, 405, "Method Not Allowed\n", headers=[(b"allow", b"POST")])
        elif not caller.credential:
            await self.refuse(scope, send, NO_TOKEN)
        else:
            return False
        return True

    async def _publish(self, caller: RegistryCaller, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept a manifest and some of its files. Respond with what is missing, or publish a complete
        version."""
        if await self._refuse_write(caller, scope, send):
            return
        draft, contents = await self._parts(caller, scope, receive)
        done = await self._write(partial(self._publishing.accept, draft, contents, caller=caller))
        if not isinstance(done, Published):
            await respond_json(scope, send, 202, {"missing": done})
            return
        self._published += done.is_new
        body = {"namespace": done.namespace, "name": done.name, **done.as_json()}
        await respond_json(scope, send, 201 if done.is_new else 200, body)

    async def _administrate(self, caller: RegistryCaller, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a command of an administrator: a JSON object with `command` and `arguments`."""
        if await self._refuse_write(caller, scope, send):
            return
        body = await PeekedBody.read(receive, self._options.limits)
        try:
            request = await parse_json(body.data, self._options.limits)
        except DocumentError:
            raise _bad_request("the request is not JSON") from None
        fields = cast("dict[str, object]", request) if isinstance(request, dict) else {}
        command, arguments = fields.get("command"), fields.get("arguments")
        if not isinstance(command, str) or not isinstance(arguments, dict):
            raise _bad_request("a command and its arguments are missing")
        given = cast("dict[str, object]", arguments)
        run = partial(self._administration.run, command, given, caller=caller)
        answer = await self._write(run, self._administrators)
        await respond_json(scope, send, 200, answer)

    async def _parts(
        self, caller: RegistryCaller, scope: Scope, receive: Receive
    ) -> tuple[Publication, list[bytes]]:
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
                fields = await parse_json(manifest, limits, what="the manifest")
                draft = parse_publication(_with_namespace(fields, caller), limits=limits)
            except DocumentError:
                raise _bad_request("the field manifest is not JSON") from None
            contents = [await part.read() for _, part in form.multi_items() if isinstance(part, UploadFile)]
        finally:
            await form.close()
        return draft, contents

    async def _state(self) -> State:
        """By when the feed was read last: a query of its own could hang."""
        lag = self._feed.lag_seconds
        if not self._feed.has_read or lag > self._options.limits.registry_stale_seconds:
            return "error"
        if not (self._has_current_tables or await self._check_tables()):
            return "error"
        return "degraded" if lag > _DEGRADED_SECONDS else "ok"

    async def _check_tables(self) -> bool:
        try:
            await anyio.to_thread.run_sync(self._store.check_tables)
        except SourceError as error:
            self.telemetry.warn(_log, "tables", str(error))
            return False
        self._has_current_tables = True
        return True

    async def _health(self) -> dict[str, object]:
        return {
            "change": self._feed.number,
            "lag_seconds": round(self._feed.lag_seconds, 1),
            "notifications": self._feed.is_listening,
        }

    async def _gauges(self) -> dict[str, tuple[str, float]]:
        used = self._store.connections()
        return {
            "change": ("The number of the last change that was seen.", float(self._feed.number)),
            "feed_lag_seconds": ("For how long changes could not be read.", self._feed.lag_seconds),
            "database_readers": ("Connections that are in use to read.", float(used.get("readers", 0))),
            "database_writers": ("Connections that are in use to write.", float(used.get("writers", 0))),
            "database_waiting": (
                "Publications that wait for a connection.",
                float(self._writers.statistics().tasks_waiting),
            ),
            "database_busy": (
                "Publications that were refused because too many waited.",
                float(self._refused),
            ),
            "publications": ("New versions that were published here.", float(self._published)),
            "database_abandoned": ("Calls that the database did not answer.", float(self._store.abandoned)),
            "damaged_reads": ("Reads of files that are damaged.", float(self._store.damaged)),
        }


def _with_namespace(manifest: object, caller: RegistryCaller) -> object:
    """The manifest, with the namespace where it names none and the caller can publish to one only."""
    if not isinstance(manifest, dict) or manifest.get("namespace"):  # pyright: ignore[reportUnknownMemberType]
        return manifest  # pyright: ignore[reportUnknownVariableType]
    own = [namespace for namespace in caller.roles if caller.may(Role.PUBLISH, namespace)]
    if len(own) != 1 or own == [ALL]:
        raise _bad_request("the manifest names no namespace: say which one")
    return {**manifest, "namespace": own[0]}  # pyright: ignore[reportUnknownVariableType]


def _bad_request(message: str) -> FormatError:
    return FormatError(Issue(rule="publish-request", message=message, fix="use skillwire publish"))
