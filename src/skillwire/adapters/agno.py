# pyright: basic, reportMissingImports=false
"""Skills for Agno: `Agent(model=..., skills=HostSkills(host))`.

With a host without `ask`, Agno pauses a run before a call that may need the user. Show the user
`await skills.question(requirement)` for each of `run.active_requirements`, call its `confirm()` or
`reject()`, and continue the run. A call that was confirmed without its question is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from skillwire.adapters.calls import CallQuestion, ShownQuestions, all_tools, may_ask
from skillwire.host import ServerTool, SkillHost, Tool, run_sync
from skillwire.lazy import missing_package

try:
    from agno.skills import Skills
    from agno.tools.function import Function
except ModuleNotFoundError as error:
    raise missing_package(error, "agno") from None


class HostSkills(Skills):
    """The catalog of a host in the system message, and its tools in place of Agno's own for skills.

    Agno's loaders give whole skills to the agent when it is made, and its tools run their scripts. Here a
    skill is loaded when it is needed, with approval, and a script of it runs in the sandbox of the host's
    runner or not at all. The host has to be open meanwhile.
    """

    def __init__(
        self, host: SkillHost, *, budget: int | None = None, server_tools: Sequence[ServerTool] = ()
    ) -> None:
        """`budget` is for the catalog, in characters. `server_tools` are those of `await
        host.server_tools()` to hand on, each as `SERVER__NAME`."""
        super().__init__(loaders=[])
        self._server_tools = server_tools
        self._host = host
        self._budget = budget
        self._shown = ShownQuestions()

    def get_skill_names(self) -> list[str]:
        return [skill.handle for skill in self._host.skills(for_models=True)]

    def get_system_prompt_snippet(self) -> str:
        return self._host.catalog(budget=self._budget)

    def get_tools(self) -> list[Function]:
        tools = all_tools(self._host, self._server_tools)
        return [self._function(tool, is_async=_has_loop()) for tool in tools]

    async def question(self, requirement: Any) -> CallQuestion | None:
        """The question to the user about a requirement of a paused run; `None` when nothing has to be
        asked."""
        call = requirement.tool_execution
        return await self._shown.show(self._host, call.tool_name, call.tool_args or {}, self._server_tools)

    def question_sync(self, requirement: Any) -> CallQuestion | None:
        """The same as `question`, for synchronous programs."""
        return run_sync(self._host, self.question, requirement)

    def _function(self, tool: Tool, *, is_async: bool) -> Function:
        async def call(**arguments: Any) -> str:
            return (await self._shown.call(self._host, tool, arguments)).text

        def call_sync(**arguments: Any) -> str:
            return run_sync(self._host, partial(call, **arguments))

        return Function(
            name=tool.name,
            description=tool.description,
            parameters=tool.input_schema,
            entrypoint=call if is_async else call_sync,
            skip_entrypoint_processing=True,
            requires_confirmation=(may_ask(tool) and not self._host.decide.can_ask) or None,
        )


def _has_loop() -> bool:
    """Whether the agent runs asynchronously: Agno asks for the tools inside the run."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
