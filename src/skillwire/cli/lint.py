"""`skillwire lint`: every issue of every skill, before anyone else finds it."""

from __future__ import annotations


def lint() -> None:
    """Check skills."""
