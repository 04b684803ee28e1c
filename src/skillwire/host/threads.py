"""Hosts and threads: a host for synchronous programs, and calls from other event loops.

with open_in_thread(SkillHost(servers={"shop": "https://shop.example/mcp"})) as host:
    print(host.catalog())
    loaded = run_sync(host, host.load, "refunds")
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from anyio import from_thread, to_thread
from anyio.lowlevel import current_token

from skillwire.host.host import SkillHost

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


@contextmanager
def open_in_thread(host: SkillHost) -> Generator[SkillHost]:
    """Open a host on its own event loop, in its own thread, until the block ends.

    Call its synchronous methods, such as `catalog` and `tools`, directly, and its asynchronous ones with
    `run_sync`. With such a host, the agents of all adapters can run synchronously.
    """
    with from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(host):
        host.in_thread = True
        yield host


def run_sync(host: SkillHost, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    """The result of an asynchronous function, run on the event loop of a host that has its own thread."""
    if not host.in_thread:
        # A call that blocks the event loop of the host would never return.
        raise RuntimeError("to use a host synchronously, open it with open_in_thread(SkillHost(...))")
    return from_thread.run(function, *args, token=host.loop)


async def on_loop(
    host: SkillHost, function: Callable[[*_Args], Coroutine[Any, Any, _T]], *args: *_Args
) -> _T:
    """The result of an asynchronous function, run on the event loop of the host, from this or any other."""
    if host.loop is None or host.loop == current_token():
        return await function(*args)
    call = partial(from_thread.run, function, *args, token=host.loop)
    return await to_thread.run_sync(call)
