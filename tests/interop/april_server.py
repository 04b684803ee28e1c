"""A server of the April draft, on the Python SDK: it declares the extension and does not know `skills/list`.

python april_server.py [--declare extensions|experimental|none] [--index KIND] [--no-resources]

The kinds of index are those of `april_skills.py`, and `none`. Its tool `edit` changes the text of `refunds`
and the index, and notifies whoever subscribed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError

sys.path.insert(0, str(Path(__file__).parents[1]))
from interop.april_skills import PRODUCTS, index_text, resources, unlisted

EXTENSION = "io.modelcontextprotocol/skills"
INDEX = "skill://index.json"
TEMPLATE = "skill://docs/{product}/SKILL.md"


class April:
    """The state of one server."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.bus = InMemorySubscriptionBus()
        self.listed = resources()
        self.hidden = unlisted()
        if options.index != "none":
            self.listed[INDEX] = ("application/json", index_text(options.index))
        self.subscribers: dict[str, set[Any]] = {}

    async def list_resources(self, ctx: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=uri, name=uri.rpartition("/")[2], mime_type=media)
                for uri, (media, _) in self.listed.items()
            ]
        )

    async def list_templates(self, ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(uri_template=TEMPLATE, name="docs", mime_type="text/markdown")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read(self, ctx: Any, params: Any) -> types.ReadResourceResult:
        uri = str(params.uri)
        found = self.listed.get(uri) or self.hidden.get(uri)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"No resource at {uri}", {"uri": uri})
        media, text = found
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type=media, text=text)]
        )

    async def complete(self, ctx: Any, params: Any) -> types.CompleteResult:
        values = [name for name in PRODUCTS if name.startswith(params.argument.value)]
        if getattr(params.ref, "uri", "") != TEMPLATE or params.argument.name != "product":
            values = []
        return types.CompleteResult(completion=types.Completion(values=values))

    async def list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="edit", input_schema={"type": "object"})])

    async def call_tool(self, ctx: Any, params: Any) -> types.CallToolResult:
        for uri in ("skill://refunds/SKILL.md", INDEX):
            if uri in self.listed:
                media, text = self.listed[uri]
                self.listed[uri] = (media, text.replace("money back", "money back now"))
                await self.bus.publish(ResourceUpdated(uri))
                for session in self.subscribers.get(uri, set()):
                    await session.send_resource_updated(uri)
        await self.bus.publish(ResourcesListChanged())
        return types.CallToolResult(content=[types.TextContent(text="edited")])

    async def subscribe(self, ctx: Any, params: Any) -> types.EmptyResult:
        self.subscribers.setdefault(str(params.uri), set()).add(ctx.session)
        return types.EmptyResult()

    async def declare(self, ctx: Any, call_next: Any) -> Any:
        """Put the declaration where the draft had it, on both revisions, and leave resources out if asked."""
        result = await call_next(ctx)
        if ctx.method not in ("initialize", "server/discover"):
            return result
        answer = result if isinstance(result, dict) else result.model_dump(by_alias=True, exclude_none=True)
        capabilities: dict[str, Any] = answer.setdefault("capabilities", {})
        if self.options.declare != "none":
            capabilities.setdefault(self.options.declare, {})[EXTENSION] = {}
        if self.options.no_resources:
            capabilities.pop("resources", None)
        else:
            capabilities.setdefault("resources", {})["subscribe"] = True
        return answer


def make_server(options: argparse.Namespace) -> Server[Any]:
    april = April(options)
    server = Server(
        "april",
        version="0.4",
        on_list_resources=april.list_resources,
        on_list_resource_templates=april.list_templates,
        on_read_resource=april.read,
        on_completion=april.complete,
        on_list_tools=april.list_tools,
        on_call_tool=april.call_tool,
        on_subscribe_resource=april.subscribe,
        on_subscriptions_listen=ListenHandler(april.bus),
    )
    server.middleware.append(april.declare)
    return server


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--declare", default="extensions", choices=["extensions", "experimental", "none"])
    parser.add_argument("--index", default="full")
    parser.add_argument("--no-resources", action="store_true")
    return parser.parse_args(arguments)


async def run_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(run_stdio, make_server(parse(sys.argv[1:])))
