"""Scripts of skills, run in the sandbox. A run takes these steps; each may refuse it.

1. The skill is loaded: verified, and approved as it is now. A skill without digests cannot be bound to what
   was granted, and is refused.
2. The grants: what its SKILL.md requests for this script, and what the caller adds. What is not granted yet
   is asked about, in one question, and stored with the approval: bound to exactly these files.
3. Its list of Python packages, if it has one, is installed: a question and a step of its own.
4. Every file of the skill is read again and verified, and all of it goes into the sandbox.
5. What came out is told: to the caller as untrusted text, to the log, telemetry and audit without it.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
import anyio.to_thread

from skillwire.catalog import HostSkill
from skillwire.errors import (
    ApprovalRequired,
    FormatError,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VerificationError,
)
from skillwire.host.directories import state_paths
from skillwire.host.events import Event, EventKind, EventRecorder, skill_event
from skillwire.host.load import Loader
from skillwire.host.model import Tool, ToolResult, error_words
from skillwire.host.questions import ScriptRequest, ScriptRunner
from skillwire.host.resolve import Resolver
from skillwire.host.styles.base import RenderContext
from skillwire.limits import Limits
from skillwire.sandbox import Grant, GrantKind, RunResult, SandboxPlan, parse_grant, requested_grants
from skillwire.sandbox.plan import given, interpreter_for, newly_requested, program_path, stored
from skillwire.telemetry import operation
from skillwire.text import safe_line
from skillwire.trust import Grants, Reason, VerifiedFile, shown_digest
from skillwire.trust.fence import fence
from skillwire.words import counted

RUN_TOOL: Final = "run_skill_script"
NO_SCRIPTS: Final[frozenset[tuple[str, str]]] = frozenset()
_NAME_BYTES: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """The result of a run. `files` are those that it wrote into the folder of a call with `files`."""

    skill: HostSkill
    script: str
    outcome: RunResult
    grants: tuple[Grant, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def has_network(self) -> bool:
        return any(grant.kind is GrantKind.NET for grant in self.grants)

    def audit_fields(self) -> dict[str, object]:
        """Return the run as the fields of a line of an audit log."""
        return {
            "script": self.script,
            "grants": [str(grant) for grant in self.grants],
            "exit_code": self.outcome.exit_code,
            "ended": self.outcome.ended,
            "seconds": round(self.outcome.seconds, 3),
            "bytes": self.outcome.output_bytes + self.outcome.network_bytes,
        }


class Scripts:
    """The scripts of one host: `host.scripts`."""

    def __init__(
        self, runner: ScriptRunner | None, *, loader: Loader, resolver: Resolver, log: EventRecorder
    ) -> None:
        self.runner = runner
        self._loader = loader
        self._decide = loader.decide
        self._reader = loader.files
        self._resolver = resolver
        self._log = log
        self._limits = loader.limits
        self._slots: anyio.CapacityLimiter | None = None

    async def run(
        self,
        name: str,
        path: str,
        arguments: Sequence[str] = (),
        *,
        grants: Iterable[str] = (),
        files: Mapping[str, str] | None = None,
        interpreter: str = "",
        server: str | None = None,
        limits: Limits | None = None,
        on_command: Callable[[Sequence[str]], None] | None = None,
    ) -> ScriptResult:
        """Run a script of a skill in the sandbox, to its end.

        `grants` are asked for beside what the skill requests. With `files`, it runs in a folder of its own
        that holds them, and what it leaves there comes back. Raises `ApprovalRequired` for what is not
        granted, `SandboxUnavailable` where there is no sandbox.
        """
        plan, contents, skill = await self.plan(
            name,
            path,
            arguments,
            grants=grants,
            interpreter=interpreter,
            server=server,
            limits=limits,
            ask=True,
        )
        digest = shown_digest(skill.entry)
        if self._slots is None:
            self._slots = anyio.CapacityLimiter(self._limits.scripts_at_once)
        facts = {
            "skillwire.script": path,
            "skillwire.grants": " ".join(sorted(grant.kind for grant in plan.grants)),
        }
        with operation(
            "run", f"{RUN_TOOL} {skill.handle}", lambda: {**facts, "skillwire.set_digest": digest or ""}
        ) as run_:
            outcome, written = await run_plan(plan, contents, files, slots=self._slots, on_command=on_command)
            run_.set("skillwire.exit_code", outcome.exit_code)
            run_.set("skillwire.output_bytes", outcome.output_bytes)
            run_.set("skillwire.network_bytes", outcome.network_bytes)
            run_.verdict = "ended" if outcome.ended else "ok"
        self._log.record(self._event(skill, path, plan, outcome))
        return ScriptResult(skill=skill, script=path, outcome=outcome, grants=plan.grants, files=written)

    async def plan(
        self,
        name: str,
        path: str,
        arguments: Sequence[str] = (),
        *,
        grants: Iterable[str] = (),
        interpreter: str = "",
        server: str | None = None,
        limits: Limits | None = None,
        ask: bool = False,
        sandboxed: bool = True,
    ) -> tuple[SandboxPlan, list[VerifiedFile], HostSkill]:
        """Return what a script would get, and the files of its skill. With `ask`, what is missing is asked
        for; without `sandboxed`, it is for a person who runs it outside of the sandbox.
        """
        runner = self.runner
        if runner is None:
            raise SourceError("this host runs no scripts: give it a ScriptRunner")
        # 1. Verified, approved, and bound to digests.
        skill = await self._resolver.find(name, server, None)
        verified = await self._loader.load(skill)
        digest = shown_digest(verified.entry)
        if digest is None:
            raise _refused(skill, f"{skill.handle} lists no digests: a grant cannot be bound to its scripts")
        try:
            script = await self._loader.read(skill.key, path)
        except VerificationError:
            listed = self._reader.paths(skill)
            if path in listed:
                raise
            scripts = ", ".join(one for one in listed if one.startswith("scripts/")) or "none in scripts/"
            message = f"{skill.handle} has no {safe_line(path)}: it has {safe_line(scripts, limit=200)}"
            raise SkillNotFound(message) from None
        await self._decide.require_script(
            skill, script.path, sandboxed=sandboxed, loaded=ask or not sandboxed
        )
        # 2. Grants.
        asked, free = await anyio.to_thread.run_sync(
            _resolve,
            runner,
            requested_grants(verified.frontmatter, script.path, str(runner.folder)),
            tuple(grants),
        )
        held = self._loader.held.require(skill.key).skill.grants
        kept = held.scripts | (stored(script.path, []) if held.execute_code else NO_SCRIPTS)
        is_granted = given(script.path, kept) is not None
        earlier = kept if is_granted else self._granted_before(skill) | kept
        request = ScriptRequest(
            skill=skill,
            script=script.path,
            digest=digest,
            grants=tuple(sorted(asked | free)),
            new=newly_requested(sorted(asked), earlier, script.path),
            is_first=given(script.path, earlier) is None,
        )
        if ask and (not is_granted or newly_requested(asked, kept, script.path)):
            await self._ask(runner, request)
            await self._store(skill, replace(held, scripts=held.scripts | stored(script.path, asked)))
            kept = self._loader.held.require(skill.key).skill.grants.scripts
            if given(script.path, kept) is None or newly_requested(asked, kept, script.path):
                words = (
                    f"{skill.handle}/{script.path} is not run: by the policy, others than the user grant it"
                )
                raise _refused(skill, words)
        # 3. Packages.
        contents = await self._files(skill)
        plan = await anyio.to_thread.run_sync(
            make_plan, runner, request, contents, tuple(arguments), interpreter, limits or self._limits
        )
        if plan.packages and ask and not await anyio.to_thread.run_sync(os.path.exists, plan.packages):
            from skillwire.sandbox.packages import install, requirements_of

            required = requirements_of(script.path, _texts(contents))
            await self._ask(runner, replace(request, packages=required))
            install_all = partial(
                install, required, Path(plan.packages), limits=self._limits, environment=os.environ
            )
            await anyio.to_thread.run_sync(install_all)
        return plan, contents, skill

    def note_unsafe(self, what: str) -> None:
        """Record that a person ran a script without a sandbox."""
        message = f"{what} is run WITHOUT a sandbox (--unsafe-no-sandbox), as a person asked for it"
        self._log.record(Event(kind=EventKind.RUN, message=message))

    def _granted_before(self, skill: HostSkill) -> frozenset[tuple[str, str]]:
        """Return the grants of the skill's scripts before its files changed: to compare with."""
        store = self._decide.consent
        ended = store.record(store.key(skill.origin, skill.uri)).ended(skill.origin)
        return NO_SCRIPTS if ended is None else ended.grants.scripts

    async def _ask(self, runner: ScriptRunner, request: ScriptRequest) -> None:
        what = f"{request.skill.handle}/{request.script}"
        if runner.ask is None:
            raise _refused(
                request.skill, f"{what} is not granted: it {request.sentence}; ask the user to grant that"
            )
        with operation("approve"):
            answer = await runner.ask(request)
        if answer is not True:
            raise _refused(request.skill, f"{what} was not granted: it is not run")

    async def _store(self, skill: HostSkill, grants: Grants) -> None:
        """Keep grants with the approval of exactly these files, and use them from now on."""
        await self._decide.approve(skill, grants=grants, how="granted for a script")
        await self._loader.load(skill)

    async def _files(self, skill: HostSkill) -> list[VerifiedFile]:
        """Every file of a skill, verified."""
        paths = ("SKILL.md", *self._reader.paths(skill))
        return [await self._loader.read(skill.key, path) for path in paths]

    def _event(self, skill: HostSkill, path: str, plan: SandboxPlan, outcome: RunResult) -> Event:
        how = f"was ended: {outcome.ended}" if outcome.ended else f"ended with {outcome.exit_code}"
        grants = ", ".join(str(grant) for grant in plan.grants) or "none"
        message = (
            f"{skill.handle}/{path} of {shown_digest(skill.entry)} {how} after {outcome.seconds:.1f} s in "
            f"the sandbox; grants: {grants}; {counted(outcome.output_bytes, 'byte')} printed"
        )
        return skill_event(EventKind.RUN, skill, message)


