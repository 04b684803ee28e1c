"""What a first `sync` takes, without start-up and the approvals: list, fetch, verify, store and write.

    python -m benchmarks.fetch_run URL PROJECT

The project has a lock file and no skills. Prints the seconds by the clock and of the processor.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio

import skillwire.host.connection  # With the SDK: that is start-up.
import skillwire.install.sources  # noqa: F401
from skillwire.clients import BaseDirectories
from skillwire.host import ServerConfig
from skillwire.install import Installer, SkillFetcher, Workspace


async def main(url: str, project: Path) -> None:
    tool = Installer(
        Workspace.open(places=BaseDirectories.here(project)),
        SkillFetcher(project, {"docs": ServerConfig(url=url)}),
    )
    skills = tool.workspace.require_lock().skills
    started, cpu = time.perf_counter(), time.process_time()
    report = await tool.sync(accept=skills)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    if not report.is_whole or len(report.installed) != len(skills):
        raise SystemExit(f"not installed: {report.failures[:1]}")
    print(seconds, cpu)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]))
