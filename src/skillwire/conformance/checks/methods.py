"""Checks of the methods `skills/get` and `resources/directory/read`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from skillwire.conformance.checks.protocol import (
    bad_cursor,
    cursor_violations,
    envelope_violations,
    lacks_directories,
    lacks_get,
    neighbor_violations,
)
from skillwire.conformance.entries import EntryView
from skillwire.conformance.messages import (
    INVALID_PARAMS,
    Answer,
    describe,
    describe_field,
    same_entry,
    whole_number,
)
from skillwire.conformance.observations import (
    DirectorySeen,
    Neighbor,
    Observations,
    Probe,
    ancestors,
    is_direct,
)
from skillwire.conformance.rules import Violation, once
from skillwire.documents import is_list, is_object
from skillwire.errors import FormatError
from skillwire.skill import SKILL_FILE, SkillUri, is_inside, parse_uri, shown_uri


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
    yield from _get_refusals(seen)
    yield from neighbor_violations(
        seen.probes.get(Probe.GET_UNKNOWN), seen.get_neighbors, "GET-1/neighbor", _is_wrong_skill
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
        if (key in skill) != (key in raw) or not same_entry(_alone(skill, key), _alone(raw, key))
    )
    return " and ".join(shown_uri(key) for key in keys[:4])


def _alone(entry: Mapping[str, object], key: str) -> Mapping[str, object]:
    return {"frontmatter": None, key: entry.get(key)}


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


def _get_refusals(seen: Observations) -> Iterator[Violation]:
    for probe, rule in _REFUSALS.items():
        answer = seen.probes.get(probe)
        if answer is None or answer.failure is not None:
            continue
        if answer.error is None or answer.error.code != INVALID_PARAMS:
            asked = f" {_ASKED[probe]}" if probe in _ASKED else ""
            yield Violation(rule, f"{answer.seen}{asked}", shown_uri(answer.about))
        elif probe is Probe.GET_UNKNOWN and not _describes(answer.error.message, answer.about):
            yield Violation("GET-1/message", str(answer.error), shown_uri(answer.about))


def _describes(message: str, uri: str) -> bool:
    """Whether a message says something, and no other skill's URI in place of the requested one."""
    return bool(message.strip()) and (f"/{SKILL_FILE}" not in message or uri in message)


def _is_wrong_skill(neighbor: Neighbor, answer: Answer) -> bool:
    """Whether the entry is not that of a skill which happens to have this URI and is not listed."""
    skill = (answer.result or {}).get("skill")
    if neighbor.impossible or not is_object(skill) or skill.get("uri") != neighbor.uri:
        return True
    files = skill.get("resources")
    if not is_list(files):
        return False
    return not any(is_object(file) and file.get("uri") == neighbor.uri for file in files)


def _before_list(seen: Observations) -> Iterator[Violation]:
    for uri, early, _ in seen.early:
        if early.error is not None and uri in seen.gets and seen.gets[uri].result is not None:
            yield Violation("GET-1/before-list", str(early.error), shown_uri(uri))
            return
    second = seen.second
    if second is None or second.get.failure is not None:
        return
    before = seen.gets.get(second.skill.uri) if second.skill.uri else None
    if second.get.error is not None:
        if before is not None and before.result is not None:
            yield Violation("GET-1/before-list", str(second.get.error), second.skill.place)
        return
    entry = (second.get.result or {}).get("skill")
    earlier = (before.result or {}).get("skill") if before is not None else None
    if is_object(entry) and is_object(earlier) and (keys := _differences(entry, earlier)):
        yield Violation("GET-1/before-list", f"a different {keys} on a new connection", second.skill.place)


def check_directories(seen: Observations) -> Iterator[Violation]:
    if not seen.reads_directories or lacks_directories(seen):
        return
    files = {uri for entry in seen.checked for uri in entry.files}
    levels = {up for uri in files for up in ancestors(uri)}
    roots = {entry.root for entry in seen.checked}
    for directory in seen.directories.values():
        if directory.uri not in files:
            yield from _answered(directory, levels, roots)
        yield from cursor_violations(directory.paged, "DIR-1")
        if not directory.paged.endless:
            yield from _children(directory, files, levels)
    if seen.is_modern:
        yield from once(
            violation
            for directory in seen.directories.values()
            for page in directory.paged.pages
            if page.result is not None
            for violation in envelope_violations(page, result_type="DIR-1/result-type")
        )
    if seen.too_deep:
        yield Violation("DIR-2/loop", "directories nested without end", seen.too_deep)
    for entry in seen.checked:
        yield from _extra_files(seen, entry, files)
    yield from _missing(seen)
    yield from _directory_sizes(seen)
    yield from _directory_refusals(seen)
    yield from neighbor_violations(
        seen.probes.get(Probe.DIRECTORY_UNKNOWN),
        seen.directory_neighbors,
        "DIR-3/neighbor",
        _is_wrong_directory,
    )
    second = seen.second
    if second is not None and second.directory is not None and second.directory.error is not None:
        known = seen.directories.get(second.skill.root) if second.skill.root else None
        if known is not None and known.answered:
            yield Violation("DIR-2/before-list", str(second.directory.error), shown_uri(known.uri))


