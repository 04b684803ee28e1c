"""SkillHost: the skills of MCP servers beside local ones, verified and approved before a model sees them.

async with SkillHost(servers={"shop": "https://shop.example/mcp"}, ask=ask_the_user) as host:
    system_prompt += host.catalog()
    tools = host.tools()
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, TypeVarTuple, Unpack, overload

import anyio
from anyio import from_thread, to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import EventLoopToken, current_token

from skillwire.catalog import ActiveSkill, HostSkill, Replay, ReplayText, SkillTable, fit_replay
from skillwire.consent import ApprovalCallback, ConsentStore, ScopedCallback
from skillwire.errors import SkillwireError
from skillwire.host.decide import Decider
from skillwire.host.directories import state_paths
from skillwire.host.events import Event, EventKind, EventLog, EventRecorder
from skillwire.host.files import SkillReader
from skillwire.host.following import Following
from skillwire.host.held import HeldSkills
from skillwire.host.live import LiveState
from skillwire.host.load import Loader
from skillwire.host.model import (
    CatalogCache,
    ModelActions,
    OfferedSkills,
    ResourceReader,
    Tool,
    ToolResult,
    make_tools,
)
from skillwire.host.places import Places
from skillwire.host.questions import ReadCallback, ToolCallback
from skillwire.host.registration import Registration
from skillwire.host.resolve import Resolver
from skillwire.host.rules import Rules
from skillwire.host.scanners import Scans
from skillwire.host.scripts import RUN_TOOL, Scripts, script_tool
from skillwire.host.search import SearchMatch, SkillSearch
from skillwire.host.server_tools import ServerTool, ServerTools
from skillwire.host.settings import HostKeywords, HostSettings
from skillwire.host.signatures import Signatures
from skillwire.host.storage import SkillCache, UsageRecorder
from skillwire.host.styles import find_style
from skillwire.host.styles.base import RenderContext, SkillFields, file_refusal
from skillwire.text import clean_line, safe_line
from skillwire.trust import (
    DirectoryView,
    Execution,
    Grants,
    Origin,
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


class SkillHost:
    """Finds, verifies and loads skills for an agent. Use it as an asynchronous context manager.

    The rest is on the objects that do it: `log` has events, failures and what was left out; `places` the
    servers and folders; `decide` what a person is shown and decides about a skill; `consent` what was
    decided; `files` the files of skills, to look at; `signatures` who signed them; `cache` what is cached;
    `scripts` runs scripts.
    """

    @overload
    def __init__(self, settings: HostSettings, /) -> None: ...
    @overload
    def __init__(self, /, **given: Unpack[HostKeywords]) -> None: ...
    def __init__(self, settings: HostSettings | None = None, /, **given: Unpack[HostKeywords]) -> None:
        """A host of these settings, or of keywords: each is a field of `HostSettings`.

        Nothing is opened yet: no file, no connection. A mistake in the settings is a `FormatError`.
        """
        self.settings = settings = settings or HostSettings(**given)
        self.style = style = find_style(settings.style)
        self._limits = limits = style.limits(settings.limits)
        self.session = secrets.token_hex(8)
        """Tells this host from others of the same process or user interface."""
        origins = settings.collect(style, limits)
        ranks = dict(origins.ranks)
        naming = style.naming(ranks)
        # Where things are, and what is kept.
        paths = state_paths()
        log = self._log = EventRecorder()
        self.log: EventLog = log
        self.usage = UsageRecorder(settings.usage_file, on_use=settings.on_use, limits=limits)
        self.cache = SkillCache(settings.cache_directory or paths.cache, limits=limits)
        self.consent = ConsentStore(settings.approvals_file or paths.approvals, on_problem=log.remark)
        self.table = SkillTable(naming)
        self.rules = Rules(origins, disabled=settings.disabled, style=style, limits=limits)
        self.places = Places(
            settings,
            rules=self.rules,
            registration=Registration(table=self.table, rules=self.rules, log=log, naming=naming),
            table=self.table,
            cache=self.cache,
            consent=self.consent,
            log=log,
            limits=limits,
        )
        self.places.bind(origins)
        self.following = Following(places=self.places, table=self.table, consent=self.consent, limits=limits)
        self.held = HeldSkills(self.following)
        self.resolver = Resolver(table=self.table, places=self.places, held=self.held, log=log)
        # What is decided and loaded.
        self.files = SkillReader(
            places=self.places,
            resolver=self.resolver,
            cache=self.cache,
            consent=self.consent,
            style=style,
            limits=limits,
        )
        self.signatures = Signatures(
            settings.publishers, rules=self.rules, table=self.table, files=self.files, log=log
        )
        self.decide = Decider(
            rules=self.rules,
            table=self.table,
            consent=self.consent,
            signatures=self.signatures,
            scans=settings.scans or Scans(),
            files=self.files,
            held=self.held,
            resolver=self.resolver,
            asker=ScopedCallback(settings.ask),
            log=log,
            limits=limits,
        )
        self.table.watch(self.decide.note_changes)
        # Fences that cannot be guessed, and that stay the same while the host is open.
        context = self._context = RenderContext(
            limits=limits,
            salt=secrets.token_bytes(16),
            local_path=self.places.local_path,
            listed_files=self.places.listed_files,
        )
        self._loader = Loader(
            places=self.places,
            table=self.table,
            files=self.files,
            decide=self.decide,
            held=self.held,
            usage=self.usage,
            style=style,
            context=context,
            limits=limits,
        )
        # What a model sees and calls.
        self._search = SkillSearch(
            table=self.table,
            places=self.places,
            cache=self.cache,
            limits=limits,
            semantic=settings.semantic,
        )
        self._offered = OfferedSkills(self.table, self.decide)
        self._read_asker = ScopedCallback(settings.ask_read)
        self._actions = ModelActions(
            resolver=self.resolver,
            loader=self._loader,
            reader=ResourceReader(
                places=self.places,
                loader=self._loader,
                table=self.table,
                asker=self._read_asker,
                style=style,
                context=context,
            ),
            searcher=self._search,
            offered=self._offered,
            usage=self.usage,
            style=style,
            context=context,
        )
        self._catalog = CatalogCache(self._offered, style, context, self.places, self.usage)
        self._safe_tools = frozenset(settings.safe_tools)
        self._server_tools = ServerTools(
            places=self.places,
            held=self.held,
            asker=ScopedCallback(settings.ask_tool),
            allowed=self._safe_tools,
            context=context,
        )
        self.scripts = Scripts(settings.runner, loader=self._loader, resolver=self.resolver, log=log)
        self._live = LiveState(
            settings,
            places=self.places,
            following=self.following,
            decide=self.decide,
            consent=self.consent,
            log=log,
            limits=limits,
            ranks=ranks,
        )
        self._remarks = (*settings.remarks, *origins.remarks)
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
        unsafe_trust_project: bool = False,
        **given: Unpack[HostKeywords],
    ) -> Self:
        """A host as described by the user's `skillwire.toml` and that of a directory, by default this one.

        With `file`, as that file alone describes it. A mistake in them is a `FormatError` that names every
        one. `given` are settings that no file has, or that count more than those of the files.
        `default_directories` adds those where agents keep skills, unless a file says not to.

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
        with_defaults = given.pop("default_directories", False)
        of_files = HostSettings(
            servers=config.servers,
            directories=config.local_directories,
            default_directories=with_defaults and config.default_directories,
            disabled=config.disabled,
            untrusted=config.skipped,
            remarks=config.problems,
            publishers=load_publishers(config.publishers),
            required_sources=config.required_sources,
            usage_file=config.usage_file,
            semantic=config.semantic,
            config=replace(watched, default_directories=with_defaults),
        )
        return cls(replace(of_files, **given))

    async def __aenter__(self) -> Self:
        if self._opened:
            raise RuntimeError("a SkillHost is opened once: make another one")
        self._opened = True
        self.loop = current_token()
        failure: SkillwireError | None = None
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            stack.push_async_callback(self.places.aclose)
            try:
                await self._open(tasks)
                self._stack = stack.pop_all()
            except SkillwireError as error:
                failure = error  # Raised below: the task group would wrap it.
        if failure is not None:
            raise failure
        return self

    async def _open(self, tasks: TaskGroup) -> None:
        """Read the policy and the approvals, list every origin, start what runs while the host is open."""
        await self._live.reload_policy()
        try:
            await self.consent.open()
        except SkillwireError as error:
            # Then nothing is approved; local skills, and what needs no approval, still work.
            self._log.record(Event(kind=EventKind.FAILURE, message=str(error)))
        for remark in filter(None, (self.consent.remark, *self._remarks)):
            self._log.remark(remark)
        tasks.start_soon(self.consent.run)
        tasks.start_soon(self.usage.run)
        for server in self.settings.untrusted:
            origin = Origin.mcp(server.label)
            message = f"{origin} {server.reason}"
            self._log.record(Event(kind=EventKind.FAILURE, message=message, origin=origin))
        await self.places.open(tasks)
        if self.settings.watch:
            tasks.start_soon(self._live.watch_state)
            tasks.start_soon(self._live.watch_policy)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End every connection. What is approved and cached stays."""
        self._log.close()
        if self._stack is not None:
            stack, self._stack = self._stack, None
            try:
                await self.usage.flush()
                with suppress(SkillwireError):  # A full disk must not keep a host open.
                    await self.consent.flush()
            finally:
                await stack.aclose()

    # What there is

    def commands(self) -> tuple[SlashCommand, ...]:
        """The skills that a user may invoke, for hosts that offer them as slash commands."""
        most = self._limits.description_chars
        return tuple(
            SlashCommand(
                name=f"/{skill.handle}",
                description=clean_line(skill.entry.description, limit=most).text,
                argument_hint=self.style.fields(skill.entry.frontmatter).argument_hint,
                origin=skill.origin,
                handle=skill.handle,
                session=self.session,
                is_loaded=self.held.get(skill.key) is not None,
            )
            for skill in self.resolver.invocable()
        )

    def skills(self, *, disabled: bool = False, for_models: bool = False) -> tuple[HostSkill, ...]:
        """Every skill that is known, local ones first, each under a handle of its own.

        With `disabled`, disabled ones too. With `for_models`, only those that the catalog and the search tool
        offer: not what the user declined, nor what only users may invoke.
        """
        if for_models:
            return self._offered.skills()
        return self.table.skills(disabled=disabled)

    def catalog(
        self, context: object = None, /, *, budget: int | None = None, working: Collection[str] = ()
    ) -> str:
        """The skills as text for a system prompt, within a number of characters.

        It is cheap to call before every turn, and so it is never out of date. `working` are paths that are
        worked on, for styles in which they activate skills. `context` is ignored, so that frameworks that
        pass one can be given the method itself: `Agent(instructions=host.catalog)`.
        """
        return self._catalog.get(budget, working).text

    async def search(
        self, query: str, *, server: str | None = None, limit: int | None = None
    ) -> tuple[SearchMatch, ...]:
        """The skills that fit a query best, of one server or directory if its label is given.

        Disabled skills are not found. No server is contacted.
        """
        if server is not None:
            self.places.require_label(server)
        return await self._search.search(query, label=server, limit=limit)

    async def refresh(self, label: str | None = None, *, expired_only: bool = False) -> None:
        """List every server and directory again, or one by its label.

        With `expired_only`, a server is asked only when its last listing has expired, so it can be called
        often.
        """
        await self.places.refresh(label, expired_only=expired_only)

    async def mentions(self, message: str) -> str:
        """The text to add to a user's message that names skills as `$name` or `$server/name`.

        A local skill is loaded and its text is there. For a server's skill it is the call that loads it.
        """
        return await self._actions.mentions(message)

    # Loading

    async def find(
        self, name: str, *, server: str | None = None, values: Mapping[str, str] | None = None
    ) -> HostSkill:
        """The skill that a handle or a URI means, also one that its server does not list (LST-3).

        For a template, `values` has a value for each of its arguments.
        """
        return await self.resolver.find(name, server, values)

    async def load(
        self, name: str, *, server: str | None = None, values: Mapping[str, str] | None = None
    ) -> LoadedSkill:
        """Load a skill by handle or URI: approved, verified, fenced, and held until it is released.

        A template is loaded with `values`: `host.load("docs/{product}", values={"product": "widget"})`.
        """
        skill = await self.find(name, server=server, values=values)
        verified = await self._loader.load(skill)
        return LoadedSkill(
            self.table.get(skill.key) or skill,
            self.style.skill_text(verified, skill.handle, self._context),
            self.held.require(skill.key).skill.grants,
            replace(self.style.fields(verified.frontmatter), name=skill.handle),
        )

    async def read(self, name: str, path: str) -> str:
        """A file of a loaded skill, fenced for a model. The path starts at the skill's directory (FMT-10)."""
        return await self._actions.read(name, path)

    async def read_bytes(self, name: str, path: str) -> VerifiedFile:
        """A file of a loaded skill as verified bytes: for programs, not for prompts."""
        return await self._loader.read(await self.resolver.key(name), path)

    async def list_directory(self, name: str, path: str = "") -> DirectoryView:
        """A directory of a loaded skill."""
        return await self._loader.list_directory(await self.resolver.key(name), path)

    async def read_resource(self, server: str, uri: str) -> str:
        """A resource of a server, bound as SEC-3 says; a skill's URI loads that skill (VER-7)."""
        return await self._actions.read_resource(server, uri)

    def active(self) -> tuple[ActiveSkill, ...]:
        """The skills that are loaded now, most recently loaded first, each with its entry and its grants."""
        found: list[ActiveSkill] = []
        for held in reversed(self.held.every()):
            entry, origin = held.skill.entry, held.skill.origin
            digest = shown_digest(entry)
            line = safe_line(f"{held.handle} from {origin}, {digest or 'dynamic'}")
            found.append(ActiveSkill(held.handle, origin, entry, held.skill.grants, digest, line))
        return tuple(found)

    async def after_compaction(self, budget: int) -> Replay:
        """The text of what is loaded, to restore after a conversation was shortened, in `budget` characters.

        It is verified and fenced, the skill that was loaded last comes first, and none comes twice. A skill
        that changed, was revoked or is gone is named and not repeated; so is one that has no room. Put it
        back as a tool's result or a user's message (SEC-12). What is not in it is held until you release it.
        """
        candidates: list[ReplayText] = []
        for held in reversed(self.held.every()):
            found = await self._loader.replayable(held.key)
            if isinstance(found, str):
                candidates.append(ReplayText(held.handle, "", None, problem=found))
            else:
                text = self.style.skill_text(found, held.handle, self._context)
                candidates.append(ReplayText(held.handle, text, shown_digest(held.skill.entry)))
        return fit_replay(candidates, budget)

    def release(self, name: str) -> bool:
        """Tell the host that a skill's text has left the context; false when it was not loaded."""
        return self.held.release(self.held.named(name) or self.table.find(name).key)

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
            self.decide.asker.replaced(ask),
            self._read_asker.replaced(ask_read or _nobody_asked),
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
        catalog = self._catalog.current()
        tools = make_tools(
            self._actions, self.style.tools, catalog=catalog, searching=search, limits=self._limits
        )
        return tools if self.scripts.runner is None else (*tools, script_tool(self.scripts, self._context))

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
        return may_execute(tool, self.held.skills(), safe_tools=self._safe_tools)

    def granted_tools(self) -> frozenset[str]:
        """The `allowed-tools` patterns that the user granted for all that is loaded (SEC-4)."""
        honored = "allowed-tools" in self.style.honored
        return granted_tools(self.held.skills()) if honored else frozenset()

    def refuse_path(self, path: str) -> str:
        """Why a file tool of yours must not take this path; empty when it may. A URI is not a file."""
        return file_refusal(path, self.style.resource_tool)


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
