"""Checks of entries, of their files, and of what the files contain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from skillwire.conformance.entries import EntryView, content_digests, content_uris
from skillwire.conformance.messages import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    Answer,
    describe,
    describe_field,
    media_type,
)
from skillwire.conformance.observations import Observations, Probe, ancestors
from skillwire.conformance.rules import BY_ID, Violation, once
from skillwire.documents import JsonObject, is_object
from skillwire.errors import FormatError, Severity
from skillwire.skill import (
    MARKDOWN,
    SKILL_FILE,
    Digest,
    Profile,
    SkillDocument,
    SkillUri,
    child_uri,
    field_issues,
    is_inside,
    lint_skill,
    parse_skill_md,
    parse_uri,
    path_below,
    shown_uri,
    skill_name_in,
    unmet_demands,
)
from skillwire.trust import (
    SIGNATURE_FILE,
    InvalidSignatureFile,
    claimed_differences,
    find_hidden_text,
    frontmatter_differences,
)

_META_PREFIX: Final = "io.modelcontextprotocol.skills/"


def check_entries(seen: Observations) -> Iterator[Violation]:
    """Violations that the entries alone show, once for each entry."""
    known: set[SkillUri] = set()
    names: dict[str, str] = {}
    for entry in seen.entries:
        if entry.uri is not None and entry.uri in known:
            continue  # LST-1 reports it.
        yield from entry.violations
        if entry.uri is None:
            continue
        known.add(entry.uri)
        name = skill_name_in(entry.uri)
        if name in names:
            yield Violation(
                "ENT-5/same-name", f"{shown_uri(name)} is also the name of {names[name]}", entry.place
            )
        names.setdefault(name, entry.place)
    for entry in seen.checked:
        if entry.uri not in known:
            yield from entry.violations
    yield from _enclosing(seen)
    for entry in seen.checked:
        yield from _skill_md(seen, entry)
    yield from _listed_resources(seen)


def _enclosing(seen: Observations) -> Iterator[Violation]:
    """FMT-8: the skill around a nested skill lists the files of that skill as well."""
    around = {entry.root: entry for entry in seen.checked if entry.root and entry.has_manifest}
    for inner in seen.checked:
        for up in ancestors(inner.root) if inner.root else ():
            outer = around.get(up)
            missing = [uri for uri in inner.files if uri not in outer.files] if outer else []
            if outer and missing:
                more = f" and {len(missing) - 1} more" if missing[1:] else ""
                yield Violation(
                    "FMT-8/enclosing", f"{shown_uri(missing[0])}{more} missing from the entry", outer.place
                )


def _document_of(seen: Observations, uri: SkillUri | None) -> SkillDocument | None:
    """The SKILL.md of a skill, if it could be read and parsed."""
    file = seen.files.get(uri) if uri else None
    if file is None or file.data is None or uri is None or seen.changes(uri):
        return None
    try:
        return parse_skill_md(file.data)
    except FormatError:
        return None


def _skill_md(seen: Observations, entry: EntryView) -> Iterator[Violation]:
    file = seen.files.get(entry.uri) if entry.uri else None
    if entry.uri is None or file is None or file.data is None:
        return
    if seen.changes(entry.uri) and not entry.is_dynamic:
        return  # It is unknown which bytes the entry describes.
    try:
        found = parse_skill_md(file.data, strict=True).frontmatter
    except FormatError as error:
        issue = error.issues[0]
        yield Violation(
            "FMT-1/frontmatter", f"line {issue.line}: {issue.message}", entry.place, fix=issue.fix
        )
        try:  # Lenient hosts read it anyway: the rest is checked as they would see it.
            found = parse_skill_md(file.data).frontmatter
        except FormatError:
            return
    # A wrong digest means that these are not the bytes that the entry describes.
    is_same = not any(violation.rule in ("ENT-3/digest", "RD-2/lossy") for violation in file.violations)
    if entry.frontmatter is not None and is_same:
        # VER-2, from the server's side.
        differences = frontmatter_differences(entry.frontmatter, found)
        if differences:
            yield Violation("ENT-1/verbatim", "; ".join(differences[:3]), entry.place)
    yield from _fields(found, entry)
    if not file.is_text:
        yield Violation("RD-2/skill-md-blob", "a blob of valid UTF-8", entry.place)


def _fields(frontmatter: JsonObject, entry: EntryView) -> Iterator[Violation]:
    if entry.uri is None:
        return
    name = skill_name_in(entry.uri)
    for issue in field_issues(frontmatter, directory=name, file=SKILL_FILE):
        if issue.severity is Severity.ADVICE:
            continue  # The linter reports it as advice.
        if issue.rule == "name-not-directory":
            rule = "FMT-3/name"
        elif issue.rule.startswith("name-"):
            rule = "FMT-2/name"
        elif issue.rule.startswith("description-"):
            rule = "FMT-2/description"
        else:
            rule = "FMT-2/field"
        yield Violation(rule, issue.message, entry.place, fix=issue.fix)


def _listed_resources(seen: Observations) -> Iterator[Violation]:
    """FMT-7: the Resource objects of `resources/list` that are skills."""
    skills = {entry.asked: entry for entry in seen.checked}
    for item in seen.resources.items("resources"):
        uri = item.get("uri") if is_object(item) else None
        entry = skills.get(uri) if isinstance(uri, str) else None
        if entry is None or not is_object(item):
            continue
        document = _document_of(seen, entry.uri)
        frontmatter = document.frontmatter if document else cast("JsonObject", entry.frontmatter or {})
        yield from _resource(item, frontmatter, entry.place)


def _resource(item: Mapping[str, object], frontmatter: JsonObject, place: str) -> Iterator[Violation]:
    if media_type(item.get("mimeType")) != MARKDOWN:
        yield Violation("FMT-7/mime", f"{describe_field(item, 'mimeType')} in resources/list", place)
    for field in ("name", "description"):
        if field == "name" and not isinstance(item.get("name"), str):
            continue  # MCP/resources-list reports it.
        if item.get(field) != frontmatter.get(field):
            expected = describe(frontmatter[field]) if field in frontmatter else ""
            yield Violation(f"FMT-7/{field}", describe_field(item, field), place, expected)
    meta = item.get("_meta")
    for key, value in meta.items() if is_object(meta) else ():
        field = key.removeprefix(_META_PREFIX)
        if "/" not in key:
            yield Violation("FMT-7/meta", f"{shown_uri(key)} has no prefix", place)
        elif field != key and frontmatter_differences(
            {field: value}, {field: frontmatter[field]} if field in frontmatter else {}
        ):
            yield Violation("FMT-7/meta", shown_uri(key), place)


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
    for candidate in seen.candidates:
        if candidate.read_error:
            yield Violation("RD-1/shown", candidate.read_error, shown_uri(candidate.uri))
    for uri, _, early in seen.early:
        known = seen.files.get(uri)
        if known is not None and known.digest and not early.digest:
            for violation in early.violations:
                if violation.rule == "RD-1/listed":
                    yield Violation("RD-1/before-list", violation.seen, violation.uri)
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


# Reported already, as a rule of the extension.
_REPORTED = {
    "large-file",
    "metadata-reserved",
    "name-not-directory",
    "description-too-long",
    "yaml-special",
    "yaml-unquoted-colon",
}


def check_content(seen: Observations) -> Iterator[Violation]:
    for entry in seen.checked:
        yield from _lint(seen, entry)
        yield from _signature(seen, entry)
    for uri, file in seen.files.items():
        if any(violation.rule == "RD-2/lossy" for violation in file.violations):
            continue  # This is not the text of the file.
        for place in file.hidden:
            yield Violation(f"TEXT/{place.hiding}", f"line {place.line}: {place.what}", shown_uri(uri))
    for place in find_hidden_text(seen.opening.instructions, markdown=True):
        yield Violation(
            f"TEXT/{place.hiding}", f"line {place.line}: {place.what}", "instructions of the server"
        )


def check_profile(profile: Profile, seen: Observations) -> Iterator[Violation]:
    """Check what the consumer of a profile demands beyond the extension."""
    skills = {entry.place: _sizes(entry) for entry in seen.entries}
    for demand in unmet_demands(profile, skills):
        yield Violation(f"PROFILE/{demand.rule}", demand.message, demand.skill, fix=demand.fix)


def _signature(seen: Observations, entry: EntryView) -> Iterator[Violation]:
    """Whether a signature lists the files that the entry lists. Telling whose it is takes a publisher's
    key."""
    root = entry.root
    file = seen.files.get(child_uri(root, SIGNATURE_FILE)) if root is not None else None
    if file is None or root is None or not entry.has_manifest or not file.digest or seen.changes(file.uri):
        return
    listed = {"/".join(path_below(uri, root)): Digest(one.digest or "") for uri, one in entry.files.items()}
    try:
        differing = claimed_differences(listed, file.data if file.data is not None else b"")
    except InvalidSignatureFile as error:
        too_long = f"{SIGNATURE_FILE} is too long"
        yield Violation("SIG/invalid", str(error) if file.data is not None else too_long, shown_uri(file.uri))
        return
    if differing:
        names = ", ".join(differing[:5]) + (f" and {len(differing) - 5} more" if len(differing) > 5 else "")
        yield Violation("SIG/differs", f"not as signed: {names}", shown_uri(file.uri))


def _lint(seen: Observations, entry: EntryView) -> Iterator[Violation]:
    file = seen.files.get(entry.uri) if entry.uri else None
    if file is None or file.data is None or entry.uri is None or entry.root is None:
        return
    if seen.changes(entry.uri):
        return
    for issue in lint_skill(file.data, directory=skill_name_in(entry.uri), files=_sizes(entry)):
        if issue.severity is Severity.ERROR or issue.rule in _REPORTED:
            continue
        # Without a manifest it is unknown which files there are.
        if not entry.has_manifest and issue.rule == "reference-missing":
            continue
        rule = f"LINT/{issue.rule}" if f"LINT/{issue.rule}" in BY_ID else "LINT/other"
        line = f"line {issue.line}: " if issue.line else ""
        yield Violation(rule, f"{line}{issue.message}", entry.place, fix=issue.fix)


def _sizes(entry: EntryView) -> dict[str, int]:
    """The sizes of the files of a skill by their paths."""
    root = entry.root
    if root is None:
        return {}
    return {"/".join(path_below(uri, root)): one.size or 0 for uri, one in entry.files.items()}
