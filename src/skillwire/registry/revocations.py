"""Revocations: what a registry refuses, and the signed list by which hosts learn of it.

The registry refuses a digest from the moment at which an administrator revoked it. Hosts believe only a list
that was signed with a key that their policy pins: a person signs on their own machine, and the registry never
has the private key.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.documents import JsonObject
from skillwire.errors import (
    FormatError,
    Issue,
    LimitExceeded,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VersionConflict,
)
from skillwire.host.policies import (
    SIGNED_REVOCATIONS,
    parse_revocations,
    require_signature,
    revocations_document,
)
from skillwire.limits import DEFAULT_LIMITS
from skillwire.registry.audit import record
from skillwire.registry.publications import checked_namespace, checked_version
from skillwire.registry.schema import (
    deleted_versions,
    files,
    revocations,
    signed_revocations,
    skills,
    versions,
)
from skillwire.registry.source import EVERY_CHANNEL, NO_CHANNEL, add_changes
from skillwire.registry.store import Store, batches, now
from skillwire.skill import digest_of, parse_digest
from skillwire.text import safe_line, shown
from skillwire.trust import sign_files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

VALID_DAYS: Final = 90
"""How long a signed list is valid, unless its signer says otherwise."""
_REASON: Final = 200
_NAMED: Final = 5
_SKILL: Final = re.compile(r"(?P<namespace>[^/@]+)/(?P<name>[^/@]+)(?:@(?P<version>[^/@]+))?")


@dataclass(frozen=True, slots=True)
class Revocation:
    """A digest that must not be used. `what` are the skills that it was revoked for."""

    digest: str
    what: str
    reason: str
    revoked_by: str
    revoked_at: int


@dataclass(frozen=True, slots=True)
class SignedList:
    """The list that hosts get, with its signature. `expires` is in milliseconds since 1970."""

    serial: int = 0
    expires: int = 0
    data: bytes = b""
    signature: bytes = b""
    signer: str = ""


NOT_SIGNED: Final = SignedList()

_Affected: TypeAlias = Mapping[int, tuple[str, str, str]]


class Revocations:
    """What is revoked in a store. Every call may block."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def revoke(self, target: str, reason: str, *, by: str) -> tuple[list[str], list[str]]:
        """Refuse a digest, a version of a skill or all versions that it has, from now on.

        Returns the digests, and the versions that have one of them.
        """
        words = safe_line(reason, limit=_REASON)
        if not words:
            raise _refused("the reason is missing", "say why: whoever is refused sees it")
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            digests = _digests(connection, target)
            affected = _versions_with(connection, digests)
            what = _shortened(affected) if target.startswith("sha256:") else target
            connection.execute(revocations.delete().where(revocations.c.digest.in_(digests)))
            row = {"what": what, "reason": words, "revoked_by": by, "revoked_at": now()}
            connection.execute(revocations.insert(), [{"digest": digest, **row} for digest in digests])
            self._mark(connection, affected)
            details: JsonObject = {"reason": words, "digests": [*digests], "versions": len(affected)}
            record(connection, by, "revoke", target, details)
        return digests, _names(affected)

    def undo(self, target: str, *, by: str) -> tuple[list[str], list[str]]:
        """Take a revocation back. Returns the digests, and the versions that have one of them."""
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            asked = revocations.c.digest.in_(_digests(connection, target))
            digests = sorted(connection.execute(sa.select(revocations.c.digest).where(asked)).scalars())
            if not digests:
                raise SkillNotFound(f"{shown(target)} is not revoked")
            connection.execute(revocations.delete().where(asked))
            affected = _versions_with(connection, digests)
            self._mark(connection, affected)
            record(connection, by, "revoke-undo", target, {"digests": [*digests], "versions": len(affected)})
        return digests, _names(affected)

    def listing(self) -> tuple[list[Revocation], SignedList]:
        """What is revoked, the newest first, and what hosts were told last."""
        newest = sa.select(revocations).order_by(revocations.c.revoked_at.desc(), revocations.c.digest)
        with self._store.reading() as connection:
            rows = [Revocation(**row) for row in connection.execute(newest).mappings()]  # pyright: ignore[reportArgumentType]
            return rows, _signed(connection)

    def signed(self) -> SignedList:
        """The list that was signed last; `NOT_SIGNED` before the first."""
        with self._store.reading() as connection:
            return _signed(connection)

    def sign(self, serial: int, expires: int, signature: bytes, key: str, *, by: str) -> SignedList:
        """Serve the current list with this signature, which must be one of exactly that.

        `key` is the signer's public key in PEM. The registry does not judge whose it is: hosts do.
        """
        if expires <= now():
            raise _refused("the list would have expired already", "let it expire later")
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            last = _signed(connection).serial
            data = revocations_document(serial, _time(expires), _reasons(connection))
            if serial != last + 1:
                raise _signed_meanwhile()
            if len(data) > DEFAULT_LIMITS.document_bytes:
                most = f"{DEFAULT_LIMITS.document_bytes:,}"
                raise LimitExceeded(f"the list would have {len(data):,} bytes, and hosts read at most {most}")
            try:
                signer = require_signature(data, signature, [key], SIGNED_REVOCATIONS)
            except SkillwireError:
                raise _signed_meanwhile() from None
            connection.execute(signed_revocations.delete())
            made = SignedList(serial, expires, data, signature, signer)
            connection.execute(
                signed_revocations.insert().values(
                    serial=serial, expires=expires, data=data, signature=signature, signer=signer
                )
            )
            add_changes(self._store, connection, NO_CHANNEL, [("", "")])
            details: JsonObject = {"signer": signer, "expires": _time(expires).isoformat()}
            record(connection, by, "revoke-sign", f"serial {serial}", details)
            return made

    def _mark(self, connection: Connection, affected: _Affected) -> None:
        """Write to each of these versions why it is revoked, if it is, and tell every replica."""
        for some in batches(sorted(affected)):
            by_set = (
                sa.select(versions.c.id, revocations.c.digest, revocations.c.reason)
                .join(revocations, revocations.c.digest == versions.c.set_digest)
                .where(versions.c.id.in_(some))
            )
            by_file = (
                sa.select(files.c.version_id.label("id"), revocations.c.digest, revocations.c.reason)
                .join(revocations, revocations.c.digest == files.c.digest)
                .where(files.c.version_id.in_(some))
            )
            # Of several digests, the first says why.
            found = sorted(connection.execute(by_set.union_all(by_file)).all(), reverse=True)
            reasons = {row.id: row.reason for row in found}
            connection.execute(
                versions.update()
                .where(versions.c.id == sa.bindparam("of"))
                .values(revoked=sa.bindparam("why")),
                [{"of": one, "why": reasons.get(one)} for one in some],
            )
        places = {(namespace, name) for namespace, name, _ in affected.values()}
        add_changes(self._store, connection, EVERY_CHANNEL, sorted(places))


