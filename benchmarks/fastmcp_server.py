"""A peer: FastMCP's skills extension over a folder. FOLDER alone is stdio, `--http 0` is HTTP."""

from __future__ import annotations

import argparse

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--http", type=int, metavar="PORT")
    options = parser.parse_args()
    provider = SkillsDirectoryProvider(roots=options.folder, experimental_skills=True)
    server = FastMCP("fastmcp-peer", list_page_size=100)
    server.add_provider(provider)
    server.add_extension(SkillsExtension(providers=[provider]))
    if options.http is None:
        server.run("stdio", show_banner=False, log_level="WARNING")
    else:
        server.run(
            "http",
            show_banner=False,
            host="127.0.0.1",
            port=options.http,
            json_response=True,
            uvicorn_config={"access_log": False},
        )


if __name__ == "__main__":
    main()
