"""HostSettings: everything that a `SkillHost` is made of, as one value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

from skillwire.consent import ApprovalCallback, ConsentBackend
from skillwire.host.config.file import ConfigWatch
from skillwire.host.config.server import ServerConfig, UntrustedServer
from skillwire.host.directories import HostOrigins, LocalDirectory, collect_origins
from skillwire.host.policies import PolicyFiles
from skillwire.host.questions import ReadCallback, ScriptRunner, ToolCallback
from skillwire.host.scanners import Scans
from skillwire.host.storage import SkillUse
from skillwire.host.styles.base import Style
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.sources import Source
from skillwire.trust import Publisher


@dataclass(frozen=True, kw_only=True)
class HostSettings:
    """Everything that a host is made of. Nothing is opened by making it: no file, no connection.

    Each field is also a keyword of `SkillHost`.
    """

    # Where skills come from

    servers: Mapping[str, str | ServerConfig | object] | None = None
    """Servers by label: each a URL, a command line, a `ServerConfig`, an MCP server object of this process,
    or a client or session that you have connected already, of the SDK or FastMCP: it is used, and not
    closed."""
    directories: Iterable[str | Path | LocalDirectory] = ()
    """Directories of skills."""
    sources: Mapping[str, Source] | None = None
    """Objects of your own that follow the `Source` protocol, by label."""
    default_directories: bool = False
    """Whether those where agents keep skills are used: `.agents/skills` and `.claude/skills` of the working
    directory and of the user."""
    only: Collection[str] | None = None
    """The labels of the servers and directories to open; `None` for all."""
    disabled: Iterable[str] = ()
    """Handles or URIs of skills to leave out."""
    untrusted: Iterable[UntrustedServer] = ()
    """Servers of a configuration that are not connected: each is a failure."""
    remarks: Iterable[str] = ()
    """What else a configuration left out: each is an event."""
    config: ConfigWatch | None = None
    """The files that the rest came from. An edit of them takes effect while the host is open."""

    # Who is asked, and what needs no question

    ask: ApprovalCallback | None = None
    """Called before a skill of a server is loaded. Without it, such a load raises `ApprovalRequired`."""
    ask_read: ReadCallback | None = None
    """Called before one server's skill reads from another."""
    ask_tool: ToolCallback | None = None
    """Called before a server's tool is called."""
    safe_tools: Collection[str] = ()
    """Tools of yours that run no code, and tools of servers, as `SERVER/NAME`, that are called without
    asking."""
    approvals_file: Path | ConsentBackend | None = None
    """Where decisions are kept; by default with those of every host of this user."""
    publishers: Iterable[Publisher] = ()
    """Those whose signatures are recognized. A server requires one by its configuration."""
    required_sources: Sequence[tuple[str, str]] = ()
    """Pairs of a pattern of paths and the publisher who must have signed the skills of such a directory."""
    policy: PolicyFiles | None = None
    """Reads the policy that holds; by default the one of this machine, user and project."""
    scans: Scans | None = None
    """What the scanners of the policy found, where several hosts share that."""

    # How it works

    style: str | Style = "spec"
    """The host to emulate: `claude`, `codex`, `gemini`, `goose` or `wayland`; or none of them."""
    limits: Limits = DEFAULT_LIMITS
    timeout: float | None = None
    """Seconds that replace the time limits of all servers."""
    discover: bool = True
    """Whether servers are listed. Without that, a skill is found only by its URI."""
    watch: bool = True
    """Whether changes are noticed. Without that, they are by `refresh`."""
    cache_listings: bool | Literal["write"] = False
    """Whether a server is listed from disk for as long as it allows, and connected when something else is
    needed of it: for commands, which open a host each time. With `"write"`, every server is asked, and what
    it lists is stored for the next command."""
    connect_after: Callable[[], Awaitable[None]] | None = None
    """If set, the host begins with what each server listed the last time, expired or not, and connects when
    this function returns; if a server has not been listed before, it is not called. The skills of a server
    are then known as soon as it answers, whether others have or not."""
    cache_directory: Path | None = None
    """Where verified files are kept; by default with those of every host of this user."""
    runner: ScriptRunner | None = None
    """How scripts of skills run in a sandbox: `scripts.run`, and a tool for models."""
    usage_file: Path | None = None
    """Where it is counted how often skills are used, if it is."""
    on_use: Callable[[SkillUse], None] | None = None
    """Called for each use."""
    semantic: bool = False
    """Whether searches also find skills by the meaning of their descriptions: needs the extra `semantic`."""

    def collect(self, style: Style, limits: Limits) -> HostOrigins:
        """Every origin of these settings. Nothing in it is open."""
        return collect_origins(
            self.servers or {},
            self.directories,
            self.sources or {},
            with_default_directories=self.default_directories,
            only=self.only,
            timeout=self.timeout,
            style=style,
            limits=limits,
            required_sources=self.required_sources,
        )


class HostKeywords(TypedDict, total=False):
    """The fields of `HostSettings` as keywords."""

    servers: Mapping[str, str | ServerConfig | object] | None
    directories: Iterable[str | Path | LocalDirectory]
    sources: Mapping[str, Source] | None
    default_directories: bool
    only: Collection[str] | None
    disabled: Iterable[str]
    untrusted: Iterable[UntrustedServer]
    remarks: Iterable[str]
    config: ConfigWatch | None
    ask: ApprovalCallback | None
    ask_read: ReadCallback | None
    ask_tool: ToolCallback | None
    safe_tools: Collection[str]
    approvals_file: Path | ConsentBackend | None
    publishers: Iterable[Publisher]
    required_sources: Sequence[tuple[str, str]]
    policy: PolicyFiles | None
    scans: Scans | None
    style: str | Style
    limits: Limits
    timeout: float | None
    discover: bool
    watch: bool
    cache_listings: bool | Literal["write"]
    connect_after: Callable[[], Awaitable[None]] | None
    cache_directory: Path | None
    runner: ScriptRunner | None
    usage_file: Path | None
    on_use: Callable[[SkillUse], None] | None
    semantic: bool
