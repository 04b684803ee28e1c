"""ServerProcess: a started MCP server, with lines over its standard input and output. It replaces the SDK's
for two reasons: lines are limited while they arrive (SEC-9), and the server's standard error never reaches
our terminal. Its last lines are the reason if the server fails.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.abc

from skillwire.errors import LimitExceeded, SourceError
from skillwire.issues import shown
from skillwire.sources.command_line import resolve_program, server_environment, withheld_variables

_GRACE_SECONDS: Final = 2.0
_KEPT_LINES: Final = 20
_SHOWN_LINES: Final = 10
_KEPT_CHARS: Final = 500
_STRAY_CHARS: Final = 100


class ServerProcess:
    """A running server. `lines` yields its output; `send` writes to its input."""

    def __init__(
        self, process: anyio.abc.Process, *, line_bytes: int, environment: Mapping[str, str]
    ) -> None:
        self._process = process
        self._environment = environment
        self._line_bytes = line_bytes
        self._error_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._errors_ended = anyio.Event()
        self.stray_line = ""

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines that the server wrote to standard error, safe to print."""
        return tuple(line for line in self._error_lines if line)[-_SHOWN_LINES:]

    @property
    def withheld(self) -> tuple[str, ...]:
        """The variables that were not passed on and that its output mentions."""
        return withheld_variables(self._error_lines, os.environ, self._environment)

    async def exit_code(self) -> int | None:
        """The exit code of a server that has ended, after its standard error was read; otherwise `None`."""
        with anyio.move_on_after(_GRACE_SECONDS):
            await self._errors_ended.wait()
            return await self._process.wait()
        return None

    def note_stray(self, line: bytes) -> None:
        """Remember the first line on standard output that is not a message, which is a common mistake."""
        self.stray_line = self.stray_line or shown(line.decode("utf-8", "replace").strip(), _STRAY_CHARS)

    async def lines(self) -> AsyncIterator[bytes]:
        """Complete lines as they arrive. A line beyond the limit ends the connection."""
        output = self._process.stdout
        if output is None:
            raise AssertionError("the process was started with pipes")
        held = bytearray()
        async for chunk in output:
            # Only new bytes are searched, so that a long line takes linear time.
            first, *rest = chunk.split(b"\n")
            held += first
            for part in rest:
                self._check_length(held)
                # Keep at most one copy of a long line, and none while the next one arrives.
                line, held = [bytes(held)], bytearray(part)
                yield line.pop()
            self._check_length(held)

    def _check_length(self, line: bytearray) -> None:
        if len(line) > self._line_bytes:
            raise LimitExceeded(f"an answer of more than {self._line_bytes:,} bytes: the server is cut off")

    async def send(self, line: bytes) -> None:
        if self._process.stdin is None:
            raise AssertionError("the process was started with pipes")
        await self._process.stdin.send(line + b"\n")

    async def collect_error_lines(self) -> None:
        """Keep the last lines of standard error. Runs concurrently."""
        errors = self._process.stderr
        if errors is None:
            raise AssertionError("the process was started with pipes")
        rest = ""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for chunk in errors:
                *lines, rest = (rest + chunk.decode("utf-8", "replace")).split("\n")
                self._error_lines.extend(shown(line.strip(), _KEPT_CHARS) for line in lines)
                rest = rest[-_KEPT_CHARS:]
        self._error_lines.append(shown(rest.strip(), _KEPT_CHARS))
        self._errors_ended.set()

    async def stop(self) -> None:
        """Close its input, wait a moment, then end it and its children."""
        if self._process.stdin is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                await self._process.stdin.aclose()
        with anyio.move_on_after(_GRACE_SECONDS) as waiting:
            await self._process.wait()
        if waiting.cancelled_caught:
            self._signal(signal.SIGTERM)
            with anyio.move_on_after(_GRACE_SECONDS) as waiting:
                await self._process.wait()
        # Children may outlive their parent; they are in its process group.
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        with anyio.move_on_after(_GRACE_SECONDS):
            await self._process.wait()
        await self._process.aclose()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)


def safe_directory() -> str:
    """The working directory of a server without a configured one: the user's home. Our own working directory
    may be somebody else's repository, whose packages, modules and settings the server would use.
    """
    home = Path.home()
    return str(home) if home.is_dir() else home.anchor or os.sep


@asynccontextmanager
async def running(
    command: Sequence[str], *, env: Mapping[str, str], directory: str, line_bytes: int
) -> AsyncGenerator[ServerProcess]:
    """Start a server, and stop it when the block ends."""
    windows = os.name == "nt"
    environment = server_environment(os.environ, env, windows=windows)
    try:
        process = await anyio.open_process(
            resolve_program(command, shutil.which, windows=windows),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=directory or None,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise SourceError(f"the command {shown(command[0])} is not installed, or not on the PATH") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"the command {shown(command[0])} cannot be started: {reason}") from None
    server = ServerProcess(process, line_bytes=line_bytes, environment=environment)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.collect_error_lines)
        try:
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                await server.stop()
            tasks.cancel_scope.cancel()
