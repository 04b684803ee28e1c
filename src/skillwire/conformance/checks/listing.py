"""LST: pages, cursors, order, and how long a listing holds."""

from __future__ import annotations

from collections.abc import Iterator

from skillwire.conformance.checks.protocol import envelope_faults
from skillwire.conformance.observations import Observations, Paged, Probe
from skillwire.conformance.responses import INVALID_PARAMS, Answer
from skillwire.conformance.violations import Violation, once
from skillwire.issues import shown
from skillwire.json_types import is_list, is_object
from skillwire.skill.uris import shown_uri


def check_listing(survey: Observations) -> Iterator[Violation]:
    first = survey.listing.first
    if first is None or first.result is None:
        return  # CAP-2/list, or a failure of the protocol.
    answered = [page for page in survey.listing.pages if page.result is not None]
    for page in answered:
        if not is_list((page.result or {}).get("skills")):
            yield Violation("LST-1/shape", f"skills is {type((page.result or {}).get('skills')).__name__}")
    yield from cursor_faults(survey.listing, "LST-1")
    if survey.is_modern:
        yield from once(
            fault
            for page in answered
            for fault in envelope_faults(
                page, result_type="LST-2/result-type", ttl="LST-2/ttl", scope="LST-2/cache-scope"
            )
        )
    for page in survey.listing.pages[1:]:
        if page.error is not None:
            yield Violation("LST-1/page", str(page.error))
    if survey.listing.endless:
        return  # The same entries come again and again.
    yield from _repeated(survey.listing)
    yield from _steady(survey)
    yield from bad_cursor(survey.probes.get(Probe.LIST_CURSOR), "LST-1/bad-cursor")


def cursor_faults(paged: Paged, requirement: str) -> Iterator[Violation]:
    """nextCursor is a string or absent, and leads to an end (LST-1, DIR-1)."""
    about = shown_uri(paged.pages[0].about) if paged.pages else ""
    for page in paged.pages:
        cursor = (page.result or {}).get("nextCursor", "absent")
        if not isinstance(cursor, str):
            yield Violation(f"{requirement}/cursor-type", f"nextCursor is {shown(repr(cursor), 30)}", about)
        elif cursor == "" and requirement == "LST-1":
            yield Violation("LST-1/cursor-empty", 'nextCursor is ""', about)
    if paged.endless:
        yield Violation(f"{requirement}/endless", paged.endless, about)


def bad_cursor(answer: Answer | None, rule: str) -> Iterator[Violation]:
    if answer is None or answer.failure is not None:
        return
    if answer.error is None or answer.error.code != INVALID_PARAMS:
        yield Violation(rule, answer.seen, shown_uri(answer.about))


def _uris(paged: Paged) -> list[tuple[int, str, object]]:
    """Page, URI and entry, in the order of the listing."""
    found: list[tuple[int, str, object]] = []
    for number, page in enumerate(paged.pages):
        items = (page.result or {}).get("skills")
        for item in items if is_list(items) else ():
            uri = item.get("uri") if is_object(item) else None
            if isinstance(uri, str):
                found.append((number, uri, item))
    return found


def _repeated(paged: Paged) -> Iterator[Violation]:
    first: dict[str, tuple[int, object]] = {}
    for page, uri, item in _uris(paged):
        if uri not in first:
            first[uri] = page, item
            continue
        before, other = first[uri]
        # LST-1: two entries for one skill with different files are one entry, cut in two.
        split = is_object(item) and is_object(other) and item.get("resources") != other.get("resources")
        where = f"on pages {before + 1} and {page + 1}" if before != page else f"twice on page {page + 1}"
        yield Violation("LST-1/split" if split else "LST-1/duplicate", where, shown_uri(uri))


def _steady(survey: Observations) -> Iterator[Violation]:
    again = survey.relisting
    if again is None or again.failed or survey.listing.failed or again.endless:
        return
    one, other = _uris(survey.listing), _uris(again)
    before, after = ({uri: item for _, uri, item in listing} for listing in (one, other))
    for uri in sorted(before.keys() | after.keys()):
        if uri not in after:
            yield Violation("LST-1/changing", "gone from the second listing", shown_uri(uri))
        elif uri not in before:
            yield Violation("LST-1/changing", "only in the second listing", shown_uri(uri))
        elif before[uri] != after[uri]:
            yield Violation("LST-1/changing", "another entry in the second listing", shown_uri(uri))
    if before.keys() == after.keys() and [uri for _, uri, _ in one] != [uri for _, uri, _ in other]:
        yield Violation("LST-1/order", "another order in the second listing")
