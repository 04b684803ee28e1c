"""Upstream: a host behind a gateway, and what it offers, once for all callers.

One host holds every server with the configured credentials, and another one each server for which a caller
has a credential of their own: connections are shared by callers with the same credential. Nothing here
knows of approvals or permissions; `view.py` decides who gets what.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import anyio

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill
from skillwire.errors import (
    ApprovalRequired,
    FormatError,
    LimitExceeded,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VerificationError,
)
from skillwire.gateway.uris import ServedEntry, label_segment, moved, served_entry
from skillwire.host.host import SkillHost
from skillwire.limits import MIB, Limits
from skillwire.skill.digests import SetDigest
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SkillUri, shown_uri, skill_root
from skillwire.sources.base import DirectoryChild
from skillwire.trust.approval import shown_digest
from skillwire.trust.origin import Origin
from skillwire.trust.verify import VerifiedFile
from skillwire.wire.v1 import APPROVAL_META

_FAILED_SECONDS: Final = 60.0
_MISSING_SECONDS: Final = 5.0
_MOST_MISSING: Final = 10_000
_MOST_FOLLOWED: Final = 200
_MOST_REASONS: Final = 100
# The entry may be outdated or false; the next one may be correct.
_STALE: Final = (VerificationError, FormatError, SkillNotFound)

_log = logging.getLogger("skillwire.gateway")


@dataclass(slots=True, eq=False)
class Offer:
    """A skill of an upstream, and how it is served. Another version of the skill is another offer.

    There are ten thousand of them in a large gateway: what few of them need is computed on demand.
    """

    upstream: Upstream = field(repr=False)
    skill: RegisteredSkill
    root: SkillUri
    """The directory that it is served in."""
    entry: SkillEntry
    """Its entry, with the gateway's URIs."""
    _waiting: SkillEntry | None = field(default=None, init=False, repr=False)
    _digest: SetDigest | None = field(default=None, init=False, repr=False)

    @property
    def waiting(self) -> SkillEntry:
        """Its entry, marked as one that a person has to approve."""
        if self._waiting is None:
            meta = MappingProxyType({**self.entry.meta, APPROVAL_META: "required"})
            self._waiting = replace(self.entry, meta=meta)
        return self._waiting

    @property
    def digest(self) -> SetDigest | None:
        """Of all its files; `None` for a skill that is generated on request."""
        if self._digest is None:
            self._digest = shown_digest(self.skill.entry)
        return self._digest

    @property
    def uri(self) -> SkillUri:
        return self.entry.uri

    def original(self, uri: SkillUri) -> SkillUri:
        """What the upstream calls a file of this skill."""
        return moved(uri, self.root, skill_root(self.skill.uri))

    def lists(self, uri: SkillUri) -> bool:
        """Whether a file belongs to the skill. Of one that is generated on request, only its server knows."""
        resources = self.skill.entry.resources
        if resources is DYNAMIC:
            return uri.startswith(f"{self.root}/")
        wanted = self.original(uri)
        return any(file.uri == wanted for file in resources)


