# pyright: basic, reportMissingImports=false
"""Anthropic's client and its Messages API; the loop is the one that the adapter's docstring shows."""

from __future__ import annotations

from typing import Any

from anthropic import Anthropic, AsyncAnthropic

from adapters.contract.driver import Answer, Script, agrees
from adapters.contract.service import service_for
from scripted_model import serving
from skillwire.adapters.anthropic import answer_tool_calls, tools_for
from skillwire.host import SkillHost
from skillwire.host import run_sync as run_on_host

asks_natively = False
package = "anthropic"


def _request(host: SkillHost, messages: list[Any], servers: Any = ()) -> dict[str, Any]:
    return {
        "model": "scripted",
        "max_tokens": 100,
        "system": f"You help.\n\n{host.catalog()}",
        "tools": tools_for(host, server_tools=servers),
        "messages": messages,
    }


def _continued(messages: list[Any], reply: Any, results: list[dict[str, Any]]) -> list[Any]:
    said = {"role": "assistant", "content": reply.content}
    return [*messages, said, {"role": "user", "content": results}]


async def run(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    servers = await script.server_tools(host)
    with serving(service_for(script)) as model:
        async with AsyncAnthropic(api_key=model.key, base_url=model.url, max_retries=0) as client:
            reply = await client.messages.create(**_request(host, messages, servers))
            while results := await answer_tool_calls(host, reply, server_tools=servers):
                messages = _continued(messages, reply, results)
                reply = await client.messages.create(**_request(host, messages, servers))
    return reply.content[0].text


def run_sync(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    with (
        serving(service_for(script)) as model,
        Anthropic(api_key=model.key, base_url=model.url, max_retries=0) as client,
    ):
        reply = client.messages.create(**_request(host, messages))
        while results := run_on_host(host, answer_tool_calls, host, reply):
            messages = _continued(messages, reply, results)
            reply = client.messages.create(**_request(host, messages))
    return reply.content[0].text
