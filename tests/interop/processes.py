"""Real servers in processes of their own, for peers to speak to."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY_SECONDS = 60
STOP_SECONDS = 20

SKILLWIRE = [str(Path(sys.executable).parent / "skillwire")]


@contextmanager
def listening(command: list[str]) -> Iterator[str]:
    """Run a server until the block ends; give the URL that it says it listens on."""
    process = subprocess.Popen(
        command,
        # Nobody's own settings, a token above all, reach a server under test.
        env={name: value for name, value in os.environ.items() if not name.startswith("SKILLWIRE_")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield _announced_url(process)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _announced_url(process: subprocess.Popen[str]) -> str:
    """Wait for the line on stderr that has a URL; go on draining stderr so that the server never blocks."""
    lines: queue.Queue[str | None] = queue.Queue()

    def drain() -> None:
        assert process.stderr is not None
        with process.stderr as stream:
            for line in stream:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=drain, daemon=True).start()
    said: list[str] = []
    while (line := lines.get(timeout=READY_SECONDS)) is not None:
        said.append(line)
        if found := re.search(r"http://\S+", line):
            return found.group()
    raise RuntimeError(f"the server ended before it listened:\n{''.join(said)}")
