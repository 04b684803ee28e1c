"""What the base protocol asks of every answer, and how requests that run at once get on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from skillwire.conformance.observations import Observations
from skillwire.conformance.responses import Answer, Failure
from skillwire.conformance.violations import Violation, once
from skillwire.issues import shown
from skillwire.skill.uris import shown_uri


def check_protocol(survey: Observations) -> Iterator[Violation]:
    yield from failures_of(survey.failures)
    for line in survey.noise[:1]:
        yield Violation("MCP/stdout", f"`{line}`")
    for burst in survey.bursts:
        if burst.different > 1:
            yield Violation(
                "MCP/concurrent",
                f"{burst.different} different answers to {burst.times} times {burst.method}",
                shown_uri(burst.about),
            )
    if survey.is_modern:
        reads = [seen.envelope for seen in survey.files.values() if seen.envelope is not None]
        yield from once(_envelope([survey.opening.answer, *survey.resources.pages, *reads]))


def failures_of(failures: Iterable[Answer]) -> Iterator[Violation]:
    """Requests that were not answered as the base protocol says."""
    for answer in failures:
        if answer.failure is not Failure.SKIPPED:
            yield Violation(
                f"MCP/{answer.failure}",
                f"{answer.method}: {shown(answer.reason, 160)}",
                shown_uri(answer.about),
            )


def _envelope(answers: Iterable[Answer]) -> Iterator[Violation]:
    for answer in answers:
        if answer.result is not None:
            yield from envelope_faults(
                answer, result_type="MCP/result-type", ttl="MCP/cache", scope="MCP/cache"
            )


def envelope_faults(
    answer: Answer, *, result_type: str, ttl: str = "", scope: str = ""
) -> Iterator[Violation]:
    """What a result of 2026-07-28 says about itself: whether it is complete, and how long it holds."""
    result = answer.result or {}
    where = shown_uri(answer.about)
    if result.get("resultType") != "complete":
        yield Violation(result_type, _seen(answer, "resultType"), where)
    life = result.get("ttlMs")
    lacks_life = not isinstance(life, int) or isinstance(life, bool) or life < 0
    if ttl and lacks_life:
        yield Violation(ttl, _seen(answer, "ttlMs"), where)
    lacks_scope = result.get("cacheScope") not in ("public", "private")
    if scope and lacks_scope and not (lacks_life and ttl == scope):
        yield Violation(scope, _seen(answer, "cacheScope"), where)


def _seen(answer: Answer, key: str) -> str:
    result = answer.result or {}
    if key not in result:
        return f"{answer.method} without {key}"
    return f"{answer.method} with {key} {shown(repr(result[key]), 40)}"
