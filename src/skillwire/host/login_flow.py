"""Signing in, renewing and signing out, with the MCP SDK's OAuth client.

The SDK finds the authorization server, registers us there, and exchanges codes for tokens. Ours is the rest:
every answer has a size limit (SEC-9), no token is sent in the clear, and what is learned once is stored, so
that a later process can renew a token without asking the server for it all again. `LoopbackListener` is where
a browser is sent when a login is over: it answers a GET of its one path, with the `state` of the login that
is under way, and refuses everything else. `LoginTokens` renews the token of a connection.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
import anyio.to_thread
import httpx2
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from skillwire.errors import SourceError
from skillwire.host.logins import Login, LoginStore
from skillwire.host.sdk import filter_sdk_logs
from skillwire.net import CappedBody, GuardedTransport, check_target, connect_failure, is_loopback
from skillwire.text import redact, redact_url
from skillwire.version import VERSION

_MOST_BYTES: Final = 1024 * 1024
_INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "skillwire", "version": VERSION},
    },
}

ShowUrl = Callable[[str], Awaitable[None]]
"""Called with the address that the user has to visit."""
WaitForCallback = Callable[[], Awaitable[str]]
"""Waits for the address that the browser is sent to in the end, and returns it."""


@dataclass(frozen=True, slots=True)
class Browser:
    """The way of the user to an authorization server and back."""

    redirect_uri: str
    show: ShowUrl
    wait: WaitForCallback


async def sign_in(
    url: str,
    browser: Browser,
    *,
    headers: Mapping[str, str],
    seconds: float,
    client_id: str = "",
    client_secret: str = "",
    known: Login | None = None,
) -> Login | None:
    """Sign in to a server, or `None` when it asks for no login.

    `known` is an earlier login: its registration is used again if it is for the same redirect address.
    """
    check_address(url, url)
    filter_sdk_logs()

    async def callback() -> AuthorizationCodeResult:
        values = callback_values(await browser.wait())
        return AuthorizationCodeResult(code=values["code"], state=values.get("state"), iss=values.get("iss"))

    async def redirect(address: str) -> None:
        check_address(address, url)
        methods = provider.challenge_methods
        if methods and "S256" not in methods:
            raise SourceError(
                "the authorization server does not offer S256, without which a code can be stolen: "
                "tell its operator"
            )
        await browser.show(address)

    provider = _Provider(
        url,
        OAuthClientMetadata(client_name="Skillwire", redirect_uris=[AnyUrl(browser.redirect_uri)]),
        _Memory(),
        redirect,
        callback,
    )
    if client_id:
        provider.use_client(client_id, client_secret, browser.redirect_uri)
    elif known is not None and browser.redirect_uri in (known.client.get("redirect_uris") or ()):
        provider.use_registration(known)
    async with _client(url, seconds, auth=provider) as http:
        try:
            asked = {**headers, "Accept": "application/json, text/event-stream"}
            async with http.stream("POST", url, json=_INITIALIZE, headers=asked) as response:
                session = response.headers.get("mcp-session-id")
            if session and response.is_success:
                await http.delete(url, headers={**headers, "mcp-session-id": session})
        except (OAuthFlowError, OAuthRegistrationError, OAuthTokenError) as error:
            raise _failure(error, provider.secrets) from None
        except ValidationError:
            raise SourceError("the authorization server answers with something that is not OAuth") from None
        except httpx2.TimeoutException:
            raise SourceError(f"no answer within {seconds:g} s") from None
        except httpx2.TransportError as error:
            raise SourceError(str(connect_failure(error))) from None
    login = provider.login()
    if login is None:
        return None
    if response.status_code in (401, 403):
        raise SourceError(
            f"the server does not accept the token that it had issued (HTTP {response.status_code})"
        )
    return login


async def renew(login: Login, *, seconds: float) -> Login | None:
    """The login with new tokens, or `None` when it cannot be renewed: the user must sign in again."""
    filter_sdk_logs()
    provider = _Provider.of(login)
    if provider is None or not login.refresh_token:
        return None
    try:
        async with _client(login.url, seconds) as http:
            response = await http.send(await provider.refresh_request())
            return provider.login() if await provider.take_refreshed(response) else None
    except (httpx2.HTTPError, SourceError, ValueError):
        return None


async def revoke(login: Login, *, seconds: float) -> bool:
    """Tell the authorization server that the tokens are no longer needed. Returns whether it accepted."""
    filter_sdk_logs()
    provider = _Provider.of(login)
    endpoint = str(login.server.get("revocation_endpoint") or "")
    if provider is None or not endpoint:
        return False
    taken = True
    try:
        async with _client(login.url, seconds) as http:
            for kind, token in (
                ("refresh_token", login.refresh_token),
                ("access_token", login.access_token),
            ):
                if token:
                    response = await http.send(provider.revocation_request(endpoint, kind, token))
                    taken = taken and response.is_success
    except (httpx2.HTTPError, SourceError, ValueError):
        return False
    return taken


class _Memory:
    """The SDK's storage during one flow. What is kept for longer is a `Login`."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Provider(OAuthClientProvider):
    """The SDK's client, with a way to begin where an earlier process ended."""

    @classmethod
    def of(cls, login: Login) -> _Provider | None:
        """A client that knows all that a login knows; `None` if that is not what it should be."""
        try:
            provider = cls(
                login.url,
                OAuthClientMetadata(client_name="Skillwire", redirect_uris=[AnyUrl("http://127.0.0.1/")]),
                _Memory(),
            )
            context = provider.context
            context.client_info = OAuthClientInformationFull.model_validate(login.client)
            context.oauth_metadata = OAuthMetadata.model_validate(login.server) if login.server else None
            if login.resource:
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(login.resource)
            context.current_tokens = OAuthToken(
                access_token=login.access_token,
                refresh_token=login.refresh_token or None,
                scope=login.scope or None,
            )
            check_address(provider.token_endpoint, login.url)
        except (ValidationError, SourceError):
            return None
        return provider

    def use_client(self, client_id: str, secret: str, redirect_uri: str) -> None:
        """Use a client that somebody registered by hand."""
        self.context.storage = storage = _Memory()
        storage.client = OAuthClientInformationFull(
            client_id=client_id,
            client_secret=secret or None,
            redirect_uris=[AnyUrl(redirect_uri)],
            token_endpoint_auth_method="client_secret_post" if secret else "none",
        )

    def use_registration(self, known: Login) -> None:
        """Use the registration of an earlier login, as long as it is the same authorization server."""
        try:
            client = OAuthClientInformationFull.model_validate(known.client)
        except ValidationError:
            return
        self.context.storage = storage = _Memory()
        storage.client = client

    @property
    def token_endpoint(self) -> str:
        return self._get_token_endpoint()

    @property
    def challenge_methods(self) -> list[str]:
        """The methods of PKCE that the authorization server lists; empty if it lists none."""
        metadata = self.context.oauth_metadata
        return (metadata.code_challenge_methods_supported if metadata is not None else None) or []

    @property
    def secrets(self) -> tuple[str, ...]:
        login = self.login()
        return login.secrets if login is not None else ()

    async def refresh_request(self) -> httpx2.Request:
        return await self._refresh_token()

    async def take_refreshed(self, response: httpx2.Response) -> bool:
        return await self._handle_refresh_response(response)

    def revocation_request(self, endpoint: str, kind: str, token: str) -> httpx2.Request:
        """RFC 7009."""
        check_address(endpoint, self.context.server_url)
        data = {"token": token, "token_type_hint": kind}
        if self.context.client_info is not None:
            data["client_id"] = self.context.client_info.client_id
        data, headers = self.context.prepare_token_auth(data, {})
        return httpx2.Request("POST", endpoint, data=data, headers=headers)

    def login(self) -> Login | None:
        """Return the result of the flow, if there are tokens."""
        context = self.context
        tokens = context.current_tokens
        if tokens is None or context.client_info is None:
            return None
        return Login(
            url=context.server_url,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or "",
            expires_at=context.token_expiry_time,
            scope=tokens.scope or "",
            client=_plain(context.client_info),
            server=_plain(context.oauth_metadata),
            resource=_plain(context.protected_resource_metadata),
        )


