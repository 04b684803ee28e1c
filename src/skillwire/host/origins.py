"""HostOrigins: every origin of a host, from what its user gave: servers, directories and sources."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skillwire.host.config.server import ServerConfig, parse_server
from skillwire.host.directories import (
    LocalDirectory,
    command_directories,
    label_directories,
    origin_identities,
    publishers_for,
    usual_places,
)
from skillwire.host.styles.base import Style
from skillwire.host.styles.ranks import Layer, Rank
from skillwire.limits import Limits
from skillwire.sources.base import Source
from skillwire.sources.command_files import CommandFiles
from skillwire.sources.directory.source import DirectorySource
from skillwire.trust.origin import Origin


@dataclass(frozen=True, slots=True)
class HostOrigins:
    """The origins of a host. Nothing in it is open."""

    servers: Mapping[Origin, ServerConfig]
    sources: Mapping[Origin, Source]
    ranks: Mapping[Origin, Rank]
    identities: Mapping[Origin, str]
    """What identifies an origin, whatever it is called: approvals and cached files are kept under it."""
    directories: Mapping[Origin, Path]
    """Where the local directories are, including those that do not exist."""
    later: frozenset[Origin] = frozenset()
    """Default directories that do not exist yet. They become part of the host when they are created."""
    required: Mapping[Origin, tuple[str, ...]] = field(default_factory=dict[Origin, tuple[str, ...]])
    """The publishers who must have signed the skills of a directory."""

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
