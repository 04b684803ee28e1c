"""Checks: each compares what a server answered with the rules of one area, without any I/O.

`evaluate` makes the report: it runs every check, merges what both revisions show, and sorts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from skillwire.conformance.checks.entries import check_content, check_entries, check_files, check_profile
from skillwire.conformance.checks.methods import check_directories, check_getting
from skillwire.conformance.checks.protocol import (
    check_capability,
    check_listing,
    check_protocol,
    check_revisions,
)
from skillwire.conformance.messages import Exchange
from skillwire.conformance.observations import Observations
from skillwire.conformance.reports import Baseline, Finding, Report, RevisionReport
from skillwire.conformance.rules import BY_ID, RULES, Level, Violation, matches
from skillwire.conformance.session import Revision
from skillwire.skill import Profile, shown_uri
from skillwire.text import redact, safe_line

CHECKS: Final[tuple[Callable[[Observations], Iterator[Violation]], ...]] = (
    check_protocol,
    check_capability,
    check_listing,
    check_getting,
    check_entries,
    check_files,
    check_directories,
    check_content,
)
MOST_PER_RULE: Final = 100
_ORDER: Final = {rule.id: number for number, rule in enumerate(RULES)}
_LEVELS: Final = list(Level)
_LONGEST: Final = 500
_Merged: TypeAlias = tuple[Violation, tuple[str, ...]]


def evaluate(
    target: str,
    all_seen: Sequence[Observations],
    unsupported: Mapping[Revision, str],
    *,
    ignore: Collection[str] = (),
    only: Collection[str] = (),
    baseline: Baseline | None = None,
    profile: Profile | None = None,
    secrets: Collection[str] = (),
    is_quick: bool = False,
) -> Report:
    """The report on everything that was observed.

    `ignore` and `only` have ids of rules, or of requirements with all their rules. `secrets` are removed from
    the exchanges that prove a finding.
    """
    by_revision: dict[Revision, list[Violation]] = {
        seen.revision: list(dict.fromkeys(_violations(seen, all_seen))) for seen in all_seen
    }
    if profile is not None:
        for seen in all_seen:
            found = by_revision[seen.revision]
            found += list(check_profile(profile, seen))
    merged = [*merge(by_revision), *((one, ()) for one in check_revisions(all_seen, unsupported))]
    traffic = {seen.revision: seen.exchanges for seen in all_seen}
    kept = [
        (violation, revisions)
        for violation, revisions in merged
        if not matches(violation.rule, ignore) and (not only or matches(violation.rule, only))
    ]
    kept.sort(key=lambda one: (_LEVELS.index(BY_ID[one[0].rule].level), _ORDER[one[0].rule]))
    findings: list[Finding] = []
    counts: dict[str, int] = defaultdict(int)
    for violation, revisions in kept:
        counts[violation.rule] += 1
        if counts[violation.rule] <= MOST_PER_RULE:
            proving = traffic[revisions[0] if revisions else all_seen[-1].revision].proving(violation)
            findings.append(_finding(violation, revisions, baseline, _redacted(proving, secrets)))
    return Report(
        target=target,
        server=next((seen.opening.server for seen in all_seen if seen.opening.server), ""),
        findings=tuple(findings),
        revisions=(*map(_revision_report, all_seen), *_unsupported_reports(unsupported)),
        omitted={rule: count - MOST_PER_RULE for rule, count in counts.items() if count > MOST_PER_RULE},
        ignored=tuple(sorted(ignore)),
        only=tuple(sorted(only)),
        fixed=baseline.fixed(findings) if baseline is not None else 0,
        passing=tuple(_passing(all_seen)),
        profile=profile,
        is_quick=is_quick,
    )


def merge(by_revision: Mapping[Revision, Sequence[Violation]]) -> Iterator[_Merged]:
    """Each violation once, with the revisions that show it.

    Two revisions may word one error differently: violations of one rule at one place are paired in order.
    """
    groups: dict[tuple[str, str], dict[Revision, list[Violation]]] = {}
    for revision, violations in by_revision.items():
        for violation in violations:
            group = groups.setdefault((violation.rule, violation.uri), {})
            group.setdefault(revision, []).append(violation)
    for group in groups.values():
        revisions = tuple(group)
        if len(revisions) == 1:
            yield from ((violation, revisions) for violation in group[revisions[0]])
            continue
        one, other = (group[revision] for revision in revisions[:2])
        # As sets: one place may have thousands.
        mine_too, theirs_too = set(one), set(other)
        same = [violation for violation in one if violation in theirs_too]
        yield from ((violation, revisions) for violation in same)
        left = [violation for violation in one if violation not in theirs_too]
        right = [violation for violation in other if violation not in mine_too]
        for mine, theirs in zip(left, right, strict=False):
            seen = f"{mine.seen} (on {revisions[0]}); {theirs.seen} (on {revisions[1]})"
            yield replace(mine, seen=seen), revisions
        yield from ((violation, revisions[:1]) for violation in left[len(right) :])
        yield from ((violation, revisions[1:2]) for violation in right[len(left) :])


def _violations(seen: Observations, all_seen: Sequence[Observations]) -> Iterator[Violation]:
    """Every violation on one revision. Skills on the other revision alone are advice (CAP-4)."""
    elsewhere = any(other.settings is not None for other in all_seen)
    for check in CHECKS:
        for violation in check(seen):
            if not (violation.rule == "CAP-1/declared" and elsewhere):
                yield violation


def _passing(all_seen: Sequence[Observations]) -> Iterator[str]:
    """Yield the rules that failed once and not when asked again, in one line each."""
    for seen in all_seen:
        for answer in seen.passing:
            about = f" {shown_uri(answer.about)}" if answer.about else ""
            what = safe_line(answer.reason or answer.seen, limit=_LONGEST)
            yield f"{answer.method}{about}: {what} (on {seen.revision})"


def _redacted(exchanges: Sequence[Exchange], secrets: Collection[str]) -> tuple[Exchange, ...]:
    """The exchanges without what may be secret. JSON is parsed again: a secret may be anywhere in it."""
    found: list[Exchange] = []
    for one in exchanges:
        text = json.dumps([one.params, one.answer])
        cleaned = redact(text, {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1])})
        try:
            params, answer = json.loads(cleaned)
        except ValueError:
            continue  # A secret such as `"` took the structure with it: nothing is shown.
        found.append(Exchange(one.method, params, answer))
    return tuple(found)


def _finding(
    violation: Violation,
    revisions: Sequence[str],
    baseline: Baseline | None,
    exchanges: tuple[Exchange, ...] = (),
) -> Finding:
    rule = BY_ID[violation.rule]
    # SEC-11: whatever a server wrote is cleaned before it is shown.
    uri = safe_line(violation.uri, limit=_LONGEST)
    return Finding(
        rule=rule.id,
        level=rule.level,
        uri=uri,
        expected=safe_line(violation.expected or rule.expected, limit=_LONGEST),
        seen=safe_line(violation.seen, limit=_LONGEST),
        fix=safe_line(violation.fix or rule.fix, limit=_LONGEST),
        revisions=tuple(revisions),
        is_known=baseline is not None and (rule.id, uri) in baseline.known,
        exchanges=exchanges,
    )


def _revision_report(seen: Observations) -> RevisionReport:
    return RevisionReport(
        revision=seen.revision,
        is_supported=True,
        has_skills=seen.settings is not None,
        listed=len(seen.entries) + seen.listing.left_out,
        entries_left_out=seen.listing.left_out,
        entries_without_uri=sum(entry.uri is None for entry in seen.entries),
        checked=len(seen.checked),
        files=sum(bool(file.digest) for file in seen.files.values()),
        directories=len(seen.directories),
        skipped_requests=seen.skipped,
    )


def _unsupported_reports(unsupported: Mapping[Revision, str]) -> Iterator[RevisionReport]:
    for revision, reason in unsupported.items():
        yield RevisionReport(revision=revision, is_supported=False, reason=safe_line(reason, limit=_LONGEST))
