"""GET: one skill by its URI, and nothing by any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from skillwire.conformance.checks.capability import lacks_get
from skillwire.conformance.checks.protocol import envelope_violations, neighbor_violations
from skillwire.conformance.entries import EntryView
from skillwire.conformance.messages import INVALID_PARAMS, Answer, describe_field, same_json
from skillwire.conformance.neighbors import Neighbor
from skillwire.conformance.observations import Observations, Probe
from skillwire.conformance.rules import Violation, once
from skillwire.errors import FormatError
from skillwire.json_types import is_list, is_object
from skillwire.skill.uris import SkillUri, is_inside, parse_uri, shown_uri


def check_getting(seen: Observations) -> Iterator[Violation]:
    if lacks_get(seen):
        return
    listed = {entry.uri for entry in seen.entries}
    for entry in seen.checked:
        answer = seen.gets.get(entry.uri) if entry.uri else None
        if answer is not None and answer.failure is None and entry.uri in listed:
            yield from _entry_violations(entry, answer)
    if seen.is_modern:
        yield from once(
            violation
            for answer in seen.gets.values()
            if answer.result is not None
            for violation in envelope_violations(
                answer, result_type="GET-2/result-type", ttl="GET-2/ttl", scope="GET-2/cache-scope"
            )
        )
    yield from once(
        Violation("GET-2/cursor", "nextCursor in the result", shown_uri(answer.about))
        for answer in seen.gets.values()
        if "nextCursor" in (answer.result or {})
    )
    yield from _unlisted(seen)
    yield from _refusals(seen)
    yield from neighbor_violations(
        seen.probes.get(Probe.GET_UNKNOWN), seen.get_neighbors, "GET-1/neighbor", _is_wrong
    )
    yield from _before_list(seen)


def _entry_violations(entry: EntryView, answer: Answer) -> Iterator[Violation]:
    if answer.error is not None:
        yield Violation("GET-1/served", str(answer.error), entry.place)
        return
    skill = (answer.result or {}).get("skill")
    if not is_object(skill):
        yield Violation("GET-1/shape", "no object under skill", entry.place)
    elif skill.get("uri") != entry.asked:
        yield Violation("GET-1/uri", describe_field(skill, "uri"), entry.place)
    elif keys := _differences(skill, entry.raw):
        yield Violation("GET-1/equal", f"another {keys}", entry.place)


def _differences(skill: Mapping[str, object], listed: object) -> str:
    """The fields in which two entries differ by JSON type or value. `_meta` may differ."""
    raw: Mapping[str, object] = listed if is_object(listed) else {}
    keys = sorted(
        key
        for key in {*skill, *raw} - {"_meta"}
        if (key in skill) != (key in raw) or not same_json(skill.get(key), raw.get(key))
    )
    return " and ".join(shown_uri(key) for key in keys[:4])


def _unlisted(seen: Observations) -> Iterator[Violation]:
    """LST-3, FMT-8: a skill that is served has an entry, whether or not it is listed."""
    roots = [entry.root for entry in seen.checked if entry.root is not None]
    for candidate in seen.candidates:
        if candidate.answer.result is not None:
            yield from _found_violations(candidate.answer.result.get("skill"), candidate.uri)
        if candidate.answer.error is None:
            continue
        is_nested = any(is_inside(candidate.uri, root) for root in roots)
        rule = "FMT-8/nested" if is_nested and not candidate.is_named else "GET-1/unlisted"
        yield Violation(rule, str(candidate.answer.error), shown_uri(candidate.uri))


def _found_violations(skill: object, uri: SkillUri) -> Iterator[Violation]:
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
        yield Violation("GET-1/uri", describe_field(skill, "uri"), shown_uri(uri))


_REFUSALS = {
    Probe.GET_UNKNOWN: "GET-1/unknown",
    Probe.GET_FILE: "GET-1/no-skill",
    Probe.GET_DIRECTORY: "GET-1/no-skill",
    Probe.GET_NOTHING: "GET-1/no-uri",
    Probe.GET_EMPTY: "GET-1/no-uri",
    Probe.GET_NUMBER: "GET-1/no-uri",
}
_ASKED = {
    Probe.GET_NOTHING: "without a uri",
    Probe.GET_EMPTY: 'with the uri ""',
    Probe.GET_NUMBER: "with the uri 7",
}


def _refusals(seen: Observations) -> Iterator[Violation]:
    for probe, rule in _REFUSALS.items():
        answer = seen.probes.get(probe)
        if answer is None or answer.failure is not None:
            continue
        if answer.error is None or answer.error.code != INVALID_PARAMS:
            asked = f" {_ASKED[probe]}" if probe in _ASKED else ""
            yield Violation(rule, f"{answer.seen}{asked}", shown_uri(answer.about))
        elif probe is Probe.GET_UNKNOWN and not answer.error.message.strip():
            yield Violation("GET-1/message", str(answer.error), shown_uri(answer.about))


def _is_wrong(neighbor: Neighbor, answer: Answer) -> bool:
    """Whether the entry is not that of a skill which happens to have this URI and is not listed."""
    skill = (answer.result or {}).get("skill")
    if neighbor.impossible or not is_object(skill) or skill.get("uri") != neighbor.uri:
        return True
    files = skill.get("resources")
    if not is_list(files):
        return False
    return not any(is_object(file) and file.get("uri") == neighbor.uri for file in files)


def _before_list(seen: Observations) -> Iterator[Violation]:
    second = seen.second
    if second is None or second.get.failure is not None:
        return
    if second.get.error is not None:
        yield Violation("GET-1/before-list", str(second.get.error), second.skill.place)
        return
    before = seen.gets.get(second.skill.uri) if second.skill.uri else None
    entry = (second.get.result or {}).get("skill")
    earlier = (before.result or {}).get("skill") if before is not None else None
    if is_object(entry) and is_object(earlier) and (keys := _differences(entry, earlier)):
        yield Violation("GET-1/before-list", f"a different {keys} on a new connection", second.skill.place)
