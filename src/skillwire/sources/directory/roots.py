"""Root: a directory to serve, and the prefix that its skills get."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillwire.errors import FormatError, SourceError
from skillwire.issues import shown
from skillwire.skill.uris import make_uri, shown_uri


@dataclass(frozen=True, slots=True)
class Root:
    """A directory, resolved, and the path segments put before the skills found in it."""

    path: Path
    prefix: tuple[str, ...] = ()


def parse_root(text: str | Path | Root) -> Root:
    """A root from `./skills` or `acme=./skills`, or a `SourceError` that says what is wrong with it."""
    if isinstance(text, Root):
        return text
    given = str(text)
    prefix: tuple[str, ...] = ()
    before, equals, after = given.partition("=")
    # A directory whose name holds an equals sign is still a directory.
    if equals and isinstance(text, str) and not _exists(given):
        given = after
        prefix = tuple(before.split("/"))
        try:
            make_uri(prefix)
        except FormatError as error:
            raise SourceError(f"{shown(before)!r} is not a prefix: {error.issues[0].message}") from None
    if not given:
        # An unset variable must not serve whatever directory this happens to be.
        raise SourceError("the path is empty; name a directory that holds skills")
    try:
        path = Path(given).expanduser().resolve(strict=True)
        is_directory = path.is_dir()
    except FileNotFoundError:
        raise SourceError(f"{shown_uri(given)} does not exist; name a directory that holds skills") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"{shown_uri(given)} cannot be opened: {_reason(error)}") from None
    if not is_directory:
        raise SourceError(f"{shown_uri(given)} is not a directory; name the directory that holds SKILL.md")
    return Root(path, prefix)


def _exists(text: str) -> bool:
    try:
        return Path(text).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
