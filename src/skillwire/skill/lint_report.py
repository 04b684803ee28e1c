"""Reports of the linter: grouped text, JSON, GitHub Actions annotations, and SARIF."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from skillwire.errors import Issue, Severity
from skillwire.reports.annotations import annotation
from skillwire.reports.junit import JUnitCase, junit_xml
from skillwire.reports.sarif import SarifResult, SarifRule, sarif_log
from skillwire.skill.lint import NO_TOKENS, Tokens
from skillwire.text import shown

JSON_VERSION: Final = 1
PLACES_SHOWN: Final = 10
"""The number of places listed per rule, unless all are requested."""
_SITE: Final = "https://agentskills.io/specification"
_LINE: Final = 400

HEADLINES: Final = {
    Severity.ERROR: "Errors: not served over MCP, and not loaded by most hosts",
    Severity.WARNING: "Warnings: served, but refused or changed by some hosts",
    Severity.ADVICE: "Advice: valid, but could be better",
}

# Who refuses what, according to their code and documentation.
REFUSED_BY: Final = {
    "name-missing": "every host but Claude Code, which takes the directory's name",
    "name-characters": "servers of the extension, VS Code, skills-ref; other hosts load it",
    "name-too-long": "servers of the extension, Codex, VS Code, skills-ref",
    "name-not-directory": "VS Code and skills-ref; Codex, Gemini CLI and Claude Code load it",
    "description-missing": "every host but Claude Code, which takes the first paragraph",
    "description-too-long": "Codex and skills-ref; Gemini CLI and Claude Code load it",
    "yaml-unquoted-colon": "hosts with a strict YAML parser, such as Codex; others repair it",
    "yaml-special": "hosts with a strict YAML parser, such as Codex; others repair it",
    "yaml-last-block": "hosts that compare the frontmatter with another parser's",
    "too-many-files": "hosts may decline it from the listing alone",
    "too-many-bytes": "hosts may decline it from the listing alone",
    "credential-file": "nobody gets this file",
    "signature-differs": "hosts that require its publisher; others show that files differ",
    "signature-invalid": "hosts that require its publisher; others show that it proves nothing",
}


@dataclass(frozen=True, slots=True)
class Linted:
    """A skill by its directory, as the user wrote it; `skill` is `None` for paths outside of skills."""

    skill: str | None
    issues: tuple[Issue, ...]
    tokens: Tokens = NO_TOKENS


def without(linted: Iterable[Linted], rules: Collection[str], *, errors_only: bool = False) -> list[Linted]:
    """The same without the issues of some rules; with `errors_only`, only with errors."""
    return [
        replace(
            one,
            issues=tuple(
                issue
                for issue in one.issues
                if issue.rule not in rules and (not errors_only or issue.severity is Severity.ERROR)
            ),
        )
        for one in linted
    ]


def issues_of(linted: Iterable[Linted], severity: Severity | None = None) -> list[Issue]:
    """All issues, or those of one severity."""
    return [issue for one in linted for issue in one.issues if severity in (None, issue.severity)]


def as_text(linted: Sequence[Linted], *, show_all: bool = False, clean: Callable[[str], str] = shown) -> str:
    """Issues grouped by severity and rule, with counts. `clean` makes untrusted text printable."""
    lines: list[str] = []
    for severity, headline in HEADLINES.items():
        issues = issues_of(linted, severity)
        if issues:
            lines += [headline, ""]
            for rule, group in _by_rule(issues).items():
                lines += [*_group(rule, group, show_all, clean), ""]
    return "\n".join([*lines, _summary(linted)])


def as_json(linted: Sequence[Linted]) -> str:
    """One JSON document in a stable format: fields may be added, none changes its meaning."""
    counts = {severity: len(issues_of(linted, severity)) for severity in Severity}
    document = {
        "version": JSON_VERSION,
        "skills": [one.skill for one in linted if one.skill is not None],
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
            for one in linted
            for issue in one.issues
        ],
        "errors": counts[Severity.ERROR],
        "warnings": counts[Severity.WARNING],
        "advice": counts[Severity.ADVICE],
        "rules": {rule: len(group) for rule, group in sorted(_by_rule(issues_of(linted)).items())},
        "estimated_tokens": {
            one.skill: {"description": one.tokens.description, "body": one.tokens.body}
            for one in linted
            if one.skill is not None
        },
    }
    # ASCII only: untrusted text reaches a terminal as escapes.
    return json.dumps(document, indent=2, ensure_ascii=True)


def as_github(linted: Sequence[Linted]) -> str:
    """Annotations for GitHub Actions, one per line."""
    lines = [
        annotation(
            "notice" if issue.severity is Severity.ADVICE else issue.severity.value,
            _with_fix(issue),
            title=f"skillwire {issue.rule}",
            file=issue.file,
            line=issue.line,
        )
        for issue in issues_of(linted)
    ]
    return "\n".join([*lines, _summary(linted)])


def as_sarif(linted: Sequence[Linted], tool: str = "skillwire lint") -> str:
    """A SARIF 2.1.0 log, for code scanning."""
    issues = issues_of(linted)
    return sarif_log(
        tool,
        [SarifRule(rule, _SITE) for rule in sorted({issue.rule for issue in issues})],
        [
            SarifResult(
                rule=issue.rule,
                level="note" if issue.severity is Severity.ADVICE else issue.severity.value,
                text=_with_fix(issue),
                file=issue.file,
                line=issue.line,
            )
            for issue in issues
        ],
        about=_SITE,
    )


def _with_fix(issue: Issue) -> str:
    return f"{issue.message} ({issue.fix})" if issue.fix else issue.message


def as_junit(linted: Sequence[Linted], tool: str) -> str:
    """A case for each skill, which fails with its issues."""
    cases: list[JUnitCase] = []
    for one in linted:
        said = [str(issue) for issue in one.issues]
        failure = said[0] if said else ""
        cases.append(JUnitCase(one.skill or "", failure, "error" if said else "", output="\n".join(said)))
    return junit_xml(tool, {tool: cases})


REPORTS: Final[dict[str, Callable[[Sequence[Linted]], str]]] = {
    "json": as_json,
    "github": as_github,
    "sarif": as_sarif,
}
"""The formats other than text, by name."""


def _by_rule(issues: Iterable[Issue]) -> dict[str, list[Issue]]:
    groups: dict[str, list[Issue]] = {}
    for issue in issues:
        groups.setdefault(issue.rule, []).append(issue)
    # Most frequent first, ties in the order in which they were found.
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def _group(rule: str, issues: list[Issue], show_all: bool, clean: Callable[[str], str]) -> list[str]:
    fixes = {issue.fix for issue in issues}
    lines = [f"  {rule}" + (f" ({len(issues):,})" if len(issues) > 1 else "")]
    if rule in REFUSED_BY:
        lines.append(f"      refused by: {REFUSED_BY[rule]}")
    if len(fixes) == 1 and (fix := fixes.pop()):
        lines.append(f"      fix: {_one_line(fix, clean)}")
    for issue in issues if show_all else issues[:PLACES_SHOWN]:
        place = issue.file if issue.line is None else f"{issue.file}:{issue.line}"
        lines.append(f"    {_one_line(f'{place}: {issue.message}', clean)}")
        if fixes and issue.fix:
            lines.append(f"      fix: {_one_line(issue.fix, clean)}")
    if not show_all and len(issues) > PLACES_SHOWN:
        lines.append(f"    ... and {len(issues) - PLACES_SHOWN:,} more; --all lists them all")
    return lines


def _one_line(text: str, clean: Callable[[str], str]) -> str:
    return clean(text if len(text) <= _LINE else f"{text[:_LINE]}…")


def _summary(linted: Sequence[Linted]) -> str:
    skills = [one for one in linted if one.skill is not None]
    found = ", ".join(
        text
        for severity, none, word in (
            (Severity.ERROR, "no errors", "error"),
            (Severity.WARNING, "", "warning"),
            (Severity.ADVICE, "no advice", "piece of advice"),
        )
        if (text := _counted(len(issues_of(linted, severity)), none, word))
    )
    text = f"{_counted(len(skills), 'no skills', 'skill')} checked: {found}"
    if skills:
        descriptions = sum(one.tokens.description for one in skills)
        bodies = sum(one.tokens.body for one in skills)
        text += f" (estimate: {descriptions:,} tokens of descriptions, {bodies:,} of bodies)"
    return text


def _counted(number: int, none: str, word: str) -> str:
    if not number:
        return none
    plural = word.replace("piece", "pieces") if "piece" in word else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"
