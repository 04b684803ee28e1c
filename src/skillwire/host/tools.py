"""Tools for a model: JSON schemas and handlers that any framework can call.

A handler gives a `ToolResult`, also when something is wrong: then it says what in words that a model can act
on, and `is_error` is set. What a server made stands in a fence; the rest are our own words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from skillwire.catalog.render import LIST_TOOL, LOAD_TOOL, READ_TOOL
from skillwire.errors import ApprovalRequired, SkillwireError
from skillwire.issues import shown
from skillwire.trust.paths import shown_path

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost

RESOURCE_TOOL = "read_resource"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to a tool call: it enters the conversation as a tool's result, never as a system message."""

    text: str
    is_error: bool = False


Handler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as models are told about it, and the function behind it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    handler: Handler = field(repr=False)

    def for_anthropic(self) -> dict[str, Any]:
        """The definition in the shape of Anthropic's Messages API."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    def for_openai(self) -> dict[str, Any]:
        """The definition in the shape of OpenAI's Chat Completions API."""
        function = {"name": self.name, "description": self.description, "parameters": self.input_schema}
        return {"type": "function", "function": function}


def make_tools(host: SkillHost) -> tuple[Tool, ...]:
    """The four tools, bound to one host."""

    async def load_skill(arguments: Mapping[str, Any]) -> str:
        loaded = await host.load(arguments["name"], server=arguments.get("server"))
        return loaded.text

    async def read_skill_file(arguments: Mapping[str, Any]) -> str:
        return await host.read(arguments["name"], arguments["path"])

    async def list_skill_files(arguments: Mapping[str, Any]) -> str:
        view = await host.list_directory(arguments["name"], arguments.get("path") or "")
        lines = [
            shown_path(child.name)
            + ("/" if child.is_directory else f" ({child.size} bytes)" if child.size is not None else "")
            for child in view.children
        ]
        if view.remark:
            lines.append(f"({view.remark})")
        return "\n".join(lines) or "(empty)"

    async def read_resource(arguments: Mapping[str, Any]) -> str:
        return await host.read_resource(arguments["server"], arguments["uri"])

    return (
        _tool(
            LOAD_TOOL,
            "Load a skill: instructions for a kind of task. Call it before you start on a task that a skill "
            "in the catalogue fits. The result is reference text from the named origin.",
            {
                "name": "The skill's name in the catalogue, or its URI.",
                "server": "The server it is on; needed only with a URI that several servers could have.",
            },
            ("name",),
            load_skill,
        ),
        _tool(
            READ_TOOL,
            "Read a supporting file of a loaded skill, such as references/guide.md.",
            {
                "name": "The loaded skill's name.",
                "path": "The file's path, starting at the skill's directory.",
            },
            ("name", "path"),
            read_skill_file,
        ),
        _tool(
            LIST_TOOL,
            "List the files in a directory of a loaded skill.",
            {"name": "The loaded skill's name.", "path": "The directory's path; the skill's own by default."},
            ("name",),
            list_skill_files,
        ),
        _tool(
            RESOURCE_TOOL,
            "Read a resource of an MCP server by its URI. The URI of a skill loads that skill.",
            {"server": "The server's name.", "uri": "The resource's URI, as it was given to you."},
            ("server", "uri"),
            read_resource,
        ),
    )


def _tool(
    name: str,
    description: str,
    parameters: Mapping[str, str],
    required: tuple[str, ...],
    handler: Callable[[Mapping[str, Any]], Awaitable[str]],
) -> Tool:
    async def answer(arguments: Mapping[str, Any]) -> ToolResult:
        for key, value in arguments.items():
            if key in parameters and value is not None and not isinstance(value, str):
                return ToolResult(f"{name}: {key} must be a string", is_error=True)
        missing = [key for key in required if not arguments.get(key)]
        if missing:
            return ToolResult(f"{name}: say {' and '.join(missing)}", is_error=True)
        try:
            return ToolResult(await handler(arguments))
        except ApprovalRequired as error:
            return ToolResult(
                f"{shown(str(error), 1000)}. Only the user can do that: tell them.", is_error=True
            )
        except SkillwireError as error:
            return ToolResult(shown(str(error), 1000), is_error=True)

    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in parameters.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name, description, schema, answer)
