"""Sources, workspaces, questions and progress of the commands that install skills, and of `serve`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from skillwire.cli.output import counted, info, is_terminal, printable
from skillwire.errors import ApprovalRequired, FormatError, SkillwireError, SourceError, UsageError
from skillwire.files import expand_user
from skillwire.net import ArchiveFile
from skillwire.sources import SourceKind, packages_with_skills, parse_reference
from skillwire.sources.remote import RemoteSource, remote_reference

if TYPE_CHECKING:
    from skillwire.cli.host_options import HostOptions
    from skillwire.cli.output import Screen
    from skillwire.host import Scans
    from skillwire.install import Candidate, FetchFailure, Installer, Powers, Source, StepResult, Workspace
    from skillwire.skill import SetDigest
    from skillwire.sources import SourceReference
    from skillwire.trust import Grants

Result = TypeVar("Result")


def workspace(*, user: bool, copy: bool = False, lock: bool = False, names: Sequence[str] = ()) -> Workspace:
    """The workspace of the working directory, or of the user.

    A command that needs a `lock` finds the user's own where the project has none, or where it alone has one
    of the `names`.
    """
    from skillwire.clients import Scope
    from skillwire.install import Workspace

    here = Workspace.open(Scope.USER if user else Scope.PROJECT, links=not copy)
    if user or not lock or _pins(here, names):
        return here
    own = Workspace.open(Scope.USER, links=not copy)
    if not _pins(own, names) and (_pins(here, ()) or not _pins(own, ())):
        return here
    info(f"Your own skills (--user), pinned by {printable(str(own.lock_file))}:")
    return own


def _pins(work: Workspace, names: Sequence[str]) -> bool:
    """Whether a workspace has a lock, with one of these names if there are any."""
    if not names:
        return work.lock_file.is_file()
    lock = work.read_lock()
    return lock is not None and any(skill.name in names for skill in lock.skills)


def installer(
    work: Workspace,
    options: HostOptions | None = None,
    tokens: Sequence[tuple[str, str]] = (),
    *,
    policy: Sequence[Path] = (),
    scans: Scans | None = None,
) -> Installer:
    """The operations on a workspace, with the servers of the configuration. `tokens` are those of patterns of
    sites, before what the configuration says; `policy` are the files of `--policy`; `scans` what was scanned
    before."""
    from skillwire.host import PolicyFiles
    from skillwire.host import Scans as NoScans
    from skillwire.install import HostApprovals, Installer, SkillFetcher

    rules = PolicyFiles(policy if options is None else options.policy)
    known = scans or NoScans()
    if options is None:  # Nothing is fetched: what is configured does not matter.
        upstream = SkillFetcher(work.places.project, policy_files=rules, scans=known)
        return Installer(work, upstream, record=HostApprovals({}), on_wait=_say_waiting)
    from skillwire.host import load_publishers, site_tokens

    settings = options.settings()
    upstream = SkillFetcher(
        work.places.project,
        servers=settings.servers,
        publishers=load_publishers(settings.publishers),
        required=settings.required_sources,
        tokens=[*tokens, *site_tokens()],
        policy_files=rules,
        scans=known,
    )
    return Installer(work, upstream, record=HostApprovals(settings.servers), on_wait=_say_waiting)


def read_sources(texts: Sequence[str], options: HostOptions) -> tuple[list[Source], list[FetchFailure]]:
    """The sources that a user names, and what of them cannot be used.

    Lock files of other tools stand for what they name. The whole address of each repository is shown before
    anything is fetched.
    """
    from skillwire.install import FetchFailure, Source

    found: list[Source] = []
    rows, failures = _with_foreign_locks(texts)
    for text, digest in rows:
        try:
            reference = parse_reference(text)
            if reference.kind is SourceKind.MCP:
                reference = _repository(text, reference.place, options) or reference
        except FormatError as error:
            failures.append(FetchFailure(text, error))
            continue
        if reference.kind is SourceKind.GIT and not text.startswith("git+"):
            at = f" at {reference.ref}" if reference.ref else ""
            below = f", folder {reference.path}" if reference.path else ""
            info(printable(f"{text} is the repository {reference.place}{at}{below}."))
        found.append(Source(reference, digest=digest))
    return found, failures


def _repository(source: str, label: str, options: HostOptions) -> SourceReference | None:
    """The repository that a text means, unless its first part is a name of any configuration.

    Whether that configuration is trusted does not matter: a name must not lead elsewhere because of that.
    """
    from difflib import get_close_matches

    from skillwire.cli.trust import found_servers
    from skillwire.host import repository_host
    from skillwire.sources import repository_at

    settings = options.settings()
    if label in settings.servers:
        return None
    name = printable(label)
    for configured in settings.configured:
        if configured.label.casefold() == label.casefold():
            file = printable(str(configured.file))
            if not configured.trusted:
                raise SourceError(
                    f"{name} is a server of {file}, which is not trusted yet: review it with "
                    "`skillwire trust`"
                )
            raise SourceError(f"{name} is a server of {file} that is not used: `skillwire servers` says why")
    reference = repository_at(source, repository_host())
    if reference is None:
        return None
    for client in found_servers():
        if client.label.casefold() == label.casefold():
            raise SourceError(
                f"{name} is a server of {printable(', '.join(client.clients))}: add it with "
                f"`skillwire servers import --write --only {printable(client.label)}`, or write "
                f"{printable(reference.text)} for the repository"
            )
    if Path(source).exists():
        raise SourceError(
            f"{printable(source)} is a folder or file here: write ./{printable(source)} for that, and "
            f"{printable(reference.text)} for the repository"
        )
    near = get_close_matches(label.casefold(), [known.casefold() for known in settings.servers], n=1)
    if near:
        raise SourceError(
            f"no server is called {name}: did you mean {printable(near[0])}? If it is a repository, write "
            f"{printable(reference.text)}"
        )
    return reference


def site_tokens(sources: Iterable[Source], variable: str | None) -> list[tuple[str, str]]:
    """The token of `--token-env` for the sites among the sources."""
    import os

    if variable is None:
        return []
    token = os.environ.get(variable, "").strip()
    if not token:
        raise UsageError(f"--token-env: the variable {printable(variable)} is not set: put the token into it")
    places = [one.reference.place for one in sources if one.reference.kind is SourceKind.SITE]
    if not places:
        raise UsageError("--token-env is for a site: `skillwire servers add` has it for an MCP server")
    lines = "; ".join(f'[sources."{place}*"] token_env = "{variable}"' for place in places)
    info(printable(f"For later updates, write into your own skillwire.toml: {lines}"))
    return [(f"{escape(place)}*", token) for place in places]


def _with_foreign_locks(
    texts: Iterable[str],
) -> tuple[list[tuple[str, SetDigest | None]], list[FetchFailure]]:
    """The sources that are named, in lock files of other tools too, each with the digest that such a file
    has; and what in those files cannot be fetched."""
    from skillwire.files import read_regular, unreadable
    from skillwire.install import FetchFailure, is_foreign_lock, parse_foreign_lock
    from skillwire.limits import DEFAULT_LIMITS

    given: list[tuple[str, SetDigest | None]] = []
    unusable: list[FetchFailure] = []
    for text in texts:
        path = expand_user(text)
        if not is_foreign_lock(path):
            given.append((text, None))
            continue
        try:
            content = read_regular(path, DEFAULT_LIMITS.document_bytes).decode("utf-8")
        except (OSError, UnicodeError) as error:
            raise SourceError(f"{path} cannot be read: {unreadable(error)}") from None
        for row in parse_foreign_lock(content, path.name):
            if row.problem:
                unusable.append(FetchFailure(row.name, SourceError(f"{row.name}: {row.problem}")))
            else:
                given.append((row.source, row.digest))
    return given, unusable


def run(action: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end; warnings go to standard error, except for those that the commands report themselves."""
    import asyncio
    import logging

    from skillwire.cli.running import log_to_stderr

    log_to_stderr()
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: " cannot be reached: " not in record.getMessage())
    return asyncio.run(action)


