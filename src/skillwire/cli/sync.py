"""`skillwire sync`: make the folders match the lock file. If they already do, little is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.install_setup import (
    ask_yes,
    can_ask,
    installer,
    installs_by_agent,
    nobody_to_ask,
    progress,
    run,
    workspace,
)
from skillwire.cli.output import counted, matching, printable, write
from skillwire.errors import OutOfSync, PolicyRefused, UsageError
from skillwire.install.apply import leftovers

if TYPE_CHECKING:
    from skillwire.cli.host_options import HostOptions
    from skillwire.install import FetchFailure, Installer, LockedSkill, Plan, Workspace


def sync(
    *,
    check: bool,
    frozen: bool,
    adopt: bool,
    export: Path | None,
    skill: tuple[str, ...],
    force: bool,
    copy: bool,
    yes: bool,
    user: bool,
    as_json: bool,
    options: HostOptions,
) -> None:
    """Make the folders match the lock, or print what differs."""
    if sum((check, adopt, force)) > 1 or (frozen and adopt):
        raise UsageError("--check, --adopt and --force exclude each other, and --frozen excludes --adopt")
    if skill and export is None:
        raise UsageError("--skill needs --export: sync installs everything that is pinned")
    work = workspace(user=user, copy=copy, lock=True)
    if export is not None:
        if check or frozen or adopt or force:
            raise UsageError("--export only writes a copy: leave out --check, --frozen, --adopt and --force")
        _export(work, export, skill, as_json=as_json)
        return
    lock = work.require_lock()
    state = work.files.read(work.root)
    forced = [skill.name for skill in lock.skills] if force else ()
    made = work.plan(lock, state, force=forced)
    refused = _refused_by_policy(work, lock.skills, options)
    if check:
        _check(work, made, refused, as_json=as_json)
        return
    if (
        made.is_done
        and not refused
        and all(step.path in state.placed for step in made.steps)
        and not leftovers({step.path.parent for step in made.steps})
    ):
        _say_current(made, as_json=as_json)
        return
    tool = installer(work, options if adopt or made.needs_content() else None, policy=options.policy)
    if adopt and made.stopped:
        run(_adopt(tool, made, yes=yes, as_json=as_json))
        return
    unaccepted = tool.unaccepted(state, made)

    async def action() -> None:
        from skillwire.cli.install_view import conclude, report_json, show_report
        from skillwire.cli.output import Screen, show_json

        if unaccepted:
            # Whoever accepts the lock of somebody else approves what is in it.
            installs_by_agent(grants=any(skill.powers for skill in unaccepted))
            await _ask_for_set(unaccepted, yes=yes, as_json=as_json)
        with progress(tool):
            report = await tool.sync(accept=unaccepted, force=forced)
        if as_json:
            show_json(report_json(report))
        else:
            show_report(Screen(), report, work.versions)
        conclude(report, also=work.option)

    run(action())


def _export(work: Workspace, place: Path, names: tuple[str, ...], *, as_json: bool) -> None:
    """Write a verified copy of what is pinned."""
    from skillwire.cli.install_view import skill_json
    from skillwire.cli.output import Screen, show_json
    from skillwire.install import export_skills

    skills = export_skills(work, place, names or None)
    if as_json:
        show_json({"place": str(place), "skills": [skill_json(one) for one in skills]})
        return
    Screen().line(("Exported ", "green"), f"{counted(len(skills), 'skill')} to {printable(str(place))}")


def _say_current(made: Plan, *, as_json: bool) -> None:
    """Print that everything is as pinned: nothing has to be locked, fetched or written."""
    names = sorted({step.name for step in made.steps})
    if not as_json:
        write(matching(len(names)))
        return
    from skillwire.cli.install_view import report_json
    from skillwire.cli.output import show_json
    from skillwire.install import InstallReport

    show_json(report_json(InstallReport(current=tuple(names))))


def _refused_by_policy(
    work: Workspace, skills: Sequence[LockedSkill], options: HostOptions
) -> Sequence[FetchFailure]:
    """The pinned skills that the policy refuses. Without a policy, no more is read."""
    if not options.policy_files().current(work.places.project).policy.given:
        return ()
    return installer(work, options).refused_by_policy(skills)


def _check(work: Workspace, made: Plan, refused: Sequence[FetchFailure], *, as_json: bool) -> None:
    from skillwire.cli.install_view import failure_json, plan_json, show_failures, show_step
    from skillwire.cli.output import Screen, show_json
    from skillwire.install import StepKind

    different = [step for step in made.steps if step.act is not StepKind.CURRENT]
    if as_json:
        by_policy = {"refused": [failure_json(one) for one in refused]} if refused else {}
        show_json({**plan_json(made), **by_policy})
    else:
        screen = Screen()
        for step in different:
            show_step(screen, step)
        names = {step.name for step in made.steps} - {step.name for step in different}
        screen.line(matching(len(names)))
        show_failures(screen, refused)
    if refused:
        names_ = ", ".join(one.what for one in refused)
        also = work.option
        raise PolicyRefused(
            f"the policy refuses {names_}: `skillwire remove{also}` or `skillwire update{also}` cleans up"
        )
    if different:
        raise OutOfSync(
            f"{counted(len(different), 'folder')} not matching skillwire.lock: "
            f"run `skillwire sync{work.option}`"
        )


async def _ask_for_set(skills: Sequence[LockedSkill], *, yes: bool, as_json: bool) -> None:
    """Ask once for exactly this set: somebody else may have written the lock file."""
    from skillwire.cli.host_options import person_screen
    from skillwire.cli.install_view import UNMARKED, show_locked, skill_json
    from skillwire.cli.output import Screen, show_json
    from skillwire.errors import RefusedByPolicy

    screen = Screen(errors=True) if yes else person_screen()
    if not as_json:
        screen.line(
            f"skillwire.lock would install {counted(len(skills), 'skill')} that you have not approved:"
        )
        for skill in skills:
            show_locked(screen, skill)
        screen.wrapped(UNMARKED, style="dim")
    if yes:
        return
    if not can_ask():
        if as_json:
            show_json({"proposed": [skill_json(skill) for skill in skills]})
        raise nobody_to_ask(f"you have not approved {counted(len(skills), 'skill')} of skillwire.lock")
    if not await ask_yes(screen, "Install exactly these, with the tools and scripts shown?"):
        raise RefusedByPolicy("not approved: nothing was installed")


async def _adopt(tool: Installer, made: Plan, *, yes: bool, as_json: bool) -> None:
    from skillwire.cli.host_options import person_screen
    from skillwire.cli.install_view import conclude, report_json, show_candidate, show_report, skill_json
    from skillwire.cli.output import Screen, show_json
    from skillwire.errors import RefusedByPolicy
    from skillwire.trust import ALL_GRANTS

    candidates = tool.adoptable(made.stopped)
    installs_by_agent(grants=any(one.skill.powers for one in candidates))
    screen = Screen(errors=True) if yes else person_screen()
    if not as_json:
        for candidate in candidates:
            show_candidate(screen, candidate)
    if not yes and not can_ask():
        if as_json:
            show_json({"proposed": [skill_json(one.skill) for one in candidates]})
        raise nobody_to_ask(f"{counted(len(candidates), 'skill')} would be pinned as edited")
    if not yes and not await ask_yes(screen, "Pin what is on disk?"):
        raise RefusedByPolicy("not approved: nothing was pinned")
    report = await tool.install(candidates, {one.name: ALL_GRANTS for one in candidates})
    if as_json:
        show_json(report_json(report))
    else:
        pinned = [one.name for one in candidates if one.name in report.current]
        if pinned:
            Screen().line(
                ("Pinned ", "green"), f"{counted(len(pinned), 'skill')} as edited: {', '.join(pinned)}"
            )
        show_report(Screen(), replace(report, current=()))
    conclude(report, also=tool.workspace.option)
