"""The garbage collector, told to wait while a walk makes objects by the hundred thousand.

All of them are meant to last, and the collector would look through them again and again as they come.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Collect no garbage meanwhile. Whoever paused it before goes on pausing it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
