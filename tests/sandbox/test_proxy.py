from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from typing import Any

import pytest

from skillwire.sandbox.proxy import Proxy, Refused, allowed_host, content_length, parse_request


@pytest.mark.parametrize(
    ("host", "port", "is_allowed"),
    [
        *(("api.example.org", 443, True), ("api.example.org", 80, True), ("API.example.org.", 443, True)),
        *(("api.example.org", 8443, False), ("example.org", 443, False), ("x.api.example.org", 443, False)),
        *(("db.example.org", 5432, True), ("db.example.org", 443, False), ("[2001:db8::1]", 443, True)),
    ],
)
def test_only_granted_hosts_and_ports_are_allowed(host: str, port: int, is_allowed: bool) -> None:
    granted = ("api.example.org", "db.example.org:5432", "[2001:db8::1]")
    assert bool(allowed_host(host, port, granted)) is is_allowed


def test_a_request_is_read() -> None:
    head = b"GET http://api.example.org:8080/a?b=c HTTP/1.1\r\nHost: x\r\nA: b"
    assert parse_request(head) == (b"GET", "api.example.org", 8080, b"/a?b=c", [b"Host: x", b"A: b"])
    assert parse_request(b"CONNECT [::1]:443 HTTP/1.1") == (b"CONNECT", "[::1]", 443, b"/", [])
    assert content_length([b"Content-Length: 12"]) == 12
    assert content_length([]) == 0


@pytest.mark.parametrize(
    "head",
    [
        *(
            b"",
            b"GET / HTTP/1.1",
            b"GET http:///x HTTP/1.1",
            b"GET https://a/ HTTP/1.1",
            b"CONNECT a HTTP/1.1",
        ),
        *(
            b"CONNECT a:b HTTP/1.1",
            b"CONNECT a:443/x HTTP/1.1",
            b"GET http://u@a/ HTTP/1.1",
            b"GET http://a/ HTTP/2",
        ),
        *(
            b"GET http://a/ HTTP/1.1\r\nA: b\r\n folded",
            b"GET http://a/ HTTP/1.1\r\nA: b\nC: d",
            b"GET http://a%2f/ HTTP/1.1",
        ),
        *(
            b"GET http://a/ HTTP/1.1\r\nno colon",
            "GET http://ä/ HTTP/1.1".encode(),
            b"GET  http://a/ HTTP/1.1",
        ),
    ],
)
def test_anything_else_is_refused(head: bytes) -> None:
    with pytest.raises(Refused):
        parse_request(head)


@pytest.mark.parametrize(
    "headers",
    [[b"Transfer-Encoding: chunked"], [b"Content-Length: x"], [b"Content-Length: 1", b"Content-Length: 2"]],
)
def test_a_body_without_a_plain_length_is_refused(headers: list[bytes]) -> None:
    with pytest.raises(Refused):
        content_length(headers)


@pytest.fixture
def upstream() -> Generator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def ask(grant: str, request: bytes, *, any_address: bool = False) -> bytes:
    proxy = Proxy(socket.create_server(("127.0.0.1", 0)), [grant], any_address=any_address)
    port = proxy._listener.getsockname()[1]  # pyright: ignore[reportPrivateUsage]
    proxy.start()
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(request)
            data = b""
            while more := connection.recv(65536):
                data += more
            return data
    finally:
        proxy.close()


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1"]
)
def test_a_public_name_never_leads_to_a_private_address(
    monkeypatch: pytest.MonkeyPatch, upstream: int, address: str
) -> None:
    real = socket.getaddrinfo

    def resolve(host: str, port: int, *args: Any, **options: Any) -> Any:
        return real(address if host == "api.example.org" else host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    request = f"GET http://api.example.org:{upstream}/ HTTP/1.1\r\n\r\n".encode()
    answer = ask(f"api.example.org:{upstream}", request)
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"private address" in answer
    if address == "127.0.0.1":  # A host that the user configured for this purpose may.
        assert ask(f"api.example.org:{upstream}", request, any_address=True).endswith(b"ok")


def test_a_private_address_that_is_granted_is_reached(upstream: int) -> None:
    request = f"CONNECT 127.0.0.1:{upstream} HTTP/1.1\r\n\r\n".encode()
    with_body = request + b"GET / HTTP/1.0\r\n\r\n"
    assert ask(f"127.0.0.1:{upstream}", with_body).endswith(b"ok")
    assert ask("127.0.0.2", with_body).startswith(b"HTTP/1.1 403")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert ask(f"127.0.0.1:{port}", f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode()).startswith(
        b"HTTP/1.1 502"
    )
