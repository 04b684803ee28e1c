"""What every place for records of consent must do: the same tests for a file and for a shared database."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest

from sample_entries import DEMO, OTHER, checked, skill_md
from simulator import Simulator, agree, opened
from skillwire.consent import ConsentBackend, ConsentStore, Decided, Key, Record
from skillwire.errors import SourceError
from skillwire.skill import SkillEntry, SkillUri
from skillwire.trust import Approval, Grants, Origin, approve, seen_set, verify_file

MakeBackend: TypeAlias = Callable[[], ConsentBackend]
"""Another connection to the same place, as another process would open it."""


async def put(store: ConsentStore, approval: Approval, entry: SkillEntry, how: str = "") -> None:
    await store.approve(store.key(approval.origin, approval.uri), approval, entry, how=how)


def got(store: ConsentStore, origin: Origin, uri: SkillUri) -> Approval | None:
    return store.record(store.key(origin, uri)).approval(origin)


def ended(store: ConsentStore, origin: Origin, uri: SkillUri) -> Approval | None:
    return store.record(store.key(origin, uri)).ended(origin)


async def fetched(store: ConsentStore, origin: Origin, uri: SkillUri) -> Approval | None:
    return (await store.fetch(store.key(origin, uri))).approval(origin)


async def reopened(make: MakeBackend) -> ConsentStore:
    store = ConsentStore(make())
    await store.open()
    return store


@pytest.mark.anyio
class ConsentContract:
    """Collected in subclasses, which give the fixture `make`."""

    @pytest.mark.requirement("SEC-6", "ENT-4")
    async def test_an_approval_comes_back_for_that_server_and_uri_alone(self, make: MakeBackend) -> None:
        entry = checked(files={"a.md": b"text"})
        approval = approve(entry, DEMO, grants=Grants(execute_code=True))
        await put(ConsentStore(make()), approval, entry)
        again = await reopened(make)
        assert got(again, DEMO, entry.uri) == await fetched(again, DEMO, entry.uri) == approval
        assert got(again, OTHER, entry.uri) is None
        assert got(again, DEMO, checked("skill://other/SKILL.md").uri) is None
        assert [record.shown for record in again.approved()] == [entry]
        assert again.approved(OTHER) == []

    @pytest.mark.requirement("SEC-6")
    async def test_of_a_skill_without_digests_only_what_was_seen_is_approved(self, make: MakeBackend) -> None:
        entry = checked(dynamic=True)
        store = ConsentStore(make())
        with pytest.raises(ValueError, match="approval of no files"):
            await put(store, approve(entry, DEMO, seen=seen_set([])), entry)
        file = verify_file(entry, entry.uri, skill_md(), DEMO)
        await put(store, approve(entry, DEMO, seen=seen_set([file])), entry)
        kept = got(await reopened(make), DEMO, entry.uri)
        assert kept == approve(entry, DEMO, seen=seen_set([file]))
        assert kept is not None
        assert not kept.bound

    async def test_callers_and_the_user_decide_each_for_themselves(self, make: MakeBackend) -> None:
        store, entry = ConsentStore(make()), checked()
        ada, ben = (store.key(DEMO, entry.uri, name) for name in ("ada", "ben"))
        await store.approve(ada, approve(entry, DEMO), entry)
        await store.decline(ben, "sha256:0")
        again = await reopened(make)
        assert got(again, DEMO, entry.uri) is None
        assert [record.key for record in again.approved(caller=None)] == [ada]
        assert again.approved() == []
        assert [record.key for record in again.declined(caller="ben")] == [ben]
        assert again.declined() == []

    async def test_revoking_one_or_all_of_a_server_leaves_the_rest(self, make: MakeBackend) -> None:
        store = ConsentStore(make())
        entries = [checked(f"skill://{name}/SKILL.md") for name in ("a", "b", "c")]
        for entry in entries:
            await put(store, approve(entry, DEMO), entry)
        await put(store, approve(entries[0], OTHER), entries[0])
        key = store.key(DEMO, entries[0].uri)
        assert await store.revoke(key)
        assert not await store.revoke(key)
        assert await store.remove_server(DEMO) == 2
        for known in (store, await reopened(make)):
            assert [record.label for record in known.approved()] == [OTHER.label]
            assert await known.history(key) == ()

    async def test_what_changed_is_remembered_and_approves_nothing(self, make: MakeBackend) -> None:
        store, entry = ConsentStore(make()), checked()
        await put(store, approve(entry, DEMO), entry)
        store.end(store.key(DEMO, entry.uri))
        assert got(store, DEMO, entry.uri) is None
        assert ended(store, DEMO, entry.uri) == approve(entry, DEMO)
        assert await fetched(store, DEMO, entry.uri) is None
        assert got(await reopened(make), DEMO, entry.uri) is None
        assert ended(await reopened(make), DEMO, entry.uri) == approve(entry, DEMO)
        await put(store, approve(entry, DEMO), entry)
        assert ended(store, DEMO, entry.uri) is None
        assert got(store, DEMO, entry.uri) == approve(entry, DEMO)

    async def test_the_end_of_an_approval_spares_one_that_was_given_since(self, make: MakeBackend) -> None:
        store, entry = ConsentStore(make()), checked()
        await put(store, approve(entry, DEMO), entry)
        store.end(store.key(DEMO, entry.uri))
        await put(await reopened(make), approve(entry, DEMO), entry)  # Given anew, elsewhere.
        assert await fetched(store, DEMO, entry.uri) == approve(entry, DEMO)

    async def test_an_approval_that_ended_stays_ended_when_others_write(self, make: MakeBackend) -> None:
        store, entry, other = ConsentStore(make()), checked(), checked("skill://other/SKILL.md")
        await put(store, approve(entry, DEMO), entry)
        store.end(store.key(DEMO, entry.uri))
        await put(await reopened(make), approve(other, DEMO), other)
        await store.refresh()
        assert got(store, DEMO, entry.uri) is None
        assert got(store, DEMO, other.uri) == approve(other, DEMO)

    async def test_a_decline_keeps_what_was_approved_and_can_be_taken_back(self, make: MakeBackend) -> None:
        store, entry = ConsentStore(make()), checked()
        key = store.key(DEMO, entry.uri)
        await put(store, approve(entry, DEMO), entry)
        await store.decline(key, "sha256:0", how="on a page")
        again = await reopened(make)
        assert again.record(key).declined == "sha256:0"
        assert ended(again, DEMO, entry.uri) == approve(entry, DEMO)
        assert again.decline_revision
        assert await again.revoke(key)
        assert again.record(key).declined is None
        assert not again.decline_revision
        history = await store.history(key)
        assert [one.decision for one in history] == [Decided.REVOKED, Decided.DECLINED, Decided.APPROVED]
        assert history[1].decided_how == "on a page"

    async def test_who_signed_stays_known_when_an_approval_is_revoked(self, make: MakeBackend) -> None:
        store, entry = ConsentStore(make()), checked()
        key = store.key(DEMO, entry.uri)
        await store.note_signer(key, "key:1")
        assert (await reopened(make)).record(key).signer == "key:1"
        await put(store, approve(entry, DEMO), entry)
        await store.revoke(key)
        assert (await reopened(make)).record(key).signer == "key:1"

    async def test_the_history_keeps_the_last_fifty_decisions(self, make: MakeBackend) -> None:
        store, entry = ConsentStore(make()), checked()
        key = store.key(DEMO, entry.uri)
        for number in range(60):
            await store.decline(key, f"sha256:{number}")
        assert [one.digest for one in await store.history(key)] == [
            f"sha256:{number}" for number in range(59, 9, -1)
        ]

    async def test_several_changes_are_stored_all_or_none(self, make: MakeBackend) -> None:
        backend, entry = make(), checked()

        def good(record: Record) -> Record:
            return Record(key=record.key, signer="key:1")

        def bad(record: Record) -> Record:
            raise ArithmeticError

        for _ in range(2):  # In a place that is empty, and in one that is not.
            with pytest.raises(ArithmeticError):
                backend.update({Key("one", entry.uri): good, Key("two", entry.uri): bad})
            assert make().read(Key("one", entry.uri)) == []
            backend.update({Key("zero", entry.uri): good})

    async def test_a_change_that_begins_during_another_one_sees_what_that_one_stored(
        self, make: MakeBackend
    ) -> None:
        key, began, seen = Key("one", checked().uri), threading.Event(), list[str]()
        make().update({key: lambda record: replace(record, signer="key:1")})

        def second(record: Record) -> Record:
            began.set()
            seen.append(record.signer)
            return replace(record, signer=f"{record.signer}+")

        other = threading.Thread(target=lambda: make().update({key: second}))

        def first(record: Record) -> Record:
            other.start()
            began.wait(0.5)  # It waits for its turn.
            return replace(record, signer="key:2")

        make().update({key: first})
        other.join()
        assert seen[-1] == "key:2"
        assert [record.signer for record in make().read(key)] == ["key:2+"]

    async def test_threads_that_write_at_once_lose_nothing(self, make: MakeBackend) -> None:
        entry = checked()

        def write(name: str) -> None:
            for number in range(20):
                # A store of its own for each approval, as when many hosts of one process come and go.
                store = ConsentStore(make())
                own = checked(f"skill://{name}-{number}/SKILL.md")
                anyio.run(put, store, approve(own, DEMO), own)
                anyio.run(store.note_signer, store.key(DEMO, entry.uri, name), f"key:{number}")

        threads = [threading.Thread(target=write, args=(f"thread-{number}",)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join)
        store = await reopened(make)
        assert len(store.approved()) == 60
        assert {store.record(store.key(DEMO, entry.uri, f"thread-{one}")).signer for one in range(3)} == {
            "key:19"
        }

    async def test_two_servers_of_one_label_do_not_share_approvals(self, make: MakeBackend) -> None:
        store, entry = ConsentStore(make()), checked()
        store.bind({DEMO: "url:one"})
        await put(store, approve(entry, DEMO), entry)
        other = ConsentStore(make())
        other.bind({DEMO: "url:two"})
        await other.open()
        assert got(other, DEMO, entry.uri) is None
        await put(other, approve(entry, DEMO, grants=Grants(execute_code=True)), entry)
        assert await other.remove_server(DEMO) == 1
        assert await fetched(store, DEMO, entry.uri) == approve(entry, DEMO)

    async def test_a_server_keeps_its_approvals_under_another_label(self, make: MakeBackend) -> None:
        store, entry = ConsentStore(make()), checked()
        store.bind({DEMO: "url:one"})
        await put(store, approve(entry, DEMO), entry)
        renamed = ConsentStore(make())
        renamed.bind({OTHER: "url:one"})
        await renamed.open()
        assert got(renamed, OTHER, entry.uri) == approve(entry, OTHER)


# What goes wrong

WRITER = """
import asyncio, sys
from pathlib import Path
from sample_entries import DEMO, checked
from skillwire.consent import ConsentStore
from skillwire.trust.approval import approve

