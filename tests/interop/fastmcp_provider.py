"""A peer: FastMCP's own provider of skills, as it is: resources with manifests (D1), over stdio."""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider

if __name__ == "__main__":
    server = FastMCP("fastmcp-provider")
    server.add_provider(SkillsDirectoryProvider(roots=sys.argv[1]))
    server.run("stdio", show_banner=False, log_level="WARNING")
