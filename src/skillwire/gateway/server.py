"""CallerServer: the skill server that one caller of a gateway talks to.

It is an ordinary `SkillServer` over the caller's view, so it has the extension, the legacy features and the
fast path. Three things differ: requests for a skill that waits for approval are asked about, texts for models
are in a fence that names their server, and the instructions name what there is.

`CallerScripts` runs scripts for callers (`gateway --run`), in this order:

1. The script's skill passes the steps of every read: permission, offer, approval, verification (`view`).
2. Its grants. Over stdio there is one caller, the user: what they granted with `skillwire run` holds, for
   exactly these files. Over HTTP only what the callers file grants, such as
   `run = ["docs/pdf/scripts/*.py net:api.example.org"]`. Nobody is asked here, and nothing is installed.
3. It runs in the sandbox, in a folder of its own with the files of the call.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from skillwire.errors import ApprovalRequired, SkillwireError
from skillwire.gateway.records import CLIENT, Act, Audit, CallerQuestion, Unapproved
from skillwire.gateway.upstreams import Offer
from skillwire.gateway.view import CallerSource
from skillwire.host import ScriptRequest, ScriptRunner, SkillUse, UseKind
from skillwire.host.model import error_words
from skillwire.host.scripts import (
    RUN_TOOL,
    SCRIPT_ABOUT,
    SCRIPT_SCHEMA,
    ScriptResult,
    fenced_result,
    make_plan,
    run_plan,
    script_arguments,
)
from skillwire.limits import Limits
from skillwire.sandbox import Grant, parse_grant
from skillwire.sandbox.plan import given
from skillwire.server import ServerOptions, SkillServer, default_instructions
from skillwire.server.fastpath import METHOD_DISCOVER, EntryCache, FastPath
from skillwire.server.results import SkillResults
from skillwire.server.tools import READ, ExtraTool, SkillTexts, path_name
from skillwire.skill import DYNAMIC, SkillEntry, SkillUri, path_below, skill_root, split_uri
from skillwire.telemetry import ORIGIN, SET_DIGEST, SKILLS, Value, is_active, operation
from skillwire.text import shown
from skillwire.trust import (
    Allowed,
    Origin,
    Reason,
    check_entry,
    shown_digest,
    verify_file,
)
from skillwire.trust.fence import fence
from skillwire.version import VERSION
from skillwire.wire import METHOD_GET

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult
    from mcp.server.lowlevel import Server

    from skillwire.gateway.elicitation import ApprovalElicitor
    from skillwire.server.handlers import Context, Handler


class CallerScripts:
    """The scripts that one caller may run."""

    def __init__(
        self,
        source: CallerSource,
        *,
        is_local: bool,
        limits: Limits,
        record: Callable[..., None],
        salt: bytes,
    ) -> None:
        self._source, self._is_local, self._limits = source, is_local, limits
        self._record, self._salt = record, salt
        self._runner = ScriptRunner(folder=Path("/"))

    def tool(self) -> ExtraTool:
        """The tool, as clients are told about it."""
        return ExtraTool(
            {
                "name": RUN_TOOL,
                "title": "Run a script of a skill",
                "description": SCRIPT_ABOUT,
                "inputSchema": SCRIPT_SCHEMA,
            },
            self._act,
        )

    async def _act(self, entry: SkillEntry, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        try:
            return await self._run(entry, arguments)
        except Unapproved:
            raise  # The caller is asked, if they can be.
        except SkillwireError as error:
            return error_words(error), True

    async def _run(self, entry: SkillEntry, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        path, words, files = script_arguments(arguments)
        offer = self._source.known_owner(entry.uri)
        digest = shown_digest(entry)
        if offer is None or digest is None or entry.resources is DYNAMIC:
            raise self._refused(entry, "lists no digests: a grant cannot be bound to its scripts")
        # 1. Every file, as for any read of this caller.
        checked = check_entry(entry, limits=self._limits)
        contents = [
            verify_file(checked, file.uri, (await self._source.read(file.uri)).data, offer.skill.origin)
            for file in entry.resources
        ]
        if path not in (file.path for file in contents):
            raise self._refused(entry, "has no such script")
        # 2. What was granted before.
        decide = self._source.decider(offer)
        await decide.require_script(offer.skill, path, sandboxed=True, loaded=True)
        granted = self._granted(offer, entry, path)
        if granted is None:
            raise self._refused(entry, f"may not run {path}: its user, or the operator, has not granted that")
        request = ScriptRequest(
            skill=offer.skill,
            script=path,
            digest=digest,
            grants=tuple(sorted(granted)),
            new=(),
            is_first=False,
        )
        plan = await anyio.to_thread.run_sync(
            make_plan, self._runner, request, contents, tuple(words), "", self._limits
        )
        if plan.packages and not await anyio.Path(plan.packages).exists():
            raise self._refused(entry, f"needs packages for {path}, which its user has not installed")
        # 3.
        outcome, written = await run_plan(plan, contents, files)
        result = ScriptResult(
            skill=offer.skill, script=path, outcome=outcome, grants=plan.grants, files=written
        )
        self._record("run", offer, **result.audit_fields())
        return fenced_result(result, self._limits, self._salt), bool(outcome.exit_code or outcome.ended)

    def _granted(self, offer: Offer, entry: SkillEntry, path: str) -> frozenset[Grant] | None:
        if self._is_local:
            decision = self._source.decider(offer).decision(offer.skill)
            if not isinstance(decision, Allowed):
                return None
            found = given(path, decision.grants.scripts)
            return frozenset() if found is None and decision.grants.execute_code else found
        name = f"{path_name(entry)}/{path}"
        lines = [line.split() for line in self._source.caller.run]
        fitting = [words[1:] for words in lines if words and fnmatchcase(name, words[0])]
        if not fitting:
            return None
        return frozenset(parse_grant(text, "/") for words in fitting for text in words)

    def _refused(self, entry: SkillEntry, why: str) -> ApprovalRequired:
        return ApprovalRequired(f"{entry.name} {why}", reason=Reason.DENIED, origin="", uri=entry.uri)


INSTRUCTIONS_CHARS: Final = 2_000
"""The instructions are no longer than this: many clients put them before every conversation."""
_AWAITED_CHARS: Final = 200
_GUARDED: Final = ("resources/read", "tools/call", "prompts/get")
_USES: Final[Mapping[Act, UseKind]] = {"load": "loaded", "read": "read", "refuse": "refused"}
"""What is counted as a use of a skill, if the user has that counted."""
_LISTS: Final = ("skills/list", "resources/list", "prompts/list", "tools/list")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonParts:
    """The parts that the servers of all callers share.

    `make_elicitor` is called when the SDK is imported, to ask through clients. Without `instructions`,
    a model is told what skills there are.
    """

    name: str
    instructions: str | None
    options: ServerOptions
    make_elicitor: Callable[[], ApprovalElicitor]
    entries: EntryCache
    audit: Audit | None
    runs_scripts: bool = False
    is_local: Callable[[], bool] = lambda: False
    """Whether the caller is the user at this machine, over stdio."""


class CallerServer(SkillServer):
    """Serves one caller."""

    def __init__(self, source: CallerSource, common: CommonParts, *, cache_bytes: int) -> None:
        self.source = source
        self._cache_bytes = cache_bytes
        self._common = common
        self._audit = common.audit
        super().__init__(
            source, name=common.name, instructions=common.instructions or "", options=common.options
        )

    async def _introduce(self) -> str:
        """Return what a model is told, with the names of the skills as far as they are known now."""
        if self._common.instructions is not None:
            return self._common.instructions
        entries = await self.source.introduce()
        text = gateway_instructions(default_instructions(self._options), entries, self.source.awaited())
        self.source.record_offer(text)
        return text

    def _record_get(self, uri: str) -> None:
        """Record that the caller got the entry of a skill."""
        offer = self.source.known_owner(SkillUri(uri))
        if offer is not None:
            self._record("get", offer)

    def record_read(self, offer: Offer, uri: SkillUri) -> None:
        """Record that the caller got a file: the skill itself, or another file of it."""
        is_skill = uri == offer.uri
        self._record("load" if is_skill else "read", offer, file="" if is_skill else uri)

    def _record_found(self, entries: Iterable[SkillEntry]) -> None:
        """Count the results of a search."""
        for offer in filter(None, (self.source.known_owner(entry.uri) for entry in entries)):
            offer.upstream.host.usage.use(SkillUse("found", offer.skill))

    def _record(self, act: Act, offer: Offer, **details: object) -> None:
        if (kind := _USES.get(act)) is not None:
            offer.upstream.host.usage.use(SkillUse(kind, offer.skill))
        attributes: dict[str, Value] = {
            ORIGIN: offer.skill.origin.label,
            SET_DIGEST: offer.digest or "dynamic",
        }
        with operation("gateway", f"skillwire.gateway {act}", lambda: attributes) as done:
            done.verdict = "refused" if act == "refuse" else "ok"
        if self._audit is not None:
            origin = offer.skill.origin
            self._audit.write(
                act,
                caller=self.source.caller.name,
                origin=origin.label,
                skill=offer.uri,
                set=offer.digest or "dynamic",
                **details,
            )

    def _record_decision(self, act: str, subject: CallerQuestion | Unapproved, how: str) -> None:
        self._record("approve" if act == "approve" else "refuse", subject.offer, how=how)

    def _record_list(self, method: str) -> None:
        count = len(self.source.current_entries() or ())
        with operation("gateway", "skillwire.gateway list", lambda: {SKILLS: count}):
            pass
        if self._audit is not None:
            self._audit.write("list", caller=self.source.caller.name, method=method, skills=count)

    def _make_results(self) -> SkillResults:
        results = SkillResults(self.library, self._options, FencedTexts(self.source.origin_of))
        results.on_found = self._record_found
        is_local = self._common.is_local()
        if self._common.runs_scripts and results.tools is not None and (is_local or self.source.caller.run):
            results.tools.extra = CallerScripts(
                self.source,
                is_local=is_local,
                limits=self._options.limits,
                record=self._record,
                salt=secrets.token_bytes(16),
            ).tool()
        return results

    def _make_fast_path(self) -> FastPath:
        return FastPath(
            self._results,
            {"name": self._name, "version": VERSION},
            self._discover,
            entries=self._common.entries,
            observe=self._observe,
            room=self._cache_bytes,
        )

    def _observe(self, method: str, uri: str | None, cached: bool) -> None:
        """Record an answer of the fast path. A read that was not cached is recorded by the source."""
        if self._audit is None and not is_active():
            return
        if method in _LISTS:
            self._record_list(method)
        elif method == METHOD_GET and uri is not None:
            self._record_get(uri)
        elif cached and method == "resources/read" and uri is not None:
            offer = self.source.known_owner(SkillUri(uri))
            if offer is not None:
                self.record_read(offer, SkillUri(uri))

    def _make_low_level(self) -> Server[Any]:
        from mcp.server.lowlevel import Server

        from skillwire.server.attach import SkillService, attach

        server: Server[Any] = Server(self._name, version=VERSION, instructions="")
        attach(server, SkillService(self._results, self._watcher))
        elicitor = self._common.make_elicitor()
        for method in _GUARDED:
            entry = server.get_request_handler(method)
            if entry is not None:
                guarded = elicitor.guard(entry.handler, self.source.caller, self._record_decision)
                server.add_request_handler(method, entry.params_type, _with_client(guarded))
        for method in _LISTS:
            entry = server.get_request_handler(method)
            if entry is not None:
                server.add_request_handler(method, entry.params_type, self._listed(method, entry.handler))
        entry = server.get_request_handler(METHOD_GET)
        if entry is not None:
            guarded = elicitor.guard(self._got(entry.handler), self.source.caller, self._record_decision)
            server.add_request_handler(METHOD_GET, entry.params_type, _with_client(guarded))
        server.middleware.append(self._on_introduction)
        return server

    def _listed(self, method: str, handler: Handler) -> Handler:
        async def listed(ctx: Context, params: Any) -> Any:
            result = await handler(ctx, params)
            self._record_list(method)
            return result

        return _with_client(listed)

    def _got(self, handler: Handler) -> Handler:
        async def got(ctx: Context, params: Any) -> Any:
            result = await handler(ctx, params)
            self._record_get(params.uri)
            return result

        return got

    async def _on_introduction(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: instructions that name what there is now."""
        result = await call_next(ctx)
        if ctx.method in ("initialize", METHOD_DISCOVER) and isinstance(result, dict):
            result["instructions"] = await self._introduce()
        return result


