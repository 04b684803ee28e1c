"""Terminal: a command on a terminal, for what is said and asked only there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

SKILLWIRE = str(Path(sys.executable).parent / "skillwire")
SECONDS = 180


def _as_a_shell_would() -> None:
    """Give the new session its controlling terminal, and Ctrl-C its effect: a job that was started in the
    background ignores SIGINT, and its children inherit that."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command on a terminal of eighty columns, and a person who types."""

    def __init__(
        self,
        *arguments: str,
        program: str = SKILLWIRE,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """`program` is Skillwire by default; `env` is added to the environment."""
        self._shown = ""
        self._mine, theirs = pty.openpty()
        environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1", **(env or {})}
        self._process = subprocess.Popen(
            [program, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_as_a_shell_would,
        )
        os.close(theirs)

    @property
    def screen(self) -> str:
        """What was printed, without colors and the like."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._shown)

    @property
    def raw(self) -> str:
        """What was printed, with every control character."""
        return self._shown

    @property
    def memory(self) -> int:
        """The bytes of memory that the command has now."""
        resident = Path(f"/proc/{self._process.pid}/statm").read_text("ascii").split()[1]
        return int(resident) * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """End the command without a chance to write anything."""
        self._process.kill()
        self._process.wait(SECONDS)

    def wait_for(self, text: str, count: int = 1, *, after: str = "") -> None:
        """Wait until something is printed so many times, below the first place of `after` if given."""
        end = time.monotonic() + SECONDS
        while (self.screen.partition(after)[2] if after else self.screen).count(text) < count:
            assert self._take(end), self.screen

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def answer(self, question: str, text: str) -> None:
        """Wait for a question and type an answer."""
        self.wait_for(question)
        self.type(text)

    def end(self) -> int:
        end = time.monotonic() + SECONDS
        while self._take(end):
            pass
        os.close(self._mine)
        self._process.kill()  # No effect on what has ended.
        return self._process.wait(SECONDS)

    def _take(self, end: float) -> bool:
        """Take what is printed next; false when nothing more comes before the end."""
        ready, _, _ = select.select([self._mine], [], [], max(end - time.monotonic(), 0))
        if not ready:
            return False
        try:
            data = os.read(self._mine, 65536)
        except OSError:  # The other end is closed: the command is over.
            self._process.wait(SECONDS)
            return False
        self._shown += data.decode("utf-8", "replace")
        return bool(data)
