"""A peer: serves a folder of skills with FastMCP's own skills extension, over stdio.

python fastmcp_peer.py FOLDER
"""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension


def make_server(folder: str) -> FastMCP:
    provider = SkillsDirectoryProvider(folder, experimental_skills=True)
    server = FastMCP("fastmcp-peer", providers=[provider])
    server.add_extension(SkillsExtension(providers=[provider]))
    return server


if __name__ == "__main__":
    make_server(sys.argv[1]).run(show_banner=False)
