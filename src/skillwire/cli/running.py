"""Running a server from the command line: its address, its instructions, and signals that end it cleanly."""

from __future__ import annotations

import gc
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.parser import UsageError
from skillwire.collector import start_collector
from skillwire.errors import SourceError
from skillwire.files import unreadable

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from skillwire.server.http.server import Address


def run_until_signal(
    task: Callable[[], Awaitable[None]],
    *,
    stop: Callable[[], None] | None = None,
    on_hangup: Callable[[], object] | None = None,
) -> None:
    """Run until the task ends or a signal arrives; both end it cleanly.

    `stop` ends the task; without it the task is canceled. `on_hangup` is called on SIGHUP.
    """
    import asyncio

    # Startup is done. Its objects are excluded from garbage collection, so that no response waits for that.
    gc.freeze()
    start_collector()

    async def main() -> None:
        running = asyncio.ensure_future(task())
        is_ending = False

        def end() -> None:
            nonlocal is_ending
            is_ending = True
            (stop or running.cancel)()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt instead.
                loop.add_signal_handler(number, end)
        if on_hangup is not None and hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, on_hangup)
        try:
            await running
        except (asyncio.CancelledError, Exception):
            # A message in flight is cut off when the streams close. That is a normal end, not a failure.
            if not is_ending:
                raise

    with (
        suppress(KeyboardInterrupt),
        asyncio.Runner(loop_factory=_loop_factory(fast=stop is not None)) as runner,
    ):
        runner.run(main())


def _loop_factory(*, fast: bool) -> Callable[[], AbstractEventLoop] | None:
    """A faster event loop for HTTP, if it is installed; pipes gain nothing from it."""
    if not fast:
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def listen_address(text: str, *, has_token: bool, unsafe_no_auth: bool, how: str) -> Address:
    """The address to listen on. One that others can reach needs a token; `how` says how to give one."""
    from skillwire.server.http.server import parse_address

    address = parse_address(text)
    if not address.is_loopback and not has_token and not unsafe_no_auth:
        raise SourceError(
            f"{address.host} can be reached by others: give a token with {how}, or add --unsafe-no-auth"
        )
    return address


def refuse_without_http(options: object, *more: str) -> None:
    """Refuse options that do nothing over stdio: nobody should rely on a protection that is not there."""
    fields = ("token_file", "allow_host", "stateless", "access_log", *more)
    given = [f"--{field.replace('_', '-')}" for field in fields if getattr(options, field)]
    if given:
        raise UsageError(f"{', '.join(given)} needs --http: add --http HOST:PORT, or leave it out")


def read_instructions(given: str | None) -> str | None:
    """The instructions for clients: text, or `@FILE` for the text in a file."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise SourceError(f"the instructions in {given[1:]} cannot be read: {unreadable(error)}") from None
