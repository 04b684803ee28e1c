"""`skillwire lint`: every issue of every skill, before anyone else finds it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from skillwire.cli.output import counted, printable, write
from skillwire.errors import SourceError
from skillwire.issues import Issue, Severity
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill.lint import lint_skill
from skillwire.skill.uris import SKILL_FILE, path_below, skill_root
from skillwire.sources.directory.roots import Root, parse_root
from skillwire.sources.directory.walk import FoundSkill, Walk

_JSON_VERSION = 1
_ISSUES_FOUND = 1

_Place: TypeAlias = tuple[str, tuple[str, ...]]
"""A skill's directory; or a path between skills, with the rules that it broke."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """A skill by its directory, as the person would write it; `None` for what lies between skills."""

    skill: str | None
    issues: tuple[Issue, ...]


def lint(
    *,
    paths: tuple[Path, ...],
    as_json: bool,
    strict: bool,
) -> int:
    """Check skills: errors make a host refuse a skill, advice makes it better."""
    checked = _check(paths)
    write(_as_json(checked) if as_json else _as_text(checked))
    if _issues(checked, Severity.ERROR) or (strict and _issues(checked, Severity.ADVICE)):
        return _ISSUES_FOUND
    return 0


def _check(paths: Iterable[Path]) -> list[_Checked]:
    """Lint what the paths hold, each place once, however often it was named."""
    places: dict[_Place, _Checked] = {}
    for path in paths:
        given = path.parent if _is_skill_md(path) else path
        found = dict(_check_root(parse_root(given), given))
        if not found:
            # A check that looked at nothing must not pass.
            raise SourceError(f"no skills in {given}: a skill is a directory with a {SKILL_FILE}")
        for place in sorted(found):
            places.setdefault(place, found[place])
    return list(places.values())


def _is_skill_md(path: Path) -> bool:
    try:
        return path.name.lower() == SKILL_FILE.lower() and path.is_file()
    except OSError:
        return False  # Whoever opens it as a directory says what is wrong.


def _check_root(root: Root, given: Path) -> Iterator[tuple[_Place, _Checked]]:
    """Walk by the server's own rules, so that both agree on what a skill is and what belongs to it."""
    found: list[tuple[_Place, _Checked]] = []

    def take(skill: FoundSkill) -> None:
        directory = given / Path(skill.directory).relative_to(root.path)
        found.append(((skill.directory, ()), _lint(skill, directory)))

    # However large a skill is, all of its files must be known before a reference can be called missing.
    walk = Walk(root, limits=DEFAULT_LIMITS, allow_oversize=True, on_skill=take).run()
    yield from found
    for problem in walk.problems:
        place = Path(problem.place)
        file = given / place.relative_to(root.path) if place.is_relative_to(root.path) else place
        rules = tuple(issue.rule for issue in problem.issues)
        issues = tuple(replace(issue, file=str(file)) for issue in problem.issues)
        yield (problem.place, rules), _Checked(None, issues)


def _lint(skill: FoundSkill, directory: Path) -> _Checked:
    issues = [replace(issue, file=str(directory / issue.file)) for issue in skill.issues]
    if skill.skill_md is not None:
        root = skill_root(skill.uri)
        issues += lint_skill(
            skill.skill_md,
            directory=Path(skill.directory).name,
            files={"/".join(path_below(file.uri, root)): file.size for file in skill.resources},
            file=str(directory / SKILL_FILE),
        )
    return _Checked(str(directory), tuple(issues))


def _issues(checked: Iterable[_Checked], severity: Severity) -> list[Issue]:
    return [issue for one in checked for issue in one.issues if issue.severity is severity]


def _as_text(checked: list[_Checked]) -> str:
    errors, advice = _issues(checked, Severity.ERROR), _issues(checked, Severity.ADVICE)
    lines: list[str] = []
    for title, issues in (("Errors: a host would refuse these", errors), ("Advice", advice)):
        if not issues:
            continue
        lines += [title, ""]
        for issue in issues:
            place = issue.file if issue.line is None else f"{issue.file}:{issue.line}"
            lines.append(f"  {printable(f'{place}: {issue.message}')}")
            if issue.fix:
                lines.append(f"      {printable(issue.fix)}")
        lines.append("")
    skills = counted(sum(one.skill is not None for one in checked), "skill")
    remarks = "no advice" if not advice else f"{counted(len(advice), 'piece')} of advice"
    lines.append(f"{skills} checked: {counted(len(errors), 'error') if errors else 'no errors'}, {remarks}")
    return "\n".join(lines)


def _as_json(checked: list[_Checked]) -> str:
    """One document, of a shape that stays: a field may be added, none changes its meaning."""
    document = {
        "version": _JSON_VERSION,
        "skills": [one.skill for one in checked if one.skill is not None],
        "issues": [
            {
                "severity": issue.severity.value,
                "rule": issue.rule,
                "skill": one.skill,
                "file": issue.file,
                "line": issue.line,
                "message": issue.message,
                "fix": issue.fix,
            }
            for one in checked
            for issue in one.issues
        ],
        "errors": len(_issues(checked, Severity.ERROR)),
        "advice": len(_issues(checked, Severity.ADVICE)),
    }
    # ASCII only: what a stranger wrote reaches a terminal as an escape.
    return json.dumps(document, indent=2, ensure_ascii=True)
