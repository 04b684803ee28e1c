"""SkillHost: the skills of MCP servers beside local ones, verified and approved before a model sees them.

async with SkillHost(servers={"shop": "https://shop.example/mcp"}, ask=ask_the_user) as host:
    system_prompt += host.catalog()
    tools = host.tools()
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.errors import SkillNotFound, SkillwireError
from skillwire.host.approvals.approver import ApprovalCallback, Approver
from skillwire.host.approvals.status import ApprovalStatus
from skillwire.host.approvals.store import ApprovalStore
from skillwire.host.cache import SkillCache
from skillwire.host.catalog import Catalog
from skillwire.host.config.file import load_config
from skillwire.host.config.server import ServerConfig, parse_server
from skillwire.host.config.trust import UntrustedServer
from skillwire.host.directories import (
    LocalDirectory,
    command_directories,
    default_directories,
    label_directories,
    state_places,
)
from skillwire.host.events import Event, EventKind, EventLog
from skillwire.host.intake import Intake
from skillwire.host.inventory import Discovery, ServerState
from skillwire.host.loader import Loader
from skillwire.host.reader import ReadCallback, ResourceReader
from skillwire.host.resolver import Resolver
from skillwire.host.search.engine import FoundSkill, SkillSearch
from skillwire.host.styles import find_style
from skillwire.host.styles.base import RenderContext, Style
from skillwire.host.styles.fields import SkillFields
from skillwire.host.styles.ranks import Layer, Rank
from skillwire.host.styles.schemes import file_refusal
from skillwire.host.styles.switches import Switches
from skillwire.host.tools import Tool, make_tools, render_directory
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.digests import SetDigest, parse_set_digest
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SKILL_FILE, parse_uri
from skillwire.trust.approval import NO_GRANTS, Approval, Grants
from skillwire.trust.directory import DirectoryView
from skillwire.trust.guards import Execution, HeldSkill, granted_tools, may_execute
from skillwire.trust.origin import Origin
from skillwire.trust.verify import VerifiedFile


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill that is held. `text` is for the model, as a tool's result (SEC-12)."""

    skill: RegisteredSkill
    text: str
    grants: Grants
    fields: SkillFields
    """What its frontmatter asks for, as far as the style honours it. Requests, never grants (SEC-4)."""


