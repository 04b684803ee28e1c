"""The only way out of a sandbox with `net:` grants: a proxy that connects to the granted hosts alone.

The sandbox has a network of its own with nothing in it but loopback. A listening socket is made inside that
network, and accepted from outside: so a program that ignores the proxy reaches nothing at all.

1. A request is `CONNECT host:port`, or a plain one with an absolute http URL. Everything else is refused.
2. Host and port are granted, letter by letter. A grant without a port is for 80 and 443.
3. The proxy resolves the name. Every address must be as public as the grant says (`net.addresses`): a public
   name never leads to a private address, to this machine or to the metadata service of a cloud. What was
   checked is what is connected to.
4. A plain request goes out with the granted host in its `Host`, once, with exactly the body that it
   announced. Redirects are not followed: the next request is checked like any other.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from skillwire.errors import SkillwireError
from skillwire.net.addresses import Reachability, parse_address, reach_of, reach_of_address
from skillwire.sandbox.plan import PROXY_PORT, split_host

_HEAD_BYTES: Final = 64 * 1024
_CHUNK: Final = 64 * 1024
_CONNECTIONS: Final = 32
_SECONDS: Final = 10
_DEFAULT_PORTS: Final = (80, 443)
_HOP_BY_HOP: Final = (b"host", b"connection", b"proxy-", b"keep-alive", b"te:", b"trailer", b"upgrade")

# Enters the user namespace that owns the network, then the network; only a process with one thread can.
_LISTEN: Final = """
import ctypes, fcntl, os, socket, sys
network = os.open(f"/proc/{sys.argv[1]}/ns/net", os.O_RDONLY)
owner = fcntl.ioctl(network, 0xB701)
enter = ctypes.CDLL(None, use_errno=True).setns
for namespace, kind in ((owner, 0x10000000), (network, 0x40000000)):
    if enter(namespace, kind):
        sys.exit(os.strerror(ctypes.get_errno()))
listener = socket.create_server(("", int(sys.argv[2])), backlog=64)
socket.send_fds(socket.socket(fileno=int(sys.argv[3])), [b"+"], [listener.fileno()])
"""


class Refused(Exception):
    """Why a request is not sent on, with the status that says so."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def allowed_host(host: str, port: int, granted: Iterable[str]) -> str:
    """The grant that names this host and port; empty if none does."""
    name = host.lower().removesuffix(".")
    for grant in granted:
        granted_name, granted_port = split_host(grant)
        ports = (granted_port,) if granted_port else _DEFAULT_PORTS
        if name == granted_name.removesuffix(".") and port in ports:
            return granted_name
    return ""


