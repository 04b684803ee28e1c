"""Draft: a well-formed version to be published; and what a registry reports about versions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

from skillwire.errors import FormatError, LimitExceeded
from skillwire.issues import Issue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.registry.places import checked_channel, checked_namespace, checked_version
from skillwire.skill.digests import Digest, SetDigest, parse_digest, set_digest
from skillwire.skill.uris import SKILL_FILE
from skillwire.sources.archive import safe_path

PUBLISH_PATH: Final = "/registry/v1/publish"
"""Where a registry takes drafts and their files over HTTP."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file of a version: its path in the skill, its digest and its size."""

    path: str
    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A version to be published, and the channel that will point to it.

    `parse_draft` and `draft_of` make one that is well formed. The name of the skill is in its `SKILL.md`.
    """

    namespace: str
    version: str
    channel: str
    files: tuple[FileRow, ...]

    @property
    def set_digest(self) -> SetDigest:
        return set_digest((file.path, file.digest) for file in self.files)


@dataclass(frozen=True, slots=True)
class Published:
    """A version that is in the registry. `is_new` is false if it was already there, with these files."""

    namespace: str
    name: str
    version: str
    set_digest: str
    signer: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of a skill, as `registry versions` shows it."""

    namespace: str
    name: str
    version: str
    set_digest: str
    size: int
    signer: str
    published_by: str
    published_at: int
    yanked: str | None
    channels: tuple[str, ...]


def draft_of(
    namespace: str,
    version: str,
    channel: str,
    contents: Iterable[FileRow],
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> Draft:
    """A draft of well-formed parts, or the `FormatError` or `LimitExceeded` that says what is wrong."""
    rows = tuple(sorted(contents, key=lambda file: file.path))
    if len(rows) > limits.files_per_skill or sum(row.size for row in rows) > limits.bytes_per_skill:
        raise LimitExceeded(
            f"the skill has {len(rows):,} files and {sum(row.size for row in rows):,} bytes: at most "
            f"{limits.files_per_skill:,} files and {limits.bytes_per_skill:,} bytes can be published"
        )
    for row in rows:
        safe_path(row.path)
    draft = Draft(checked_namespace(namespace), checked_version(version), checked_channel(channel), rows)
    set_digest((row.path, row.digest) for row in rows)  # Refuses a path that is given twice.
    if not any(row.path == SKILL_FILE for row in rows):
        raise refused("no-skill-md", "there is no SKILL.md among the files", "publish the folder of a skill")
    return draft


def parse_draft(value: object, *, limits: Limits = DEFAULT_LIMITS) -> Draft:
    """A draft from JSON as a client sends it."""
    if not isinstance(value, dict):
        raise refused("draft", "the manifest is not an object", "send namespace, version, channel and files")
    fields = cast("dict[object, object]", value)
    given = fields.get("files")
    rows: list[FileRow] = []
    for one in cast("list[object]", given) if isinstance(given, list) else []:
        match one:
            case {"path": str(path), "digest": str(digest), "size": int(size)} if size >= 0:
                rows.append(FileRow(path, parse_digest(digest), size))
            case _:
                raise refused("draft", "a file has no path, digest and size", "send all three for each file")
    match fields:
        case {"namespace": str(namespace), "version": str(version), "channel": str(channel)}:
            return draft_of(namespace, version, channel, rows, limits=limits)
        case _:
            raise refused("draft", "namespace, version or channel is missing", "send all three")


def refused(rule: str, message: str, fix: str) -> FormatError:
    """The error for a draft that is not published."""
    return FormatError(Issue(rule=rule, message=message, fix=fix))
