"""RD and ENT-3: every file that was read, against its entry and itself, and what must be refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillwire.conformance.contents import content_digests, content_uris
from skillwire.conformance.entries import EntryView
from skillwire.conformance.messages import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    Answer,
    describe,
    describe_field,
    media_type,
)
from skillwire.conformance.observations import Observations, Probe
from skillwire.conformance.rules import Violation, once
from skillwire.errors import FormatError
from skillwire.json_types import is_object
from skillwire.skill.files import MARKDOWN
from skillwire.skill.uris import is_inside, parse_uri, shown_uri

_UNKNOWN: Final = (Probe.READ_UNKNOWN, Probe.READ_UNKNOWN_SKILL)


def check_files(seen: Observations) -> Iterator[Violation]:
    dynamic = [entry.root for entry in seen.checked if entry.is_dynamic and entry.root]
    reported: set[Violation] = set()
    for uri, file in seen.files.items():
        if seen.changes(uri):
            if not any(is_inside(uri, root) for root in dynamic):
                yield Violation("RD-2/changing", "different bytes on the second read", shown_uri(uri))
            continue
        # Several contents in one answer may show the same violation as the file's own read.
        yield from (violation for violation in file.violations if violation not in reported)
        reported.update(file.violations)
    for entry in seen.checked:
        yield from _other_manifest(seen, entry)
    yield from _types(seen)
    yield from _refusals(seen)
    yield from _neighbors(seen)
    yield from once(_error_data(seen))
    second = seen.second
    if second is not None and second.read is not None:
        known = seen.files.get(second.read.uri)
        if known is not None and known.digest:
            for violation in second.read.violations:
                if violation.rule == "RD-1/listed":
                    yield Violation("RD-1/before-list", violation.seen, violation.uri)


def _other_manifest(seen: Observations, entry: EntryView) -> Iterator[Violation]:
    """FMT-8: a file of a nested skill is in two entries, and both have to be right about it."""
    for file in entry.files.values():
        read = seen.files.get(file.uri)
        if read is None or not read.digest or read.listed in (None, file) or seen.changes(file.uri):
            continue
        where = shown_uri(file.uri)
        if file.digest is not None and file.digest != read.digest:
            what = f"{file.digest} in the entry of {entry.place}"
            yield Violation("ENT-3/digest", what, where, f"{read.digest}, the digest of the bytes read")
        elif file.size is not None and file.size != read.size:
            what = f"{file.size} bytes in the entry of {entry.place}"
            yield Violation("ENT-3/size", what, where, f"{read.size} bytes, the number that was read")


def _types(seen: Observations) -> Iterator[Violation]:
    """Types wherever a file is described: read, directory, listing."""
    skills = {entry.uri for entry in seen.checked}
    shown = {
        child.uri: child.fields
        for directory in seen.directories.values()
        for child in directory.children
        if child.uri is not None and not child.is_directory
    }
    for uri, file in seen.files.items():
        if not file.digest:
            continue
        in_directory = shown.get(uri, {})
        if uri in skills:
            if media_type(file.mime) != MARKDOWN:
                what = f"{describe_field(file.fields or {}, 'mimeType')} when read"
                yield Violation("FMT-7/mime", what, shown_uri(uri))
            elif uri in shown and media_type(in_directory.get("mimeType")) != MARKDOWN:
                what = f"{describe_field(in_directory, 'mimeType')} in its directory"
                yield Violation("FMT-7/mime", what, shown_uri(uri))
        elif (
            file.mime is not None
            and isinstance(in_directory.get("mimeType"), str)
            and media_type(file.mime) != media_type(in_directory["mimeType"])
        ):
            pair = f"{describe(file.mime)} when read, {describe(in_directory['mimeType'])} in its directory"
            yield Violation("RD-1/mime", pair, shown_uri(uri))


def _accepted(seen: Observations) -> set[int]:
    # Before 2026-07-28 the base protocol had a code of its own for a resource that does not exist.
    return {INVALID_PARAMS} if seen.is_modern else {INVALID_PARAMS, RESOURCE_NOT_FOUND}


def _refusals(seen: Observations) -> Iterator[Violation]:
    for probe in _UNKNOWN:
        answer = seen.probes.get(probe)
        if answer is not None and answer.failure is None and not _refused(seen, answer):
            yield Violation("RD-1/unknown", answer.seen, shown_uri(answer.about))
    directory = seen.probes.get(Probe.READ_DIRECTORY)
    if (
        directory is not None
        and directory.failure is None
        and not _refused(seen, directory)
        and not _is_directory_content(directory)
    ):
        yield Violation("RD-1/directory", directory.seen, shown_uri(directory.about))
    for probe in (Probe.READ_CLIMB, Probe.READ_ENCODED_CLIMB, Probe.READ_ENCODED_SLASH):
        answer = seen.probes.get(probe)
        if answer is not None and answer.result is not None:
            yield Violation("FMT-9/climb", answer.seen, shown_uri(answer.about))


def _refused(seen: Observations, answer: Answer) -> bool:
    return answer.error is not None and answer.error.code in _accepted(seen)


def _is_directory_content(answer: Answer) -> bool:
    """Whether the contents are the directory itself or files in it, which the base protocol allows."""
    uris = content_uris(answer)
    try:
        directory = parse_uri(answer.about)
    except FormatError:
        return False
    return answer.result is not None and all(
        uri is not None and (uri == directory or is_inside(uri, directory)) for uri in uris
    )


def _neighbors(seen: Observations) -> Iterator[Violation]:
    unknown = [seen.probes[probe] for probe in _UNKNOWN if probe in seen.probes]
    if any(answer.result is not None for answer in unknown):
        return  # RD-1/unknown reports that any URI is answered.
    refuses = bool(unknown) and all(_refused(seen, answer) for answer in unknown)
    real = {file.digest for file in seen.files.values() if file.digest}
    for neighbor, answer in seen.read_neighbors:
        if answer.result is not None:
            # A URI that a server may legitimately have is wrong only if the bytes of a known file come back.
            is_wrong = neighbor.impossible or bool(content_digests(answer) & real)
        else:
            is_wrong = answer.error is not None and refuses and not _refused(seen, answer)
        if is_wrong:
            yield Violation(
                "RD-1/neighbor", f"{answer.seen} for a URI {neighbor.how}", shown_uri(neighbor.uri)
            )


def _error_data(seen: Observations) -> Iterator[Violation]:
    neighbors = (*seen.get_neighbors, *seen.read_neighbors, *seen.directory_neighbors)
    for answer in (*seen.probes.values(), *(answer for _, answer in neighbors)):
        data = answer.error.data if answer.error is not None else None
        # A URI that is not in its canonical spelling may come back normalized.
        if is_object(data) and "uri" in data and data["uri"] != answer.about and _is_canonical(answer.about):
            where = shown_uri(answer.about)
            yield Violation("RD-1/error-data", describe(data["uri"]), where, where)


def _is_canonical(uri: str) -> bool:
    try:
        return parse_uri(uri) == uri
    except FormatError:
        return False
