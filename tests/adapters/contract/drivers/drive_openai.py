# pyright: basic, reportMissingImports=false
"""OpenAI's client and its Chat Completions API, in a plain loop."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI, OpenAI

from adapters.contract.driver import Answer, Script, agrees
from adapters.contract.service import service_for
from scripted_model import serving
from skillwire.adapters.openai import answer_chat, chat_tools
from skillwire.host import SkillHost
from skillwire.host import run_sync as run_on_host

asks_natively = False
package = "openai"


def _request(host: SkillHost, messages: list[Any], servers: Any = ()) -> dict[str, Any]:
    system = {"role": "system", "content": f"You help.\n\n{host.catalog()}"}
    return {
        "model": "scripted",
        "tools": chat_tools(host, server_tools=servers),
        "messages": [system, *messages],
    }


async def run(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    servers = await script.server_tools(host)
    with serving(service_for(script)) as model:
        async with AsyncOpenAI(api_key=model.key, base_url=model.url, max_retries=0) as client:
            reply = await client.chat.completions.create(**_request(host, messages, servers))
            message = reply.choices[0].message
            while answers := await answer_chat(host, message, server_tools=servers):
                messages += [message, *answers]
                reply = await client.chat.completions.create(**_request(host, messages, servers))
                message = reply.choices[0].message
    return message.content or ""


def run_sync(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    with (
        serving(service_for(script)) as model,
        OpenAI(api_key=model.key, base_url=model.url, max_retries=0) as client,
    ):
        message = client.chat.completions.create(**_request(host, messages)).choices[0].message
        while answers := run_on_host(host, answer_chat, host, message):
            messages += [message, *answers]
            message = client.chat.completions.create(**_request(host, messages)).choices[0].message
    return message.content or ""
