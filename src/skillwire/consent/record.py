"""Record: what one person decided about one skill of one server, and who had signed it then.

A record is changed by the functions below alone. They are pure: a backend applies them to what is stored at
that moment, so that two processes never overwrite each other's decisions.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from skillwire.errors import FormatError
from skillwire.skill import SkillEntry, parse_digest, parse_uri
from skillwire.trust import (
    AdmissionRequest,
    Approval,
    Grants,
    Origin,
    seen_digest,
    shown_digest,
)
from skillwire.wire import entry_from_stored, entry_to_stored

DIRECTORY: Final = "directory:"
"""The first part of the identity of a local directory."""

_UNREADABLE: Final = (FormatError, ValueError, TypeError, AttributeError, RecursionError)


class Key(NamedTuple):
    """One skill of one server, and who decides about it."""

    server: str
    """The identity of the server, whatever it is called."""
    uri: str
    caller: str = ""
    """The caller of a gateway; empty for the user."""


class Decided(StrEnum):
    """The decisions about a skill."""

    APPROVED = "approved"
    """These files may be loaded, with these grants."""
    DECLINED = "declined"
    """These files may not be loaded. The user is not asked again until they change, and an approval of the
    skill ends."""
    REVOKED = "revoked"
    """A decision was taken back."""
    CHANGED = "changed"
    """The skill changed, which ended its approval. No person decided that."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision about a set of files of a skill: what, when, by whom and how."""

    decision: str = ""
    """A value of `Decided`. A later version may have written one that is not known here."""
    digest: str = ""
    """The digest of the files; empty if it was not they that were decided about."""
    grants: str = ""
    """The grants in words, such as `tools, code`; empty for nothing."""
    decided_at: str = ""
    """The time in UTC, in the form of ISO 8601 with microseconds."""
    decided_by: str = ""
    """The name of the user at the machine; empty for a change, which has no author."""
    decided_how: str = ""
    """Where and why, such as `approved on the review page`."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The decisions of one person about one skill. Nothing of it was checked yet when it comes from a
    database.

    `approval` and the other properties read it: what cannot be read approves nothing.
    """

    key: Key
    label: str = ""
    """The name of the server at the last approval."""
    files: str = ""
    """The files that were shown and approved last: sorted pairs of a URI and a digest, as JSON."""
    entry: str = ""
    """The entry that was shown with them, as JSON. It is used while the server is unreachable."""
    allowed_tools: int = 0
    execute_code: int = 0
    scripts: str = "[]"
    """Permissions of scripts in the sandbox: sorted pairs of a path and a grant, as JSON."""
    signer: str = ""
    """Who had signed the skill when it was last loaded or approved; empty if that is not known."""
    last: Decision = Decision()
    """The last decision. `files` are approved only while it is `approved`."""

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever decided about the skill, and no signer of it is known."""
        return not (self.files or self.signer or self.last.decision)

    @property
    def is_approved(self) -> bool:
        """Whether the last decision was an approval, and it can be read."""
        return self.last.decision == Decided.APPROVED and self._parsed is not None

    @property
    def shown(self) -> SkillEntry | None:
        """The entry that was approved last."""
        return self._parsed[1] if self._parsed is not None else None

    @property
    def declined(self) -> str | None:
        """The digest of the files that were declined, if that was the last decision."""
        return self.last.digest if self.last.decision == Decided.DECLINED else None

    def approval(self, origin: Origin | None = None) -> Approval | None:
        """The approval, under the label that its server has now."""
        return self._approval(origin) if self.is_approved else None

    def ended(self, origin: Origin | None = None) -> Approval | None:
        """The approval from before the skill changed or was declined. It allows nothing."""
        return None if self.last.decision == Decided.APPROVED else self._approval(origin)

    def _approval(self, origin: Origin | None) -> Approval | None:
        if self._parsed is None:
            return None
        return self._parsed[0] if origin is None else replace(self._parsed[0], origin=origin)

    @cached_property
    def _parsed(self) -> tuple[Approval, SkillEntry] | None:
        """The approved files and their entry; `None` if they are not what this module writes."""
        if not self.files:
            return None
        try:
            pairs = cast("list[list[str]]", json.loads(self.files))
            entry = entry_from_stored(json.loads(self.entry))
            is_directory = self.key.server.startswith(DIRECTORY)
            approval = Approval(
                origin=Origin.project(self.label) if is_directory else Origin.mcp(self.label),
                uri=parse_uri(self.key.uri),
                resources=frozenset((parse_uri(file), parse_digest(digest)) for file, digest in pairs),
                grants=Grants(
                    allowed_tools=self.allowed_tools == 1,
                    execute_code=self.execute_code == 1,
                    scripts=script_grants(json.loads(self.scripts)),
                ),
                bound=not entry.is_dynamic,
            )
        except _UNREADABLE:
            return None
        return approval, entry


def consider(
    candidate: AdmissionRequest, record: Record, *, session: Approval | None = None
) -> AdmissionRequest:
    """The candidate with what a person decided about it. `session` is an approval that is not stored."""
    if session is None and record.is_blank:
        return candidate  # Most skills of a large server.
    declined = record.declined
    return replace(
        candidate,
        approval=record.approval(candidate.origin),
        session=session,
        ended=record.ended(candidate.origin),
        declined=declined is not None and declined == shown_digest(candidate.entry),
        signer=record.signer,
    )


# What changes a record


def approved(record: Record, approval: Approval, entry: SkillEntry, *, how: str) -> Record:
    """The record after an approval of exactly these files."""
    if not approval.resources:
        raise ValueError("an approval of no files is not kept")
    digest = shown_digest(entry) or seen_digest(entry, approval.resources)
    return replace(
        record,
        label=approval.origin.label,
        files=json.dumps(sorted(approval.resources)),
        entry=json.dumps(entry_to_stored(entry)),
        allowed_tools=int(approval.grants.allowed_tools),
        execute_code=int(approval.grants.execute_code),
        scripts=json.dumps(sorted(approval.grants.scripts)),
        last=_decision(Decided.APPROVED, digest, grants=_grants_words(approval.grants), how=how),
    )


def declined(record: Record, digest: str, *, how: str) -> Record:
    """The record after these files were declined. What was approved before stays to compare with."""
    return replace(record, last=_decision(Decided.DECLINED, digest, how=how))


def changed(record: Record, before: Record) -> Record:
    """The record after the skill changed, unless another decision was made since `before`."""
    if record.last != before.last or record.last.decision != Decided.APPROVED:
        return record
    # A change has no author.
    decision = replace(_decision(Decided.CHANGED, how="the files changed"), decided_by="")
    return replace(record, last=decision)


def revoked(record: Record) -> Record:
    """The record after an approval or a decline was taken back. Who signed the skill stays known."""
    if not record.files and record.declined is None:
        return record
    taken_back = record.last.decision in (Decided.APPROVED, Decided.DECLINED)
    last = _decision(Decided.REVOKED) if taken_back else record.last
    return Record(key=record.key, label=record.label, signer=record.signer, last=last)


def signed(record: Record, signer: str) -> Record:
    """The record after a skill was loaded or approved that this signer had signed."""
    return replace(record, signer=signer)


def replaced(record: Record, by: Record) -> Record:
    """The record after an approval was imported."""
    return replace(by, signer=record.signer)


def _decision(decided: Decided, digest: str = "", *, grants: str = "", how: str = "") -> Decision:
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    return Decision(decided, digest, grants, now, _user_name(), how)


def _grants_words(grants: Grants) -> str:
    given = (("tools", grants.allowed_tools), ("code", grants.execute_code))
    scripts = (f"{script} {grant}" for script, grant in sorted(grants.scripts))
    return ", ".join([*(word for word, is_given in given if is_given), *scripts])


def script_grants(pairs: object) -> frozenset[tuple[str, str]]:
    """Stored grants of scripts, or a `ValueError`."""
    found: set[tuple[str, str]] = set()
    for script, grant in cast("list[list[object]]", pairs):
        if not isinstance(script, str) or not isinstance(grant, str):
            raise ValueError("a grant of a script is a pair of texts")
        found.add((script, grant))
    return frozenset(found)


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A container's user may have no name.
        return ""


# How a record is stored

KEY_COLUMNS: Final = Key._fields
DECISION_COLUMNS: Final = tuple(field.name for field in fields(Decision))
_OWN_COLUMNS: Final = ("label", "files", "entry", "allowed_tools", "execute_code", "scripts", "signer")
COLUMNS: Final = (*KEY_COLUMNS, *_OWN_COLUMNS, *DECISION_COLUMNS)
"""The columns of a record in a database; all are texts, apart from the two grants."""
HISTORY_COLUMNS: Final = (*KEY_COLUMNS, *DECISION_COLUMNS)


def to_row(record: Record) -> dict[str, str | int]:
    """A record as values of `COLUMNS`."""
    own = (getattr(record, name) for name in _OWN_COLUMNS)
    return dict(zip(COLUMNS, (*record.key, *own, *astuple(record.last)), strict=True))


def from_row(row: tuple[Any, ...]) -> Record:
    """Values of `COLUMNS`, in that order, as a record."""
    key, own, last = row[:3], row[3 : 3 + len(_OWN_COLUMNS)], row[3 + len(_OWN_COLUMNS) :]
    return Record(key=Key(*key), **dict(zip(_OWN_COLUMNS, own, strict=True)), last=Decision(*last))


MOST_DECISIONS: Final = 50
"""At most this many decisions about one skill are kept in its history."""

Change: TypeAlias = Callable[[Record], Record]
"""Makes the new record from the stored one, which is empty if there is none. Pure: it may run twice."""


class ConsentBackend(Protocol):
    """Where records are kept. Every call may block, except `stamp`."""

    @property
    def path(self) -> Path | None:
        """The file, if it is one."""
        ...

    @property
    def remark(self) -> str:
        """A remark for the user about it."""
        ...

    def stamp(self) -> tuple[int, ...]:
        """A value that changes when another process wrote; its first number is a time in nanoseconds."""
        ...

    def read(self, key: Key | None = None) -> list[Record]:
        """Every record, or that of one key."""
        ...

    def history(self, key: Key) -> list[Decision]:
        """The decisions about one skill, the latest last."""
        ...

    def update(self, changes: Mapping[Key, Change]) -> list[Record]:
        """Change records as they are stored at that moment, all or none, and add each new decision to the
        history. Returns the new records."""
        ...

    def remove_server(self, server: str) -> int:
        """Delete everything about a server, for all callers. Returns how many approvals it had."""
        ...
