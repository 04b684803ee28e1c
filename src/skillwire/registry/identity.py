"""StoreIdentity: the callers of a registry, by its tokens or by access tokens of an identity provider."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import anyio.to_thread

from skillwire.access import AccessRefusal, AccessTokens, BearerIdentity, OAuthSettings
from skillwire.access.identity import NO_TOKEN
from skillwire.errors import SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.registry.access import NOBODY, PREFIX, Access, RegistryCaller, Subject, token_hash

_FRESH_SECONDS: Final = 1.0
"""Who was looked up within this time is not looked up again, so a revoked token ends soon."""
_STALE_WAIT_SECONDS: Final = 0.5
"""How long somebody who is known waits for a database that does not answer."""
_WAIT_SECONDS: Final = 5.0
"""How long anybody else waits for it."""
_MOST_CACHED: Final = 10_000
_TOKEN: Final = re.compile(re.escape(PREFIX.encode()) + rb"[A-Za-z0-9_-]{20,100}")
_JWT: Final = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


@dataclass(slots=True)
class _Known:
    """The answer of the database about somebody, and when it was asked."""

    caller: RegistryCaller | None
    at: float
    asking: asyncio.Task[None] | None = None
    asked: float = 0.0
    error: SourceError | None = None


class StoreIdentity(BearerIdentity[RegistryCaller]):
    """Finds the callers of a registry in its database. Without a token, they are `anyone`.

    While the database does not answer, those who are known are let in as they were known last, for
    `registry_stale_seconds`: they can read what is in memory.
    """

    def __init__(
        self, access: Access, oauth: OAuthSettings | None = None, *, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        super().__init__(limits)
        self._access = access
        self._stale_seconds = limits.registry_stale_seconds
        self._oauth = None if oauth is None else AccessTokens(oauth)
        self._channel = "stable" if oauth is None else oauth.channel
        self._known: OrderedDict[Subject, _Known] = OrderedDict()
        self._subjects: OrderedDict[bytes, tuple[Subject, float, float]] = OrderedDict()
        if oauth is not None:
            self.sign_in_metadata: Mapping[str, object] | None = oauth.sign_in_metadata
            self.metadata_url = oauth.metadata_url

    async def recheck(self, callers: Sequence[RegistryCaller]) -> Sequence[RegistryCaller | None]:
        """One look into the database for all callers together."""
        subjects = [caller.subject for caller in callers]
        distinct = list(dict.fromkeys(subjects))
        found = dict(zip(distinct, await self._look_up(distinct), strict=True))
        for subject, caller in found.items():
            # A client whose stream ends connects again at once, and must not be let in as before.
            if known := self._known.get(subject):
                known.caller, known.at = caller, time.monotonic()
        now = time.time()
        return [
            None if caller.expires < now else found[subject]
            for caller, subject in zip(callers, subjects, strict=True)
        ]

    async def refresh(self) -> None:
        """Nothing to read: everybody is looked up."""

    async def _anonymous(self) -> RegistryCaller | AccessRefusal:
        caller = await self._caller(NOBODY)
        return caller if caller is not None and caller.roles else NO_TOKEN

    def _recent(self, token: bytes) -> RegistryCaller | None:
        now = time.monotonic()
        subject, expires = self._subject(token)
        known = None if subject is None else self._known.get(subject)
        if known is None or known.caller is None or not known.caller.roles:
            return None
        age = now - known.at
        if age > self._stale_seconds or (age > _FRESH_SECONDS and not self._is_waiting(known, now)):
            return None
        return _until(known.caller, expires)

    async def _find(self, token: bytes) -> RegistryCaller | None:
        subject, expires = self._subject(token)
        if subject is None and self._oauth is not None and _JWT.fullmatch(token):
            user = await self._oauth.check(token.decode("ascii"))
            if user is not None:
                subject, expires = Subject("user", user.subject, user.groups), user.expires
                self._remember(token, subject, expires, time.monotonic() + _FRESH_SECONDS)
        if subject is None:
            return None
        caller = await self._caller(subject)
        # Somebody without any role gets the same response as somebody who is not known.
        return None if caller is None or not caller.roles else _until(caller, expires)

    def _subject(self, token: bytes) -> tuple[Subject | None, float]:
        """Whose token it is, as far as that is known without asking anyone."""
        found = self._subjects.get(token)
        if found is None:
            if not _TOKEN.fullmatch(token):
                return None, 0.0
            subject = Subject("token", token_hash(token.decode("ascii")))
            found = self._remember(token, subject, math.inf, math.inf)
        subject, expires, until = found
        return (subject, expires) if until == math.inf or until > time.monotonic() else (None, 0.0)

    def _remember(
        self, token: bytes, subject: Subject, expires: float, until: float
    ) -> tuple[Subject, float, float]:
        """Whose token it is, for the next request with it. Whether it is valid is another question."""
        found = self._subjects[token] = (subject, expires, until)
        while len(self._subjects) > _MOST_CACHED:
            self._subjects.popitem(last=False)
        return found

    def _is_waiting(self, known: _Known, now: float) -> bool:
        """Whether the database was asked about somebody and does not answer."""
        return known.asking is not None and now - known.asked > _STALE_WAIT_SECONDS

    async def _caller(self, subject: Subject) -> RegistryCaller | None:
        now = time.monotonic()
        known = self._known.get(subject)
        if known is None:
            known = self._known[subject] = _Known(None, float("-inf"))
            while len(self._known) > _MOST_CACHED:
                self._known.popitem(last=False)
        elif now - known.at > self._stale_seconds:
            known.caller = None
        elif now - known.at < _FRESH_SECONDS or (known.caller and self._is_waiting(known, now)):
            return known.caller
        if known.asking is None:
            known.asked = now
            known.asking = asyncio.create_task(self._ask(subject, known))
        seconds = _STALE_WAIT_SECONDS if known.caller is not None else _WAIT_SECONDS
        done, _ = await asyncio.wait([known.asking], timeout=seconds)
        # While the database is unavailable, known callers can read what is in memory.
        if known.caller is None and (known.error is not None or not done):
            raise known.error or SourceError(f"the registry's database did not answer in {seconds:g} s")
        return known.caller

    async def _ask(self, subject: Subject, known: _Known) -> None:
        try:
            [known.caller] = await self._look_up([subject])
            known.at, known.error = time.monotonic(), None
            if subject in self._known:
                self._known.move_to_end(subject)
        except SourceError as error:
            known.error = error
        finally:
            known.asking = None

    async def _look_up(self, subjects: Sequence[Subject]) -> list[RegistryCaller | None]:
        ask = partial(self._access.callers, subjects, channel=self._channel)
        return await anyio.to_thread.run_sync(ask)


def _until(caller: RegistryCaller, expires: float) -> RegistryCaller:
    return caller if caller.expires == expires else replace(caller, expires=expires)
