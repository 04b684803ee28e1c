"""Where a skill of a registry is: `skill://NAMESPACE/NAME`, and `skill://NAMESPACE/@VERSION/NAME`.

The URI of a version always means the same bytes. It is beside the skill, not below it, since what is below a
skill belongs to it (FMT-8), and `@` is in no skill's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from skillwire.errors import FormatError, SkillNotFound
from skillwire.issues import Issue, shown
from skillwire.skill.uris import SCHEME, SkillUri, make_uri, shown_uri, split_uri

_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Place:
    """A file or a directory of a skill.

    Without a version, it is in the version that a channel points to. `path` is relative to the skill; it is
    empty for the skill's own directory.
    """

    namespace: str
    name: str
    version: str | None
    path: str

    @property
    def root(self) -> SkillUri:
        return root_uri(self.namespace, self.name, self.version)


def root_uri(namespace: str, name: str, version: str | None = None) -> SkillUri:
    """The directory of a skill, or of one version of it."""
    return make_uri([namespace, *([f"@{version}"] if version is not None else []), name])


def parse_place(uri: SkillUri) -> Place:
    """What a URI names, or `SkillNotFound` where it cannot name anything in a skill of a registry."""
    parts = split_uri(uri)
    segments = parts.segments
    version: str | None = None
    if segments and segments[0].startswith("@"):
        version, segments = segments[0][1:], segments[1:]
    if parts.scheme != SCHEME or not segments:
        raise SkillNotFound(f"No skill is served at {shown_uri(uri)}", uri=uri)
    return Place(parts.authority, segments[0], version, "/".join(segments[1:]))


def checked_namespace(text: str) -> str:
    """The namespace, or a `FormatError`."""
    if not _NAMESPACE.fullmatch(text):
        raise _refused(f"{shown(text)!r} is not a namespace", "use lowercase letters, digits and hyphens")
    return text


def checked_version(text: str) -> str:
    """The version, or a `FormatError`."""
    if not _VERSION.fullmatch(text):
        raise _refused(f"{shown(text)!r} is not a version", "write it like 1.2.0")
    return text


def checked_channel(text: str) -> str:
    """The channel, or a `FormatError`."""
    if not _NAMESPACE.fullmatch(text):
        raise _refused(f"{shown(text)!r} is not a channel", "name it like stable or beta")
    return text


def _refused(message: str, fix: str) -> FormatError:
    return FormatError(Issue(rule="registry-name", message=message, fix=fix))
