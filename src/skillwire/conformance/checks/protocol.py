"""Checks of the protocol: messages, the declared capability, and the pages of listings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from skillwire.conformance.messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Answer,
    RequestFailure,
    describe,
    describe_field,
    same_entry,
    same_json,
    whole_number,
)
from skillwire.conformance.observations import Neighbor, Observations, Paged, Probe
from skillwire.conformance.rules import Violation, once
from skillwire.conformance.session import Revision
from skillwire.documents import is_list, is_object
from skillwire.errors import FormatError
from skillwire.skill import parse_uri, shown_uri
from skillwire.text import shown
from skillwire.wire import DIRECTORY_READ_SETTING, EXTENSION_ID, METHOD_GET, METHOD_LIST

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
        if answer.failure is not RequestFailure.SKIPPED:
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
    if not isinstance(result.get("instructions", ""), str):
        yield Violation("MCP/opening", f"{method}: {describe_field(result, 'instructions')}")
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
    """Check the envelope of a result of 2026-07-28: whether it is complete, how long it is fresh."""
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


_ENVELOPE: Final = ("config", "specVersion", "stability", "id")
_COMPARED: Final = ("uri", "frontmatter", "resources")


def check_capability(seen: Observations) -> Iterator[Violation]:
    if seen.settings is None:
        yield Violation("CAP-1/declared", "no declaration")
        return
    yield from _shape(seen)
    # CAP-2: files are read with resources/read, which only a server with resources has.
    if not is_object(seen.capabilities.get("resources")):
        yield Violation("CAP-2/resources", "no resources among the capabilities")
    first = seen.listing.first
    if first is not None and first.error is not None:
        yield Violation("CAP-2/list", f"{METHOD_LIST}: {first.error}")
    if lacks_get(seen):
        yield Violation("CAP-2/get", f"{METHOD_GET}: error {METHOD_NOT_FOUND}")
    if lacks_directories(seen):
        yield Violation("CAP-1/directory-read", f"error {METHOD_NOT_FOUND}")
    for answer in seen.other_methods:
        if answer.result is not None or (answer.error and answer.error.code != METHOD_NOT_FOUND):
            yield Violation("CAP-2/reserved", f"{answer.method}: {answer.seen}")


def _shape(seen: Observations) -> Iterator[Violation]:
    extensions = seen.capabilities.get("extensions")
    if not is_object(extensions) or EXTENSION_ID not in extensions:
        # CAP-5: lenient hosts understand it, but it is still wrong.
        yield Violation("CAP-1/experimental", "declared under experimental")
        experimental = seen.capabilities.get("experimental")
        declared = experimental[EXTENSION_ID] if is_object(experimental) else None
    else:
        declared = extensions[EXTENSION_ID]
    if not is_object(declared):
        yield Violation("CAP-1/object", describe(declared))
        return
    around = [key for key in _ENVELOPE if key in declared]
    if around:
        yield Violation("CAP-1/inline", f"settings inside {around[0]}")
    settings = seen.settings or {}
    flag = settings.get(DIRECTORY_READ_SETTING)
    if DIRECTORY_READ_SETTING in settings and not isinstance(flag, bool):
        yield Violation("CAP-1/flag", f"directoryRead is {describe(flag)}")


def lacks_get(seen: Observations) -> bool:
    """Whether the method is missing altogether, so that its answers say nothing else."""
    probed = [answer for answer in seen.probes.values() if answer.method == METHOD_GET]
    return _all_lack([*seen.gets.values(), *probed])


def lacks_directories(seen: Observations) -> bool:
    """Whether resources/directory/read is missing altogether."""
    return _all_lack(page for directory in seen.directories.values() for page in directory.paged.pages)


def _all_lack(answers: Iterable[Answer]) -> bool:
    kept = [answer for answer in answers if answer.failure is None]
    return bool(kept) and all(
        answer.error is not None and answer.error.code == METHOD_NOT_FOUND for answer in kept
    )


def check_revisions(
    all_seen: Sequence[Observations], unsupported: Mapping[Revision, str]
) -> Iterator[Violation]:
    """CAP-4: the same server on both revisions. `unsupported` has those it refused, with the reason."""
    for revision, reason in unsupported.items():
        yield Violation("CAP-4/one-revision", f"{revision} is not supported: {reason}")
    declared = [seen for seen in all_seen if seen.settings is not None]
    if declared:
        for seen in all_seen:
            if seen.settings is None:
                yield Violation("CAP-4/declared", f"no declaration on {seen.revision}")
    if len(declared) != 2:
        return
    one, other = declared
    if not same_json(one.settings, other.settings):
        yield Violation("CAP-4/declaration", "different settings on each revision")
    if all(seen.has_steady_listing for seen in declared):
        yield from _entries(one, other)


def _entries(one: Observations, other: Observations) -> Iterator[Violation]:
    mine, theirs = _by_uri(one), _by_uri(other)
    for uri in sorted(mine.keys() | theirs.keys()):
        if uri not in mine or uri not in theirs:
            revision = other.revision if uri not in theirs else one.revision
            yield Violation("CAP-4/entries", f"not listed on {revision}", shown_uri(uri))
        elif not same_entry(mine[uri], theirs[uri]):
            yield Violation("CAP-4/entries", "a different entry on each revision", shown_uri(uri))


def _by_uri(seen: Observations) -> dict[str, dict[str, object]]:
    return {
        entry.asked: {key: entry.raw.get(key) for key in _COMPARED}
        for entry in seen.entries
        if entry.asked and is_object(entry.raw)
    }


def check_listing(seen: Observations) -> Iterator[Violation]:
    first = seen.listing.first
    if first is None or first.result is None:
        return  # CAP-2/list, or a failure of the protocol.
    answered = [page for page in seen.listing.pages if page.result is not None]
    for page in answered:
        if not is_list((page.result or {}).get("skills")):
            yield Violation(
                "LST-1/shape", f"{describe_field(page.result or {}, 'skills')} instead of an array"
            )
    yield from cursor_violations(seen.listing, "LST-1")
    if seen.is_modern:
        yield from once(
            violation
            for page in answered
            for violation in envelope_violations(
                page, result_type="LST-2/result-type", ttl="LST-2/ttl", scope="LST-2/cache-scope"
            )
        )
    if seen.listing.endless:
        return  # The same entries are repeated.
    yield from _repeated(seen.listing)
    yield from _steady(seen)
    without = seen.probes.get(Probe.LIST_NO_PARAMS)
    if without is not None and without.error is not None:
        yield Violation("LST-1/no-params", without.seen)
    yield from bad_cursor(seen.probes.get(Probe.LIST_CURSOR), "LST-1/bad-cursor")


def cursor_violations(paged: Paged, requirement: str) -> Iterator[Violation]:
    """nextCursor is a string or absent, is accepted, and leads to an end (LST-1, DIR-1)."""
    about = shown_uri(paged.pages[0].about) if paged.pages else ""
    for page in paged.pages:
        cursor = (page.result or {}).get("nextCursor", "absent")
        if not isinstance(cursor, str):
            yield Violation(f"{requirement}/cursor-type", f"nextCursor is {describe(cursor)}", about)
        elif cursor == "" and requirement == "LST-1":
            yield Violation("LST-1/cursor-empty", 'nextCursor is ""', about)
    for page in paged.pages[1:]:
        if page.error is not None:
            yield Violation(f"{requirement}/page", str(page.error), about)
    if paged.endless:
        yield Violation(f"{requirement}/endless", paged.endless, about)


def bad_cursor(answer: Answer | None, rule: str) -> Iterator[Violation]:
    if answer is None or answer.failure is not None:
        return
    if answer.error is None or answer.error.code != INVALID_PARAMS:
        yield Violation(rule, answer.seen, shown_uri(answer.about))


def _uris(paged: Paged) -> list[tuple[int, str, object]]:
    """Page, URI and entry, in the order of the listing. A URI is in its canonical spelling, if it has one."""
    found: list[tuple[int, str, object]] = []
    for number, page in enumerate(paged.pages):
        items = (page.result or {}).get("skills")
        for item in items if is_list(items) else ():
            uri = item.get("uri") if is_object(item) else None
            if isinstance(uri, str):
                found.append((number, _canonical(uri), item))
    return found


def _canonical(uri: str) -> str:
    try:
        return parse_uri(uri)
    except FormatError:
        return uri


def _repeated(paged: Paged) -> Iterator[Violation]:
    first: dict[str, tuple[int, object]] = {}
    for page, uri, item in _uris(paged):
        if uri not in first:
            first[uri] = page, item
            continue
        before, other = first[uri]
        # LST-1: two entries for one skill with different files are one entry, cut in two.
        split = (
            is_object(item)
            and is_object(other)
            and item.get("uri") == other.get("uri")
            and not same_entry({**item, "uri": ""}, {**other, "uri": ""})
        )
        where = f"on pages {before + 1} and {page + 1}" if before != page else f"twice on page {page + 1}"
        yield Violation("LST-1/split" if split else "LST-1/duplicate", where, shown_uri(uri))


def _steady(seen: Observations) -> Iterator[Violation]:
    again = seen.relisting
    if again is None or again.failed or seen.listing.failed or again.endless:
        return
    one, other = _uris(seen.listing), _uris(again)
    before, after = ({uri: item for _, uri, item in listing} for listing in (one, other))
    # What was left out of one of them may be in the other.
    compared = before.keys() & after.keys() if seen.listing.left_out or again.left_out else before | after
    for uri in sorted(compared):
        if uri not in after:
            yield Violation("LST-1/changing", "missing in the second listing", shown_uri(uri))
        elif uri not in before:
            yield Violation("LST-1/changing", "only in the second listing", shown_uri(uri))
        elif not same_entry(before[uri], after[uri]):
            yield Violation("LST-1/changing", "a different entry in the second listing", shown_uri(uri))
    if before.keys() == after.keys() and [uri for _, uri, _ in one] != [uri for _, uri, _ in other]:
        yield Violation("LST-1/order", "a different order in the second listing")