def _resolve(
    runner: ScriptRunner, requested: Iterable[Grant], added: Iterable[str]
) -> tuple[frozenset[Grant], frozenset[Grant]]:
    """Return what a script asks for, and what the application grants to all; blocks."""
    from skillwire.sandbox import resolve_grant

    folder = str(runner.folder.resolve())
    places = state_paths()
    private = [str(path.parent) for path in (places.cache, places.approvals, places.config)]
    resolve = partial(resolve_grant, home=str(Path.home()), private=private)
    free = frozenset(resolve(parse_grant(text, folder)) for text in runner.grants)
    asked = frozenset(map(resolve, (*requested, *(parse_grant(text, folder) for text in added)))) - free
    if not runner.network and (hosts := [str(one) for one in asked | free if one.kind is GrantKind.NET]):
        raise SourceError(f"scripts of this host reach no network, and {', '.join(hosts)} is requested")
    return asked, free


def make_plan(
    runner: ScriptRunner,
    request: ScriptRequest,
    contents: Sequence[VerifiedFile],
    arguments: tuple[str, ...],
    interpreter: str,
    limits: Limits,
) -> SandboxPlan:
    """The plan of a run, from what is on this machine; blocks."""
    from skillwire.sandbox import find_program, system_folders
    from skillwire.sandbox.packages import packages_folder, requirements_of

    what = f"{request.skill.handle}/{request.script}"
    [data] = [file.data for file in contents if file.path == request.script]
    name, *options = interpreter_for(request.script, data, interpreter)
    found, trees = find_program(name)
    program = program_path(name, found, request.grants)
    if not program:
        needed = safe_line(name, limit=100)
        raise SourceError(f"{what} needs {needed}, which is no program of the system: grant exec:{needed}")
    names = [grant.value for grant in request.grants if grant.kind is GrantKind.ENV]
    if missing := [name for name in names if name not in os.environ]:
        raise SourceError(f"{what} is granted env:{missing[0]}, which is not set: set it")
    required = requirements_of(request.script, _texts(contents))
    cache = state_paths().cache.parent / "packages"
    return SandboxPlan(
        script=request.script,
        interpreter=(program, *options),
        arguments=arguments,
        grants=request.grants,
        folder=str(runner.folder.resolve()),
        system=system_folders(),
        trees=trees,
        packages=str(packages_folder(cache, required, program)) if required else "",
        variables={name: os.environ[name] for name in names},
        limits=limits,
    )


