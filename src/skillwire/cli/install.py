"""`skillwire add`, `update`, `rollback` and `remove`: change what is installed and pinned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from skillwire.cli.host_options import person_screen
from skillwire.cli.install_setup import (
    ask_about,
    ask_yes,
    can_ask,
    grants_for,
    installer,
    installs_by_agent,
    nobody_to_ask,
    progress,
    read_sources,
    run,
    site_tokens,
    workspace,
)
from skillwire.cli.install_view import (
    UNMARKED,
    conclude,
    failure_json,
    readers_line,
    report_json,
    show_candidate,
    show_changes,
    show_failures,
    show_names,
    show_report,
    skill_json,
)
from skillwire.cli.output import Screen, counted, info, padded, printable, scan_rows, show_json
from skillwire.errors import SkillwireError, UsageError
from skillwire.install import (
    INSTALLED,
    Candidate,
    FetchFailure,
    Installer,
    InstallReport,
    LockedSkill,
    Proposal,
    Source,
    Workspace,
)
from skillwire.trust import ALL_GRANTS, Grants, signer_change

if TYPE_CHECKING:
    from skillwire.cli.host_options import HostOptions


def _asks_for_grants(given: InstallOptions) -> bool:
    return given["allow_tools"] or given["allow_code"] or given["allow_signer"]


class InstallOptions(TypedDict):
    """The user's consent on the command line, and how to report."""

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
    list_only: bool,
    token_env: str | None,
    agent_ids: tuple[str, ...],
    copy: bool,
    user: bool,
    options: HostOptions,
    **given: Unpack[InstallOptions],
) -> None:
    """Show, ask, install, pin."""
    if not sources and not installed:
        raise UsageError("SOURCE is missing: name a server's skill, a site, a repository or a folder")
    by_agent = not list_only and installs_by_agent(grants=_asks_for_grants(given))
    work = workspace(user=user, copy=copy)
    targets = work.choose_targets(agent_ids or None)
    named, unusable = read_sources(sources, options)
    tokens = site_tokens(named, token_env)
    if installed:
        named.append(Source.parse(INSTALLED))
    tool = installer(work, options, tokens)

    async def action() -> None:
        with progress(tool):
            proposal = await tool.propose(named, targets=targets, names=skill or None)
        failures = [*proposal.failures, *unusable]
        if skill:
            known = {one.name for one in (*proposal.candidates, *proposal.known)}
            failed = {failure.what.rpartition("/")[2] for failure in failures}
            places = ", ".join(printable(one) for one in (*sources, *([INSTALLED] if installed else [])))
            failures += [_not_there(name, places) for name in skill if name not in known | failed]
        if installed and not given["as_json"] and not (proposal.candidates or proposal.known or failures):
            info("No installed Python package has skills: there is nothing to install.")
        if list_only:
            _list(proposal, failures, as_json=given["as_json"])
            return
        proposal = replace(proposal, failures=tuple(failures))
        await _install(tool, proposal, targets, by_agent=by_agent, **given)

    run(action())


def _list(proposal: Proposal, failures: Sequence[FetchFailure], *, as_json: bool) -> None:
    """List the skills of the sources, without installing anything."""
    skills = [*proposal.candidates, *proposal.known]
    if as_json:
        show_json(
            {
                "skills": [
                    {**skill_json(one.skill), "description": one.description}
                    for one in sorted(skills, key=lambda one: one.name)
                ],
                "failed": [failure_json(failure) for failure in failures],
            }
        )
    else:
        show_names(Screen(), skills, proposal.known)
        if skills:
            show_failures(Screen(errors=True), failures)
            info("To install some of them: add --skill NAME. To install all, leave out --list.")
    conclude(InstallReport(current=tuple(one.name for one in skills)), failures)


