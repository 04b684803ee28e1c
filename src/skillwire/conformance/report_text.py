"""A report for people: findings by rule, then a summary by area, within 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Final

from skillwire.conformance.report import EraReport, Finding, Report
from skillwire.conformance.rules import AREAS, BY_ID, RULES, Level

WIDTH: Final = 80
_SHOWN_PER_RULE: Final = 5
_TITLES: Final = {
    Level.MUST: "Must be mended",
    Level.SHOULD: "Should be mended",
    Level.ADVICE: "Advice, and things for a person to look at",
}


def as_text(report: Report) -> str:
    """The whole report. Everything in it that a server wrote was cleaned when the findings were made."""
    lines = [*_head(report), ""]
    for level in Level:
        findings = [finding for finding in report.findings if finding.level is level]
        if findings:
            lines += [_TITLES[level], ""]
            for rule, group in groupby(findings, key=lambda finding: finding.rule):
                lines += [*_rule(report, rule, list(group)), ""]
    lines += [*_summary(report), "", _verdict(report)]
    return "\n".join(lines)


def rules_text() -> str:
    """Every rule, with its level and what is expected."""
    lines: list[str] = []
    for area in AREAS.values():
        lines += [area]
        for rule in (rule for rule in RULES if rule.area == area):
            lines.append(f"  {rule.id:<28} {rule.level.value}")
            lines += _wrapped(rule.expected, "      ")
        lines.append("")
    return "\n".join(lines).rstrip()


def _head(report: Report) -> Iterator[str]:
    yield from _wrapped(f"Skill server {report.target}", "")
    for era in report.eras:
        yield from _wrapped(f"{era.era}: {_era(era)}", "  ", "              ")


def _era(era: EraReport) -> str:
    if not era.is_spoken:
        return f"not spoken ({era.reason})"
    if not era.has_skills:
        return "spoken, but skills are not declared"
    skills = _count(era.checked, "skill")
    if era.listed > era.checked:
        skills = f"{era.checked:,} of {_count(era.listed, 'skill')} (--max-skills checks more)"
    directories = _count(era.directories, "directory", "directories")
    text = f"{skills}, {_count(era.files, 'file')}, {directories} checked"
    if era.requests_left_out:
        text += f"; {_count(era.requests_left_out, 'request')} left out"
    return text


def _rule(report: Report, id: str, findings: Sequence[Finding]) -> Iterator[str]:
    rule = BY_ID[id]
    yield f"  {rule.id}"
    # Whatever these findings have in common is said once.
    common = len({finding.expected for finding in findings}) == 1
    if common:
        yield from _wrapped(f"expected: {findings[0].expected}", "    ", "              ")
    for finding in findings[:_SHOWN_PER_RULE]:
        if finding.uri:
            yield from _wrapped(f"at {finding.uri}", "    - ", "      ")
        if not common:
            yield from _wrapped(f"expected: {finding.expected}", "      ", "                ")
        is_one_of_two = len(finding.eras) == 1 and sum(era.has_skills for era in report.eras) > 1
        era = f" (on {finding.eras[0]})" if is_one_of_two else ""
        yield from _wrapped(
            f"seen: {finding.seen}{era}", "      " if finding.uri else "    - ", "            "
        )
    more = len(findings) - _SHOWN_PER_RULE + report.omitted.get(id, 0)
    if more > 0:
        yield f"    - and {more:,} more; --json shows {'some' if report.omitted.get(id) else 'all'} of them"
    for fix in dict.fromkeys(finding.fix for finding in findings[:_SHOWN_PER_RULE]):
        yield from _wrapped(f"to mend it: {fix}", "    ", "                ")


def _summary(report: Report) -> Iterator[str]:
    yield f"{'Area':<24}{'must':>8}{'should':>8}{'advice':>8}"
    for area in AREAS.values():
        counts = [
            sum(finding.area == area and finding.level is level for finding in report.findings)
            + sum(
                count
                for rule, count in report.omitted.items()
                if BY_ID[rule].area == area and BY_ID[rule].level is level
            )
            for level in Level
        ]
        yield f"{area:<24}" + "".join(f"{count or '-':>8}" for count in counts)


def _verdict(report: Report) -> str:
    musts = sum(finding.level is Level.MUST for finding in report.findings)
    shoulds = len(report.violations) - musts
    advice = len(report.advice)
    tail = f", {_count(advice, 'piece')} of advice" if advice else ""
    if report.violations:
        return f"{_count(musts, 'violation')} of MUST, {shoulds:,} of SHOULD{tail}"
    if report.looked_at_nothing:
        return f"No skill was there to be checked{tail}"
    return f"No violations{tail}"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _wrapped(text: str, first: str, rest: str | None = None) -> list[str]:
    """Lines of at most 80 columns. A URI that is longer is broken, so that nothing runs off the screen."""
    after = first if rest is None else rest
    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=after, break_on_hyphens=False)
