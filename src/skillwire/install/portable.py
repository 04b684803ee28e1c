"""File names that are not possible on every system. Does no I/O."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

from skillwire.issues import shown

_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{name}{number}" for name in ("com", "lpt") for number in "0123456789¹²³"}
)
_FORBIDDEN: Final = frozenset('<>:"|?*\\')
_LONGEST: Final = 255


def windows_problem(path: str) -> str:
    """Why Windows refuses a path, for a person; empty if it does not."""
    for segment in path.split("/"):
        if bad := sorted(_FORBIDDEN & set(segment)):
            return f"{shown(path)} contains {' '.join(bad)}"
        if segment.endswith((" ", ".")):
            return f"{shown(path)} has a name that ends with a space or a dot"
        if segment.partition(".")[0].rstrip(" ").casefold() in _DEVICES:
            return f"{shown(path)} contains the name of a device"
        if len(segment) > _LONGEST:
            return f"{shown(path)} has a name with more than {_LONGEST} characters"
    return ""


def clashes(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of paths that are the same on a file system that ignores case or how accents are encoded."""
    first: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for path in sorted(paths):
        segments = path.split("/")
        for length in range(1, len(segments) + 1):
            part = "/".join(segments[:length])
            other = first.setdefault(_fold(part), part)
            if other != part and (other, part) not in found:
                found.append((other, part))
    return tuple(found)


def portability_problems(paths: Iterable[str]) -> tuple[str, ...]:
    """What keeps a skill from being installed everywhere, one line each."""
    listed = tuple(paths)
    return (
        *(f"not possible on Windows: {problem}" for path in listed if (problem := windows_problem(path))),
        *(
            f"on macOS and Windows, {shown(one)} and {shown(other)} are the same name"
            for one, other in clashes(listed)
        ),
    )


def _fold(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
