"""pydantic-ai, with its FunctionModel."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from adapters.contract.driver import Answer, Script, agrees
from skillwire.adapters.pydantic_ai import SkillToolset
from skillwire.host import SkillHost

asks_natively = True
package = "pydantic-ai-slim"


def _agent(host: SkillHost, script: Script) -> Agent[None, Any]:
    def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returns = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        results = [part.model_response_str() for part in returns]
        names = [tool.name for tool in info.function_tools]
        move = script.next_move(info.instructions or "", names, results)
        if isinstance(move, str):
            return ModelResponse([TextPart(move)])
        return ModelResponse([ToolCallPart(move[0], move[1])])

    return Agent(
        FunctionModel(play),
        instructions="You help.",
        toolsets=[SkillToolset(host, server_tools=script.with_server_tools)],
        output_type=[str, DeferredToolRequests],
    )


def _answers(requests: DeferredToolRequests, script: Script, user: Answer) -> DeferredToolResults:
    approvals = {
        call.tool_call_id: script.ask(requests.metadata[call.tool_call_id], user)
        for call in requests.approvals
    }
    return DeferredToolResults(approvals=dict(approvals), metadata=requests.metadata)


async def run(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    agent = _agent(host, script)
    result = await agent.run("Go.")
    while isinstance(result.output, DeferredToolRequests):
        answers = _answers(result.output, script, user)
        result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
    return result.output


def run_sync(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    agent = _agent(host, script)
    result = agent.run_sync("Go.")
    while isinstance(result.output, DeferredToolRequests):
        answers = _answers(result.output, script, user)
        result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=answers)
    return result.output