def _texts(contents: Sequence[VerifiedFile]) -> dict[str, str]:
    return {file.path: file.text or "" for file in contents}


async def run_plan(
    plan: SandboxPlan,
    contents: Sequence[VerifiedFile],
    files: Mapping[str, str] | None = None,
    *,
    slots: anyio.CapacityLimiter | None = None,
    on_command: Callable[[Sequence[str]], None] | None = None,
) -> tuple[RunResult, dict[str, bytes]]:
    """Run a plan in a thread; with `files`, in a folder that holds them. A caller that gives up ends it."""
    from skillwire.sandbox import run

    stopped = threading.Event()

    def act() -> tuple[RunResult, dict[str, bytes]]:
        if files is None:
            return run(plan, contents, stopped=stopped, started=on_command), {}
        with tempfile.TemporaryDirectory(prefix="skillwire-work-") as work:
            for file, text in files.items():
                (Path(work) / _plain_name(file)).write_text(text, encoding="utf-8")
            outcome = run(replace(plan, work=work), contents, stopped=stopped, started=on_command)
            return outcome, _written(Path(work), files, plan.limits.script_output_bytes)

    try:
        return await anyio.to_thread.run_sync(act, limiter=slots, abandon_on_cancel=True)
    finally:
        stopped.set()


def _refused(skill: HostSkill, message: str) -> ApprovalRequired:
    return ApprovalRequired(message, reason=Reason.DENIED, origin=skill.origin.label, uri=skill.uri)


