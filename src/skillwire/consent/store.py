"""ConsentStore: what people decided. The database has it; memory has what was last read of it.

The event loop never waits for the disk: whatever opens the database runs in a thread. A listing reads all
records once, and again after another process wrote. A decision reads its own record again (`fetch`) and
writes it. What takes an approval away and cannot be written holds for this process. What cannot be read
approves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
        self._held: dict[Key, _Withdrawal] = {}
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
        await self._read_if_changed()

    def is_current(self) -> bool:
        """Whether no other process has written since it was read. Takes one `stat`."""
        return self._backend.stamp() == self._stamp and self._is_settled()

    def _is_settled(self) -> bool:
        """Whether a later write must show. The clock of files may be coarse, and hide a write soon after."""
        return not self._stamp or time.time_ns() - self._stamp[0] > _SETTLED_NS

    async def refresh(self) -> bool:
        """Read what other processes changed since the last call. Returns whether anything changed."""
        before = self.revision
        await self._read_if_changed()
        return self.revision != before

    async def _read_if_changed(self) -> None:
        if self.is_current():
            return

        def read() -> tuple[tuple[int, ...], list[Record]]:
            return self._backend.stamp(), self._backend.read()

        # Both are taken over together: a read that fails or is canceled is not counted as one.
        self._stamp, stored = await self._in_thread(read, abandon=True)
        for key in self._records.keys() - {record.key for record in stored}:
            del self._records[key]
            self.revision += 1
        for record in stored:
            self._know(record)

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
        if key in self._held:
            try:
                [record] = await self._update({key: _unchanged})
                return record
            except SkillwireError as error:
                self._on_problem(str(error))
        stored = await self._in_thread(partial(self._backend.read, key), abandon=True)
        return self._know(stored[0] if stored else Record(key=key))

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
        await self._withdraw(key, partial(transitions.declined, digest=digest, how=how))

    async def revoke(self, key: Key) -> bool:
        """Revoke an approval, or take a decline back; false when there was neither."""
        taken_back = self._of_session.pop(key, None) is not None

        def change(before: Record) -> Record:
            nonlocal taken_back
            after = transitions.revoked(before)
            taken_back |= after.last != before.last
            return after

        await self._withdraw(key, change)
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
        for known in (self._records, self._held):
            for key in [key for key in known if key.server == server]:
                del known[key]
        self.revision += 1
        return removed

    def end(self, key: Key) -> None:
        """End an approval because the skill changed: at once here, and on disk as soon as `run`, `fetch` or
        `flush` could write it. What was approved is kept to compare with."""
        before = self.record(key)
        self._hold(before, transitions.changed(before, before))

    async def run(self) -> None:
        """Store what `end` ended, as it comes. Ends only by cancellation."""
        while True:
            await self._waiting.wait()
            self._waiting = anyio.Event()
            try:
                await self.flush()
            except SkillwireError as error:
                self._on_problem(str(error))

    async def flush(self) -> None:
        """Store what holds in this process only, or raise the `SourceError` that says why it cannot be."""
        if self._held:
            await self._update(dict.fromkeys(self._held, _unchanged))

    async def _withdraw(self, key: Key, change: Change) -> None:
        """A decision after which less is allowed. If it cannot be stored, it still holds in this process."""
        try:
            await self._update({key: change})
        except SkillwireError:
            before = self.record(key)
            self._hold(before, change(before))
            raise

    def _hold(self, before: Record, after: Record) -> None:
        if after.last == before.last:
            return
        key = before.key
        earlier = self._held.get(key)
        self._held[key] = _Withdrawal(earlier.before if earlier else before.last, after)
        self._records[key] = after
        self.revision += 1
        self._waiting.set()

    async def _update(self, changes: Mapping[Key, Change]) -> list[Record]:
        """Write in one transaction, all or none. What is held of these skills is written with it."""
        held = {key: self._held[key] for key in changes if key in self._held}
        on_held: dict[Key, Change] = {
            key: _after(held[key].applied, change) if key in held else change
            for key, change in changes.items()
        }
        stored = await self._in_thread(partial(self._backend.update, on_held))
        for key, one in held.items():
            if self._held.get(key) is one:
                del self._held[key]
        return [self._know(record) for record in stored]

    def _know(self, stored: Record) -> Record:
        """Remember a record as it is stored, or as it is held here. Returns it."""
        held, known = self._held.get(stored.key), self._records.get(stored.key)
        record = held.applied(stored) if held is not None else stored
        if known is not None and record == known:
            return known  # Its approval is parsed already.
        if not record.is_blank:
            self._records[record.key] = record
        elif self._records.pop(record.key, None) is None:
            return record
        self.revision += 1
        return record

    async def _in_thread(self, action: Callable[[], Result], *, abandon: bool = False) -> Result:
        return await anyio.to_thread.run_sync(action, limiter=self._one_at_a_time, abandon_on_cancel=abandon)


def _after(first: Change, second: Change) -> Change:
    return lambda stored: second(first(stored))


def _unchanged(record: Record) -> Record:
    return record


def _ignore(problem: str) -> None:
    """Used when no callback is given."""


@dataclass(frozen=True, slots=True)
class _Withdrawal:
    """A decision that allows less and is not stored yet: it counts in place of the decision before it."""

    before: Decision
    after: Record

    def applied(self, stored: Record) -> Record:
        """What is stored with this decision, unless there is another one since."""
        return replace(self.after, signer=stored.signer) if stored.last == self.before else stored
