"""A small agent on SkillHost, for the conformance suite's client scenarios.

It lists the skills of one server. In the scenarios that verify, it also loads each, and reads its files if it
was loaded; it prints what happened. Run as `python conformance_client.py ERA STYLES FOLDER URL`, with a comma
between styles: it does all of it with one after the other.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from skillwire import ServerConfig, SkillHost, SkillwireError


async def agree(question: object) -> bool:
    return True


async def use_skills(era: str, style: str, folder: Path, url: str) -> None:
    server = ServerConfig(url=url, era=era)  # type: ignore[arg-type]
    host = SkillHost(
        servers={"mock": server},
        ask=agree,
        style=style,
        cache_directory=folder / "cache",
        approvals_file=folder / "approvals.sqlite",
    )
    async with host:
        print("era", *(state.era for state in host.places.servers()))
        print("listed", *(skill.entry.name for skill in host.skills()))
        if os.environ["MCP_CONFORMANCE_SCENARIO"].endswith("no-prefetch"):
            for skill in host.skills():
                await host.decide.approve(await host.find(skill.handle))
            host.catalog()
            host.tools()
            return
        for skill in host.skills():
            try:
                await host.load(skill.handle)
                await host.read(skill.handle, "references/FORMS.md")
                print("loaded", skill.handle)
            except SkillwireError as error:
                print("refused", type(error).__name__)


if __name__ == "__main__":
    _, era, styles, folder, url = sys.argv
    for style in styles.split(","):
        asyncio.run(use_skills(era, style, Path(folder, style), url))
