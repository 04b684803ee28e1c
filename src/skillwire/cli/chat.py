"""`skillwire chat`: a session with a model, skills and tools. `skillwire run`: a script in the sandbox."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillwire.cli.host_options import HostOptions, check_style, make_host, with_host
from skillwire.errors import ApprovalRequired, LimitExceeded, SourceError, UsageError
from skillwire.version import pip_command

if TYPE_CHECKING:
    from skillwire.catalog import HostSkill
    from skillwire.chat import ChatLimits, ChatSession, Model
    from skillwire.consent import ApprovalRequest, Once
    from skillwire.host import (
        ReadRequest,
        ScriptCallback,
        ScriptRequest,
        ScriptRunner,
        SkillHost,
        ToolRequest,
    )
    from skillwire.sandbox import SandboxPlan
    from skillwire.trust import VerifiedFile

_NO_NETWORK: Final = re.compile(
    r"Name or service not known|name resolution|ENOTFOUND|EAI_AGAIN|Could not resolve|Network is unreachable"
)
_GIVES: Final = {
    "read": "to read",
    "write": "to read and change",
    "net": "to reach over the network",
    "env": "to know this variable of yours",
    "exec": "to start this program",
}


def run(
    *,
    script: str,
    arguments: tuple[str, ...],
    grant: tuple[str, ...],
    explain: bool,
    interpreter: str | None,
    max_seconds: float | None,
    max_memory: int | None,
    max_processes: int | None,
    max_disk: int | None,
    max_output: int | None,
    audit: Path | None,
    unsafe_no_sandbox: bool,
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> int:
    """Run a script of an approved skill, and return its exit code."""
    from dataclasses import replace

    from skillwire.cli.host_options import terminal_callback
    from skillwire.cli.output import Screen, error, info, show_json, verbosity, write_bytes
    from skillwire.consent import require_person
    from skillwire.host import ScriptRunner
    from skillwire.host.scripts import describe, result_json
    from skillwire.limits import DEFAULT_LIMITS

    if "/" not in script.strip("/"):
        raise UsageError(f"{script}: name the script too, as in {script}/scripts/NAME.py")
    if unsafe_no_sandbox:
        require_person("running a script without a sandbox", page=False)
    given = {
        "script_seconds": max_seconds,
        "script_memory_bytes": max_memory,
        "script_processes": max_processes,
        "script_disk_bytes": max_disk,
        "script_output_bytes": max_output,
    }
    limits = replace(DEFAULT_LIMITS, **{name: value for name, value in given.items() if value is not None})
    runner = ScriptRunner(folder=Path.cwd(), ask=None if terminal_callback() is None else ask_script)

    def show_command(command: Sequence[str]) -> None:
        if verbosity() > 0:
            import shlex

            info(shlex.join(command))

    log = None if audit is None or explain else _AuditFile(audit)

    async def action(host: SkillHost) -> int:
        name, path = _split(host, script)
        how: dict[str, Any] = {
            "grants": grant,
            "interpreter": interpreter or "",
            "server": on,
            "limits": limits,
        }
        if explain or unsafe_no_sandbox:
            plan, files, skill = await host.scripts.plan(
                name, path, arguments, ask=False, sandboxed=not unsafe_no_sandbox, **how
            )
            if unsafe_no_sandbox:
                code = await _run_bare(host, plan, files, f"{skill.handle}/{path}")
                if log is not None:
                    log.write(skill, script=path, how="WITHOUT a sandbox", exit_code=code)
                return code
            rows = plan.explanation()
            if as_json:
                show_json(
                    {
                        "script": f"{skill.handle}/{path}",
                        "grants": [str(one) for one in plan.grants],
                        "gets": rows,
                    }
                )
            else:
                Screen().pairs(rows)
            return 0
        result = await host.scripts.run(name, path, arguments, on_command=show_command, **how)
        outcome = result.outcome
        if log is not None:
            log.write(result.skill, **result.audit_fields())
        if as_json:
            show_json(result_json(result))
        else:
            write_bytes(outcome.stdout.encode())
            sys.stderr.write(outcome.stderr)
            sys.stderr.flush()
        for refused in outcome.refused_hosts:
            info(f"It may not reach {refused}: --grant net:{refused} asks for that.")
        if outcome.exit_code and not result.has_network and _NO_NETWORK.search(outcome.stderr):
            info("It has no network: --grant net:HOST asks for a host.")
        if outcome.ended:
            error(describe(result), command="run")
            return LimitExceeded.exit_code
        return outcome.exit_code

    return with_host(options, action, ask=terminal_callback(), runner=runner, name=_name(script), on=on)


class _AuditFile:
    """The file of `--audit`, which can be written before anything runs."""

    def __init__(self, path: Path) -> None:
        from skillwire.gateway import AuditLog

        self._log = AuditLog(path)

    def write(self, skill: HostSkill, **details: object) -> None:
        """Append a line about a run; it is in the file afterwards."""
        import getpass

        from skillwire.trust import shown_digest

        digest = shown_digest(skill.entry)
        origin = skill.origin.label
        self._log.write(
            "run", caller=getpass.getuser(), origin=origin, skill=skill.uri, set=digest, **details
        )
        self._log.close()
        if self._log.problem:
            raise SourceError(self._log.problem)


def _split(host: SkillHost, target: str) -> tuple[str, str]:
    """The skill and the script of `NAME/PATH`: the longest known name counts, as names may have slashes."""
    parts = target.split("/")
    known = {name for skill in host.skills() for name in (skill.handle, skill.uri.removesuffix("/SKILL.md"))}
    for count in range(len(parts) - 1, 0, -1):
        if (name := "/".join(parts[:count])) in known:
            found = next((one for one in host.skills() if one.uri == f"{name}/SKILL.md"), None)
            return (found.handle if found is not None else name), "/".join(parts[count:])
    return parts[0], "/".join(parts[1:])


def _name(target: str) -> str:
    """The skill that a target may be about, to connect to no more servers than needed."""
    return "" if "://" in target else target.partition("/")[0]


async def ask_script(request: ScriptRequest) -> bool:
    """Show what a script asks for on the terminal, and read the answer there. Anything but yes is a no."""
    from skillwire.cli.host_options import answer, person_screen
    from skillwire.cli.output import origin_words, printable

    screen = person_screen()
    what = f"{printable(request.script)} of {request.skill.handle}"
    if request.packages:
        screen.line((what, "bold"), f" from {origin_words(request.skill.origin)} lists packages.")
        screen.pairs([("installs", printable(one)) for one in request.packages])
        screen.line("  They come from the package index as wheels, into a folder of their own.")
        return await answer(screen, "Install them?", "[y]es, or anything else for [N]o") in ("y", "yes")
    asks = "asks to run in the sandbox" if request.is_first else "newly asks for more"
    screen.line((what, "bold"), f" from {origin_words(request.skill.origin)} {asks}.")
    shown = request.grants if request.is_first else request.new
    screen.pairs(
        [
            *((str(one.kind), f"{printable(one.value)}, {_GIVES[one.kind]}") for one in shown),
            ("always", "the files of its skill to read, a scratch folder, and nothing else of this machine"),
            ("digest", request.digest),
        ]
    )
    return await answer(screen, "Allow it?", "[y]es, until the skill changes, or anything else for [N]o") in (
        "y",
        "yes",
    )


async def _run_bare(host: SkillHost, plan: SandboxPlan, files: Sequence[VerifiedFile], what: str) -> int:
    """Run a script as a process of the user, which a person agreed to on their terminal just now."""
    import anyio.to_thread

    from skillwire.cli.host_options import answer, person_screen, person_terminal
    from skillwire.consent import NO_TERMINAL
    from skillwire.sandbox import unsafe_run_bare

    if person_terminal() is None:
        raise ApprovalRequired(f"nothing was run: {NO_TERMINAL}", reason="denied", origin="", uri="")
    screen = person_screen()
    screen.line((what, "bold"), " would run WITHOUT a sandbox, with all of your files, keys and network.")
    if await answer(screen, "Run it?", "type `unsafe` to do so, or anything else for no") != "unsafe":
        raise ApprovalRequired(f"{what} was not run", reason="denied", origin="", uri="")
    host.scripts.note_unsafe(what)
    return await anyio.to_thread.run_sync(unsafe_run_bare, plan, files)


MODEL_VARIABLE = "SKILLWIRE_MODEL"
_GREETING = "Type a message, or /help. A session is not kept: when it ends, it is gone."
_DEMO_GREETING = (
    "Type a message, or /help. This is a demo: its model is a script, everything else is real.\n"
    "Try: write release notes"
)


def chat(
    *,
    model: str | None,
    prompt: str | None,
    allow_tool: tuple[str, ...],
    max_turns: int,
    max_tokens: int | None,
    output_format: str,
    demo: bool,
    plain: bool,
    history: bool,
    options: HostOptions,
) -> int:
    """Open a session on the terminal, or do one task with `-p`."""
    import asyncio
    import logging

    require_chat("chat")
    os.environ.setdefault("PROMPT_TOOLKIT_NO_CPR", "1")  # Not every terminal answers, which is then reported.
    from skillwire.chat import ChatLimits
    from skillwire.cli.output import is_terminal
    from skillwire.cli.running import log_to_stderr

    check_style(options.style)
    if demo and model:
        raise UsageError("--demo has a model of its own: leave out --model")
    if prompt is None and output_format != "text":
        raise UsageError(f"--output-format {output_format} is for one task: give it with -p TEXT")
    for name in allow_tool:
        if "/" not in name.strip("/"):
            raise UsageError(f"--allow-tool: write SERVER/NAME, not {name}")
    log_to_stderr()
    logging.getLogger("skillwire.host").setLevel(logging.ERROR)  # The session shows failures itself.
    limits = ChatLimits(turns=max_turns, tokens=max_tokens)
    run = _Run(options, model, frozenset(allow_tool), limits, demo)
    with run:
        if prompt is not None:
            return asyncio.run(run.task(prompt, as_json=output_format == "stream-json"))
        if not is_terminal(sys.stdin) or not is_terminal(sys.stdout):
            raise UsageError("a session needs a terminal: give one task with -p TEXT")
        return asyncio.run(run.session(plain=plain, history=history))


def require_chat(command: str) -> None:
    """Raise a `SourceError` if a package is missing that sessions need."""
    for package in ("pydantic_ai", "prompt_toolkit"):
        if find_spec(package) is None:
            raise SourceError(f"skillwire {command} needs the package {package}: {pip_command('chat')}")
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # Standard error is for what happens here.


def chosen_model(given: str | None, otherwise: str = "") -> Model:
    """The model that was given, or that the environment or the user's file names."""
    from skillwire.chat import find_model
    from skillwire.host import chat_model

    name = given or os.environ.get(MODEL_VARIABLE, "").strip() or chat_model()
    if not name:
        raise UsageError(
            "no model is chosen: give --model anthropic:NAME, openai:NAME, google:NAME or ollama:NAME, "
            f"or set {MODEL_VARIABLE}, or model in your skillwire.toml{otherwise}"
        )
    return find_model(name)


