"""A limit for hosts: start servers over stdio at once, ask each for its listing, and wait for the last."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence

from benchmarks.calls import list_call, make_call, result_of

_FIRST, _SECOND = 1_000_000, 1_000_001


def time_listings(commands: Sequence[Sequence[str]], environment: Mapping[str, str]) -> tuple[float, int]:
    """Seconds until all have answered, and how many skills they listed."""
    asked = make_call("server/discover", {}).line(_FIRST) + list_call().line(_SECOND)
    selector = selectors.DefaultSelector()
    held: dict[int, bytes] = {}
    processes: list[subprocess.Popen[bytes]] = []
    pages: list[bytes] = []
    start = time.perf_counter()
    try:
        for command in commands:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **environment},
                bufsize=0,
                # As a host starts them: a system may schedule by session.
                start_new_session=True,
            )
            processes.append(process)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(asked)
            held[process.stdout.fileno()] = b""
            selector.register(process.stdout.fileno(), selectors.EVENT_READ)
        while len(pages) < len(commands):
            for key, _ in selector.select():
                piece = os.read(key.fd, 1 << 20)
                held[key.fd] += piece
                lines = held[key.fd].split(b"\n")
                if not piece:
                    raise SystemExit("a server ended before it had listed its skills")
                if len(lines) > 2:
                    pages += [line for line in lines if b'"id":%d' % _SECOND in line]
                    selector.unregister(key.fd)
        seconds = time.perf_counter() - start
    finally:
        selector.close()
        for process in processes:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        for process in processes:
            process.wait()
    return seconds, sum(len(result_of(page)["skills"]) for page in pages)
