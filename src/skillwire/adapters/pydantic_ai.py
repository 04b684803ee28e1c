"""Skills for pydantic-ai: `Agent(model, toolsets=[SkillToolset(host)])`.

The catalog is part of the agent's instructions, made again for each request. A host without `ask` defers a
call that needs the user: the run ends with `DeferredToolRequests`, whose metadata has the question.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import SchemaValidator, core_schema

from skillwire.adapters.calls import CallQuestion, all_tools, ask_or_call, field, server_tools_of
from skillwire.host import SkillHost, Tool
from skillwire.lazy import missing_package

try:
    from pydantic_ai import RunContext
    from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ModuleNotFoundError as error:
    raise missing_package(error, "pydantic-ai") from None

_ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))


class SkillToolset(AbstractToolset[Any]):
    """The catalog of a host as instructions, and its tools."""

    def __init__(
        self,
        host: SkillHost,
        *,
        id: str | None = "skills",
        budget: int | None = None,
        server_tools: bool = False,
    ) -> None:
        """`budget` is for the catalog, in characters. The host has to be open while an agent runs.

        With `server_tools`, the tools of the host's servers are there too, each as `SERVER__NAME`.
        """
        self._host = host
        self._id = id
        self._budget = budget
        self._server_tools = server_tools
        self._asked: dict[str, str] = {}
        self._tools: dict[str, Tool] = {}

    @property
    def id(self) -> str | None:
        return self._id

    async def get_instructions(self, ctx: RunContext[Any]) -> str | None:
        return self._host.catalog(budget=self._budget) or None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        servers = await server_tools_of(self._host) if self._server_tools else ()
        self._tools = {tool.name: tool for tool in all_tools(self._host, servers)}
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name, description=tool.description, parameters_json_schema=tool.input_schema
                ),
                max_retries=0,
                args_validator=_ANY_ARGUMENTS,
            )
            for tool in self._tools.values()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        call_id = ctx.tool_call_id or ""
        yes = ""
        if ctx.tool_call_approved:
            # What was shown comes back with the answer, or is known from this process.
            yes = str(field(ctx.tool_call_metadata, "digest") or self._asked.pop(call_id, ""))
        if (known := self._tools.get(name)) is None:
            raise ToolFailed(f"{name} is not there any more")
        outcome = await ask_or_call(self._host, known, tool_args, yes=yes)
        if isinstance(outcome, CallQuestion):
            self._asked[call_id] = outcome.digest
            raise ApprovalRequired(metadata=outcome.as_dict())
        if outcome.is_error:
            # Not a retry: two wrong names in a row must not end the run.
            raise ToolFailed(outcome.text)
        return outcome.text
