"""The options that say where skills come from, the host that they make, and how it asks on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from skillwire.cli.output import Screen, counted, human_size, origin_words, printable, scan_rows
from skillwire.errors import SkillwireError, UsageError
from skillwire.files import expand_user
from skillwire.skill import DYNAMIC, SkillEntry, skill_root
from skillwire.text import safe_line
from skillwire.trust import Reason

if TYPE_CHECKING:
    from skillwire.consent import ApprovalCallback, ApprovalRequest, Once, PersonTerminal
    from skillwire.host import (
        HostConfig,
        LocalDirectory,
        PolicyFiles,
        ScriptRunner,
        ServerConfig,
        SkillHost,
    )
    from skillwire.host.config.file import ConfigWatch
    from skillwire.trust import Publisher

_FILES_SHOWN = 8
_DESCRIPTION_SHOWN = 300


@cache
def person_terminal() -> PersonTerminal | None:
    """The terminal on which this process asks; `None` if it has none. It stays open."""
    from skillwire.consent import open_terminal

    return open_terminal()


def person_screen() -> Screen:
    """Where a question and what it is about are shown: the terminal that the answer is read from."""
    terminal = person_terminal()
    return Screen(errors=True) if terminal is None else Screen(stream=terminal.screen)


def terminal_callback() -> ApprovalCallback | None:
    """A callback that asks the user; `None` without a terminal, and inside an agent."""
    import os

    from skillwire.clients import running_agent

    return None if running_agent(os.environ) or person_terminal() is None else ask_person


async def answer(screen: Screen, question: str, choices: str) -> str:
    """Ask on the terminal: one line, lowercase and stripped. Without a terminal the answer is no."""
    terminal = person_terminal()
    if terminal is None:
        return ""
    terminal.forget_typed_ahead()
    screen.line((f"{question} ", "bold"), choices)
    return await terminal.answer()


async def ask_person(request: ApprovalRequest, *, question: str = "") -> bool | Once:
    """Show the request on the terminal, and read the answer there. Anything but yes is a no.

    A yes lasts until the files change; `once` is for this load only.
    """
    from skillwire.consent import Once, single_file

    screen = person_screen()
    _describe(screen, request)
    at_load = not question
    question = question or ("Read it?" if single_file(request.skill.entry, request.files) else "Load it?")
    is_kept = request.digest is not None or request.skill.entry.draft is not None
    once = at_load and is_kept
    choices = ["[y]es, until it changes", *(["[o]nce"] if once else []), "show its [t]ext"]
    choices += ["show the [d]iff"] if request.changes else []
    while True:
        said = await answer(screen, question, f"{', '.join(choices)}, or anything else for [N]o")
        if said in ("t", "text"):
            await _show_text(screen, request)
            continue
        if said in ("d", "diff") and request.changes:
            await _show_diff(screen, request)
            continue
        if once and said in ("o", "once"):
            return Once()
        return said in ("y", "yes")


async def ask_set(requests: Sequence[ApprovalRequest]) -> bool:
    """Show several skills, and ask once for all of them; their texts can be read first."""
    screen = person_screen()
    for request in requests:
        _describe(screen, request)
        screen.line()
    question = f"Approve these {len(requests)} skills?"
    while True:
        said = await answer(
            screen, question, "[y]es, until they change, show their [t]ext, or anything else for [N]o"
        )
        if said not in ("t", "text"):
            return said in ("y", "yes")
        for request in requests:
            await _show_text(screen, request)


async def _show_diff(screen: Screen, request: ApprovalRequest) -> None:
    """Print what changed in each file since it was approved."""
    from skillwire.cli.skill_view import show_diff
    from skillwire.skill import path_below
    from skillwire.trust import ChangeKind, shown_path

    for change in request.changes:
        path = shown_path("/".join(path_below(change.uri, skill_root(request.skill.uri))))
        screen.line("  ", (change.kind.value, "yellow"), f"  {path}")
        if change.kind is not ChangeKind.CHANGED:
            continue
        try:
            old, new = await request.approved(change.uri), (await request.preview(change.uri)).text
        except SkillwireError as error:
            screen.wrapped(f"its text cannot be shown: {printable(str(error))}", indent=4, style="dim")
            continue
        if old is None or new is None:
            screen.wrapped("no diff: it is binary, or the approved text is not cached", indent=4, style="dim")
        else:
            show_diff(screen, old.decode("utf-8", "replace"), new, path)


def _describe(screen: Screen, request: ApprovalRequest) -> None:
    from skillwire.consent import file_lines, single_file

    skill, entry = request.skill, request.skill.entry
    what = {
        Reason.CHANGED: "changed since you approved it",
        Reason.SIGNER: "has another signer than before",
        Reason.UNBINDABLE: "is generated on request: a yes is for this text, while the host is open"
        if entry.draft is None
        else "comes without digests: a yes is for the files below, as they are now",
    }.get(request.reason, "is not approved")
    path = single_file(entry, request.files)
    screen.line(
        *([(path, "bold"), " of "] if path else []),
        (skill.handle, "bold"),
        f" from {origin_words(skill.origin)} {what}.",
    )
    rows = [
        ("description", safe_line(entry.description, limit=_DESCRIPTION_SHOWN)),
        ("uri", printable(skill.uri)),
        ("protocol", "" if entry.draft is None else entry.dialect.meaning),
        ("files", f"{counted(len(request.files), 'file')}; a yes covers exactly this:"),
        *(("", line) for line in file_lines(entry, request.files)),
        ("signature", printable(str(request.signature))),
        ("digest", request.digest or request.seen_digest or ""),
        *((change.kind.value, printable(change.uri)) for change in request.changes[:_FILES_SHOWN]),
        ("note", "it is nested in another skill, and needs an approval of its own" if request.nested else ""),
        ("wants", _wanted(request)),
        *scan_rows(request.scans),
    ]
    screen.pairs(rows)
    if request.signer_change:
        screen.line("  ", ("signer changed: ", "bold yellow"), printable(f"it {request.signer_change}"))


def files_words(entry: SkillEntry) -> str:
    """The files of a skill on one line; empty for one that is generated on request."""
    if entry.resources is DYNAMIC:
        return ""
    root = f"{skill_root(entry.uri)}/"
    names = [printable(resource.uri.removeprefix(root)) for resource in entry.resources]
    more = f" and {len(names) - _FILES_SHOWN} more" if len(names) > _FILES_SHOWN else ""
    size = human_size(entry.total_size)
    return f"{counted(len(names), 'file')}, {size}: {', '.join(names[:_FILES_SHOWN])}{more}"


def _wanted(request: ApprovalRequest) -> str:
    if not request.requested_tools:
        return ""
    return f"the tools {printable(' '.join(request.requested_tools))}, which a yes does not grant"


async def _show_text(screen: Screen, request: ApprovalRequest) -> None:
    """The text of every file that a yes covers."""
    from skillwire.trust import shown_path

    for covered in request.files:
        try:
            file = await request.preview(covered.uri)
        except SkillwireError as error:
            screen.wrapped(f"{printable(covered.uri)} cannot be shown: {printable(str(error))}")
            continue
        screen.line((f"──── {shown_path(file.path)} of {request.skill.handle}; shown, not loaded", "bold"))
        remark = screen.quoted(file.text or f"(binary, {human_size(len(file.data))})")
        screen.line((f"──── {remark}" if remark else "────", "bold"))


Result = TypeVar("Result")
_NO_SKILLS = (
    "There are no skills yet. Add a server with `skillwire servers add NAME URL`, import those of your other "
    "clients with `skillwire servers import`, name a directory with --dir, or put skills into .agents/skills."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """The values of `HOST_OPTIONS`, as they were given."""

    servers: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    no_default_directories: bool = False
    config: Path | None = None
    no_config: bool = False
    profile: str | None = None
    style: str | None = None
    timeout: float | None = None
    policy: tuple[Path, ...] = ()

    @property
    def words(self) -> str:
        """The options again, for a command that is suggested: without them a name may mean nothing."""
        import shlex

        given = [word for text in self.servers for word in ("--server", text)]
        given += [word for text in self.directories for word in ("--dir", text)]
        given += [word for file in self.policy for word in ("--policy", str(file))]
        given += ["--no-default-directories"] * self.no_default_directories + ["--no-config"] * self.no_config
        named = {"--config": self.config, "--profile": self.profile, "--style": self.style}
        given += [word for name, value in named.items() if value is not None for word in (name, str(value))]
        return "".join(f" {shlex.quote(word)}" for word in given)

    def policy_files(self) -> PolicyFiles:
        """The policy that holds here, with the layers of `--policy`."""
        from skillwire.host import PolicyFiles

        return PolicyFiles(self.policy)

    def settings(self) -> HostConfig:
        """Return the configuration of the files, with what the options add to it."""
        from skillwire.host import HostConfig, load_config

        if self.no_config and (self.config or self.profile):
            other = "--config" if self.config else "--profile"
            raise UsageError(f"{other} and --no-config exclude each other: leave out one")
        base = HostConfig() if self.no_config else load_config(file=self.config, profile=self.profile)
        return self._added_to(base)

    def _added_to(self, base: HostConfig) -> HostConfig:
        return replace(
            base,
            servers=with_timeout(_with_servers(base.servers, self.servers), self.timeout),
            default_directories=base.default_directories and not self.no_default_directories,
        )

    def followed_settings(self) -> ConfigWatch | None:
        """The same for a host that stays open and follows the files; `None` if it uses none."""
        from skillwire.host.config.file import watch_config

        if self.no_config:
            return None
        watched = watch_config(file=self.config, profile=self.profile)
        return replace(
            watched,
            loaded=self._added_to(watched.loaded),
            load=lambda: self._added_to(watched.load()),
            directories=self.given_directories(),
        )

    def publishers(self) -> list[Publisher]:
        """The publishers of the user's configuration."""
        from skillwire.host import load_publishers

        return load_publishers(self.settings().publishers)

    def given_directories(self) -> tuple[Path | LocalDirectory, ...]:
        """The directories of `--dir`, each with its name if it was given one."""
        return tuple(_directory(text) for text in self.directories)


