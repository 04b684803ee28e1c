"""Servers from the configuration of other MCP clients."""
