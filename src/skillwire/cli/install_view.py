"""What the installing commands print: skills, differences, plans and reports, as pages and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from skillwire.cli.changes import show_diff
from skillwire.cli.output import counted, human_size, matching, printable
from skillwire.cli.screen import Screen
from skillwire.errors import (
    InstalledInPart,
    OutOfSync,
    RefusedByPolicy,
    SkillwireError,
    SourceError,
    VerificationError,
)
from skillwire.install.candidates import Candidate, Failure
from skillwire.install.disk import read_file
from skillwire.install.lock import LockedFile, LockedSkill
from skillwire.install.plan import Act, Plan, Step, Tree, tree_differences
from skillwire.install.portable import portability_problems
from skillwire.install.powers import Powers
from skillwire.install.report import Report
from skillwire.install.versions import VersionStore
from skillwire.text import decode_text, safe_line
from skillwire.trust.approval import ChangeKind
from skillwire.trust.paths import shown_path
from skillwire.trust.signers import signer_change, signer_words

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
        ]
    )
    if before is not None:
        new = skill.powers.beyond(before.powers)
        if new:
            screen.line("  ", ("newly asks for: ", "bold yellow"), powers_words(new))
        if change := signer_change(before.signer, skill.signer):
            screen.line("  ", ("signer changed: ", "bold yellow"), printable(f"it {change}"))


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
    """What a skill asks for, on one line."""
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


_ACT_STYLES: Final = {Act.CURRENT: "green", Act.EDITED: "bold yellow", Act.FOREIGN: "bold yellow"}


def show_step(screen: Screen, step: Step) -> None:
    """One folder that differs from the lock."""
    style = _ACT_STYLES.get(step.act, "yellow")
    screen.line((step.name, "bold"), "  ", (step.act.words, style), f"  {printable(str(step.path))}")
    for row in step.differences()[:_LISTED]:
        screen.line("    ", (row.kind.value, "yellow"), f"  {shown_path(row.path)}")


def show_report(
    screen: Screen,
    report: Report,
    versions: VersionStore | None = None,
    *,
    extra: Sequence[Failure] = (),
    checked: bool = True,
) -> None:
    """What was done, one line per group, and what was not done, one line per skill.

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


def show_failures(screen: Screen, failures: Iterable[Failure]) -> None:
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


def only_failure(report: Report, extra: Sequence[Failure] = ()) -> Failure | None:
    """The only failure, if nothing else was done and nothing else is to be reported."""
    failed = (*report.refused, *report.failures, *extra)
    done = report.installed or report.updated or report.removed or report.current or report.stopped
    return failed[0] if len(failed) == 1 and not done else None


def conclude(report: Report, extra: Sequence[Failure] = (), *, force: str = "overwrites") -> None:
    """Raise the error that has the exit code for the report; return if everything was done."""
    failed = (*report.refused, *report.failures, *extra)
    refused = [failure for failure in failed if isinstance(failure.error, RefusedByPolicy)]
    failures = [failure for failure in failed if failure not in refused]
    done = bool(report.installed or report.updated or report.removed or report.current)
    if report.is_whole and not failed:
        return
    if (only := only_failure(report, extra)) is not None:
        raise only.error
    if not failures and not report.stopped:
        raise RefusedByPolicy(f"{counted(len(refused), 'skill')} refused: see above")
    if report.stopped and not failed:
        names = sorted({step.name for step in report.stopped})
        raise OutOfSync(
            f"{_named(names)} {'differs' if len(names) == 1 else 'differ'} from skillwire.lock: "
            f"`skillwire sync --adopt` pins what is there, --force {force} it"
        )
    if not done and not report.stopped and not refused:
        words = f"{counted(len(failures), 'skill')} not installed: see above"
        if all(isinstance(failure.error, VerificationError) for failure in failures):
            raise VerificationError(words, uri="")
        raise SourceError(words)
    raise InstalledInPart("partly done: see above for what was not done and why")


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
        "steps": [step_json(step) for step in made.steps if step.act is not Act.CURRENT],
        "current": sorted({step.name for step in made.steps if step.act is Act.CURRENT}),
    }


def report_json(report: Report, extra: Sequence[Failure] = ()) -> dict[str, object]:
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


def failure_json(failure: Failure) -> dict[str, object]:
    error: SkillwireError = failure.error
    return {"name": failure.what, "reason": str(error), "exit_code": error.exit_code}
