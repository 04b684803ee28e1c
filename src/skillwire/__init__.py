"""Skillwire: serve Agent Skills over MCP, and take them in again."""