place = sys.argv[1]
if "://" in place:
    from skillwire.registry import SharedConsent, Store
    place = SharedConsent(Store(place))
else:
    place = Path(place)

async def write(store, name, most):
    for number in range(most):
        for one in (f"{name}-{number}", "shared"):
            entry = checked(f"skill://{one}/SKILL.md")
            await store.approve(store.key(DEMO, entry.uri), approve(entry, DEMO), entry)
        print(f"skill://{name}-{number}/SKILL.md", flush=True)

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(write(ConsentStore(place), sys.argv[2], int(sys.argv[3])))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where records are that several processes share."""

    name: str
    """The path of the file, or the URL of the database."""
    make: MakeBackend
    hurry: Callable[[ConsentBackend], None]
    """From now on, no call of this connection waits for long."""
    locked: Callable[[], AbstractContextManager[object]]
    """Somebody else writes for as long as the block lasts, and nobody can read."""
    busy: str
    """What is said about that when it does not end."""


@contextmanager
def writer(place: Place, name: str, most: int) -> Generator[subprocess.Popen[bytes]]:
    """A process that approves skills, once it is sent a line, and says each one that it has approved."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, place.name, name, str(most)],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n", process.stderr.read()
        try:
            yield process
        finally:
            process.kill()


class OffLoop:
    """A backend that notes which threads call it, and when one of its calls began."""

    def __init__(self, backend: ConsentBackend) -> None:
        self._backend = backend
        self.threads: set[int] = set()
        self.began = threading.Event()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._backend, name)
        if not callable(value) or name == "stamp":
            return value

        def called(*given: Any) -> Any:
            self.threads.add(threading.get_ident())
            self.began.set()
            return value(*given)

        return called


