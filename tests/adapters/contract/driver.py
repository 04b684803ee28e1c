"""What the contract needs of a framework: a scripted model that talks with an agent with skills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import pytest

import simulator
from skillwire.host import ServerTool, SkillHost

Move = str | tuple[str, dict[str, Any]]
"""What the model does: it says a text, which ends the run, or calls a tool."""
Answer = Callable[[dict[str, Any]], bool]
"""The user: from a question, as the framework hands it out, to yes or no."""


def agrees(question: dict[str, Any]) -> bool:
    return True


def declines(question: dict[str, Any]) -> bool:
    return False


@dataclass
class Script:
    """A model that does one thing after another, and what it was sent."""

    moves: list[Move]
    with_server_tools: bool = False
    """Whether the agent gets the tools of the servers as well."""
    systems: list[str] = field(default_factory=list[str])
    """The system prompt of each request."""
    tools: list[list[str]] = field(default_factory=list[list[str]])
    """The names of the tools that were offered with each request."""
    results: list[str] = field(default_factory=list[str])
    """The results of its tool calls, as the last request had them."""
    questions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What the user was asked in the framework's own way."""

    def next_move(self, system: str, tools: list[str], results: list[str]) -> Move:
        """The reply to one request: the move after as many as have results."""
        self.systems.append(system)
        self.tools.append(tools)
        self.results = results
        return self.moves[len(results)]

    async def server_tools(self, host: SkillHost) -> Sequence[ServerTool]:
        """The tools of the servers, for adapters that are handed them."""
        return await host.server_tools() if self.with_server_tools else ()

    def ask(self, question: dict[str, Any], user: Answer) -> bool:
        self.questions.append(question)
        return user(question)


class Driver(Protocol):
    """One framework. `run` goes on until the model says a text."""

    asks_natively: bool
    """Whether the framework has a way of its own to ask the user about a tool call."""
    package: str
    """The distribution whose version was tested."""

    async def run(self, host: SkillHost, script: Script, user: Answer = agrees) -> str:
        """What the agent says in the end."""
        ...

    def run_sync(self, host: SkillHost, script: Script, user: Answer = agrees) -> str:
        """The same, with the synchronous API of the framework."""
        ...


def driver_of(adapter: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The driver of an adapter, which needs the package of its framework."""
    driver = import_module(f"adapters.contract.drivers.drive_{adapter}")
    if hasattr(driver, "through"):  # An adapter of servers: the simulated ones are reached through it.
        monkeypatch.setattr(simulator, "ServerConfig", driver.through)
    return driver
