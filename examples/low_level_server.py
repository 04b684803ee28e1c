"""Skills on a low-level `Server`. Run it from an MCP client, over stdio."""

import asyncio
from pathlib import Path

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from skillwire import add_skills

server = Server("low-level-example", instructions="Read a skill before you start the job it describes.")
add_skills(server, Path(__file__).parent / "skills")


async def main():
    async with stdio_server() as (from_client, to_client):
        await server.run(from_client, to_client, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
