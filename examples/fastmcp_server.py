"""Skills on a FastMCP 4 server, beside a tool of its own. Run it from an MCP client, over stdio."""

from pathlib import Path

from fastmcp import FastMCP

from skillwire import add_skills

server = FastMCP("fastmcp-example")
add_skills(server, Path(__file__).parent / "skills")


@server.tool
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


if __name__ == "__main__":
    server.run(show_banner=False)
