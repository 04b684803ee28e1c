"""`skillwire chat`: a session with a model, the skills and the tools of your servers."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, check_style, make_host
from skillwire.cli.parser import UsageError
from skillwire.errors import SourceError
from skillwire.version import pip_command

if TYPE_CHECKING:
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
    run = _Run(options, model, frozenset(allow_tool), limits, demo=demo)
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
    from skillwire.host.config.file import chat_model

    name = given or os.environ.get(MODEL_VARIABLE, "").strip() or chat_model()
    if not name:
        raise UsageError(
            "no model is chosen: give --model anthropic:NAME, openai:NAME, google:NAME or ollama:NAME, "
            f"or set {MODEL_VARIABLE}, or model in your skillwire.toml{otherwise}"
        )
    return find_model(name)


class _Run:
    """One run of the command: its hosts and its model."""

    def __init__(
        self,
        options: HostOptions,
        model: str | None,
        allowed: frozenset[str],
        limits: ChatLimits,
        *,
        demo: bool,
    ) -> None:
        self._options = options
        self._model = model
        self._allowed = allowed
        self._limits = limits
        self._demo = demo
        self._folder: Path | None = None

    def __enter__(self) -> None:
        if self._demo:
            import tempfile

            self._folder = Path(tempfile.mkdtemp(prefix="skillwire-demo-"))

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            import shutil

            shutil.rmtree(self._folder, ignore_errors=True)

    async def task(self, prompt: str, *, as_json: bool) -> int:
        """Do one task, and ask nobody."""
        import json

        from skillwire.chat import ChatEvent
        from skillwire.chat.session import NobodyThere, run_task
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
        from skillwire.chat import ChatTerminal
        from skillwire.chat.session import NobodyThere
        from skillwire.cli.ask import answer, ask_person, person_screen, terminal_callback
        from skillwire.cli.scripts import ask_script
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
            history=state_paths().approvals.parent / "chat-history" if history and not self._demo else None,
            plain=plain,
            greeting=_DEMO_GREETING if self._demo else _GREETING,
            answer=ask_line,
        )
        return await terminal.run()

    def _session(self, host: SkillHost, model: object) -> ChatSession:
        from typing import Any, cast

        from skillwire.chat import ChatSession

        return ChatSession(host, cast("Any", model), limits=self._limits)

    def _chat_model(self) -> object:
        from skillwire.chat import demo_model

        return demo_model() if self._demo else chosen_model(self._model, "; --demo needs none")

    def _host(self, style: str | None, **callbacks: object) -> SkillHost:
        from typing import Any, cast

        from skillwire.host import SkillHost

        options = replace(self._options, style=style) if style else self._options
        asking = cast("dict[str, Any]", {**callbacks, "safe_tools": self._allowed})
        if self._folder is not None:
            from skillwire.chat import demo_skills
            from skillwire.server import SkillServer

            return SkillHost(
                servers={"demo": SkillServer(demo_skills(self._folder))},
                style=options.style or "spec",
                cache_directory=self._folder / "cache",
                approvals_file=self._folder / "approvals.sqlite",
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
