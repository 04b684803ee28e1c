"""Running a server: its address, its instructions, its log, and signals that end it cleanly."""

from __future__ import annotations

import gc
import json
import logging
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from skillwire.cli.output import printable, verbosity
from skillwire.errors import SourceError, UsageError
from skillwire.files import unreadable

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from skillwire.limits import Limits
    from skillwire.server import Address, HttpFrontend, HttpServer, ToolsMode

_SWITCH_SECONDS: Final = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """The options of every command that serves, as they were given."""

    http: str | None
    allow_host: tuple[str, ...]
    token_file: Path | None
    unsafe_no_auth: bool
    stateless: bool
    metrics: str | None
    access_log: bool
    log_format: Literal["text", "json"]
    rate: int | None
    max_requests: int | None
    max_failed_tokens: int | None
    max_connections: int | None
    max_connections_per_address: int | None
    max_body_bytes: int | None
    max_sessions: int | None
    max_views: int | None
    session_timeout: float | None
    head_timeout: float | None
    body_timeout: float | None
    write_timeout: float | None
    idle_timeout: float | None
    store: str | None
    name: str | None
    instructions: str | None
    ttl: float
    page_size: int
    tools: ToolsMode
    prompts: bool


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
    gc.enable()
    # How long a response waits for each thread that works, such as one with a publication: by default 5 ms.
    sys.setswitchinterval(_SWITCH_SECONDS)

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
    from skillwire.server import parse_address

    address = parse_address(text)
    if not address.is_loopback and not has_token and not unsafe_no_auth:
        raise SourceError(
            f"{address.host} can be reached by others: give a token with {how}, or add --unsafe-no-auth"
        )
    return address


def refuse_without_http(options: ServingOptions, *more: str) -> None:
    """Refuse options that do nothing over stdio: nobody should rely on a protection that is not there."""
    fields = ("token_file", "allow_host", "stateless", "access_log", "metrics", *more)
    given = [f"--{field.replace('_', '-')}" for field in fields if getattr(options, field)]
    if given:
        raise UsageError(f"{', '.join(given)} needs --http: add --http HOST:PORT, or leave it out")


def http_limits(options: ServingOptions) -> Limits:
    """The limits of an HTTP server that the options of a command set."""
    from skillwire.cli.commands.publish import LIMIT_FIELDS
    from skillwire.limits import Limits

    given = {limit: getattr(options, field) for field, limit in LIMIT_FIELDS.items()}
    return Limits(**{limit: value for limit, value in given.items() if value is not None})


def serve_http(
    server: HttpServer,
    frontend: HttpFrontend[Any, Any],
    *,
    metrics: str | None,
    limits: Limits,
    on_hangup: Callable[[], object] | None = None,
) -> None:
    """Serve over HTTP until a signal, with a listener for the metrics if there is an address for it."""
    from skillwire.cli.output import info
    from skillwire.server import METRICS_PATH, HttpServer, OperatorApp, parse_address

    if metrics is None:
        run_until_signal(server.serve, stop=server.stop, on_hangup=on_hangup)
        return
    own = HttpServer(OperatorApp(frontend), parse_address(metrics), path=METRICS_PATH, limits=limits)
    info(f"Metrics at {own.url}, without a token")

    async def serve() -> None:
        import asyncio

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(own.serve())
            try:
                await server.serve()
            finally:
                own.stop()

    run_until_signal(serve, stop=server.stop, on_hangup=on_hangup)


def read_instructions(given: str | None) -> str | None:
    """The instructions for clients: text, or `@FILE` for the text in a file."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise SourceError(f"the instructions in {given[1:]} cannot be read: {unreadable(error)}") from None


class _TextFormatter(logging.Formatter):
    """Log lines may quote what a client sent. Each is one line; of a traceback, only the error."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(f"skillwire: {_kind(record)}: {_message(record)}")


class _JsonFormatter(logging.Formatter):
    """One JSON object per line. The fields of an access log record are members of it."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line |= {"event": _kind(record), **fields}
        else:
            line["message"] = _message(record)
        return json.dumps(line)


def log_to_stderr(*, as_json: bool = False, access_log: bool = False, changes: bool = False) -> None:
    """Send warnings to standard error; with `--verbose` also what libraries do.

    `access_log` and `changes` add a line for each HTTP request and for each skill that changed.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else _TextFormatter())
    logging.basicConfig(
        level=(logging.ERROR, logging.WARNING, logging.INFO)[verbosity() + 1], handlers=[handler], force=True
    )
    requests = logging.getLogger("skillwire.access")
    requests.disabled = not access_log  # Not its level: that would silence the modules of this package too.
    requests.setLevel(logging.INFO if access_log else logging.NOTSET)
    logging.getLogger("skillwire.changes").setLevel(
        logging.INFO if changes and verbosity() >= 0 else logging.CRITICAL
    )


def _kind(record: logging.LogRecord) -> str:
    """The level, or what an informational line is about."""
    area = record.name.rpartition(".")[2]
    return area if area in ("access", "changes") else record.levelname.lower()


def _message(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    text = record.getMessage()
    return text if error is None else f"{text}: {type(error).__name__}: {error}"