def update(
    *,
    names: tuple[str, ...],
    check: bool,
    diff: bool,
    local: bool,
    copy: bool,
    user: bool,
    options: HostOptions,
    **given: Unpack[InstallOptions],
) -> None:
    """Show what changed, ask, install, pin; or only show it."""
    if check and diff:
        raise UsageError("--check and --diff exclude each other: --diff shows more")
    if local and not diff:
        raise UsageError("--local needs --diff: it compares with the folder on disk")
    work = workspace(user=user, copy=copy, lock=True, names=names)
    if check or diff:
        if given["yes"] or given["force"] or _asks_for_grants(given):
            raise UsageError("--check and --diff install nothing: leave out what would be granted or forced")
        tool = installer(work, None if local else options, policy=options.policy)
        if check:
            run(_check(tool, names, as_json=given["as_json"]))
        elif local:
            _show_edits(work, names, as_json=given["as_json"])
        else:
            run(_show_news(tool, names, as_json=given["as_json"]))
        return
    by_agent = installs_by_agent(grants=_asks_for_grants(given))
    tool = installer(work, options)

    async def action() -> None:
        with progress(tool):
            proposal = await tool.propose_updates(names or None)
        await _install(tool, proposal, by_agent=by_agent, **given)

    run(action())


async def _check(tool: Installer, names: Sequence[str], *, as_json: bool) -> None:
    """Ask every source whether it still has what is pinned."""
    from skillwire.errors import InstalledInPart, OutOfSync
    from skillwire.install import Freshness

    with progress(tool):
        checks = await tool.check(names or None)
    old = [check for check in checks if check.freshness is Freshness.OUTDATED]
    if as_json:
        rows = [
            {
                "name": check.skill.name,
                "source": check.skill.source,
                "state": check.freshness.value,
                "detail": check.detail or None,
            }
            for check in checks
        ]
        show_json({"skills": rows})
    else:
        screen = Screen()
        widest = max((len(check.skill.name) for check in checks), default=0)
        styles = {Freshness.OUTDATED: "yellow", Freshness.CURRENT: "green"}
        for check in checks:
            if check.freshness is Freshness.CURRENT and len(checks) > 1:
                continue
            detail = printable(check.detail)
            detail = f"{detail[:19]}…" if check.freshness is Freshness.OUTDATED else detail
            screen.line(
                (padded(check.skill.name, widest), "bold"),
                "  ",
                (padded(check.freshness.value, 8), styles.get(check.freshness, "red")),
                f"  {printable(check.skill.source)}",
                f"  {detail}" if detail else "",
            )
        fresh = sum(check.freshness is Freshness.CURRENT for check in checks)
        screen.line(f"{fresh:,} of {counted(len(checks), 'skill')} up to date.")
    if old:
        raise OutOfSync(
            f"{counted(len(old), 'skill')} outdated: `skillwire update{tool.workspace.option}` shows what "
            "changed and asks"
        )
    if any(check.freshness is not Freshness.CURRENT for check in checks):
        unknown = sum(check.freshness is not Freshness.CURRENT for check in checks)
        raise InstalledInPart(f"{counted(unknown, 'skill')} could not be checked: see above")


def _show_edits(work: Workspace, names: Sequence[str], *, as_json: bool) -> None:
    """Print the differences between the folders on disk and the pinned skills."""
    from skillwire.errors import OutOfSync
    from skillwire.install import Tree, tree_differences
    from skillwire.install.state import look_at, read_file

    lock = work.require_lock()
    rows: list[dict[str, object]] = []
    for pinned in [lock.require(name, option=work.option) for name in names] or lock.skills:
        folder = work.places.canonical(work.scope) / pinned.name
        tree = look_at(folder, [file.path for file in pinned.files])
        if not isinstance(tree, Tree):
            raise OutOfSync(f"{pinned.name} is not in {folder}: run `skillwire sync{work.option}`")
        changes = [{"path": one.path, "kind": one.kind.value} for one in tree_differences(pinned.files, tree)]
        rows.append({"name": pinned.name, "changes": changes})
        if as_json:
            continue
        screen = Screen()
        screen.line((pinned.name, "bold"), "" if changes else " is as pinned.")
        old = {file.path: work.versions.read(file) for file in pinned.files}
        now = {file.path: read_file(folder / file.path, file.size) for file in tree.files}
        show_changes(screen, pinned.files, old, tree.files, now, labels=("pinned", "on-disk"))
    if as_json:
        show_json({"skills": rows})


