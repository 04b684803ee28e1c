"""GET: one skill by its URI, and nothing by any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from skillwire.conformance.checks.capability import lacks_get
from skillwire.conformance.checks.protocol import envelope_faults
from skillwire.conformance.entry_view import EntryView
from skillwire.conformance.observations import Observations, Probe
from skillwire.conformance.responses import INVALID_PARAMS, Answer
from skillwire.conformance.violations import Violation, once
from skillwire.errors import FormatError
from skillwire.json_types import is_object
from skillwire.skill.uris import SkillUri, is_inside, parse_uri, shown_uri


def check_getting(survey: Observations) -> Iterator[Violation]:
    if lacks_get(survey):
        return
    listed = {entry.uri for entry in survey.entries}
    for entry in survey.checked:
        answer = survey.gets.get(entry.uri) if entry.uri else None
        if answer is not None and answer.failure is None and entry.uri in listed:
            yield from _entry_faults(entry, answer)
    if survey.is_modern:
        yield from once(
            fault
            for answer in survey.gets.values()
            if answer.result is not None
            for fault in envelope_faults(
                answer, result_type="GET-2/result-type", ttl="GET-2/ttl", scope="GET-2/cache-scope"
            )
        )
    yield from once(
        Violation("GET-2/cursor", "nextCursor in the result", shown_uri(answer.about))
        for answer in survey.gets.values()
        if "nextCursor" in (answer.result or {})
    )
    yield from _unlisted(survey)
    yield from _refusals(survey)


def _entry_faults(entry: EntryView, answer: Answer) -> Iterator[Violation]:
    if answer.error is not None:
        yield Violation("GET-1/served", str(answer.error), entry.place)
        return
    skill = (answer.result or {}).get("skill")
    keys: list[str] = []
    if not is_object(skill):
        yield Violation("GET-1/shape", "no object under skill", entry.place)
    elif skill.get("uri") != entry.asked:
        yield Violation("GET-1/uri", shown_uri(str(skill.get("uri"))), entry.place)
    else:
        raw: Mapping[str, object] = entry.raw if is_object(entry.raw) else {}
        # `_meta` is for whoever carries the entry, and may differ each time.
        keys = sorted(key for key in {*skill, *raw} - {"_meta"} if skill.get(key) != raw.get(key))
    if keys:
        yield Violation(
            "GET-1/equal", f"another {' and '.join(shown_uri(key) for key in keys[:4])}", entry.place
        )


def _unlisted(survey: Observations) -> Iterator[Violation]:
    """LST-3, FMT-8: a skill that is served has an entry, whether or not it is listed."""
    roots = [entry.root for entry in survey.checked if entry.root is not None]
    for candidate in survey.candidates:
        if candidate.answer.result is not None:
            yield from _found_faults(candidate.answer.result.get("skill"), candidate.uri)
        if candidate.answer.error is None:
            continue
        is_nested = any(is_inside(candidate.uri, root) for root in roots)
        rule = "FMT-8/nested" if is_nested and not candidate.is_named else "GET-1/unlisted"
        yield Violation(rule, str(candidate.answer.error), shown_uri(candidate.uri))


def _found_faults(skill: object, uri: SkillUri) -> Iterator[Violation]:
    """The entry of a skill that is not listed: no listing says how the server spells its URI."""
    if not is_object(skill):
        yield Violation("GET-1/shape", "no object under skill", shown_uri(uri))
        return
    given = skill.get("uri")
    try:
        is_same = isinstance(given, str) and parse_uri(given) == uri
    except FormatError:
        is_same = False
    if not is_same:
        yield Violation("GET-1/uri", shown_uri(str(given)), shown_uri(uri))


_REFUSALS = {
    Probe.GET_UNKNOWN: "GET-1/unknown",
    Probe.GET_FILE: "GET-1/no-skill",
    Probe.GET_DIRECTORY: "GET-1/no-skill",
    Probe.GET_NOTHING: "GET-1/no-uri",
}


def _refusals(survey: Observations) -> Iterator[Violation]:
    for probe, rule in _REFUSALS.items():
        answer = survey.probes.get(probe)
        if answer is None or answer.failure is not None:
            continue
        if answer.error is None or answer.error.code != INVALID_PARAMS:
            yield Violation(rule, answer.seen, shown_uri(answer.about))
        elif probe is Probe.GET_UNKNOWN and answer.about not in answer.error.message:
            yield Violation("GET-1/message", str(answer.error), shown_uri(answer.about))
