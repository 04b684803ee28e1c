"""Skills for OpenAI's APIs: Chat Completions and Responses.

Chat Completions: `tools=chat_tools(host)`, then `messages += await answer_chat(host, message)`.
Responses: `tools=response_tools(host)`, then `input += await answer_response(host, response)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skillwire.adapters.calls import all_tools, answered_calls, call_tool, field, items
from skillwire.host import ServerTool, SkillHost


def chat_tools(host: SkillHost, *, server_tools: Sequence[ServerTool] = ()) -> list[dict[str, Any]]:
    """The tools of a host, as Chat Completions takes them.

    `server_tools` are those of `await host.server_tools()` to hand on, each as `SERVER__NAME`.
    """
    return [tool.for_openai() for tool in all_tools(host, server_tools)]


def response_tools(host: SkillHost, *, server_tools: Sequence[ServerTool] = ()) -> list[dict[str, Any]]:
    """The tools of a host, and of its servers, as the Responses API takes them."""
    functions = [tool.for_openai()["function"] for tool in all_tools(host, server_tools)]
    return [{"type": "function", **function, "strict": False} for function in functions]


async def answer_chat(
    host: SkillHost, message: object, *, server_tools: Sequence[ServerTool] = ()
) -> list[dict[str, Any]]:
    """A message of the role `tool` for each call of a tool of `chat_tools` in an assistant's message.

    `message` is a `ChatCompletionMessage` or the same as a dictionary. Calls of other tools are left to you.
    """
    answers: list[dict[str, Any]] = []
    for call in items(message, "tool_calls"):
        function = field(call, "function")
        result = await call_tool(host, field(function, "name"), field(function, "arguments"), server_tools)
        if result is not None:
            answers.append({"role": "tool", "tool_call_id": field(call, "id"), "content": result.text})
    return answers


async def answer_response(
    host: SkillHost, response: object, *, server_tools: Sequence[ServerTool] = ()
) -> list[dict[str, Any]]:
    """A `function_call_output` item for each call of a tool of `response_tools`, for the next `input`."""
    parts = items(response, "output")
    calls = answered_calls(host, parts, server_tools, kind="function_call", arguments="arguments")
    return [
        {"type": "function_call_output", "call_id": field(item, "call_id"), "output": result.text}
        async for item, result in calls
    ]
