"""Output of the installing commands: skills, differences, plans and reports, as pages and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rich.cells import cell_len

from skillwire.cli.output import (
    Screen,
    counted,
    cut,
    human_size,
    info,
    matching,
    padded,
    printable,
    scan_rows,
)
from skillwire.cli.skill_view import show_diff
from skillwire.clients import Scope
from skillwire.errors import (
    InstalledInPart,
    OutOfSync,
    PolicyRefused,
    RefusedByPolicy,
    SkillwireError,
    SourceError,
    VerificationError,
)
from skillwire.install import (
    Candidate,
    FetchFailure,
    InstallReport,
    LockedFile,
    LockedSkill,
    Plan,
    Powers,
    Step,
    StepKind,
    Tree,
    VersionStore,
    Workspace,
    tree_differences,
)
from skillwire.install.state import InstallState, acceptance_key, read_file
from skillwire.skill.files import portability_problems
from skillwire.text import decode_text, safe_line
from skillwire.trust import (
    SIGNATURE_FILE,
    UNSIGNED,
    ChangeKind,
    Publisher,
    SignatureVerdict,
    check_signature,
    shown_path,
    signer_change,
    signer_words,
)

_DESCRIPTION_SHOWN: Final = 300
_LISTED: Final = 8
_NAMES_SHOWN: Final = 40
_SHORT: Final = len("sha256:") + 12
UNMARKED: Final = (
    "An agent that reads these folders does not show where a skill came from, and does not mark its text as "
    "untrusted."
)


def source_words(skill: LockedSkill) -> str:
    """Where a skill comes from, for a person: what the user gave, and what it resolved to."""
    return printable(skill.source_words)


def show_candidate(screen: Screen, candidate: Candidate, before: LockedSkill | None = None) -> None:
    """One skill as it would be installed."""
    skill = candidate.skill
    screen.line((skill.name, "bold"), " from ", (source_words(skill), "cyan"))
    screen.pairs(
        [
            ("description", safe_line(candidate.description, limit=_DESCRIPTION_SHOWN)),
            *_rows(skill, str(candidate.signature)),
            *(("note", problem) for problem in portability_problems(file.path for file in skill.files)),
            *scan_rows(candidate.scans),
        ]
    )
    if before is not None:
        new = skill.powers.beyond(before.powers)
        if new:
            screen.line("  ", ("newly asks for: ", "bold yellow"), powers_words(new))
        if change := signer_change(before.signer, skill.signer):
            screen.line("  ", ("signer changed: ", "bold yellow"), printable(f"it {change}"))


def show_names(screen: Screen, candidates: Sequence[Candidate], known: Sequence[Candidate]) -> None:
    """The skills that there are, each with the beginning of its description."""
    names = {one.name for one in known}
    widest = max((cell_len(one.name) for one in candidates), default=0)
    for one in sorted(candidates, key=lambda one: one.name):
        mark = "installed  " if one.name in names else ""
        room = max(screen.width - widest - 2 - len(mark), 20)
        description = cut(safe_line(one.description, limit=_DESCRIPTION_SHOWN), room)
        screen.line((padded(one.name, widest), "bold"), "  ", (mark, "green"), description)


def readers_line(work: Workspace, targets: Iterable[str]) -> str:
    """Which agents of this machine read what was installed."""
    readers = [f"{name} ({how})" if how else name for name, how in work.readers(targets)]
    nobody = "no agent that is found here; `skillwire config agents --all` lists those that would"
    return f"Read by: {', '.join(readers) or nobody}"


def show_locked(screen: Screen, skill: LockedSkill) -> None:
    """One skill as a lock pins it."""
    screen.line((skill.name, "bold"), " from ", (source_words(skill), "cyan"))
    screen.pairs(_rows(skill, f"{signer_words(skill.signer)}, according to skillwire.lock"))


def _rows(skill: LockedSkill, signature: str) -> list[tuple[str, str]]:
    return [
        ("files", f"{counted(len(skill.files), 'file')}, {human_size(skill.size)}"),
        ("tools", _listed(skill.powers.allowed_tools)),
        ("scripts", _listed(skill.powers.scripts)),
        ("signature", printable(signature)),
        ("digest", skill.digest[:_SHORT] + "…"),
    ]


def powers_words(powers: Powers) -> str:
    """Return what a skill asks for, on one line."""
    parts = [
        f"tools {_listed(powers.allowed_tools)}" if powers.allowed_tools else "",
        f"scripts {_listed(powers.scripts)}" if powers.scripts else "",
    ]
    return "; ".join(part for part in parts if part)


def _named(names: Sequence[str]) -> str:
    """Names on one line, only the first ones if there are many."""
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return printable(", ".join(items[:_LISTED])) + more


def show_changes(
    screen: Screen,
    old: Sequence[LockedFile],
    old_files: Mapping[str, bytes | None],
    new: Sequence[LockedFile],
    new_files: Mapping[str, bytes | None],
    *,
    labels: tuple[str, str],
    only_texts: bool = False,
) -> None:
    """Every changed file, with a diff if both sides are text, and with its text if it is new."""
    for row in tree_differences(old, Tree(tuple(new))):
        path = shown_path(row.path)
        if not only_texts:
            screen.line("  ", (row.kind.value, "yellow"), f"  {path}")
        before, after = decode_text(old_files.get(row.path)), decode_text(new_files.get(row.path))
        if row.kind is ChangeKind.CHANGED and before is not None and after is not None:
            show_diff(screen, before, after, path, labels)
        elif row.kind is ChangeKind.ADDED and after:
            show_diff(screen, "", after, path, labels)
        elif row.kind is ChangeKind.CHANGED and not only_texts:
            screen.wrapped("no diff: one side is binary or not stored", indent=4, style="dim")
    modes = {file.path: file.executable for file in old}
    for file in new:
        if modes.get(file.path, file.executable) != file.executable:
            word = "is now executable" if file.executable else "is no longer executable"
            screen.line("  ", ("mode", "yellow"), f"  {shown_path(file.path)} {word}")


_ACT_STYLES: Final = {
    StepKind.CURRENT: "green",
    StepKind.EDITED: "bold yellow",
    StepKind.FOREIGN: "bold yellow",
}


def show_step(screen: Screen, step: Step) -> None:
    """One folder that differs from the lock."""
    style = _ACT_STYLES.get(step.act, "yellow")
    screen.line((step.name, "bold"), "  ", (step.act.words, style), f"  {printable(str(step.path))}")
    for row in step.differences()[:_LISTED]:
        screen.line("    ", (row.kind.value, "yellow"), f"  {shown_path(row.path)}")


def show_report(
    screen: Screen,
    report: InstallReport,
    versions: VersionStore | None = None,
    *,
    extra: Sequence[FetchFailure] = (),
    checked: bool = True,
) -> None:
    """Print what was done, one line per group, and what was not done, one line per skill.

    With the stored `versions`, it also shows the edits in folders that were not changed. `extra` are failures
    that were printed before. `checked` is whether the current skills were compared with what is on disk.
    """
    for words, names, style in (
        ("Installed", report.installed, "green"),
        ("Updated", report.updated, "green"),
        ("Removed", report.removed, "green"),
    ):
        if names:
            screen.line((f"{words} ", style), f"{counted(len(names), 'skill')}: {_named(names)}")
    if report.current and not (report.installed or report.updated or report.removed):
        screen.line(
            matching(len(report.current))
            if checked
            else f"{counted(len(report.current), 'skill')} up to date."
        )
    for path in report.copies:
        screen.line(("copied  ", "dim"), f"{printable(str(path))} (links are not allowed there)")
    for step in report.stopped:
        show_step(screen, step)
        if versions is not None:
            _show_edit(screen, step, versions)
    if report.stopped:
        screen.wrapped("These folders were not changed.")
    if only_failure(report, extra) is None:  # That is what the command ends with.
        show_failures(screen, (*report.refused, *report.failures))


def show_failures(screen: Screen, failures: Iterable[FetchFailure]) -> None:
    """Why skills were not installed, one line for each reason, with their names in front."""
    names: dict[str, list[str]] = {}
    for failure in failures:
        name = printable(failure.what)
        said = printable(str(failure.error)).removeprefix(f"{name}: ")
        names.setdefault(said, []).extend([] if said.startswith(name) else [name])
    for said, named in names.items():
        screen.line(("not installed  ", "red"), f"{_named(named)}: {said}" if named else said)


def _show_edit(screen: Screen, step: Step, versions: VersionStore) -> None:
    if step.skill is None or not isinstance(step.found, Tree):
        return
    show_changes(
        screen,
        step.skill.files,
        {file.path: versions.read(file) for file in step.skill.files},
        step.found.files,
        {file.path: read_file(step.path / file.path, file.size) for file in step.found.files},
        labels=("pinned", "on-disk"),
        only_texts=True,
    )


def only_failure(report: InstallReport, extra: Sequence[FetchFailure] = ()) -> FetchFailure | None:
    """The only failure, if nothing else was done and nothing else is to be reported."""
    failed = (*report.refused, *report.failures, *extra)
    done = report.installed or report.updated or report.removed or report.current or report.stopped
    return failed[0] if len(failed) == 1 and not done else None


def conclude(
    report: InstallReport, extra: Sequence[FetchFailure] = (), *, force: str = "overwrites", also: str = ""
) -> None:
    """Raise the error that has the exit code for the report; return if everything was done."""
    if report.unrecorded:
        why = printable(report.unrecorded)
        info(f"Installed, but hosts will ask again: the approval cannot be stored ({why})")
    failed = (*report.refused, *report.failures, *extra)
    refused = [failure for failure in failed if isinstance(failure.error, RefusedByPolicy | PolicyRefused)]
    failures = [failure for failure in failed if failure not in refused]
    done = bool(report.installed or report.updated or report.removed or report.current)
    if report.is_whole and not failed:
        return
    if (only := only_failure(report, extra)) is not None:
        raise only.error
    if not failures and not report.stopped:
        by_policy = any(isinstance(failure.error, PolicyRefused) for failure in refused)
        raise (PolicyRefused if by_policy else RefusedByPolicy)(
            f"{counted(len(refused), 'skill')} refused: see above"
        )
    if report.stopped and not failed:
        names = sorted({step.name for step in report.stopped})
        raise OutOfSync(
            f"{_named(names)} {'differs' if len(names) == 1 else 'differ'} from skillwire.lock: "
            f"`skillwire sync --adopt{also}` pins what is there, --force {force} it"
        )
    if not done and not report.stopped and not refused:
        words = f"{counted(len(failures), 'skill')} not installed: see above"
        if all(isinstance(failure.error, VerificationError) for failure in failures):
            raise VerificationError(words, uri="")
        raise SourceError(words)
    raise InstalledInPart("partly done: see above for what was not done and why")


def show_pins(skills: Sequence[LockedSkill]) -> None:
    """Every pinned skill, and where it came from."""
    screen = Screen()
    widest = max((len(skill.name) for skill in skills), default=0)
    for skill in skills:
        pin = f"{skill.digest[:_SHORT]}…"
        screen.line((padded(skill.name, widest), "bold"), f"  {source_words(skill)}  {pin}")
    if not skills:
        screen.line("Nothing is installed here.")


class Pinned(NamedTuple):
    """A skill that a lock file pins, with what is known of it on this machine."""

    work: Workspace
    skill: LockedSkill
    signature: SignatureVerdict | None
    """Who signed the pinned files, by the configured publishers; `None` if the files are not stored."""

    @classmethod
    def find(cls, name: str, publishers: Callable[[], Sequence[Publisher]]) -> Pinned | None:
        """The skill of this name that the project's lock pins, or else the user's."""
        for scope in (Scope.PROJECT, Scope.USER):
            work = Workspace.open(scope)
            lock = work.read_lock()
            skill = next((one for one in lock.skills if one.name == name), None) if lock else None
            if skill is not None:
                return cls(work, skill, _signature_now(work, skill, publishers))
        return None

    def show(self, screen: Screen) -> None:
        """Where it came from, what it is pinned to, and what was approved when."""
        skill, state = self.skill, self.work.files.read(self.work.root)
        approved = state.accepted.get(acceptance_key(skill))
        screen.line((f"Installed, pinned by {printable(str(self.work.lock_file))}", "bold"))
        screen.pairs(
            [
                ("from", source_words(skill)),
                *(
                    ("artifact digest" if key == "digest" else key, printable(value))
                    for key, value in skill.pin.details
                ),
                ("digest", skill.digest),
                ("signer", printable(skill.signer)),
                ("signature", printable(str(self.signature)) if self.signature is not None else ""),
                ("tools", printable(", ".join(skill.powers.allowed_tools))),
                ("scripts", printable(", ".join(skill.powers.scripts))),
                (
                    "approved",
                    f"{approved.at} by {printable(approved.by) or 'you'}"
                    if approved
                    else f"not by you; `skillwire sync{self.work.option}` asks before it installs it",
                ),
                *(("folder", printable(str(path))) for path in self._folders(state)),
                *(
                    (
                        "version",
                        f"{one.digest[:_SHORT]}…  installed {one.at}"
                        + ("  (now)" if one.digest == skill.digest else ""),
                    )
                    for one in reversed(state.history.get(skill.name, ()))
                ),
            ]
        )

    def as_json(self) -> dict[str, object]:
        state = self.work.files.read(self.work.root)
        approved = state.accepted.get(acceptance_key(self.skill))
        return {
            **skill_json(self.skill),
            "lock": str(self.work.lock_file),
            "signature": self.signature.as_json() if self.signature is not None else None,
            "approved": approved.at if approved else None,
            "approved_by": approved.by if approved else None,
            "places": [str(path) for path in self._folders(state)],
            "versions": [
                {"digest": one.digest, "installed": one.at} for one in state.history.get(self.skill.name, ())
            ],
        }

    def _folders(self, state: InstallState) -> list[Path]:
        return sorted(path for path, placed in state.placed.items() if placed.name == self.skill.name)


def _signature_now(
    work: Workspace, skill: LockedSkill, publishers: Callable[[], Sequence[Publisher]]
) -> SignatureVerdict | None:
    """Who signed the pinned files, by the configured publishers; `None` if the files are not stored."""
    from datetime import UTC, datetime

    file = next((one for one in skill.files if one.path == SIGNATURE_FILE), None)
    if file is None:
        return UNSIGNED
    bundle = work.versions.read(file)
    if bundle is None:
        return None
    files = {one.path: one.digest for one in skill.files}
    return check_signature(files, bundle, publishers(), now=datetime.now(UTC))


# JSON


def skill_json(skill: LockedSkill) -> dict[str, object]:
    """A pinned skill as a document; fields may be added, none changes its meaning."""
    return {
        "name": skill.name,
        "source": skill.source,
        "pin": {"kind": skill.pin.kind, **dict(skill.pin.details)},
        "digest": skill.digest,
        "signer": skill.signer,
        "allowed_tools": list(skill.powers.allowed_tools),
        "scripts": list(skill.powers.scripts),
        "targets": list(skill.targets),
        "files": len(skill.files),
        "bytes": skill.size,
    }


def step_json(step: Step) -> dict[str, object]:
    return {
        "name": step.name,
        "target": step.target,
        "path": str(step.path),
        "state": step.act.value,
        "changes": [{"path": row.path, "kind": row.kind.value} for row in step.differences()],
    }


def plan_json(made: Plan) -> dict[str, object]:
    return {
        "in_sync": made.is_done,
        "steps": [step_json(step) for step in made.steps if step.act is not StepKind.CURRENT],
        "current": sorted({step.name for step in made.steps if step.act is StepKind.CURRENT}),
    }


def report_json(report: InstallReport, extra: Sequence[FetchFailure] = ()) -> dict[str, object]:
    return {
        "installed": list(report.installed),
        "updated": list(report.updated),
        "removed": list(report.removed),
        "current": list(report.current),
        "stopped": [step_json(step) for step in report.stopped],
        "refused": [failure_json(failure) for failure in report.refused],
        "failed": [failure_json(failure) for failure in (*report.failures, *extra)],
        "copies": [str(path) for path in report.copies],
    }


def failure_json(failure: FetchFailure) -> dict[str, object]:
    error: SkillwireError = failure.error
    return {"name": failure.what, "reason": str(error), "exit_code": error.exit_code}