def _answered(
    directory: DirectorySeen, levels: set[SkillUri], roots: set[SkillUri | None]
) -> Iterator[Violation]:
    first = directory.paged.first
    if first is None or first.error is None:
        return
    where = shown_uri(directory.uri)
    if directory.uri in levels or directory.uri in roots:
        inside = any(root == directory.uri or (root and is_inside(directory.uri, root)) for root in roots)
        yield Violation("DIR-2/level" if inside else "DIR-2/prefix", str(first.error), where)
    elif directory.is_announced:
        # DIR-1: nothing that we know of is in it, so it is empty, and that is not an error.
        yield Violation("DIR-1/empty", str(first.error), where)


def _children(directory: DirectorySeen, files: set[SkillUri], levels: set[SkillUri]) -> Iterator[Violation]:
    where = shown_uri(directory.uri)
    for page in directory.paged.pages:
        if page.result is not None and not is_list(page.result.get("resources")):
            yield Violation("DIR-1/shape", "no array of resources", where)
    seen: set[SkillUri] = set()
    for child in directory.children:
        if not child.asked or not isinstance(child.fields.get("name"), str):
            yield Violation("DIR-1/shape", "a child without uri or name", where)
            continue
        if child.uri is None:
            yield Violation("FMT-9/uri", shown_uri(child.asked), where)
            continue
        place = shown_uri(child.asked)
        if child.asked.endswith("/"):
            yield Violation("FMT-4/slash", place, where)
        if not is_direct(child.uri, directory.uri):
            # SEC-10: hosts reject such children.
            yield Violation("DIR-1/direct", place, where)
            continue
        if child.uri in seen:
            yield Violation("DIR-1/duplicate", place, where)
        seen.add(child.uri)
        if child.uri in (files if child.is_directory else levels):
            kind = "a directory" if child.is_directory else describe_field(child.fields, "mimeType")
            yield Violation("DIR-1/directory-type", kind, place)


def _extra_files(seen: Observations, entry: EntryView, files: set[SkillUri]) -> Iterator[Violation]:
    """ENT-2: what directories show is in the entry."""
    if entry.root is None or not entry.has_manifest:
        return
    levels = {up for uri in entry.files for up in ancestors(uri)}
    for directory in seen.directories.values():
        if directory.uri != entry.root and not is_inside(directory.uri, entry.root):
            continue
        for child in directory.children:
            if child.uri is None or not is_direct(child.uri, directory.uri):
                continue
            is_level = child.is_directory or child.uri in levels
            # A file of a nested skill that is missing here is reported by FMT-8.
            if not is_level and child.uri not in files and child.uri != entry.uri:
                yield Violation("ENT-2/complete", f"the directory has {shown_uri(child.uri)}", entry.place)


def _missing(seen: Observations) -> Iterator[Violation]:
    """DIR-1: what entries list is in the directories, and every subdirectory in its parent."""
    whole = {
        uri for uri, directory in seen.directories.items() if directory.answered and _is_usable(directory)
    }
    shown = {
        child.uri
        for directory in seen.directories.values()
        for child in directory.children
        if child.uri is not None and is_direct(child.uri, directory.uri)
    }
    expected: dict[SkillUri, None] = {}
    for entry in seen.checked:
        if entry.has_manifest:
            expected.update(dict.fromkeys(entry.files))
        for uri in (*entry.files, *([entry.uri] if entry.uri else [])):
            expected.update(dict.fromkeys(up for up in ancestors(uri) if up in seen.directories))
    for uri in expected:
        parent = SkillUri(uri.rpartition("/")[0])
        if parent in whole and uri not in shown:
            yield Violation("DIR-1/complete", f"it is missing from {shown_uri(parent)}", shown_uri(uri))


def _is_usable(directory: DirectorySeen) -> bool:
    """Whether a child that it does not list is really missing."""
    paged = directory.paged
    is_whole = not (paged.endless or paged.left_out) and all(page.result is not None for page in paged.pages)
    return is_whole and all(child.uri is not None for child in directory.children)


def _directory_sizes(seen: Observations) -> Iterator[Violation]:
    shown = {
        child.uri: child.fields["size"]
        for directory in seen.directories.values()
        for child in directory.children
        if child.uri is not None and child.fields.get("size") is not None
    }
    checked = {file.uri: file for entry in seen.checked for file in entry.files.values()}
    for file in checked.values():
        if file.uri in shown and file.size is not None and whole_number(shown[file.uri]) != file.size:
            yield Violation(
                "DIR-1/size", describe(shown[file.uri]), shown_uri(file.uri), f"{file.size}, as in the entry"
            )


def _directory_refusals(seen: Observations) -> Iterator[Violation]:
    for probe, rule in (
        (Probe.DIRECTORY_NOTHING, "DIR-3/no-uri"),
        (Probe.DIRECTORY_UNKNOWN, "DIR-3/unknown"),
        (Probe.DIRECTORY_UNKNOWN_INSIDE, "DIR-3/unknown"),
        (Probe.DIRECTORY_FILE, "DIR-3/file"),
    ):
        answer = seen.probes.get(probe)
        if answer is None or answer.failure is not None:
            continue
        if answer.error is None or answer.error.code != INVALID_PARAMS:
            yield Violation(rule, answer.seen, shown_uri(answer.about))
    yield from bad_cursor(seen.probes.get(Probe.DIRECTORY_CURSOR), "DIR-1/bad-cursor")


def _is_wrong_directory(neighbor: Neighbor, answer: Answer) -> bool:
    """Whether the children are not those of a directory which happens to have this URI."""
    children = (answer.result or {}).get("resources")
    uris = [child.get("uri") if is_object(child) else None for child in children] if is_list(children) else []
    return neighbor.impossible or any(
        not isinstance(uri, str) or not uri.startswith(f"{neighbor.uri}/") for uri in uris
    )