def revoked_digests(connection: Connection, digests: Iterable[str]) -> dict[str, str]:
    """Those of some digests that are revoked, each with its reason."""
    found: dict[str, str] = {}
    for some in batches(sorted(set(digests))):
        query = sa.select(revocations.c.digest, revocations.c.reason).where(revocations.c.digest.in_(some))
        found |= {row.digest: row.reason for row in connection.execute(query)}
    return found


def next_list(
    listed: Mapping[str, Any],
    key: EllipticCurvePrivateKey,
    *,
    days: int = VALID_DAYS,
    removed: Collection[str] | None = (),
) -> tuple[JsonObject, list[str], list[str]]:
    """Sign what a registry says is revoked, as the next list.

    `listed` is what it answered to the command `revocations`. A digest that the same key signed before may be
    missing now only if it is in `removed`; with `None`, any may. Returns the arguments of the command
    `revocations-sign`, and the digests that are new in the list and that are not in it any more.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    try:
        revoked = {str(row["digest"]): str(row["reason"]) for row in listed["revoked"]}
        serial = int(listed["serial"]) + 1
        data, signed = b64decode(listed["document"]), b64decode(listed["signature"])
    except (LookupError, TypeError, ValueError, AttributeError):
        raise SourceError("the registry did not say what is revoked: nothing was signed") from None
    before: Mapping[str, str] = {}
    if data:
        with suppress(SkillwireError):  # Somebody else's: what it says is not ours to answer for.
            require_signature(data, signed, [public], SIGNED_REVOCATIONS)
            before = parse_revocations(data)[2]
    gone = sorted(before.keys() - revoked.keys())
    if removed is not None and (missing := [digest for digest in gone if digest not in removed]):
        raise VersionConflict(
            f"nothing was signed: the registry does not list {', '.join(missing[:_NAMED])} any more, which "
            "you signed as revoked; if that is right, use --undo"
        )
    expires = (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0)
    document = revocations_document(serial, expires, revoked)
    signature = sign_files({SIGNED_REVOCATIONS: digest_of(document)}, name=SIGNED_REVOCATIONS, key=key)
    arguments: JsonObject = {
        "serial": serial,
        "expires": round(expires.timestamp() * 1000),
        "signature": b64encode(signature).decode(),
        "key": public,
    }
    return arguments, sorted(revoked.keys() - before.keys()), gone


def signed_digests(listed: Mapping[str, Any]) -> dict[str, str]:
    """The digests that hosts were told, each with its reason, of what a registry answered."""
    try:
        return parse_revocations(b64decode(listed["document"]))[2]
    except (SkillwireError, LookupError, TypeError, ValueError):
        return {}


def _digests(connection: Connection, target: str) -> list[str]:
    """The digests that a target stands for: one, or those of the versions of a skill, deleted ones too."""
    if target.startswith("sha256:"):
        return [parse_digest(target)]
    match = _SKILL.fullmatch(target)
    if match is None:
        raise _refused(
            f"{shown(target)!r} cannot be revoked",
            "write NAMESPACE/NAME@VERSION, NAMESPACE/NAME or sha256:DIGEST",
        )
    skill = [skills.c.namespace == checked_namespace(match["namespace"]), skills.c.name == match["name"]]
    found: set[str] = set()
    for table in (versions, deleted_versions):
        query = sa.select(table.c.set_digest).join(skills, skills.c.id == table.c.skill_id).where(*skill)
        if match["version"] is not None:
            query = query.where(table.c.version == checked_version(match["version"]))
        found |= set(connection.execute(query).scalars())
    if not found:
        raise SkillNotFound(f"there is no {shown(target)} in the registry")
    return sorted(found)


def _versions_with(connection: Connection, digests: Iterable[str]) -> dict[int, tuple[str, str, str]]:
    """The versions that have one of these digests: namespace, name and version, by id."""
    found: dict[int, tuple[str, str, str]] = {}
    for some in batches(sorted(digests)):
        having = sa.or_(
            versions.c.set_digest.in_(some),
            versions.c.id.in_(sa.select(files.c.version_id).where(files.c.digest.in_(some))),
        )
        rows = connection.execute(
            sa.select(versions.c.id, versions.c.version, skills.c.namespace, skills.c.name)
            .join(skills, skills.c.id == versions.c.skill_id)
            .where(having)
            .order_by(versions.c.id)
        )
        found |= {row.id: (row.namespace, row.name, row.version) for row in rows}
    return found


def _names(affected: _Affected) -> list[str]:
    return [f"{namespace}/{name}@{version}" for namespace, name, version in affected.values()]


def _shortened(affected: _Affected) -> str:
    names = _names(affected)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _reasons(connection: Connection) -> dict[str, str]:
    rows = connection.execute(sa.select(revocations.c.digest, revocations.c.reason))
    return {row.digest: row.reason for row in rows}


def _signed(connection: Connection) -> SignedList:
    row = connection.execute(sa.select(signed_revocations)).first()
    if row is None:
        return NOT_SIGNED
    return SignedList(row.serial, row.expires, bytes(row.data), bytes(row.signature), row.signer)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _signed_meanwhile() -> VersionConflict:
    return VersionConflict(
        "what is revoked was changed or signed by somebody else meanwhile: sign it again, without a target"
    )


def _refused(message: str, fix: str) -> FormatError:
    return FormatError(Issue(rule="registry-revoke", message=message, fix=fix))