def _with_client(handler: Handler) -> Handler:
    """The handler, with the address of the client where the audit log finds it."""

    async def handle(ctx: Context, params: Any) -> Any:
        client = getattr(ctx.request, "client", None)
        if client is not None:
            CLIENT.set(str(client.host))
        return await handler(ctx, params)

    return handle


class FencedTexts(SkillTexts):
    """Skills for clients that know only tools or prompts: in a fence that names the server (SEC-1)."""

    def __init__(self, origin_of: Callable[[SkillUri], Origin]) -> None:
        self._origin_of = origin_of
        self._salt = secrets.token_bytes(16)

    def skill(self, entry: SkillEntry, text: str, files: list[str]) -> str:
        body = text if text.endswith("\n") else f"{text}\n"
        if files:
            body += f"\nIts other files, for {READ}: {', '.join(files)}\n"
        return self._fenced(entry, f"Skill {entry.name}", body, part="", uri=entry.uri)

    def file(self, entry: SkillEntry, uri: SkillUri, text: str) -> str:
        path = "/".join(path_below(uri, skill_root(entry.uri)))
        return self._fenced(entry, f"A file of the skill {entry.name}", text, part="_file", path=path)

    def files(self, entry: SkillEntry, directory: SkillUri, lines: list[str]) -> str:
        listed = "\n".join(lines) or "(none)"
        return self._fenced(entry, f"Files of the skill {entry.name}", listed, part="_directory")

    def _fenced(self, entry: SkillEntry, what: str, text: str, *, part: str, **named: str) -> str:
        from skillwire.catalog import heading

        origin = self._origin_of(entry.uri)
        fenced = fence(text, origin, part=part, attributes={"name": entry.name, **named}, salt=self._salt)
        return f"{heading(what, origin, fenced)}\n{fenced.text}"


