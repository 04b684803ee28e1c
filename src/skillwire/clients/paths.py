"""The table of clients on this machine: their folders and files, and which client runs a process."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from skillwire.clients.client import Client, ConfigFile
from skillwire.clients.table import TABLE
from skillwire.errors import SkillNotFound
from skillwire.text import shown

CANONICAL: Final = ".agents/skills"
"""The folder that skills are installed into, in a project and at home. A client with a folder of its own gets
a link there, or a copy."""
CANONICAL_TARGET: Final = "agents"
"""The name of the canonical folder among the targets of a lock file."""
_VARIABLE: Final = re.compile(r"\$\{([A-Z_]+)(?::-([^}]*))?\}")


class Scope(StrEnum):
    """Whose skills they are."""

    PROJECT = "project"
    """Those of one project. Its lock file is in the project, so that everybody who works on it gets the same
    versions."""
    USER = "user"
    """Those of a user in every project."""


@dataclass(frozen=True, slots=True)
class BaseDirectories:
    """Where the paths of the table begin."""

    project: Path
    home: Path
    environment: Mapping[str, str]
    """The variables that move folders of clients, such as `XDG_CONFIG_HOME` and those that the table
    names."""
    platform: str = "linux"

    @classmethod
    def here(cls, project: Path | None = None) -> BaseDirectories:
        """The working directory, the user's home and the environment of this process."""
        return cls(project or Path.cwd(), Path.home(), os.environ, sys.platform)

    @property
    def xdg(self) -> Path:
        """Where most programs for a terminal keep their settings."""
        given = Path(self._variable("XDG_CONFIG_HOME"))
        return given if given.is_absolute() else self.home / ".config"

    @property
    def applications(self) -> Path:
        """Where applications of this system keep their settings."""
        if self.platform == "darwin":
            return self.home / "Library/Application Support"
        if self.platform == "win32":
            return Path(self._variable("APPDATA") or self.home / "AppData/Roaming")
        return self.xdg

    def root(self, scope: Scope) -> Path:
        return self.project if scope is Scope.PROJECT else self.home

    def canonical(self, scope: Scope) -> Path:
        """The folder that every skill is installed into."""
        return self.root(scope) / CANONICAL

    def folder(self, agent: Client, scope: Scope) -> Path | None:
        """Where the agent looks for skills; `None` when it does not, in this scope."""
        if scope is Scope.PROJECT:
            return self.project / agent.project
        return self.resolve(agent.home) if agent.home else None

    def resolve(self, place: str) -> Path:
        """A path of the table as one of this machine. A variable without a default counts as empty."""
        text = _VARIABLE.sub(lambda match: self._variable(match[1]) or match[2] or "", place)
        for start, folder in (
            ("<config>", self.xdg),
            ("<applications>", self.applications),
            ("~", self.home),
        ):
            if text == start or text.startswith(f"{start}/"):
                return folder / text.removeprefix(start).removeprefix("/")
        # An absolute path replaces the project in front of it.
        return self.project / text.removeprefix("./")

    def config_files(self) -> Iterator[tuple[Client, ConfigFile, Path]]:
        """Every file in which clients may keep servers, the user's first, so that a project cannot take the
        name of a user's server."""
        rows = [
            (client, file) for client in clients().values() if client.config for file in client.config.files
        ]
        for client, file in sorted(rows, key=lambda row: row[1].of_project):
            text = file.windows if file.windows and self.platform == "win32" else file.path
            needed = [match[1] for match in _VARIABLE.finditer(text) if match[2] is None]
            if all(map(self._variable, needed)):
                yield client, file, self.resolve(text)

    def _variable(self, name: str) -> str:
        return self.environment.get(name, "").strip()


@cache
def clients() -> Mapping[str, Client]:
    """Every known client by its id."""
    return {client.id: client for client in TABLE}


@cache
def agents() -> Mapping[str, Client]:
    """The clients that read folders of skills, by id."""
    return {client.id: client for client in TABLE if client.project}


@cache
def writable_clients() -> Mapping[str, Client]:
    """The clients that Skillwire can add a server to, by id."""
    return {client.id: client for client in TABLE if client.config and client.config.entry}


def find_agents(ids: Iterable[str]) -> tuple[Client, ...]:
    """The agents of these ids, each once; an id that is not in the table is a `SkillNotFound`."""
    known = agents()
    found: dict[str, Client] = {}
    for given in ids:
        agent = known.get(given.strip().lower())
        if agent is None:
            raise SkillNotFound(
                f"no agent is called {shown(given)}: `skillwire config agents --all` lists them"
            )
        found[agent.id] = agent
    return tuple(found.values())


def detect_agents(
    places: BaseDirectories, scope: Scope, exists: Callable[[Path], bool] = Path.exists
) -> tuple[Client, ...]:
    """The agents that are on this machine or in this project, found by their files. An agent that would get a
    skill in a folder such as `skills/` of a project must be named.
    """
    return tuple(agent for agent in agents().values() if _is_here(agent, places, scope, exists))


def shares_canonical(agent: Client, places: BaseDirectories, scope: Scope) -> bool:
    """Whether the agent reads the canonical folder itself, so that it needs no link."""
    return places.folder(agent, scope) == places.canonical(scope)


def _is_here(agent: Client, places: BaseDirectories, scope: Scope, exists: Callable[[Path], bool]) -> bool:
    if places.folder(agent, scope) is None or (scope is Scope.PROJECT and agent.has_plain_project_folder):
        return False
    if any(exists(places.resolve(sign)) for sign in agent.signs):
        return True
    own = PurePosixPath(agent.project).parts[0]
    return scope is Scope.PROJECT and own != ".agents" and exists(places.project / own)


# Which agent runs this process


def running_agent(environment: Mapping[str, str]) -> str | None:
    """The name of the agent whose commands have this environment; `None` if it is none that is known."""
    for client in TABLE:
        if any(_holds(sign, environment) for sign in client.inside):
            return client.name
    # Two conventions among agents: AI_AGENT is for nothing else, AGENT may have another use.
    named = environment.get("AI_AGENT", "").strip() or environment.get("AGENT", "").strip()
    known = next((client.name for client in TABLE if named.lower().startswith(client.id)), None)
    if known is None and (environment.get("AI_AGENT", "").strip() or named.lower() in ("1", "true")):
        return "an agent"
    return known


def _holds(sign: str, environment: Mapping[str, str]) -> bool:
    """Whether all parts of a sign hold in an environment."""
    for part in sign.split():
        name, _, pattern = part.partition("=")
        value = environment.get(name, "")
        if not (fnmatchcase(value, pattern) if pattern else value):
            return False
    return True
