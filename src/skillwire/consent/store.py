"""ConsentStore: what people decided, read from memory and kept in a database by a worker thread.

The event loop never waits for the disk: `open` reads all records once, `fetch` reads one again before it is
relied on, and every change is written in a thread. What another process approves or revokes takes effect at
the next `fetch` or `refresh`. Whatever cannot be read approves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from skillwire.consent import record as transitions
from skillwire.consent.record import DIRECTORY, Change, ConsentBackend, Decision, Key, Record
from skillwire.consent.sqlite import SqliteConsent
from skillwire.errors import SkillwireError
from skillwire.skill import SkillEntry, SkillUri
from skillwire.trust import Approval, Origin

Result = TypeVar("Result")

_LABEL: Final = "label:"
_SETTLED_NS: Final = 2_000_000_000
_MOST_OF_SESSION: Final = 10_000


def by_label(origin: Origin) -> str:
    """The identity of an origin for which only the label is known."""
    return f"{DIRECTORY if origin.is_local else _LABEL}{origin.label}"


class ConsentStore:
    """The records of all skills and people, by `Key` (ENT-4).

    Records come from memory. With `caller`, they are those of a caller of a gateway; otherwise the user's.
    """

    def __init__(
        self, place: Path | ConsentBackend, *, on_problem: Callable[[str], None] | None = None
    ) -> None:
        """Records in a file, or in a database that several machines share.

        Nothing is opened yet. `on_problem` is called for changes that could not be written.
        """
        self._backend: ConsentBackend = SqliteConsent(place) if isinstance(place, Path) else place
        self._identities: Mapping[Origin, str] = {}
        self._on_problem = on_problem or _ignore
        self._records: dict[Key, Record] = {}
        # Approvals that ended because the skill changed, as they were: this counts before it is written.
        self._unwritten: dict[Key, Record] = {}
        # SEC-6: approvals of generated content, which end with the process.
        self._of_session: dict[Key, Approval] = {}
        self._stamp: tuple[int, ...] = ()
        self._waiting = anyio.Event()
        self._one_at_a_time = anyio.CapacityLimiter(1)
        self.revision = 0
        """A number that changes with every record."""

    @property
    def path(self) -> Path | None:
        """The file, if it is one."""
        return self._backend.path

    @property
    def remark(self) -> str:
        """A remark for the user about the file: that it was damaged."""
        return self._backend.remark

    def bind(self, identities: Mapping[Origin, str]) -> None:
        """Set what identifies each origin, independent of its label."""
        self._identities = identities

    def identity(self, origin: Origin) -> str:
        """The identity of an origin in the database."""
        return self._identities.get(origin) or by_label(origin)

    def key(self, origin: Origin, uri: SkillUri, caller: str = "") -> Key:
        """The key of a skill, for the user or for a caller of a gateway."""
        return Key(self.identity(origin), uri, caller)

    # Reading

    async def open(self) -> None:
        """Read all records. Nothing is created; a file that cannot be read is a `SourceError`."""
        self._take(await self._in_thread(self._read_if_changed) or ())

    def is_current(self) -> bool:
        """Whether no other process has written since it was read. Takes one `stat`."""
        return self._backend.stamp() == self._stamp and self._is_settled()

    def _is_settled(self) -> bool:
        """Whether a later write must show. The clock of files may be coarse, and hide a write soon after."""
        return not self._stamp or time.time_ns() - self._stamp[0] > _SETTLED_NS

    async def refresh(self) -> bool:
        """Read what other processes changed since the last call. Returns whether anything changed."""
        await self.flush()
        records = await self._in_thread(self._read_if_changed, abandon=True)
        before = self.revision
        if records is not None:
            self._take(records)
        return self.revision != before

    def _read_if_changed(self) -> list[Record] | None:
        if self.is_current():
            return None
        self._stamp = self._backend.stamp()
        return self._backend.read()

    async def run(self) -> None:
        """Write what `end` noted, as it comes. Ends only by cancellation."""
        while True:
            await self._waiting.wait()
            self._waiting = anyio.Event()
            try:
                await self.flush()
            except SkillwireError as error:
                self._on_problem(str(error))

    def record(self, key: Key) -> Record:
        """The record of a skill, as it was last read; an empty one if nothing was decided."""
        return self._records.get(key) or Record(key=key)

    def knows(self, key: Key) -> bool:
        """Whether anything was ever decided about a skill, for good or for this process."""
        return key in self._records or key in self._of_session

    def session(self, key: Key) -> Approval | None:
        """The approval of a skill for as long as this process runs."""
        return self._of_session.get(key)

    async def fetch(self, key: Key) -> Record:
        """The record as it is on disk now, with what other processes did to it."""
        await self.flush()
        stored = await self._in_thread(partial(self._backend.read, key), abandon=True)
        if not stored:
            if self._records.pop(key, None) is not None:
                self.revision += 1
            return Record(key=key)
        return self._put(stored[0])

    def approved(self, origin: Origin | None = None, *, caller: str | None = "") -> list[Record]:
        """Every approval, or those of one origin: the user's, a caller's, or with `None` everybody's."""
        server = None if origin is None else self.identity(origin)
        return [
            record
            for record in self._records.values()
            if server in (None, record.key.server)
            and caller in (None, record.key.caller)
            and record.is_approved
        ]

    def declined(self, *, caller: str = "") -> list[Record]:
        """Every skill that the user, or a caller, declined last."""
        return [
            record
            for record in self._records.values()
            if record.declined is not None and record.key.caller == caller
        ]

    @property
    def decline_revision(self) -> int:
        """A number that changes with every record while something is declined; 0 while nothing is."""
        declined = any(record.declined is not None for record in self._records.values())
        return self.revision if declined else 0

    async def history(self, key: Key) -> tuple[Decision, ...]:
        """The decisions about a skill, the latest first."""
        decisions = await self._in_thread(partial(self._backend.history, key), abandon=True)
        return tuple(reversed(decisions))

    # Deciding

    async def approve(self, key: Key, approval: Approval, entry: SkillEntry, *, how: str = "") -> None:
        """Store an approval in place of any earlier decision. `how` says how the person gave it."""
        await self.approve_all({key: (approval, entry)}, how=how)

    def approve_for_session(self, key: Key, approval: Approval) -> None:
        """Remember an approval of what was shown, with what was approved before, while this process runs."""
        before = self._of_session.pop(key, None)
        if before is not None:
            approval = replace(approval, resources=approval.resources | before.resources)
        self._of_session[key] = approval
        while len(self._of_session) > _MOST_OF_SESSION:
            del self._of_session[next(iter(self._of_session))]

    async def approve_all(
        self, approvals: Mapping[Key, tuple[Approval, SkillEntry]], *, how: str = ""
    ) -> None:
        """Store several approvals, all or none."""
        changes: dict[Key, Change] = {
            key: partial(transitions.approved, approval=approval, entry=entry, how=how)
            for key, (approval, entry) in approvals.items()
        }
        await self._update(changes)

    async def decline(self, key: Key, digest: str, *, how: str = "") -> None:
        """Record that exactly these files were declined. This ends an approval of the skill."""
        self._of_session.pop(key, None)
        await self._update({key: partial(transitions.declined, digest=digest, how=how)})

    async def revoke(self, key: Key) -> bool:
        """Revoke an approval, or take a decline back; false when there was neither."""
        taken_back = self._of_session.pop(key, None) is not None

        def change(before: Record) -> Record:
            nonlocal taken_back
            after = transitions.revoked(before)
            taken_back |= after.last != before.last
            return after

        await self._update({key: change})
        return taken_back

    async def note_signer(self, key: Key, signer: str) -> None:
        """Record who signed a skill that was loaded or approved."""
        await self._update({key: partial(transitions.signed, signer=signer)})

    async def import_records(self, records: Sequence[Record]) -> None:
        """Store approvals that were exported elsewhere, all or none."""
        await self._update({record.key: partial(transitions.replaced, by=record) for record in records})

    async def remove_server(self, origin: Origin) -> int:
        """Forget everything about an origin; the number of approvals that it had."""
        server = self.identity(origin)
        of_session = [key for key in self._of_session if key.server == server]
        for key in of_session:
            del self._of_session[key]
        removed = await self._in_thread(partial(self._backend.remove_server, server)) + len(of_session)
        for key in [key for key in self._records if key.server == server]:
            del self._records[key]
            self._unwritten.pop(key, None)
        self.revision += 1
        return removed

    def end(self, key: Key) -> None:
        """End an approval because the skill changed: at once here, and on disk as soon as it can be written.

        What was approved is kept to compare with.
        """
        before = self.record(key)
        after = transitions.changed(before, before)
        if after != before:
            self._unwritten[key] = before
            self._records[key] = after
            self.revision += 1
            self._waiting.set()

    async def flush(self) -> None:
        """Write the end of every approval that is not on disk yet."""
        for key, before in list(self._unwritten.items()):
            change = partial(transitions.changed, before=before)
            [stored] = await self._in_thread(partial(self._backend.update, {key: change}))
            if self._unwritten.get(key) is before:
                del self._unwritten[key]
                self._put(stored)

    async def _update(self, changes: Mapping[Key, Change]) -> list[Record]:
        stored = await self._in_thread(partial(self._backend.update, changes))
        for record in stored:
            self._unwritten.pop(record.key, None)
            self._put(record)
        return stored

    def _put(self, record: Record) -> Record:
        """Take over a stored record, unless it is one whose end is not written yet. Returns the known one."""
        known = self._records.get(record.key)
        ended = self._unwritten.get(record.key)
        if record == known or (known is not None and ended is not None and record.last == ended.last):
            return known or record
        self._records[record.key] = record
        self.revision += 1
        return record

    def _take(self, records: Sequence[Record]) -> None:
        taken = {record.key for record in records}
        for key in [key for key in self._records if key not in taken]:
            del self._records[key]
            self.revision += 1
        for record in records:
            self._put(record)

    async def _in_thread(self, action: Callable[[], Result], *, abandon: bool = False) -> Result:
        return await anyio.to_thread.run_sync(action, limiter=self._one_at_a_time, abandon_on_cancel=abandon)


def _ignore(problem: str) -> None:
    """Used when no callback is given."""