def installs_by_agent(*, grants: bool = False) -> bool:
    """Whether an agent installs skills, and the user's own configuration lets it. Where it does not, and for
    `grants` of tools and code, which need a person, this raises an `ApprovalRequired`."""
    from skillwire.consent import require_person
    from skillwire.host import agents_may_install

    try:
        require_person("installing skills")
        return False
    except ApprovalRequired:
        if not agents_may_install():
            raise
    if grants:
        require_person("granting tools, code or another signer")
    info("Your configuration lets agents install skills (agents_may_install).")
    return True


def can_ask() -> bool:
    """Whether there is a terminal to ask on."""
    from skillwire.cli.host_options import person_terminal

    return person_terminal() is not None


async def ask_yes(screen: Screen, question: str) -> bool:
    from skillwire.cli.host_options import answer

    return await answer(screen, question, "[y]es, or anything else for [N]o") in ("y", "yes")


async def ask_about(screen: Screen, question: str, candidates: Sequence[Candidate]) -> bool:
    """Ask for all of them at once; their texts can be read first."""
    from skillwire.cli.host_options import answer

    while True:
        said = await answer(screen, question, "[y]es, show the [t]ext first, or anything else for [N]o")
        if said not in ("t", "text"):
            return said in ("y", "yes")
        for candidate in candidates:
            screen.line((f"──── SKILL.md of {candidate.name}", "bold"))
            remark = screen.quoted(candidate.files["SKILL.md"].decode("utf-8", "replace"))
            screen.line((f"──── {remark}" if remark else "────", "bold"))


async def grants_for(
    screen: Screen, candidate: Candidate, given: Grants, before: Powers | None, *, asking: bool
) -> Grants:
    """The grants of one skill: what the options gave, what it had before, and what the user adds now."""
    from skillwire.cli.install_view import powers_words
    from skillwire.install import Powers
    from skillwire.trust import Grants

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
    from skillwire.trust import Reason

    also = f", and {' and '.join(grants)} to grant what it asks for" if grants else ""
    return ApprovalRequired(
        f"{what}, but this is not a terminal: use --yes to accept exactly what is shown{also}",
        reason=Reason.NEW,
        origin="",
        uri="",
    )


