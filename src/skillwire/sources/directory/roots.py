"""Root: a directory to serve, with the prefix of its skills. Reach: where its links may lead."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillwire.errors import FormatError, SourceError
from skillwire.files import expand_user
from skillwire.issues import shown
from skillwire.skill.files import is_linkable
from skillwire.skill.uris import make_uri, shown_uri

# The directories below the home in which agents keep a user's skills.
_HOME_FOLDERS: Final = (
    ".agents/skills",
    ".claude/skills",
    ".codex/skills",
    ".config/agents/skills",
    ".config/goose/skills",
    ".config/opencode/skills",
    ".copilot/skills",
    ".cursor/skills",
    ".gemini/skills",
    ".goose/skills",
    ".skills",
)


@dataclass(frozen=True, slots=True)
class Root:
    """A resolved directory, and the path segments that precede its skills."""

    path: Path
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """The directories that links may lead into; all other targets are never opened.

    `bases` are real paths. With `everywhere`, a link may lead anywhere except to credentials.
    """

    bases: tuple[str, ...]
    everywhere: bool = False

    def base_of(self, path: str) -> str | None:
        """The base directory from which a real path is opened; `None` if it is out of reach."""
        best = None
        for base in self.bases:
            if (path == base or path.startswith(os.path.join(base, ""))) and len(base) > len(best or ""):
                best = base
        if best is None and self.everywhere:
            best = Path(path).anchor
        return best

    def allows(self, path: str) -> bool:
        """Whether a link may lead to this real path: within reach, not into `.git` or to credentials."""
        base = self.base_of(path)
        return base is not None and all(map(is_linkable, path[len(base) :].split(os.sep)))


def find_reach(roots: Iterable[Root], *, everywhere: bool = False, home: Path | None = None) -> Reach:
    """Where the links of these roots may lead: into any of them, the user's skill folders, or the repository
    or project around a root.
    """
    home = Path.home() if home is None else home
    bases = {str(root.path): None for root in roots}
    for root in list(bases):
        project = _project_of(Path(root), home)
        if project is not None:
            bases[str(project)] = None
    for folder in _HOME_FOLDERS:
        path = os.path.realpath(home / folder)
        if os.path.isdir(path):
            bases[path] = None
    return Reach(tuple(bases), everywhere)


def _project_of(path: Path, home: Path) -> Path | None:
    """The repository or project around a directory. A home directory is neither."""
    if path in (home, *home.parents):
        return None
    for at in (path, *path.parents):
        if at in (home, *home.parents):
            break
        if os.path.lexists(at / ".git"):
            return at
    # `.claude/skills` and similar folders are directly in a project.
    if path.name == "skills" and path.parent.name.startswith("."):
        project = path.parent.parent
        return None if project in (home, *home.parents) else project
    return None


def parse_root(text: str | Path | Root) -> Root:
    """A root from `./skills` or `acme=./skills`, or a `SourceError` that says what is wrong with it."""
    if isinstance(text, Root):
        return text
    given = str(text)
    prefix: tuple[str, ...] = ()
    before, equals, after = given.partition("=")
    # The name of a directory may contain an equals sign.
    if equals and isinstance(text, str) and not _exists(given):
        given = after
        prefix = tuple(before.split("/"))
        try:
            make_uri(prefix)
        except FormatError as error:
            reason = error.issues[0].message if before else "it is empty"
            raise SourceError(
                f"{shown(before)!r} is not a prefix: {reason}; write PREFIX=PATH, or PATH alone"
            ) from None
    if not given:
        # An unset variable must not serve the current directory.
        raise SourceError("the path is empty; name a directory with skills")
    try:
        path = expand_user(given).resolve(strict=True)
        is_directory = path.is_dir()
    except FileNotFoundError:
        raise SourceError(f"{shown_uri(given)} does not exist; name a directory with skills") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"{shown_uri(given)} cannot be opened: {_reason(error)}") from None
    if not is_directory:
        raise SourceError(f"{shown_uri(given)} is not a directory; name the directory that contains SKILL.md")
    return Root(path, prefix)


def _exists(text: str) -> bool:
    try:
        return expand_user(text).exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