class Upstream:
    """One host, and its skills as offers. `version` changes whenever an offer changes."""

    def __init__(self, host: SkillHost, *, limits: Limits, memory: FileMemory) -> None:
        self.host = host
        self.version = 0
        self.ready = anyio.Event()
        """Set when the servers have been asked once, or have failed."""
        self.has_dynamic = False
        """Whether any skill is generated on request."""
        self.is_wanted = False
        """Whether a listing was asked for since this was last set to false."""
        self.failed: dict[SkillKey, str] = {}
        """The skills that failed verification and are held back for now, each with the reason."""
        self._limits = limits
        self._memory = memory
        self._offers: dict[SkillUri, Offer] = {}
        self._made: dict[SkillKey, Offer] = {}
        self._prepared: dict[SkillKey, ServedEntry] = {}
        self._unusable: dict[SkillKey, tuple[SkillEntry, str]] = {}
        self._seen: tuple[RegisteredSkill, ...] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._failures: dict[SkillKey, tuple[SkillEntry, float]] = {}
        self._turns: dict[tuple[Offer, SkillUri], anyio.Lock] = {}
        self._signed: set[Offer] = set()
        self._missing: OrderedDict[tuple[Origin, SkillUri], float] = OrderedDict()
        self._used: dict[Origin, OrderedDict[SkillUri, None]] = {}
        self._subscribed: dict[object, frozenset[SkillUri]] = {}
        self.origins = {label_segment(origin.label): origin for origin in host.feed.origins()}
        """The servers and directories of the host by their labels in lower case."""
        self._refreshing = False
        host.feed.watch(self._changed)
        host.feed.watch_opening(self._prepare)

    def listen(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call this whenever an offer changed; the result ends that."""
        self._listeners.append(tell)
        return lambda: self._listeners.remove(tell)

    def offers(self) -> Mapping[SkillUri, Offer]:
        """Every skill that can be served, by the URI of its `SKILL.md`, listed or not."""
        self._update()
        return self._offers

    @property
    def is_settled(self) -> bool:
        """Whether the offers are those of what the host knows now."""
        return self._seen is not None and not self._failures

    def is_unknown(self, origin: Origin) -> bool:
        """Whether a server is unavailable, and nothing is known of what it has."""
        is_known = any(offer.skill.origin == origin for offer in self._made.values())
        return not is_known and self.host.feed.is_unavailable(origin)

    def kept_offer(self, origin: Origin, entry: SkillEntry) -> Offer | None:
        """The offer of a skill that was approved before and that its server cannot be asked about now."""
        try:
            return self._offer(RegisteredSkill(origin, entry, entry.name))
        except (FormatError, LimitExceeded):
            return None

    def remaining_ms(self, origin: Origin) -> int | None:
        """How long its listing may still be cached; `None` for a directory."""
        seconds = self.host.feed.remaining_seconds(origin)
        return None if seconds is None else int(seconds) * 1000

    async def find(self, label: str, uri: SkillUri) -> Offer | None:
        """A skill that its server may not list (LST-3), by the URI that the server knows."""
        origin = self.origins.get(label)
        if origin is None or origin.is_local or self.host.feed.is_unavailable(origin):
            return None
        asked = (origin, uri)
        now = anyio.current_time()
        if self._missing.get(asked, 0) > now:
            return None  # Asked a moment ago: a client that guesses costs its server little.
        try:
            skill = await self.host.feed.find(uri, origin)
        except SkillwireError as error:
            _log.debug("%s has no skill %s: %s", origin, shown_uri(uri), error)
            self._missing[asked] = now + _MISSING_SECONDS
            while len(self._missing) > _MOST_MISSING:
                self._missing.popitem(last=False)
            return None
        self._update()
        return self._made.get(skill.key)

    def current(self, offer: Offer) -> Offer | None:
        """The same skill as it is offered now."""
        self._update()
        return self._made.get(offer.skill.key)

    async def fetch(self, offer: Offer, uri: SkillUri) -> bytes:
        """A file of an offer, verified against its entry: from memory, the cache or the server.

        A failed check may mean that the entry is outdated. Then the entry is refreshed and `Superseded`
        raised if there is another offer now; a skill that fails as it is now is held back.
        """
        if (data := self._memory.get(offer, uri)) is not None:
            return data
        # Whoever comes while a file is fetched waits for that one answer.
        turn = self._turns.setdefault((offer, uri), anyio.Lock())
        try:
            async with turn:
                if (data := self._memory.get(offer, uri)) is not None:
                    return data
                file = await self._fetch(offer, uri)
        finally:
            if not turn.statistics().tasks_waiting:
                self._turns.pop((offer, uri), None)
        if file.bound:
            self._memory.put(offer, uri, file.data)
        self._use(offer)
        return file.data

    async def _fetch(self, offer: Offer, uri: SkillUri) -> VerifiedFile:
        feed, skill = self.host.feed, offer.skill
        try:
            return await feed.fetch(skill, offer.original(uri))
        except _STALE as error:
            if isinstance(error, SkillNotFound) and skill.entry.is_dynamic:
                raise  # Only the server knows which files such a skill has.
            fresh = await feed.refreshed(skill, error)
            if fresh.entry != skill.entry:
                raise Superseded from error
            self._fail(skill, str(error))
            raise

    async def check_publishers(self, offer: Offer) -> None:
        """Refuse a skill that lacks the signature of a publisher whom its server must have."""
        if offer in self._signed:
            return
        try:
            await self.host.feed.check_publishers(offer.skill)
        except (ApprovalRequired, VerificationError, FormatError) as error:
            self._fail(offer.skill, str(error))
            raise SourceError(str(error)) from None
        self._signed.add(offer)

    async def read_directory(self, offer: Offer, uri: SkillUri) -> Sequence[DirectoryChild]:
        """What the server of a skill that is generated on request lists in one of its directories."""
        return await self.host.feed.read_directory(offer.skill, offer.original(uri))

    def follow(self, subscriber: object, uris: Collection[SkillUri]) -> None:
        """Subscribe to changes of the skills at, around and below these URIs, for a client that
        subscribed."""
        if uris:
            self._subscribed[subscriber] = frozenset(uris)
        else:
            self._subscribed.pop(subscriber, None)
        self._follow()

    def _use(self, offer: Offer) -> None:
        """Subscribe to what is read, so that its next version is known before its listing expires."""
        used = self._used.setdefault(offer.skill.origin, OrderedDict())
        is_new = offer.skill.uri not in used
        used[offer.skill.uri] = None
        used.move_to_end(offer.skill.uri)
        if len(used) > _MOST_FOLLOWED:
            used.popitem(last=False)
        if is_new:
            self._follow()

    def _follow(self) -> None:
        wanted: dict[Origin, set[SkillUri]] = {origin: set(used) for origin, used in self._used.items()}
        subscribed = {uri for uris in self._subscribed.values() for uri in uris}
        if subscribed:
            for offer in self.offers().values():
                if any(_touches(offer.root, uri) for uri in subscribed):
                    wanted.setdefault(offer.skill.origin, set()).add(offer.skill.uri)
        for origin, uris in wanted.items():
            if not origin.is_local:
                self.host.feed.follow(origin, sorted(uris)[: self._limits.subscriptions_per_client])

    async def refresh_expired(self) -> None:
        """List the servers again whose listings have expired; one such call runs at a time."""
        if self._refreshing:
            return
        self._refreshing = True
        try:
            await self.host.refresh(expired_only=True)
        finally:
            self._refreshing = False

    def reasons(self) -> list[tuple[Origin, str]]:
        """Why skills of this host are not served."""
        self._update()
        found = [(left.origin, left.message) for left in self.host.log.left_out()]
        found += [(key.origin, f"{shown_uri(key.uri)}: {why}") for key, (_, why) in self._unusable.items()]
        found += [(key.origin, f"{shown_uri(key.uri)}: {why}") for key, why in self.failed.items()]
        return found

    def _changed(self) -> None:
        self._seen = None
        for tell in tuple(self._listeners):
            tell()

    def _fail(self, skill: RegisteredSkill, reason: str) -> None:
        """Hold a skill back for a while: what its server sends is not what it lists."""
        _log.warning("%s from %s is not served: %s", shown_uri(skill.uri), skill.origin, reason)
        self._failures[skill.key] = (skill.entry, anyio.current_time() + _FAILED_SECONDS)
        self.failed[skill.key] = reason
        self._changed()

    def _update(self) -> None:
        """Make offers of what the host knows now. What did not change keeps its offer."""
        skills = self.host.feed.skills()
        if self._failures:
            self._forget_failures()
        if skills is self._seen:
            return
        made: dict[SkillKey, Offer] = {}
        unusable: dict[SkillKey, tuple[SkillEntry, str]] = {}
        for skill in skills:
            key = skill.key
            known = self._made.get(key)
            if known is not None and known.skill == skill:
                made[key] = known
                continue
            bad = self._unusable.get(key)
            if bad is not None and bad[0] == skill.entry:
                unusable[key] = bad
                continue
            try:
                made[key] = self._offer(skill)
            except (FormatError, LimitExceeded) as error:
                unusable[key] = (skill.entry, str(error))
        if skills:
            self._prepared = {}
        for key in list(unusable.keys() - self._unusable.keys())[:_MOST_REASONS]:
            _log.warning("%s from %s is not served: %s", shown_uri(key.uri), key.origin, unusable[key][1])
        served = {offer.uri: offer for offer in made.values() if not self._is_failed(offer)}
        if served != self._offers:
            self.version += 1
            self.has_dynamic = any(offer.skill.entry.is_dynamic for offer in served.values())
        self._seen, self._made, self._unusable, self._offers = skills, made, unusable, served
        self._signed &= set(made.values()) if self._signed else set()

    def _prepare(self, origin: Origin, entries: Sequence[SkillEntry]) -> None:
        """While slower servers are awaited, do the work that would otherwise remain after the last answer."""
        for entry in entries:
            with suppress(FormatError, LimitExceeded):  # Found and reported again with the offer.
                self._prepared[SkillKey(origin, entry.uri)] = served_entry(origin, entry, self._limits)

    def _offer(self, skill: RegisteredSkill) -> Offer:
        """The offer of a skill; a `FormatError` or `LimitExceeded` if it cannot be served."""
        served = self._prepared.get(skill.key)
        if served is None or served.original is not skill.entry:
            served = served_entry(skill.origin, skill.entry, self._limits)
        return Offer(self, skill, served.root, served.entry)

    def _is_failed(self, offer: Offer) -> bool:
        failure = self._failures.get(offer.skill.key)
        return failure is not None and failure[0] == offer.skill.entry

    def _forget_failures(self) -> None:
        now = anyio.current_time()
        for key, (_, until) in list(self._failures.items()):
            if now >= until:
                del self._failures[key]
                self.failed.pop(key, None)
                self._seen = None


class Superseded(Exception):
    """A file was requested from an offer that has been replaced."""


class FileMemory:
    """Verified files in memory, the most recently used ones, for all callers together."""

    def __init__(self, room: int = 64 * MIB) -> None:
        self._room = room
        self._files: OrderedDict[tuple[Offer, SkillUri], bytes] = OrderedDict()
        self._size = 0

    def get(self, offer: Offer, uri: SkillUri) -> bytes | None:
        data = self._files.get((offer, uri))
        if data is not None:
            self._files.move_to_end((offer, uri))
        return data

    def put(self, offer: Offer, uri: SkillUri, data: bytes) -> None:
        if len(data) > self._room // 8:
            return
        self._size += len(data) - len(self._files.pop((offer, uri), b""))
        self._files[offer, uri] = data
        while self._size > self._room:
            _, dropped = self._files.popitem(last=False)
            self._size -= len(dropped)


def _touches(root: SkillUri, uri: SkillUri) -> bool:
    """Whether a URI is a skill's directory, or lies in it or around it."""
    return root == uri or root.startswith(f"{uri}/") or uri.startswith(f"{root}/")
