"""One table says why a connection failed, and what to do about it."""

from __future__ import annotations

import errno
import socket
import ssl

import httpx2
import pytest

from skillwire.net import Credentials, connect_failure, status_failure

URL = "https://user:secret@skills.example:8443/mcp?key=secret"
CREDENTIALS = Credentials(log_in="log in", give_token="give a token", if_refused="give another")


def caused_by(cause: BaseException) -> httpx2.ConnectError:
    error = httpx2.ConnectError("All connection attempts failed")
    error.__cause__ = RuntimeError("between them")
    error.__cause__.__context__ = cause
    return error


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] failed")
    error.verify_message = "self-signed\x1b[2J certificate"
    return error


@pytest.mark.parametrize(
    ("error", "words", "named"),
    [
        (caused_by(OSError(errno.EMFILE, "x")), "too many files are open here: allow", ""),
        (caused_by(socket.gaierror(-2, "x")), "there is no such host: check", "name skills.example cannot"),
        (
            caused_by(untrusted()),
            "certificate of the server is not trusted: self-signed",
            "skills.example:8443 is",
        ),
        (
            caused_by(ssl.SSLEOFError(8, "x")),
            "it ends the connection during the TLS",
            "skills.example:8443 ends",
        ),
        (
            caused_by(ssl.SSLError(1, "[SSL: SSLV3_ALERT_HANDSHAKE_FAILURE] sslv3")),
            "it refuses the TLS handshake: ",
            "skills.example:8443 refuses",
        ),
        (
            caused_by(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong")),
            "it does not answer with TLS: try http:// instead of https://",
            "try http://skills.example:8443/mcp instead",
        ),
        (httpx2.ReadTimeout(""), "it does not answer in time", "skills.example:8443 does not answer in time"),
        (
            caused_by(ConnectionRefusedError()),
            "nothing listens there: start",
            "listens at skills.example:8443",
        ),
        (httpx2.ProxyError("407 x"), "the HTTP proxy refuses: 407 x: check HTTPS_PROXY", ""),
        (httpx2.UnsupportedProtocol("Unknown protocol"), "Unknown protocol", ""),
        (httpx2.RemoteProtocolError(""), "the connection broke off", "to skills.example:8443 broke"),
        (ValueError("a\nb"), "a", ""),
        (ValueError(), "ValueError", ""),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else "",
)
def test_a_failed_connection_is_explained_in_one_line(error: Exception, words: str, named: str) -> None:
    assert words in str(connect_failure(error))
    explained = str(connect_failure(error, URL))
    assert named in explained
    assert explained.isprintable()
    assert "secret" not in explained


def test_a_refused_handshake_is_no_reason_to_do_without_tls() -> None:
    error = caused_by(ssl.SSLError(1, "[SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert"))
    assert "http://" not in str(connect_failure(error, URL))


def test_a_connection_that_breaks_without_tls_may_have_needed_it() -> None:
    error = httpx2.ReadError("")
    assert (
        connect_failure(error, "http://skills.example/mcp").advice == "if the server uses TLS, try https://"
    )
    assert connect_failure(error, "https://skills.example/mcp").advice == ""
    assert connect_failure(error, "http://[x").reason == "the connection broke off"


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (401, {}, "the server wants a token (HTTP 401): give a token"),
        (401, {"www-authenticate": "Bearer Resource_Metadata=x"}, "wants you to sign in (HTTP 401): log in"),
        (403, {}, "does not let us in (HTTP 403): check the token"),
        (418, {}, "the server refuses the request (HTTP 418)"),
        (
            302,
            {"location": "https://u:secret@new.example/mcp"},
            "redirects (HTTP 302): use https://new.example",
        ),
        (302, {}, "the server redirects (HTTP 302)"),
        (503, {}, "the server, or a proxy in front of it, failed (HTTP 503): look at its log"),
        (200, {"content-type": "Text/HTML; charset=x"}, "it answers with text/html, which is not MCP: check"),
        (200, {}, "it answers with something without a type, which is not MCP"),
    ],
)
def test_a_status_is_explained_in_one_line(status: int, headers: dict[str, str], words: str) -> None:
    explained = str(status_failure(status, headers, CREDENTIALS))
    assert words in explained
    assert "secret" not in explained


@pytest.mark.parametrize(
    ("has_login", "has_token", "words"),
    [
        (True, True, "your login there has expired or was revoked (HTTP 401): log in"),
        (False, True, "the server does not accept the token it was given (HTTP 401): give another"),
    ],
)
def test_a_401_depends_on_what_was_sent(*, has_login: bool, has_token: bool, words: str) -> None:
    sent = Credentials(
        has_login=has_login, has_token=has_token, log_in="log in", give_token="", if_refused="give another"
    )
    assert str(status_failure(401, {}, sent)) == words
