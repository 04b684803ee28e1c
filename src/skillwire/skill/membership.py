"""What belongs to a skill: the one predicate for manifest, read, directory and watch alike."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

_VERSION_CONTROL: Final = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS"})
_MADE_BY_TOOLS: Final = frozenset(
    {"__pycache__", "node_modules", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
_LITTER: Final = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", ".idea", ".vscode"})
_NEVER: Final = _VERSION_CONTROL | _MADE_BY_TOOLS | _LITTER

# Swap, backup and lock files of vi, Emacs, Kate, Office and macOS.
_LITTER_PATTERNS: Final = (
    "*~",
    "*.swp",
    "*.swo",
    "*.swx",
    ".#*",
    "#*#",
    "._*",
    "~$*",
    "*.pyc",
    "*.pyo",
    ".*.kate-swp",
)
# Most names are plain; these marks are the only way into a pattern above.
_MARK: Final = re.compile(r"[~#]|\.(?:sw|_|py[co]|kate)")


@lru_cache(maxsize=512)
def belongs_to_skill(name: str) -> bool:
    """Whether a file or directory of this name is part of the skill that it lies in."""
    if name in _NEVER:
        return False
    if _MARK.search(name):
        return not any(fnmatchcase(name, pattern) for pattern in _LITTER_PATTERNS)
    return True
