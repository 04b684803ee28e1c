"""ApprovalStore: what the user approved, read from memory and kept in SQLite by a worker thread.

The event loop never waits for the disk: `open` reads all approvals once, `fetch` reads one again before it is
relied on, and every change is written in a thread. What another process approves or revokes takes effect at
the next `fetch`. Whatever cannot be read approves nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from skillwire.errors import SkillwireError
from skillwire.host.approvals.database import ApprovalBackend, ApprovalDatabase
from skillwire.host.approvals.schema import Decided, Decision, Row, caller_of, server_key
from skillwire.host.approvals.stored import (
    DIRECTORY,
    StoredApproval,
    decision_about,
    grants_words,
    parse_row,
    user_name,
)
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri
from skillwire.trust.approval import Approval, shown_digest
from skillwire.trust.origin import Origin
from skillwire.wire.stored import entry_to_stored

Result = TypeVar("Result")
Identify: TypeAlias = Callable[[Origin], str]
"""What identifies an origin in the database."""

_Contents: TypeAlias = tuple[list[Row], list[Decision], dict[tuple[str, str], str]]
"""The contents of the file: approvals, the last decision about each skill, and signers."""

_LABEL: Final = "label:"
_SETTLED_NS: Final = 2_000_000_000


def by_label(origin: Origin) -> str:
    """The identity of an origin for which only the label is known."""
    return f"{DIRECTORY if origin.is_local else _LABEL}{origin.label}"


class ApprovalStore:
    """Approvals by origin and URI: of all files of an entry, or of a dynamic skill as it was seen (SEC-6)."""

    def __init__(
        self,
        place: Path | ApprovalBackend,
        *,
        identify: Identify = by_label,
        on_problem: Callable[[str], None] | None = None,
    ) -> None:
        """Approvals in a file, or in a database that several machines share.

        Nothing is opened yet. `on_problem` is called for changes that could not be written.
        """
        self._database: ApprovalBackend = ApprovalDatabase(place) if isinstance(place, Path) else place
        self.path = self._database.path
        """The file, if it is one: it shows when another process has changed it."""
        self._identify = identify
        self._labels: Mapping[str, str] = {}
        self._known: Callable[[], Mapping[str, frozenset[str]]] = dict
        self._remarks: list[str] = []
        self._on_problem = on_problem or _ignore
        self._rows: dict[tuple[str, str], Row] = {}
        self._signers: dict[tuple[str, str], str] = {}
        self._parsed: dict[Row, StoredApproval | None] = {}
        # Approvals that ended because the skill changed: they are over at once, also before that is written.
        self._withdrawn: dict[tuple[str, str], Row] = {}
        self._unwritten: dict[tuple[str, str], Row] = {}
        # The last decision about each skill: what was declined is known from it.
        self._decided: dict[tuple[str, str], Decision] = {}
        self._file_stamp: tuple[int, ...] = ()
        self._changed = anyio.Event()
        self._one_at_a_time = anyio.CapacityLimiter(1)
        self.revision = 0
        """A number that changes with every approval and decision."""

    @property
    def remark(self) -> str:
        """What the user should know about the file: that it was damaged, or migrated from version 0.1."""
        return "; ".join(filter(None, (self._database.remark, *self._remarks)))

    def bind(
        self,
        identities: Mapping[Origin, str],
        known: Callable[[], Mapping[str, frozenset[str]]] | None = None,
    ) -> None:
        """Set what identifies each origin, independent of its label. Approvals of version 0.1 have only a
        label. Each is migrated once, to the server of that label, unless `known` has other servers of the
        same label: then its owner cannot be determined.
        """

        def identify(origin: Origin) -> str:
            return identities.get(origin) or by_label(origin)

        self._identify = identify
        self._labels = {
            origin.label: identity for origin, identity in identities.items() if not origin.is_local
        }
        self._known = known or dict

    async def open(self) -> None:
        """Read all approvals. Nothing is created; a file that cannot be read is a `SourceError`."""
        self._take(*await self._in_thread(self._open))

    def is_current(self) -> bool:
        """Whether no other process has changed the file since it was read. Takes one `stat`."""
        return self._database.stamp() == self._file_stamp and self._is_settled()

    def _is_settled(self) -> bool:
        """Whether a later write must show. The clock of files may be coarse, and hide a write soon after."""
        return not self._file_stamp or time.time_ns() - self._file_stamp[0] > _SETTLED_NS

    async def refresh(self) -> bool:
        """Read what other processes changed since the last call. Returns whether anything changed."""
        await self.flush()
        read = await self._in_thread(self._read_if_changed, abandon=True)
        before = (self._rows, self._decided, self._signers)
        if read is None:
            return False
        self._take(*read)
        return before != (self._rows, self._decided, self._signers)

    def _take(
        self, rows: Sequence[Row], decisions: Sequence[Decision], signers: dict[tuple[str, str], str]
    ) -> None:
        taken = {(row.server, row.uri): row for row in rows}
        decided = {(one.server, one.uri): one for one in decisions}
        if (taken, decided, signers) == (self._rows, self._decided, self._signers):
            return
        current = frozenset(rows)
        self._parsed = {row: parsed for row, parsed in self._parsed.items() if row in current}
        self._rows, self._decided, self._signers = taken, decided, signers
        self.revision += 1

    def _read_if_changed(self) -> _Contents | None:
        stamp = self._database.stamp()
        if stamp == self._file_stamp and self._is_settled():
            return None
        self._file_stamp = stamp
        return self._database.rows(), self._database.last_decisions(), self._database.signers()

    def _open(self) -> _Contents:
        self._file_stamp = self._database.stamp()
        return self._open_rows(), self._database.last_decisions(), self._database.signers()

    def _open_rows(self) -> list[Row]:
        rows = self._database.open()
        old = {row.server: row.label for row in rows if row.server.startswith(_LABEL)}
        claimed = {key: label for key, label in old.items() if self._labels.get(label, "") not in ("", key)}
        if not claimed:
            return rows
        known = self._known()
        for key, label in claimed.items():
            identity = self._labels[label]
            others = known.get(label, frozenset()) - {identity}
            count = self._database.claim(key, None if others else identity)
            if others and count:
                self._remarks.append(
                    f"{count} approvals of version 0.1 for {label} may be of another server of that name: "
                    "review and approve its skills again"
                )
        return self._database.rows()

    async def run(self) -> None:
        """Write what `withdraw` noted, as it comes. Ends only by cancellation."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            try:
                await self.flush()
            except SkillwireError as error:
                self._on_problem(str(error))

    def get(self, origin: Origin, uri: SkillUri, *, caller: str = "") -> Approval | None:
        """The approval of one skill of one server (ENT-4), as it was last read.

        With `caller`, here and below, that of a caller of a gateway; otherwise the user's own.
        """
        row = self._rows.get(self._key(origin, uri, caller))
        return self._approval(row, origin) if row is not None and self._is_current(row) else None

    def withdrawn(self, origin: Origin, uri: SkillUri, *, caller: str = "") -> Approval | None:
        """What was approved of a skill before it changed. It is no approval."""
        row = self._rows.get(self._key(origin, uri, caller))
        return self._approval(row, origin) if row is not None and not self._is_current(row) else None

    def all(self, origin: Origin | None = None, *, caller: str | None = "") -> list[StoredApproval]:
        """Every approval, or those of one origin: the user's, a caller's, or with `None` everybody's."""
        server = None if origin is None else self._identify(origin)
        found: list[StoredApproval] = []
        for row in self._rows.values():
            if server not in (None, row.identity) or caller not in (None, row.caller):
                continue
            if self._is_current(row):
                stored = self._stored(row)
                if stored is not None:
                    found.append(stored)
        return found

    async def fetch(self, origin: Origin, uri: SkillUri) -> Approval | None:
        """The approval as it is on disk now, with what other processes did to it."""
        await self.flush()
        key = self._key(origin, uri)
        row, signers, decisions = await self._in_thread(
            lambda: (
                self._database.row(*key),
                self._database.signers(*key),
                self._database.decisions(*key),
            ),
            abandon=True,
        )
        self._signers |= signers
        if decisions and decisions[-1] != self._decided.get(key):
            self._note(decisions[-1])
        if row != self._rows.get(key):
            self.revision += 1
        if row is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = row
        return self.get(origin, uri)

    def declined(self, origin: Origin, uri: SkillUri, *, caller: str = "") -> str | None:
        """The digest of the files that the user declined, if that was the last decision about a skill."""
        last = self._decided.get(self._key(origin, uri, caller))
        return last.digest if last is not None and last.decision == Decided.DECLINED else None

    def declines(self, *, caller: str = "") -> tuple[Decision, ...]:
        """Every skill that the user, or a caller, declined last."""
        return tuple(
            one
            for one in self._decided.values()
            if one.decision == Decided.DECLINED and caller_of(one.server) == caller
        )

    @property
    def decline_revision(self) -> int:
        """A number that changes with every decision while something is declined; 0 while nothing is."""
        declined = any(one.decision == Decided.DECLINED for one in self._decided.values())
        return self.revision if declined else 0

    async def decline(
        self, origin: Origin, uri: SkillUri, digest: str, *, how: str = "", caller: str = ""
    ) -> None:
        """Record that the user declined exactly these files. This ends an approval of the skill."""
        self.withdraw(origin, uri, caller=caller)
        await self.flush()
        decision = decision_about(self._key(origin, uri, caller), Decided.DECLINED, digest, how=how)
        await self._in_thread(lambda: self._database.decide(decision))
        self._note(decision)

    async def history(self, origin: Origin, uri: SkillUri, *, caller: str = "") -> tuple[Decision, ...]:
        """What was decided about a skill, the latest first."""
        key = self._key(origin, uri, caller)
        found = await self._in_thread(lambda: self._database.decisions(*key), abandon=True)
        return tuple(reversed(found))

    async def put(self, approval: Approval, entry: SkillEntry, *, how: str = "", caller: str = "") -> None:
        """Store an approval, replacing any earlier one of the same skill. `how` says how the user gave it."""
        await self.put_all([(approval, entry)], how=how, caller=caller)

    async def put_all(
        self, approved: Sequence[tuple[Approval, SkillEntry]], *, how: str = "", caller: str = ""
    ) -> None:
        """Store several approvals, all or none."""
        rows = [self._row(approval, entry, how, caller) for approval, entry in approved]
        decisions = [
            decision_about(
                (row.server, row.uri),
                Decided.APPROVED,
                shown_digest(entry) or "",
                grants=grants_words(approval.grants),
                how=how,
            )
            for row, (approval, entry) in zip(rows, approved, strict=True)
        ]
        await self._in_thread(lambda: self._database.put(*rows, decisions=decisions))
        for row, decision in zip(rows, decisions, strict=True):
            self._unwritten.pop((row.server, row.uri), None)
            self._rows[row.server, row.uri] = row
            self._note(decision)

    def _row(self, approval: Approval, entry: SkillEntry, how: str, caller: str) -> Row:
        if not approval.resources:
            raise ValueError("an approval of no files is not kept")
        return Row(
            *self._key(approval.origin, approval.uri, caller),
            label=approval.origin.label,
            resources=json.dumps(sorted(approval.resources)),
            allowed_tools=int(approval.grants.allowed_tools),
            execute_code=int(approval.grants.execute_code),
            entry=json.dumps(entry_to_stored(entry)),
            is_current=1,
            approved_at=datetime.now(UTC).isoformat(timespec="microseconds"),
            approved_by=user_name(),
            approved_how=how,
        )

    def signer(self, origin: Origin, uri: SkillUri) -> str:
        """Who had signed a skill when it was last loaded or approved; empty if that is not known."""
        return self._signers.get(self._key(origin, uri), "")

    async def note_signer(self, origin: Origin, uri: SkillUri, signer: str) -> None:
        """Record who signed a skill that was loaded or approved."""
        key = self._key(origin, uri)
        await self._in_thread(lambda: self._database.put_signer(*key, signer))
        self._signers[key] = signer

    def withdraw(self, origin: Origin, uri: SkillUri, *, caller: str = "") -> None:
        """End an approval because the skill changed: at once here, and on disk as soon as it can be written.

        What was approved is kept to compare with.
        """
        key = self._key(origin, uri, caller)
        row = self._rows.get(key)
        if row is not None and self._is_current(row):
            self._withdrawn[key] = self._unwritten[key] = row
            self.revision += 1
            self._changed.set()

    async def flush(self) -> None:
        """Write every withdrawal that is not on disk yet."""
        for key, row in list(self._unwritten.items()):
            noted = decision_about(key, Decided.CHANGED, how="the files changed")
            await self._in_thread(
                lambda row=row, noted=noted: self._database.withdraw(
                    row.server, row.uri, row.approved_at, noted=noted
                )
            )
            if self._unwritten.get(key) is row:
                del self._unwritten[key]

    async def remove(self, origin: Origin, uri: SkillUri, *, caller: str = "") -> bool:
        """Revoke an approval, or take a decline back; false when there was neither."""
        return await self._remove(self._key(origin, uri, caller))

    async def remove_declined(self, decision: Decision) -> None:
        """Take back one of `declines()`, whatever its server is called now."""
        await self._remove((decision.server, decision.uri))

    async def _remove(self, key: tuple[str, str]) -> bool:
        removed = await self._in_thread(lambda: self._database.remove(*key))
        self._forget(key)
        declined = key in self._decided and self._decided[key].decision == Decided.DECLINED
        if removed or declined:
            decision = decision_about(key, Decided.REVOKED)
            await self._in_thread(lambda: self._database.decide(decision))
            self._note(decision)
        return removed or declined

    async def remove_stored(self, stored: StoredApproval) -> None:
        """Revoke one of `all()`, whatever its server is called now."""
        key = (stored.row.server, stored.row.uri)
        await self._in_thread(lambda: self._database.remove(*key))
        self._forget(key)

    async def import_rows(self, rows: Sequence[Row]) -> None:
        """Store approvals that were exported elsewhere, all or none."""
        await self._in_thread(lambda: self._database.put(*rows))
        self._rows |= {(row.server, row.uri): row for row in rows}
        self.revision += 1

    async def remove_server(self, origin: Origin) -> int:
        """Forget everything about an origin; the number of approvals that it had."""
        server = self._identify(origin)
        own = {server, *(row.server for row in self._rows.values() if row.identity == server)}
        removed = await self._in_thread(lambda: sum(map(self._database.remove_server, sorted(own))))
        for key in [key for key in self._rows if key[0] in own]:
            self._forget(key)
        for key in [key for key in self._signers if key[0] == server]:
            del self._signers[key]
        return removed

    def _stored(self, row: Row) -> StoredApproval | None:
        if row not in self._parsed:
            self._parsed[row] = parse_row(row)
        return self._parsed[row]

    def _approval(self, row: Row, origin: Origin) -> Approval | None:
        """The approval under the label that its server has now."""
        stored = self._stored(row)
        return replace(stored.approval, origin=origin) if stored is not None else None

    def _forget(self, key: tuple[str, str]) -> None:
        for known in (self._rows, self._withdrawn, self._unwritten):
            known.pop(key, None)
        self.revision += 1

    def _note(self, decision: Decision) -> None:
        self._decided[decision.server, decision.uri] = decision
        self.revision += 1

    def _is_current(self, row: Row) -> bool:
        return row.is_current == 1 and self._withdrawn.get((row.server, row.uri)) != row

    def _key(self, origin: Origin, uri: SkillUri, caller: str = "") -> tuple[str, str]:
        return server_key(self._identify(origin), caller), str(uri)

    async def _in_thread(self, action: Callable[[], Result], *, abandon: bool = False) -> Result:
        return await anyio.to_thread.run_sync(action, limiter=self._one_at_a_time, abandon_on_cancel=abandon)


def _ignore(problem: str) -> None:
    """Used when no callback is given."""
