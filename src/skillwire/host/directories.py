"""Where a host looks for local skills, and where it stores its files."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import platformdirs

from skillwire.catalog.naming import clean_handle
from skillwire.files import expand_user
from skillwire.host.config.server import ServerConfig
from skillwire.host.styles.ranks import Layer
from skillwire.trust.origin import LOCAL_LABEL, Origin

_APP = "skillwire"
_USUAL = (
    (".agents/skills", ""),
    (".claude/skills", "-claude"),
    (".codex/skills", "-codex"),
    (".cursor/skills", "-cursor"),
    (".gemini/skills", "-gemini"),
    (".github/skills", "-github"),
    (".opencode/skills", "-opencode"),
    (".opencode/skill", "-opencode"),
)
DEFAULT_FOLDERS = tuple(folder for folder, _ in _USUAL)
"""Where agents keep skills, below a project and below the user's home."""


@dataclass(frozen=True, slots=True)
class LocalDirectory:
    """A directory of skills, under the label that it is shown with: the user's own, or a project's."""

    origin: Origin
    path: Path
    layer: Layer = Layer.ADDED


@dataclass(frozen=True, slots=True)
class StatePlaces:
    """The files of a host: approvals outlive the cache, so they are stored apart from it."""

    cache: Path
    approvals: Path
    trusted: Path
    config: Path
    logins: Path


def state_places() -> StatePlaces:
    """The places that this system has for such files."""
    return StatePlaces(
        cache=Path(platformdirs.user_cache_dir(_APP, appauthor=False)) / "files",
        approvals=Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "approvals.sqlite",
        trusted=Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "trusted",
        config=Path(platformdirs.user_config_dir(_APP, appauthor=False)) / "skillwire.toml",
        logins=Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "logins",
    )


def default_directories(
    project: Path, home: Path, *, more: Iterable[str] = (), config: Iterable[str] = ()
) -> list[tuple[str, Path]]:
    """The directories where agents keep skills, of the project and of the user, those that are there.

    `more` are further folders of both, `config` those below the user's configuration directory.
    """
    places = usual_places(project, home, more=more, config=config)
    return [(label, path) for label, path in places if path.is_dir()]


def usual_places(
    project: Path, home: Path, *, more: Iterable[str] = (), config: Iterable[str] = ()
) -> list[tuple[str, Path]]:
    """The same, with those that are not there."""
    below = [*_USUAL, *((folder, f"-{folder.partition('/')[0].lstrip('.')}") for folder in more)]
    places = [
        (label + suffix, base / folder)
        for label, base in (("project", project), ("user", home))
        for folder, suffix in below
    ]
    settings = Path(platformdirs.user_config_dir(appauthor=False))
    return places + [(f"user-{folder.partition('/')[0]}", settings / folder) for folder in config]


def label_directories(
    usual: Iterable[tuple[str, Path]],
    given: Iterable[str | Path | LocalDirectory],
    *,
    taken: Iterable[str] = (),
) -> list[LocalDirectory]:
    """Every directory once, under a unique label that no server has."""
    directories: list[LocalDirectory] = []
    labels = {label.casefold() for label in taken}
    paths: set[Path] = set()
    wanted = [LocalDirectory(_usual_origin(label), path, _usual_layer(label)) for label, path in usual]
    wanted += [path if isinstance(path, LocalDirectory) else _named_by_path(path) for path in given]
    # What the user names, and what lies in their home, is theirs, also when it is the project's directory.
    own = {directory.path.resolve() for directory in wanted if directory.origin.is_own}
    for directory in wanted:
        wish, path = directory.origin.label, directory.path
        real = path.resolve()
        if real in paths:
            continue
        label, number = wish, 1
        while label.casefold() in labels:
            number += 1
            label = f"{wish}-{number}"
        labels.add(label.casefold())
        paths.add(real)
        origin = Origin.local(label) if real in own else Origin.project(label)
        directories.append(LocalDirectory(origin, path, directory.layer))
    return directories


def other_directories(
    origin: Origin, directories: Mapping[Origin, Path], used: Collection[Origin]
) -> tuple[str, ...]:
    """The directories that list their skills themselves, so that links to them in this one add nothing.

    Installers write files into one directory, and links to them into those of each agent. A directory of the
    user's own does not give way to one of a project, whose skills need approval.
    """
    if origin not in directories:
        return ()
    own = f"{directories[origin].resolve()}{os.sep}"
    others = (
        f"{path.resolve()}{os.sep}"
        for other, path in directories.items()
        if other in used and (other.is_own or not origin.is_own)
    )
    # If one directory is inside the other, no link is needed to get there.
    return tuple(path for path in others if not path.startswith(own) and not own.startswith(path))


def origin_identities(
    servers: Mapping[Origin, ServerConfig], directories: Iterable[LocalDirectory]
) -> dict[Origin, str]:
    """What identifies each origin, whatever it is called: the place of a server, the path of a directory."""
    identities = {origin: config.identity for origin, config in servers.items() if config.identity}
    return identities | {
        directory.origin: f"directory:{directory.path.resolve()}" for directory in directories
    }


def publishers_for(path: Path, required: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The publishers who must have signed the skills of a directory, by patterns of paths."""
    places = (str(path), str(path.resolve()))
    return tuple(
        name
        for pattern, name in required
        if any(fnmatchcase(place, str(expand_user(pattern))) for place in places)
    )


def command_directories(project: Path, home: Path, folders: Iterable[str]) -> list[LocalDirectory]:
    """The folders of flat command files, of the project and of the user, whether they are there or not."""
    return [
        LocalDirectory(_usual_origin(f"{label}-commands"), base / folder, Layer.COMMANDS)
        for label, base in (("project", project), ("user", home))
        for folder in folders
    ]


def _usual_layer(label: str) -> Layer:
    return Layer.PROJECT if label.startswith("project") else Layer.USER


def _usual_origin(label: str) -> Origin:
    """Whose files they are: a working directory may be a repository of somebody else (S3)."""
    return Origin.project(label) if label.startswith("project") else Origin.local(label)


def project_directory(path: Path) -> LocalDirectory:
    """A directory that a project's file names."""
    return LocalDirectory(Origin.project(_label(path)), path)


def _named_by_path(path: str | Path) -> LocalDirectory:
    return LocalDirectory(Origin.local(_label(Path(path))), expand_user(path))


def _label(path: Path) -> str:
    """A label from a directory's name; of `shop/.agents/skills` the part that tells it from others."""
    telling = [
        part for part in expand_user(path).resolve().parts if part not in ("skills", ".agents", ".claude")
    ]
    # A label has its letters in their plain form, whatever a directory is called.
    plain = unicodedata.normalize("NFKC", telling[-1]) if telling else ""
    return clean_handle(plain, marks="-_.")[:48].strip("-_.") or LOCAL_LABEL
