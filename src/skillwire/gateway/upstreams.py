"""Upstream: a host behind a gateway, and what it offers, once for all callers.

One host holds every server with the configured credentials, and another one each server for which a caller
has a credential of their own: connections are shared by callers with the same credential. Nothing here
knows of approvals or permissions; `view.py` decides who gets what.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

import anyio

from skillwire.catalog import HostSkill, SkillKey
from skillwire.errors import (
    ApprovalRequired,
    FormatError,
    Issue,
    LimitExceeded,
    PolicyRefused,
    Refusal,
    RequestRefused,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VerificationError,
)
from skillwire.host import SkillHost
from skillwire.limits import MIB, Limits
from skillwire.skill import (
    DYNAMIC,
    NO_SIZE,
    SCHEME,
    Dynamic,
    SetDigest,
    SkillEntry,
    SkillResource,
    SkillUri,
    is_plain,
    make_uri,
    parse_uri,
    shown_uri,
    skill_root,
    split_uri,
)
from skillwire.sources import DirectoryChild
from skillwire.trust import Origin, check_entry, shown_digest
from skillwire.wire import APPROVAL_META

_MARK: Final = "~"


def label_segment(label: str) -> str:
    """The first segment of every URI of an origin: its label in lower case."""
    return label.casefold()


def downstream_root(label: str, root: SkillUri) -> SkillUri:
    """The directory under which the gateway serves what an origin has in the directory `root`."""
    segment = label_segment(label)
    if is_plain(root) and not root.startswith(f"{SCHEME}://{_MARK}") and is_plain(f"{SCHEME}://{segment}"):
        return SkillUri(f"{SCHEME}://{segment}{root[len(SCHEME) + 2 :]}")
    parts = split_uri(root)
    path = (parts.authority, *parts.segments)
    if parts.scheme != SCHEME or parts.authority.startswith(_MARK):
        path = (f"{_MARK}{parts.scheme}", *path)
    return make_uri((segment, *path))


def moved(uri: SkillUri, old: SkillUri, new: SkillUri) -> SkillUri:
    """A URI at or below the directory `old`, at the same path below `new`."""
    if uri != old and not uri.startswith(f"{old}/"):
        raise ValueError(f"{uri} is not below {old}")
    return SkillUri(new + uri[len(old) :])


def upstream_uri(uri: SkillUri) -> tuple[str, SkillUri] | None:
    """The label in a downstream URI, and the URI that its origin knows; `None` if there can be none."""
    parts = split_uri(uri)
    path = parts.segments
    if parts.scheme != SCHEME or not path or parts.authority != label_segment(parts.authority):
        return None
    if not path[0].startswith(_MARK):
        return parts.authority, make_uri(path)
    scheme, rest = path[0].removeprefix(_MARK), path[1:]
    if not rest:
        return None
    try:
        # The authority of another scheme is written as it stands; all other segments are encoded.
        below = make_uri(("x", *rest[1:])).removeprefix(f"{SCHEME}://x")
        found = make_uri(rest) if scheme == SCHEME else parse_uri(f"{scheme}://{rest[0]}{below}")
    except FormatError:
        return None
    # There is one spelling of each: what would be served elsewhere is not served here.
    return (parts.authority, found) if downstream_root(parts.authority, found) == uri else None


@dataclass(frozen=True, slots=True)
class ServedEntry:
    """How an entry is served, and in which directory."""

    original: SkillEntry
    root: SkillUri
    entry: SkillEntry


def served_entry(origin: Origin, original: SkillEntry, limits: Limits) -> ServedEntry:
    """How an entry is served; a `FormatError` or `LimitExceeded` if it cannot be."""
    entry = check_entry(original, limits=limits)
    if not entry.name or not entry.description.strip():
        # An older dialect may leave them out. They are never made up.
        raise FormatError(
            Issue(
                rule="frontmatter",
                message="its server gives no name or description",
                fix="serve it with the final extension",
            )
        )
    old = skill_root(entry.uri)
    root = downstream_root(origin.label, old)
    uri = moved(entry.uri, old, root)
    resources: tuple[SkillResource, ...] | Literal[Dynamic.DYNAMIC] = DYNAMIC
    # The final extension has sizes. What a draft left out is not guessed; its digests are checked here.
    if entry.resources is not DYNAMIC and all(file.size != NO_SIZE for file in entry.resources):
        # `check_entry` made sure that they are below the directory.
        cut = len(old)
        resources = tuple(
            [
                SkillResource(
                    uri if file.uri == entry.uri else SkillUri(root + file.uri[cut:]), file.digest, file.size
                )
                for file in entry.resources
            ]
        )
    return ServedEntry(original, root, SkillEntry(uri, entry.frontmatter, resources, entry.meta))


_FAILED_SECONDS: Final = 60.0
_INTERNAL_ERROR: Final = -32603
_MISSING_SECONDS: Final = 5.0
_MOST_MISSING: Final = 10_000
_MOST_FOLLOWED: Final = 200
_MOST_REASONS: Final = 100
_SLOW_SECONDS: Final = 2.0
"""A server whose answer was waited for this long in vain is not asked for a while."""
_SILENT_SECONDS: Final = 5.0
_UNTIL_IT_ANSWERS: Final = math.inf
_CACHE_SECONDS: Final = 0.5
# The entry may be outdated or false; the next one may be correct.
_STALE: Final = (VerificationError, FormatError, SkillNotFound)

Answer = TypeVar("Answer")

_log = logging.getLogger("skillwire.gateway")


@dataclass(slots=True, eq=False)
class Offer:
    """A skill of an upstream, and how it is served. Another version of the skill is another offer.

    There are ten thousand of them in a large gateway: what few of them need is computed on demand.
    """

    upstream: Upstream = field(repr=False)
    skill: HostSkill
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
        """Return the upstream's URI of a file of this skill."""
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
        self.failed: dict[SkillKey, str] = {}
        """The skills that failed verification and are held back for now, each with the reason."""
        self._limits = limits
        self._memory = memory
        self._offers: dict[SkillUri, Offer] = {}
        self._made: dict[SkillKey, Offer] = {}
        self._prepared: dict[SkillKey, ServedEntry] = {}
        self._unusable: dict[SkillKey, tuple[SkillEntry, str]] = {}
        self._seen: tuple[HostSkill, ...] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._failures: dict[SkillKey, tuple[SkillEntry, float]] = {}
        self._calls: dict[tuple[object, ...], asyncio.Task[Any]] = {}
        self._signed: dict[Offer, int] = {}
        """The offers whose publishers were checked, each with the revision of the policy then."""
        self._missing: OrderedDict[tuple[Origin, SkillUri], float] = OrderedDict()
        self._silent: dict[Origin, float] = {}
        self._used: dict[Origin, OrderedDict[SkillUri, None]] = {}
        self._subscribed: dict[object, frozenset[SkillUri]] = {}
        host.table.watch(lambda changes: self._changed())
        host.log.on_change(self._policy_changed)
        host.places.registration.on_arrival = self._prepare
        self._revision = host.rules.revision

    @property
    def origins(self) -> dict[str, Origin]:
        """The servers and directories of the host by their labels in lower case."""
        return {label_segment(origin.label): origin for origin in self.host.places.origins()}

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

    async def settled(self, label: str) -> None:
        """Wait until a server has answered or failed. One that a command starts has its own time for that."""
        if self.ready.is_set():
            return
        origin = self.origins.get(label)
        if origin is None or self._is_silent(origin):
            return
        config = self.host.places.configs.get(origin)
        seconds = self._limits.upstream_seconds if config is not None and config.url else None
        with anyio.move_on_after(seconds) as waiting:
            await self.host.places.settled(origin)
        if waiting.cancelled_caught:
            self._silent[origin] = anyio.current_time() + _SILENT_SECONDS

    def is_unknown(self, origin: Origin) -> bool:
        """Whether a server is unavailable, and nothing is known of what it has."""
        is_known = any(offer.skill.origin == origin for offer in self._made.values())
        return not is_known and self.host.places.is_unavailable(origin)

    def kept_offer(self, origin: Origin, entry: SkillEntry) -> Offer | None:
        """The offer of a skill that was approved before and that its server cannot be asked about now."""
        try:
            return self._offer(HostSkill(origin, entry, entry.name))
        except (FormatError, LimitExceeded):
            return None

    def remaining_ms(self, origin: Origin) -> int | None:
        """How long its listing may still be cached; `None` for a directory."""
        seconds = self.host.places.remaining_seconds(origin)
        return None if seconds is None else int(seconds) * 1000

    async def find(self, label: str, uri: SkillUri) -> Offer | None:
        """A skill that its server may not list (LST-3), by the URI that the server knows."""
        origin = self.origins.get(label)
        if origin is None or origin.is_local or self.host.places.is_unavailable(origin):
            return None
        if self._is_silent(origin):
            raise self.unavailable(origin, uri)
        asked = (origin, uri)
        now = anyio.current_time()
        if self._missing.get(asked, 0) > now:
            return None  # Asked a moment ago: a client that guesses costs its server little.
        try:
            skill = await self._call(origin, uri, "find", lambda: self.host.places.look_up(uri, origin))
        except SkillwireError as error:
            if isinstance(error, Refusal):
                raise
            _log.debug("%s has no skill %s: %s", origin, shown_uri(uri), error)
            if _is_no_answer(error):
                raise self.unavailable(origin, uri) from None
            self._missing[asked] = now + _MISSING_SECONDS
            while len(self._missing) > _MOST_MISSING:
                self._missing.popitem(last=False)
            return None
        self._update()
        return self._made.get(skill.key)

    def unavailable(self, origin: Origin, uri: SkillUri) -> Refusal:
        """The error for a request about a server that does not answer: not the same as "not found"."""
        silent = self._silent.get(origin, 0) - anyio.current_time()
        wait = max(self.host.places.retry_seconds(origin), silent)
        seconds = math.ceil(wait) if wait < _UNTIL_IT_ANSWERS else 0
        again = f"it is tried again in {seconds} s" if seconds else "it is tried again"
        data = {"uri": shown_uri(uri), "server": origin.label, "retrySeconds": seconds}
        return Refusal(f"The server {origin.label} is unavailable; {again}", code=_INTERNAL_ERROR, data=data)

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
        return await self._call(offer.skill.origin, uri, offer, lambda: self._fetch(offer, uri))

    async def at_hand(self, offer: Offer) -> bytes | None:
        """The `SKILL.md` of an offer, if it was verified before and no server has to be asked for it."""
        return self._memory.get(offer, offer.uri) or await self.host.files.cached(offer.skill)

    async def _fetch(self, offer: Offer, uri: SkillUri) -> bytes:
        skill = offer.skill
        try:
            file = await self.host.files.fetch(skill, offer.original(uri))
        except _STALE as error:
            if isinstance(error, SkillNotFound) and skill.entry.is_dynamic:
                raise  # Only the server knows which files such a skill has.
            fresh = await self.host.places.refreshed(skill, error)
            if fresh.entry != skill.entry:
                raise Superseded from error
            self._fail(skill, str(error))
            raise
        if file.bound:
            self._memory.put(offer, uri, file.data)
        self._use(offer)
        return file.data

    # Servers that do not answer

    async def _call(
        self, origin: Origin, uri: SkillUri, what: object, ask: Callable[[], Coroutine[Any, Any, Answer]]
    ) -> Answer:
        """Call a server and return its answer, or raise that it is unavailable.

        Requests for the same wait for one answer, and no longer than `upstream_seconds`: the next ones are
        told at once until the server has answered or its own time is over. Then its answer is in the cache.
        """
        if origin.is_local:
            return await ask()
        if self._is_silent(origin):
            # What is in the cache of the host needs no server.
            with anyio.move_on_after(_CACHE_SECONDS):
                return await ask()
            raise self.unavailable(origin, uri)
        key = (origin, uri, what)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = asyncio.ensure_future(ask())
            started = anyio.current_time()
            call.add_done_callback(lambda call: self._note_answer(key, call, origin, started))
        await asyncio.wait([call], timeout=self._limits.upstream_seconds)
        if not call.done():
            _log.warning("%s: no answer in %g s", shown_uri(uri), self._limits.upstream_seconds)
            self._silent[origin] = _UNTIL_IT_ANSWERS
        elif not call.cancelled() and not (
            _is_no_answer(call.exception())
            and (self._is_silent(origin) or self.host.places.is_unavailable(origin))
        ):
            return call.result()
        raise self.unavailable(origin, uri)

    def _note_answer(
        self, key: tuple[object, ...], call: asyncio.Task[Any], origin: Origin, started: float
    ) -> None:
        self._calls.pop(key, None)
        if call.cancelled():
            return
        error = call.exception()
        if not _is_no_answer(error):
            self._silent.pop(origin, None)
        elif origin in self._silent or anyio.current_time() - started >= _SLOW_SECONDS:
            # It was waited for; others need not wait as long to learn the same.
            _log.warning("%s", error)
            self._silent[origin] = anyio.current_time() + _SILENT_SECONDS

    def _is_silent(self, origin: Origin) -> bool:
        """Whether a server was waited for in vain a moment ago."""
        return self._silent.get(origin, 0) > anyio.current_time()

    def close(self) -> None:
        """End what is still being asked."""
        for call in self._calls.values():
            call.cancel()

    async def check_publishers(self, offer: Offer) -> None:
        """Refuse a skill that lacks the signature of a publisher whom its server must have, or in which a
        scanner of the policy found too much.
        """
        skill, decide = offer.skill, self.host.decide
        revision = self.host.rules.revision
        is_signed = self._signed.get(offer) == revision
        try:
            case = decide.open(skill)
            if not is_signed and decide.needs_signature(case):
                await self._call(
                    skill.origin, skill.uri, "publishers", lambda: self.host.signatures.check(skill)
                )
                case = decide.open(skill)
            # Not as a call of its server, which is not slow when a scanner is.
            if not is_signed or case.facts.policy.scanners:
                await decide.require_usable(case, report=not is_signed)
        except PolicyRefused as error:
            raise SourceError(str(error)) from None  # Nothing is wrong with its server.
        except (ApprovalRequired, VerificationError, FormatError) as error:
            self._fail(offer.skill, str(error))
            raise SourceError(str(error)) from None
        self._signed[offer] = revision

    async def read_directory(self, offer: Offer, uri: SkillUri) -> Sequence[DirectoryChild]:
        """List a directory of a skill that its server generates on request."""
        skill, path = offer.skill, offer.original(uri)
        return await self._call(
            skill.origin,
            path,
            "directory",
            lambda: self.host.places.source(skill.origin).read_directory(path),
        )

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
                self.host.following.serve(origin, sorted(uris)[: self._limits.subscriptions_per_client])

    def reasons(self) -> list[tuple[Origin, str]]:
        """Why skills of this host are not served."""
        self._update()
        found = [(left.origin, left.message) for left in self.host.log.left_out()]
        found += [(key.origin, f"{shown_uri(key.uri)}: {why}") for key, (_, why) in self._unusable.items()]
        found += [(key.origin, f"{shown_uri(key.uri)}: {why}") for key, why in self.failed.items()]
        return found

    def _policy_changed(self) -> None:
        if self._revision != self.host.rules.revision:
            self._revision = self.host.rules.revision
            self._changed()

    def _changed(self) -> None:
        self._seen = None
        for tell in tuple(self._listeners):
            tell()

    def _fail(self, skill: HostSkill, reason: str) -> None:
        """Hold a skill back for a while: what its server sends is not what it lists."""
        _log.warning("%s from %s is not served: %s", shown_uri(skill.uri), skill.origin, reason)
        self._failures[skill.key] = (skill.entry, anyio.current_time() + _FAILED_SECONDS)
        self.failed[skill.key] = reason
        self._changed()

    def _update(self) -> None:
        """Make offers of what the host knows now. What did not change keeps its offer."""
        skills = self.host.skills()
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
        known = set(made.values()) if self._signed else ()
        self._signed = {offer: revision for offer, revision in self._signed.items() if offer in known}

    def _prepare(self, origin: Origin, entries: Sequence[SkillEntry]) -> None:
        """While slower servers are awaited, do the work that would otherwise remain after the last answer."""
        for entry in entries:
            with suppress(FormatError, LimitExceeded):  # Found and reported again with the offer.
                self._prepared[SkillKey(origin, entry.uri)] = served_entry(origin, entry, self._limits)

    def _offer(self, skill: HostSkill) -> Offer:
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


def _is_no_answer(error: BaseException | None) -> bool:
    """Whether a server did not answer. One that refuses a request did."""
    return isinstance(error, SourceError) and not isinstance(error, RequestRefused)


def _touches(root: SkillUri, uri: SkillUri) -> bool:
    """Whether a URI is a skill's directory, or lies in it or around it."""
    return root == uri or root.startswith(f"{uri}/") or uri.startswith(f"{root}/")
