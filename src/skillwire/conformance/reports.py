"""Report: what was found, for programs and test suites; and as text, as JSON and as JUnit XML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from textwrap import wrap
from typing import Final

from skillwire.conformance.messages import Exchange
from skillwire.conformance.rules import AREAS, BY_ID, RULES, Level, Rule
from skillwire.documents import DocumentError, JsonObject, is_list, is_object, read_json
from skillwire.errors import SourceError
from skillwire.reports.junit import JUnitCase, junit_xml
from skillwire.reports.sarif import SarifLevel, SarifResult, SarifRule, sarif_log
from skillwire.skill import Profile

JSON_VERSION: Final = 2
"""Raised when a field is removed or changes its meaning. Adding a field does not raise it."""
WIDTH: Final = 80
_SHOWN_PER_RULE: Final = 5
_ANSWER_SHOWN: Final = 1200
_TITLES: Final = {
    Level.MUST: "Must fix",
    Level.SHOULD: "Should fix",
    Level.ADVICE: "Advice, and places that a person should look at",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that was broken. All text is safe to print on a terminal."""

    rule: str
    level: Level
    uri: str
    expected: str
    seen: str
    fix: str
    revisions: tuple[str, ...]
    is_known: bool = False
    """Whether the baseline has it already."""
    exchanges: tuple[Exchange, ...] = ()
    """The requests and answers that prove it, shortened and without secrets."""
    runs: int = 1
    """In how many of the runs of `Report.runs` it was found."""

    @property
    def area(self) -> str:
        return BY_ID[self.rule].area

    @property
    def requirement(self) -> str:
        return BY_ID[self.rule].requirement

    def __str__(self) -> str:
        where = f" {self.uri}" if self.uri else ""
        return f"{self.rule}{where}: expected: {self.expected}; seen: {self.seen}; fix: {self.fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionReport:
    """One protocol revision: whether the server supports it, and how much was checked.

    `reason` says why the server does not support it. `has_skills` is whether it declares the Skills extension
    there. Of the `listed` skills, `checked` is how many were read file by file.
    """

    revision: str
    is_supported: bool
    reason: str = ""
    has_skills: bool = False
    listed: int = 0
    checked: int = 0
    files: int = 0
    directories: int = 0
    skipped_requests: int = 0
    """Requests that were not sent because the time or the bytes of the check were used up."""
    entries_left_out: int = 0
    """Entries at the end of a very long or very wrong listing, which were not checked at all."""
    entries_without_uri: int = 0
    """Listed skills whose files cannot be read, because their entry has no valid URI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings, most serious first, and what they are about.

    `target` is the URL or command, without secrets; `server` the name and version that the server gave.
    `omitted` counts findings beyond the first hundred of a rule. `fixed` counts findings of the baseline that
    are gone.
    """

    target: str
    server: str = ""
    findings: tuple[Finding, ...]
    revisions: tuple[RevisionReport, ...]
    omitted: Mapping[str, int] = field(default_factory=dict[str, int])
    ignored: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    fixed: int = 0
    passing: tuple[str, ...] = ()
    """Failures that could not be reproduced: remarks, which never fail a run."""
    profile: Profile | None = None
    is_quick: bool = False
    runs: int = 1

    @property
    def violations(self) -> tuple[Finding, ...]:
        """Violations of MUST and SHOULD. A conforming server has none."""
        return tuple(finding for finding in self.findings if finding.level.is_violation)

    @property
    def advice(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.level.is_violation)

    def failures(self, level: Level = Level.SHOULD) -> tuple[Finding, ...]:
        """The findings that fail a run: of this level or more serious, and not in the baseline."""
        return tuple(
            finding for finding in self.findings if finding.level.is_at_least(level) and not finding.is_known
        )

    @property
    def checked_nothing(self) -> bool:
        """Whether there was no skill to check, so that a clean report says little."""
        return not any(revision.checked for revision in self.revisions)

    def of(self, rule: str) -> tuple[Finding, ...]:
        """The findings of one rule, or of all rules of a requirement such as `ENT-3`."""
        return tuple(finding for finding in self.findings if rule in (finding.rule, finding.requirement))


