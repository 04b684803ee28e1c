"""ChatTerminal: a session on a terminal. prompt_toolkit reads lines, rich shows Markdown as it arrives."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from skillwire.chat.session import ChatError, ChatEvent, ChatSession, find_model
from skillwire.errors import SkillNotFound, SkillwireError
from skillwire.host import ConnectionStatus, EventKind, ServerTool, SkillHost, ToolRequest
from skillwire.text import clean_text, safe_line
from skillwire.words import counted

_DESCRIPTION_CHARS: Final = 100


@dataclass(frozen=True, slots=True)
class SessionCommand:
    """One command: how it is written, and what it does."""

    usage: str
    help: str
    run: Callable[[str], Awaitable[list[str]]]


class SessionCommands:
    """The commands of a session by name. A skill that a user may invoke is a command too, unless its name is
    taken by one of these."""

    def __init__(self, session: ChatSession) -> None:
        self.session = session
        self._table: dict[str, SessionCommand] = {
            "skills": SessionCommand(
                "/skills [on|off|show NAME]", "list the skills, or switch or show one", self._skills
            ),
            "mcp": SessionCommand(
                "/mcp", "every server: what it declares and offers, its problems", self._mcp
            ),
            "tools": SessionCommand("/tools", "the tools that the model can call", self._tools),
            "load": SessionCommand("/load NAME", "load a skill for the next message", self._load),
            "context": SessionCommand(
                "/context [PART]", "what the model is told, and its size in characters", self._context
            ),
            "compact": SessionCommand(
                "/compact", "replace the conversation by a summary and the loaded skills", self._compact
            ),
            "model": SessionCommand("/model [NAME]", "show the model, or use another one", self._model),
            "help": SessionCommand("/help", "this list", self._help),
        }

    def names(self) -> tuple[str, ...]:
        """Every command, those of skills included, with its slash."""
        own = [f"/{name}" for name in (*self._table, "style", "quit")]
        return (*own, *(command.name for command in self.session.host.commands() if command.name not in own))

    def skill_for(self, name: str) -> str | None:
        """The handle of the skill that `/NAME` invokes; `None` if no skill does."""
        if name in self._table:
            return None
        commands = self.session.host.commands()
        return next((command.handle for command in commands if command.name == f"/{name}"), None)

    async def run(self, name: str, rest: str) -> list[str]:
        """The lines that a command prints."""
        command = self._table.get(name)
        if command is None:
            raise ChatError(f"there is no command /{safe_line(name)}: /help lists them")
        return await command.run(rest.strip())

    async def invoked(self, handle: str, arguments: str) -> str:
        """The message that `/NAME ARGUMENTS` of a skill stands for."""
        await self.session.load(handle)
        said = f" with these arguments: {arguments}" if arguments else ""
        return f"Use the skill {handle} that I invoked{said}"

    async def _skills(self, rest: str) -> list[str]:
        host = self.session.host
        verb, _, name = rest.partition(" ")
        if verb in ("on", "off") and name:
            host.decide.set_enabled(name.strip(), verb == "on")
            return [f"{safe_line(name)} is {verb} for this session."]
        if verb == "show" and name:
            skill = await host.find(name.strip())
            file = await host.files.preview(skill.handle)
            text = clean_text(file.text or "(binary)").text.splitlines()
            head = f"{skill.handle} from {skill.origin}: {host.decide.status(skill).words}; shown, not loaded"
            return [head, *(f"  {line}" for line in text)]
        if rest:
            raise ChatError("write /skills, or /skills on NAME, off NAME or show NAME")
        skills = host.skills(disabled=True)
        lines: list[str] = []
        for skill in skills:
            words = host.decide.status(skill).words + ("" if skill.enabled else ", disabled")
            said = safe_line(skill.entry.description, limit=_DESCRIPTION_CHARS)
            lines += [f"{skill.handle}  ({skill.origin}; {words})", f"  {said}"]
        return lines or ["There are no skills."]

    async def _mcp(self, rest: str) -> list[str]:
        host = self.session.host
        lines: list[str] = []
        tools = await host.server_tools()
        for state in host.places.servers():
            skills = [skill for skill in host.skills() if skill.origin == state.origin]
            declared = (
                f"declares skills in {state.declared_in}" if state.declares_skills else "declares no skills"
            )
            dialects = ", ".join(dialect.meaning for dialect in state.dialects)
            lines.append(f"{state.label}  {state.place}  {state.status.value}")
            if state.status is ConnectionStatus.READY:
                speaks = f"  {declared}; MCP {state.era}" + (f"; {dialects}" if dialects else "")
                own = [tool.name for tool in tools if tool.server == state.label]
                lines += [speaks, f"  {counted(len(skills), 'skill')}, {counted(len(own), 'tool')}"]
            if state.reason:
                lines.append(f"  problem: {safe_line(state.reason)}")
        lines += [f"problem: {failure.message}" for failure in host.log.failures() if failure.origin is None]
        return lines or ["No server is configured: add one with `skillwire servers add NAME URL`."]

    async def _tools(self, rest: str) -> list[str]:
        host = self.session.host
        lines: list[str] = []
        for tool in (*host.tools(), *await host.server_tools()):
            name = tool.qualified_name if isinstance(tool, ServerTool) else tool.name
            lines += [safe_line(name), f"  {safe_line(tool.description, limit=_DESCRIPTION_CHARS)}".rstrip()]
        lines += ["read_file", "  Read a text file of the working folder."]
        return [line for line in lines if line]

    async def _load(self, rest: str) -> list[str]:
        if not rest:
            raise ChatError("write /load NAME: /skills lists the names")
        handle = await self.session.load(rest)
        return [f"{handle} is loaded and goes to the model with your next message."]

    async def _context(self, rest: str) -> list[str]:
        parts = await self.session.context()
        if rest:
            if rest not in parts:
                raise ChatError(f"there is no part {safe_line(rest)}: {', '.join(parts)}")
            return clean_text(parts[rest]).text.splitlines()
        lines = [f"{len(text):>8,}  {name}" for name, text in parts.items()]
        total = sum(len(text) for text in parts.values())
        return ["characters", *lines, f"{total:>8,}  in all; /context PART shows one of them"]

    async def _compact(self, rest: str) -> list[str]:
        summary = await self.session.compact()
        return ["The conversation is now this summary, and the loaded skills:", *summary.splitlines()]

    async def _model(self, rest: str) -> list[str]:
        if rest:
            self.session.model = find_model(rest)
        return [f"The model is {self.session.model.system}:{safe_line(self.session.model.model_name)}."]

    async def _help(self, rest: str) -> list[str]:
        rows: Sequence[tuple[str, str]] = (
            *((command.usage, command.help) for command in self._table.values()),
            ("/style [NAME]", "show the style, or go on in another one"),
            ("/NAME [ARGUMENTS]", "use a skill now"),
            ("$NAME, $SERVER/NAME", "name a skill in a message, so that the model loads it"),
            ("/quit", "end the session; Ctrl-C stops an answer, twice ends the session"),
        )
        width = max(len(usage) for usage, _ in rows)
        return [f"{usage:<{width}}  {said}" for usage, said in rows]


def split_command(line: str) -> tuple[str, str]:
    """The name of a command without its slash, and the rest of the line."""
    name, _, rest = line[1:].partition(" ")
    if not name:
        raise SkillNotFound("write a command after the slash: /help lists them")
    return name, rest


_ARGUMENTS_CHARS = 300
_SHOWN_EVENTS = {
    EventKind.COLLISION,
    EventKind.FAILURE,
    EventKind.RECOVERED,
    EventKind.REVOKED,
    EventKind.OUTDATED,
    EventKind.REMARK,
}
_ANSWER_LINES = 200
"""Of an answer that is still arriving, so many lines are drawn again with every word."""


class ChatTerminal:
    """Reads what a person types, and prints what happens, until they end the session."""

    def __init__(
        self,
        open_host: Callable[[str | None], SkillHost],
        make_session: Callable[[SkillHost], ChatSession],
        *,
        history: Path | None,
        plain: bool = False,
        greeting: str = "",
        answer: Callable[[str], Awaitable[str]],
    ) -> None:
        """`open_host` makes a host for a style, by default the configured one. `answer` asks a question on
        the terminal. `history` is the file of what was typed; `None` keeps nothing."""
        self._open_host = open_host
        self._make_session = make_session
        self._plain = plain or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self._console = Console(no_color=self._plain, highlight=False, markup=False, emoji=False)
        self._history = history
        self._greeting = greeting
        self._answer = answer
        self._allowed: set[str] = set()
        self._turn: asyncio.Task[None] | None = None
        self._told = 0
        self._live: Live | None = None

    async def run(self) -> int:
        """The session, until the person ends it."""
        session: ChatSession | None = None
        style: str | None = None
        self._print(self._greeting)
        while True:
            async with AsyncExitStack() as stack:
                host = await stack.enter_async_context(self._open_host(style))
                session = await self._open_session(session, host)
                watching = asyncio.create_task(self._watch(host))
                stack.callback(watching.cancel)
                style = await self._converse(session)
            if style is None:
                return 0

    async def _open_session(self, before: ChatSession | None, host: SkillHost) -> ChatSession:
        if before is None:
            session = self._make_session(host)
            model = safe_line(session.model.model_name)
            self._print(f"The model is {model}. There are {counted(len(host.skills()), 'skill')}.")
            return session
        session = await before.continued(host)
        self._print(f"The style is now {host.style.name}.")
        if len(session.messages) < len(before.messages):
            self._print("A skill of the conversation could not be loaded again: the conversation is empty.")
        return session

    async def ask_tool(self, request: ToolRequest) -> bool:
        """Ask before a tool of a server is called; `a` allows the tool until the session ends."""
        if request.qualified_name in self._allowed:
            return True
        self._pause_drawing()
        arguments = safe_line(str(dict(request.arguments)), limit=_ARGUMENTS_CHARS)
        self._print(f"The model wants to call {safe_line(request.qualified_name)} with {arguments}")
        if not request.execution.allowed:
            self._print(f"  It {request.execution}.")
        said = await self._answer("Call it? [y]es, [a]lways in this session, or anything else for [N]o")
        if said in ("a", "always"):
            self._allowed.add(request.qualified_name)
        return said in ("y", "yes", "a", "always")

    async def before_question(self) -> None:
        """Stop drawing, because something is asked on the terminal now."""
        self._pause_drawing()

    # Lines

    async def _converse(self, session: ChatSession) -> str | None:
        """Read lines until the session ends, or a style is chosen that needs another host: its name."""
        commands = SessionCommands(session)
        prompts: PromptSession[str] = PromptSession(
            history=self._open_history(session), completer=_Names(commands), complete_while_typing=False
        )
        interrupted = False
        while True:
            try:
                with patch_stdout(raw=True):
                    line = (await prompts.prompt_async("> ")).strip()
            except KeyboardInterrupt:
                if interrupted:
                    return None
                interrupted = True
                self._print("Ctrl-C again, or /quit, ends the session.")
                continue
            except EOFError:
                return None
            interrupted = False
            if not line:
                continue
            if line in ("/quit", "/exit"):
                return None
            try:
                style = await self._take(session, commands, line)
            except SkillwireError as error:
                self._print(safe_line(str(error)))
                continue
            if style is not None:
                return style

    async def _take(self, session: ChatSession, commands: SessionCommands, line: str) -> str | None:
        if not line.startswith("/"):
            await self._stoppable(self._send(session, line))
            return None
        name, rest = split_command(line)
        if name == "style":
            return self._style(session, rest.strip())
        handle = commands.skill_for(name)
        if handle is not None:
            await self._stoppable(self._invoke(session, commands, handle, rest.strip()))
        else:
            await self._stoppable(self._show(commands, name, rest))
        return None

    def _style(self, session: ChatSession, name: str) -> str | None:
        from skillwire.host import all_styles, find_style

        if name:
            return find_style(name).name
        known = ", ".join(style.name for style in all_styles())
        self._print(f"The style is {session.host.style.name}; there are {known}.")
        return None

    async def _invoke(self, session: ChatSession, commands: SessionCommands, handle: str, rest: str) -> None:
        await self._send(session, await commands.invoked(handle, rest))

    async def _show(self, commands: SessionCommands, name: str, rest: str) -> None:
        for line in await commands.run(name, rest):
            self._print(line)

    async def _stoppable(self, action: Awaitable[None]) -> None:
        """Run something that Ctrl-C stops, and nothing else with it."""
        self._turn = asyncio.ensure_future(action)
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):
            loop.add_signal_handler(signal.SIGINT, self._turn.cancel)
        try:
            await self._turn
        except (asyncio.CancelledError, KeyboardInterrupt):
            self._print("Stopped; the conversation is as it was before this message.")
        finally:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(signal.SIGINT)
            self._turn = None

    # What is shown

    async def _send(self, session: ChatSession, message: str) -> None:
        events = session.send(message)
        try:
            await self._draw(events)
        finally:
            self._pause_drawing()
            await events.aclose()  # type: ignore[attr-defined]

    async def _draw(self, events: AsyncIterator[ChatEvent]) -> None:
        text = ""
        async for event in events:
            match event.type:
                case "text":
                    text += event.text
                    self._draw_text(event.text, text)
                case "tool_call":
                    text = self._end_text(text)
                    said = safe_line(event.arguments, limit=_ARGUMENTS_CHARS)
                    self._print(f"→ {event.tool} {said}", style="dim")
                case "tool_result":
                    said = safe_line(event.text, limit=_ARGUMENTS_CHARS)
                    shown = (
                        f"✗ {event.tool}: {said}"
                        if event.is_error
                        else f"✓ {event.tool}: {counted(len(event.text), 'character')}"
                    )
                    self._print(shown, style="dim")
                case "done":
                    text = self._end_text(text)
                    self._print(_usage_line(event), style="dim")
                case "error" | "person_needed":
                    text = self._end_text(text)
                    self._print(event.text, style="red")

    def _draw_text(self, added: str, text: str) -> None:
        if self._plain or not self._console.is_terminal:
            self._console.out(added, end="", highlight=False)
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="ellipsis")
            self._live.start()
        shown = "\n".join(text.splitlines()[-_ANSWER_LINES:])
        self._live.update(Markdown(shown, hyperlinks=False), refresh=True)

    def _end_text(self, text: str) -> str:
        """End what was drawn of an answer. The text after a tool call is an answer of its own."""
        if self._live is not None:
            self._live.update(Markdown(text, hyperlinks=False), refresh=True)
            self._pause_drawing()
        elif text and not text.endswith("\n"):
            self._console.out("", highlight=False)
        return ""

    def _pause_drawing(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, line: str, *, style: str = "") -> None:
        if line:
            # A screen reader gets whole lines, and everybody else words that are not broken.
            self._console.print(Text(line, style="" if self._plain else style), soft_wrap=self._plain)

    async def _watch(self, host: SkillHost) -> None:
        """Print once what happens to skills and servers while the session is open."""
        async for event in host.log.events():
            if event.kind in _SHOWN_EVENTS:
                self._print(f"· {event.message}", style="dim")

    def _open_history(self, session: ChatSession) -> History:
        if self._history is None:
            return InMemoryHistory()
        self._history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._history.touch(mode=0o600)
        self._history.chmod(0o600)
        return _RedactedHistory(str(self._history), session.redacted)


class _RedactedHistory(FileHistory):
    """The lines that were typed, in a file, without keys."""

    def __init__(self, path: str, redacted: Callable[[str], str]) -> None:
        super().__init__(path)
        self._redacted = redacted

    def store_string(self, string: str) -> None:
        super().store_string(self._redacted(string))


class _Names(Completer):
    """Completes commands after `/`, and skills after `$` and after `/load`."""

    def __init__(self, commands: SessionCommands) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        word = line.rpartition(" ")[2]
        handles = [skill.handle for skill in self._commands.session.host.skills()]
        if word.startswith("$"):
            choices = [f"${handle}" for handle in handles]
        elif line.startswith("/") and " " not in line:
            choices = [*self._commands.names()]
        elif line.startswith(("/load ", "/skills ")):
            choices = handles
        else:
            choices = []
        for choice in choices:
            if choice.startswith(word):
                yield Completion(safe_line(choice), start_position=-len(word))


def _usage_line(event: ChatEvent) -> str:
    usage = event.usage
    cost = usage.get("cost_usd")
    price = "price unknown" if cost is None else f"${cost:.4f}"
    return (
        f"so far {usage.get('requests')} requests, {usage.get('input_tokens')} tokens in, "
        f"{usage.get('output_tokens')} out, {price}"
    )
