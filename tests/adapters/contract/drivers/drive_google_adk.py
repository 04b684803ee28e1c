# pyright: basic, reportMissingImports=false
"""Google ADK, with a model of its own interface."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adapters.contract.driver import Answer, Script, agrees
from skillwire.adapters.google_adk import HostToolset
from skillwire.host import SkillHost

asks_natively = True
package = "google-adk"
CONFIRM = "adk_request_confirmation"


class ScriptModel(BaseLlm):
    script: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        answers = [part.function_response for part in parts if part.function_response]
        results = [next(iter(answer.response.values())) for answer in answers if answer.name != CONFIRM]
        move = self.script.next_move(
            str(llm_request.config.system_instruction), list(llm_request.tools_dict), results
        )
        if isinstance(move, str):
            part = types.Part(text=move)
        else:
            call = types.FunctionCall(name=move[0], args=move[1], id=f"call-{uuid.uuid4().hex}")
            part = types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def _runner(host: SkillHost, script: Script) -> Runner:
    agent = LlmAgent(
        name="shop",
        model=ScriptModel(model="script", script=script),
        instruction="You help.",
        tools=[HostToolset(host, server_tools=script.with_server_tools)],
    )
    return Runner(
        app_name="shop", agent=agent, session_service=InMemorySessionService(), auto_create_session=True
    )


class Talk:
    """What the events of a run mean: the text, and the confirmations that are requested."""

    def __init__(self) -> None:
        self.text = ""
        self.requests: list[Any] = []

    def hear(self, event: Any) -> None:
        for part in (event.content.parts or []) if event.content else []:
            if part.text:
                self.text = part.text
            if part.function_call and part.function_call.name == CONFIRM:
                self.requests.append(part.function_call)

    def answers(self, script: Script, user: Answer) -> types.Content | None:
        requests, self.requests = self.requests, []
        parts: list[types.Part] = []
        for call in requests:
            shown = call.args["toolConfirmation"]
            confirmed = script.ask(shown["payload"], user)
            response = {"confirmed": confirmed, "payload": shown["payload"]}
            parts.append(
                types.Part(
                    function_response=types.FunctionResponse(id=call.id, name=CONFIRM, response=response)
                )
            )
        return types.Content(role="user", parts=parts) if parts else None


async def run(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    runner, talk, session = _runner(host, script), Talk(), uuid.uuid4().hex
    message: Any = types.Content(role="user", parts=[types.Part(text="Go.")])
    while message is not None:
        async for event in runner.run_async(user_id="u", session_id=session, new_message=message):
            talk.hear(event)
        message = talk.answers(script, user)
    return talk.text


def run_sync(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    runner, talk, session = _runner(host, script), Talk(), uuid.uuid4().hex
    message: Any = types.Content(role="user", parts=[types.Part(text="Go.")])
    while message is not None:
        for event in runner.run(user_id="u", session_id=session, new_message=message):
            talk.hear(event)
        message = talk.answers(script, user)
    return talk.text
