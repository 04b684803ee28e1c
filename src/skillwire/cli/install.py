"""`skillwire add`, `update`, `rollback` and `remove`: change what is installed and pinned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from skillwire.cli.install_setup import (
    ask_about,
    ask_yes,
    can_ask,
    grants_for,
    installer,
    nobody_to_ask,
    progress,
    run,
    workspace,
)
from skillwire.cli.install_view import (
    UNMARKED,
    conclude,
    failure_json,
    report_json,
    show_candidate,
    show_changes,
    show_failures,
    show_report,
    skill_json,
)
from skillwire.cli.output import counted, info, printable
from skillwire.cli.parser import UsageError
from skillwire.cli.screen import Screen, show_json
from skillwire.files import expand_user
from skillwire.install.candidates import Candidate, Failure
from skillwire.install.foreign_locks import is_foreign_lock, parse_foreign_lock
from skillwire.install.installer import Installer
from skillwire.install.lock import LockedSkill
from skillwire.install.proposal import Proposal
from skillwire.install.report import Report, merge_reports
from skillwire.install.sources import INSTALLED
from skillwire.trust.approval import ALL_GRANTS, Grants
from skillwire.trust.signers import signer_change

if TYPE_CHECKING:
    from skillwire.cli.host_options import HostOptions


class InstallOptions(TypedDict):
    """What the user agreed to on the command line, and how to report."""

    allow_tools: bool
    allow_code: bool
    allow_signer: bool
    force: bool
    yes: bool
    as_json: bool


def add(
    *,
    sources: tuple[str, ...],
    installed: bool,
    skill: tuple[str, ...],
    agent_ids: tuple[str, ...],
    copy: bool,
    user: bool,
    options: HostOptions,
    **given: Unpack[InstallOptions],
) -> None:
    """Show, ask, install, pin."""
    if not sources and not installed:
        raise UsageError("SOURCE is missing: name a server's skill, a site, a repository or a folder")
    work = workspace(user=user, copy=copy)
    targets = work.choose_targets(agent_ids or None)
    named, foreign, unusable = _migrated(sources)
    if installed:
        named.append(INSTALLED)
    tool = installer(work, options)

    async def action() -> None:
        with progress(tool):
            proposal = await tool.propose(named, targets=targets, names=skill or None)
        proposal = _checked(proposal, foreign)
        failures = [*proposal.failures, *unusable]
        if skill:
            known = {one.name for one in (*proposal.candidates, *proposal.known)}
            failed = {failure.what.rpartition("/")[2] for failure in failures}
            places = ", ".join(printable(one) for one in (*sources, *(["--installed"] if installed else [])))
            failures += [_not_there(name, places) for name in skill if name not in known | failed]
        if installed and not given["as_json"] and not (proposal.candidates or proposal.known or failures):
            info("No installed Python package has skills: there is nothing to install.")
        await _install(tool, proposal, failures, targets, **given)

    run(action())


def update(
    *,
    names: tuple[str, ...],
    copy: bool,
    user: bool,
    options: HostOptions,
    **given: Unpack[InstallOptions],
) -> None:
    """Show what changed, ask, install, pin."""
    tool = installer(workspace(user=user, copy=copy), options)

    async def action() -> None:
        with progress(tool):
            proposal = await tool.propose_updates(names or None)
        await _install(tool, proposal, [*proposal.failures], **given)

    run(action())


def rollback(*, name: str, to: str | None, force: bool, user: bool, as_json: bool) -> None:
    """Restore an earlier version: it was approved when it was installed."""
    tool = installer(workspace(user=user))

    async def action() -> None:
        candidate = tool.earlier(name, to or "")
        report = await tool.install(
            [candidate], {name: ALL_GRANTS}, force=[name] if force else (), going_back=True
        )
        _show(report, as_json=as_json)
        if report.is_whole and not as_json:
            info(
                f"{name} is back at {candidate.skill.digest[:19]}…; "
                "`skillwire update` installs the newest version."
            )
        conclude(report)

    run(action())


def remove(*, names: tuple[str, ...], force: bool, user: bool, as_json: bool) -> None:
    """Remove skills from every folder and from the lock."""
    report = installer(workspace(user=user)).remove(list(names), force=force)
    _show(report, as_json=as_json)
    conclude(report, force="removes")


async def _install(
    tool: Installer,
    proposal: Proposal,
    failures: list[Failure],
    targets: Iterable[str] = (),
    **options: Unpack[InstallOptions],
) -> None:
    yes, as_json, allow_signer = options["yes"], options["as_json"], options["allow_signer"]
    given = Grants(allowed_tools=options["allow_tools"], execute_code=options["allow_code"])
    screen = Screen(errors=True)
    candidates = proposal.candidates
    if not as_json:
        _show_proposal(screen, tool, proposal, failures, targets)
    grants: dict[str, Grants] = {}
    if candidates:
        if not yes and not can_ask():
            if as_json:
                show_json(
                    {
                        "proposed": [skill_json(one.skill) for one in candidates],
                        "failed": [failure_json(failure) for failure in failures],
                    }
                )
            raise nobody_to_ask(
                f"{counted(len(candidates), 'skill')} would be installed",
                _missing_grants(candidates, proposal.before, given),
            )
        question = f"Install {'it' if len(candidates) == 1 else f'these {len(candidates)} skills'}?"
        if yes or await ask_about(screen, question, candidates):
            for candidate in candidates:
                before = proposal.before.get(candidate.name)
                if not allow_signer and not await _accepts_signer(screen, before, candidate, asking=not yes):
                    failures.append(_signer_refused(candidate))
                    continue
                powers = before.powers if before is not None else None
                grants[candidate.name] = await grants_for(screen, candidate, given, powers, asking=not yes)
    known = tuple(one.name for one in proposal.known)
    forced = [one.name for one in candidates] if options["force"] else ()
    refused = {failure.what for failure in failures}
    chosen = [one for one in candidates if one.name not in refused]
    if chosen and not grants:
        if as_json:
            show_json(report_json(Report(current=known), failures))
        raise nobody_to_ask("not approved") if not can_ask() else _declined()
    report = Report(current=known)
    if grants:
        with progress(tool, "Installing ..."):
            report = await tool.install(chosen, grants, force=forced)
    restored = await _restore(tool, known)
    adopted = [one.name for one in chosen if one.name in report.current]
    if adopted and not as_json:
        found = f"{counted(len(adopted), 'skill')}: {', '.join(adopted)} (the same files were already there)"
        Screen().line(("Pinned ", "green"), found)
    report = merge_reports(report, restored)
    shown = report if as_json else replace(report, current=tuple(set(known) & set(report.current)))
    _show(shown, as_json=as_json, extra=failures, checked=False)
    conclude(report, failures)
    if known and not as_json and not tool.compare(only=known)[2].is_done:
        info("Not all folders match skillwire.lock: `skillwire sync` shows which.")


async def _restore(tool: Installer, names: Sequence[str]) -> Report:
    """Write the folders of pinned skills that are missing, or that are links and should be copies.

    What the user has not approved, or has edited, is left for `skillwire sync`.
    """
    if not names:
        return Report()
    _, state, made = tool.compare(only=names)
    left = {skill.name for skill in tool.unaccepted(state, made)} | {step.name for step in made.stopped}
    writes = sorted({step.name for step in made.writes} - left)
    return await tool.sync(only=writes) if writes else Report()


def _missing_grants(
    candidates: Iterable[Candidate], before: Mapping[str, LockedSkill], given: Grants
) -> tuple[str, ...]:
    """The options that the user would need beside --yes to get all of these."""
    tools = scripts = False
    for one in candidates:
        old = before.get(one.name)
        powers = one.skill.powers
        missing = powers.missing(powers.grants_after(old.powers if old is not None else None, given))
        tools, scripts = tools or bool(missing.allowed_tools), scripts or bool(missing.scripts)
    return (*(["--allow-tools"] if tools else []), *(["--allow-code"] if scripts else []))


async def _accepts_signer(
    screen: Screen, before: LockedSkill | None, candidate: Candidate, *, asking: bool
) -> bool:
    """Whether the user accepts a signer other than the pinned one: a separate question, never implied."""
    change = signer_change(before.signer, candidate.skill.signer) if before is not None else ""
    if not change:
        return True
    return asking and await ask_yes(screen, f"{candidate.name} {change}. Install it anyway?")


def _signer_refused(candidate: Candidate) -> Failure:
    from skillwire.errors import RefusedByPolicy

    words = (
        f"{candidate.name}: its signer changed, and that was not accepted; find out why, then run "
        "`skillwire update` on a terminal, or add --allow-signer"
    )
    return Failure(candidate.name, RefusedByPolicy(words))


def _show_proposal(
    screen: Screen,
    tool: Installer,
    proposal: Proposal,
    failures: Sequence[Failure],
    targets: Iterable[str],
) -> None:
    if proposal.candidates or proposal.known or len(failures) > 1:  # One alone is what the command ends with.
        show_failures(screen, failures)
    for candidate in proposal.candidates:
        before = proposal.before.get(candidate.name)
        show_candidate(screen, candidate, before)
        if before is not None:
            _show_update(screen, tool, before, candidate)
    if proposal.known and proposal.candidates:
        names = ", ".join(one.name for one in proposal.known)
        screen.line(f"Up to date: {names}")
    if proposal.candidates:
        folder = tool.workspace.places.canonical(tool.workspace.scope)
        links = ", ".join(targets)
        screen.line(f"Installs into {printable(str(folder))}" + (f", linked for {links}" if links else ""))
        screen.wrapped(UNMARKED, style="dim")


def _show_update(screen: Screen, tool: Installer, before: LockedSkill, candidate: Candidate) -> None:
    old = {file.path: tool.workspace.versions.read(file) for file in before.files}
    show_changes(
        screen,
        before.files,
        old,
        candidate.skill.files,
        candidate.files,
        labels=("pinned", "new"),
    )


def _show(report: Report, *, as_json: bool, extra: Iterable[Failure] = (), checked: bool = True) -> None:
    if as_json:
        show_json(report_json(report, tuple(extra)))
    else:
        show_report(Screen(), report, extra=tuple(extra), checked=checked)


def _migrated(sources: Iterable[str]) -> tuple[list[str], dict[str, str], list[Failure]]:
    """The sources, with lock files of other tools replaced by what they name; also the digests that those
    files pin, by source, and what in them cannot be fetched.
    """
    from skillwire.errors import SourceError
    from skillwire.files import read_regular, unreadable
    from skillwire.limits import DEFAULT_LIMITS

    given: list[str] = []
    digests: dict[str, str] = {}
    unusable: list[Failure] = []
    for source in sources:
        path = expand_user(source)
        if not is_foreign_lock(path):
            given.append(source)
            continue
        try:
            text = read_regular(path, DEFAULT_LIMITS.lock_bytes).decode("utf-8")
        except (OSError, UnicodeError) as error:
            raise SourceError(f"{path} cannot be read: {unreadable(error)}") from None
        for row in parse_foreign_lock(text, path.name):
            if row.problem:
                unusable.append(Failure(row.name, SourceError(f"{row.name}: {row.problem}")))
                continue
            given.append(row.source)
            if row.digest is not None:
                digests[row.source] = row.digest
    return given, digests, unusable


def _checked(proposal: Proposal, digests: dict[str, str]) -> Proposal:
    """Refuse what differs from what another tool's lock file pinned."""
    from skillwire.install.candidates import not_what_is_pinned

    bad = [
        one
        for one in proposal.candidates
        if digests.get(one.skill.source, one.skill.digest) != one.skill.digest
    ]
    if not bad:
        return proposal
    failures = [Failure(one.name, not_what_is_pinned(one.skill, digests[one.skill.source])) for one in bad]
    return replace(
        proposal,
        candidates=tuple(one for one in proposal.candidates if one not in bad),
        failures=(*proposal.failures, *failures),
    )


def _not_there(name: str, places: str) -> Failure:
    from skillwire.errors import SkillNotFound

    words = (
        f"{places} has no skill called {printable(name)}: without --skill, `skillwire add` shows all it has"
    )
    return Failure(name, SkillNotFound(words))


def _declined() -> Exception:
    from skillwire.errors import RefusedByPolicy

    return RefusedByPolicy("not approved: nothing was installed")
