"""Numbers formatted for people. Imports nothing, because even the shortest command uses it."""

from __future__ import annotations


def human_size(size: int) -> str:
    """A number of bytes, such as `1.2 MB`."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 1000 or unit == "GB":
            return f"{value:.1f} {unit}"
    raise AssertionError("the last unit takes every size")


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the singular or plural."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