def with_host(
    options: HostOptions,
    action: Callable[[SkillHost], Awaitable[Result]],
    *,
    settings: HostConfig | None = None,
    ask: ApprovalCallback | None = None,
    runner: ScriptRunner | None = None,
    name: str = "",
    on: str | None = None,
    failures: bool = True,
    cached: bool = True,
    watch: bool = False,
) -> Result:
    """Open a host, do something with it, and close it. On a terminal, slow servers are named.

    `name` and `on` are the skill and the server that a command is about: where they name a server, no other
    is connected. With `failures`, each server that failed is named on standard error. With `cached`, servers
    are listed from disk for as long as they allow; what they list is stored in any case. With `watch`,
    changes are noticed while the action runs.
    """
    import asyncio
    import logging

    from skillwire.cli.output import error as print_error
    from skillwire.cli.output import is_terminal
    from skillwire.cli.running import log_to_stderr
    from skillwire.errors import SkillNotFound
    from skillwire.host.styles import DEFAULT

    followed = options.followed_settings() if watch and settings is None else None
    config = followed.loaded if followed is not None else settings or options.settings()
    # In another style a name says nothing about its server.
    is_default = (options.style or config.style or DEFAULT) == DEFAULT
    servers = _needed(config.servers, name, on) if is_default else config.servers
    check_style(options.style, config)

    async def run() -> Result:
        host = make_host(
            options,
            config,
            followed,
            servers=servers,
            watch=watch,
            cache_listings=True if cached else "write",
            ask=ask,
            runner=runner,
        )
        waiting = asyncio.ensure_future(_show_waiting(host)) if servers and is_terminal(sys.stderr) else None
        try:
            await host.__aenter__()
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
        told = False
        try:
            return await action(host)
        except SkillNotFound as error:
            told = True  # The error names the servers that could not be asked.
            if reason := why_left_out(name, [one.message for one in host.log.left_out()]):
                raise SkillNotFound(reason) from None
            if not host.skills(disabled=True):
                said = str(error).replace(": list the skills to see their names", "")
                raise SkillNotFound(f"{said}. {no_skills(host, config)}") from None
            raise
        finally:
            if failures and not told:
                for failure in host.log.failures():
                    print_error(failure.message)
            await host.close()

    log_to_stderr()
    logging.getLogger("skillwire.host").setLevel(logging.ERROR)  # Each command shows failures itself.
    return asyncio.run(run())


