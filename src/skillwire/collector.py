"""Python's garbage collector: it does not search where many objects are created that all stay alive."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_USUAL: Final = gc.get_threshold()
_SELDOM: Final = (50_000, *_USUAL[1:])


@contextmanager
def collector_paused() -> Generator[None]:
    """Search for no garbage meanwhile: there is none, and the search would take a sixth of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def start_collector(*, seldom: bool = False) -> None:
    """Search for garbage from now on: often, so that no response waits for it long, or seldom.

    A command that ends soon creates little garbage, and a fifth of its time would go into the search.
    """
    gc.set_threshold(*(_SELDOM if seldom else _USUAL))
    gc.enable()
