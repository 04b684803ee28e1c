"""Who asks a person: the callback of the host, or of the block that a call is made in, and the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Generic, TextIO, TypeVar, cast

from skillwire.clients import running_agent
from skillwire.errors import ApprovalRequired

Callback = TypeVar("Callback")

_REPLACED: Final[ContextVar[Mapping[object, object]]] = ContextVar("replaced callbacks", default={})  # noqa: B039


class ScopedCallback(Generic[Callback]):
    """The callback that asks the user: that of the enclosing `replaced` block, or the host's own."""

    def __init__(self, given: Callback | None) -> None:
        self._given = given

    @property
    def current(self) -> Callback | None:
        return cast("Callback | None", _REPLACED.get().get(self, self._given))

    @contextmanager
    def replaced(self, callback: Callback) -> Generator[None]:
        """Inside the block, calls of this task use this callback."""
        token = _REPLACED.set({**_REPLACED.get(), self: callback})
        try:
            yield
        finally:
            _REPLACED.reset(token)


NO_TERMINAL: Final = (
    "there is no terminal to ask on: run this in one, over SSH with `ssh -t`, or use the review page"
)
"""Why nobody was asked, and what a person does then."""
_LINE_BYTES: Final = 4096


def require_person(act: str, *, page: bool = True, environment: Mapping[str, str] | None = None) -> None:
    """Return if no known agent runs this process; otherwise raise an `ApprovalRequired`.

    `act` is what only a person does, such as "approving a skill"; with `page`, it can be done on the review
    page as well. The message names no command: it is read by the model whose agent ran this one.
    """
    agent = running_agent(os.environ if environment is None else environment)
    if agent is not None:
        elsewhere = ", or on the review page" if page else ""
        raise ApprovalRequired(
            f"{act} is up to a person, and this was run by {agent}: nothing was done. The user can do it in "
            f"a terminal of their own, outside of any agent{elsewhere}",
            reason="person",
            origin="",
            uri="",
        )


class PersonTerminal:
    """The controlling terminal: what is asked is shown and answered there."""

    def __init__(self, answers: TextIO, screen: TextIO) -> None:
        self._answers = answers
        self.screen = screen

    async def answer(self) -> str:
        """The next line that is typed, in lowercase. A question that is canceled reads nothing more: what is
        typed after it is for whoever reads next.
        """
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[str] = loop.create_future()

        def read() -> str:
            try:
                # A terminal gives whole lines, and no more than this of one.
                return os.read(self._answers.fileno(), _LINE_BYTES).decode("utf-8", "replace")
            except (OSError, ValueError):  # The terminal is gone.
                return ""

        try:
            loop.add_reader(self._answers.fileno(), lambda: _settle(answered, read()))
        except (NotImplementedError, PermissionError):  # A console of Windows, and a file in a test.
            return (await read_line(self._answers)).strip().lower()
        try:
            return (await answered).strip().lower()
        finally:
            loop.remove_reader(self._answers.fileno())

    def forget_typed_ahead(self) -> None:
        """Discard what was typed before a question is shown: it is no answer to it."""
        forget_typed_ahead(self._answers)


def forget_typed_ahead(answers: TextIO) -> None:
    """Discard what was typed at a terminal before a question is shown: it is no answer to it."""
    with suppress(ImportError, OSError, ValueError):
        if sys.platform == "win32":
            import msvcrt

            while msvcrt.kbhit():
                msvcrt.getwch()
        else:
            import termios

            termios.tcflush(answers.fileno(), termios.TCIFLUSH)


async def read_line(answers: TextIO) -> str:
    """Read a line in a thread that is not waited for: Ctrl-C ends the question at once."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        line = answers.readline()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, answered, line)

    threading.Thread(target=read, daemon=True).start()
    return await answered


def _settle(answered: asyncio.Future[str], line: str) -> None:
    if not answered.done():
        answered.set_result(line)


def open_terminal(platform: str = sys.platform) -> PersonTerminal | None:
    """The controlling terminal of this process, or its console on Windows; `None` if it has none."""
    names = ("CONIN$", "CONOUT$") if platform == "win32" else ("/dev/tty", "/dev/tty")
    answers, screen = map(Path, names)
    with ExitStack() as opened:
        try:
            # A terminal has no position to seek to, so it is opened once for each direction.
            reader = opened.enter_context(answers.open(encoding="utf-8", errors="replace"))
            writer = opened.enter_context(screen.open("w", encoding="utf-8", errors="backslashreplace"))
            # Whoever reads from a terminal in the background is stopped, and nobody sees why.
            if platform != "win32" and os.tcgetpgrp(reader.fileno()) != os.getpgrp():
                return None
        except OSError:
            return None
        opened.pop_all()
        return PersonTerminal(reader, writer)
