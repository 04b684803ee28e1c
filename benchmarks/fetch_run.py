"""What it takes `sync` to read and verify what a lock pins, without start-up and without writing anything.

    python -m benchmarks.fetch_run URL LOCK

Prints the seconds by the clock and of the processor, the listing of the server included.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

import skillwire.host.sessions  # With the SDK: that is start-up.
import skillwire.install.servers  # noqa: F401
from skillwire.host import ServerConfig
from skillwire.install import LockedSkill, parse_lock
from skillwire.install.candidates import Candidate
from skillwire.install.upstream import Upstream


async def main(url: str, skills: Sequence[LockedSkill]) -> None:
    upstream = Upstream(Path.cwd(), {"docs": ServerConfig(url=url)})
    started, cpu = time.perf_counter(), time.process_time()
    candidates: list[Candidate] = []
    failures = await upstream.fetch_pinned(skills, candidates.append)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    if failures or len(candidates) != len(skills):
        raise SystemExit(f"{len(failures)} skills could not be read: {failures[:1]}")
    print(seconds, cpu)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], parse_lock(Path(sys.argv[2]).read_text("utf-8")).skills)
