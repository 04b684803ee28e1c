"""SkillHost: the skills of MCP servers beside local ones, verified and approved before a model sees them.

async with SkillHost(servers={"shop": "https://shop.example/mcp"}, ask=ask_the_user) as host:
    system_prompt += host.catalog()
    tools = host.tools()
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, TypeVarTuple

import anyio
from anyio import from_thread, to_thread
from anyio.lowlevel import EventLoopToken, current_token

from skillwire.catalog import ActiveSkill, HostSkill, Replay, ReplayText, SkillKey, fit_replay
from skillwire.consent import ApprovalCallback, ConsentBackend, ScopedCallback
from skillwire.errors import SkillwireError
from skillwire.host.config.file import ConfigWatch
from skillwire.host.config.server import ServerConfig, UntrustedServer
from skillwire.host.directories import LocalDirectory, collect_origins
from skillwire.host.loader import Loader
from skillwire.host.model import ReadCallback, Tool, ToolResult, make_tools
from skillwire.host.scripts import RUN_TOOL, ScriptRunner, Scripts, script_tool
from skillwire.host.search import SearchMatch
from skillwire.host.server_tools import ServerTool, ServerTools, ToolCallback
from skillwire.host.state import EventLog
from skillwire.host.storage import SkillUse, UsageRecorder
from skillwire.host.styles import find_style
from skillwire.host.styles.base import SkillFields, Style, file_refusal
from skillwire.host.wiring import HostComponents
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.sources import Source
from skillwire.text import clean_line, safe_line
from skillwire.trust import (
    DirectoryView,
    Execution,
    Grants,
    Origin,
    Publisher,
    VerifiedFile,
    granted_tools,
    may_execute,
    shown_digest,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A skill as a command that a user can type. What it does is `host.load(command.handle)`."""

    name: str
    description: str
    argument_hint: str
    """Arguments that can be typed after it, in the skill's own words; empty if the skill does not say."""
    origin: Origin
    handle: str
    session: str
    """The host that it works in: `host.session`."""
    is_loaded: bool
    """Whether the skill's text is in the context of this session."""


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill that is loaded. `text` is for the model, as a tool's result (SEC-12)."""

    skill: HostSkill
    text: str
    grants: Grants
    fields: SkillFields
    """The fields of its frontmatter, as far as the style honors it. Requests, never grants (SEC-4)."""


def slash_commands(parts: HostComponents, session: str) -> tuple[SlashCommand, ...]:
    """The skills that a user may invoke, as commands of one session."""
    most = parts.context.limits.description_chars
    return tuple(
        SlashCommand(
            name=f"/{skill.handle}",
            description=clean_line(skill.entry.description, limit=most).text,
            argument_hint=parts.style.fields(skill.entry.frontmatter).argument_hint,
            origin=skill.origin,
            handle=skill.handle,
            session=session,
            is_loaded=parts.loader.held_text(skill.key) is not None,
        )
        for skill in parts.resolver.invocable()
    )


def active_skills(loader: Loader) -> tuple[ActiveSkill, ...]:
    """The loaded skills, most recently loaded first."""
    found: list[ActiveSkill] = []
    for handle, held in loader.active():
        digest = shown_digest(held.entry)
        line = f"{handle} from {held.origin}, {digest or 'dynamic'}"
        found.append(ActiveSkill(handle, held.origin, held.entry, held.grants, digest, safe_line(line)))
    return tuple(found)


async def replay_active(parts: HostComponents, budget: int) -> Replay:
    """The text of what is loaded, in `budget` characters; what may not be repeated is only named."""
    candidates: list[ReplayText] = []
    for handle, held in parts.loader.active():
        found = await parts.loader.replayable(SkillKey(held.origin, held.entry.uri))
        if isinstance(found, str):
            candidates.append(ReplayText(handle, "", None, problem=found))
        else:
            text = parts.style.skill_text(found, handle, parts.context)
            candidates.append(ReplayText(handle, text, shown_digest(held.entry)))
    return fit_replay(candidates, budget)


