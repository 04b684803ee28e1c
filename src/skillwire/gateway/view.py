"""CallerSource: what one caller gets of the skills behind a gateway.

Every request of a caller passes these steps in order, and the first that says no decides:

1. Permission: the URI alone decides whether the caller may see it. What they may not see does not
   exist for them.
2. Offer: an upstream has the skill, and its entry is sound and within the limits.
3. Approval: in the mode `required` the caller approved exactly this set of files, or `Unapproved` is raised
   before a byte is fetched. A skill that is generated on request is fetched first, and approved as it was
   seen.
4. Verification: the bytes are those of the entry (VER-1, VER-2). An outdated entry is refreshed once, and
   the steps start again: another set of files needs another approval (VER-6).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio
import anyio.to_thread

from skillwire.access import Caller
from skillwire.consent import covered_files, status_of
from skillwire.errors import Refusal, SkillNotFound, SkillwireError, SourceError
from skillwire.files import file_stamp, read_regular, unreadable
from skillwire.gateway.records import Approvals, CallerQuestion, Unapproved
from skillwire.gateway.upstreams import Offer, Superseded, Upstream, label_segment, moved, upstream_uri
from skillwire.host import Decider
from skillwire.install import Lock, LockedSkill, parse_lock
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import (
    SCHEME,
    SKILL_FILE,
    SetDigest,
    SkillEntry,
    SkillResource,
    SkillUri,
    digest_of,
    is_inside,
    shown_uri,
    skill_root,
    split_uri,
)
from skillwire.sources import Change, DirectoryChild, Read, Source, listed_directory
from skillwire.trust import Allowed, ApprovalMode, Ask, Decision, Denied, Origin, Scan, Step

_log = logging.getLogger("skillwire.gateway")


class LockedSkills:
    """The skills of a lock file, which is read again when it changes. If it is invalid, the last valid one
    stays in use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.revision = 0
        """A new number whenever the lock was read again."""
        self._stamp = file_stamp(path)
        self.lock = self._read()
        self._by_digest = _by_digest(self.lock)
        self._reading = anyio.Lock()

    def allows(self, label: str, uri: SkillUri, name: str, digest: SetDigest) -> bool:
        """Whether the lock names a skill with exactly these files, of this server if it came from one."""
        pinned = self._by_digest.get(digest)
        if pinned is None or pinned.name != name:
            return False
        pin = pinned.pin
        return pin.kind != "mcp" or (pin.get("server"), pin.get("uri")) == (label, uri)

    def is_current(self) -> bool:
        """Whether the file is the one that was read. Takes one `stat`."""
        return file_stamp(self.path) == self._stamp

    async def refresh(self) -> None:
        """Read the lock again if it changed."""
        if self.is_current():
            return
        async with self._reading:
            stamp = file_stamp(self.path)
            if stamp == self._stamp:
                return  # Somebody else read it in the meantime.
            try:
                lock = await anyio.to_thread.run_sync(self._read)
            except SkillwireError as error:
                _log.error("the lock in use is unchanged: %s", error)
            else:
                self.lock, self._by_digest = lock, _by_digest(lock)
                self.revision += 1
            self._stamp = stamp

    def _read(self) -> Lock:
        try:
            data = read_regular(self.path, DEFAULT_LIMITS.document_bytes + 1)
            return parse_lock(data.decode("utf-8"), file=str(self.path))
        except (OSError, UnicodeError) as error:
            raise SourceError(
                f"{self.path} cannot be read: {unreadable(error)}; name a skillwire.lock"
            ) from None


def _by_digest(lock: Lock) -> dict[SetDigest, LockedSkill]:
    return {skill.digest: skill for skill in lock.skills}


GatewayApproval: TypeAlias = Literal["required", "listed", "locked"]
"""Who approves: the caller of the gateway, the host behind it, or the lock file."""

_ATTEMPTS: Final = 2
_OF_PEOPLE: Final = (Step.NEVER, Step.DECLINED, Step.PINNED, Step.QUESTION)
"""The steps of admission that a person's approval, or the lack of one, decides."""


class _Always:
    """The bytes were verified against the entry, and the response is dropped with the entry."""

    def is_fresh(self) -> bool:
        return True


_ALWAYS: Final = _Always()


@dataclass(frozen=True, slots=True)
class _Listing:
    state: tuple[int, ...]
    entries: tuple[SkillEntry, ...]