def combine(reports: Sequence[Report]) -> Report:
    """One report on several runs against the same server: each finding once, with the number of its runs."""
    first = reports[0]
    found: dict[tuple[str, str, int], Finding] = {}
    for report in reports:
        places: Counter[tuple[str, str]] = Counter()
        for finding in report.findings:
            # A run may have several findings of one rule at one place: they are paired in order.
            place = finding.rule, finding.uri
            key = *place, places[place]
            places[place] += 1
            before = found.get(key)
            found[key] = finding if before is None else replace(before, runs=before.runs + 1)
    order = {rule.id: number for number, rule in enumerate(RULES)}
    levels = list(Level)
    findings = sorted(found.values(), key=lambda one: (levels.index(one.level), order[one.rule]))
    return replace(
        first,
        findings=tuple(findings),
        passing=tuple(dict.fromkeys(line for report in reports for line in report.passing)),
        runs=len(reports),
    )


@dataclass(frozen=True, slots=True)
class Baseline:
    """The findings of an earlier report, by rule and URI. They are shown, and do not fail a run."""

    known: frozenset[tuple[str, str]]

    @classmethod
    def parse(cls, text: str) -> Baseline:
        """The baseline in a document that `--json` printed, or a `SourceError`."""
        advice = "write it with `skillwire verify --json ... > FILE`"
        try:
            document: object = read_json(text, what="the baseline")
        except DocumentError:
            raise SourceError(f"the baseline is not JSON; {advice}") from None
        findings = document.get("findings") if is_object(document) else None
        if not is_list(findings):
            raise SourceError(f"the baseline is not a report of skillwire verify; {advice}")
        known: set[tuple[str, str]] = set()
        for finding in findings:
            rule, uri = (finding.get("rule"), finding.get("uri")) if is_object(finding) else (None, None)
            if not isinstance(rule, str) or not isinstance(uri, str):
                raise SourceError(f"the baseline has a finding without rule or uri; {advice}")
            known.add((rule, uri))
        return cls(frozenset(known))

    def fixed(self, findings: Iterable[Finding]) -> int:
        return len(self.known - {(finding.rule, finding.uri) for finding in findings})


# JSON


def as_json(report: Report) -> str:
    """The document of docs/verify.md. ASCII only, so that text from a server reaches a terminal escaped."""
    document: JsonObject = {
        "version": JSON_VERSION,
        "target": report.target,
        "server": report.server,
        "ok": not report.failures() and not report.checked_nothing,
        "summary": {
            level.value: sum(finding.level is level for finding in report.findings) for level in Level
        },
        "revisions": [_revision_json(revision) for revision in report.revisions],
        "findings": [_finding_json(finding) for finding in report.findings],
        "omitted": dict(report.omitted),
        "ignored": list(report.ignored),
        "only": list(report.only),
        "fixed": report.fixed,
        "notReproduced": list(report.passing),
        "profile": report.profile.name if report.profile is not None else "",
        "quick": report.is_quick,
        "runs": report.runs,
    }
    return json.dumps(document, indent=2, ensure_ascii=True)


def _revision_json(revision: RevisionReport) -> JsonObject:
    return {
        "revision": revision.revision,
        "supported": revision.is_supported,
        "reason": revision.reason,
        "declared": revision.has_skills,
        "listed": revision.listed,
        "checked": revision.checked,
        "files": revision.files,
        "directories": revision.directories,
        "skippedRequests": revision.skipped_requests,
        "entriesLeftOut": revision.entries_left_out,
        "entriesWithoutUri": revision.entries_without_uri,
    }


def _finding_json(finding: Finding) -> JsonObject:
    rule = BY_ID[finding.rule]
    return {
        "rule": finding.rule,
        "requirement": finding.requirement,
        "area": finding.area,
        "level": finding.level.value,
        "uri": finding.uri,
        "expected": finding.expected,
        "seen": finding.seen,
        "fix": finding.fix,
        "revisions": list(finding.revisions),
        "known": finding.is_known,
        "runs": finding.runs,
        "exchanges": [
            {"method": one.method, "params": one.params, "answer": one.answer} for one in finding.exchanges
        ],
        "clause": rule.clause.says,
        "link": rule.clause.link,
        "debatable": rule.debatable,
    }


# SARIF


def as_sarif(report: Report) -> str:
    """A SARIF 2.1.0 log. The location of a finding is the URI on the server."""
    levels: dict[Level, SarifLevel] = {Level.MUST: "error", Level.SHOULD: "warning", Level.ADVICE: "note"}
    return sarif_log(
        "skillwire verify",
        [
            SarifRule(
                rule.id,
                rule.clause.link,
                rule.expected,
                f"{rule.fix}. {rule.clause.says}",
                levels[rule.level],
            )
            for rule in RULES
            if report.of(rule.id)
        ],
        [
            SarifResult(
                rule=finding.rule,
                level=levels[finding.level],
                text="\n".join(
                    [
                        f"expected: {finding.expected}; seen: {finding.seen}; fix: {finding.fix}",
                        *(line for one in finding.exchanges for line in _exchange_lines(one)),
                    ]
                ),
                place=finding.uri or report.target,
                fingerprint=f"{finding.rule} {finding.uri}",
                is_known=finding.is_known,
            )
            for finding in report.findings
        ],
    )