def make_host(
    options: HostOptions,
    config: HostConfig,
    followed: ConfigWatch | None,
    *,
    servers: Mapping[str, ServerConfig] | None = None,
    **more: Any,
) -> SkillHost:
    """A host as the options and the configuration describe it, which follows the files of `followed`.

    With `servers`, only these; `more` are parameters of `SkillHost` that no configuration has.
    """
    from skillwire.host import SkillHost, load_publishers
    from skillwire.host.styles import DEFAULT

    given = config.servers if servers is None else servers
    return SkillHost(
        servers=given,
        directories=(*config.local_directories, *options.given_directories()),
        default_directories=config.default_directories,
        disabled=config.disabled,
        # Only problems of what was requested are reported.
        untrusted=config.skipped if given is config.servers else (),
        remarks=config.problems,
        publishers=load_publishers(config.publishers),
        required_sources=config.required_sources,
        style=options.style or config.style or DEFAULT,
        usage_file=config.usage_file,
        semantic=config.semantic,
        policy=options.policy_files(),
        config=followed,
        **more,
    )


async def _show_waiting(host: SkillHost) -> None:
    """Show on standard error which servers have not responded yet, until canceled."""
    import asyncio

    from rich.console import Console
    from rich.text import Text

    def words() -> Text:
        names = [server.label for server in host.places.servers() if server.status == "connecting"]
        listed = f"{', '.join(names[:4])}{' and more' if len(names) > 4 else ''}"
        return Text(f"Connecting to {listed} ..." if names else "Listing skills ...")

    with Console(stderr=True).status(words()) as status:
        while True:
            await asyncio.sleep(0.1)
            status.update(words())