def _plain(model: Any) -> dict[str, Any]:
    return {} if model is None else model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _client(url: str, seconds: float, *, auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    transport = _CappedTransport(GuardedTransport(), url)
    return httpx2.AsyncClient(transport=transport, auth=auth, timeout=seconds, follow_redirects=False)


class _CappedTransport(httpx2.AsyncBaseTransport):
    """Requests go only where tokens may go, and answers have a limit in size."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, server: str) -> None:
        self._inner = inner
        self._server = server

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        check_address(str(request.url), self._server)
        request.headers["Accept-Encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = CappedBody(response.stream, _MOST_BYTES)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def check_address(url: str, server: str) -> None:
    """Refuse an address that tokens and codes must not go to.

    They go over TLS, or stay on this machine when the server itself is on it.
    """
    if not is_loopback(url) and urlsplit(url).scheme != "https":
        raise SourceError(f"{redact_url(url)} is not an address to sign in at: it must be an https:// URL")
    check_target(server, url)


def _failure(error: Exception, secrets: tuple[str, ...]) -> SourceError:
    said = redact(str(error), secrets)
    if isinstance(error, OAuthRegistrationError):
        return SourceError(
            "the authorization server does not register clients automatically: register one there and give "
            "its id with --client-id",
            said=said,
        )
    return SourceError("the login failed", said=said)


PATH: Final = "/callback"
_MOST_HEAD_BYTES: Final = 32 * 1024
_HEAD_SECONDS: Final = 10.0
_BROKEN: Final = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.DelimiterNotFound,
    anyio.BrokenResourceError,
    OSError,
)
_PAGE: Final = (
    '<!doctype html><meta charset="utf-8"><title>Skillwire</title>'
    '<body style="font: 1rem system-ui; margin: 4rem auto; max-width: 32rem"><h1>{}</h1><p>{}</p>'
)


class LoopbackListener:
    """Waits for the browser. `redirect_uri` is where it has to be sent."""

    def __init__(self, listener: anyio.abc.Listener[anyio.abc.SocketStream], port: int) -> None:
        self._listener = listener
        self.redirect_uri = redirect_uri(port)
        self._state = ""
        self._address = ""
        self._came = anyio.Event()

    def expect(self, authorization_url: str) -> None:
        """Wait for the end of this login, and of no other."""
        self._state = (parse_qs(urlsplit(authorization_url).query).get("state") or [""])[0]

    async def wait(self, seconds: float) -> str:
        """The address that the browser was sent to."""
        with anyio.move_on_after(seconds):
            await self._came.wait()
            return self._address
        raise SourceError(f"the login was not finished within {seconds:g} s: run the command again")

    async def serve(self) -> None:
        await self._listener.serve(self._answer)

    async def _answer(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with anyio.move_on_after(_HEAD_SECONDS), suppress(*_BROKEN):
                received = BufferedByteReceiveStream(stream)
                head = await received.receive_until(b"\r\n\r\n", _MOST_HEAD_BYTES)
                status, title, text = self._take(head.partition(b"\r\n")[0].decode("latin-1"))
                body = _PAGE.format(title, text).encode()
                await stream.send(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
                    f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
                    "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n".encode()
                    + body
                )

    def _take(self, request_line: str) -> tuple[str, str, str]:
        """The status, title and text of the answer to a request."""
        method, _, rest = request_line.partition(" ")
        target = rest.partition(" ")[0]
        if method != "GET" or urlsplit(target).path != PATH:
            return "404 Not Found", "Nothing here", "This address is only for the end of a login."
        values = parse_qs(urlsplit(target).query)
        state = (values.get("state") or [""])[0]
        if not self._state or not secrets.compare_digest(state.encode(), self._state.encode()):
            return "400 Bad Request", "Not this login", "This is not the login that is under way."
        self._address = target
        self._came.set()
        if "error" in values:
            return "200 OK", "Not signed in", "The terminal says why. You can close this page."
        return "200 OK", "Almost done", "Go back to the terminal. You can close this page."


def redirect_uri(port: int) -> str:
    """Where a browser is sent to. By address: `localhost` may be another program's (RFC 8252, 8.3)."""
    return f"http://127.0.0.1:{port}{PATH}"


@asynccontextmanager
async def listening(port: int) -> AsyncGenerator[LoopbackListener]:
    """Listen on a port of this machine; 0 is any free one."""
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError as error:
        raise SourceError(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror}; choose another with --port"
        ) from None
    chosen = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - no Django
    async with listener, anyio.create_task_group() as tasks:
        server = LoopbackListener(listener, chosen)
        tasks.start_soon(server.serve)
        try:
            yield server
        finally:
            tasks.cancel_scope.cancel()


