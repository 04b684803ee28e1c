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


DEFAULT_LIMITS = Limits()