def listen_inside(pid: int) -> socket.socket:
    """A socket that listens in the network of another process, for `Proxy`."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(_SECONDS)
        command = [sys.executable, "-I", "-S", "-c", _LISTEN, str(pid), str(PROXY_PORT), str(theirs.fileno())]
        helper = subprocess.Popen(  # noqa: S603 - our own text
            command, pass_fds=[theirs.fileno()], env={}, stderr=subprocess.PIPE
        )
        theirs.close()
        try:
            descriptors = socket.recv_fds(ours, 1, 1)[1]
            _, said = helper.communicate(timeout=_SECONDS)
        except (TimeoutError, subprocess.TimeoutExpired):
            helper.kill()
            helper.communicate()
            descriptors, said = [], b"it did not answer"
    if not descriptors:
        why = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SkillwireError(f"the network of the sandbox cannot be reached for its proxy: {why}")
    return socket.socket(fileno=descriptors[0])


class Proxy:
    """Serves one sandbox until it is closed."""

    def __init__(
        self, listener: socket.socket, granted: Collection[str], *, any_address: bool = False
    ) -> None:
        """With `any_address`, a granted name may lead to a private address: the user configured it."""
        self._listener = listener
        self._granted = tuple(granted)
        self._any_address = any_address
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        self.refused: set[str] = set()
        """The hosts that were asked for and are not granted, at most a few."""
        self.bytes = 0
        """What was sent and received."""

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End every connection. Threads end by themselves."""
        with self._lock:
            connections, self._open = list(self._open), set()
            # `shutdown` wakes the threads that wait for these; `close` alone would not.
            for one in [self._listener, *connections]:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not self._slots.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)
        try:
            connection.settimeout(_SECONDS)
            with suppress(OSError):
                try:
                    self._answer(connection)
                except Refused as refused:
                    text = f"skillwire: {refused}\n".encode()
                    head = f"HTTP/1.1 {refused.status}\r\nContent-Length: {len(text)}\r\n"
                    connection.sendall(head.encode() + b"Connection: close\r\n\r\n" + text)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()
            self._slots.release()

    def _answer(self, connection: socket.socket) -> None:
        head, rest = _read_head(connection)
        method, host, port, path, headers = parse_request(head)
        with self._connect(host, port) as upstream:
            with self._lock:
                self._open.add(upstream)
            try:
                if method == b"CONNECT":
                    connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    upstream.sendall(rest)
                    self._pump(connection, upstream, None)
                else:
                    body = content_length(headers)
                    name = f"{host}:{port}" if port != 80 else host
                    lines = [
                        b"%s %s HTTP/1.1" % (method, path),
                        b"Host: " + name.encode(),
                        b"Connection: close",
                    ]
                    lines += [line for line in headers if not line.lower().startswith(_HOP_BY_HOP)]
                    upstream.sendall(b"\r\n".join([*lines, b"", b""]) + rest[:body])
                    self._pump(connection, upstream, max(0, body - len(rest)))
            finally:
                with self._lock:
                    self._open.discard(upstream)

    def _connect(self, host: str, port: int) -> socket.socket:
        granted = allowed_host(host, port, self._granted)
        if not granted:
            if len(self.refused) < 16:
                self.refused.add(host if port in _DEFAULT_PORTS else f"{host}:{port}")
            raise Refused("403 Forbidden", f"{host}:{port} is not granted to this script")
        try:
            literal = parse_address(granted)
            found = socket.getaddrinfo(str(literal or granted.strip("[]")), port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise Refused("502 Bad Gateway", f"{host} has no address") from None
        least = Reachability.MACHINE if self._any_address else reach_of(granted)
        problem = "cannot be reached"
        for family, kind, protocol, _, address in found:
            checked = parse_address(str(address[0]))
            if checked is None or reach_of_address(checked) < least:
                raise Refused("403 Forbidden", f"{host} leads to a private address, which is not granted")
            upstream = socket.socket(family, kind, protocol)
            upstream.settimeout(_SECONDS)
            try:
                upstream.connect(address)
            except OSError:
                upstream.close()
                continue
            return upstream
        raise Refused("502 Bad Gateway", f"{host}:{port} {problem}")

    def _pump(self, inside: socket.socket, outside: socket.socket, body: int | None) -> None:
        """Pass bytes on in both directions; of a plain request, only `body` more bytes go out."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(outside, selectors.EVENT_READ)
            if body is None or body:
                waiting.register(inside, selectors.EVENT_READ)
            while outside in {key.fileobj for key in waiting.get_map().values()}:
                for one in [key.fileobj for key, _ in waiting.select()]:
                    source, target = (outside, inside) if one is outside else (inside, outside)
                    to_read = _CHUNK if body is None or source is outside else min(_CHUNK, body)
                    data = source.recv(to_read)
                    self.bytes += len(data)
                    target.sendall(data)
                    if source is inside and body is not None:
                        body -= len(data)
                    if not data or (source is inside and body == 0):
                        waiting.unregister(source)
                    if not data:
                        with suppress(OSError):
                            target.shutdown(socket.SHUT_WR)


def parse_request(head: bytes) -> tuple[bytes, str, int, bytes, list[bytes]]:
    """The method, host, port, path and header lines of a request to a proxy, or `Refused`."""
    first, *headers = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or words[2] not in (b"HTTP/1.1", b"HTTP/1.0") or not words[0].isalpha():
        raise Refused("400 Bad Request", "it is not a request to a proxy")
    if any(
        not line.isascii() or b"\n" in line or b"\r" in line or line[:1] in b" \t" or b":" not in line
        for line in headers
    ):
        raise Refused("400 Bad Request", "its headers are not well formed")
    try:
        target = words[1].decode("ascii")
        url = urlsplit(f"//{target}" if words[0] == b"CONNECT" else target)
        host, port = url.hostname, url.port
    except ValueError:
        raise Refused("400 Bad Request", "its target is not well formed") from None
    is_tunnel = words[0] == b"CONNECT"
    plain = not is_tunnel and url.scheme == "http"
    if not host or "@" in url.netloc or "%" in host or not (plain or (is_tunnel and port and not url.path)):
        raise Refused("400 Bad Request", "only CONNECT host:port and http://host/ are sent on")
    host = f"[{host}]" if ":" in host else host
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return words[0], host, 80 if port is None else port, path.encode("ascii"), headers


def content_length(headers: Iterable[bytes]) -> int:
    """How many bytes of body a request announces. Only a plain length is understood."""
    lengths: set[bytes] = set()
    for line in headers:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"transfer-encoding":
            raise Refused("411 Length Required", "a body needs a Content-Length")
        if name.strip().lower() == b"content-length":
            lengths.add(value.strip())
    if not lengths:
        return 0
    length = lengths.pop()
    if lengths or not length.isdigit() or len(length) > 12:
        raise Refused("400 Bad Request", "its Content-Length is not a number")
    return int(length)


def _read_head(connection: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(_CHUNK)
        data += more
        if not more or len(data) > _HEAD_BYTES:
            raise Refused("400 Bad Request", "it is not a request to a proxy")
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest
