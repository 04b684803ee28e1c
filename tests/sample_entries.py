"""Entries that fit their files, for tests that then change one thing."""

from __future__ import annotations

from collections.abc import Mapping

from skillwire.documents import JsonValue
from skillwire.skill import (
    DYNAMIC,
    SkillEntry,
    SkillResource,
    SkillUri,
    child_uri,
    digest_of,
    parse_uri,
    skill_name_in,
    skill_root,
)
from skillwire.trust import (
    CheckedEntry,
    Origin,
    VerifiedFile,
    VerifiedSkill,
    check_entry,
    verify_file,
    verify_skill_md,
)

DEMO = Origin.mcp("demo")
OTHER = Origin.mcp("other")
LOCAL = Origin.local()
REFUNDS = parse_uri("skill://acme/refunds/SKILL.md")


def skill_md(
    name: str = "refunds", description: str = "Pays money back.", body: str = "# Refunds\n"
) -> bytes:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}".encode()


def make_entry(
    uri: str = REFUNDS,
    files: Mapping[str, bytes] | None = None,
    *,
    description: str = "Pays money back.",
    dynamic: bool = False,
    fields: Mapping[str, JsonValue] | None = None,
) -> SkillEntry:
    """An entry for a skill whose files are `files`, by path; `SKILL.md` is written when it is not given."""
    where = parse_uri(uri)
    name = skill_name_in(where)
    contents = {"SKILL.md": skill_md(name, description), **(files or {})}
    resources = tuple(
        SkillResource(file_uri(where, path), digest_of(data), len(data)) for path, data in contents.items()
    )
    frontmatter: dict[str, JsonValue] = {"name": name, "description": description, **(fields or {})}
    return SkillEntry(where, frontmatter, DYNAMIC if dynamic else resources)


def checked(
    uri: str = REFUNDS, files: Mapping[str, bytes] | None = None, *, dynamic: bool = False
) -> CheckedEntry:
    return check_entry(make_entry(uri, files, dynamic=dynamic))


def file_uri(skill: SkillUri, path: str) -> SkillUri:
    uri = skill_root(skill)
    for segment in path.split("/"):
        uri = child_uri(uri, segment)
    return uri


def loaded(
    body: str = "# Refunds\n",
    origin: Origin = DEMO,
    files: Mapping[str, bytes] | None = None,
    *,
    dynamic: bool = False,
) -> VerifiedSkill:
    """A skill with this body that passed verification."""
    data = skill_md(body=body)
    entry = checked(files={"SKILL.md": data, **(files or {})}, dynamic=dynamic)
    return verify_skill_md(entry, data, origin)


def read(path: str, data: bytes, origin: Origin = DEMO) -> VerifiedFile:
    """A supporting file with these bytes that passed verification."""
    entry = checked(files={path: data})
    return verify_file(entry, file_uri(entry.uri, path), data, origin)
