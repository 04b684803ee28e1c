"""Skills for Anthropic's Messages API.

reply = client.messages.create(model=..., system=host.catalog(), tools=tools_for(host), messages=messages)
while results := await answer_tool_calls(host, reply):
    messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    reply = client.messages.create(...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skillwire.adapters.calls import all_tools, answered_calls, field, items
from skillwire.host import ServerTool, SkillHost


def tools_for(host: SkillHost, *, server_tools: Sequence[ServerTool] = ()) -> list[dict[str, Any]]:
    """The tools of a host, as the parameter `tools` takes them.

    `server_tools` are those of `await host.server_tools()` to hand on, each as `SERVER__NAME`.
    """
    return [tool.for_anthropic() for tool in all_tools(host, server_tools)]


async def answer_tool_calls(
    host: SkillHost, reply: object, *, server_tools: Sequence[ServerTool] = ()
) -> list[dict[str, Any]]:
    """A `tool_result` block for each call of a tool of `tools_for` in a reply, for the next user message.

    `reply` is a `Message` of the client or the same as a dictionary. Calls of other tools are left to you.
    """
    calls = answered_calls(host, items(reply, "content"), server_tools, kind="tool_use", arguments="input")
    return [
        {
            "type": "tool_result",
            "tool_use_id": field(block, "id"),
            "content": result.text,
            "is_error": result.is_error,
        }
        async for block, result in calls
    ]
