"""RD, and ENT and FMT where bytes decide: every file that was read, against its entry and against itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from skillwire.conformance.directory_walk import ancestors
from skillwire.conformance.entry_view import EntryView
from skillwire.conformance.observations import Observations, Probe
from skillwire.conformance.responses import INVALID_PARAMS, RESOURCE_NOT_FOUND
from skillwire.conformance.violations import Violation
from skillwire.errors import FormatError
from skillwire.issues import Severity
from skillwire.json_types import JsonObject, is_object
from skillwire.skill.fields import field_issues
from skillwire.skill.frontmatter import SkillDocument, parse_skill_md
from skillwire.skill.media import MARKDOWN
from skillwire.skill.uris import SKILL_FILE, SkillUri, is_inside, shown_uri, skill_name_in
from skillwire.trust.compare import frontmatter_differences

_META_PREFIX = "io.modelcontextprotocol.skills/"


def check_entries(survey: Observations) -> Iterator[Violation]:
    """What entries say of themselves, each entry once."""
    known: set[SkillUri] = set()
    names: dict[str, str] = {}
    for entry in survey.entries:
        if entry.uri is not None and entry.uri in known:
            continue  # LST-1 has said so.
        yield from entry.faults
        if entry.uri is None:
            continue
        known.add(entry.uri)
        name = skill_name_in(entry.uri)
        if name in names:
            yield Violation(
                "ENT-5/same-name", f"{shown_uri(name)} is also the name of {names[name]}", entry.place
            )
        names.setdefault(name, entry.place)
    for entry in survey.checked:
        if entry.uri not in known:
            yield from entry.faults
    yield from _enclosing(survey)


def _enclosing(survey: Observations) -> Iterator[Violation]:
    """FMT-8: what a nested skill has, the skill around it has too."""
    around = {entry.root: entry for entry in survey.checked if entry.root and entry.has_manifest}
    for inner in survey.checked:
        for up in ancestors(inner.root) if inner.root else ():
            outer = around.get(up)
            missing = [uri for uri in inner.files if uri not in outer.files] if outer else []
            if outer and missing:
                more = f" and {len(missing) - 1} more" if missing[1:] else ""
                yield Violation("FMT-8/enclosing", f"it lacks {shown_uri(missing[0])}{more}", outer.place)


def check_files(survey: Observations) -> Iterator[Violation]:
    dynamic = [entry.root for entry in survey.checked if entry.is_dynamic and entry.root]
    for uri, seen in survey.files.items():
        if not survey.changes(uri):
            yield from seen.faults
        elif not any(is_inside(uri, root) for root in dynamic):
            yield Violation("RD-2/changing", "other bytes at the second read", shown_uri(uri))
    for entry in survey.checked:
        yield from _skill_md(survey, entry)
        yield from _other_manifest(survey, entry)
    yield from _types(survey)
    yield from _resource_faults(survey)
    yield from _refusals(survey)


def _other_manifest(survey: Observations, entry: EntryView) -> Iterator[Violation]:
    """FMT-8: a file of a nested skill stands in two entries, and both have to be right about it."""
    for file in entry.files.values():
        seen = survey.files.get(file.uri)
        if seen is None or not seen.digest or seen.listed in (None, file) or survey.changes(file.uri):
            continue
        if file.digest is not None and file.digest != seen.digest:
            what = f"{seen.digest}, which the entry of {entry.place} does not say"
            yield Violation("ENT-3/digest", what, shown_uri(file.uri), file.digest)
        elif file.size is not None and file.size != seen.size:
            yield Violation("ENT-3/size", f"{seen.size} bytes", shown_uri(file.uri), f"{file.size} bytes")


def document_of(survey: Observations, uri: SkillUri | None) -> SkillDocument | None:
    """The SKILL.md of a skill, when it could be read and parsed."""
    seen = survey.files.get(uri) if uri else None
    if seen is None or seen.data is None or uri is None or survey.changes(uri):
        return None
    try:
        return parse_skill_md(seen.data)
    except FormatError:
        return None


def _skill_md(survey: Observations, entry: EntryView) -> Iterator[Violation]:
    seen = survey.files.get(entry.uri) if entry.uri else None
    if entry.uri is None or seen is None or seen.data is None:
        return
    if survey.changes(entry.uri) and not entry.is_dynamic:
        return  # Nobody knows which bytes the entry speaks of.
    try:
        found = parse_skill_md(seen.data).frontmatter
    except FormatError as error:
        issue = error.issues[0]
        yield Violation(
            "FMT-1/frontmatter", f"line {issue.line}: {issue.message}", entry.place, fix=issue.fix
        )
        return
    # A wrong digest means that these are not the bytes which the entry speaks of.
    is_same = not any(fault.rule in ("ENT-3/digest", "RD-2/lossy") for fault in seen.faults)
    if entry.frontmatter is not None and is_same:
        # VER-2, from the server's side.
        differences = frontmatter_differences(entry.frontmatter, found)
        if differences:
            yield Violation("ENT-1/verbatim", "; ".join(differences[:3]), entry.place)
    yield from _fields(found, entry)
    if not seen.is_text:
        yield Violation("RD-2/skill-md-blob", "a blob of valid UTF-8", entry.place)


def _fields(frontmatter: JsonObject, entry: EntryView) -> Iterator[Violation]:
    if entry.uri is None:
        return
    name = skill_name_in(entry.uri)
    for issue in field_issues(frontmatter, directory=name, file=SKILL_FILE):
        if issue.severity is not Severity.ERROR:
            continue  # The linter says it as advice.
        if issue.rule == "name-not-directory":
            rule = "FMT-3/name"
        elif issue.rule.startswith("name-"):
            rule = "FMT-2/name"
        elif issue.rule.startswith("description-"):
            rule = "FMT-2/description"
        else:
            rule = "FMT-2/field"
        yield Violation(rule, issue.message, entry.place, fix=issue.fix)


def _types(survey: Observations) -> Iterator[Violation]:
    """Types wherever a file is described: read, directory, listing."""
    skills = {entry.uri for entry in survey.checked}
    told = {
        child.uri: child.fields.get("mimeType")
        for directory in survey.directories.values()
        for child in directory.children
        if child.uri is not None and not child.is_directory
    }
    for uri, seen in survey.files.items():
        in_directory = told.get(uri)
        if uri in skills:
            if seen.digest and seen.mime != MARKDOWN:
                yield Violation("FMT-7/mime", f"{seen.mime} when read", shown_uri(uri))
            elif uri in told and in_directory != MARKDOWN:
                yield Violation("FMT-7/mime", f"{in_directory} in its directory", shown_uri(uri))
        elif isinstance(in_directory, str) and seen.mime is not None and in_directory != seen.mime:
            pair = f"{seen.mime} when read, {in_directory} in its directory"
            yield Violation("RD-1/mime", shown_uri(pair), shown_uri(uri))


def _resource_faults(survey: Observations) -> Iterator[Violation]:
    """FMT-7: the Resource objects of `resources/list` that are skills."""
    skills = {entry.asked: entry for entry in survey.checked}
    for item in survey.resources.items("resources"):
        uri = item.get("uri") if is_object(item) else None
        entry = skills.get(uri) if isinstance(uri, str) else None
        if entry is None or not is_object(item):
            continue
        document = document_of(survey, entry.uri)
        frontmatter = document.frontmatter if document else cast("JsonObject", entry.frontmatter or {})
        yield from _resource(item, frontmatter, entry.place)


def _resource(item: Mapping[str, object], frontmatter: JsonObject, place: str) -> Iterator[Violation]:
    if item.get("mimeType") != MARKDOWN:
        yield Violation("FMT-7/mime", shown_uri(f"{item.get('mimeType')} in resources/list"), place)
    for field in ("name", "description"):
        if item.get(field) != frontmatter.get(field):
            yield Violation(
                f"FMT-7/{field}",
                shown_uri(f"{item.get(field)}"),
                place,
                shown_uri(f"{frontmatter.get(field)}"),
            )
    meta = item.get("_meta", {})
    for key, value in _items(meta):
        field = key.removeprefix(_META_PREFIX)
        if field == key:
            continue
        if frontmatter_differences(
            {field: value}, {field: frontmatter.get(field)} if field in frontmatter else {}
        ):
            yield Violation("FMT-7/meta", shown_uri(key), place)


def _items(meta: object) -> list[tuple[str, object]]:
    return list(meta.items()) if is_object(meta) else []


def _refusals(survey: Observations) -> Iterator[Violation]:
    # Before 2026-07-28 the base protocol had a code of its own for a resource that is not there.
    accepted = {INVALID_PARAMS} if survey.is_modern else {INVALID_PARAMS, RESOURCE_NOT_FOUND}
    rules = {
        Probe.READ_UNKNOWN: "RD-1/unknown",
        Probe.READ_UNKNOWN_SKILL: "RD-1/unknown",
        Probe.READ_DIRECTORY: "RD-1/directory",
    }
    for probe, rule in rules.items():
        answer = survey.probes.get(probe)
        if answer is None or answer.failure is not None:
            continue
        if answer.error is None or answer.error.code not in accepted:
            yield Violation(rule, answer.seen, shown_uri(answer.about))
    for probe in (Probe.READ_CLIMB, Probe.READ_ENCODED_CLIMB, Probe.READ_ENCODED_SLASH):
        answer = survey.probes.get(probe)
        if answer is not None and answer.result is not None:
            yield Violation("FMT-9/climb", answer.seen, shown_uri(answer.about))