Host = TypeVar("Host", bound="SkillHost")


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
        ask_tool: ToolCallback | None = None,
        safe_tools: Collection[str] = (),
        disabled: Iterable[str] = (),
        untrusted: Iterable[UntrustedServer] = (),
        remarks: Iterable[str] = (),
        only: Collection[str] | None = None,
        timeout: float | None = None,
        discover: bool = True,
        watch: bool = True,
        cache_listings: bool | Literal["write"] = False,
        connect_after: Callable[[], Awaitable[None]] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        cache_directory: Path | None = None,
        approvals_file: Path | ConsentBackend | None = None,
        publishers: Iterable[Publisher] = (),
        required_sources: Sequence[tuple[str, str]] = (),
        runner: ScriptRunner | None = None,
        usage_file: Path | None = None,
        on_use: Callable[[SkillUse], None] | None = None,
        semantic: bool = False,
    ) -> None:
        """Nothing is opened yet: no file, no connection.

        Where skills come from: `servers` by label, each a URL, a command line, a `ServerConfig`, an MCP
        server object of this process, or a client or session that you have connected already, of the SDK or
        FastMCP: it is used, and not closed; `directories` of skills; `sources`, objects of your own that
        follow the `Source` protocol; and with `default_directories` those where agents keep skills,
        `.agents/skills` and `.claude/skills` of the working directory and of the user. `only` opens just the
        servers and directories with these labels.

        `ask` is called before a skill of a server is loaded, `ask_read` before one server's skill reads from
        another, `ask_tool` before a server's tool is called; without them such calls raise
        `ApprovalRequired`. `safe_tools` are tools of yours that run no code, and tools of servers, as
        `SERVER/NAME`, that are called without asking. `disabled` are handles or URIs to leave out. `style`
        emulates another host: `claude`,
        `codex`, `gemini`, `goose` or `wayland`. `untrusted` are servers of a configuration that are not
        connected: each is a failure. `remarks` are what else a configuration left out: each is an event.

        `publishers` are those whose signatures are recognized. A server requires one by its configuration, a
        directory by a pattern of `required_sources`, pairs of a pattern of paths and a publisher.

        With `runner`, scripts of skills can run in a sandbox: `scripts.run`, and a tool for models.
        With `usage_file`, how often skills are used is counted there; `on_use` is called for each use.
        With `semantic`, searches also find skills by the meaning of their descriptions; this needs the extra
        `semantic`.

        `timeout` replaces the time limits of all servers, in seconds. Without `watch`, changes are noticed
        only by `refresh`. Without `discover`, servers are not listed, and a skill is found by its URI alone.
        With `cache_listings`, a server is listed from disk for as long as it allows, and connected when
        something else is needed of it: for commands, which open a host each time. With `"write"`, every
        server is asked, and what it lists is stored for the next command.

        With `connect_after`, the host begins with what each server listed the last time, expired or not, and
        connects when this function returns; if a server has not been listed before, it is not called. The
        skills of a server are then known as soon as it answers, whether others have or not.
        """
        self.style = find_style(style)
        self._limits = limits = self.style.limits(limits)
        self._safe_tools = frozenset(safe_tools)
        self._untrusted = tuple(untrusted)
        collect = partial(
            collect_origins,
            sources=sources or {},
            only=only,
            timeout=timeout,
            style=self.style,
            limits=limits,
        )

        origins = collect(
            servers or {},
            directories,
            with_default_directories=default_directories,
            required_sources=required_sources,
        )
        self._remarks = (*remarks, *origins.remarks)
        self._parts = HostComponents(
            origins,
            style=self.style,
            limits=limits,
            ask=ask,
            ask_read=ask_read,
            disabled=disabled,
            discover=discover,
            watch=watch,
            cache_listings=cache_listings,
            connect_after=connect_after,
            cache_directory=cache_directory,
            approvals_file=approvals_file,
            publishers=publishers,
            usage=UsageRecorder(usage_file, on_use=on_use, limits=limits),
            semantic=semantic,
            collect=collect,
        )
        self.log: EventLog = self._parts.log
        self.admin = self._parts.admin
        self.feed = self._parts.feed
        self._server_tools = ServerTools(
            places=self._parts.inventory.places,
            loader=self._parts.loader,
            asker=ScopedCallback(ask_tool),
            allowed=self._safe_tools,
            context=self._parts.context,
        )
        self.scripts = Scripts(self._parts, runner, limits)
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
        ask_tool: ToolCallback | None = None,
        safe_tools: Collection[str] = (),
        style: str | Style = "spec",
        limits: Limits = DEFAULT_LIMITS,
        runner: ScriptRunner | None = None,
        unsafe_trust_project: bool = False,
    ) -> Self:
        """A host as described by the user's `skillwire.toml` and that of a directory, by default this one.

        With `file`, as that file alone describes it. A mistake in them is a `FormatError` that names every
        one. `default_directories` adds those where agents keep skills, unless a file says not to.

        A directory may come from somebody else. Servers of its file are not connected until the user trusts
        that file with `skillwire trust`; until then each is a failure. With `unsafe_trust_project`
        every command that it names is started.

        While the host is open, an edited file takes effect within two seconds. An edited file of a directory
        is not trusted any more: its servers are closed until the user trusts it again.
        """
        from skillwire.host.config.config import load_publishers
        from skillwire.host.config.file import watch_config

        watched = watch_config(
            directory, file=file, profile=profile, unsafe_trust_project=unsafe_trust_project
        )
        config = watched.loaded
        host = cls(
            servers=config.servers,
            directories=config.local_directories,
            default_directories=default_directories and config.default_directories,
            disabled=config.disabled,
            untrusted=config.skipped,
            remarks=config.problems,
            publishers=load_publishers(config.publishers),
            required_sources=config.required_sources,
            usage_file=config.usage_file,
            semantic=config.semantic,
            ask=ask,
            ask_read=ask_read,
            ask_tool=ask_tool,
            safe_tools=safe_tools,
            style=style,
            limits=limits,
            runner=runner,
        )
        return follow_config(host, replace(watched, default_directories=default_directories))

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
                await self._parts.usage.flush()
                with suppress(SkillwireError):  # A full disk must not keep a host open.
                    await self._parts.approvals.flush()
            finally:
                await stack.aclose()

    # What there is

    def commands(self) -> tuple[SlashCommand, ...]:
        """The skills that a user may invoke, for hosts that offer them as slash commands."""
        return slash_commands(self._parts, self.session)

    def skills(self, *, disabled: bool = False, for_models: bool = False) -> tuple[HostSkill, ...]:
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
    ) -> tuple[SearchMatch, ...]:
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
        """The text to add to a user's message that names skills as `$name` or `$server/name`.

        A local skill is loaded and its text is there. For a server's skill it is the call that loads it.
        """
        return await self._parts.actions.mentions(message)

    # Loading

    async def find(
        self, name: str, *, server: str | None = None, values: Mapping[str, str] | None = None
    ) -> HostSkill:
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
    def asking(
        self,
        ask: ApprovalCallback,
        ask_read: ReadCallback | None = None,
        ask_tool: ToolCallback | None = None,
    ) -> Generator[None]:
        """Inside this block, calls of this task use these callbacks instead of the host's.

        For a host that several users share, and for answers that come later: see the adapters.
        """
        with (
            self._parts.asker.replaced(ask),
            self._parts.read_asker.replaced(ask_read or _nobody_asked),
            self._server_tools.asker.replaced(ask_tool or _nobody_asked),
        ):
            yield

    # What a model may do

    def tools(self, *, search: bool | None = None) -> tuple[Tool, ...]:
        """The tools for a model, with JSON schemas and handlers, for any framework.

        `search_skills` is among them when the last catalog, or one of the default size if none was requested,
        has no room for every description; with `search`, always or never. `run_skill_script` is, if the host
        has a runner.
        """
        catalog = self._parts.catalog.current()
        tools = make_tools(
            self._parts.actions, self.style.tools, catalog=catalog, searching=search, limits=self._limits
        )
        return (
            tools if self.scripts.runner is None else (*tools, script_tool(self.scripts, self._parts.context))
        )

    async def server_tools(self, server: str | None = None) -> tuple[ServerTool, ...]:
        """The tools of the connected servers, or of one, over the connection that their skills come from.

        Names and descriptions are a server's text. A server that fails is left out and is a failure.
        """
        return await self._server_tools.list(server)

    async def call_tool(self, server: str, name: str, arguments: Mapping[str, object]) -> ToolResult:
        """Call a tool of a server; what it answers is in a fence, as untrusted text.

        `ask_tool` is asked first, unless `SERVER/NAME` is among `safe_tools`.
        """
        return await self._server_tools.call(server, name, arguments)

    def may_execute(self, tool: str, arguments: Mapping[str, object] | None = None) -> Execution:
        """Whether a tool of yours may be called while the loaded skills are in the context (SEC-2).

        A tool that is not among `safe_tools` counts as code execution, whatever its arguments say. A script
        in the sandbox is not your shell: `run_skill_script` asks for its own grants.
        """
        if tool == RUN_TOOL and self.scripts.runner is not None:
            return Execution()
        return may_execute(tool, self._parts.loader.held, safe_tools=self._safe_tools)

    def granted_tools(self) -> frozenset[str]:
        """The `allowed-tools` patterns that the user granted for all that is loaded (SEC-4)."""
        honored = "allowed-tools" in self.style.honored
        return granted_tools(self._parts.loader.held) if honored else frozenset()

    def refuse_path(self, path: str) -> str:
        """Why a file tool of yours must not take this path; empty when it may. A URI is not a file."""
        return file_refusal(path, self.style.resource_tool)


