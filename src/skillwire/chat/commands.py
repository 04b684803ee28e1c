"""The commands of a session, which begin with `/`: what each prints, as lines that are safe to print."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from skillwire.chat.session import ChatError, ChatSession, find_model
from skillwire.errors import SkillNotFound
from skillwire.host import ConnectionStatus, ServerTool
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
            host.admin.set_enabled(name.strip(), verb == "on")
            return [f"{safe_line(name)} is {verb} for this session."]
        if verb == "show" and name:
            skill = await host.find(name.strip())
            file = await host.admin.preview(skill.handle)
            text = clean_text(file.text or "(binary)").text.splitlines()
            head = f"{skill.handle} from {skill.origin}: {host.admin.status(skill).words}; shown, not loaded"
            return [head, *(f"  {line}" for line in text)]
        if rest:
            raise ChatError("write /skills, or /skills on NAME, off NAME or show NAME")
        skills = host.skills(disabled=True)
        lines: list[str] = []
        for skill in skills:
            words = host.admin.status(skill).words + ("" if skill.enabled else ", disabled")
            said = safe_line(skill.entry.description, limit=_DESCRIPTION_CHARS)
            lines += [f"{skill.handle}  ({skill.origin}; {words})", f"  {said}"]
        return lines or ["There are no skills."]

    async def _mcp(self, rest: str) -> list[str]:
        host = self.session.host
        lines: list[str] = []
        tools = await host.server_tools()
        for state in host.admin.servers():
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