async def _show_news(tool: Installer, names: Sequence[str], *, as_json: bool) -> None:
    """Print what changed at the sources since the skills were pinned."""
    with progress(tool):
        proposal = await tool.propose_updates(names or None)
    if len(names) == 1:
        for failure in proposal.failures:
            raise failure.error
    if as_json:
        rows: list[dict[str, object]] = [
            *(_news_json(proposal.before[one.name], one) for one in proposal.candidates),
            *({"name": one.name, "changes": []} for one in proposal.known),
        ]
        show_json({"skills": rows, "failed": [failure_json(failure) for failure in proposal.failures]})
    else:
        screen = Screen()
        for candidate in proposal.candidates:
            before = proposal.before[candidate.name]
            show_candidate(screen, candidate, before)
            _show_update(screen, tool, before, candidate)
        if proposal.known:
            screen.line(f"Up to date: {', '.join(one.name for one in proposal.known)}")
        show_failures(screen, proposal.failures)
    conclude(InstallReport(current=tuple(one.name for one in proposal.known)), proposal.failures)


def _news_json(pinned: LockedSkill, candidate: Candidate) -> dict[str, object]:
    from skillwire.install import Tree, tree_differences

    new = candidate.skill.powers.beyond(pinned.powers)
    rows = tree_differences(pinned.files, Tree(candidate.skill.files))
    return {
        "name": pinned.name,
        "pinned": skill_json(pinned),
        "new": skill_json(candidate.skill),
        "changes": [{"path": row.path, "kind": row.kind.value} for row in rows],
        "newly_requested": {"allowed_tools": list(new.allowed_tools), "scripts": list(new.scripts)},
        "signature": candidate.signature.as_json(),
        "signer_change": signer_change(pinned.signer, candidate.skill.signer) or None,
    }


def rollback(*, name: str, to: str | None, force: bool, user: bool, as_json: bool) -> None:
    """Restore an earlier version: it was approved when it was installed."""
    from skillwire.consent import require_person

    by_agent = installs_by_agent()
    work = workspace(user=user, lock=True, names=(name,))
    tool = installer(work)

    async def action() -> None:
        candidate = tool.earlier(name, to or "")
        if by_agent and candidate.skill.powers:
            require_person("granting tools or code")
        report = await tool.install(
            [candidate], {name: ALL_GRANTS}, force=[name] if force else (), going_back=True
        )
        _show(report, as_json=as_json)
        if report.is_whole and not as_json:
            info(
                f"{name} is back at {candidate.skill.digest[:19]}…; "
                f"`skillwire update {name}{work.option}` installs the newest version."
            )
        conclude(report, also=work.option)

    run(action())


def remove(*, names: tuple[str, ...], force: bool, user: bool, as_json: bool) -> None:
    """Remove skills from every folder and from the lock."""
    work = workspace(user=user, lock=True, names=names)
    report = installer(work).remove(list(names), force=force)
    _show(report, as_json=as_json)
    conclude(report, force="removes", also=work.option)


async def _install(
    tool: Installer,
    proposal: Proposal,
    targets: Iterable[str] = (),
    *,
    by_agent: bool,
    **options: Unpack[InstallOptions],
) -> None:
    """Show, ask, install, and report."""
    yes, as_json, option = options["yes"], options["as_json"], tool.workspace.option
    proposal = await tool.scan(proposal)
    failures = proposal.failures
    screen = Screen(errors=True) if yes else person_screen()
    if not as_json:
        for failure in failures:
            screen.pairs(scan_rows(failure.scans))
        _show_proposal(screen, tool, proposal, targets)
    forced = [one.name for one in proposal.candidates] if options["force"] else ()
    with progress(tool, "Installing ...", waits=True) as begin:

        async def decide(proposal: Proposal) -> Mapping[str, Grants | SkillwireError]:
            answers = await _ask(screen, proposal, option, by_agent=by_agent, **options)
            begin()
            return answers

        report = await tool.complete(proposal, decide, force=forced)
    report = replace(report, failures=tuple(one for one in report.failures if one not in failures))
    adopted = [one.name for one in proposal.candidates if one.name in report.current]
    if adopted and not as_json:
        found = f"{counted(len(adopted), 'skill')}: {', '.join(adopted)} (the same files were already there)"
        Screen().line(("Pinned ", "green"), found)
    current = tuple(name for name in report.current if name not in adopted)
    printed = report if as_json else replace(report, current=current)
    _show(printed, as_json=as_json, extra=failures, checked=False)
    if report.installed and not as_json:
        info(readers_line(tool.workspace, targets))
    conclude(report, failures, also=option)
    if report.differing and not as_json:
        info(f"Not all folders match skillwire.lock: `skillwire sync{option}` shows which.")


