"""Forks: a process that has imported everything once does something in a fork, which ends with it.

What a fork changes, breaks or needs is its own, and it starts in a millisecond. Its peak of memory counts
from there; for a program that is started, Linux counts the peak of the process that started it, too.
"""

from __future__ import annotations

import gc
import json
import os
import resource
from collections.abc import Callable
from typing import Any, NamedTuple


class Cost(NamedTuple):
    """What something took."""

    memory: int
    """Bytes at the peak, beyond what was needed before."""
    seconds: float
    """Processor time."""
    result: Any


def in_fork(act: Callable[[], Any]) -> Any:
    """What something returns in a process of its own, as JSON; `None` if that process was killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            try:
                said = act()
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            with os.fdopen(write, "w") as stream:
                json.dump(said, stream)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else json.loads(said)


def cost_in_fork(act: Callable[[], Any]) -> Cost:
    """What something costs in a process of its own."""

    def measured() -> tuple[int, float, Any]:
        before = resource.getrusage(resource.RUSAGE_SELF)
        result = act()
        after = resource.getrusage(resource.RUSAGE_SELF)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return (after.ru_maxrss - before.ru_maxrss) * 1024, seconds, result

    gc.freeze()  # A fork then copies no memory only because it looks for garbage.
    said = in_fork(measured)
    if not isinstance(said, list):
        raise AssertionError(f"the process failed: {said or 'it was killed'}")
    return Cost(*said)
