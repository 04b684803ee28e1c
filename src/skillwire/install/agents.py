"""Agents: which program reads skills from which folder.

`.agents/skills` is the canonical place, in a project and at home. An agent with a folder of its own gets a
link there, or a copy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from skillwire.errors import SkillNotFound
from skillwire.install.agents_table import AGENT_ROWS
from skillwire.issues import shown

CANONICAL: Final = ".agents/skills"
CANONICAL_TARGET: Final = "agents"
"""The name of the canonical place among the targets of a lock file."""

_VARIABLE: Final = re.compile(r"\$\{([A-Z_]+):-([^}]*)\}")
_NONE: Final = "-"


class Scope(StrEnum):
    """Whose skills they are."""

    PROJECT = "project"
    """Those of one project. Its lock file is in the project, so that everybody who works on it gets the same
    versions."""
    USER = "user"
    """Those of a user in every project."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A program that reads skills from folders.

    The paths are as in the table, with `~` and variables: `Places` resolves them.
    """

    id: str
    """What `--agent` takes, such as `claude-code`."""
    name: str
    project: str
    """Its folder of skills, from the top of a project. It can be the canonical one, `.agents/skills`, which
    many agents read."""
    home: str
    """Its folder of the user's skills; empty when the agent reads only skills of projects."""
    signs: tuple[str, ...]
    """Files and folders that only exist where the agent is used: `detect_agents` looks for them, and for its
    own folder in a project."""

    @property
    def has_plain_project_folder(self) -> bool:
        """Whether its folder in a project is one that people use for other things, such as `skills`."""
        return not self.project.startswith(".")


@dataclass(frozen=True, slots=True)
class Places:
    """Where the paths of the table begin."""

    project: Path
    home: Path
    environment: Mapping[str, str]
    """The variables that move folders of agents, such as `XDG_CONFIG_HOME` and those that the table
    names."""

    @classmethod
    def here(cls, project: Path | None = None) -> Places:
        """The working directory, the user's home and the environment of this process."""
        return cls(project or Path.cwd(), Path.home(), os.environ)

    def root(self, scope: Scope) -> Path:
        return self.project if scope is Scope.PROJECT else self.home

    def canonical(self, scope: Scope) -> Path:
        """The folder that every skill is installed into."""
        return self.root(scope) / CANONICAL

    def folder(self, agent: Agent, scope: Scope) -> Path | None:
        """Where the agent looks for skills; `None` when it does not, in this scope."""
        if scope is Scope.PROJECT:
            return self.project / agent.project
        return self.resolve(agent.home) if agent.home else None

    def resolve(self, place: str) -> Path:
        """A path of the table as one of this machine."""
        text = _VARIABLE.sub(lambda match: self._variable(match[1]) or match[2], place)
        if text.startswith("<config>"):
            config = self._variable("XDG_CONFIG_HOME")
            text = f"{config or '~/.config'}{text.removeprefix('<config>')}"
        if text.startswith("~/"):
            return self.home / text[2:]
        # An absolute path replaces the project in front of it.
        return self.project / text.removeprefix("./")

    def _variable(self, name: str) -> str:
        return self.environment.get(name, "").strip()


@cache
def agents() -> Mapping[str, Agent]:
    """Every known agent by its id."""
    rows = (row.split(" | ") for row in AGENT_ROWS.strip().splitlines())
    return {agent.id: agent for agent in (_agent(*row) for row in rows)}


def find_agents(ids: Iterable[str]) -> tuple[Agent, ...]:
    """The agents of these ids, each once; an id that is not in the table is a `SkillNotFound`."""
    known = agents()
    found: dict[str, Agent] = {}
    for given in ids:
        agent = known.get(given.strip().lower())
        if agent is None:
            raise SkillNotFound(f"no agent is called {shown(given)}: `skillwire agents --all` lists them")
        found[agent.id] = agent
    return tuple(found.values())


def detect_agents(
    places: Places, scope: Scope, exists: Callable[[Path], bool] = Path.exists
) -> tuple[Agent, ...]:
    """The agents that are on this machine or in this project, found by their files. An agent that would get a
    skill in a folder such as `skills/` of a project must be named.
    """
    return tuple(agent for agent in agents().values() if _is_here(agent, places, scope, exists))


def shares_canonical(agent: Agent, places: Places, scope: Scope) -> bool:
    """Whether the agent reads the canonical folder itself, so that it needs no link."""
    return places.folder(agent, scope) == places.canonical(scope)


def _is_here(agent: Agent, places: Places, scope: Scope, exists: Callable[[Path], bool]) -> bool:
    if places.folder(agent, scope) is None or (scope is Scope.PROJECT and agent.has_plain_project_folder):
        return False
    if any(exists(places.resolve(sign)) for sign in agent.signs):
        return True
    own = PurePosixPath(agent.project).parts[0]
    return scope is Scope.PROJECT and own != ".agents" and exists(places.project / own)


def _agent(id_: str, name: str, project: str, home: str, signs: str = "") -> Agent:
    at_home = "" if home == _NONE else home
    default = (at_home.removesuffix("/skills"),) if at_home and at_home != f"~/{CANONICAL}" else ()
    return Agent(id_, name, project, at_home, tuple(signs.split()) or default)
