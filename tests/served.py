"""`skillwire serve` in a process of its own, as clients and operators meet it, and a relay before several."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import urljoin

import httpx2 as httpx

from waiting import PATIENCE, eventually

SKILLWIRE = str(Path(sys.executable).parent / "skillwire")

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Served:
    """A running server. What it writes is taken in as it comes, so that it never has to wait for us."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        self.said: list[str] = []
        self._heard: queue.Queue[str | None] = queue.Queue()
        assert process.stderr is not None
        self._readers: list[threading.Thread] = []
        self._read(self._hear, process.stderr)

    def listen(self) -> None:
        """Take in standard output, line by line."""
        assert self.process.stdout is not None
        self._read(self._drain, self.process.stdout)

    def wait_until_it_says(self, pattern: str) -> re.Match[str]:
        """The match of the first line on standard error that has the pattern."""
        while (line := self._heard.get(timeout=PATIENCE)) is not None:
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"it ended without saying {pattern!r}: {self.said}")

    def send(self, *messages: Mapping[str, Any] | bytes) -> None:
        assert self.process.stdin is not None
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next line on standard output, which must be JSON."""
        line = self.lines.get(timeout=PATIENCE)
        assert line is not None, f"it ended: {self.said}"
        return json.loads(line)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """A request on the 2025 era, and its answer."""
        self.send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        answer = self.receive()
        assert answer["id"] == method
        return answer

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def all_it_said(self) -> str:
        """Standard error to its end, once the process has ended."""
        self.process.wait(PATIENCE)
        self._readers[0].join(PATIENCE)
        return "".join(self.said)

    def kill(self) -> None:
        """End the process, if it still runs, and read what it wrote: its streams can be closed then."""
        self.process.kill()
        for reader in self._readers:
            reader.join(PATIENCE)

    def _read(self, read: Callable[[IO[bytes]], None], stream: IO[bytes]) -> None:
        self._readers.append(threading.Thread(target=read, args=(stream,), daemon=True))
        self._readers[-1].start()

    def _drain(self, stream: IO[bytes]) -> None:
        for line in stream:
            self.lines.put(line)
        self.lines.put(None)

    def _hear(self, stream: IO[bytes]) -> None:
        for line in stream:
            self.said.append(line.decode())
            self._heard.put(self.said[-1])
        self._heard.put(None)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Nobody's own settings, a token above all, reach a server under test."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SKILLWIRE_")}
    return {**own, **(extra or {})}


@contextmanager
def serving(*arguments: object, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Run `skillwire serve` until the block ends."""
    process = subprocess.Popen(
        [SKILLWIRE, "serve", *map(str, arguments)],
        env=environment(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell without job control starts what is in the background with interrupts ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with process:
        served = Served(process)
        try:
            yield served
        finally:
            served.kill()


@contextmanager
def serving_stdio(*arguments: object, handshake: bool = True) -> Iterator[Served]:
    """A server on pipes, with the handshake of the 2025 era behind it."""
    with serving(*arguments) as served:
        served.listen()
        if handshake:
            served.send(INITIALIZE)
            assert served.receive()["result"]["protocolVersion"] == "2025-11-25"
            served.send(INITIALIZED)
        yield served


@contextmanager
def serving_http(*arguments: object, env: Mapping[str, str] | None = None) -> Iterator[tuple[str, Served]]:
    """A server on a free port, with its URL."""
    with serving(*arguments, "--http", "127.0.0.1:0", env=env) as served:
        yield served.wait_until_it_says(r"http://\S+")[0], served


def wait_until_ready(url: str) -> None:
    """Return when each server behind a gateway has answered or failed: until then, some may not be listed."""
    # Without TLS there is nothing to verify, and reading certificates would take longer than the request.
    with httpx.Client(timeout=PATIENCE, verify=False) as client:
        # It may have to start several of them.
        eventually(lambda: client.get(urljoin(url, "/readyz")).status_code == 200, patience=5 * PATIENCE)


class Relay(threading.Thread):
    """Passes TCP connections on to the replicas in turn, as a proxy does."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__(daemon=True)
        self._ports = ports
        self._turn = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self.url = ""

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._pass, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._started.set()
        self._loop.run_forever()
        server.close()
        self._drop()
        self._loop.run_until_complete(asyncio.sleep(0.1))
        self._loop.close()

    def wait(self) -> None:
        self._started.wait(PATIENCE)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        for _ in self._ports:
            self._turn += 1
            with suppress(OSError):
                port = self._ports[self._turn % len(self._ports)]
                there, sending = await asyncio.open_connection("127.0.0.1", port)
                self._open.add(sending)
                await asyncio.gather(_copy(reader, sending), _copy(there, writer))
                self._open.discard(sending)
                break
        self._open.discard(writer)
        writer.close()

    def drop(self) -> None:
        """End every connection in the middle of whatever it does."""
        self._loop.call_soon_threadsafe(self._drop)

    def _drop(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.join(PATIENCE)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
