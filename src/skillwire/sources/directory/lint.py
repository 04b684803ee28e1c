"""Linting of skills on disk, by the rules of the server, and writing of repairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from skillwire.errors import SourceError
from skillwire.files import write_atomic
from skillwire.issues import Issue, Severity
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill.fix import Fixed, fix_skill_md, unified_diff
from skillwire.skill.lint import estimate_tokens, ignored_rules, lint_skill
from skillwire.skill.lint_report import Linted
from skillwire.skill.uris import SKILL_FILE
from skillwire.sources.directory.roots import Root, find_reach, parse_root
from skillwire.sources.directory.signing import signature_issues
from skillwire.sources.directory.walk import FoundSkill, Rules, Walk
from skillwire.trust.hidden_text import Hiding, find_hidden_text
from skillwire.trust.oms import SIGNATURE_FILE

_HIDDEN_RULE: Final = "hidden-characters"
_HIDDEN: Final = {
    Hiding.TAGS: "Unicode tag characters, which no person sees",
    Hiding.BIDI: "characters that change the direction of text",
    Hiding.INVISIBLE: "zero-width characters",
    Hiding.CONTROL: "control characters",
}

_Place: TypeAlias = tuple[str, tuple[str, ...]]
"""A skill's directory, or a path outside of skills, with its issues."""


@dataclass(frozen=True, slots=True)
class FileFix:
    """A `SKILL.md` that `--fix` repairs: its path as the user wrote it, its bytes, and the repaired bytes."""

    path: Path
    before: bytes
    fixed: Fixed

    @property
    def diff(self) -> str:
        return unified_diff(self.before, self.fixed.data, file=self.path.as_posix())

    def write(self) -> None:
        """Replace the file atomically and keep its mode. Raises `SourceError` if that fails."""
        try:
            mode = self.path.stat().st_mode & 0o777
            write_atomic(self.path, self.fixed.data, mode=mode)
        except OSError as error:
            raise SourceError(f"{self.path} cannot be written: {error.strerror}") from None


def lint_paths(paths: Iterable[Path]) -> list[Linted]:
    """Lint the skills below the paths, each once."""
    places: dict[_Place, Linted] = {}
    for path in paths:
        given = path.parent if _is_skill_md(path) else path
        found = dict(_lint_root(parse_root(given), given))
        if not found:
            # A check that looked at nothing must not pass.
            raise SourceError(
                f"no skills in {given}: a skill is a directory with a {SKILL_FILE}; "
                f"skillwire new {given / 'my-skill'} makes one"
            )
        for place in sorted(found):
            places.setdefault(place, found[place])
    return list(places.values())


def find_fixes(paths: Iterable[Path]) -> list[FileFix]:
    """The repairs of all skills below the paths; nothing is written yet."""
    fixes: dict[Path, FileFix] = {}
    for path in paths:
        given = path.parent if _is_skill_md(path) else path
        for skill, directory in _skills(parse_root(given), given)[1]:
            if skill.skill_md is not None:
                fixed = fix_skill_md(skill.skill_md, directory=Path(skill.directory).name)
                if fixed.data != skill.skill_md:
                    file = Path(skill.directory) / SKILL_FILE
                    fixes.setdefault(file, FileFix(directory / SKILL_FILE, skill.skill_md, fixed))
    return list(fixes.values())


def _is_skill_md(path: Path) -> bool:
    try:
        return path.name.lower() == SKILL_FILE.lower() and path.is_file()
    except OSError:
        return False  # Opening it as a directory reports what is wrong.


def _skills(root: Root, given: Path) -> tuple[Walk, list[tuple[FoundSkill, Path]]]:
    """Walk by the server's rules, so that both agree on what a skill is and what belongs to it."""
    found: list[tuple[FoundSkill, Path]] = []

    def take(skill: FoundSkill) -> None:
        found.append((skill, given / Path(skill.directory).relative_to(root.path)))

    # All files of a skill must be known, whatever its size, before a reference is reported as missing.
    walk = Walk(
        root,
        limits=DEFAULT_LIMITS,
        reach=find_reach([root]),
        rules=Rules(allow_oversize=True),
        on_skill=take,
    ).run()
    return walk, found


def _lint_root(root: Root, given: Path) -> Iterator[tuple[_Place, Linted]]:
    walk, skills = _skills(root, given)
    directories = {Path(skill.directory) for skill, _ in skills}
    for skill, directory in skills:
        yield (skill.directory, ()), _lint(skill, directory, directories)
    for problem in walk.problems:
        place = Path(problem.place)
        file = given / place.relative_to(root.path) if place.is_relative_to(root.path) else place
        rules = tuple(issue.rule for issue in problem.issues)
        issues = tuple(replace(issue, file=str(file)) for issue in problem.issues)
        yield (problem.place, rules), Linted(None, issues)


def _lint(skill: FoundSkill, directory: Path, directories: set[Path]) -> Linted:
    found = [*skill.issues]
    if SIGNATURE_FILE in skill.files:
        found += signature_issues(Path(skill.directory))
    if _HIDDEN_RULE not in ignored_rules(skill.skill_md or b""):
        found += _hidden_characters(skill, directories)
    issues = [replace(issue, file=str(directory / issue.file)) for issue in found]
    if skill.skill_md is None:
        return Linted(str(directory), tuple(issues))
    issues += lint_skill(
        skill.skill_md,
        directory=Path(skill.directory).name,
        files=skill.files,
        file=str(directory / SKILL_FILE),
    )
    return Linted(str(directory), tuple(issues), estimate_tokens(skill.skill_md))


def _hidden_characters(skill: FoundSkill, directories: set[Path]) -> Iterator[Issue]:
    """Characters that a model reads and a person does not see, in the text files of a skill.

    A file of a nested skill is reported for that skill only; `directories` are those of all skills.
    """
    root = Path(skill.directory)
    for name, size in skill.files.items():
        file = root / name
        owner = next(parent for parent in file.parents if parent in directories)
        if size > DEFAULT_LIMITS.bytes_per_skill or owner != root:
            continue
        try:
            text = file.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # A binary file, or one that the walk has reported.
        for place in find_hidden_text(text, markdown=False):
            yield Issue(
                rule=_HIDDEN_RULE,
                message=f"{_HIDDEN[place.hiding]}: {place.what}",
                fix="remove them, or write them as escapes; hosts that clean text remove them as well",
                file=name,
                line=place.line,
                severity=Severity.WARNING,
            )
