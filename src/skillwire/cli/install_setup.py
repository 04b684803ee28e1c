"""What the installing commands share: the workspace, the sources, the questions and the progress."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from skillwire.cli.output import counted, info, printable
from skillwire.errors import ApprovalRequired, SkillwireError

if TYPE_CHECKING:
    from skillwire.cli.host_options import HostOptions
    from skillwire.cli.screen import Screen
    from skillwire.host.config.server import ServerConfig
    from skillwire.install.apply import Outcome
    from skillwire.install.candidates import Candidate
    from skillwire.install.installer import Installer
    from skillwire.install.powers import Powers
    from skillwire.install.workspace import Workspace
    from skillwire.trust.approval import Grants

Result = TypeVar("Result")


def workspace(*, user: bool, copy: bool = False) -> Workspace:
    """The workspace of the working directory, or of the user."""
    from skillwire.install.agents import Scope
    from skillwire.install.workspace import Workspace

    return Workspace.open(Scope.USER if user else Scope.PROJECT, links=not copy)


def installer(work: Workspace, options: HostOptions | None = None) -> Installer:
    """The operations on a workspace, with the servers of the configuration."""
    from skillwire.install.installer import Installer
    from skillwire.install.upstream import Upstream

    if options is None:  # Nothing is fetched: what is configured does not matter.
        return Installer(work, Upstream(work.places.project), record=_Record({}), on_wait=_say_waiting)
    from skillwire.host.config.publishers import load_publishers

    settings = options.settings()
    upstream = Upstream(
        work.places.project,
        servers=settings.servers,
        publishers=load_publishers(settings.publishers),
        required=settings.required_sources,
    )
    return Installer(work, upstream, record=_Record(settings.servers), on_wait=_say_waiting)


def run(action: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end; warnings go to standard error, except for those that the commands report themselves."""
    import asyncio
    import logging

    from skillwire.cli.logs import log_to_stderr

    log_to_stderr()
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: " cannot be reached: " not in record.getMessage())
    return asyncio.run(action)


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask(screen: Screen, question: str, choices: str) -> str:
    """One line from the user, lowercase and stripped."""
    from skillwire.cli.ask import drop_typed_ahead, read_line

    drop_typed_ahead()
    screen.line((f"{question} ", "bold"), choices)
    return (await read_line()).strip().lower()


async def ask_yes(screen: Screen, question: str) -> bool:
    return await ask(screen, question, "[y]es, or anything else for [N]o") in ("y", "yes")


async def ask_about(screen: Screen, question: str, candidates: Sequence[Candidate]) -> bool:
    """Ask for all of them at once; their texts can be read first."""
    while True:
        answer = await ask(screen, question, "[y]es, show the [t]ext first, or anything else for [N]o")
        if answer not in ("t", "text"):
            return answer in ("y", "yes")
        for candidate in candidates:
            screen.line((f"──── SKILL.md of {candidate.name}", "bold"))
            remark = screen.quoted(candidate.files["SKILL.md"].decode("utf-8", "replace"))
            screen.line((f"──── {remark}" if remark else "────", "bold"))


async def grants_for(
    screen: Screen, candidate: Candidate, given: Grants, before: Powers | None, *, asking: bool
) -> Grants:
    """The grants of one skill: what the options gave, what it had before, and what the user adds now."""
    from skillwire.cli.install_view import powers_words
    from skillwire.install.powers import Powers
    from skillwire.trust.approval import Grants

    powers = candidate.skill.powers
    granted = powers.grants_after(before, given)
    tools, scripts = granted.allowed_tools, granted.execute_code
    if asking and powers.allowed_tools and not tools:
        wanted = powers_words(Powers(powers.allowed_tools, ()))
        tools = await ask_yes(screen, f"{candidate.name} asks for {wanted}. Grant that?")
    if asking and powers.scripts and not scripts:
        wanted = powers_words(Powers((), powers.scripts))
        scripts = await ask_yes(screen, f"{candidate.name} has {wanted}. May an agent run them?")
    return Grants(allowed_tools=tools, execute_code=scripts)


def nobody_to_ask(what: str, grants: Sequence[str] = ()) -> ApprovalRequired:
    """That the user must confirm; `grants` are the options that something in it also needs."""
    from skillwire.trust.approval import Reason

    also = f", and {' and '.join(grants)} to grant what it asks for" if grants else ""
    return ApprovalRequired(
        f"{what}, but this is not a terminal: use --yes to accept exactly what is shown{also}",
        reason=Reason.NEW,
        origin="",
        uri="",
    )


@contextmanager
def progress(work: Installer, start: str = "Contacting the sources ...") -> Generator[None]:
    """Show the progress of fetching and installing on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(start)) as status:
        fetching, installed = False, 0

        def update(what: str, done: int, total: int) -> None:
            nonlocal fetching
            fetching = done < total
            written = f"; {counted(installed, 'folder')} done" if installed else ""
            status.update(Text(f"Fetching from {printable(what)}: {done:,} of {total:,} files{written}"))

        def count(outcome: Outcome) -> None:
            nonlocal installed
            installed += 1
            if not fetching:
                name, folders = printable(outcome.step.name), counted(installed, "folder")
                status.update(Text(f"Installed {name}: {folders} done"))

        work.upstream.on_progress, work.on_step = update, count
        try:
            yield
        finally:
            work.upstream.on_progress, work.on_step = (lambda what, done, total: None), (lambda _: None)


class _Record:
    """Records approvals where hosts find them. Nothing of a host is imported until there is one."""

    def __init__(self, servers: Mapping[str, ServerConfig]) -> None:
        self._servers = servers

    async def __call__(self, workspace: Workspace, installed: Sequence[tuple[Candidate, Grants]], /) -> None:
        if not installed:
            return
        from skillwire.install.approvals import HostApprovals

        try:
            await HostApprovals(self._servers)(workspace, installed)
        except SkillwireError as error:
            info(
                "Installed, but hosts will ask again: "
                f"the approval cannot be stored ({printable(str(error))})"
            )


def _say_waiting() -> None:
    info("Another skillwire process is running here; waiting for it ...")
