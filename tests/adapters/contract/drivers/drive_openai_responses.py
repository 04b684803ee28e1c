# pyright: basic, reportMissingImports=false
"""OpenAI's client and its Responses API, in a plain loop."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI, OpenAI

from adapters.contract.driver import Answer, Script, agrees
from adapters.contract.service import service_for
from scripted_model import serving
from skillwire.adapters.openai import answer_response, response_tools
from skillwire.host import SkillHost
from skillwire.host import run_sync as run_on_host

asks_natively = False
package = "openai"


def _request(host: SkillHost, given: list[Any], servers: Any = ()) -> dict[str, Any]:
    instructions, tools = f"You help.\n\n{host.catalog()}", response_tools(host, server_tools=servers)
    return {"model": "scripted", "instructions": instructions, "tools": tools, "input": given}


async def run(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    given: list[Any] = [{"role": "user", "content": "Go."}]
    servers = await script.server_tools(host)
    with serving(service_for(script)) as model:
        async with AsyncOpenAI(api_key=model.key, base_url=model.url, max_retries=0) as client:
            response = await client.responses.create(**_request(host, given, servers))
            while answers := await answer_response(host, response, server_tools=servers):
                given += [*response.output, *answers]
                response = await client.responses.create(**_request(host, given, servers))
    return response.output_text


def run_sync(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    given: list[Any] = [{"role": "user", "content": "Go."}]
    with (
        serving(service_for(script)) as model,
        OpenAI(api_key=model.key, base_url=model.url, max_retries=0) as client,
    ):
        response = client.responses.create(**_request(host, given))
        while answers := run_on_host(host, answer_response, host, response):
            given += [*response.output, *answers]
            response = client.responses.create(**_request(host, given))
    return response.output_text
