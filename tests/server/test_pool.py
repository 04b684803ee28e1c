"""ViewPool and SharedPool: who stays, who goes, and what never happens to an open stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from skillwire.access import Caller
from skillwire.limits import Limits
from skillwire.server import OpenRequest, PoolFull, SharedPool, ViewPool

pytestmark = pytest.mark.anyio


class Place:
    """An endpoint that runs until it is stopped."""

    def __init__(self, key: str, failure: Exception | None = None) -> None:
        self.key = key
        self.failure = failure
        self.requests: list[OpenRequest] = []
        self.has_ended_streams = False
        self.stopped = asyncio.Event()

    async def run(self, stopping: asyncio.Event, started: asyncio.Event) -> None:
        if self.failure is not None:
            raise self.failure
        started.set()
        await stopping.wait()
        self.stopped.set()

    def end_streams(self) -> None:
        self.has_ended_streams = True
        for request in self.requests:
            request.end()

    def open_requests(self) -> list[OpenRequest]:
        return self.requests

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nobody asks")


class Pool:
    """A pool of such endpoints, with a clock of its own."""

    def __init__(self, **limits: Any) -> None:
        self.now = 0.0
        self.made: list[Place] = []
        self.closed: list[str] = []
        self.failure: Exception | None = None
        self.pool: ViewPool[str] = ViewPool(self.make, limits=Limits(**limits), clock=lambda: self.now)

    def make(self, key: str) -> tuple[Place, Any]:
        place = Place(key, self.failure)
        self.made.append(place)
        return place, lambda: self.closed.append(key)

    def stream(self, place: Place, caller: Caller) -> OpenRequest:
        request = OpenRequest([], caller)
        place.requests.append(request)
        return request


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_key_has_one_endpoint_that_stays_while_it_is_used_and_a_while_longer() -> None:
    own = Pool(http_view_idle_seconds=10)
    first, second = await own.pool.acquire("a"), await own.pool.acquire("a")
    assert first is second
    own.pool.release(first)
    own.now = 100
    own.pool.close_idle()
    assert len(own.pool) == 1, "one request is still open"
    own.pool.release(second)
    own.pool.close_idle()
    assert len(own.pool) == 1
    own.now = 111
    own.pool.close_idle()
    assert (len(own.pool), own.closed) == (0, ["a"]), "what it held is free at once"
    await settled()
    assert own.made[0].stopped.is_set()
    assert own.closed == ["a"]


async def test_past_the_limit_the_longest_idle_view_goes_and_one_in_use_never() -> None:
    own = Pool(http_views=3)
    a, b, c = [await own.pool.acquire(key) for key in "abc"]
    with pytest.raises(PoolFull) as full:
        await own.pool.acquire("d")
    assert full.value.retry_seconds > 0
    assert not any(place.has_ended_streams for place in own.made)
    own.pool.release(b)
    own.pool.release(c)
    await own.pool.acquire("d")
    await settled()
    assert own.closed == ["b"]
    assert [place.has_ended_streams for place in own.made] == [False, True, False, False]
    own.pool.release(a)
    await own.pool.aclose()
    assert len(own.pool) == 0


async def test_one_caller_has_a_share_of_the_pool_and_others_are_not_evicted_for_them() -> None:
    own = Pool(http_views_per_caller=2)
    own.pool.release(await own.pool.acquire("other", owner="bob"))
    for number in range(100):
        own.pool.release(await own.pool.acquire(f"made-up-{number}", owner="ada"))
    await settled()
    assert len(own.pool) == 3
    assert "other" not in own.closed
    for number in (98, 99):
        await own.pool.acquire(f"made-up-{number}", owner="ada")
    with pytest.raises(PoolFull):
        await own.pool.acquire("one-more", owner="ada")


async def test_a_revoked_view_ends_its_streams_and_stops_when_its_last_request_is_over() -> None:
    own = Pool()
    view = await own.pool.acquire("a")
    stream = own.stream(own.made[0], Caller(name="ada"))
    own.pool.revoke(view)
    assert view.is_revoked
    assert stream.ending.is_set()
    await settled()
    assert not own.made[0].stopped.is_set(), "a request is still open, and its endpoint must run"
    again = await own.pool.acquire("a")
    assert again is not view
    own.pool.release(view)
    await settled()
    assert own.made[0].stopped.is_set()
    assert not own.made[1].stopped.is_set()
    assert len(own.pool) == 1


async def test_streams_end_when_their_callers_are_revoked_or_may_see_something_else() -> None:
    own = Pool()
    ada, bob, eve = (Caller(name=name, credential=name) for name in ("ada", "bob", "eve"))
    view = await own.pool.acquire("all")
    streams = [own.stream(own.made[0], caller) for caller in (ada, bob, eve)]

    async def recheck(callers: Sequence[Caller]) -> Sequence[Caller | None]:
        return [None if caller.name == "bob" else caller for caller in callers]

    def key_of(caller: Caller, _headers: Any) -> str:
        return "less" if caller.name == "eve" else "all"

    ended = await own.pool.end_stale(recheck, key_of, lambda _key: None)
    assert ended == 2
    assert [stream.ending.is_set() for stream in streams] == [False, True, True]
    assert await own.pool.end_stale(recheck, key_of, lambda _key: None) == 0
    own.pool.release(view)


async def test_a_view_of_one_caller_is_closed_when_that_caller_is_not_the_same_any_longer() -> None:
    own = Pool()
    before = Caller(name="ada", labels=frozenset({"docs"}))
    own.pool.release(await own.pool.acquire("ada's"))
    own.pool.release(await own.pool.acquire("bob's"))
    owners = {"ada's": before, "bob's": Caller(name="bob")}

    async def recheck(callers: Sequence[Caller]) -> Sequence[Caller | None]:
        return [Caller(name="ada") if caller.name == "ada" else caller for caller in callers]

    await own.pool.end_stale(recheck, lambda _caller, _headers: "", owners.get)
    await settled()
    assert own.closed == ["ada's"]


async def test_an_endpoint_that_does_not_start_says_why_and_is_tried_again() -> None:
    own = Pool()
    own.failure = OSError("no such folder")
    for _ in range(2):
        with pytest.raises(OSError, match="no such folder"):
            await own.pool.acquire("a")
    own.failure = None
    assert (await own.pool.acquire("a")).failure is None
    assert len(own.made) == 3


async def test_views_that_are_opened_while_the_server_stops_have_no_streams() -> None:
    own = Pool()
    await own.pool.acquire("a")
    own.pool.end_streams()
    await own.pool.acquire("b")
    assert all(place.has_ended_streams for place in own.made)


async def test_the_cache_of_a_view_is_its_share() -> None:
    own = Pool(http_cache_bytes=1000, response_cache_bytes=600)
    sizes: list[int] = []
    for key in "abcd":
        sizes.append(own.pool.limits_of_next.response_cache_bytes)
        await own.pool.acquire(key)
    assert sizes == [600, 500, 333, 250]


class Shared:
    def __init__(self, most: int = 2) -> None:
        self.now = 0.0
        self.closed: list[str] = []
        self.pool: SharedPool[str, str] = SharedPool(
            self.closed.append, most_per_owner=most, idle_seconds=60, clock=lambda: self.now
        )

    def acquire(self, key: str, holder: object, owner: str = "ada") -> str:
        return self.pool.acquire(key, holder, lambda: f"value of {key}", owner=owner)


def test_a_value_is_shared_and_closed_some_time_after_its_last_holder() -> None:
    shared = Shared()
    one, two = object(), object()
    assert shared.acquire("k", one) is shared.acquire("k", two, "bob")
    shared.pool.release(one)
    shared.now = 1000
    shared.pool.close_idle()
    assert shared.closed == []
    shared.pool.release(two)
    shared.now = 1059
    shared.pool.close_idle()
    assert shared.closed == []
    shared.now = 1061
    shared.pool.close_idle()
    assert shared.closed == ["value of k"]
    assert len(shared.pool) == 0


def test_a_thousand_credentials_of_one_owner_are_never_more_than_their_share() -> None:
    shared = Shared(most=4)
    kept = object()
    shared.acquire("of bob", kept, "bob")
    for number in range(1000):
        holder = object()
        shared.acquire(f"made-up-{number}", holder)
        shared.pool.release(holder)
        assert len(shared.pool) <= 5
    assert "value of of bob" not in shared.closed
    holders = [object() for _ in range(4)]
    for number, holder in enumerate(holders):
        shared.acquire(f"held-{number}", holder)
    with pytest.raises(PoolFull):
        shared.acquire("one more", object())
    shared.pool.close()
    assert len(shared.pool) == 0
