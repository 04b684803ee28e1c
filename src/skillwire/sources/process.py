"""Programs that are servers: the command line of one, how it is started, and how it ends."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

import anyio
import anyio.abc

from skillwire.errors import LimitExceeded, SourceError
from skillwire.text import shown

_SHIMS: Final = (".cmd", ".bat")
_NOT_IN_A_BATCH: Final = frozenset("\r\n\0")
_PLAIN_IN_A_BATCH: Final = re.compile(r"[\w.:/\\@+~-]+", re.ASCII)
_BACKSLASHES_BEFORE_QUOTE: Final = re.compile(r'(\\+)("|\Z)')
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9_]{3,}\b")
_INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_INHERITED_ON_WINDOWS: Final = (
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
)
_PROXIES: Final = frozenset(
    name
    for upper in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    for name in (upper, upper.lower())
)
# Needed for network access behind a proxy or with custom certificates.
GATEWAYS: Final = "SKILLWIRE_GATEWAYS"
"""The variable with the gateways that a server is started by, so that none starts itself again."""
_NETWORK: Final = (
    *sorted(_PROXIES),
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)


def split_command(text: str, *, windows: bool) -> tuple[str, ...]:
    """The words of a command line; `ValueError` if a quote is not closed.

    On Windows a backslash is part of a path, unless it precedes a double quote; single quotes group words
    too.
    """
    if not windows:
        return tuple(shlex.split(text))
    words: list[str] = []
    word, quote, started = "", "", False
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and text[position + 1 : position + 2] == '"' and quote != "'":
            word, started = word + '"', True
            position += 1
        elif quote:
            if char == quote:
                quote = ""
            else:
                word += char
        elif char == '"' or (char == "'" and not word):
            quote, started = char, True
        elif char.isspace():
            if started or word:
                words.append(word)
            word, started = "", False
        else:
            word += char
        position += 1
    if quote:
        raise ValueError("No closing quotation")
    if started or word:
        words.append(word)
    return tuple(words)


def resolve_program(
    words: Sequence[str], which: Callable[[str], str | None], *, windows: bool
) -> tuple[str, ...] | str:
    """The command with the full path of its program on Windows, where `npx` is `npx.cmd`. A batch file is
    started through the command interpreter. A program that is not found is unchanged. Raises `ValueError` if
    an argument cannot be passed to a batch file.
    """
    if not windows or not words:
        return tuple(words)
    found = which(words[0])
    if found is None:
        return tuple(words)
    if found.lower().endswith(_SHIMS):
        return batch_line((found, *words[1:]))
    return (found, *words[1:])


def batch_line(words: Sequence[str]) -> str:
    """A line with which `cmd.exe` starts a batch file with exactly these words, and does nothing else. In
    quotes, `cmd` leaves every character unchanged except for the quote, which is doubled, and the percent
    sign, which is followed by an empty expansion so that it does not begin a variable.
    """
    return " ".join(map(_batch_word, words))


def _batch_word(word: str) -> str:
    if _NOT_IN_A_BATCH & set(word):
        raise ValueError("an argument with a line break cannot be given to a batch file")
    if _PLAIN_IN_A_BATCH.fullmatch(word):
        return word
    quoted = _BACKSLASHES_BEFORE_QUOTE.sub(lambda match: match[1] * 2 + match[2], word)
    return '"' + quoted.replace('"', '""').replace("%", "%%cd:~,%") + '"'


def absolute_entries(path: str, *, windows: bool) -> str:
    """The PATH without relative entries, so that nothing in the working directory is found."""
    separator, kind = (";", PureWindowsPath) if windows else (":", PurePosixPath)
    return separator.join(entry for entry in path.split(separator) if kind(entry).is_absolute())


def anchored_program(word: str, folder: str, *, windows: bool) -> str:
    """The program of a command in a file: a relative path is relative to the folder of the file. A bare name
    is unchanged, and looked up on the PATH.
    """
    kind = PureWindowsPath if windows else PurePosixPath
    separators = {"/", "\\"} if windows else {"/"}
    if not separators & set(word) or kind(word).is_absolute():
        return word
    return str(kind(folder) / word)


def server_environment(ours: Mapping[str, str], given: Mapping[str, str], *, windows: bool) -> dict[str, str]:
    """The environment of a started server: basic variables, and those in its configuration. The rest of our
    environment may contain other secrets. A proxy is passed on unless its URL contains a password.
    """
    names = _INHERITED_ON_WINDOWS if windows else _INHERITED
    found = {name: ours[name] for name in (*names, *_NETWORK, GATEWAYS) if name in ours}
    found = {name: value for name, value in found.items() if name not in _PROXIES or "@" not in value}
    environment = {**found, **given}
    if "PATH" in environment:
        environment["PATH"] = absolute_entries(environment["PATH"], windows=windows)
    return environment


def withheld_variables(
    output: Iterable[str], ours: Mapping[str, str], passed: Mapping[str, str]
) -> tuple[str, ...]:
    """The variables that are set here, were not passed on, and are mentioned in a server's last output."""
    words = {word for line in output for word in _VARIABLE.findall(line)}
    return tuple(sorted(word for word in words if word in ours and word not in passed))


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
