"""Why a connection failed and what to do about it, for hosts, fetches and `skillwire verify`."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx2

from skillwire.text import redact_url, shown

_MOST_CAUSES: Final = 20
_MCP_PATH: Final = "most servers answer at /mcp"


class Failure(NamedTuple):
    """What failed and what the user can do. A few words of others are quoted, safe to print."""

    reason: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.advice}" if self.advice else self.reason


def connect_failure(error: Exception, url: str = "") -> Failure:
    """Why there is no connection. Give the `url` where the reader does not see it: its host is then named."""
    host = _host(url)
    it, there = (host, f"at {host}") if host else ("it", "there")
    for cause in _causes(error):
        match cause:
            case OSError(errno=errno.EMFILE | errno.ENFILE):
                return Failure("too many files are open here", "allow more with `ulimit -n`")
            case socket.gaierror():
                name = host.partition(":")[0]
                return Failure(
                    f"the name {name} cannot be resolved" if name else "there is no such host",
                    "check the spelling of the URL, and the network",
                )
            case ssl.SSLCertVerificationError():
                return Failure(
                    f"the certificate of {host or 'the server'} is not trusted: "
                    f"{shown(cause.verify_message, 80)}",
                    "for a private certificate authority set SSL_CERT_FILE",
                )
            case ssl.SSLEOFError():
                return Failure(f"{it} ends the connection during the TLS handshake")
            case ssl.SSLError() if "_ALERT_" in str(cause):
                return Failure(f"{it} refuses the TLS handshake: {shown(str(cause), 80)}")
            case ssl.SSLError():
                plain = f"http://{host}{shown(urlsplit(url).path, 200)}" if host else "http://"
                return Failure(f"{it} does not answer with TLS", f"try {plain} instead of https://")
            case _:
                pass
    match error:
        case httpx2.TimeoutException():
            return Failure(f"{it} does not answer in time", "check the address")
        case httpx2.ConnectError():
            return Failure(f"nothing listens {there}", "start the server, or check the address and the port")
        case httpx2.ProxyError():
            return Failure(
                f"the HTTP proxy refuses: {shown(str(error), 80)}", "check HTTPS_PROXY and HTTP_PROXY"
            )
        case httpx2.UnsupportedProtocol():
            return Failure(shown(str(error), 200))
        case httpx2.TransportError():
            broke = f"the connection to {host} broke" if host else "the connection broke off"
            return Failure(broke, "if the server uses TLS, try https://" if url.startswith("http:") else "")
        case _:
            return Failure(shown(str(error), 200) or type(error).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What was sent with a request, and how the user passes something better."""

    has_login: bool = False
    has_token: bool = False
    log_in: str
    """How to log in with OAuth."""
    give_token: str
    if_refused: str
    """What to do about a token that is not accepted."""


_BY_STATUS: Final = {
    403: Failure(
        "the server does not let us in", "check the token, and whether the server allows this address"
    ),
    404: Failure("there is no MCP server at that URL", _MCP_PATH),
    405: Failure("that URL does not accept POST", f"check its path, {_MCP_PATH}"),
    407: Failure("the HTTP proxy requires authentication", "check HTTPS_PROXY and HTTP_PROXY"),
    421: Failure(
        "the server does not accept this host name", "add it there (skillwire serve --allow-host NAME)"
    ),
    429: Failure("the server limits the rate of requests", "try again later"),
}


def status_failure(status: int, headers: Mapping[str, str], credentials: Credentials) -> Failure:
    """What an HTTP response means that is no message of MCP. The keys of `headers` are in lower case."""
    if status == 401:
        return _unauthorized(headers, credentials)
    if status in _BY_STATUS:
        failure = _BY_STATUS[status]
    elif 300 <= status < 400:
        location = shown(redact_url(headers.get("location", "")), 200)
        failure = Failure("the server redirects", f"use {location} instead" if location else "")
    elif status >= 500:
        failure = Failure("the server, or a proxy in front of it, failed", "look at its log")
    elif status >= 400:
        failure = Failure("the server refuses the request")
    else:
        kind = (
            shown(headers.get("content-type", "").partition(";")[0].lower(), 60) or "something without a type"
        )
        return Failure(f"it answers with {kind}, which is not MCP", "check the path of the URL, often /mcp")
    return Failure(f"{failure.reason} (HTTP {status})", failure.advice)


def _unauthorized(headers: Mapping[str, str], credentials: Credentials) -> Failure:
    if credentials.has_login:
        reason, advice = "your login there has expired or was revoked", credentials.log_in
    elif credentials.has_token:
        reason, advice = "the server does not accept the token it was given", credentials.if_refused
    elif "resource_metadata" in headers.get("www-authenticate", "").lower():
        reason, advice = "the server wants you to sign in", credentials.log_in
    else:
        reason, advice = "the server wants a token", credentials.give_token
    return Failure(f"{reason} (HTTP 401)", advice)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_MOST_CAUSES):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        return shown(f"{host}:{parts.port}" if parts.port else host, 120)
    except ValueError:
        return ""
