# pyright: basic, reportMissingImports=false
"""Skills for the OpenAI Agents SDK.

skills = AgentSkills(host)
agent = Agent(name="Shop", instructions=skills.instructions("You help customers."), tools=skills.tools())

A host without `ask` interrupts a run before a call that needs the user. `skills.question(item)` says what to
ask about an item of `result.interruptions`; answer with `state.approve(item)` or `state.reject(item)`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from skillwire.adapters.calls import CallQuestion, all_tools, ask_or_call, field, question_about, refused
from skillwire.host import ServerTool, SkillHost, Tool
from skillwire.lazy import missing_package

try:
    from agents import FunctionTool
    from agents.items import ToolApprovalItem
    from agents.tool_context import ToolContext
except ModuleNotFoundError as error:
    raise missing_package(error, "openai-agents") from None


class AgentSkills:
    """The catalog of a host as instructions, and its tools. The host has to be open while an agent runs."""

    def __init__(
        self, host: SkillHost, *, budget: int | None = None, server_tools: Sequence[ServerTool] = ()
    ) -> None:
        """`budget` is for the catalog, in characters. `server_tools` are those of `await
        host.server_tools()` to hand on, each as `SERVER__NAME`."""
        self._host = host
        self._server_tools = server_tools
        self._budget = budget
        self._questions: dict[str, CallQuestion] = {}

    def instructions(self, text: str = "") -> Callable[[Any, Any], str]:
        """Your instructions and the catalog, made again for every turn: for `Agent(instructions=...)`."""

        def make(context: Any, agent: Any) -> str:
            parts = (text, self._host.catalog(budget=self._budget))
            return "\n\n".join(part for part in parts if part)

        return make

    def tools(self) -> list[Any]:
        """The tools of the host, for `Agent(tools=...)`. Search is offered when the catalog has no room."""
        return [self._tool(tool) for tool in all_tools(self._host, self._server_tools, search=True)]

    def question(self, item: ToolApprovalItem) -> CallQuestion | None:
        """The question to the user about an interruption; `None` when it is not about a skill of this
        host."""
        return self._questions.get(str(field(item.raw_item, "call_id")))

    def _tool(self, tool: Tool) -> FunctionTool:
        async def needs_approval(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
            question = await question_about(self._host, tool, arguments)
            if question is not None:
                self._questions[call_id] = question
            return question is not None

        async def invoke(context: ToolContext[Any], text: str) -> str:
            # The runner comes here only with the user's yes, or when none was needed.
            question = self._questions.pop(context.tool_call_id, None)
            try:
                arguments = json.loads(text or "{}")
            except ValueError:
                return f"{tool.name}: the arguments are not JSON"
            yes = question.digest if question else ""
            outcome = await ask_or_call(self._host, tool, arguments, yes=yes)
            return (refused(outcome) if isinstance(outcome, CallQuestion) else outcome).text

        def is_offered(context: Any, agent: Any) -> bool:
            offered = all_tools(self._host, self._server_tools)
            return any(tool.name == one.name for one in offered)

        return FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.input_schema,
            on_invoke_tool=invoke,
            strict_json_schema=False,
            is_enabled=is_offered,
            needs_approval=False if self._host.decide.can_ask else needs_approval,
        )
