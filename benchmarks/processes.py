"""ServerProcess: a contestant in a process of its own, on a core of its own, with what it costs."""

from __future__ import annotations

import os
import re
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS: Final = 10
_URL: Final = re.compile(
    rb"http://[0-9a-z.]+:[1-9]\d*"
)  # Port 0 asks for a free port; it is not where the server listens.


class ServerFailed(Exception):
    """A server ended, or did not do what it was asked for."""


class TooSlow(ServerFailed):
    """A server took longer to answer than any client would wait."""


class Cores:
    """Which core servers run on and which one the load comes from, where the system allows pinning."""

    def __init__(self) -> None:
        allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
        self.server, self.client = ({allowed[0]}, {allowed[-1]}) if len(allowed) > 1 else (set(), set())

    @property
    def are_apart(self) -> bool:
        return bool(self.server)

    def pin_client(self) -> None:
        if self.are_apart:
            os.sched_setaffinity(0, self.client)

    def pin_server(self) -> None:
        """What this thread starts from now on, until `pin_client`, runs on the core of servers."""
        if self.are_apart:
            os.sched_setaffinity(0, self.server)


class ServerProcess:
    """A running server. `url` is where it said that it listens, empty for one over stdio."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        over_http: bool,
        cores: Cores,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._over_http = over_http
        env = {name: value for name, value in os.environ.items() if not name.startswith("SKILLWIRE_")}
        # A program that was edited and may not keep its bytecode would be compiled at every start.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        cores.pin_server()
        try:
            self.started = time.perf_counter()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if over_http else subprocess.PIPE,
                stdout=subprocess.DEVNULL if over_http else subprocess.PIPE,
                stderr=subprocess.PIPE if over_http else self._said,
                env={**env, **(environment or {})},
                bufsize=0,
            )
        finally:
            cores.pin_client()
        self.url = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> int:
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    @property
    def stdout(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)

    def await_url(self, timeout: float) -> None:
        """Wait for the line that has the URL; keep reading so that the server never blocks."""
        assert self._process.stderr is not None
        stream = self._process.stderr
        held = b""
        while not self.url:
            if not select.select([stream], [], [], timeout)[0]:
                raise TooSlow(f"the server was silent for {timeout:.0f} seconds")
            piece = os.read(stream.fileno(), 65536)
            if not piece:
                raise ServerFailed(
                    f"the server ended before it listened: {held[-300:].decode('utf-8', 'replace')}"
                )
            held += piece
            if (found := _URL.search(held)) and b"\n" in held[found.end() :]:
                self.url = found.group().decode()
        threading.Thread(target=_drain, args=(stream.fileno(),), daemon=True).start()

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        self._said.seek(0)
        return self._said.read()[-300:].decode("utf-8", "replace")

    def cpu_seconds(self) -> float:
        """What the process and its children have used, in user and kernel."""
        return sum(map(_cpu_of, _family(self.pid)))

    def peak_bytes(self) -> int:
        """The most memory that the process and its children have held (VmHWM)."""
        return sum(map(_peak_of, _family(self.pid)))

    def wait(self) -> int:
        """Wait for the end of a server that was told to end; its exit code."""
        return self._process.wait(6 * _STOP_SECONDS)

    def stop(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        if self._over_http:
            self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 65536):
            pass
    except OSError:
        pass  # Closed with the process.


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            found += _family(int(child))
    return found


def _cpu_of(pid: int) -> float:
    # The name of the program, in brackets, may hold anything; numbers come after the last bracket.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS


def _peak_of(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0
