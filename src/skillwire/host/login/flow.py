"""Signing in, renewing and signing out, with the MCP SDK's OAuth client.

The SDK finds the authorization server, registers us there, and exchanges codes for tokens. Ours is the rest:
every answer has a size limit (SEC-9), no token is sent in the clear, and what is learned once is kept, so
that a later process can renew a token without asking the server for it all again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
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
from skillwire.host.http.client import ssl_trust, transport_words
from skillwire.host.login.callback import callback_values
from skillwire.host.login.store import Login
from skillwire.host.sdk import filter_sdk_logs
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
            raise SourceError(transport_words(error)) from None
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
    """What the SDK keeps during one flow. What is kept for longer is a `Login`."""

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
        """What was learned, if there are tokens."""
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
    transport = _CappedTransport(httpx2.AsyncHTTPTransport(verify=ssl_trust()), url)
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
            response.stream = _CappedBody(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CappedBody(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for chunk in self._inner:
            taken += len(chunk)
            if taken > _MOST_BYTES:
                raise SourceError(f"an answer of more than {_MOST_BYTES:,} bytes: it is cut off")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def check_address(url: str, server: str) -> None:
    """Refuse an address that tokens and codes must not go to.

    They go over TLS, or stay on this machine when the server itself is on it.
    """
    scheme = urlsplit(url).scheme
    if is_loopback(url) and not is_loopback(server):
        raise SourceError(
            f"{redact_url(url)} is an address of this machine: a server elsewhere must not name one"
        )
    if scheme != "https" and not (scheme == "http" and is_loopback(url)):
        raise SourceError(f"{redact_url(url)} is not an address to sign in at: it must be an https:// URL")


def is_loopback(url: str) -> bool:
    """Whether a URL is one of this machine."""
    host = (urlsplit(url).hostname or "").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _failure(error: Exception, secrets: tuple[str, ...]) -> SourceError:
    said = redact(str(error), secrets)
    if isinstance(error, OAuthRegistrationError):
        return SourceError(
            "the authorization server does not register clients automatically: register one there and give "
            "its id with --client-id",
            said=said,
        )
    return SourceError("the login failed", said=said)
