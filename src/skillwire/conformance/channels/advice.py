"""What went wrong on the way to a server over HTTP, and what the user can do about it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx2

from skillwire.issues import shown
from skillwire.text import redact_url

_HTML: Final = ("text/html", "application/xhtml+xml")
_BY_STATUS: Final = {
    401: "the server requires a token, or does not accept the one it got: pass one with --token-env VARIABLE "
    "or --header 'Authorization: Bearer ...'",
    403: "the server refuses this client: check the token and whether the server allows this address",
    404: "there is no MCP endpoint at this path: most servers answer at /mcp",
    405: "this path does not accept POST: check the path of the MCP endpoint, most servers answer at /mcp",
    407: "the HTTP proxy requires authentication: check HTTPS_PROXY and HTTP_PROXY",
    421: "the server does not accept this host name: add it there (skillwire serve --allow-host NAME)",
    429: "the server limits the rate of requests: try again later",
}


def status_failure(status: int, headers: Mapping[str, str], kind: str) -> tuple[str, str]:
    """The reason and the advice for an HTTP response that is not a JSON-RPC message."""
    what = f"with {shown(kind, 60)}" if kind else "without a Content-Type"
    reason = f"HTTP {status} {what}"
    if 300 <= status < 400 and (location := headers.get("location", "")):
        return reason, f"the server redirects: verify {shown(redact_url(location), 200)} instead"
    if status == 401 and "resource_metadata" in headers.get("www-authenticate", ""):
        return reason, (
            "the server requires an OAuth login: pass an access token with --token-env VARIABLE, or add the "
            "server and run `skillwire servers login NAME`"
        )
    if status in _BY_STATUS:
        return reason, _BY_STATUS[status]
    if status >= 500:
        return reason, "the server or a proxy in front of it failed: look at its log"
    if kind in _HTML:
        return reason, "this is a web page, not an MCP endpoint: most servers answer at /mcp"
    return reason, ""


def connect_failure(error: Exception, url: str) -> tuple[str, str]:
    """The reason and the advice for a connection that failed."""
    parts = urlsplit(url)
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {_host(url)} is not trusted: {shown(cause.verify_message, 80)}",
                "for a private certificate authority set SSL_CERT_FILE",
            )
        if isinstance(cause, ssl.SSLError) or "WRONG_VERSION_NUMBER" in str(cause):
            return (
                f"{_host(url)} does not answer with TLS",
                f"it may be a plain HTTP server: try http://{_host(url)}{parts.path}",
            )
    text = str(error)
    if isinstance(error, httpx2.TimeoutException):
        return f"no connection to {_host(url)} in time", "check the address, or give it longer with --timeout"
    if isinstance(error, httpx2.ConnectError):
        if "Name or service" in text or "getaddrinfo" in text or "nodename" in text or "resolution" in text:
            return (
                f"the name {shown(parts.hostname or '', 100)} cannot be resolved",
                "check the spelling of the URL",
            )
        return f"nothing answers at {_host(url)}", "start the server, or check the address and the port"
    if parts.scheme == "http" and isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError):
        return (
            f"the connection to {_host(url)} broke: {type(error).__name__}",
            "if the server uses TLS, try https://",
        )
    return f"the connection to {_host(url)} broke: {type(error).__name__}", ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen = 0
    while error is not None and seen < 20:
        yield error
        error = error.__cause__ or error.__context__
        seen += 1


def _host(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    try:
        return shown(f"{host}:{parts.port}" if parts.port else host, 120)
    except ValueError:
        return shown(host, 120)
