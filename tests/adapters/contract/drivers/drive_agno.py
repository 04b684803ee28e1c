# pyright: basic, reportMissingImports=false
"""Agno, with a model of its own interface."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.base import Model
from agno.models.response import ModelResponse

from adapters.contract.driver import Answer, Script, agrees
from skillwire.adapters.agno import HostSkills
from skillwire.host import SkillHost

asks_natively = True
package = "agno"


@dataclass
class ScriptModel(Model):
    id: str = "script"
    script: Any = None

    def invoke(self, messages: Any, tools: Any = None, **more: Any) -> ModelResponse:
        system = "\n".join(str(one.content) for one in messages if one.role == "system")
        results = [str(one.content) for one in messages if one.role == "tool"]
        names = [tool["function"]["name"] for tool in tools or []]
        move = self.script.next_move(system, names, results)
        if isinstance(move, str):
            return ModelResponse(role="assistant", content=move)
        function = {"name": move[0], "arguments": json.dumps(move[1])}
        call = {"id": f"call-{uuid.uuid4().hex}", "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[call])

    async def ainvoke(self, messages: Any, tools: Any = None, **more: Any) -> ModelResponse:
        return self.invoke(messages, tools)

    def invoke_stream(self, *arguments: Any, **more: Any) -> Any:
        raise NotImplementedError

    def ainvoke_stream(self, *arguments: Any, **more: Any) -> Any:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **more: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


def _agent(host: SkillHost, script: Script, servers: Any = ()) -> tuple[HostSkills, Agent]:
    skills = HostSkills(host, server_tools=servers)
    agent = Agent(
        model=ScriptModel(script=script),
        instructions="You help.",
        skills=skills,
        db=InMemoryDb(),
        telemetry=False,
    )
    return skills, agent


def _answer(requirement: Any, question: Any, script: Script, user: Answer) -> None:
    if question is None or script.ask(question.as_dict(), user):
        requirement.confirm()
    else:
        requirement.reject()


async def run(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    skills, agent = _agent(host, script, await script.server_tools(host))
    session = uuid.uuid4().hex
    result = await agent.arun("Go.", session_id=session)
    while result.is_paused:
        for requirement in result.active_requirements:
            _answer(requirement, await skills.question(requirement), script, user)
        result = await agent.acontinue_run(
            run_id=result.run_id, requirements=result.requirements, session_id=session
        )
    return result.content


def run_sync(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    skills, agent = _agent(host, script)
    session = uuid.uuid4().hex
    result = agent.run("Go.", session_id=session)
    while result.is_paused:
        for requirement in result.active_requirements:
            _answer(requirement, skills.question_sync(requirement), script, user)
        result = agent.continue_run(
            run_id=result.run_id, requirements=result.requirements, session_id=session
        )
    return result.content
