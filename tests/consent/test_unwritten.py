"""What is read and written for a decision, and what holds when it cannot be written."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from sample_entries import DEMO, checked
from skillwire.consent import Change, ConsentStore, Decided, Key, Record, SqliteConsent
from skillwire.errors import SourceError
from skillwire.trust import approve

pytestmark = pytest.mark.anyio
ENTRY, OTHER = checked(), checked("skill://other/SKILL.md")


class Disk(SqliteConsent):
    """A file that can be made full or unreadable, and that counts how often it is opened."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.full = self.unreadable = False
        self.calls: list[str] = []
        self.reading = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def read(self, key: Key | None = None) -> list[Record]:
        self.calls.append("all" if key is None else "one")
        self.reading.set()
        self.go_on.wait()
        if self.unreadable:
            raise SourceError("the disk cannot be read")
        return super().read(key)

    def update(self, changes: Mapping[Key, Change]) -> list[Record]:
        self.calls.append("write")
        if self.full:
            raise SourceError("the disk is full")
        return super().update(changes)


class Place:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = Disk(path)
        self.problems: list[str] = []
        self.store = ConsentStore(self.disk, on_problem=self.problems.append)
        self.key = self.store.key(DEMO, ENTRY.uri)

    async def elsewhere(self) -> Record:
        """The record as another process sees it."""
        return await ConsentStore(self.path).fetch(self.key)


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "approvals.sqlite")
    await made.store.approve(made.key, approve(ENTRY, DEMO), ENTRY)
    made.disk.calls.clear()
    return made


async def test_a_listing_is_one_read_and_a_decision_one_read_and_one_write(place: Place) -> None:
    store, other = place.store, place.store.key(DEMO, OTHER.uri)
    await store.open()
    assert [store.record(key).is_approved for key in (place.key, other)] == [True, False]
    assert place.disk.calls == ["all"]
    await store.fetch(other)
    await store.approve(other, approve(OTHER, DEMO), OTHER)
    assert place.disk.calls == ["all", "one", "write"]


async def test_skills_that_changed_together_are_written_together(place: Place) -> None:
    store, other = place.store, place.store.key(DEMO, OTHER.uri)
    await store.approve(other, approve(OTHER, DEMO), OTHER)
    place.disk.calls.clear()
    for key in (place.key, other):
        store.end(key)
    await store.flush()
    await store.flush()
    assert place.disk.calls == ["write"]
    assert (await place.elsewhere()).last.decision == Decided.CHANGED


async def test_a_change_that_cannot_be_written_ends_the_approval_here_and_is_reported(place: Place) -> None:
    store, other = place.store, place.store.key(DEMO, OTHER.uri)
    place.disk.full = True
    store.end(place.key)
    assert not (await store.fetch(place.key)).is_approved
    assert place.problems == ["the disk is full"]
    await store.fetch(other)  # Nothing was decided about it: it is only read.
    await store.refresh()
    assert not store.record(place.key).is_approved
    assert (await place.elsewhere()).is_approved
    with pytest.raises(SourceError, match="full"):
        await store.flush()
    place.disk.full = False
    assert (await store.fetch(place.key)).last.decision == Decided.CHANGED
    assert await place.elsewhere() == store.record(place.key)


@pytest.mark.parametrize("decision", [Decided.DECLINED, Decided.REVOKED])
async def test_a_no_that_cannot_be_written_is_an_error_and_holds_here(
    place: Place, decision: Decided
) -> None:
    store = place.store
    place.disk.full = True
    with pytest.raises(SourceError, match="full"):
        await (store.decline(place.key, "sha256:0") if decision == "declined" else store.revoke(place.key))
    for record in (store.record(place.key), await store.fetch(place.key)):
        assert record.last.decision == decision
        assert not record.is_approved
    assert (await place.elsewhere()).is_approved
    place.disk.full = False
    await store.flush()
    assert (await place.elsewhere()).last.decision == decision


async def test_a_yes_that_cannot_be_written_is_an_error_and_approves_nothing(place: Place) -> None:
    store, other = place.store, place.store.key(DEMO, OTHER.uri)
    place.disk.full = True
    with pytest.raises(SourceError, match="full"):
        await store.approve(other, approve(OTHER, DEMO), OTHER)
    assert not store.record(other).is_approved
    assert not (await store.fetch(other)).is_approved


async def test_what_is_held_here_yields_to_a_later_decision_of_another_process(place: Place) -> None:
    place.disk.full = True
    place.store.end(place.key)
    await ConsentStore(place.path).approve(place.key, approve(ENTRY, DEMO), ENTRY)
    assert (await place.store.fetch(place.key)).is_approved


async def test_who_signed_a_skill_is_noted_without_reviving_an_approval_that_ended(place: Place) -> None:
    place.store.end(place.key)
    await place.store.note_signer(place.key, "key:1")
    for record in (place.store.record(place.key), await place.elsewhere()):
        assert (record.signer, record.last.decision) == ("key:1", Decided.CHANGED)


async def test_a_read_that_failed_or_was_canceled_is_made_up_for(place: Place) -> None:
    store, other = ConsentStore(place.disk), place.store.key(DEMO, OTHER.uri)
    os.utime(place.path, (0, 0))  # Long ago: nobody wrote since.
    place.disk.unreadable = True
    for _ in range(2):
        with pytest.raises(SourceError, match="read"):
            await store.refresh()
    place.disk.unreadable = False
    place.disk.go_on.clear()
    place.disk.reading.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.refresh)
        await anyio.to_thread.run_sync(place.disk.reading.wait)
        tasks.cancel_scope.cancel()
    place.disk.go_on.set()
    assert await store.refresh()
    assert [store.record(key).is_approved for key in (place.key, other)] == [True, False]