async def _ask(
    screen: Screen, proposal: Proposal, option: str, *, by_agent: bool, **options: Unpack[InstallOptions]
) -> Mapping[str, Grants | SkillwireError]:
    """What the user decides about a proposal that was shown, on the command line or asked now."""
    yes, as_json = options["yes"], options["as_json"]
    asking = not yes and not by_agent
    given = Grants(allowed_tools=options["allow_tools"], execute_code=options["allow_code"])
    candidates = proposal.candidates
    if not yes and not can_ask():
        if as_json:
            show_json(
                {
                    "proposed": [skill_json(one.skill) for one in candidates],
                    "failed": [failure_json(failure) for failure in proposal.failures],
                }
            )
        raise nobody_to_ask(
            f"{counted(len(candidates), 'skill')} would be installed",
            _missing_grants(candidates, proposal.before, given),
        )
    question = f"Install {'it' if len(candidates) == 1 else f'these {len(candidates)} skills'}?"
    if not yes and not await ask_about(screen, question, candidates):
        if as_json:
            known = tuple(one.name for one in proposal.known)
            show_json(report_json(InstallReport(current=known), proposal.failures))
        raise nobody_to_ask("not approved") if not can_ask() else _declined()
    answers: dict[str, Grants | SkillwireError] = {}
    for candidate in candidates:
        before = proposal.before.get(candidate.name)
        is_accepted = options["allow_signer"] or await _accepts_signer(
            screen, before, candidate, asking=asking
        )
        if not is_accepted:
            answers[candidate.name] = _signer_refused(candidate, option)
            continue
        powers = before.powers if before is not None else None
        answers[candidate.name] = await grants_for(screen, candidate, given, powers, asking=asking)
    return answers


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


def _signer_refused(candidate: Candidate, also: str) -> SkillwireError:
    from skillwire.errors import RefusedByPolicy

    return RefusedByPolicy(
        f"{candidate.name}: its signer changed, and that was not accepted; find out why, then run "
        f"`skillwire update{also}` on a terminal, or add --allow-signer"
    )


def _show_proposal(screen: Screen, tool: Installer, proposal: Proposal, targets: Iterable[str]) -> None:
    failures = proposal.failures
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
    for candidate in proposal.candidates:
        if owners := tool.workspace.replaced_by(candidate.name, targets):
            words = f"{candidate.name} replaces the skill that {' and '.join(owners)} brings along"
            screen.line(("note  ", "bold yellow"), words)
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


def _show(
    report: InstallReport, *, as_json: bool, extra: Iterable[FetchFailure] = (), checked: bool = True
) -> None:
    if as_json:
        show_json(report_json(report, tuple(extra)))
    else:
        show_report(Screen(), report, extra=tuple(extra), checked=checked)


def _not_there(name: str, places: str) -> FetchFailure:
    from skillwire.errors import SkillNotFound

    words = (
        f"{places} has no skill called {printable(name)}: without --skill, `skillwire add` shows all it has"
    )
    return FetchFailure(name, SkillNotFound(words))


def _declined() -> Exception:
    from skillwire.errors import RefusedByPolicy

    return RefusedByPolicy("not approved: nothing was installed")
