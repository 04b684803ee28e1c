# pyright: basic, reportMissingImports=false
"""The Microsoft Agent Framework, with a chat client of its own interface."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    SkillsProvider,
)

from adapters.contract.driver import Answer, Script, agrees
from skillwire.adapters.agent_framework import HostSkills, HostSkillsSource
from skillwire.host import SkillHost

asks_natively = True
package = "agent-framework-core"


class ScriptClient(FunctionInvocationLayer, BaseChatClient):
    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        async def reply() -> ChatResponse:
            contents = [content for message in messages for content in message.contents]
            results = [str(content.result) for content in contents if content.type == "function_result"]
            system = "\n".join(message.text for message in messages if message.role == "system")
            system = "\n".join([options.get("instructions") or "", system])
            names = [tool.name for tool in options.get("tools") or []]
            move = self.script.next_move(system, names, results)
            if isinstance(move, str):
                content = Content.from_text(move)
            else:
                content = Content.from_function_call(
                    call_id=f"call-{uuid.uuid4().hex}", name=move[0], arguments=json.dumps(move[1])
                )
            return ChatResponse(messages=[Message(role="assistant", contents=[content])])

        return reply()


async def run(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    skills = HostSkills(host, server_tools=script.with_server_tools)
    agent = Agent(ScriptClient(script), instructions="You help.", context_providers=[skills])
    session = agent.create_session()
    response = await agent.run("Go.", session=session)
    while response.user_input_requests:
        answers = []
        for request in response.user_input_requests:
            question = await skills.question(request)
            yes = question is None or script.ask(question.as_dict(), user)
            answers.append(request.to_function_approval_response(yes))
        response = await agent.run(Message(role="user", contents=answers), session=session)
    return response.text


def run_sync(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    # The framework has no synchronous API: a synchronous program starts an event loop for a run.
    return asyncio.run(run(host, script, user))


async def run_native(host: SkillHost, script: Script) -> str:
    """The skills of a host in the framework's own provider, which has tools of its own."""
    provider = SkillsProvider(
        HostSkillsSource(host), disable_load_skill_approval=True, disable_read_skill_resource_approval=True
    )
    agent = Agent(ScriptClient(script), instructions="You help.", context_providers=[provider])
    return (await agent.run("Go.")).text
