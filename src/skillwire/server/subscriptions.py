"""Subscriptions: who wants to hear of which URI. The bookkeeping of a URI ends with its last subscriber."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from skillwire.errors import LimitExceeded
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.uris import SkillUri, parse_uri
from skillwire.sources.conflicts import directories_down_to

S = TypeVar("S", bound=Hashable)


class Subscriptions(Generic[S]):
    """Subscribers by URI. Who subscribed to a directory hears of everything below it.

    A subscriber is told of a URI in the spelling that it used.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._by_uri: dict[SkillUri, dict[S, set[str]]] = {}
        self._by_subscriber: dict[S, set[str]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def uris(self) -> Sequence[SkillUri]:
        """Every URI that somebody subscribed to."""
        return tuple(self._by_uri)

    def add(self, subscriber: S, spellings: Iterable[str]) -> None:
        """Subscribe to all of them, or to none and raise: `FormatError`, or `LimitExceeded` for too many."""
        own = self._by_subscriber.get(subscriber, set())
        fresh = {text: canonical(text) for text in spellings if text not in own}
        if len(own) + len(fresh) > self._limits.subscriptions_per_client:
            raise LimitExceeded(
                f"a client can have {self._limits.subscriptions_per_client} of them: end some first, "
                "or subscribe to a directory, which tells of everything below it"
            )
        if self._count + len(fresh) > self._limits.subscriptions:
            raise LimitExceeded("all clients together have too many subscriptions: try again later")
        for text, uri in fresh.items():
            self._by_uri.setdefault(uri, {}).setdefault(subscriber, set()).add(text)
        if fresh:
            self._by_subscriber[subscriber] = own | fresh.keys()
        self._count += len(fresh)

    def remove(self, subscriber: S, spelling: str) -> None:
        """Unsubscribe. Who did not subscribe loses nothing."""
        own = self._by_subscriber.get(subscriber)
        if own is None or spelling not in own:
            return
        own.discard(spelling)
        if not own:
            del self._by_subscriber[subscriber]
        self._count -= 1
        uri = canonical(spelling)
        subscribers = self._by_uri[uri]
        subscribers[subscriber].discard(spelling)
        if not subscribers[subscriber]:
            del subscribers[subscriber]
        if not subscribers:
            del self._by_uri[uri]

    def drop(self, subscriber: S) -> None:
        """Forget a subscriber that went away."""
        for spelling in tuple(self._by_subscriber.get(subscriber, ())):
            self.remove(subscriber, spelling)

    def concerned(self, changed: Iterable[SkillUri]) -> dict[S, set[str]]:
        """Who is to be told of what, after these URIs changed."""
        found: defaultdict[S, set[str]] = defaultdict(set)
        if not self._by_uri:
            return found
        for at in {at for uri in changed for at in directories_down_to(uri)}:
            for subscriber, spellings in self._by_uri.get(at, {}).items():
                found[subscriber] |= spellings
        return found


def canonical(spelling: str) -> SkillUri:
    """The URI that a subscription is for, or a `FormatError`. A directory may end in a slash."""
    return parse_uri(spelling.removesuffix("/"))
