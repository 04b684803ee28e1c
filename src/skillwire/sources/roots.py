"""Root: a directory to serve, and the prefix that its skills get."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillwire.errors import FormatError, SourceError
from skillwire.skill.uris import make_uri


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
    path = Path(given).expanduser()
    before, equals, after = given.partition("=")
    # A directory whose name holds an equals sign is still a directory.
    if equals and isinstance(text, str) and not path.exists():
        prefix = tuple(before.split("/"))
        path = Path(after).expanduser()
        try:
            make_uri(prefix)
        except FormatError as error:
            raise SourceError(f"{before!r} is not a prefix: {error.issues[0].message}") from None
    try:
        path = path.resolve(strict=True)
    except FileNotFoundError:
        raise SourceError(f"{path} does not exist; name a directory that holds skills") from None
    except (OSError, RuntimeError) as error:
        raise SourceError(f"{path} cannot be opened: {_reason(error)}") from None
    if not path.is_dir():
        raise SourceError(f"{path} is not a directory; name the directory that holds SKILL.md")
    return Root(path, prefix)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
