"""Skills on an `MCPServer`, beside a tool of its own. Run it from an MCP client, over stdio."""

from pathlib import Path

from mcp.server.mcpserver import MCPServer

from skillwire import SkillsExtension

skills = SkillsExtension(Path(__file__).parent / "skills")
server = MCPServer("mcp-server-example", extensions=[skills], middleware=[skills])


@server.tool()
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


if __name__ == "__main__":
    server.run()
