"""LoginTokens: the access token of a login for one connection, renewed when it has expired."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import anyio
import anyio.to_thread

from skillwire.host.login.flow import renew
from skillwire.host.login.store import Login, LoginStore

_RENEWAL_PAUSE: Final = 0.05


class LoginTokens:
    """The access token of a login for one connection, renewed when it has expired."""

    def __init__(
        self, store: LoginStore, identity: str, *, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._identity = identity
        self._seconds = seconds
        self._clock = clock
        self._lock = anyio.Lock()
        self._login: Login | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._login.secrets if self._login is not None else ()

    async def get(self) -> str:
        """The token to send; empty when there is none that is valid."""
        async with self._lock:
            if self._login is None:
                self._login = await anyio.to_thread.run_sync(self._store.get, self._identity)
            if self._login is not None and not self._login.is_current(self._clock()):
                await self._renew(self._login)
            return self._token()

    async def after_refusal(self, refused: str) -> str:
        """A token other than the one that a server refused; empty when there is none."""
        async with self._lock:
            if self._login is not None and self._login.access_token == refused:
                await self._renew(self._login)
            token = self._token()
            return token if token != refused else ""

    def _token(self) -> str:
        login = self._login
        return login.access_token if login is not None and login.is_current(self._clock()) else ""

    async def _renew(self, old: Login) -> None:
        """Renew the login, or use what another process has renewed."""
        with anyio.move_on_after(self._seconds):
            while True:
                with self._store.renewing(self._identity) as ours:
                    stored = await anyio.to_thread.run_sync(self._store.get, self._identity)
                    if stored is None or stored.access_token != old.access_token:
                        self._login = stored
                        return
                    if ours:
                        new = await renew(old, seconds=self._seconds)
                        if new is not None:
                            self._login = new
                            await anyio.to_thread.run_sync(self._store.put, self._identity, new)
                        return
                await anyio.sleep(_RENEWAL_PAUSE)
