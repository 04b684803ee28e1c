# pyright: basic, reportMissingImports=false
"""Skills for Google's Agent Development Kit: `Agent(name="shop", model=..., tools=[HostToolset(host)])`.

The catalog is added to the instruction of every request. A host without `ask` requests a confirmation of a
call that needs the user: the hint is the question. Answer the function call `adk_request_confirmation`.
"""

from __future__ import annotations

from typing import Any

from skillwire.adapters.calls import CallQuestion, all_tools, ask_or_call, field, refused, server_tools_of
from skillwire.host import SkillHost, Tool
from skillwire.lazy import missing_package

try:
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.genai import types
except ModuleNotFoundError as error:
    raise missing_package(error, "google-adk") from None


class HostToolset(BaseToolset):
    """The catalog of a host as an instruction, and its tools. The host has to be open while an agent runs."""

    def __init__(self, host: SkillHost, *, budget: int | None = None, server_tools: bool = False) -> None:
        """`budget` is for the catalog, in characters. With `server_tools`, the tools of the host's servers
        are there too, each as `SERVER__NAME`."""
        super().__init__()
        self._server_tools = server_tools
        self._host = host
        self._budget = budget
        self._asked: dict[str, str] = {}

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        servers = await server_tools_of(self._host) if self._server_tools else ()
        return [_HostTool(self._host, tool, self._asked) for tool in all_tools(self._host, servers)]

    async def process_llm_request(self, *, tool_context: Any, llm_request: Any) -> None:
        catalog = self._host.catalog(budget=self._budget)
        if catalog:
            llm_request.append_instructions([catalog])


class _HostTool(BaseTool):
    def __init__(self, host: SkillHost, tool: Tool, asked: dict[str, str]) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._host = host
        self._tool = tool
        self._asked = asked

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._tool.input_schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> dict[str, str]:
        call_id = tool_context.function_call_id or ""
        confirmation = tool_context.tool_confirmation
        yes = ""
        if confirmation is not None:
            # What was shown comes back with the answer, or is known from this process.
            shown = self._asked.pop(call_id, "")
            yes = str(field(confirmation.payload, "digest") or shown) if confirmation.confirmed else ""
        outcome = await ask_or_call(self._host, self._tool, args, yes=yes)
        if isinstance(outcome, CallQuestion):
            if confirmation is not None:  # A no, or a yes to other files than there are now.
                return {"error": refused(outcome).text}
            self._asked[call_id] = outcome.digest
            tool_context.request_confirmation(hint=outcome.text, payload=outcome.as_dict())
            tool_context.actions.skip_summarization = True
            return {"error": "The user has to confirm this call first."}
        return {"error": outcome.text} if outcome.is_error else {"result": outcome.text}