def callback_values(address: str) -> dict[str, str]:
    """Return the values of the address that a browser is sent to at the end: a code, or why there is none."""
    text = address.strip()
    query = urlsplit(text).query if "?" in text else text
    values = {name: given[0] for name, given in parse_qs(query).items()}
    if "error" in values:
        said = ": ".join(values[name] for name in ("error", "error_description") if name in values)
        raise SourceError("the authorization server refused", said=said)
    if "code" not in values:
        raise SourceError(
            "that address has no code in it: paste the whole address that the browser was sent to, "
            "including everything after the question mark"
        )
    return values


_RENEWAL_PAUSE: Final = 0.05


class LoginTokens:
    """The access token of a login for one connection, renewed when it has expired."""

    def __init__(
        self, store: LoginStore, identity: str, *, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._identity = identity
        self._seconds = seconds
        self._clock = clock
        self._lock = anyio.Lock()
        self._login: Login | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._login.secrets if self._login is not None else ()

    async def get(self) -> str:
        """The token to send; empty when there is none that is valid."""
        async with self._lock:
            if self._login is None:
                self._login = await anyio.to_thread.run_sync(self._store.get, self._identity)
            if self._login is not None and not self._login.is_current(self._clock()):
                await self._renew(self._login)
            return self._token()

    async def after_refusal(self, refused: str) -> str:
        """A token other than the one that a server refused; empty when there is none."""
        async with self._lock:
            if self._login is not None and self._login.access_token == refused:
                await self._renew(self._login)
            token = self._token()
            return token if token != refused else ""

    def _token(self) -> str:
        login = self._login
        return login.access_token if login is not None and login.is_current(self._clock()) else ""

    async def _renew(self, old: Login) -> None:
        """Renew the login, or use what another process has renewed."""
        with anyio.move_on_after(self._seconds):
            while True:
                with self._store.renewing(self._identity) as ours:
                    stored = await anyio.to_thread.run_sync(self._store.get, self._identity)
                    if stored is None or stored.access_token != old.access_token:
                        self._login = stored
                        return
                    if ours:
                        new = await renew(old, seconds=self._seconds)
                        if new is not None:
                            self._login = new
                            await anyio.to_thread.run_sync(self._store.put, self._identity, new)
                        return
                await anyio.sleep(_RENEWAL_PAUSE)