class SkillHost:
    """Takes in skills for an agent. Use it as an asynchronous context manager."""

    def __init__(
        self,
        *,
        servers: Mapping[str, str | ServerConfig | object] | None = None,
        directories: Iterable[str | Path | LocalDirectory] = (),
        usual: bool = True,
        style: str | Style = "spec",
        ask: ApprovalCallback | None = None,
        ask_read: ReadCallback | None = None,
        safe_tools: Collection[str] = (),
        disabled: Iterable[str] = (),
        untrusted: Iterable[UntrustedServer] = (),
        limits: Limits = DEFAULT_LIMITS,
        cache_directory: Path | None = None,
        approvals_file: Path | None = None,
    ) -> None:
        """Nothing is opened yet.

        `usual` adds the directories where agents keep skills: `.agents/skills` and `.claude/skills` of the
        working directory and of the user. `ask` is called before a skill of a server is loaded, `ask_read`
        before one server's skill reads from another; without them such calls raise `ApprovalRequired`.
        `safe_tools` are tools of yours that run no code. `disabled` are handles or URIs to leave out. `style`
        makes the host treat skills as another one does: `wayland`, `gemini`, `codex` or `goose`. `untrusted`
        are servers of a configuration that are not connected: each is told of as a failure.
        """
        places = state_places()
        found = default_directories(Path.cwd(), Path.home()) if usual else []
        self.style = find_style(style)
        self._limits = limits = self.style.limits(limits)
        folders = command_directories(Path.cwd(), Path.home(), self.style.command_folders) if usual else []
        local = label_directories(found, [*directories, *folders], taken=servers or ())
        self._safe_tools = frozenset(safe_tools)
        self._untrusted = tuple(untrusted)
        self.cache = SkillCache(cache_directory or places.cache, limits=limits)
        self.cache.refuse_inside(directory.path for directory in local)
        self._log = EventLog()
        self.approvals = ApprovalStore(approvals_file or places.approvals, on_problem=self._remark)
        configs = {label: parse_server(given) for label, given in (servers or {}).items()}
        wanted = {
            label: replace(config, call_seconds=self.style.seconds(config.call_seconds))
            for label, config in configs.items()
            if config.skills
        }
        ranks = {directory.origin: Rank(directory.layer, number) for number, directory in enumerate(local)}
        ranks |= {Origin.mcp(label): Rank(Layer.MCP, number) for number, label in enumerate(wanted)}
        naming = self.style.naming(ranks)
        self._registry = Registry(naming)
        origins = {Origin.mcp(label): config for label, config in wanted.items()}
        intake = Intake(
            servers=origins,
            registry=self._registry,
            log=self._log,
            disabled=frozenset(disabled),
            style=self.style,
            naming=naming,
            limits=limits,
            on_changed=self._changed,
        )
        self._discovery = Discovery(
            servers=origins,
            directories=local,
            registry=self._registry,
            intake=intake,
            approvals=self.approvals,
            style=self.style,
            limits=limits,
        )
        self._consent = Approver(
            registry=self._registry,
            facts=lambda skill: intake.candidate(skill.origin, skill.entry, disabled=not skill.enabled),
            approvals=self.approvals,
            cache=self.cache,
            ask=ask,
            tell=self._log.tell,
            limits=limits,
        )
        self._loader = Loader(
            registry=self._registry,
            source_of=self._discovery.source,
            take_fresh=intake.take_one,
            consent=self._consent,
            cache=self.cache,
            accept=lambda verified: self.style.check(verified, limits),
            on_held=self._follow_held,
            limits=limits,
        )
        self._finder = Resolver(self._registry, self._discovery, self._loader)
        # Fences that nobody can foretell, and that stay the same while the host lives.
        self._salt = secrets.token_bytes(16)
        self._showing = RenderContext(limits=limits, salt=self._salt, path_of=self._discovery.path_of)
        self._reader = ResourceReader(
            self._discovery, self._loader, self._registry, ask_read, style=self.style, showing=self._showing
        )
        self._search = SkillSearch(
            registry=self._registry, source_of=self._discovery.source, cache=self.cache, limits=limits
        )
        self._catalog = Catalog(self._registry, self.style, self._showing)
        self._stack: AsyncExitStack | None = None
        self._opened = False

    @classmethod
    def from_config(
        cls,
        directory: Path | None = None,
        *,
        file: Path | None = None,
        profile: str | None = None,
        ask: ApprovalCallback | None = None,
        ask_read: ReadCallback | None = None,
        safe_tools: Collection[str] = (),
        style: str | Style = "spec",
        limits: Limits = DEFAULT_LIMITS,
        unsafe_trust_project: bool = False,
    ) -> Self:
        """A host as the user's `skillwire.toml` and that of a directory, the working one by default, say.

        With `file`, as that file alone says. A mistake in them is a `FormatError` that names every one.

        A directory may come from somebody else. Servers of its file are not connected until the user trusts
        that file with `skillwire servers trust`; until then each is told of as a failure. With
        `unsafe_trust_project` every command that it names is started.
        """
        config = load_config(directory, file=file, profile=profile, unsafe_trust_project=unsafe_trust_project)
        return cls(
            servers=config.servers,
            directories=config.directories,
            usual=config.usual,
            disabled=config.disabled,
            untrusted=config.skipped,
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
        failure: SkillwireError | None = None
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            try:
                await self.approvals.open()
            except SkillwireError as error:
                # Nothing is approved then; local skills, and what needs no approval, work all the same.
                self._log.tell(Event(kind=EventKind.FAILURE, message=str(error)))
            if self.approvals.remark:
                self._remark(self.approvals.remark)
            tasks.start_soon(self.approvals.run)
            for server in self._untrusted:
                origin = Origin.mcp(server.label)
                message = f"{origin} {server.reason}"
                self._log.tell(Event(kind=EventKind.FAILURE, message=message, origin=server.label))
            try:
                await self._discovery.open(tasks)
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
        self._log.close()
        if self._stack is not None:
            stack, self._stack = self._stack, None
            with suppress(SkillwireError):  # A disk that takes nothing must not keep a host open.
                await self.approvals.flush()
            await stack.aclose()

    # What there is

    def skills(self, *, disabled: bool = False) -> tuple[RegisteredSkill, ...]:
        """Every skill that is known, local ones first, each under a handle of its own."""
        return self._registry.skills(disabled=disabled)

    def catalog(self, *, budget: int | None = None, working: Collection[str] = ()) -> str:
        """The skills as text for a system prompt, within a number of characters.

        `working` are the paths that are worked on, for styles in which they wake skills.
        """
        return self._catalog.ask(budget, working).text

    async def search(
        self, query: str, *, server: str | None = None, limit: int | None = None
    ) -> tuple[FoundSkill, ...]:
        """The skills that words fit best, of one server or directory if its label is given.

        What is switched off is not found. Nothing is asked of a server.
        """
        if server is not None:
            self._discovery.require_label(server)
        return await self._search.search(query, label=server, limit=limit)

    def servers(self) -> tuple[ServerState, ...]:
        """How every server stands."""
        return self._discovery.states()

    def held(self) -> tuple[HeldSkill, ...]:
        """The skills that are loaded now."""
        return self._loader.held

    async def events(self) -> AsyncGenerator[Event]:
        """What happened since the host was opened, then what happens, until it is closed."""
        async for event in self._log.listen():
            yield event

    def events_so_far(self) -> tuple[Event, ...]:
        """What happened since the host was opened."""
        return self._log.so_far()

    async def refresh(self, server: str | None = None, *, expired_only: bool = False) -> None:
        """Ask the servers, or one, for their listings again; without a name, walk the directories too.

        With `expired_only` a server is asked only when the time is over that it gave for its last listing:
        that may be called as often as you like.
        """
        await self._discovery.refresh(server, expired_only=expired_only)

    def mentions(self, message: str) -> str:
        """What to add to a user's message that names skills, in styles that have a sign for that."""
        return self.style.mentions(message, self.skills(), self._showing)

    def server_view(self, label: str) -> str:
        """One server with its skills, for a person."""
        return self.style.server_view(self._discovery.server(label), self.skills(), self._limits)

    def refuse_path(self, path: str) -> str:
        """Why a file tool of yours must not take this path; empty when it may. A URI is no file."""
        return file_refusal(path, self.style.resource_tool)

    async def set_switches(self, gates: Switches) -> None:
        """Close and open gates. The skills behind a closed one are gone at once.

        One that is in use stays held, since its text is still in the context; no more is read of it (SEC-2).
        """
        for origin in self._discovery.set_switches(gates):
            await self._discovery.refresh(origin.label)

    # What tools ask

    def owner(self, uri: str) -> str:
        """The label of the one server that serves a URI; `AmbiguousName` when there are two."""
        return self._finder.owner(parse_uri(uri))

    def knows(self, name: str) -> bool:
        """Whether a skill is called so."""
        return self._finder.knows(name)

    def is_loaded(self, name: str) -> bool:
        """Whether the skill of this name is held."""
        return self._loader.held_as(name) is not None

    # Loading

    async def find(self, name: str, *, server: str | None = None) -> RegisteredSkill:
        """The skill that a handle or a URI means, also one that its server does not list (LST-3)."""
        return await self._finder.find(name, server)

    async def load(self, name: str, *, server: str | None = None) -> LoadedSkill:
        """Load a skill by handle or URI: approved, verified, fenced, and held until it is released."""
        skill = await self.find(name, server=server)
        verified = await self._loader.load(skill)
        text = self.style.skill_text(verified, skill.handle, self._showing)
        return LoadedSkill(
            self._registry.get(skill.key) or skill,
            text,
            self._loader.grants(skill.key),
            self.style.fields(verified.frontmatter),
        )

    async def load_for_model(self, name: str, server: str | None = None) -> str:
        """What `load_skill` gives. A model may name an unlisted skill, but only where it may read (SEC-3)."""
        if "://" in name:
            uri = parse_uri(name)
            known = self._finder.registered_on(uri, server)
            server = known or server or self._finder.likely_server(uri).label
            if known is None:
                await self._reader.permit_look_up(server, uri)
        return (await self.load(name, server=server)).text

    async def read(self, name: str, path: str) -> str:
        """A file of a loaded skill, fenced for a model. The path starts at the skill's directory (FMT-10)."""
        key = await self._finder.key(name)
        file = await self._loader.read(key, path)
        return self.style.file_text(file, self._finder.handle(key, name), self._showing)

    async def read_bytes(self, name: str, path: str) -> VerifiedFile:
        """A file of a loaded skill as verified bytes: for programs, not for prompts."""
        return await self._loader.read(await self._finder.key(name), path)

    async def list_directory(self, name: str, path: str = "") -> DirectoryView:
        """A directory of a loaded skill."""
        return await self._loader.list_directory(await self._finder.key(name), path)

    async def list_files(self, name: str, path: str = "") -> str:
        """A directory of a loaded skill, fenced for a model: file names are a server's words too (SEC-1)."""
        key = await self._finder.key(name)
        view = await self._loader.list_directory(key, path)
        return render_directory(
            view, self._finder.handle(key, name), key.origin, path, self._limits, self._salt
        )

    async def read_resource(self, server: str, uri: str) -> str:
        """A resource of a server, bound as SEC-3 says; a skill's URI takes the way of loading (VER-7)."""
        return await self._reader.read(server, uri)

    async def preview(self, name: str, path: str = SKILL_FILE, *, server: str | None = None) -> VerifiedFile:
        """A file for the user's eyes, before the skill is loaded. It is no load (SEC-7)."""
        return await self._loader.preview(await self.find(name, server=server), path)

    def release(self, name: str) -> bool:
        """Tell the host that a skill's text has left the context; false when it was not held."""
        held = self._loader.held_as(name)
        return self._loader.release(held or self._registry.find(name).key)

    # Deciding

    def standing(self, skill: RegisteredSkill) -> ApprovalStatus:
        """How a skill stands with the user: approved as it is, changed since, new, and so on."""
        return self._consent.standing(skill)

    async def approve(
        self,
        skill: RegisteredSkill | str,
        *,
        digest: str | None = None,
        grants: Grants = NO_GRANTS,
        server: str | None = None,
        how: str = "",
    ) -> Approval:
        """Approve a skill of a server with exactly the files that the user was shown (SEC-6).

        Give the skill as `find` returned it when it was shown, or its name and the digest of its files. If
        the server has other files by now, this is an `ApprovalRequired` that names them, and nothing is
        approved. The approved files are fetched, verified and cached, so that a later change can be compared
        with them. `how` is recorded with the approval, beside the time and the user.
        """
        if isinstance(skill, str):
            if digest is None:
                raise ValueError("say what was shown to the user: give its digest, or the skill from find()")
            shown: SkillEntry | SetDigest = parse_set_digest(digest)
            current = await self.find(skill, server=server)
        else:
            shown = parse_set_digest(digest) if digest is not None else skill.entry
            current = self._registry.get(skill.key) or skill
        entry = self._consent.check_shown(current, shown)
        await self._loader.keep(current, entry)
        return await self._consent.approve(current, entry, grants, how=how or "approved by the application")

    async def approved_text(self, skill: RegisteredSkill, uri: str) -> bytes | None:
        """A file of a skill as it was when the user approved it last; `None` when that is not cached."""
        return await self._consent.approved_bytes(skill, parse_uri(uri))

    async def revoke(self, name: str, *, server: str | None = None) -> bool:
        """Take an approval back and let go of the skill; false when there was none."""
        key = (await self.find(name, server=server)).key
        self._loader.release(key)
        return await self._consent.revoke(key)

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Switch one skill, by handle or URI, off or on. One that is switched off is let go of."""
        found = [skill for skill in self.skills(disabled=True) if name in (skill.handle, skill.uri)]
        if not found:
            raise SkillNotFound(f"no skill is called {shown(name)}: list the skills to see their names")
        for skill in found:
            self._registry.set_enabled(skill.key, enabled)
            if not enabled:
                self._loader.release(skill.key)

    async def forget_server(self, label: str) -> tuple[int, int]:
        """Remove what is cached and approved of a server; how many files and approvals that were."""
        origin = Origin.mcp(label)
        self._loader.release_server(origin)
        return await self.cache.forget_server(origin), await self._consent.forget_server(origin)

    def may_execute(self, tool: str, arguments: Mapping[str, object] | None = None) -> Execution:
        """Whether a tool of yours may be called while the held skills are in the context (SEC-2).

        A tool that is not among `safe_tools` counts as code execution, whatever its arguments say.
        """
        return may_execute(tool, self._loader.held, safe_tools=self._safe_tools)

    def granted_tools(self) -> frozenset[str]:
        """The `allowed-tools` patterns that the user granted for all that is held (SEC-4)."""
        honoured = "allowed-tools" in self.style.honoured
        return granted_tools(self._loader.held) if honoured else frozenset()

    def tools(self) -> tuple[Tool, ...]:
        """The tools for a model, with JSON schemas and handlers, for any framework.

        `search_skills` is among them when the last catalog, or one of the usual size if none was asked for,
        has no room for every skill.
        """
        return make_tools(
            self, self.style.tools, searching=self._catalog.current().omitted > 0, limits=self._limits
        )

    def _remark(self, message: str) -> None:
        self._log.tell(Event(kind=EventKind.REMARK, message=message))

    def _follow_held(self, origin: Origin) -> None:
        """Hear of changes to what is in use, and to nothing else."""
        held = [held.entry.uri for held in self._loader.held if held.origin == origin]
        self._discovery.follow(origin, held)

    def _changed(self, skill: RegisteredSkill) -> None:
        """An entry is another one now: its approval ends, and whoever uses the skill is told."""
        self._consent.forget_changed(skill)
        held = self._loader.held_text(skill.key)
        if held is not None and held.entry != skill.entry:
            self._log.tell(
                Event(
                    kind=EventKind.OUTDATED,
                    message=f"{skill.handle} from {skill.origin} changed while it is in use; load it again",
                    origin=skill.origin.label,
                    handle=skill.handle,
                    uri=skill.uri,
                )
            )
