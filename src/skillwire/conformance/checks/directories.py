"""DIR: directories against themselves and against the entries, in both directions."""

from __future__ import annotations

from collections.abc import Iterator

from skillwire.conformance.checks.capability import lacks_directories
from skillwire.conformance.checks.listing import bad_cursor, cursor_violations
from skillwire.conformance.checks.protocol import envelope_violations, neighbor_violations
from skillwire.conformance.directory_walk import ancestors, is_direct
from skillwire.conformance.entries import EntryView
from skillwire.conformance.messages import INVALID_PARAMS, Answer, describe, describe_field, whole_number
from skillwire.conformance.neighbors import Neighbor
from skillwire.conformance.observations import DirectorySeen, Observations, Probe
from skillwire.conformance.rules import Violation, once
from skillwire.json_types import is_list, is_object
from skillwire.skill.uris import SkillUri, is_inside, shown_uri


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
    yield from _sizes(seen)
    yield from _refusals(seen)
    yield from neighbor_violations(
        seen.probes.get(Probe.DIRECTORY_UNKNOWN), seen.directory_neighbors, "DIR-3/neighbor", _is_wrong
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


def _sizes(seen: Observations) -> Iterator[Violation]:
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


def _refusals(seen: Observations) -> Iterator[Violation]:
    for probe, rule in ((Probe.DIRECTORY_UNKNOWN, "DIR-3/unknown"), (Probe.DIRECTORY_FILE, "DIR-3/file")):
        answer = seen.probes.get(probe)
        if answer is None or answer.failure is not None:
            continue
        if answer.error is None or answer.error.code != INVALID_PARAMS:
            yield Violation(rule, answer.seen, shown_uri(answer.about))
    yield from bad_cursor(seen.probes.get(Probe.DIRECTORY_CURSOR), "DIR-1/bad-cursor")


def _is_wrong(neighbor: Neighbor, answer: Answer) -> bool:
    """Whether the children are not those of a directory which happens to have this URI."""
    children = (answer.result or {}).get("resources")
    uris = [child.get("uri") if is_object(child) else None for child in children] if is_list(children) else []
    return neighbor.impossible or any(
        not isinstance(uri, str) or not uri.startswith(f"{neighbor.uri}/") for uri in uris
    )
