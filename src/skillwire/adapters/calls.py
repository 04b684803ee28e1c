"""Shared by the adapters: calls of skill tools, and the question to the user that a call may need.

A host with `ask` asks there. Without it, a call that needs the user comes back as a `CallQuestion`; the
framework pauses in its own way, and the same call is made again with `yes`, the digest of what the user was
shown. A yes to other files than the skill has by then is no yes: the call comes back with another question.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from skillwire.catalog import LIST_TOOL, READ_TOOL, SEARCH_TOOL
from skillwire.consent import ApprovalRequest
from skillwire.host import ReadRequest, ServerTool, SkillHost, Tool, ToolRequest, ToolResult
from skillwire.host.host import on_loop
from skillwire.skill import shown_uri
from skillwire.text import safe_line

_NAME_CHARS: Final = 64
"""Model services take no longer name of a tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQuestion:
    """A question for the user, which decides whether a call continues."""

    text: str
    """The question in plain lines. What a skill says of itself is cleaned, and quoted as its own words."""
    digest: str
    """The digest that a yes is for: of the files of the skill, or of the read that is asked for."""
    skill: str = ""
    """The handle of the skill; empty for a read and for a tool of a server."""
    tool: str = ""
    """The tool of a server that would be called; empty for anything else."""
    server: str
    """The label of the server or directory that the skill, the file or the tool comes from."""

    def as_dict(self) -> dict[str, str]:
        """The question as JSON, for frameworks that store it while they wait."""
        return {
            "question": self.text,
            "skill": self.skill,
            "tool": self.tool,
            "server": self.server,
            "digest": self.digest,
        }


def all_tools(
    host: SkillHost, server_tools: Iterable[ServerTool] = (), *, search: bool | None = None
) -> tuple[Tool, ...]:
    """The tools of a host, and those of its servers under names that every model service accepts."""
    own = host.tools(search=search)
    named = tool_names(server_tools, taken=[tool.name for tool in own])
    return (
        *own,
        *(
            Tool(
                name,
                f"A tool of the server {tool.server}: {tool.description}",
                tool.input_schema,
                tool.handler,
                tool.check,
            )
            for name, tool in named.items()
        ),
    )


async def server_tools_of(host: SkillHost) -> tuple[ServerTool, ...]:
    """The tools that the servers of a host have now, from any event loop."""
    return await on_loop(host, host.server_tools)


async def call_tool(
    host: SkillHost, name: object, arguments: object, server_tools: Iterable[ServerTool] = ()
) -> ToolResult | None:
    """The result of a tool; `None` when neither the host nor one of these servers has one of this name.

    Arguments may come as JSON text. What is not an object is answered with an error that a model can act on.
    """
    for tool in all_tools(host, server_tools):
        if tool.name == name:
            if isinstance(arguments, str):
                try:
                    arguments = json.loads(arguments or "{}")
                except ValueError:
                    return ToolResult(f"{tool.name}: the arguments are not JSON", is_error=True)
            return await tool.handler(cast("Mapping[str, Any]", arguments))
    return None


def tool_names(tools: Iterable[ServerTool], *, taken: Collection[str] = ()) -> dict[str, ServerTool]:
    """A name for each tool that every model service accepts: `SERVER__NAME`, numbered if it is taken."""
    named: dict[str, ServerTool] = {}
    for tool in tools:
        whole = re.sub(r"[^A-Za-z0-9_-]", "_", f"{tool.server}__{tool.name}")
        name, number = whole[:_NAME_CHARS], 2
        while name in named or name in taken:
            name = f"{whole[: _NAME_CHARS - len(str(number)) - 1]}_{number}"
            number += 1
        named[name] = tool
    return named


async def answered_calls(
    host: SkillHost,
    parts: Iterable[Any],
    server_tools: Sequence[ServerTool],
    *,
    kind: str,
    arguments: str,
) -> AsyncGenerator[tuple[Any, ToolResult]]:
    """Each call of a tool of the host or of these servers among the parts of this kind, with its result.

    `arguments` is the field that has the arguments of a call. Calls of other tools are left out.
    """
    for part in parts:
        if field(part, "type") == kind:
            result = await call_tool(host, field(part, "name"), field(part, arguments), server_tools)
            if result is not None:
                yield part, result


async def ask_or_call(
    host: SkillHost, tool: Tool, arguments: Mapping[str, Any], *, yes: str = ""
) -> ToolResult | CallQuestion:
    """The result of a call, or the question that has to be answered first. From any thread or event loop."""
    return await on_loop(host, _ask_or_call, host, tool, arguments, yes, True)


