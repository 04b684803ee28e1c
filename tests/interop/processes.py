"""Real servers in processes of their own, for peers to speak to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from served import Served, environment

SKILLWIRE = [str(Path(sys.executable).parent / "skillwire")]


@contextmanager
def listening(command: list[str]) -> Iterator[str]:
    """Run a server until the block ends; give the URL that it says it listens on."""
    with subprocess.Popen(
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        served = Served(process)
        try:
            yield served.wait_until_it_says(r"http://\S+")[0]
            served.end()
        finally:
            process.kill()  # No effect on what has ended.