@contextmanager
def progress(
    work: Installer, start: str = "Contacting the sources ...", *, waits: bool = False
) -> Generator[Callable[[], object]]:
    """Show the progress of fetching and installing on a terminal; if it `waits`, from when what is yielded is
    called, so that nothing moves under a question."""
    if not is_terminal(sys.stderr):
        yield lambda: None
        return
    from rich.console import Console
    from rich.text import Text

    status = Console(stderr=True).status(Text(start))
    fetching, installed = False, 0

    def update(what: str, done: int, total: int) -> None:
        nonlocal fetching
        fetching = done < total
        written = f"; {counted(installed, 'folder')} done" if installed else ""
        status.update(Text(f"Fetching from {printable(what)}: {done:,} of {total:,} files{written}"))

    def count(outcome: StepResult) -> None:
        nonlocal installed
        installed += 1
        if not fetching:
            name, folders = printable(outcome.step.name), counted(installed, "folder")
            status.update(Text(f"Installed {name}: {folders} done"))

    work.upstream.on_progress, work.on_step = update, count
    with ExitStack() as showing:
        if not waits:
            showing.enter_context(status)
        try:
            yield lambda: showing.enter_context(status)
        finally:
            work.upstream.on_progress, work.on_step = (lambda what, done, total: None), (lambda _: None)


def _say_waiting() -> None:
    info("Another skillwire process is running here; waiting for it ...")


def places(
    paths: Sequence[str], locked: Path | None, *, installed: bool, interval: float
) -> tuple[tuple[str, ...], list[RemoteSource]]:
    """The directories among the paths, those of packages too, and sources for everything else."""
    directories: list[str] = []
    remotes: list[RemoteSource] = []
    for path in paths:
        try:
            found = remote_reference(path)
        except FormatError as error:
            raise UsageError(str(error)) from None
        if found is None:
            directories.append(path)
        else:
            prefix, reference = found
            remotes.append(RemoteSource.from_reference(reference, prefix=prefix, interval=interval))
    if locked is not None:
        remotes.append(locked_source(locked, interval=interval))
    if installed:
        packages = packages_with_skills()
        if not packages:
            info("No installed Python package has skills.")
        directories += [str(package.folder) for package in packages]
    return tuple(directories), remotes


def locked_source(file: Path, *, interval: float, servers: bool = True) -> RemoteSource:
    """A source of exactly what a lock pins; without `servers`, of what it does not have from MCP servers.

    The lock is read again on every refresh.
    """
    project = file.resolve().parent

    async def fetch() -> Iterable[ArchiveFile]:
        from skillwire.clients import BaseDirectories, Scope
        from skillwire.host import load_config
        from skillwire.install import LockedSkill, SkillFetcher, StateFiles, Workspace, content_of

        work = Workspace(Scope.PROJECT, BaseDirectories.here(project), StateFiles.of_user(), file)
        skills = [one for one in work.require_lock().skills if servers or one.pin.kind != "mcp"]
        files: dict[str, dict[str, bytes]] = {}
        missing: list[LockedSkill] = []
        for skill in skills:
            try:
                files[skill.name] = content_of(work, skill)
            except SkillwireError:
                missing.append(skill)
        if missing:
            upstream = SkillFetcher(project, servers=load_config(project).servers)

            refused: list[FetchFailure] = []

            def collect(candidate: Candidate) -> None:
                if refusal := upstream.rules.refusal(candidate, before_scan=True):
                    refused.append(refusal)
                files[candidate.name] = dict(candidate.files)

            await upstream.rules.read_policy()
            failures = [*await upstream.fetch_pinned(missing, collect), *refused]
            if failures:
                names = ", ".join(failure.what for failure in failures)
                first = failures[0].error
                raise SourceError(f"{file}: {names} cannot be fetched as pinned ({first})")
        return [
            ArchiveFile(f"{skill.name}/{one.path}", files[skill.name][one.path], one.executable)
            for skill in skills
            for one in skill.files
        ]

    return RemoteSource(str(file), fetch, interval=interval, keep=False)


def fetch_remotes(remotes: Sequence[RemoteSource], *, strict: bool) -> None:
    """Fetch all places concurrently, and print what was found there and what was left out."""

    async def fetch() -> None:
        await asyncio.gather(*(remote.open() for remote in remotes))

    asyncio.run(fetch())
    problems = [problem for remote in remotes for problem in remote.problems()]
    for remote in remotes:
        info(f"{printable(remote.place)}: {counted(len(remote.snapshot.entries), 'skill')}")
    for problem in problems[:20]:
        info(f"  {printable(str(problem))}")
    if strict and problems:
        message = f"--strict: {counted(len(problems), 'problem')}, so nothing is served"
        raise FormatError.of(rule="strict", message=message, fix="fix what is listed above")
