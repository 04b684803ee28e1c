# pyright: basic, reportMissingImports=false
"""The OpenAI Agents SDK, with a model of its own interface."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from adapters.contract.driver import Answer, Script, agrees
from skillwire.adapters.openai_agents import AgentSkills
from skillwire.host import SkillHost

asks_natively = True
package = "openai-agents"
set_tracing_disabled(True)


class ScriptModel(Model):
    def __init__(self, script: Script) -> None:
        self.script = script
        self.calls = 0

    async def get_response(self, system_instructions, input, model_settings, tools, *rest, **more):
        outputs = (
            [] if isinstance(input, str) else [one for one in input if _type(one) == "function_call_output"]
        )
        results = [one["output"] for one in outputs]
        move = self.script.next_move(system_instructions or "", [tool.name for tool in tools], results)
        self.calls += 1
        if isinstance(move, str):
            text = ResponseOutputText(type="output_text", text=move, annotations=[])
            item: Any = ResponseOutputMessage(
                id=f"m{self.calls}", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            item = ResponseFunctionToolCall(
                type="function_call",
                call_id=f"c{id(self)}-{self.calls}",
                name=move[0],
                arguments=json.dumps(move[1]),
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _type(item: Any) -> Any:
    return item.get("type") if isinstance(item, dict) else getattr(item, "type", None)


def _agent(host: SkillHost, script: Script, servers: Any = ()) -> tuple[AgentSkills, Agent[Any]]:
    skills = AgentSkills(host, server_tools=servers)
    instructions = skills.instructions("You help.")
    return skills, Agent(
        name="Shop", instructions=instructions, tools=skills.tools(), model=ScriptModel(script)
    )


def _answered(skills: AgentSkills, result: Any, script: Script, user: Answer) -> Any:
    state = result.to_state()
    for item in result.interruptions:
        question = skills.question(item)
        assert question is not None
        if script.ask(question.as_dict(), user):
            state.approve(item)
        else:
            state.reject(item)
    return state


async def run(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    skills, agent = _agent(host, script, await script.server_tools(host))
    result = await Runner.run(agent, "Go.")
    while result.interruptions:
        result = await Runner.run(agent, _answered(skills, result, script, user))
    return result.final_output


def run_sync(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    skills, agent = _agent(host, script)
    result = Runner.run_sync(agent, "Go.")
    while result.interruptions:
        result = Runner.run_sync(agent, _answered(skills, result, script, user))
    return result.final_output
