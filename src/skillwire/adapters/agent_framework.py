# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""Skills for the Microsoft Agent Framework: `Agent(client, context_providers=[HostSkills(host)])`.

With a host without `ask`, the framework asks for approval before a call that may need the user. Show them
`await skills.question(request)` for each of `response.user_input_requests`, and answer with
`request.to_function_approval_response(yes)`. A call that was approved without its question is refused.

`HostSkillsSource(host)` gives the same skills to the framework's own `SkillsProvider`, beside other sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skillwire.adapters.calls import (
    CallQuestion,
    ShownQuestions,
    all_tools,
    ask_or_call,
    may_ask,
    refused,
    server_tools_of,
)
from skillwire.catalog import HostSkill
from skillwire.host import ServerTool, SkillHost, Tool
from skillwire.lazy import missing_package
from skillwire.text import clean_line

try:
    from agent_framework import (
        ContextProvider,
        FunctionTool,
        Skill,
        SkillFrontmatter,
        SkillResource,
        SkillsSource,
    )
except ModuleNotFoundError as error:
    raise missing_package(error, "agent-framework") from None


class HostSkills(ContextProvider):
    """The catalog of a host as instructions, and its tools. The host has to be open while an agent runs."""

    def __init__(
        self,
        host: SkillHost,
        *,
        budget: int | None = None,
        source_id: str = "skillwire",
        server_tools: bool = False,
    ) -> None:
        """`budget` is for the catalog, in characters. With `server_tools`, the tools of the host's servers
        are there too, each as `SERVER__NAME`."""
        super().__init__(source_id)
        self._server_tools = server_tools
        self._host = host
        self._budget = budget
        self._shown = ShownQuestions()

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        catalog = self._host.catalog(budget=self._budget)
        if catalog:
            context.extend_instructions(self.source_id, catalog)
        context.extend_tools(
            self.source_id, [self._tool(tool) for tool in all_tools(self._host, await self._servers())]
        )

    async def question(self, request: Any) -> CallQuestion | None:
        """The question to the user about an approval request; `None` when the call needs no answer of
        theirs."""
        call = request.function_call
        arguments = call.parse_arguments() or {}
        return await self._shown.show(self._host, call.name, arguments, await self._servers())

    async def _servers(self) -> Sequence[ServerTool]:
        return await server_tools_of(self._host) if self._server_tools else ()

    def _tool(self, tool: Tool) -> FunctionTool:
        async def call(**arguments: Any) -> str:
            return (await self._shown.call(self._host, tool, arguments)).text

        asks = may_ask(tool) and not self._host.decide.can_ask
        return FunctionTool(
            name=tool.name,
            description=tool.description,
            func=call,
            input_model=tool.input_schema,
            approval_mode="always_require" if asks else "never_require",
        )


class HostSkillsSource(SkillsSource):
    """The skills of a host for `SkillsProvider`. What needs the user's approval is asked by the host alone.

    Skills whose handle is not a plain name, because two have the same name, are left out: use `HostSkills`
    for those.
    """

    def __init__(self, host: SkillHost) -> None:
        self._host = host

    async def get_skills(self, context: Any) -> list[Skill]:
        skills = self._host.skills(for_models=True)
        return [_HostSkill(self._host, skill) for skill in skills if skill.handle == skill.entry.name]


class _HostSkill(Skill):
    def __init__(self, host: SkillHost, skill: HostSkill) -> None:
        self._host = host
        self._handle = skill.handle
        described = clean_line(skill.entry.description, limit=1000).text or "(no description)"
        self._frontmatter = SkillFrontmatter(name=skill.handle, description=described)

    @property
    def frontmatter(self) -> SkillFrontmatter:
        return self._frontmatter

    async def get_content(self) -> str:
        return await self._call("load_skill", {"name": self._handle})

    async def get_resource(self, name: str) -> SkillResource | None:
        return _HostResource(self, name)

    async def _call(self, name: str, arguments: dict[str, str]) -> str:
        tool = next(tool for tool in self._host.tools() if tool.name == name)
        outcome = await ask_or_call(self._host, tool, arguments)
        return (refused(outcome) if isinstance(outcome, CallQuestion) else outcome).text


class _HostResource(SkillResource):
    def __init__(self, skill: _HostSkill, name: str) -> None:
        super().__init__(name=name)
        self._skill = skill

    async def read(self, **options: Any) -> str:
        arguments = {"name": self._skill.frontmatter.name, "path": self.name}
        return await self._skill._call("read_skill_file", arguments)
