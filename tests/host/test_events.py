"""The log of events: every listener gets all stored events, in order, until it ends."""

from __future__ import annotations

import anyio
import pytest

from skillwire.host import Event, EventKind
from skillwire.host.events import EventRecorder

pytestmark = pytest.mark.anyio


def event(number: int) -> Event:
    return Event(kind=EventKind.REMARK, message=f"event {number}")


async def test_a_listener_gets_past_and_future_events() -> None:
    log, heard = EventRecorder(), list[str]()
    log.record(event(1))

    async def listen() -> None:
        async for one in log.events():
            heard.append(one.message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await anyio.lowlevel.checkpoint()
        log.record(event(2))
        await anyio.lowlevel.checkpoint()
        log.record(event(3))
        log.close()
    assert heard == ["event 1", "event 2", "event 3"]


async def test_a_late_listener_gets_the_last_thousand_events() -> None:
    log = EventRecorder()
    for number in range(1500):
        log.record(event(number))
    log.close()
    heard = [one.message async for one in log.events()]
    assert len(heard) == len(log.events_so_far()) == 1000
    assert (heard[0], heard[-1]) == ("event 500", "event 1499")


async def test_a_slow_listener_loses_the_oldest_events_and_delays_nobody() -> None:
    log = EventRecorder()
    log.record(event(0))
    heard: list[str] = []
    async for one in log.events():
        heard.append(one.message)
        if len(heard) == 1:
            for number in range(1, 2000):
                log.record(event(number))
            log.close()
    assert len(heard) == 1001
    assert heard[-1] == "event 1999"


@pytest.mark.requirement("SEC-11")
async def test_a_message_is_one_clean_line_of_bounded_length() -> None:
    log = EventRecorder()
    log.record(Event(kind=EventKind.FAILURE, message="a\x1b[2J\nb\u202e" + "x" * 5000))
    (told,) = log.events_so_far()
    assert told.message.startswith("a bxxx")
    assert len(told.message) <= 1000
