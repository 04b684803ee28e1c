"""Where a host looks for local skills, and where it stores its files."""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

import platformdirs

from skillwire.catalog import clean_handle
from skillwire.files import expand_user
from skillwire.host.config.server import ServerConfig, parse_server
from skillwire.host.styles.base import Layer, Rank, Style
from skillwire.limits import Limits
from skillwire.sources import CommandFiles, DirectorySource, Source, repository_around
from skillwire.trust import LOCAL_LABEL, Origin

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
class StatePaths:
    """The files of a host: approvals outlive the cache, so they are stored apart from it."""

    cache: Path
    approvals: Path
    trusted: Path
    config: Path
    logins: Path
    audit: Path
    """Lines of audit logs on their way to a database."""
    usage: Path
    """How often skills are used, if the user has that counted."""


def state_paths() -> StatePaths:
    """The places that this system has for such files."""
    return StatePaths(
        cache=Path(platformdirs.user_cache_dir(_APP, appauthor=False)) / "files",
        approvals=Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "approvals.sqlite",
        trusted=Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "trusted",
        config=Path(platformdirs.user_config_dir(_APP, appauthor=False)) / "skillwire.toml",
        logins=Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "logins",
        audit=Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "audit",
        usage=Path(platformdirs.user_data_dir(_APP, appauthor=False)) / "usage.sqlite",
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
    """The same, with those that are not there. A link of the project that leaves it is left out."""
    below = [*_USUAL, *((folder, f"-{folder.partition('/')[0].lstrip('.')}") for folder in more)]
    places = [
        (label + suffix, base / folder)
        for label, base in (("project", project), ("user", home))
        for folder, suffix in below
    ]
    settings = Path(platformdirs.user_config_dir(appauthor=False))
    places = [
        (label, path) for label, path in places if label[:4] == "user" or not _leaves(path, project, home)
    ]
    return places + [(f"user-{folder.partition('/')[0]}", settings / folder) for folder in config]


def leaving_links(project: Path, home: Path, *, more: Iterable[str] = ()) -> list[str]:
    """A remark for each link of the project that leaves it: the author of a repository may link anything."""
    folders = [project / folder for folder in (*DEFAULT_FOLDERS, *more)]
    return [
        f"{path} is a link to {os.path.realpath(path)}, which is outside the project: it is left out; "
        "add that directory yourself if you want its skills"
        for path in dict.fromkeys(folders)
        if _leaves(path, project, home)
    ]


def _leaves(path: Path, project: Path, home: Path) -> bool:
    """Whether a path of a project leads out of it: neither into its repository nor to the user's skills."""
    real = Path(os.path.realpath(path))
    around = Path(os.path.realpath(repository_around(project, home) or project))
    if around == Path(os.path.realpath(home)) or (real.is_relative_to(around) and not _is_loop(path)):
        return False
    own = (Path(os.path.realpath(home / folder)) for folder in DEFAULT_FOLDERS)
    return not any(real.is_relative_to(folder) for folder in own)


def _is_loop(path: Path) -> bool:
    """Whether a path is a link that leads to itself."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


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
    """Return each origin's identity, whatever its name: the place of a server, the path of a directory."""
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
        if base == home or not _leaves(base / folder, project, home)
    ]


def _usual_layer(label: str) -> Layer:
    return Layer.PROJECT if label.startswith("project") else Layer.USER


def _usual_origin(label: str) -> Origin:
    """Whose files they are: a working directory may be a repository of somebody else (S3)."""
    return Origin.project(label) if label.startswith("project") else Origin.local(label)


def project_directory(path: Path) -> LocalDirectory:
    """A directory that a project's file names."""
    return LocalDirectory(Origin.project(_label(path)), path)


def bundled_directory(path: Path) -> LocalDirectory:
    """A directory whose skills are part of the agent."""
    return LocalDirectory(Origin.local(_label(path)), path, Layer.BUNDLED)


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


