"""Ways to a server process that host and judge share. No MCP in here: bytes and lines."""
