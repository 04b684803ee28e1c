"""Shared by the adapters for model services: one call of a skill tool, and fields of a reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from skillwire.host.host import SkillHost
from skillwire.host.tools import ToolResult


async def call_tool(host: SkillHost, name: object, arguments: object) -> ToolResult | None:
    """The result of a skill tool; `None` when the host has no tool of this name.

    Arguments may come as JSON text. What is not an object is answered with an error that a model can act on.
    """
    for tool in host.tools():
        if tool.name == name:
            if isinstance(arguments, str):
                try:
                    arguments = json.loads(arguments or "{}")
                except ValueError:
                    return ToolResult(f"{tool.name}: the arguments are not JSON", is_error=True)
            return await tool.handler(cast("Mapping[str, Any]", arguments))
    return None


def items(value: object, name: str) -> list[Any]:
    """A field that is a list; empty where it is absent."""
    found = field(value, name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def field(value: object, name: str) -> Any:
    """A field of a client's object, or of the same as a dictionary; `None` where it is absent."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name)
    return getattr(value, name, None)