class CallerSource(Source):
    """The skills of a gateway for one caller, over the upstreams that this caller uses.

    Of two upstreams with the same server, the first counts. The last is the one that all callers share; it is
    not used for the labels in `hidden`, for which this caller has to have a credential of their own.
    `lock` names what is served in the mode `locked`. With `begin_with_last`, the last listing of a server is
    enough for the first lists. `on_read` is called for every file that was read, and `on_needed` when the
    servers should be connected.
    """

    def __init__(
        self,
        caller: Caller,
        upstreams: Sequence[Upstream],
        approvals: Approvals,
        *,
        mode: GatewayApproval = "required",
        lock: LockedSkills | None = None,
        hidden: Collection[str] = (),
        begin_with_last: bool = False,
        on_needed: Callable[[], None] = lambda: None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.caller = caller
        self.approvals = approvals
        self._upstreams = tuple(upstreams)
        self._deciders = {
            one: one.host.decide.of(caller.name, consent=approvals.store) for one in self._upstreams
        }
        self._hidden = hidden
        self._routes: dict[str, tuple[Upstream, Origin]] = {}
        self._find_routes()
        self._offline: dict[SkillUri, Offer] = {}
        self._mode = mode
        self._lock = lock
        self._begin_with_last = begin_with_last
        self._on_needed = on_needed
        self._limits = limits
        self._lists_until: float | None = None
        self.on_read: Callable[[Offer, SkillUri], None] = lambda offer, uri: None
        self._listing: _Listing | None = None
        self._changed = anyio.Event()
        self._ends: list[Callable[[], None]] = []

    def _find_routes(self) -> None:
        """Which upstream each label is reached through. Servers come and go with the configuration."""
        self._routes = {}
        for upstream in self._upstreams:
            for label, origin in upstream.origins.items():
                is_hidden = upstream is self._upstreams[-1] and label in self._hidden
                if self.caller.sees_label(label) and not is_hidden:
                    self._routes.setdefault(label, (upstream, origin))

    async def open(self) -> None:
        if not self._ends:
            self._ends = [upstream.listen(self._note_change) for upstream in self._upstreams]

    async def aclose(self) -> None:
        for end in self._ends:
            end()
        self._ends = []
        for upstream in self._upstreams:
            upstream.follow(self, ())

    # The listing

    async def list_entries(self) -> Sequence[SkillEntry]:
        """Return the entries that are known. A server of which nothing is known yet is waited for, but not
        for long: it hides nothing of the others, and clients are notified when it has answered.
        """
        if self.is_starting:
            await self._begin()
        else:
            await self._refresh()
        self._on_needed()
        return self._current().entries

    async def introduce(self) -> Sequence[SkillEntry]:
        """Return the entries that are known at the beginning of a connection: what the caller can load at
        once comes first, then by name.
        """
        await self._know(self._limits.introduction_seconds)
        listed = {entry.uri for entry in self._current().entries}
        offers = [offer for offer in self.offers() if offer.uri in listed]
        offers.sort(key=lambda offer: (self.is_waiting(offer), offer.entry.name, offer.uri))
        return [offer.entry for offer in offers]

    @property
    def is_starting(self) -> bool:
        return not all(upstream.ready.is_set() for upstream in self._upstreams)

    def record_offer(self, text: str) -> None:
        """Count the skills that a text for models names, if the user has that counted."""
        for upstream in self._upstreams:
            offers = [offer for offer in self.offers() if offer.upstream is upstream]
            upstream.host.usage.offer_names(text, [offer.skill for offer in offers])

    def current_entries(self) -> Sequence[SkillEntry] | None:
        listing = self._listing
        if listing is None or not all(upstream.is_settled for upstream in self._upstreams):
            return None
        if listing.state != self._state() or not self.approvals.store.is_current():
            return None
        if self._lock is not None and not self._lock.is_current():
            return None
        return listing.entries

    def offers(self) -> list[Offer]:
        """Every skill that the caller may see, listed or not."""
        found = [
            offer
            for upstream in self._upstreams
            for offer in upstream.offers().values()
            if self._route(label_segment(offer.skill.origin.label)) is upstream and self._is_visible(offer)
        ]
        return [*found, *self._offline.values()]

    async def _begin(self) -> None:
        """Wait for the first lists, once for all requests."""
        now = anyio.current_time()
        is_first = self._lists_until is None
        self._lists_until = self._lists_until or now + self._limits.first_list_seconds
        await self._know(self._lists_until - now)
        if is_first and (awaited := self.awaited()):
            _log.warning("%s has not answered yet: listed as the last time, if ever", ", ".join(awaited))
        if not self._current().entries:
            # What starts on this machine has a deadline of its own, and clients that are not notified.
            for upstream in self._upstreams:
                places = upstream.host.places
                for origin in places.origins():
                    if origin not in places.configs or not places.configs[origin].url:
                        await places.settled(origin)

    def awaited(self) -> list[str]:
        """The labels of servers that the caller may see and that have not answered, or no longer do."""
        return [label for label, (one, origin) in self._routes.items() if one.host.places.is_awaited(origin)]

    async def _know(self, seconds: float) -> None:
        """Wait until something is known of every server, and a moment longer for what it lists now, unless
        its last listing is enough.
        """
        with anyio.move_on_after(seconds):
            for upstream in self._upstreams:
                await upstream.host.places.known()
            if not self._begin_with_last:
                with anyio.move_on_after(self._limits.introduction_seconds):
                    for upstream in self._upstreams:
                        await upstream.host.places.settled()
        await self._refresh()

    async def _prepare(self, uri: SkillUri) -> None:
        """Wait for the server of a skill, which may have changed it since it was last listed."""
        label = split_uri(uri).authority
        upstream = self._route(label)
        if upstream is not None:
            self._on_needed()
            await upstream.settled(label)
        await self._refresh()

    async def _refresh(self) -> None:
        await self.approvals.refresh()
        if self._lock is not None:
            await self._lock.refresh()

    def _state(self) -> tuple[int, ...]:
        versions = tuple(upstream.version for upstream in self._upstreams)
        policies = tuple(upstream.host.rules.revision for upstream in self._upstreams)
        lock = self._lock.revision if self._lock else 0
        return (*versions, *policies, self.approvals.store.revision, lock)

    def _current(self) -> _Listing:
        for upstream in self._upstreams:
            upstream.offers()
        state = self._state()
        listing = self._listing
        if listing is None or listing.state != state:
            self._offline = self._kept_offers()
            entries = [
                self._entry(offer)
                for offer in self.offers()
                if offer.skill.listed and offer.upstream.host.decide.is_permitted(offer.skill)
            ]
            made = tuple(sorted(entries, key=lambda entry: entry.uri))
            # The same object as long as its content is the same, so that what clients derived from it stays
            # valid.
            if listing is not None and made == listing.entries:
                made = listing.entries
            listing = self._listing = _Listing(state, made)
        return listing

    def _entry(self, offer: Offer) -> SkillEntry:
        """The entry for this caller: marked, if the skill waits for approval."""
        return offer.waiting if self.is_waiting(offer) else offer.entry

    def is_waiting(self, offer: Offer) -> bool:
        """Whether the caller has to approve a skill before it is loaded."""
        return self._mode == "required" and self.decider(offer).waits(offer.skill)

    def decider(self, offer: Offer) -> Decider:
        """What decides about a skill for this caller, by the approvals that all upstreams share."""
        return self._deciders[offer.upstream]

    def _approval_mode(self, offer: Offer) -> ApprovalMode:
        return offer.upstream.host.rules.approval_mode(offer.skill.origin)

    def _is_visible(self, offer: Offer) -> bool:
        if not self.caller.allows(offer.root):
            return False
        if self._mode == "locked":
            return self._is_pinned(offer)
        return self._approval_mode(offer) is not ApprovalMode.NEVER

    def _is_pinned(self, offer: Offer) -> bool:
        if self._lock is None or offer.digest is None:
            return False
        skill = offer.skill
        return self._lock.allows(skill.origin.label, skill.uri, skill.entry.name, offer.digest)

    # One skill

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        offer = await self._offer(uri)
        if not offer.upstream.host.decide.is_permitted(offer.skill):
            self.require(offer)
        return self._entry(offer)

    async def read(self, uri: SkillUri) -> Read:
        await self._prepare(uri)
        for _ in range(_ATTEMPTS):
            offer = await self._owner(uri)
            if offer is None:
                break
            try:
                data = await self._read(offer, uri)
            except Superseded:
                continue  # There is another version: from the first step again, with its own approval.
            if not self._is_visible(offer):
                break  # It was removed from the lock while it was fetched.
            self.on_read(offer, uri)
            return Read(data, None if offer.skill.entry.is_dynamic else _ALWAYS)
        raise self._missing("resource", uri)

    async def at_hand(self, uri: SkillUri) -> bytes | None:
        """The text of a skill that this caller may have as it is now."""
        offer = self.known_owner(uri)
        if offer is None or offer.uri != uri or self._is_undecidable(offer):
            return None
        if not self._lets(self.decider(offer).decision(offer.skill)):
            return None  # It is refused, or its signature has to be checked first, or it to be scanned.
        return await offer.upstream.at_hand(offer)

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        await self._prepare(uri)
        children = {child.uri: child for child in listed_directory(self._current().entries, uri)}
        try:
            owner = await self._owner(SkillUri(f"{uri}/{SKILL_FILE}"))
        except Refusal:
            if not children:
                raise
            owner = None  # Whether a skill that is not listed is here too, its server does not say now.
        if owner is not None and owner.skill.entry.is_dynamic and is_inside(uri, owner.root):
            children |= await self._dynamic_children(owner, uri)
        if not children:
            raise self._missing("directory", uri)
        return tuple(children[child] for child in sorted(children))

    async def changes(self) -> AsyncGenerator[Change]:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            yield Change()

    def follow(self, uris: Collection[SkillUri]) -> None:
        """Subscribe to changes at and below these URIs, which clients subscribed to."""
        allowed = [uri for uri in uris if self.caller.allows(uri)]
        for upstream in self._upstreams:
            upstream.follow(self, allowed)

    def ttl_ms(self, uri: str | None, most: int) -> int:
        """Return the rest of the time for which a result may be cached: of one skill's server, or of all."""
        label = "" if uri is None else uri.removeprefix(f"{SCHEME}://").partition("/")[0]
        routes = [self._routes[label]] if label in self._routes else self._routes.values()
        if uri is not None and any(upstream.has_dynamic for upstream, _ in routes):
            owner = self.known_owner(SkillUri(uri))
            if owner is not None and owner.skill.entry.is_dynamic:
                return 0  # It is unknown how long generated content stays the same.
        remaining = [upstream.remaining_ms(origin) for upstream, origin in routes]
        return min([most, *(ms for ms in remaining if ms is not None)])

    def require(self, offer: Offer, files: Sequence[SkillResource] = ()) -> None:
        """Return if the caller may have a skill as it is now, and raise `Unapproved` if not."""
        seen = frozenset((file.uri, file.digest) for file in files)
        decide = self.decider(offer)
        request = decide.request(offer.skill, seen=seen)
        decision = decide.decision_on(request)
        if isinstance(decision, Allowed) or self._lets(decision):
            return
        decide.end_outdated(offer.skill)
        status = status_of(request, limits=self._limits)
        refusal = decision.refusal if isinstance(decision, Denied) else None
        raise Unapproved(
            f"{offer.uri} is {status.words}",
            offer=offer,
            reason=decision.reason,
            question=_question(offer, decision, files, tuple((request.scans or {}).values())),
            status=status,
            policy="" if refusal is None else refusal.message,
        )

    def _lets(self, decision: Decision) -> bool:
        """Whether a skill may be had: where the host or a lock approves, no person has to."""
        if self._mode != "required" and not isinstance(decision, Allowed):
            return decision.step in _OF_PEOPLE
        return isinstance(decision, Allowed)

    def _is_undecidable(self, offer: Offer) -> bool:
        """Whether the approvals are unavailable: what was read before may have been revoked since."""
        return self._mode == "required" and bool(self.approvals.problem) and not offer.skill.origin.is_own

    async def _read(self, offer: Offer, uri: SkillUri) -> bytes:
        if self._is_undecidable(offer):
            raise SourceError(self.approvals.problem)
        try:
            await offer.upstream.check_publishers(offer)
        except SourceError:
            self.require(offer)  # It says what the state is, now that the signature is known.
            raise
        if not offer.skill.entry.is_dynamic:
            self.require(offer)
            data = await offer.upstream.fetch(offer, uri)
            self.require(offer)  # It may have been revoked while it was fetched.
            return data
        # SEC-6: it has no set of files that could be approved ahead; the caller agrees to what was seen.
        data = await offer.upstream.fetch(offer, uri)
        self.require(offer, [SkillResource(offer.original(uri), digest_of(data), len(data))])
        return data

    async def _offer(self, uri: SkillUri) -> Offer:
        await self._prepare(uri)
        offer = await self._skill_at(uri)
        if offer is None:
            raise self._missing("skill", uri)
        return offer

    def _missing(self, what: str, uri: SkillUri) -> SkillwireError:
        """Not found; or unavailable, if that is the state of a server that the caller may see."""
        # The answer is the same for every URI of the server: nothing can be learned about what is there.
        route = self._routes.get(split_uri(uri).authority)
        if route is not None and route[0].host.places.is_unavailable(route[1]):
            return route[0].unavailable(route[1], uri)
        return SkillNotFound(f"No {what} is served at {shown_uri(uri)}", uri=uri)

    async def _skill_at(self, uri: SkillUri) -> Offer | None:
        """The skill whose `SKILL.md` is at this URI, also one that its server does not list."""
        if not uri.endswith(f"/{SKILL_FILE}") or not self.caller.allows(skill_root(uri)):
            return None
        found = upstream_uri(skill_root(uri))
        if found is None:
            return None
        label, root = found
        offer = self._known(uri, label)
        upstream = self._route(label)
        if offer is None and upstream is not None and uri not in upstream.offers():
            await upstream.find(label, SkillUri(f"{root}/{SKILL_FILE}"))
            offer = self._known(uri, label)
        return offer

    def origin_of(self, uri: SkillUri) -> Origin:
        """The server or directory that a skill comes from."""
        return self._routes[split_uri(uri).authority][1]

    async def _owner(self, uri: SkillUri) -> Offer | None:
        """The skill that a file belongs to, also one that its server does not list."""
        return self.known_owner(uri) or await self._skill_at(uri)

    def known_owner(self, uri: SkillUri) -> Offer | None:
        """The innermost known skill that a file belongs to: one that is approved, if there is one."""
        owners: list[Offer] = []
        label = split_uri(uri).authority if "%" in uri else uri.partition("://")[2].partition("/")[0]
        directory = str(uri)
        while not (directory := directory.rpartition("/")[0]).endswith("/"):
            offer = self._known(SkillUri(f"{directory}/{SKILL_FILE}"), label)
            if offer is not None and offer.lists(uri):
                if offer.uri == uri:
                    return offer  # SEC-5: a nested skill needs an approval of its own.
                owners.append(offer)
        first = owners[0] if owners else None
        return next((owner for owner in owners if not self.is_waiting(owner)), first)

    def _known(self, uri: SkillUri, label: str) -> Offer | None:
        """The skill at this URI, if the caller may see it and it need not be asked for."""
        upstream = self._route(label)
        if upstream is None:
            return None
        offer = upstream.offers().get(uri) or self._offline.get(uri)
        return offer if offer is not None and self._is_visible(offer) else None

    def _route(self, label: str) -> Upstream | None:
        """The upstream that the caller reaches a server through."""
        route = self._routes.get(label)
        return route[0] if route else None

    def _kept_offers(self) -> dict[SkillUri, Offer]:
        """Return what the caller approved of servers that have not been reached yet: it may be cached."""
        found: dict[SkillUri, Offer] = {}
        for upstream, origin in self._routes.values():
            if self._mode == "required" and upstream.is_unknown(origin):
                for record in self.approvals.store.approved(origin, caller=self.caller.name):
                    offer = upstream.kept_offer(origin, record.shown) if record.shown else None
                    if offer is not None and offer.uri not in upstream.offers() and self._is_visible(offer):
                        found[offer.uri] = offer
        return found

    async def _dynamic_children(self, owner: Offer, uri: SkillUri) -> dict[str, DirectoryChild]:
        """List a directory of a skill that its server generates on request (SEC-10)."""
        old, new = owner.original(uri), uri
        try:
            found = await owner.upstream.read_directory(owner, uri)
        except SkillwireError:
            return {}
        children: dict[str, DirectoryChild] = {}
        for child in found:
            if child.uri.startswith(f"{old}/") and "/" not in child.uri[len(old) + 1 :]:
                at = moved(SkillUri(child.uri), old, new)
                children[at] = replace(child, uri=at)
        return children

    def _note_change(self) -> None:
        self._find_routes()
        self._changed.set()


def _question(
    offer: Offer, decision: Ask | Denied, files: Sequence[SkillResource], scans: tuple[Scan, ...]
) -> CallerQuestion | None:
    if isinstance(decision, Denied):
        return None
    covered = covered_files(offer.skill.entry, files)
    return CallerQuestion(offer, offer.digest, covered, decision.changes, scans)