def _needed(servers: Mapping[str, ServerConfig], name: str, on: str | None) -> Mapping[str, ServerConfig]:
    """The one server that a command is about; all of them if it may be any."""
    qualified = "" if "://" in name else name.partition(":" if ":" in name else "/")[0]
    label = on or (qualified if qualified != name else "")
    one = {known: config for known, config in servers.items() if known.casefold() == label.casefold()}
    return one or servers


def why_left_out(name: str, messages: Iterable[str]) -> str:
    """Why a skill of this name cannot be used, if one of the messages is about it; otherwise nothing."""
    import re

    from skillwire.cli.output import printable

    bare = re.split(r"[/:]", name.removesuffix("/SKILL.md"))[-1]
    segment = re.compile(rf"(?:^|[/\s]){re.escape(bare)}(?:[/:\s]|$)")
    found = next((message for message in messages if bare and segment.search(message)), "")
    found = found.removeprefix("left out: ")
    return f"{printable(bare)} is left out: {found}" if found and not found.startswith("warning: ") else ""


def no_skills(host: SkillHost, settings: HostConfig, label: str | None = None) -> str:
    """Explain to a person who sees no skills, of one server or at all, how to get some."""
    from skillwire.cli.output import printable
    from skillwire.host import DEFAULT_FOLDERS

    of = [skill for skill in host.skills(disabled=True) if label in (None, skill.origin.label)]
    if of:
        name = f"{printable(label)} has" if label is not None else "There are"
        return f"{name} no enabled skills: `skillwire list --all` shows the others."
    if hidden := settings.hidden(host.places.servers(), label):
        return " ".join(hidden)
    if label is not None:
        return f"{printable(label)} has no skills."
    looked = f"Looked for skills in {', '.join(DEFAULT_FOLDERS)}, here and in your home."
    return " ".join(filter(None, [_NO_SKILLS, looked, file_above()]))


def file_above() -> str:
    """A sentence on the configuration of a directory above this one; empty if there is none."""
    from skillwire.cli.output import printable
    from skillwire.host import project_file
    from skillwire.host.config.file import config_above

    above = None if project_file().exists() else config_above()
    if above is None:
        return ""
    return (
        f"{printable(str(above))} is above you and not read, as it may be anybody's: run the command in its "
        "directory, or give it with --config."
    )


def check_style(style: str | None, config: HostConfig | None = None) -> None:
    """Refuse a `--style` that does not exist, or else such a style of the configuration."""
    from skillwire.errors import SourceError
    from skillwire.host.styles import DEFAULT, find_style

    try:
        find_style(style or (config.style if config else "") or DEFAULT)
    except SourceError as error:
        if style is not None or config is None:
            raise UsageError(f"--style: {error}") from None
        raise SourceError(f"the key style of {' or '.join(map(str, config.files))}: {error}") from None


def _with_servers(configured: Mapping[str, ServerConfig], texts: tuple[str, ...]) -> dict[str, ServerConfig]:
    servers = dict(configured)
    for text in texts:
        label, server = _server(text)
        if label.casefold() in {known.casefold() for known in servers}:
            raise UsageError(f"--server: there is a server called {label} already: choose another name")
        servers[label] = server
    return servers


def with_timeout(servers: Mapping[str, ServerConfig], timeout: float | None) -> Mapping[str, ServerConfig]:
    """The servers with this many seconds to connect and to answer, if there is a number."""
    if timeout is None:
        return servers
    return {
        label: replace(server, connect_seconds=timeout, call_seconds=timeout)
        for label, server in servers.items()
    }


def _server(text: str) -> tuple[str, ServerConfig]:
    from skillwire.errors import SkillwireError
    from skillwire.host import parse_server
    from skillwire.trust import Origin

    label, sign, place = text.partition("=")
    if not sign or not place.strip():
        raise UsageError("--server: write NAME=URL or 'NAME=command args'")
    try:
        return Origin.mcp(label.strip()).label, parse_server(place.strip())
    except SkillwireError as error:
        raise UsageError(f"--server: {error}") from None


def _directory(text: str) -> Path | LocalDirectory:
    from skillwire.errors import SkillwireError
    from skillwire.host import LocalDirectory
    from skillwire.trust import Origin

    label, sign, place = text.partition("=")
    if expand_user(text).is_dir():
        return Path(text)
    path = Path(place if sign else text)
    if not expand_user(path).is_dir():
        raise UsageError(f"--dir: there is no directory {path}: give the path of a directory of skills")
    try:
        return LocalDirectory(Origin.local(label.strip()), expand_user(path))
    except SkillwireError as error:
        raise UsageError(f"--dir: {error}") from None


def password(variable: str | None) -> bytes | None:
    """The password of a key, from the variable of this name."""
    if variable is None:
        return None
    value = os.environ.get(variable)
    if not value:
        raise UsageError(f"{variable} is not set: put the password into it")
    return value.encode("utf-8")
