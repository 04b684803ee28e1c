"""SkillHost: the skills of MCP servers beside local ones, verified and approved before a model sees them.

async with SkillHost(servers={"shop": "https://shop.example/mcp"}, ask=ask_the_user) as host:
    system_prompt += host.catalog()
    tools = host.tools()
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from skillwire.catalog.registry import RegisteredSkill
from skillwire.catalog.replay import ActiveSkill, Replay
from skillwire.errors import SkillwireError
from skillwire.host.approvals.asking import ApprovalCallback
from skillwire.host.approvals.database import ApprovalBackend
from skillwire.host.config.file import load_config
from skillwire.host.config.server import ServerConfig
from skillwire.host.config.trust import UntrustedServer
from skillwire.host.directories import LocalDirectory
from skillwire.host.events import EventLog
from skillwire.host.loaded import LoadedSkill, SlashCommand, active_skills, replay_active, slash_commands
from skillwire.host.origins import collect_origins
from skillwire.host.parts import HostParts
from skillwire.host.reader import ReadCallback, ReadRequest
from skillwire.host.search import FoundSkill
from skillwire.host.styles import find_style
from skillwire.host.styles.base import Style
from skillwire.host.styles.uris import file_refusal
from skillwire.host.tools import Tool, make_tools
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.sources.base import Source
from skillwire.trust.directory import DirectoryView
from skillwire.trust.guards import Execution, granted_tools, may_execute
from skillwire.trust.publishers import Publisher
from skillwire.trust.verify import VerifiedFile


class SkillHost:
    """Finds, verifies and loads skills for an agent. Use it as an asynchronous context manager.

    `log` has events, failures and what was left out. `admin` has the servers, and what a user or an
    administrator decides: approvals, switches, the cache. `feed` gives the skills to a program that passes
    them on.
    """

    def __init__(
        self,
        *,
        servers: Mapping[str, str | ServerConfig | object] | None = None,
        directories: Iterable[str | Path | LocalDirectory] = (),
        sources: Mapping[str, Source] | None = None,
        default_directories: bool = False,
        style: str | Style = "spec",
        ask: ApprovalCallback | None = None,
        ask_read: ReadCallback | None = None,
        safe_tools: Collection[str] = (),
        disabled: Iterable[str] = (),
        untrusted: Iterable[UntrustedServer] = (),
        remarks: Iterable[str] = (),
        only: Collection[str] | None = None,
        timeout: float | None = None,
        discover: bool = True,
        watch: bool = True,
        cache_listings: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        cache_directory: Path | None = None,
        approvals_file: Path | ApprovalBackend | None = None,
        publishers: Iterable[Publisher] = (),
        required_sources: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Nothing is opened yet: no file, no connection.

        Where skills come from: `servers` by label, each a URL, a command line, a `ServerConfig` or an MCP
        server object of this process; `directories` of skills; `sources`, objects of your own that follow
        the `Source` protocol; and with `default_directories` those where agents keep skills,
        `.agents/skills` and `.claude/skills` of the working directory and of the user. `only` opens just the
        servers and directories with these labels.

        `ask` is called before a skill of a server is loaded, `ask_read` before one server's skill reads from
        another; without them such calls raise `ApprovalRequired`. `safe_tools` are tools of yours that run no
        code. `disabled` are handles or URIs to leave out. `style` emulates another host: `claude`,
        `codex`, `gemini`, `goose` or `wayland`. `untrusted` are servers of a configuration that are not
        connected: each is a failure. `remarks` are what else a configuration left out: each is an event.

        `publishers` are those whose signatures are recognized. A server requires one by its configuration, a
        directory by a pattern of `required_sources`, pairs of a pattern of paths and a publisher.

        `timeout` replaces the time limits of all servers, in seconds. Without `watch`, changes are noticed
        only by `refresh`. Without `discover`, servers are not listed, and a skill is found by its URI alone.
        With `cache_listings`, a server is listed from disk for as long as it allows, and connected when
        something else is needed of it: for commands, which open a host each time.
        """
        self.style = find_style(style)
        self._limits = limits = self.style.limits(limits)
        self._safe_tools = frozenset(safe_tools)
        self._untrusted = tuple(untrusted)
        self._remarks = tuple(remarks)
        origins = collect_origins(
            servers or {},
            directories,
            sources or {},
            with_default_directories=default_directories,
            only=only,
            timeout=timeout,
            style=self.style,
            limits=limits,
            required_sources=required_sources,
        )
        self._parts = HostParts(
            origins,
            style=self.style,
            limits=limits,
            ask=ask,
            ask_read=ask_read,
            disabled=disabled,
            discover=discover,
            watch=watch,
            cache_listings=cache_listings,
            cache_directory=cache_directory,
            approvals_file=approvals_file,
            publishers=publishers,
        )
        self.log: EventLog = self._parts.log
        self.admin = self._parts.admin
        self.feed = self._parts.feed
        self.session = secrets.token_hex(8)
        """Tells this host from others of the same process or user interface."""
        self._stack: AsyncExitStack | None = None
        self._opened = False
        self.loop: EventLoopToken | None = None
        """The event loop that the host was opened on."""
        self.in_thread = False
        """Whether that loop runs in a thread of its own: see `open_in_thread`."""

    @classmethod
    def from_config(
        cls,
        directory: Path | None = None,
        *,
        file: Path | None = None,
        profile: str | None = None,
        default_directories: bool = False,
        ask: ApprovalCallback | None = None,
        ask_read: ReadCallback | None = None,
        safe_tools: Collection[str] = (),
        style: str | Style = "spec",
        limits: Limits = DEFAULT_LIMITS,
        unsafe_trust_project: bool = False,
    ) -> Self:
        """A host as described by the user's `skillwire.toml` and that of a directory, by default this one.

        With `file`, as that file alone describes it. A mistake in them is a `FormatError` that names every
        one. `default_directories` adds those where agents keep skills, unless a file says not to.

        A directory may come from somebody else. Servers of its file are not connected until the user trusts
        that file with `skillwire trust`; until then each is a failure. With `unsafe_trust_project`
        every command that it names is started.
        """
        from skillwire.host.config.publishers import load_publishers

        config = load_config(directory, file=file, profile=profile, unsafe_trust_project=unsafe_trust_project)
        return cls(
            servers=config.servers,
            directories=config.local_directories,
            default_directories=default_directories and config.default_directories,
            disabled=config.disabled,
            untrusted=config.skipped,
            remarks=config.problems,
            publishers=load_publishers(config.publishers),
            required_sources=config.required_sources,
            ask=ask,
            ask_read=ask_read,
            safe_tools=safe_tools,
            style=style,
            limits=limits,
        )

    async def __aenter__(self) -> Self:
        if self._opened:
            raise RuntimeError("a SkillHost is opened once: make another one")
        self._opened = True
        self.loop = current_token()
        failure: SkillwireError | None = None
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            stack.push_async_callback(self._parts.inventory.aclose)
            try:
                await self._parts.open(tasks, untrusted=self._untrusted, remarks=self._remarks)
                self._stack = stack.pop_all()
            except SkillwireError as error:
                failure = error  # Raised below: the task group would wrap it.
        if failure is not None:
            raise failure
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End every connection. What is approved and cached stays."""
        self._parts.log.close()
        if self._stack is not None:
            stack, self._stack = self._stack, None
            try:
                with suppress(SkillwireError):  # A full disk must not keep a host open.
                    await self._parts.approvals.flush()
            finally:
                await stack.aclose()

    # What there is

    def commands(self) -> tuple[SlashCommand, ...]:
        """The skills that a user may invoke, for hosts that offer them as slash commands."""
        return slash_commands(self._parts, self.session)

    def skills(self, *, disabled: bool = False, for_models: bool = False) -> tuple[RegisteredSkill, ...]:
        """Every skill that is known, local ones first, each under a handle of its own.

        With `disabled`, disabled ones too. With `for_models`, only those that the catalog and the search tool
        offer: not what the user declined, nor what only users may invoke.
        """
        if for_models:
            return self._parts.offered.skills()
        return self._parts.registry.skills(disabled=disabled)

    def catalog(
        self, context: object = None, /, *, budget: int | None = None, working: Collection[str] = ()
    ) -> str:
        """The skills as text for a system prompt, within a number of characters.

        It is cheap to call before every turn, and so it is never out of date. `working` are paths that are
        worked on, for styles in which they activate skills. `context` is ignored, so that frameworks that
        pass one can be given the method itself: `Agent(instructions=host.catalog)`.
        """
        return self._parts.catalog.get(budget, working).text

    async def search(
        self, query: str, *, server: str | None = None, limit: int | None = None
    ) -> tuple[FoundSkill, ...]:
        """The skills that fit a query best, of one server or directory if its label is given.

        Disabled skills are not found. No server is contacted.
        """
        if server is not None:
            self._parts.inventory.places.require_label(server)
        return await self._parts.search.search(query, label=server, limit=limit)

    async def refresh(self, label: str | None = None, *, expired_only: bool = False) -> None:
        """List every server and directory again, or one by its label.

        With `expired_only`, a server is asked only when its last listing has expired, so it can be called
        often.
        """
        await self._parts.inventory.refresh(label, expired_only=expired_only)

    async def mentions(self, message: str) -> str:
        """What to add to a user's message that names skills, in styles that have a syntax for that.

        A local skill is loaded and its text is there. For a server's skill it is the call that loads it.
        """
        return await self._parts.actions.mentions(message)

    # Loading

    async def find(
        self, name: str, *, server: str | None = None, values: Mapping[str, str] | None = None
    ) -> RegisteredSkill:
        """The skill that a handle or a URI means, also one that its server does not list (LST-3).

        For a template, `values` has a value for each of its arguments.
        """
        return await self._parts.resolver.find(name, server, values)

    async def load(
        self, name: str, *, server: str | None = None, values: Mapping[str, str] | None = None
    ) -> LoadedSkill:
        """Load a skill by handle or URI: approved, verified, fenced, and held until it is released.

        A template is loaded with `values`: `host.load("docs/{product}", values={"product": "widget"})`.
        """
        skill = await self.find(name, server=server, values=values)
        verified = await self._parts.loader.load(skill)
        return LoadedSkill(
            self._parts.registry.get(skill.key) or skill,
            self.style.skill_text(verified, skill.handle, self._parts.context),
            self._parts.loader.grants(skill.key),
            replace(self.style.fields(verified.frontmatter), name=skill.handle),
        )

    async def read(self, name: str, path: str) -> str:
        """A file of a loaded skill, fenced for a model. The path starts at the skill's directory (FMT-10)."""
        return await self._parts.actions.read(name, path)

    async def read_bytes(self, name: str, path: str) -> VerifiedFile:
        """A file of a loaded skill as verified bytes: for programs, not for prompts."""
        return await self._parts.loader.read(await self._parts.resolver.key(name), path)

    async def list_directory(self, name: str, path: str = "") -> DirectoryView:
        """A directory of a loaded skill."""
        return await self._parts.loader.list_directory(await self._parts.resolver.key(name), path)

    async def read_resource(self, server: str, uri: str) -> str:
        """A resource of a server, bound as SEC-3 says; a skill's URI loads that skill (VER-7)."""
        return await self._parts.actions.read_resource(server, uri)

    def active(self) -> tuple[ActiveSkill, ...]:
        """The skills that are loaded now, most recently loaded first, each with its entry and its grants."""
        return active_skills(self._parts.loader)

    async def after_compaction(self, budget: int) -> Replay:
        """The text of what is loaded, to restore after a conversation was shortened, in `budget` characters.

        It is verified and fenced, the skill that was loaded last comes first, and none comes twice. A skill
        that changed, was revoked or is gone is named and not repeated; so is one that has no room. Put it
        back as a tool's result or a user's message (SEC-12). What is not in it is held until you release it.
        """
        return await replay_active(self._parts, budget)

    def release(self, name: str) -> bool:
        """Tell the host that a skill's text has left the context; false when it was not loaded."""
        held = self._parts.loader.held_as(name)
        return self._parts.loader.release(held or self._parts.registry.find(name).key)

    @contextmanager
    def asking(self, ask: ApprovalCallback, ask_read: ReadCallback | None = None) -> Generator[None]:
        """Inside this block, calls of this task use these callbacks instead of the host's.

        For a host that several users share, and for answers that come later: see the adapters.
        """
        with self._parts.asker.replaced(ask), self._parts.read_asker.replaced(ask_read or _nobody_asked):
            yield

    # What a model may do

    def tools(self, *, search: bool | None = None) -> tuple[Tool, ...]:
        """The tools for a model, with JSON schemas and handlers, for any framework.

        `search_skills` is among them when the last catalog, or one of the default size if none was requested,
        has no room for every description; with `search`, always or never.
        """
        catalog = self._parts.catalog.current()
        return make_tools(
            self._parts.actions, self.style.tools, catalog=catalog, searching=search, limits=self._limits
        )

    def may_execute(self, tool: str, arguments: Mapping[str, object] | None = None) -> Execution:
        """Whether a tool of yours may be called while the loaded skills are in the context (SEC-2).

        A tool that is not among `safe_tools` counts as code execution, whatever its arguments say.
        """
        return may_execute(tool, self._parts.loader.held, safe_tools=self._safe_tools)

    def granted_tools(self) -> frozenset[str]:
        """The `allowed-tools` patterns that the user granted for all that is loaded (SEC-4)."""
        honored = "allowed-tools" in self.style.honored
        return granted_tools(self._parts.loader.held) if honored else frozenset()

    def refuse_path(self, path: str) -> str:
        """Why a file tool of yours must not take this path; empty when it may. A URI is not a file."""
        return file_refusal(path, self.style.resource_tool)

    if not TYPE_CHECKING:  # A type checker reports a moved name, as it does any other that is not there.

        def __getattr__(self, name: str) -> object:
            place = MOVED.get(name)
            if place is None:
                raise AttributeError(f"SkillHost has no attribute {name!r}", name=name, obj=self)
            warnings.warn(f"host.{name} has moved: use host.{place}", DeprecationWarning, stacklevel=2)
            return self._parts.actions.is_loaded if name == "is_loaded" else attrgetter(place)(self)


MOVED: Final = {
    name: f"{place}.{name}"
    for place, names in {
        "log": "events events_so_far failures left_out",
        "admin": "servers server_view list_resources templates complete files preview approve revoke "
        "set_enabled approvals cache",
    }.items()
    for name in names.split()
} | {"held": "active", "is_loaded": "active", "asks": "admin.can_ask", "standing": "admin.status"}
"""The names that `SkillHost` had before, each with its place now. They work, with a `DeprecationWarning`."""


async def _nobody_asked(request: ReadRequest) -> bool:
    return False