def _exchange_lines(exchange: Exchange) -> Iterator[str]:
    """A request and its answer in a line each, safe for a terminal."""
    params = f" {json.dumps(exchange.params)}" if exchange.params else ""
    yield f"asked: {exchange.method}{params}"
    answer = json.dumps(exchange.answer)
    yield f"answer: {answer if len(answer) <= _ANSWER_SHOWN else answer[:_ANSWER_SHOWN] + '…'}"


# JUnit


def as_junit(report: Report) -> str:
    """A suite for each area, a case for each rule. Violations are failures; advice passes, with output."""
    rules = [rule for rule in _rules_of(report) if not report.only or _is_chosen(rule, report.only)]
    return junit_xml(
        "skillwire verify",
        {
            area: [_rule_case(rule, report.of(rule.id)) for rule in rules if rule.area == area]
            for area in _areas_of(report)
        },
    )


def _rules_of(report: Report) -> Iterator[Rule]:
    """The rules that were checked: those of a profile only with one."""
    return (rule for rule in RULES if report.profile is not None or rule.area != AREAS["PROFILE"])


def _areas_of(report: Report) -> list[str]:
    return [area for name, area in AREAS.items() if report.profile is not None or name != "PROFILE"]


def _is_chosen(rule: Rule, names: Sequence[str]) -> bool:
    return rule.id in names or rule.requirement in names


def _rule_case(rule: Rule, findings: Sequence[Finding]) -> JUnitCase:
    name = f"{rule.id}: {rule.expected}"
    if not findings:
        return JUnitCase(name)
    lines = [str(finding) for finding in findings]
    lines += [line for one in findings[0].exchanges for line in _exchange_lines(one)]
    text = "\n".join([*lines, rule.clause.link])
    if rule.level.is_violation and not all(finding.is_known for finding in findings):
        return JUnitCase(name, findings[0].seen, rule.level.value, output=text)
    return JUnitCase(name, output=text)


# Text


def as_text(report: Report) -> str:
    """Findings by rule, then a summary by area, within 80 columns."""
    lines = [*_head(report), ""]
    for level in Level:
        findings = [finding for finding in report.findings if finding.level is level]
        if findings:
            lines += [_TITLES[level], ""]
            for rule, group in groupby(findings, key=lambda finding: finding.rule):
                lines += [*_rule_text(report, rule, list(group)), ""]
    if report.passing:
        lines += ["Could not be reproduced", ""]
        for text in report.passing:
            lines += _wrapped(f"- {text}", "  ", "    ")
        lines += ["    asked once more, it was answered as it should be", ""]
    lines += [*_summary(report), "", _conclusion(report)]
    return "\n".join(lines)


def rules_text() -> str:
    """Every rule, with its level, what is expected, and the clause that it is based on."""
    lines: list[str] = []
    for area in AREAS.values():
        lines += [area]
        for rule in (rule for rule in RULES if rule.area == area):
            lines.append(f"  {rule.id:<28} {rule.level.value}{' (debatable)' if rule.debatable else ''}")
            lines += _wrapped(rule.expected, "      ")
            lines += _wrapped(f"clause: {rule.clause.says}", "      ", "        ")
            lines += _link(rule.clause.link, "        ")
            if rule.debatable:
                lines += _wrapped(f"debatable: {rule.debatable}", "      ", "        ")
        lines.append("")
    return "\n".join(lines).rstrip()


def rules_json() -> str:
    """The same as one JSON document."""
    listed: list[JsonObject] = [
        {
            "rule": rule.id,
            "level": rule.level.value,
            "area": rule.area,
            "expected": rule.expected,
            "fix": rule.fix,
            "clause": rule.clause.says,
            "link": rule.clause.link,
            "debatable": rule.debatable,
        }
        for rule in RULES
    ]
    return json.dumps({"rules": listed}, indent=2, ensure_ascii=True)


def _head(report: Report) -> Iterator[str]:
    name = f"{report.server} ({report.target})" if report.server else report.target
    yield from _wrapped(f"Skill server {name}", "")
    for revision in report.revisions:
        yield from _wrapped(f"{revision.revision}: {_revision_text(revision)}", "  ", "              ")
    if report.is_quick:
        yield "  quick check: one revision, and nothing asked twice"
    if report.profile is not None:
        profile = report.profile
        yield from _wrapped(
            f"profile {profile.name}: {profile.title} ({profile.date}; {profile.source})", "  ", "    "
        )
    if report.runs > 1:
        unstable = sum(finding.runs < report.runs for finding in report.findings)
        yield f"  {report.runs} runs, {_count(unstable, 'finding')} not in all of them"


