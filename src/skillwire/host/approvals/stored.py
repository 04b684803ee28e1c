"""How an approval and a decision are stored, to and from rows of the database."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

from skillwire.errors import FormatError
from skillwire.host.approvals.schema import Decided, Decision, Row
from skillwire.skill.digests import parse_digest
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import parse_uri
from skillwire.trust.approval import Approval, Grants, resource_set, seen_digest, shown_digest
from skillwire.trust.origin import Origin
from skillwire.wire.stored import entry_from_stored, entry_to_stored

DIRECTORY: Final = "directory:"
"""What the identity of a local directory starts with."""

_UNREADABLE: Final = (FormatError, ValueError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class StoredApproval:
    """An approval with the entry that the user saw, which is used while the server is unreachable."""

    approval: Approval
    entry: SkillEntry
    row: Row
    """How it is stored: who approved it, when and how."""


def row_from_exported(exported: Mapping[str, Any]) -> Row:
    """An exported approval as a row, or a `FormatError` if its parts contradict each other."""
    entry = entry_from_stored(exported["entry"])
    resources = resource_set(entry)
    if entry.is_dynamic:
        resources = frozenset((parse_uri(file), parse_digest(digest)) for file, digest in exported["files"])
    row = Row(
        server=str(exported["server"]),
        uri=str(exported["uri"]),
        label=str(exported["label"]),
        resources=json.dumps(sorted(resources)),
        allowed_tools=int(exported["allowed_tools"] is True),
        execute_code=int(exported["execute_code"] is True),
        entry=json.dumps(entry_to_stored(entry)),
        is_current=1,
        approved_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        approved_by=user_name(),
        approved_how=f"imported; approved by {exported['approved_by']} {exported['approved_at']}".strip(),
    )
    if (
        parse_row(row) is None
        or not resources
        or entry.uri != row.uri
        or (seen_digest(entry, resources) if entry.is_dynamic else shown_digest(entry)) != exported["digest"]
    ):
        message = "an exported approval does not fit its entry"
        raise FormatError.of(rule="export", message=message, fix="export it again")
    return row


def parse_row(row: Row) -> StoredApproval | None:
    """A row as an approval; `None`, and so not approved, when it is not one that we wrote."""
    try:
        pairs = cast("list[list[str]]", json.loads(row.resources))
        entry = entry_from_stored(json.loads(row.entry))
        approval = Approval(
            origin=Origin.project(row.label) if row.identity.startswith(DIRECTORY) else Origin.mcp(row.label),
            uri=parse_uri(row.uri),
            resources=frozenset((parse_uri(file), parse_digest(digest)) for file, digest in pairs),
            grants=Grants(allowed_tools=row.allowed_tools == 1, execute_code=row.execute_code == 1),
            bound=not entry.is_dynamic,
        )
        return StoredApproval(approval, entry, row)
    except _UNREADABLE:
        return None


def decision_about(
    key: tuple[str, str], decided: Decided, digest: str = "", *, grants: str = "", how: str = ""
) -> Decision:
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    # A change has no author.
    return Decision(
        *key, decided, digest, grants, now, "" if decided is Decided.CHANGED else user_name(), how
    )


def grants_words(grants: Grants) -> str:
    given = (("tools", grants.allowed_tools), ("code", grants.execute_code))
    return ", ".join(word for word, is_given in given if is_given)


def user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A container's user may have no name.
        return ""
