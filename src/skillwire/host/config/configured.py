"""HostConfig: what all configuration files say together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skillwire.catalog.selection import Selection
from skillwire.host.config.server import ServerConfig
from skillwire.host.config.text import Place, PublisherText
from skillwire.host.config.trust import UntrustedServer
from skillwire.host.directories import LocalDirectory, project_directory
from skillwire.trust.approval import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredServer:
    """A server as the files say it, with no variable filled in.

    `used` is whether it is wanted; a host connects to it when it is `trusted` as well.
    """

    label: str
    file: Path
    place: Place
    policy: Policy
    skills: bool
    selection: Selection
    accept_drafts: bool
    bare_scan: bool
    connect_seconds: float
    call_seconds: float
    used: bool
    trusted: bool
    require: tuple[str, ...] = ()
    of_project: bool = False
    """Whether a project's file says where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredPublisher:
    """A publisher of the user's file. Paths in it are relative to `directory`."""

    name: str
    directory: Path
    text: PublisherText


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """Everything that a host is opened with. `servers` are those that it connects to."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, ServerConfig])
    configured: tuple[ConfiguredServer, ...] = ()
    untrusted: tuple[UntrustedServer, ...] = ()
    """Those that it would connect to, if the user trusted the files that name them."""
    unusable: tuple[UntrustedServer, ...] = ()
    """Those that cannot be connected to, such as one that needs a variable that is not set."""
    directories: tuple[Path, ...] = ()
    """The directories of the user's own file."""
    project_directories: tuple[Path, ...] = ()
    """Those of a trusted project's file: their skills are the project's, not the user's."""
    problems: tuple[str, ...] = ()
    """What was left out of the files, and why, where everything else still works."""
    style: str = ""
    default_directories: bool = True
    disabled: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    publishers: tuple[ConfiguredPublisher, ...] = ()
    required_sources: tuple[tuple[str, str], ...] = ()
    """Patterns of sources, each with the publisher who must have signed what comes from there."""

    @property
    def local_directories(self) -> tuple[LocalDirectory | Path, ...]:
        """The directories of skills, the user's own and the project's."""
        return (*self.directories, *map(project_directory, self.project_directories))

    @property
    def skipped(self) -> tuple[UntrustedServer, ...]:
        """Every requested server that is left out, each with the reason."""
        return (*self.untrusted, *self.unusable)
