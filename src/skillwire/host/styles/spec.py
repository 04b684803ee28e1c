"""The default style: the extension as specified, without conventions of a particular host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from skillwire.catalog.render import LIST_TOOL, LOAD_TOOL, READ_TOOL
from skillwire.host.styles.base import Actions, Style, ToolAction, ToolSpec

RESOURCE_TOOL: Final = "read_resource"


async def _load(host: Actions, arguments: Mapping[str, Any]) -> str:
    return await host.load_for_model(arguments["name"], arguments.get("server") or None)


async def _read(host: Actions, arguments: Mapping[str, Any]) -> str:
    return await host.read(arguments["name"], arguments["path"])


async def _list(host: Actions, arguments: Mapping[str, Any]) -> str:
    return await host.list_files(arguments["name"], arguments.get("path") or "")


async def _read_resource(host: Actions, arguments: Mapping[str, Any]) -> str:
    return await host.read_resource(arguments["server"], arguments["uri"])


def read_resource_tool(name: str, description: str) -> ToolSpec:
    """The tool of a style that reads a resource of a server."""
    return ToolSpec(
        name=name,
        description=description,
        parameters=(("server", "The server's name."), ("uri", "The URI, exactly as it was given to you.")),
        required=("server", "uri"),
        action=_read_resource,
    )


def _file_tool(
    name: str, description: str, path: str, action: ToolAction, *, required: tuple[str, ...]
) -> ToolSpec:
    """A tool for the files of a loaded skill. `path` describes its second parameter."""
    return ToolSpec(
        name=name,
        description=description,
        parameters=(("name", "The loaded skill's name."), ("path", path)),
        required=required,
        action=action,
    )


READ_RESOURCE: Final = read_resource_tool(
    RESOURCE_TOOL, "Read a resource of an MCP server by its URI. The URI of a skill loads that skill."
)
SPEC_TOOLS: Final = (
    ToolSpec(
        name=LOAD_TOOL,
        description="Load a skill: instructions for a kind of task. Call it before you start a task that "
        "a skill in the catalog fits. The result is reference text from the named origin.",
        parameters=(
            ("name", "The skill's name in the catalog, or its URI."),
            ("server", "Its server; needed only for a URI that several servers could have."),
        ),
        required=("name",),
        action=_load,
    ),
    _file_tool(
        READ_TOOL,
        "Read a supporting file of a loaded skill, such as references/guide.md.",
        "The file's path, starting at the skill's directory.",
        _read,
        required=("name", "path"),
    ),
    _file_tool(
        LIST_TOOL,
        "List the files in a directory of a loaded skill.",
        "The directory's path. By default, the skill's own directory.",
        _list,
        required=("name",),
    ),
    READ_RESOURCE,
)

STYLE: Final = Style(
    name="spec",
    summary="The Skills extension as specified: no name takes precedence, nothing is read early.",
    tools=SPEC_TOOLS,
)