async def question_about(host: SkillHost, tool: Tool, arguments: Mapping[str, Any]) -> CallQuestion | None:
    """The question that has to be answered before a call, which is not made; `None` when it needs none."""
    asked = await on_loop(host, _ask_or_call, host, tool, arguments, "", False)
    return asked if isinstance(asked, CallQuestion) else None


async def _ask_or_call(
    host: SkillHost, tool: Tool, arguments: Mapping[str, Any], yes: str, call: bool
) -> ToolResult | CallQuestion:
    handler = tool.handler if call or tool.check is None else tool.check
    if host.decide.can_ask:
        return await handler(arguments)
    questions: list[CallQuestion] = []

    given = yes.split()

    async def ask(request: ApprovalRequest) -> bool:
        questions.append(_about_skill(host, request))
        return questions[-1].digest in given

    async def ask_read(request: ReadRequest) -> bool:
        questions.append(_about_read(request))
        return questions[-1].digest in given

    async def ask_tool(request: ToolRequest) -> bool:
        questions.append(_about_tool(request))
        return questions[-1].digest in given

    with host.asking(ask, ask_read, ask_tool):
        result = await handler(arguments)
    unanswered = [question for question in questions if question.digest not in given]
    if not unanswered:
        return result
    # One call can need two answers: the next yes is for both, as one text.
    before = [question.digest for question in questions if question.digest in given]
    return replace(unanswered[0], digest=" ".join(dict.fromkeys([*before, unanswered[0].digest])))


class ShownQuestions:
    """For frameworks that stop before a call is made, and then make it: what the user was shown meanwhile.

    A call that continues counts as a yes to the question that was shown for it, once, and to nothing else.
    """

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    async def show(
        self,
        host: SkillHost,
        name: str,
        arguments: Mapping[str, Any],
        server_tools: Iterable[ServerTool] = (),
    ) -> CallQuestion | None:
        """The question that a call needs answered; `None` when it needs none. Nothing is loaded for a no."""
        tool = next((tool for tool in all_tools(host, server_tools) if tool.name == name), None)
        question = await question_about(host, tool, arguments) if tool else None
        if question is not None:
            self._shown[_call_key(name, arguments)] = question.digest
        return question

    async def call(self, host: SkillHost, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult:
        """The result of a call that the framework let through."""
        yes = self._shown.pop(_call_key(tool.name, arguments), "")
        outcome = await ask_or_call(host, tool, arguments, yes=yes)
        return refused(outcome) if isinstance(outcome, CallQuestion) else outcome


def may_ask(tool: Tool) -> bool:
    """Whether a call of this tool can lead to a question. Files of skills that were loaded lead to none."""
    return tool.name not in (READ_TOOL, LIST_TOOL, SEARCH_TOOL)


def refused(question: CallQuestion) -> ToolResult:
    """Tell a model that the user did not agree to a call, or was not asked about it as it is now."""
    if question.tool:
        what = f"this call of {question.tool} of {question.server}"
    else:
        what = f"{f'the skill {question.skill}' if question.skill else 'this read'} from {question.server}"
    return ToolResult(
        f"{what} was not approved as it is now. Only the user can do that: tell them.",
        is_error=True,
    )


def _about_skill(host: SkillHost, request: ApprovalRequest) -> CallQuestion:
    return CallQuestion(
        text=host.style.confirmation(request),
        digest=str(request.digest or request.seen_digest),
        skill=request.skill.handle,
        server=request.skill.origin.label,
    )


def _about_read(request: ReadRequest) -> CallQuestion:
    held = ", ".join(str(origin) for origin in request.held)
    uri = shown_uri(request.uri)
    return CallQuestion(
        text=f"Read {uri} from {request.target}, while a skill from {held} is in use?",
        digest=_digest([request.uri, str(request.target), held]),
        server=request.target.label,
    )


def _about_tool(request: ToolRequest) -> CallQuestion:
    arguments = json.dumps(dict(request.arguments), sort_keys=True, ensure_ascii=False, default=str)
    why = "" if request.execution.allowed else f" It {request.execution}."
    return CallQuestion(
        text=f"Call {safe_line(request.qualified_name)} with {safe_line(arguments, limit=2000)}?{why}",
        digest=_digest([request.qualified_name, arguments]),
        tool=safe_line(request.name),
        server=request.server,
    )


def _digest(parts: Sequence[str]) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"


def _call_key(name: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps([name, dict(arguments)], sort_keys=True, default=str)


def items(value: object, name: str) -> list[Any]:
    """A field that is a list; empty where it is absent."""
    found = field(value, name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def field(value: object, name: str) -> Any:
    """A field of a client's object, or of the same as a dictionary; `None` where it is absent."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name)
    return getattr(value, name, None)