def follow_config(host: Host, config: ConfigWatch | None) -> Host:
    """The host, which becomes while it is open what an edited configuration says: what it was made of."""
    host._parts.config = config  # pyright: ignore[reportPrivateUsage] - not for the users of a host
    return host


async def _nobody_asked(request: object) -> bool:
    return False


_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


@contextmanager
def open_in_thread(host: SkillHost) -> Generator[SkillHost]:
    """Open a host on its own event loop, in its own thread, until the block ends.

    Call its synchronous methods, such as `catalog` and `tools`, directly, and its asynchronous ones with
    `run_sync`. With such a host, the agents of all adapters can run synchronously.
    """
    with from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(host):
        host.in_thread = True
        yield host


def run_sync(host: SkillHost, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    """The result of an asynchronous function, run on the event loop of a host that has its own thread."""
    if not host.in_thread:
        # A call that blocks the event loop of the host would never return.
        raise RuntimeError("to use a host synchronously, open it with open_in_thread(SkillHost(...))")
    return from_thread.run(function, *args, token=host.loop)


async def on_loop(
    host: SkillHost, function: Callable[[*_Args], Coroutine[Any, Any, _T]], *args: *_Args
) -> _T:
    """The result of an asynchronous function, run on the event loop of the host, from this or any other."""
    if host.loop is None or host.loop == current_token():
        return await function(*args)
    call = partial(from_thread.run, function, *args, token=host.loop)
    return await to_thread.run_sync(call)