@dataclass(eq=False)
class _Run:
    """One run of the command: its hosts and its model."""

    options: HostOptions
    model: str | None
    allowed: frozenset[str]
    limits: ChatLimits
    demo: bool
    folder: Path | None = None
    """The one of the demo."""

    def __enter__(self) -> None:
        if self.demo:
            import tempfile

            self.folder = Path(tempfile.mkdtemp(prefix="skillwire-demo-"))

    def __exit__(self, *_: object) -> None:
        if self.folder is not None:
            import shutil

            shutil.rmtree(self.folder, ignore_errors=True)

    async def task(self, prompt: str, *, as_json: bool) -> int:
        """Do one task, and ask nobody."""
        import json

        from skillwire.chat import ChatEvent, NobodyThere, run_task
        from skillwire.cli.output import error, write
        from skillwire.errors import ApprovalRequired

        def show(event: ChatEvent) -> None:
            if as_json:
                write(json.dumps(event.as_json(), ensure_ascii=False))
            elif event.type in ("error", "person_needed"):
                error(event.text, command="chat")

        nobody = NobodyThere()
        session_model = self._chat_model()
        async with self._host(
            None,
            ask=nobody.ask,
            ask_read=nobody.ask_read,
            ask_tool=nobody.ask_tool,
            runner=_runner(nobody.ask_script),
        ) as host:
            if not as_json:
                for failure in host.log.failures():
                    error(failure.message)
            result = await run_task(self._session(host, session_model), prompt, nobody, show)
        if not as_json:
            write(result.answer)
        if result.failed:
            return SourceError.exit_code
        return ApprovalRequired.exit_code if result.person_needed else 0

    async def session(self, *, plain: bool, history: bool) -> int:
        """Talk until the user ends it."""
        from skillwire.chat import ChatTerminal, NobodyThere
        from skillwire.cli.host_options import answer, ask_person, person_screen, terminal_callback
        from skillwire.host import state_paths

        chat_model = self._chat_model()
        can_ask = terminal_callback() is not None

        async def ask_line(question: str) -> str:
            return await answer(person_screen(), question, "") if can_ask else ""

        async def ask(request: ApprovalRequest) -> bool | Once:
            await terminal.before_question()
            return await ask_person(request)

        async def ask_read(request: ReadRequest) -> bool:
            await terminal.before_question()
            held = ", ".join(str(origin) for origin in request.held)
            question = f"Read {request.uri} from {request.target}, while a skill from {held} is in use? [y/N]"
            return await ask_line(question) in ("y", "yes")

        async def ask_tool(request: ToolRequest) -> bool:
            return await terminal.ask_tool(request)

        async def ask_run(request: ScriptRequest) -> bool:
            await terminal.before_question()
            return await ask_script(request)

        def open_host(style: str | None) -> SkillHost:
            return self._host(
                style,
                ask=ask if can_ask else NobodyThere().ask,
                ask_read=ask_read,
                ask_tool=ask_tool,
                runner=_runner(ask_run if can_ask else None),
            )

        terminal = ChatTerminal(
            open_host,
            lambda host: self._session(host, chat_model),
            history=state_paths().approvals.parent / "chat-history" if history and not self.demo else None,
            plain=plain,
            greeting=_DEMO_GREETING if self.demo else _GREETING,
            answer=ask_line,
        )
        return await terminal.run()

    def _session(self, host: SkillHost, model: object) -> ChatSession:
        from typing import cast

        from skillwire.chat import ChatSession

        return ChatSession(host, cast("Any", model), limits=self.limits)

    def _chat_model(self) -> object:
        from skillwire.chat import demo_model

        return demo_model() if self.demo else chosen_model(self.model, "; --demo needs none")

    def _host(self, style: str | None, **callbacks: object) -> SkillHost:
        from typing import cast

        from skillwire.host import SkillHost

        options = replace(self.options, style=style) if style else self.options
        asking = cast("dict[str, Any]", {**callbacks, "safe_tools": self.allowed})
        if self.folder is not None:
            from skillwire.chat import demo_skills
            from skillwire.server import SkillServer

            return SkillHost(
                servers={"demo": SkillServer(demo_skills(self.folder))},
                style=options.style or "spec",
                cache_directory=self.folder / "cache",
                approvals_file=self.folder / "approvals.sqlite",
                **asking,
            )
        followed = options.followed_settings()
        config = followed.loaded if followed is not None else options.settings()
        check_style(options.style, config)
        return make_host(options, config, followed, **asking)


def _runner(ask: ScriptCallback | None) -> ScriptRunner | None:
    """Return the runner of scripts for the model; `None` where there is no sandbox, and so no such tool."""
    from skillwire.errors import SandboxUnavailable
    from skillwire.host import ScriptRunner
    from skillwire.sandbox import find_bubblewrap

    try:
        find_bubblewrap()
    except SandboxUnavailable:
        return None
    return ScriptRunner(ask=ask)
