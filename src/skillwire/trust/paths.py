"""Paths inside a held skill: as a model or user writes them, and as they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, unquote

from skillwire.errors import FormatError, UnlistedFile
from skillwire.issues import shown
from skillwire.skill.entries import DYNAMIC
from skillwire.skill.uris import SkillUri, child_uri, is_inside, parse_uri, skill_root
from skillwire.text import clean_line
from skillwire.trust.verify import CheckedEntry

_ODD: Final = re.compile("[%<>\"'&`\\\\:]")


def skill_file(entry: CheckedEntry, path: str) -> SkillUri:
    """The URI of a file of the skill, or `UnlistedFile` (VER-3).

    The path is relative to the skill's directory (FMT-10) and may be percent-encoded, like a Markdown link.
    The file's URI works too.
    """
    for uri in _readings(skill_root(entry.uri), path):
        if entry.resources is DYNAMIC or any(resource.uri == uri for resource in entry.resources):
            return uri
    raise UnlistedFile(uri=shown(path), skill=entry.uri)


def skill_directory(entry: CheckedEntry, path: str = "") -> SkillUri:
    """The URI of a directory of the skill, or `UnlistedFile`. The empty path is the skill's own directory."""
    root = skill_root(entry.uri)
    plain = path.rstrip("/")
    if plain in ("", ".", root):
        return root
    for uri in _readings(root, plain):
        if entry.resources is DYNAMIC or any(is_inside(resource.uri, uri) for resource in entry.resources):
            return uri
    raise UnlistedFile(uri=shown(path), skill=entry.uri)


def shown_path(path: str) -> str:
    """A file's path as it is shown. `skill_file` accepts it, even for unusual names."""
    odd = clean_line(path).text != path or _ODD.search(path)
    return quote(path, safe="/") if odd else path


def _readings(root: SkillUri, path: str) -> Iterator[SkillUri]:
    """The URIs inside the skill that the path may mean, most likely first."""
    if "://" in path:
        try:
            uri = parse_uri(path)
        except FormatError:
            return
        if is_inside(uri, root):
            yield uri
        return
    # Decoded first, because a percent sign is shown encoded.
    for plain in dict.fromkeys((unquote(path), path)):
        try:
            yield _below(root, plain.removeprefix("./").split("/"))
        except FormatError:
            # A path that decodes to `..` is not tried unchanged, because a server may decode it again.
            return


def _below(root: SkillUri, segments: list[str]) -> SkillUri:
    uri = root
    for segment in segments:
        # FMT-9: rejects `..`, empty and otherwise invalid segments.
        uri = child_uri(uri, segment)
    return uri
