"""`skillwire lint` and `skillwire new`: check skills, repair them, and start a new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from skillwire.cli.output import counted, info, printable, write
from skillwire.errors import SourceError
from skillwire.issues import Severity
from skillwire.skill.lint_report import REPORTS, as_text, issues_of, without
from skillwire.skill.template import new_skill_md
from skillwire.skill.uris import SKILL_FILE
from skillwire.sources.directory.lint import find_fixes, lint_paths

_ISSUES_FOUND = 1


def lint(
    *,
    paths: tuple[Path, ...],
    output: str,
    as_json: bool,
    strict: bool,
    ignore: tuple[str, ...],
    errors_only: bool,
    show_all: bool,
    fix: bool,
    diff: bool,
    watch: bool,
) -> int:
    """Check skills: a skill with errors is not served, warnings name hosts that refuse it, advice improves
    it."""
    paths = paths or (Path(),)
    ignored = frozenset(rule for given in ignore for rule in given.replace(",", " ").split())
    output = "json" if as_json else output

    def check() -> int:
        if fix or diff:
            _repair(paths, is_written=fix and not diff)
            if diff:
                return 0
        linted = without(lint_paths(paths), ignored, errors_only=errors_only)
        write(
            as_text(linted, show_all=show_all, clean=printable)
            if output == "text"
            else REPORTS[output](linted)
        )
        failing = [Severity.ERROR, Severity.WARNING, *([Severity.ADVICE] if strict else [])]
        return _ISSUES_FOUND if any(issues_of(linted, severity) for severity in failing) else 0

    return _check_again_and_again(paths, check) if watch else check()


def new(*, path: Path, description: str | None) -> int:
    """Write a new skill that passes the linter."""
    directory = Path(path)
    text = new_skill_md(directory.name or directory.resolve().name, description or "")
    file = directory / SKILL_FILE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        raise SourceError(f"{file} already exists; choose another name") from None
    except OSError as error:
        raise SourceError(f"{file} cannot be written: {error.strerror}") from None
    write(printable(f"Wrote {file}. Edit it, then run: skillwire lint {directory}"))
    return 0


def _repair(paths: tuple[Path, ...], *, is_written: bool) -> None:
    """Show what can be repaired as a diff, and repair it."""
    fixes = find_fixes(paths)
    for found in fixes:
        for line in found.diff.splitlines():
            write(printable(line))
        if is_written:
            found.write()
    done = "Repaired" if is_written else "Would repair"
    info(f"{done} {counted(len(fixes), 'file')}" if fixes else "Nothing to repair")


def _check_again_and_again(paths: tuple[Path, ...], check: Callable[[], int]) -> int:
    """Check now, and after every change, until interrupted."""
    import watchfiles

    from skillwire.errors import SkillwireError
    from skillwire.skill.files import belongs_to_skill

    def run() -> int:
        try:
            return check()
        except SkillwireError as error:
            info(str(error))
            return error.exit_code

    code = run()
    try:
        for _ in watchfiles.watch(
            *paths,
            watch_filter=lambda _change, path: all(map(belongs_to_skill, Path(path).parts)),
            raise_interrupt=True,
        ):
            write("")
            code = run()
    except KeyboardInterrupt:
        pass
    return code