def gateway_instructions(about: str, entries: Iterable[SkillEntry], awaited: Sequence[str] = ()) -> str:
    """Return what a model is told about a gateway: how to use it, which servers are `awaited`, and what there
    is, as far as that fits.
    """
    by_label: dict[str, list[str]] = {}
    for entry in entries:
        by_label.setdefault(split_uri(entry.uri).authority, []).append(entry.name)
    if awaited:
        about += f"\nNot connected now: {shown(', '.join(awaited), _AWAITED_CHARS)}"
    if not by_label:
        return about
    total = sum(map(len, by_label.values()))
    there = "There is 1 skill here" if total == 1 else f"There are {total:,} skills here"
    text = f"{about}\n{there}, by server:"
    room = INSTRUCTIONS_CHARS - len(text)
    lines: list[str] = []
    for number, (label, names) in enumerate(by_label.items()):
        # Each server has its share of what is left, so that the first does not take it all.
        share = room // (len(by_label) - number)
        line = f"- {label} ({len(names):,})"
        if len(line) + 1 > share:
            lines.append(f"- and {len(by_label) - number} more servers")
            break
        fitting: list[str] = []
        left = share - len(line) - 8
        for name in names:
            left -= len(name) + 2
            if left < 0:
                break
            fitting.append(name)
        more = ", ..." if len(fitting) < len(names) else ""
        line += f": {', '.join(fitting)}{more}" if fitting else ""
        room -= len(line) + 1
        lines.append(line)
    return "\n".join([text, *lines])


def caller_options(options: ServerOptions) -> ServerOptions:
    """How a gateway serves: nothing may be shared between callers, and all tools are enabled."""
    features = replace(options.legacy_features, every_tool=True)
    return replace(options, cache_scope="private", legacy_features=features)
