# pyright: basic, reportMissingImports=false
"""Skills for LangChain, LangGraph and deepagents: `create_agent(model, middleware=[SkillMiddleware(host)])`.

`create_deep_agent` takes the same middleware. A host without `ask` interrupts the graph before a call that
needs the user, which needs a checkpointer: the value of the interrupt is the question. Resume with
`Command(resume=question["digest"])` for a yes, and anything else for a no.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from skillwire.adapters.calls import CallQuestion, all_tools, ask_or_call, refused
from skillwire.host import ServerTool, SkillHost, Tool, ToolResult, run_sync
from skillwire.lazy import missing_package

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import ModelRequest
    from langchain_core.messages import SystemMessage, ToolMessage
    from langchain_core.tools import StructuredTool
    from langgraph.types import interrupt
except ModuleNotFoundError as error:
    raise missing_package(error, "langchain") from None


class SkillMiddleware(AgentMiddleware):
    """The catalog of a host in the system message, and its tools. The host has to be open meanwhile."""

    def __init__(
        self, host: SkillHost, *, budget: int | None = None, server_tools: Sequence[ServerTool] = ()
    ) -> None:
        """`budget` is for the catalog, in characters. `server_tools` are those of `await
        host.server_tools()` to hand on, each as `SERVER__NAME`."""
        super().__init__()
        self._server_tools = server_tools
        self._host = host
        self._budget = budget
        self._tools = {tool.name: tool for tool in all_tools(host, server_tools, search=True)}
        self.tools = [_definition(tool) for tool in self._tools.values()]

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        return handler(self._with_catalog(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        return await handler(self._with_catalog(request))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        tool = self._tools.get(request.tool_call["name"])
        if tool is None:
            return handler(request)
        arguments = request.tool_call["args"]
        outcome = run_sync(self._host, partial(ask_or_call, self._host, tool, arguments))
        if isinstance(outcome, CallQuestion):
            yes = _asked(outcome)
            outcome = run_sync(self._host, partial(ask_or_call, self._host, tool, arguments, yes=yes))
        return _message(request, outcome)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        tool = self._tools.get(request.tool_call["name"])
        if tool is None:
            return await handler(request)
        arguments = request.tool_call["args"]
        outcome = await ask_or_call(self._host, tool, arguments)
        if isinstance(outcome, CallQuestion):
            yes = _asked(outcome)
            outcome = await ask_or_call(self._host, tool, arguments, yes=yes)
        return _message(request, outcome)

    def _with_catalog(self, request: ModelRequest) -> ModelRequest:
        offered = {tool.name for tool in all_tools(self._host, self._server_tools)}
        tools = [
            tool
            for tool in request.tools
            if (name := getattr(tool, "name", None)) not in self._tools or name in offered
        ]
        catalog = self._host.catalog(budget=self._budget)
        if not catalog:
            return request.override(tools=tools)
        before = list(request.system_message.content_blocks) if request.system_message else []
        text = f"\n\n{catalog}" if before else catalog
        message = SystemMessage(content_blocks=[*before, {"type": "text", "text": text}])
        return request.override(tools=tools, system_message=message)


def _asked(question: CallQuestion) -> str:
    """The answer, when the graph continues; the first time this ends the step."""
    answer = interrupt(question.as_dict())
    # A yes is the digest that was shown: the graph may go on much later, when the skill has changed.
    return answer if isinstance(answer, str) else ""


def _message(request: Any, outcome: ToolResult | CallQuestion) -> ToolMessage:
    result = refused(outcome) if isinstance(outcome, CallQuestion) else outcome
    return ToolMessage(
        content=result.text,
        tool_call_id=request.tool_call["id"],
        name=request.tool_call["name"],
        status="error" if result.is_error else "success",
    )


def _definition(tool: Tool) -> StructuredTool:
    """A tool as a model is told about it. Calls of it are answered by the middleware."""

    def unreachable(**arguments: Any) -> str:
        raise RuntimeError(f"{tool.name} is answered by SkillMiddleware: keep that in the agent")

    return StructuredTool(
        name=tool.name, description=tool.description, args_schema=tool.input_schema, func=unreachable
    )
