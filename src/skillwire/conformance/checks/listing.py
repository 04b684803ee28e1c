"""LST: pages, cursors, order, and how long a listing is fresh."""

from __future__ import annotations

from collections.abc import Iterator

from skillwire.conformance.checks.protocol import envelope_violations
from skillwire.conformance.messages import INVALID_PARAMS, Answer, describe, describe_field, same_json
from skillwire.conformance.observations import Observations, Paged, Probe
from skillwire.conformance.rules import Violation, once
from skillwire.errors import FormatError
from skillwire.json_types import is_list, is_object
from skillwire.skill.uris import parse_uri, shown_uri


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
            and not same_json(item.get("resources"), other.get("resources"))
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
        elif not same_json(before[uri], after[uri]):
            yield Violation("LST-1/changing", "a different entry in the second listing", shown_uri(uri))
    if before.keys() == after.keys() and [uri for _, uri, _ in one] != [uri for _, uri, _ in other]:
        yield Violation("LST-1/order", "a different order in the second listing")
