# pyright: basic, reportMissingImports=false
"""The server of the contract behind a FastMCP client; a loop without any framework plays the agent."""

from __future__ import annotations

from typing import Any

from fastmcp import Client
from mcp.server.mcpserver import MCPServer

from adapters.contract.driver import Answer, Script, agrees
from skillwire.adapters.calls import all_tools
from skillwire.adapters.fastmcp import server_behind
from skillwire.host import ServerConfig, SkillHost
from skillwire.host import run_sync as run_on_host

asks_natively = False
package = "fastmcp"


def through(*, instance: Any, **options: Any) -> ServerConfig:
    """A simulated server as the contract makes it, reached through FastMCP."""
    shell = MCPServer("shell")
    shell._lowlevel_server = instance  # What FastMCP's transport in memory connects to.
    return server_behind(Client(shell), **options)


async def run(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    results: list[str] = []
    while True:
        tools = {tool.name: tool for tool in all_tools(host, await script.server_tools(host))}
        move = script.next_move(f"You help.\n\n{host.catalog()}", list(tools), results)
        if isinstance(move, str):
            return move
        results = [*results, (await tools[move[0]].handler(move[1])).text]


def run_sync(host: SkillHost, script: Script, user: Answer = agrees) -> str:
    return run_on_host(host, run, host, script, user)
