"""`skillwire outdated`, `diff`, `why`, `export` and `agents`: what is installed, where from, and where to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.install_setup import installer, progress, run, workspace
from skillwire.cli.output import counted, printable
from skillwire.cli.screen import Screen, padded, show_json
from skillwire.errors import OutOfSync

if TYPE_CHECKING:
    from skillwire.cli.host_options import HostOptions
    from skillwire.install.lock import LockedSkill
    from skillwire.install.workspace import Workspace
    from skillwire.trust.signatures import SignatureVerdict


def outdated(*, names: tuple[str, ...], user: bool, as_json: bool, options: HostOptions) -> None:
    """Ask every source whether it still has what is pinned."""
    from skillwire.install.freshness import Freshness

    tool = installer(workspace(user=user), options)

    async def ask() -> None:
        with progress(tool):
            checks = await tool.check(names or None)
        old = [check for check in checks if check.freshness is Freshness.OUTDATED]
        if as_json:
            show_json(
                {
                    "skills": [
                        {
                            "name": check.skill.name,
                            "source": check.skill.source,
                            "state": check.freshness.value,
                            "detail": check.detail or None,
                        }
                        for check in checks
                    ]
                }
            )
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
                f"{counted(len(old), 'skill')} outdated: `skillwire update` shows what changed and asks"
            )
        unknown = [check for check in checks if check.freshness is not Freshness.CURRENT]
        if unknown:
            from skillwire.errors import InstalledInPart

            raise InstalledInPart(f"{counted(len(unknown), 'skill')} could not be checked: see above")

    run(ask())


def diff(*, name: str, local: bool, user: bool, as_json: bool, options: HostOptions) -> None:
    """What changed at the source, or on disk, since a skill was pinned."""
    from skillwire.cli.install_view import show_candidate, show_changes, skill_json
    from skillwire.install.disk import look_at, read_file
    from skillwire.install.plan import Tree, tree_differences
    from skillwire.trust.signers import signer_change

    work = workspace(user=user)
    tool = installer(work, None if local else options)
    pinned = work.require_lock().require(name)
    old = {file.path: work.versions.read(file) for file in pinned.files}
    if local:
        folder = work.places.canonical(work.scope) / name
        found = look_at(folder, [file.path for file in pinned.files])
        if not isinstance(found, Tree):
            raise OutOfSync(f"{name} is not in {folder}: run `skillwire sync`")
        now: dict[str, bytes | None] = {
            file.path: read_file(folder / file.path, file.size) for file in found.files
        }
        if as_json:
            rows = tree_differences(pinned.files, found)
            show_json({"name": name, "changes": [{"path": r.path, "kind": r.kind.value} for r in rows]})
            return
        show_changes(Screen(), pinned.files, old, found.files, now, labels=("pinned", "on-disk"))
        return

    async def action() -> None:
        with progress(tool):
            proposal = await tool.propose_updates([name])
        for failure in proposal.failures:
            raise failure.error
        screen = Screen()
        if not proposal.candidates:
            if as_json:
                show_json({"name": name, "changes": []})
            else:
                screen.line(f"{name} is up to date.")
            return
        [candidate] = proposal.candidates
        if as_json:
            rows = tree_differences(pinned.files, Tree(candidate.skill.files))
            new = candidate.skill.powers.beyond(pinned.powers)
            show_json(
                {
                    "name": name,
                    "pinned": skill_json(pinned),
                    "new": skill_json(candidate.skill),
                    "changes": [{"path": row.path, "kind": row.kind.value} for row in rows],
                    "newly_requested": {
                        "allowed_tools": list(new.allowed_tools),
                        "scripts": list(new.scripts),
                    },
                    "signature": candidate.signature.as_json(),
                    "signer_change": signer_change(pinned.signer, candidate.skill.signer) or None,
                }
            )
            return
        show_candidate(screen, candidate, pinned)
        show_changes(
            screen, pinned.files, old, candidate.skill.files, candidate.files, labels=("pinned", "new")
        )

    run(action())


def _signature_now(work: Workspace, skill: LockedSkill, options: HostOptions) -> SignatureVerdict | None:
    """Who signed the pinned files, by the configured publishers; `None` if the files are not stored."""
    from datetime import UTC, datetime

    from skillwire.trust.oms import SIGNATURE_FILE
    from skillwire.trust.signatures import UNSIGNED, check_signature

    file = next((one for one in skill.files if one.path == SIGNATURE_FILE), None)
    if file is None:
        return UNSIGNED
    bundle = work.versions.read(file)
    if bundle is None:
        return None
    files = {one.path: one.digest for one in skill.files}
    return check_signature(files, bundle, options.publishers(), now=datetime.now(UTC))


def why(*, name: str | None, user: bool, as_json: bool, options: HostOptions) -> None:
    """Where a skill came from, what it is pinned to, and what was approved when; without a name, of every
    skill."""
    from skillwire.cli.install_view import skill_json as document
    from skillwire.cli.install_view import source_words
    from skillwire.install.state import acceptance_key

    work = workspace(user=user)
    if name is None:
        _list_installed(work.require_lock().skills, as_json=as_json)
        return
    skill = work.require_lock().require(name)
    state = work.files.read(work.root)
    approved = state.accepted.get(acceptance_key(skill))
    places = sorted(path for path, placed in state.placed.items() if placed.name == name)
    versions = state.history.get(name, ())
    signature = _signature_now(work, skill, options)
    if as_json:
        show_json(
            {
                **document(skill),
                "signature": signature.as_json() if signature is not None else None,
                "approved": approved.at if approved else None,
                "approved_by": approved.by if approved else None,
                "places": [str(path) for path in places],
                "versions": [{"digest": one.digest, "installed": one.at} for one in versions],
            }
        )
        return
    screen = Screen()
    screen.line((name, "bold"))
    screen.pairs(
        [
            ("from", source_words(skill)),
            *(
                ("artifact digest" if key == "digest" else key, printable(value))
                for key, value in skill.pin.details
            ),
            ("digest", skill.digest),
            ("signer", printable(skill.signer)),
            ("signature", printable(str(signature)) if signature is not None else ""),
            ("tools", printable(", ".join(skill.powers.allowed_tools))),
            ("scripts", printable(", ".join(skill.powers.scripts))),
            (
                "approved",
                f"{approved.at} by {printable(approved.by) or 'you'}"
                if approved
                else "not by you; `skillwire sync` asks before it installs it",
            ),
            *(("folder", printable(str(path))) for path in places),
            *(
                (
                    "version",
                    f"{one.digest[:19]}…  installed {one.at}"
                    + ("  (now)" if one.digest == skill.digest else ""),
                )
                for one in reversed(versions)
            ),
        ]
    )


def _list_installed(skills: Sequence[LockedSkill], *, as_json: bool) -> None:
    from skillwire.cli.install_view import skill_json, source_words

    if as_json:
        show_json({"skills": [skill_json(skill) for skill in skills]})
        return
    screen = Screen()
    widest = max((len(skill.name) for skill in skills), default=0)
    for skill in skills:
        screen.line((padded(skill.name, widest), "bold"), f"  {source_words(skill)}  {skill.digest[:19]}…")
    if not skills:
        screen.line("Nothing is installed here.")


def _short(folder: Path, work: Workspace) -> str:
    """A folder as a person would write it: from the project or the home on."""
    root, prefix = (work.places.home, "~/") if work.scope.value == "user" else (work.places.project, "")
    shown = folder.as_posix()
    return printable(prefix + folder.relative_to(root).as_posix() if folder.is_relative_to(root) else shown)


def export(*, place: Path, skill: tuple[str, ...], user: bool, as_json: bool) -> None:
    """Write a verified copy of what is pinned."""
    from skillwire.cli.install_view import skill_json as document
    from skillwire.install.export import export_skills

    skills = export_skills(workspace(user=user), place, skill or None)
    if as_json:
        show_json({"place": str(place), "skills": [document(one) for one in skills]})
        return
    Screen().line(("Exported ", "green"), f"{counted(len(skills), 'skill')} to {printable(str(place))}")


def list_agents(*, everyone: bool, user: bool, as_json: bool) -> None:
    """The agents that read skills from folders."""
    from skillwire.install.agents import agents, detect_agents, shares_canonical

    work = workspace(user=user)
    here = {agent.id for agent in detect_agents(work.places, work.scope)}
    rows = [agent for agent in agents().values() if everyone or agent.id in here]
    if as_json:
        show_json(
            {
                "agents": [
                    {
                        "id": agent.id,
                        "name": agent.name,
                        "folder": str(folder) if (folder := work.places.folder(agent, work.scope)) else None,
                        "shares_canonical": shares_canonical(agent, work.places, work.scope),
                        "detected": agent.id in here,
                    }
                    for agent in rows
                ]
            }
        )
        return
    screen = Screen()
    widest = max((len(agent.id) for agent in rows), default=0)
    for agent in rows:
        folder = work.places.folder(agent, work.scope)
        screen.line(
            (padded(agent.id, widest), "bold" if agent.id in here else ""),
            f"  {padded(agent.name, 24)}  ",
            (
                _short(folder, work) if folder is not None else "projects only",
                "dim" if folder is None else "",
            ),
        )
    if not everyone:
        known = len(agents())
        screen.line(f"{counted(len(rows), 'agent')} found here; `skillwire agents --all` lists {known}.")
