"""Limits: every cap in one frozen value, so that none hides in the code."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Caps that act before a buffer fills. The defaults are what every host must be able to load."""

    files_per_skill: int = 512
    """ENT-6: a skill with more files may be declined."""
    bytes_per_skill: int = 16 * MIB
    """ENT-6: a skill with more bytes may be declined."""
    uri_bytes: int = 8192
    """A longer URI is refused unread."""
    message_bytes: int = 64 * MIB
    """A longer line on standard input is dropped and answered with an error."""
    http_body_bytes: int = 16 * MIB
    """A longer HTTP body is refused with status 413."""
    directories_per_root: int = 100_000
    """A walk over more directories than this is given up: links can make a small tree endless."""
    directory_depth: int = 64
    """A directory deeper than this below its root is left out."""
    frontmatter_bytes: int = 64 * 1024
    """A longer block of YAML is refused unread, and aliases may not make it longer than that either."""
    frontmatter_depth: int = 32
    """Lists and mappings inside one another, at most."""
    issues_per_file: int = 50
    """A file with more mistakes than this is not read to its end."""
    catalog_chars: int = 16_000
    """The catalogue in a system prompt is no longer than this; what does not fit is counted and said."""
    description_chars: int = 1024
    """FMT-2: a longer description is shortened where it is shown."""
    file_pointers: int = 100
    """A loaded skill points to so many supporting files; the rest is counted and can be listed."""


DEFAULT_LIMITS = Limits()
