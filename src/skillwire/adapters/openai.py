"""Skills for OpenAI's APIs: Chat Completions and Responses.

Chat Completions: `tools=chat_tools(host)`, then `messages += await answer_chat(host, message)`.
Responses: `tools=response_tools(host)`, then `input += await answer_response(host, response)`.
"""

from __future__ import annotations

from typing import Any

from skillwire.adapters.calls import answered_calls, call_tool, field, items
from skillwire.host import SkillHost


def chat_tools(host: SkillHost) -> list[dict[str, Any]]:
    """The tools of a host, as Chat Completions takes them."""
    return [tool.for_openai() for tool in host.tools()]


def response_tools(host: SkillHost) -> list[dict[str, Any]]:
    """The tools of a host, as the Responses API takes them."""
    return [{"type": "function", **tool.for_openai()["function"], "strict": False} for tool in host.tools()]


async def answer_chat(host: SkillHost, message: object) -> list[dict[str, Any]]:
    """A message of the role `tool` for each call of a skill tool in an assistant's message.

    `message` is a `ChatCompletionMessage` or the same as a dictionary. Calls of other tools are left to you.
    """
    answers: list[dict[str, Any]] = []
    for call in items(message, "tool_calls"):
        function = field(call, "function")
        result = await call_tool(host, field(function, "name"), field(function, "arguments"))
        if result is not None:
            answers.append({"role": "tool", "tool_call_id": field(call, "id"), "content": result.text})
    return answers


async def answer_response(host: SkillHost, response: object) -> list[dict[str, Any]]:
    """A `function_call_output` item for each call of a skill tool in a response, for the next `input`."""
    calls = answered_calls(host, items(response, "output"), kind="function_call", arguments="arguments")
    return [
        {"type": "function_call_output", "call_id": field(item, "call_id"), "output": result.text}
        async for item, result in calls
    ]