def _plain_name(name: str) -> str:
    """The name of a file that a caller gives: one in the folder itself."""
    if name != safe_line(name) or "/" in name or name in ("", ".", "..") or len(name.encode()) > _NAME_BYTES:
        raise FormatError.of(rule="file", message=f"{safe_line(name, limit=100)!r} is not a plain file name")
    return name


def _written(work: Path, before: Mapping[str, str], most: int) -> dict[str, bytes]:
    """The regular files that a script left, within a number of bytes. Links are not followed."""
    found: dict[str, bytes] = {}
    for folder, _, names in os.walk(work):
        for name in sorted(names):
            path = Path(folder) / name
            key = str(path.relative_to(work))
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            with os.fdopen(descriptor, "rb") as stream:
                data = stream.read(most + 1)
            if len(data) > most:
                continue
            if before.get(key, "").encode() != data or key not in before:
                found[key] = data
                most -= len(data)
    return found


def describe(result: ScriptResult) -> str:
    """A result in words, without what the script printed."""
    outcome = result.outcome
    return f"{result.skill.handle}/{result.script} " + (
        f"was ended: {outcome.ended}" if outcome.ended else f"ended with exit code {outcome.exit_code}"
    )


def result_json(result: ScriptResult) -> dict[str, Any]:
    """A result for JSON output."""
    outcome = result.outcome
    return {
        "script": f"{result.skill.handle}/{result.script}",
        "exit_code": outcome.exit_code,
        "ended": outcome.ended or None,
        "seconds": round(outcome.seconds, 3),
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "refused_hosts": list(outcome.refused_hosts),
    }


