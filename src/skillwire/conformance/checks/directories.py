"""DIR: directories against themselves and against the entries, in both directions."""

from __future__ import annotations

from collections.abc import Iterator

from skillwire.conformance.checks.capability import lacks_directories
from skillwire.conformance.checks.listing import bad_cursor, cursor_faults
from skillwire.conformance.checks.protocol import envelope_faults
from skillwire.conformance.directory_walk import ancestors, is_direct
from skillwire.conformance.entry_view import EntryView
from skillwire.conformance.observations import DirectorySeen, Observations, Probe
from skillwire.conformance.responses import INVALID_PARAMS
from skillwire.conformance.violations import Violation, once
from skillwire.skill.uris import SkillUri, is_inside, shown_uri


def check_directories(survey: Observations) -> Iterator[Violation]:
    if not survey.reads_directories or lacks_directories(survey):
        return
    files = {uri for entry in survey.checked for uri in entry.files}
    levels = {up for uri in files for up in ancestors(uri)}
    roots = {entry.root for entry in survey.checked}
    for directory in survey.directories.values():
        if directory.uri not in files:
            yield from _answered(directory, levels, roots)
        yield from cursor_faults(directory.paged, "DIR-1")
        if not directory.paged.endless:
            yield from _children(directory, files, levels)
    if survey.is_modern:
        yield from once(
            fault
            for directory in survey.directories.values()
            for page in directory.paged.pages
            if page.result is not None
            for fault in envelope_faults(page, result_type="DIR-1/result-type")
        )
    if survey.too_deep:
        yield Violation("DIR-2/loop", "directories without end", survey.too_deep)
    for entry in survey.checked:
        yield from _completeness(survey, entry, files)
    yield from _sizes(survey)
    yield from _refusals(survey)


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
    elif directory.is_told:
        # DIR-1: nothing that we know of lies in it, so it is empty, and that is no error.
        yield Violation("DIR-1/empty", str(first.error), where)


def _children(directory: DirectorySeen, files: set[SkillUri], levels: set[SkillUri]) -> Iterator[Violation]:
    where = shown_uri(directory.uri)
    for page in directory.paged.pages:
        if page.result is not None and not isinstance(page.result.get("resources"), list):
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
            # SEC-10: hosts turn such children away.
            yield Violation("DIR-1/direct", place, where)
            continue
        if child.uri in seen:
            yield Violation("DIR-1/duplicate", place, where)
        seen.add(child.uri)
        if child.uri in (files if child.is_directory else levels):
            kind = "a directory" if child.is_directory else f"{child.fields.get('mimeType')!r:.60}"
            yield Violation("DIR-1/directory-type", shown_uri(kind), place)


def _completeness(survey: Observations, entry: EntryView, files: set[SkillUri]) -> Iterator[Violation]:
    """ENT-2 and DIR-1: what directories show and what the entry lists are the same files."""
    if entry.root is None or not entry.has_manifest:
        return
    levels = {up for uri in entry.files for up in ancestors(uri)}
    walked = [
        directory
        for directory in survey.directories.values()
        if directory.uri == entry.root or is_inside(directory.uri, entry.root)
    ]
    shown: set[SkillUri] = set()
    for directory in walked:
        for child in directory.children:
            if child.uri is None or not is_direct(child.uri, directory.uri):
                continue
            shown.add(child.uri)
            is_level = child.is_directory or child.uri in levels
            # A file of a nested skill that is missing here is said by FMT-8.
            if not is_level and child.uri not in files and child.uri != entry.uri:
                yield Violation("ENT-2/complete", f"the directory has {shown_uri(child.uri)}", entry.place)
    whole = {directory.uri for directory in walked if directory.answered and _is_usable(directory)}
    for uri in entry.files:
        parent = SkillUri(uri.rpartition("/")[0])
        if parent in whole and uri not in shown:
            yield Violation("DIR-1/complete", f"{shown_uri(parent)} lacks it", shown_uri(uri))


def _is_usable(directory: DirectorySeen) -> bool:
    """Whether absence from it says anything."""
    is_whole = not directory.paged.endless and all(page.result is not None for page in directory.paged.pages)
    return is_whole and all(child.uri is not None for child in directory.children)


def _sizes(survey: Observations) -> Iterator[Violation]:
    told = {
        child.uri: child.fields.get("size")
        for directory in survey.directories.values()
        for child in directory.children
        if child.uri is not None
    }
    for file in (file for entry in survey.checked for file in entry.files.values()):
        size = told.get(file.uri)
        if size is not None and file.size is not None and size != file.size:
            yield Violation("DIR-1/size", f"{size!r:.20}", shown_uri(file.uri), f"{file.size}")


def _refusals(survey: Observations) -> Iterator[Violation]:
    for probe, rule in ((Probe.DIRECTORY_UNKNOWN, "DIR-3/unknown"), (Probe.DIRECTORY_FILE, "DIR-3/file")):
        answer = survey.probes.get(probe)
        if answer is None or answer.failure is not None:
            continue
        if answer.error is None or answer.error.code != INVALID_PARAMS:
            yield Violation(rule, answer.seen, shown_uri(answer.about))
    yield from bad_cursor(survey.probes.get(Probe.DIRECTORY_CURSOR), "DIR-1/bad-cursor")