@pytest.mark.anyio
@pytest.mark.process
class ConsentFaults:
    """Collected in subclasses, which give the fixtures `place` and `full_make`."""

    async def test_a_process_that_is_killed_while_it_approves_keeps_every_yes_that_it_gave(
        self, place: Place
    ) -> None:
        with writer(place, "skill", 100_000) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
            approved = [process.stdout.readline().decode().strip() for _ in range(5)]
            process.kill()
            approved += process.stdout.read().decode().split()
        store = await reopened(place.make)
        kept = {record.key.uri for record in store.approved()} - {"skill://shared/SKILL.md"}
        # Every yes that was given is there, and at most the one that was being written besides.
        assert set(approved) <= kept
        assert len(kept) <= len(approved) + 1
        entry = checked("skill://after/SKILL.md")
        await put(store, approve(entry, DEMO), entry)

    async def test_two_processes_write_at_once_and_lose_nothing(self, place: Place) -> None:
        with writer(place, "first", 20) as first, writer(place, "second", 20) as second:
            for process in (first, second):
                assert process.stdin is not None
                process.stdin.write(b"go\n")
                process.stdin.flush()
            for process in (first, second):
                _, errors = process.communicate(timeout=120)
                assert process.returncode == 0, errors
        assert len((await reopened(place.make)).approved()) == 41

    async def test_while_another_process_holds_the_lock_the_loop_runs_and_the_load_goes_through(
        self, place: Place, tmp_path: Path
    ) -> None:
        sim, backend = Simulator(), OffLoop(place.make())
        for name in ("refunds", "returns"):
            sim.skill(name)
        async with opened(tmp_path, shop=sim, host_options={"ask": agree, "approvals_file": backend}) as host:
            await host.load("returns")
            async with anyio.create_task_group() as tasks:
                with place.locked():
                    backend.began.clear()
                    tasks.start_soon(host.load, "refunds")
                    with anyio.fail_after(60):
                        while not backend.began.is_set():
                            await anyio.lowlevel.checkpoint()
                    for _ in range(100):  # The loop runs on, and the load waits.
                        await anyio.lowlevel.checkpoint()
                    assert "refunds" not in {skill.entry.name for skill in host.active()}
            assert "refunds" in {skill.entry.name for skill in host.active()}
        assert threading.get_ident() not in backend.threads

    async def test_a_lock_that_is_never_released_ends_the_load_with_one_clear_error_and_approves_nothing(
        self, place: Place, tmp_path: Path
    ) -> None:
        sim = Simulator()
        for name in ("refunds", "returns"):
            sim.skill(name)
        backend = place.make()
        async with opened(tmp_path, shop=sim, host_options={"ask": agree, "approvals_file": backend}) as host:
            await host.load("refunds")
            host.release("refunds")
            place.hurry(backend)
            with place.locked():
                for name in ("refunds", "returns"):
                    with pytest.raises(SourceError, match=place.busy):
                        await host.load(name)
        approved = (await reopened(place.make)).approved()
        assert [record.key.uri for record in approved] == ["skill://refunds/SKILL.md"]

    async def test_a_full_disk_stores_no_approval_and_loses_none(self, full_make: MakeBackend) -> None:
        store = ConsentStore(full_make())
        approved: list[SkillUri] = []

        async def approve_until_the_disk_is_full() -> None:
            for number in range(200):
                files = {f"{one}.md": f"{number} {one}".encode() for one in range(200)}
                entry = checked(f"skill://skill-{number}/SKILL.md", files=files)
                await put(store, approve(entry, DEMO), entry)
                approved.append(entry.uri)

        with pytest.raises(SourceError, match=r"full|No space left"):
            await approve_until_the_disk_is_full()
        assert approved
        for known in (store, await reopened(full_make)):
            assert {record.key.uri for record in known.approved()} == set(approved)
