"""The options by which every host command says where skills come from, and the host that they give."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

if TYPE_CHECKING:
    from skillwire.host.approvals.approver import ApprovalCallback
    from skillwire.host.config.merge import HostConfig
    from skillwire.host.config.server import ServerConfig
    from skillwire.host.host import SkillHost

Result = TypeVar("Result")

Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="A name that `skillwire list` shows, or a URI.")
]
Servers: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--server", metavar="NAME=PLACE", help="An MCP server: NAME=URL or 'NAME=command args'. Repeatable."
    ),
]
Directories: TypeAlias = Annotated[
    list[Path] | None, typer.Option("--dir", metavar="PATH", help="A directory of skills. Repeatable.")
]
NoUsual: TypeAlias = Annotated[
    bool, typer.Option("--no-usual", help="Leave out .agents/skills and .claude/skills, here and at home.")
]
ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Read this file instead of the user's and the project's."),
]
Profile: TypeAlias = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="Use this profile of the configuration.")
]
On: TypeAlias = Annotated[
    str | None,
    typer.Option("--on", metavar="SERVER", help="The server that a URI is on, when several are there."),
]
StyleName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--style", metavar="STYLE", help="Treat skills as another host does: wayland, gemini, codex, goose."
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def chosen(
    servers: list[str] | None,
    directories: list[Path] | None,
    no_usual: bool,
    config: Path | None,
    profile: str | None,
) -> HostConfig:
    """What the files say, and what the options add to it."""
    from dataclasses import replace

    from skillwire.host.config.file import load_config

    base = load_config(file=config, profile=profile)
    given = dict(base.servers)
    for text in servers or ():
        label, server = _server(text)
        if label.casefold() in {known.casefold() for known in given}:
            raise typer.BadParameter(
                f"a server is called {label} already: choose another name", param_hint="--server"
            )
        given[label] = server
    for directory in directories or ():
        if not directory.expanduser().is_dir():
            raise typer.BadParameter(f"{directory} is no directory", param_hint="--dir")
    return replace(
        base,
        servers=given,
        directories=(*base.directories, *(directories or ())),
        usual=base.usual and not no_usual,
    )


def style_words(style: str | None) -> str:
    """The option again, for a command that is suggested: a name may mean nothing in another style."""
    return "" if style is None else f" --style {style}"


def with_host(
    config: HostConfig,
    action: Callable[[SkillHost], Awaitable[Result]],
    *,
    ask: ApprovalCallback | None = None,
    style: str | None = None,
) -> Result:
    """Open a host, do something with it, and close it. On a terminal one sees who is waited for."""
    import asyncio

    from skillwire.cli.output import complain, log_to_stderr
    from skillwire.errors import SkillNotFound
    from skillwire.host.events import EventKind
    from skillwire.host.host import SkillHost
    from skillwire.host.styles import DEFAULT

    async def run() -> Result:
        host = SkillHost(
            servers=config.servers,
            directories=config.directories,
            usual=config.usual,
            disabled=config.disabled,
            untrusted=config.untrusted,
            ask=ask,
            style=style or DEFAULT,
        )
        waiting = (
            asyncio.ensure_future(_show_waiting(host)) if config.servers and sys.stderr.isatty() else None
        )
        try:
            await host.__aenter__()
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
        try:
            return await action(host)
        except SkillNotFound:
            # It may be on a server that could not be asked.
            for event in host.events_so_far():
                if event.kind is EventKind.FAILURE:
                    complain(event.message)
            raise
        finally:
            await host.close()

    log_to_stderr()
    return asyncio.run(run())


async def _show_waiting(host: SkillHost) -> None:
    """Say on standard error which servers have not answered yet, until cancelled."""
    import asyncio

    from rich.console import Console
    from rich.text import Text

    def words() -> Text:
        names = [server.label for server in host.servers() if server.status == "connecting"]
        listed = f"{', '.join(names[:4])}{' and more' if len(names) > 4 else ''}"
        return Text(f"Connecting to {listed} ..." if names else "Asking for skills ...")

    with Console(stderr=True).status(words()) as status:
        while True:
            await asyncio.sleep(0.1)
            status.update(words())


def _server(text: str) -> tuple[str, ServerConfig]:
    from skillwire.errors import SkillwireError
    from skillwire.host.config.server import parse_server
    from skillwire.trust.origin import Origin

    label, sign, place = text.partition("=")
    if not sign or not place.strip():
        raise typer.BadParameter("write NAME=URL or 'NAME=command args'", param_hint="--server")
    try:
        return Origin.mcp(label.strip()).label, parse_server(place.strip())
    except SkillwireError as error:
        raise typer.BadParameter(str(error), param_hint="--server") from None
