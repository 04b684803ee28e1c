"""How long the first page of `skillwire ui` takes: `python -m benchmarks.ui_page 7500`."""

from __future__ import annotations

import asyncio
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx2

from skillwire.host import LocalDirectory, SkillHost
from skillwire.trust import Origin
from skillwire.ui import ReviewApp

_ROUNDS = 20


def plant(folder: Path, count: int) -> None:
    """Skills with a description of ordinary length, all of them waiting for approval."""
    for number in range(count):
        skill = folder / f"skill-{number:05}"
        skill.mkdir(parents=True)
        words = f"Does task {number} for a team. Use when somebody asks for number {number} or its report."
        (skill / "SKILL.md").write_text(
            f"---\nname: {skill.name}\ndescription: {words}\n---\n# {number}\n", "utf-8"
        )


async def measure(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plant(folder / "skills", count)
        directory = LocalDirectory(Origin.project("project"), folder / "skills")
        host = SkillHost(
            directories=[directory],
            cache_directory=folder / "cache",
            approvals_file=folder / "approvals.sqlite",
        )
        async with host:
            app = ReviewApp(host, names=["127.0.0.1"], port=8765)
            started = time.perf_counter()
            app.prepare()
            print(f"prepared in {(time.perf_counter() - started) * 1000:.0f} ms, before the link is printed")
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client:
                entered = await client.get(app.link())
                [root] = re.findall(r'content="0;url=(/[^/"]+)/', entered.text)
                for path in ("/", "/skills", "/skills?q=report"):
                    times: list[float] = []
                    size = 0
                    for _ in range(_ROUNDS):
                        started = time.perf_counter()
                        answer = await client.get(root + path)
                        times.append((time.perf_counter() - started) * 1000)
                        assert answer.status_code == 200
                        size = len(answer.content)
                    rest = statistics.median(times[1:])
                    took = f"first {times[0]:.1f} ms, then {rest:.1f} ms (median)"
                    print(f"{path:18} {took}, {size / 1000:.1f} kB")
                names = ("style.css", "app.js", "icon.svg")
                assets = [len((await client.get(f"/static/{name}")).content) for name in names]
                print(f"style, script, icon: {sum(assets) / 1000:.1f} kB")


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 7500))
