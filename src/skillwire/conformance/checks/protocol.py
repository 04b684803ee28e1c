"""What the base protocol requires of every answer, and what a server sends besides answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from skillwire.conformance.messages import (
    INVALID_PARAMS,
    Answer,
    Failure,
    describe,
    describe_field,
    whole_number,
)
from skillwire.conformance.neighbors import Neighbor
from skillwire.conformance.observations import Observations
from skillwire.conformance.rules import Violation, once
from skillwire.issues import shown
from skillwire.json_types import is_list, is_object
from skillwire.skill.uris import shown_uri

_REVISION: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_LIST_CHANGED: Final = {
    "notifications/resources/list_changed": "resources",
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
}
_LOGGING: Final = "notifications/message"
_PING: Final = "ping"


def check_protocol(seen: Observations) -> Iterator[Violation]:
    yield from _failures(seen.failures)
    yield from _opening(seen)
    yield from _unsolicited(seen)
    yield from _resources(seen)
    for burst in seen.bursts:
        if burst.different > 1:
            yield Violation(
                "MCP/concurrent",
                f"{burst.different} different answers to {burst.times} times {burst.method}",
                shown_uri(burst.about),
            )
    if seen.is_modern:
        reads = [file.envelope for file in seen.files.values() if file.envelope is not None]
        yield from once(_envelope([seen.opening.answer, *seen.resources.pages, *reads]))


def _failures(failures: Iterable[Answer]) -> Iterator[Violation]:
    """Requests that were not answered as the base protocol says."""
    for answer in failures:
        if answer.failure is not Failure.SKIPPED:
            yield Violation(
                f"MCP/{answer.failure}",
                f"{answer.method}: {shown(answer.reason, 200)}",
                shown_uri(answer.about),
            )


def _opening(seen: Observations) -> Iterator[Violation]:
    result = seen.opening.answer.result or {}
    method = seen.opening.answer.method
    if not is_object(result.get("capabilities")):
        yield Violation("MCP/opening", f"{method}: {describe_field(result, 'capabilities')}")
    if seen.is_modern:
        versions = result.get("supportedVersions")
        if not is_list(versions) or seen.revision not in versions:
            what = "not in supportedVersions" if is_list(versions) else "no array of supportedVersions"
            yield Violation(
                "MCP/opening", f"{method}: {seen.revision} is {what}" if is_list(versions) else what
            )
        return
    if not _REVISION.fullmatch(seen.opening.protocol_version):
        yield Violation("MCP/opening", f"{method}: protocolVersion {describe(seen.opening.protocol_version)}")
    if not seen.opening.server:
        yield Violation("MCP/opening", f"{method}: no serverInfo with a name")


def _unsolicited(seen: Observations) -> Iterator[Violation]:
    for line in seen.unsolicited.stray_output[:1]:
        yield Violation("MCP/stdout", f"`{line}`")
    yield from once(Violation("MCP/stray-answer", what) for what in seen.unsolicited.stray_answers)
    if not seen.is_modern:
        yield from once(Violation("MCP/accepted", f"HTTP {status}") for status in seen.unsolicited.accepted)
    for method, uri in dict.fromkeys(
        (message.method, message.uri) for message in seen.unsolicited.incoming if not message.is_request
    ):
        if not _is_declared(seen, method):
            yield Violation("MCP/unsolicited", method, shown_uri(uri))
    for method in dict.fromkeys(
        message.method for message in seen.unsolicited.incoming if message.is_request
    ):
        if method != _PING:
            yield Violation("MCP/server-request", method)


def _is_declared(seen: Observations, method: str) -> bool:
    """Whether a notification may be sent without a subscription. We subscribe to nothing and ask for no
    progress."""
    if seen.is_modern:
        return False  # Since 2026-07-28 they come only on a stream that the client opened.
    if method == _LOGGING:
        return is_object(seen.capabilities.get("logging"))
    declared = seen.capabilities.get(_LIST_CHANGED.get(method, ""))
    return is_object(declared) and declared.get("listChanged") is True


def _resources(seen: Observations) -> Iterator[Violation]:
    """CAP-2: a server that serves files as resources can list its resources."""
    rule = "MCP/resources-list"
    for number, page in enumerate(seen.resources.pages):
        if page.error is not None:
            where = "" if number == 0 else f" on page {number + 1}"
            yield Violation(rule, f"resources/list{where}: {page.error}")
        elif page.result is not None:
            yield from once(_resource_page(page.result))
    if seen.resources.endless:
        yield Violation(rule, f"resources/list: {seen.resources.endless}")


def _resource_page(result: Mapping[str, object]) -> Iterator[Violation]:
    rule = "MCP/resources-list"
    items = result.get("resources")
    if not is_list(items):
        yield Violation(rule, f"resources/list: {describe_field(result, 'resources')} instead of an array")
    for item in items if is_list(items) else ():
        if (
            not is_object(item)
            or not isinstance(item.get("uri"), str)
            or not isinstance(item.get("name"), str)
        ):
            yield Violation(rule, "resources/list: a resource without uri or name")
    if "nextCursor" in result and not isinstance(result["nextCursor"], str):
        yield Violation(rule, f"resources/list: nextCursor is {describe(result['nextCursor'])}")


def _envelope(answers: Iterable[Answer]) -> Iterator[Violation]:
    for answer in answers:
        if answer.result is not None:
            yield from envelope_violations(
                answer, result_type="MCP/result-type", ttl="MCP/cache", scope="MCP/cache"
            )


def envelope_violations(
    answer: Answer, *, result_type: str, ttl: str = "", scope: str = ""
) -> Iterator[Violation]:
    """What a result of 2026-07-28 says about itself: whether it is complete, and how long it is fresh."""
    result = answer.result or {}
    where = shown_uri(answer.about)
    if result.get("resultType") != "complete":
        yield Violation(result_type, _seen(answer, "resultType"), where)
    lifetime = whole_number(result.get("ttlMs"))
    lacks_lifetime = lifetime is None or lifetime < 0
    if ttl and lacks_lifetime:
        yield Violation(ttl, _seen(answer, "ttlMs"), where)
    lacks_scope = result.get("cacheScope") not in ("public", "private")
    if scope and lacks_scope and not (lacks_lifetime and ttl == scope):
        yield Violation(scope, _seen(answer, "cacheScope"), where)


def _seen(answer: Answer, key: str) -> str:
    result = answer.result or {}
    if key not in result:
        return f"{answer.method} without {key}"
    return f"{answer.method} with {key} {describe(result[key])}"


def neighbor_violations(
    unknown: Answer | None,
    answers: Iterable[tuple[Neighbor, Answer]],
    rule: str,
    is_wrong_result: Callable[[Neighbor, Answer], bool],
) -> Iterator[Violation]:
    """The URIs similar to a real one that are answered as if they were that one.

    `unknown` is the answer for a URI that nothing resembles: where that is a result, another rule reports it.
    """
    if unknown is None or unknown.error is None:
        return
    refuses = unknown.error.code == INVALID_PARAMS
    for neighbor, answer in answers:
        if answer.error is not None:
            is_wrong = refuses and answer.error.code != INVALID_PARAMS
        else:
            is_wrong = answer.result is not None and is_wrong_result(neighbor, answer)
        if is_wrong:
            yield Violation(rule, f"{answer.seen} for a URI {neighbor.how}", shown_uri(neighbor.uri))
