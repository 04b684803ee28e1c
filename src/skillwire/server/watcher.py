"""Watcher: follows the changes of all sources while a server runs, and notifies clients of them.

A server may run several times at once, once for each connection over pipes. The first run watches; when it
ends, the next one takes over.

It is apart from `notifications`, which needs the SDK: a server answers before that is imported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio

from skillwire.server.library import Catalog, SkillLibrary, skill_changes
from skillwire.sources import Source
from skillwire.text import shown

if TYPE_CHECKING:
    from skillwire.server.notifications import Notifier

Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Any]]

# A client that asks at once has its first lists before the SDK is imported or a catalog made for it.
_START_SECONDS: Final = 0.1
_CHANGES_LOGGED: Final = 100

changes_log = logging.getLogger("skillwire.changes")
_log = logging.getLogger(__name__)


def with_lifespan(theirs: Lifespan, ours: Callable[[], AbstractAsyncContextManager[None]]) -> Lifespan:
    """A server's lifespan, combined with ours."""

    @asynccontextmanager
    async def both(server: Any) -> AsyncGenerator[Any]:
        async with theirs(server) as state, ours():
            yield state

    return both


class Watcher:
    """Follows all sources. `notifier` is set when the SDK is imported, which may be after the start."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library
        self.notifier: Notifier | None = None
        self.before_notifying: Callable[[], Awaitable[None]] | None = None
        """Called after each change, to set `notifier` if a client has to be notified."""
        self._logged: Catalog | None = None
        self._turn = anyio.Lock()
        self._runs = 0

    @property
    def is_running(self) -> bool:
        return self._runs > 0

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep the sources open and follow their changes until the block ends."""
        failure: Exception | None = None
        async with self._library.opened(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            self._runs += 1
            try:
                yield
            except Exception as error:
                failure = error  # Raised below, because a task group would wrap it.
            finally:
                self._runs -= 1
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    @asynccontextmanager
    async def running_soon(self) -> AsyncGenerator[None]:
        """The same on asyncio, but start to follow changes a moment later: the first responses are due."""
        async with self._library.opened():
            task = asyncio.create_task(self._watch_soon())
            self._runs += 1
            try:
                yield
            finally:
                self._runs -= 1
                task.cancel()
                await asyncio.wait([task])

    async def _log_changes(self) -> None:
        """Log the skills that were added, removed or changed since the last call."""
        try:
            before, self._logged = self._logged, await self._library.catalog()
        except Exception:  # The next request reports what is wrong.
            return
        if before is None:
            return
        changes = skill_changes(before, self._logged)
        for change in changes[:_CHANGES_LOGGED]:
            fields = {"change": change.kind, "skill": shown(change.uri, 2000)}
            changes_log.info("%s %s", *fields.values(), extra={"fields": fields})
        if len(changes) > _CHANGES_LOGGED:
            changes_log.info("%d more skills changed", len(changes) - _CHANGES_LOGGED)

    async def _watch_soon(self) -> None:
        await asyncio.sleep(_START_SECONDS)
        try:
            await self._watch()
        except Exception as error:  # The server continues without watching.
            _log.error("changes are no longer detected: %s", error)

    async def _watch(self) -> None:
        async with self._turn, anyio.create_task_group() as tasks:

            async def changed() -> None:
                await self._log_changes()
                if self.notifier is None and self.before_notifying is not None:
                    await self.before_notifying()
                if self.notifier is None:
                    return  # No client has seen anything yet.
                try:
                    await self.notifier.announce(tasks)
                except Exception as error:  # The next request reports what is wrong.
                    _log.warning("clients could not be notified of a change: %s", error)

            # Later changes are relative to the catalog of this moment.
            await changed()

            async def follow(source: Source) -> None:
                try:
                    async with aclosing(source.changes()) as changes:
                        async for _ in changes:
                            await changed()
                except Exception as error:  # The server continues without watching this source.
                    _log.error("changes are no longer detected: %s", error)

            for source in self._library.sources:
                tasks.start_soon(follow, source)
