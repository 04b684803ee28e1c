"""ENT and FMT: entries on their own, against their SKILL.md, and against the resource listing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from skillwire.conformance.directory_walk import ancestors
from skillwire.conformance.entries import EntryView
from skillwire.conformance.messages import describe, describe_field, media_type
from skillwire.conformance.observations import Observations
from skillwire.conformance.rules import Violation
from skillwire.errors import FormatError
from skillwire.issues import Severity
from skillwire.json_types import JsonObject, is_object
from skillwire.skill.fields import field_issues
from skillwire.skill.files import MARKDOWN
from skillwire.skill.frontmatter import SkillDocument, parse_skill_md
from skillwire.skill.uris import SKILL_FILE, SkillUri, shown_uri, skill_name_in
from skillwire.trust.compare import frontmatter_differences

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
