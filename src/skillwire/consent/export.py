"""Exports of approvals: what `skillwire approvals export` writes and `import` reads, and who signed it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from skillwire.consent.record import DIRECTORY, Key, Record, approved, script_grants
from skillwire.errors import FormatError
from skillwire.skill import Digest, digest_of, parse_digest, parse_uri
from skillwire.trust import (
    UNSIGNED,
    Approval,
    Grants,
    Origin,
    Publisher,
    SignatureVerdict,
    check_signature,
    resource_set,
    seen_digest,
    shown_digest,
    sign_files,
)
from skillwire.wire import entry_from_stored

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


def exported(record: Record) -> dict[str, object]:
    """An approval for `skillwire approvals export`, and for its JSON."""
    approval, entry = record.approval(), record.shown
    if approval is None or entry is None:
        raise ValueError("only an approval can be exported")
    return {
        "server": record.key.server,
        "label": record.label,
        "uri": record.key.uri,
        "digest": shown_digest(entry) or seen_digest(entry, approval.resources),
        # Which files were seen of a skill whose entry lists none.
        "files": sorted(approval.resources) if entry.is_dynamic else None,
        "allowed_tools": approval.grants.allowed_tools,
        "execute_code": approval.grants.execute_code,
        "scripts": sorted(approval.grants.scripts),
        "approved_at": record.last.decided_at,
        "approved_by": record.last.decided_by,
        "approved_how": record.last.decided_how,
        **({"caller": record.key.caller} if record.key.caller else {}),
        "entry": json.loads(record.entry),
    }


def imported(document: Mapping[str, Any]) -> Record:
    """An exported approval as a record, or a `FormatError` if its parts contradict each other."""
    entry = entry_from_stored(document["entry"])
    resources = resource_set(entry)
    if entry.is_dynamic:
        resources = frozenset((parse_uri(file), parse_digest(digest)) for file, digest in document["files"])
    key = Key(str(document["server"]), str(document["uri"]), str(document.get("caller", "")))
    how = f"imported; approved by {document['approved_by']} {document['approved_at']}".strip()
    grants = Grants(
        allowed_tools=document["allowed_tools"] is True,
        execute_code=document["execute_code"] is True,
        scripts=script_grants(document.get("scripts", [])),
    )
    label = str(document["label"])
    origin = Origin.project(label) if key.server.startswith(DIRECTORY) else Origin.mcp(label)
    approval = Approval(
        origin=origin, uri=entry.uri, resources=resources, grants=grants, bound=not entry.is_dynamic
    )
    record = approved(Record(key=key), approval, entry, how=how) if resources else Record(key=key)
    if not record.is_approved or entry.uri != key.uri or record.last.digest != document["digest"]:
        message = "an exported approval does not fit its entry"
        raise FormatError.of(rule="export", message=message, fix="export it again")
    return record


_SIGNED: Final = "skillwire-approvals.json"
"""The name of what is signed of an export, so that no signature of a skill is one of approvals."""


def sign_approvals(approvals: list[dict[str, object]], key: EllipticCurvePrivateKey) -> dict[str, Any]:
    """The signature of an export, for its key `signature`."""
    return json.loads(sign_files(_signed_part(approvals), name=_SIGNED, key=key))


def approvals_signature(document: Mapping[str, Any], publishers: Sequence[Publisher]) -> SignatureVerdict:
    """Who signed exactly the approvals of an export."""
    signature = document.get("signature")
    if signature is None:
        return UNSIGNED
    bundle = json.dumps(signature).encode()
    return check_signature(_signed_part(document["approvals"]), bundle, publishers, now=datetime.now(UTC))


def _signed_part(approvals: object) -> dict[str, Digest]:
    """Return the signed part of an export: every approval in it, in one spelling of the JSON."""
    text = json.dumps(approvals, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return {_SIGNED: digest_of(text.encode("ascii"))}