def _revision_text(revision: RevisionReport) -> str:
    if not revision.is_supported:
        return f"not supported ({revision.reason})"
    if not revision.has_skills:
        return "supported, but skills are not declared"
    skills = _count(revision.checked, "skill")
    if revision.listed > revision.checked:
        skills = f"{revision.checked:,} of {_count(revision.listed, 'skill')}"
        if revision.listed - revision.entries_without_uri > revision.checked:
            skills += " (--max-skills checks more)"
    directories = _count(revision.directories, "directory", "directories")
    text = f"{skills}, {_count(revision.files, 'file')}, {directories} checked"
    if revision.entries_without_uri:
        text += f"; {_count(revision.entries_without_uri, 'entry', 'entries')} without a valid URI"
    if revision.skipped_requests:
        text += f"; {_count(revision.skipped_requests, 'request')} not sent"
    if revision.entries_left_out:
        text += (
            f"; {_count(revision.entries_left_out, 'entry', 'entries')} at the end of the listing not checked"
        )
    return text


def _rule_text(report: Report, id: str, findings: Sequence[Finding]) -> Iterator[str]:
    rule = BY_ID[id]
    yield f"  {rule.id}"
    # What these findings have in common is printed once.
    common = len({finding.expected for finding in findings}) == 1
    if common:
        yield from _wrapped(f"expected: {findings[0].expected}", "    ", "              ")
    for finding in findings[:_SHOWN_PER_RULE]:
        if finding.uri:
            yield from _wrapped(f"at {finding.uri}", "    - ", "      ")
        if not common:
            yield from _wrapped(f"expected: {finding.expected}", "      ", "                ")
        is_one_of_two = (
            len(finding.revisions) == 1 and sum(revision.has_skills for revision in report.revisions) > 1
        )
        where = f" (on {finding.revisions[0]})" if is_one_of_two else ""
        known = " [in the baseline]" if finding.is_known else ""
        if report.runs > 1:
            known += f" [in {finding.runs} of {report.runs} runs]"
        yield from _wrapped(
            f"seen: {finding.seen}{where}{known}", "      " if finding.uri else "    - ", "            "
        )
    # The exchange of the first one: the others look alike, and --json has theirs.
    for exchange in findings[0].exchanges:
        for line in _exchange_lines(exchange):
            yield from _wrapped(line, "      ", "        ")
    more = len(findings) - _SHOWN_PER_RULE + report.omitted.get(id, 0)
    if more > 0:
        yield f"    - and {more:,} more; --json shows {'some' if report.omitted.get(id) else 'all'} of them"
    for fix in dict.fromkeys(finding.fix for finding in findings[:_SHOWN_PER_RULE]):
        yield from _wrapped(f"fix: {fix}", "    ", "         ")
    yield from _wrapped(f"clause: {rule.clause.says}", "    ", "            ")
    if rule.debatable:
        yield from _wrapped(f"debatable: {rule.debatable}", "    ", "               ")
    yield from _link(rule.clause.link, "    ")


def _summary(report: Report) -> Iterator[str]:
    yield f"{'Area':<24}{'must':>8}{'should':>8}{'advice':>8}"
    for area in _areas_of(report):
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


def _conclusion(report: Report) -> str:
    musts = sum(finding.level is Level.MUST for finding in report.findings)
    shoulds = len(report.violations) - musts
    advice = len(report.advice)
    tail = f", {_count(advice, 'piece')} of advice" if advice else ""
    known = sum(finding.is_known for finding in report.violations)
    if known or report.fixed:
        tail += f"; {known:,} in the baseline, {report.fixed:,} of the baseline fixed"
    if report.violations:
        return f"{_count(musts, 'violation')} of MUST, {shoulds:,} of SHOULD{tail}"
    if report.checked_nothing:
        return f"There was no skill to check{tail}"
    return f"No violations{tail}"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _link(link: str, indent: str) -> list[str]:
    """A link on its own line, never wrapped, so that it can be followed."""
    return [f"{indent}{link}"]


def _wrapped(text: str, first: str, rest: str | None = None) -> list[str]:
    """Lines of at most 80 columns. A URI that is longer is broken."""
    after = first if rest is None else rest
    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=after, break_on_hyphens=False)
