"""The script of the contract behind a model service over HTTP, for the clients of such services."""

from __future__ import annotations

from typing import Any

from adapters.contract.driver import Move, Script
from scripted_model import ScriptedModel


def service_for(script: Script) -> ScriptedModel:
    """A service that does what the script says, and hands it the system prompt and tools of each request."""

    def move(results: list[str]) -> Move:
        request = model.requests[-1]
        return script.next_move(_system(request), [_name(tool) for tool in request["tools"]], results)

    model = ScriptedModel([move])
    return model


def _system(request: dict[str, Any]) -> str:
    if "messages" not in request:  # OpenAI's Responses
        return request["instructions"]
    if "system" in request:  # Anthropic
        return request["system"]
    return "".join(one["content"] for one in request["messages"] if one["role"] == "system")


def _name(tool: dict[str, Any]) -> str:
    return tool["name"] if "name" in tool else tool["function"]["name"]
