"""Give skills out: the methods of the extension, on the MCP SDK, over stdio and HTTP."""