@dataclass(frozen=True, slots=True)
class HostOrigins:
    """The origins of a host. Nothing in it is open."""

    servers: Mapping[Origin, ServerConfig]
    sources: Mapping[Origin, Source]
    ranks: Mapping[Origin, Rank]
    identities: Mapping[Origin, str]
    """The identity of each origin, whatever it is called: approvals and cached files are kept under it."""
    directories: Mapping[Origin, Path]
    """Where the local directories are, including those that do not exist."""
    later: frozenset[Origin] = frozenset()
    """Default directories that do not exist yet. They become part of the host when they are created."""
    required: Mapping[Origin, tuple[str, ...]] = field(default_factory=dict[Origin, tuple[str, ...]])
    """The publishers who must have signed the skills of a directory."""
    remarks: tuple[str, ...] = ()
    """Things that were left out, one line each."""

    def source_names(self, origin: Origin) -> tuple[str, ...]:
        """The place of an origin, in every true name that the patterns of a policy can have for it."""
        if (config := self.servers.get(origin)) is not None:
            return config.source_names(origin.label)
        if (path := self.directories.get(origin)) is not None:
            return f"folder:{'user' if origin.is_own else 'project'}", f"folder:{path.resolve()}"
        return (f"object:{origin.label}",)

    def required_publishers(self, origin: Origin) -> tuple[str, ...]:
        """The publishers who must all have signed every skill of this origin."""
        config = self.servers.get(origin)
        return config.require if config is not None else self.required.get(origin, ())


def collect_origins(
    servers: Mapping[str, object],
    directories: Iterable[str | Path | LocalDirectory],
    sources: Mapping[str, Source],
    *,
    with_default_directories: bool,
    only: Collection[str] | None,
    timeout: float | None,
    style: Style,
    limits: Limits,
    required_sources: Sequence[tuple[str, str]] = (),
) -> HostOrigins:
    """Every origin under a unique label; with `only`, those with these labels."""
    configs = {
        Origin.mcp(label): config
        for label, given in servers.items()
        if (config := _server_config(given, timeout, style)).skills and (only is None or label in only)
    }
    local, later = _local_directories(
        directories, with_default_directories, style, taken=[*(o.label for o in configs), *sources]
    )
    own = {Origin.local(label): source for label, source in sources.items()}
    ranks = {directory.origin: Rank(directory.layer, number) for number, directory in enumerate(local)}
    ranks |= {origin: Rank(Layer.ADDED, len(ranks) + number) for number, origin in enumerate(own)}
    ranks |= {origin: Rank(Layer.MCP, number) for number, origin in enumerate(configs)}
    opened = {directory.origin: _directory_source(directory, limits) for directory in local} | own
    return HostOrigins(
        servers=configs,
        sources={origin: source for origin, source in opened.items() if only is None or origin.label in only},
        ranks=ranks,
        identities=origin_identities(configs, local),
        directories={directory.origin: directory.path for directory in local},
        later=later,
        required={one.origin: publishers_for(one.path, required_sources) for one in local},
        remarks=tuple(
            leaving_links(Path.cwd(), Path.home(), more=(*style.skill_folders, *style.command_folders))
            if with_default_directories
            else ()
        ),
    )


def _server_config(given: object, timeout: float | None, style: Style) -> ServerConfig:
    """A server with the time limits of the caller and of the style."""
    config = parse_server(given)
    if timeout is not None:
        config = replace(config, connect_seconds=timeout, call_seconds=timeout)
    return replace(config, call_seconds=style.seconds(config.call_seconds))


def _local_directories(
    directories: Iterable[str | Path | LocalDirectory],
    with_defaults: bool,
    style: Style,
    *,
    taken: Collection[str],
) -> tuple[list[LocalDirectory], frozenset[Origin]]:
    """Every directory in the order of precedence, and which of them are usual places that are not there."""
    if not with_defaults:
        return label_directories([], directories, taken=taken), frozenset()
    here, home = Path.cwd(), Path.home()
    folders = command_directories(here, home, style.command_folders)
    usual = usual_places(here, home, more=style.skill_folders, config=style.config_folders)
    there = label_directories(
        [one for one in usual if one[1].is_dir()],
        [*directories, *(folder for folder in folders if folder.path.is_dir())],
        taken=taken,
    )
    # A directory that does not exist takes no label from one that does.
    known = {directory.path.resolve() for directory in there}
    later = label_directories(
        [one for one in usual if one[1].resolve() not in known],
        [folder for folder in folders if folder.path.resolve() not in known],
        taken=[*taken, *(directory.origin.label for directory in there)],
    )
    order = {path: number for number, (_, path) in enumerate(usual)}
    both = sorted([*there, *later], key=lambda directory: order.get(directory.path, len(order)))
    return both, frozenset(directory.origin for directory in later)


def _directory_source(directory: LocalDirectory, limits: Limits) -> Source:
    if directory.layer is Layer.COMMANDS:
        return CommandFiles(directory.path, limits=limits)
    return DirectorySource([directory.path], limits=limits, local=True)