def script_tool(scripts: Scripts, context: RenderContext) -> Tool:
    """The tool with which a model runs a script. What the script printed is in a fence."""

    def script_name(arguments: Mapping[str, Any]) -> str:
        name = arguments.get("name")
        if not isinstance(name, str) or not name:
            raise SkillNotFound(f"{RUN_TOOL}: say name and path")
        return name

    async def check(arguments: Mapping[str, Any]) -> ToolResult:
        try:
            path, words, _ = script_arguments(arguments)
            await scripts.plan(script_name(arguments), path, words)
        except SkillwireError as error:
            return ToolResult(error_words(error), is_error=True)
        return ToolResult("")

    async def answer(arguments: Mapping[str, Any]) -> ToolResult:
        try:
            path, words, files = script_arguments(arguments)
            result = await scripts.run(script_name(arguments), path, words, files=files)
        except SkillwireError as error:
            return ToolResult(error_words(error), is_error=True)
        outcome = result.outcome
        return ToolResult(
            fenced_result(result, context.limits, context.salt),
            is_error=bool(outcome.exit_code or outcome.ended),
        )

    return Tool(RUN_TOOL, SCRIPT_ABOUT, SCRIPT_SCHEMA, answer, check)


SCRIPT_ABOUT: Final = (
    "Run a script of a skill in a sandbox, without network and without the files of the user unless they "
    "granted these. You get its exit code, what it printed, and the files that it wrote."
)
SCRIPT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the skill."},
        "path": {"type": "string", "description": "The script in it, such as scripts/extract.py."},
        "arguments": {"type": "array", "items": {"type": "string"}, "description": "Its arguments."},
        "files": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Files that it finds in its working folder, by name, as text.",
        },
    },
    "required": ["name", "path"],
    "additionalProperties": False,
}


def script_arguments(arguments: Mapping[str, Any]) -> tuple[str, list[str], dict[str, str]]:
    """The path, arguments and files of a call, or a `SkillNotFound` that says what is wrong with them."""
    path: object = arguments.get("path")
    words: object = arguments.get("arguments") or []
    files: object = arguments.get("files") or {}
    if not isinstance(path, str) or not path:
        raise SkillNotFound(f"{RUN_TOOL}: say name and path")
    if not isinstance(words, list) or not all(isinstance(one, str) for one in cast("list[object]", words)):
        raise SkillNotFound(f"{RUN_TOOL}: arguments must be a list of strings")
    texts = cast("dict[str, object]", files).values() if isinstance(files, dict) else [None]
    if not all(isinstance(one, str) for one in texts):
        raise SkillNotFound(f"{RUN_TOOL}: files must be an object of names and texts")
    return path, cast("list[str]", words), cast("dict[str, str]", files)


def fenced_result(result: ScriptResult, limits: Limits, salt: bytes) -> str:
    """A result for a model: what the script said is untrusted, whoever wrote the skill."""
    most = limits.script_tool_chars
    parts = {"stdout": result.outcome.stdout, "stderr": result.outcome.stderr}
    parts |= {
        name: data.decode("utf-8", "replace") for name, data in result.files.items() if b"\0" not in data
    }
    binary = [name for name, data in result.files.items() if b"\0" in data]
    lines = [f"{describe(result)}."]
    if result.outcome.refused_hosts:
        lines.append(
            f"It may not reach {', '.join(result.outcome.refused_hosts)}: only the user can grant that."
        )
    if binary:
        lines.append(f"It wrote {counted(len(binary), 'binary file')}, not shown.")
    for name, text in parts.items():
        if text:
            cut = text if len(text) <= most else f"{text[:most]}\n[{len(text) - most:,} more characters]"
            most = max(0, most - len(text))
            lines.append(
                fence(cut, result.skill.origin, part="_output", attributes={"file": name}, salt=salt).text
            )
    return "\n".join(lines)
