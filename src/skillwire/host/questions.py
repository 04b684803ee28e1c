"""What a host asks its user, beside whether a skill may be loaded: reads, calls of tools, and scripts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from skillwire.catalog import HostSkill
from skillwire.sandbox import Grant
from skillwire.skill import SetDigest
from skillwire.trust import Execution, Origin


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A question to the user: may this one read go to `target`, while skills of `held` are in use?"""

    uri: str
    target: Origin
    held: tuple[Origin, ...]


ReadCallback: TypeAlias = Callable[[ReadRequest], Awaitable[bool]]
"""Asks the user about one read. Only `True` allows it."""


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A question to the user: may this tool be called with these arguments?"""

    server: str
    name: str
    arguments: Mapping[str, object]
    execution: Execution
    """The loaded skills whose text may have asked for the call."""

    @property
    def qualified_name(self) -> str:
        """`SERVER/NAME`, as a user allows it."""
        return f"{self.server}/{self.name}"


ToolCallback: TypeAlias = Callable[[ToolRequest], Awaitable[bool]]
"""Asks the user about one call. Only `True` allows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRequest:
    """A question to the user: may this script run in the sandbox with these grants, or install packages?"""

    skill: HostSkill
    script: str
    digest: SetDigest
    """Of the files that a yes is bound to."""
    grants: tuple[Grant, ...]
    """Everything that it would have."""
    new: tuple[Grant, ...]
    """The grants that it did not have before."""
    is_first: bool
    """Whether the script was never granted to run, or the skill changed since."""
    packages: tuple[str, ...] = ()
    """For a question about packages: those that would be installed, from the index alone."""

    @property
    def sentence(self) -> str:
        """The request in one line."""
        if self.packages:
            return f"installs {', '.join(self.packages)} from the package index"
        asks = ", ".join(str(grant) for grant in (self.grants if self.is_first else self.new))
        return f"{'asks for' if self.is_first else 'newly asks for'} {asks or 'nothing but to run'}"


ScriptCallback: TypeAlias = Callable[[ScriptRequest], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRunner:
    """How a host runs scripts: `SkillHost(runner=ScriptRunner())`. Without one, it runs none."""

    folder: Path = field(default_factory=Path.cwd)
    """Paths of grants are below it, and a script runs in it if it is granted."""
    ask: ScriptCallback | None = None
    """Asks the user for grants and packages; without it, what is not granted yet is refused."""
    grants: Sequence[str] = ()
    """Grants of every script without asking, such as `read:docs`: a decision of your application."""
    network: bool = True
    """Whether granted hosts can be reached at all."""
