"""`skillwire ui`: the review page of a host, in a browser."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.cli.output import info, is_terminal, write
from skillwire.errors import SourceError
from skillwire.version import pip_command

if TYPE_CHECKING:
    from skillwire.access import Callers
    from skillwire.host import SkillHost
    from skillwire.server import Address
    from skillwire.ui import ReviewApp


def ui(
    *,
    http: str | None,
    allow_host: tuple[str, ...],
    token_file: Path | None,
    open_browser: bool,
    options: HostOptions,
) -> None:
    """Serve the review page until a signal ends it."""
    from skillwire.access import TokenFile
    from skillwire.consent import require_person
    from skillwire.server import parse_address

    # Whoever has the link approves.
    require_person("opening the review page", page=False)
    require_packages()
    address = parse_address(http or "127.0.0.1:0")
    tokens = TokenFile(token_file) if token_file is not None else None
    if not address.is_loopback and tokens is None:
        raise SourceError(
            f"{address.host} can be reached from other machines, and whoever opens the page approves skills "
            "for you: give a token with --token-file, which everybody must enter"
        )

    settings = options.settings()

    async def action(host: SkillHost) -> None:
        await _serve(
            host,
            address,
            names=allow_host,
            tokens=tokens,
            open_browser=open_browser,
            options=options,
            hidden=lambda: settings.hidden(host.admin.servers()),
        )

    with_host(options, action, watch=True, cached=False)


async def _serve(
    host: SkillHost,
    address: Address,
    *,
    names: Iterable[str],
    tokens: Callers | None,
    open_browser: bool,
    options: HostOptions,
    hidden: Callable[[], Sequence[str]],
) -> None:
    from skillwire.cli.install_setup import installer, workspace
    from skillwire.evals import selection_figures
    from skillwire.server import HttpServer
    from skillwire.server.http.server import listen
    from skillwire.ui import ReviewApp

    listening = listen(address)
    port = listening.getsockname()[1]
    loopback = ("127.0.0.1", "localhost", "[::1]")
    own = () if address.host in ("0.0.0.0", "::") else (address.shown_host,)  # noqa: S104 - compared, not used
    known = tuple(
        dict.fromkeys((*own, *names, *loopback) if address.is_loopback else (*names, *own, *loopback))
    )
    app = ReviewApp(
        host,
        names=known,
        port=port,
        tokens=tokens,
        installers={
            "project": lambda: installer(workspace(user=False), options),
            "user": lambda: installer(workspace(user=True), options),
        },
        hidden=hidden,
        figures=selection_figures,
    )
    server = HttpServer(app, address, listening=listening, path="/")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt instead.
            loop.add_signal_handler(number, server.stop)
    app.prepare()
    link = app.link()
    write(link)
    if not address.is_loopback:
        info(
            "Other machines can reach this page. Whoever has the token approves skills for you, and nothing "
            "is encrypted: put a proxy with TLS in front of it."
        )
    info(
        "Press Ctrl-C to stop."
        + (" Press Enter for another link: each works once." if is_terminal(sys.stdin) else "")
    )
    if open_browser:
        await asyncio.to_thread(_open_browser, link)
    more = asyncio.ensure_future(_give_links(app)) if is_terminal(sys.stdin) else None
    try:
        await server.serve()
    finally:
        if more is not None:
            more.cancel()


async def _give_links(app: ReviewApp) -> None:
    """Print a new link whenever Enter is pressed."""
    from skillwire.consent.ask import read_line

    while await read_line(sys.stdin):
        write(app.link())


def _open_browser(link: str) -> None:
    import webbrowser

    with suppress(webbrowser.Error):
        webbrowser.open(link)


def require_packages() -> None:
    """Say what to install when the packages of the page are not there."""
    from importlib.util import find_spec

    missing = [name for name in ("jinja2", "markdown_it", "starlette") if find_spec(name) is None]
    if missing:
        raise SourceError(f"the review page needs more packages: {pip_command('ui')}")
