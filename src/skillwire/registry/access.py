"""Who may see and do what in a registry: tokens, signed-in users and their groups, and what each was granted.

A caller has subjects: `token:NAME`, or `user:SUBJECT` and a `group:NAME` for each group; everybody is
`anyone`. A grant gives a subject a role in one namespace or in all. What a caller has no role for does not
exist for it.
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import IntEnum
from functools import cached_property
from typing import Any, Final, Literal

import sqlalchemy as sa

from skillwire.access import Caller
from skillwire.documents import JsonObject, JsonValue
from skillwire.errors import FormatError, Issue, SkillNotFound
from skillwire.registry.audit import record
from skillwire.registry.endpoints import Revocations
from skillwire.registry.publications import checked_channel, checked_namespace
from skillwire.registry.publishing import STABLE, Publishing
from skillwire.registry.queries import View
from skillwire.registry.schema import channels, grants, namespaces, skills, tokens, versions
from skillwire.registry.store import Store, now
from skillwire.text import shown

ALL: Final = "*"
ANYONE: Final = "anyone"
PREFIX: Final = "skr_"
"""What every token of a registry begins with."""
_QUERY_VALUES: Final = 500
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SUBJECT: Final = re.compile(r"anyone|(?:token|user|group):[^\s\x00-\x1f\x7f]{1,200}")


class Role(IntEnum):
    """The roles of callers. Each role includes those before it."""

    READ = 1
    PUBLISH = 2
    ADMIN = 3

    @classmethod
    def parse(cls, text: str) -> Role:
        try:
            return cls[text.upper()]
        except KeyError:
            raise _refused(f"{shown(text)!r} is not a role", "use read, publish or admin") from None


@dataclass(frozen=True, slots=True)
class Subject:
    """Somebody whose grants are looked up: the holder of a token, a signed-in user, or anyone.

    Each kind has a key space of its own: no token can be taken for a user, and none for nobody.
    """

    kind: Literal["token", "user", "anyone"]
    key: str = ""
    """The hash of the token, or the user's subject."""
    groups: tuple[str, ...] = ()


NOBODY: Final = Subject("anyone")


@dataclass(frozen=True, kw_only=True, eq=True)
class RegistryCaller(Caller):
    """The sender of a request, with their roles by namespace (`*` for all)."""

    roles: Mapping[str, Role]
    subject: Subject = NOBODY
    channel: str = "stable"
    expires: float = math.inf
    """When their access token expires, as `time.time` counts."""

    def __post_init__(self) -> None:
        """The name has its kind before it: `token:ci`, `user:ada`."""

    __hash__ = Caller.__hash__

    def may(self, role: Role, namespace: str) -> bool:
        return max(self.roles.get(namespace, 0), self.roles.get(ALL, 0)) >= role

    @cached_property
    def view(self) -> View:
        """Return their view: callers with the same view can share everything that is cached."""
        seen = None if ALL in self.roles else frozenset(self.roles)
        return View(self.channel, seen)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token, without its secret."""

    name: str
    channel: str
    created_at: int
    revoked_at: int | None
    roles: Mapping[str, Role]


class Access:
    """Tokens and grants in a store. Every call may block."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def callers(self, subjects: Sequence[Subject], *, channel: str = "stable") -> list[RegistryCaller | None]:
        """The callers as they are now; `None` for a token that is not valid. Two queries, however many.

        `channel` is what signed-in users and anyone read.
        """
        hashes = sorted({one.key for one in subjects if one.kind == "token"})
        valid: dict[str, tuple[str, str]] = {}
        rows: list[Any] = []
        with self._store.reading() as connection:
            for part in _parts(hashes):
                # Looked up by its hash: the time that takes reveals nothing about any token.
                query = sa.select(tokens.c.hash, tokens.c.name, tokens.c.channel).where(
                    tokens.c.hash.in_(part), tokens.c.revoked_at.is_(None)
                )
                valid |= {row.hash: (row.name, row.channel) for row in connection.execute(query)}
            names = {one: _names(one, valid) for one in subjects}
            for part in _parts(sorted({name for own in names.values() for name in own})):
                rows += connection.execute(sa.select(grants).where(grants.c.subject.in_(part))).all()
        granted: dict[str, list[Any]] = {}
        for row in rows:
            granted.setdefault(row.subject, []).append(row)
        found: list[RegistryCaller | None] = []
        for one in subjects:
            if one.kind == "token" and one.key not in valid:
                found.append(None)
                continue
            roles = _roles(row for name in names[one] for row in granted.get(name, ()))
            name = "anonymous" if one == NOBODY else names[one][0]
            found.append(
                RegistryCaller(
                    name=name,
                    roles=roles,
                    subject=one,
                    channel=valid[one.key][1] if one.kind == "token" else channel,
                    is_operator=roles.get(ALL, Role.READ) >= Role.ADMIN,
                    credential="" if one == NOBODY else f"{one.kind}:{one.key}",
                )
            )
        return found

    def add_token(self, name: str, *, channel: str = "stable", by: str) -> str:
        """A new token. It is returned once and stored as a hash."""
        if not _NAME.fullmatch(name):
            raise _refused(f"{shown(name)!r} is not a token's name", "use letters, digits and . _ @ -")
        token = PREFIX + secrets.token_urlsafe(32)
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            if connection.execute(sa.select(tokens.c.name).where(tokens.c.name == name)).first() is not None:
                raise _refused(f"there is a token {name} already", "choose another name, or revoke it first")
            connection.execute(
                tokens.insert().values(
                    name=name, hash=token_hash(token), channel=checked_channel(channel), created_at=now()
                )
            )
            record(connection, by, "token-add", name, {"channel": channel})
        return token

    def revoke_token(self, name: str, *, by: str) -> None:
        """Revoke a token. Its name cannot be used again."""
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            done = connection.execute(
                tokens.update()
                .where(tokens.c.name == name, tokens.c.revoked_at.is_(None))
                .values(revoked_at=now())
            )
            if not done.rowcount:
                raise SkillNotFound(f"there is no valid token {shown(name)}")
            record(connection, by, "token-revoke", name, {})

    def list_tokens(self) -> list[TokenRow]:
        with self._store.reading() as connection:
            rows = connection.execute(sa.select(tokens).order_by(tokens.c.name)).all()
            granted = connection.execute(sa.select(grants)).all()
        return [
            TokenRow(
                row.name,
                row.channel,
                row.created_at,
                row.revoked_at,
                _roles(one for one in granted if one.subject == f"token:{row.name}"),
            )
            for row in rows
        ]

    def grant(self, subject: str, namespace: str, role: Role | None, *, by: str) -> None:
        """Give a subject a role in a namespace (`*` for all); `None` revokes the one that it has there."""
        if not _SUBJECT.fullmatch(subject):
            raise _refused(
                f"{shown(subject)!r} is not a subject", "write token:NAME, user:SUBJECT, group:NAME or anyone"
            )
        if subject == ANYONE and role not in (None, Role.READ):
            raise _refused("anyone can only be granted read", "name a token, a user or a group")
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            before = connection.execute(
                grants.delete().where(grants.c.subject == subject, grants.c.namespace == namespace)
            )
            if role is None and not before.rowcount:
                where = "every namespace" if namespace == ALL else shown(namespace)
                raise SkillNotFound(
                    f"{shown(subject)} has no role that was granted in {where}: skillwire registry grants "
                    "lists them"
                )
            if namespace != ALL:
                known = sa.select(namespaces.c.name).where(namespaces.c.name == checked_namespace(namespace))
                if connection.execute(known).first() is None:
                    connection.execute(namespaces.insert().values(name=namespace))
            if role is not None:
                connection.execute(
                    grants.insert().values(subject=subject, namespace=namespace, role=role.name.lower())
                )
            name = "none" if role is None else role.name.lower()
            record(connection, by, "grant", subject, {"namespace": namespace, "role": name})


def _names(subject: Subject, valid: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    """The subjects of grants that count for somebody; their own comes first."""
    if subject.kind == "token":
        return (f"token:{valid[subject.key][0]}", ANYONE) if subject.key in valid else ()
    if subject.kind == "user":
        return (f"user:{subject.key}", ANYONE, *(f"group:{group}" for group in subject.groups))
    return (ANYONE,)


def _parts(values: Sequence[str]) -> Iterable[Sequence[str]]:
    """Databases limit the number of parameters of a query."""
    return (values[start : start + _QUERY_VALUES] for start in range(0, len(values), _QUERY_VALUES))


def _roles(rows: Iterable[sa.Row[Any, Any]]) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for row in rows:
        roles[row.namespace] = max(roles.get(row.namespace, Role.READ), Role.parse(row.role))
    return roles


def token_hash(token: str) -> str:
    """How a token is stored."""
    # Tokens are random and long: nobody can guess one from its hash, salted or not.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _refused(message: str, fix: str) -> FormatError:
    return FormatError(Issue(rule="registry-access", message=message, fix=fix))


ADMIN_PATH: Final = "/registry/v1/admin"
"""Where a registry takes the commands of its administrators over HTTP."""


_PRUNE_SECONDS: Final = 20.0


class _OutOfTimeError(Exception):
    """Pruning stopped after as many versions and files as its arguments say."""


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of a command, each of the type that it must have."""

    values: Mapping[str, object]

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if not isinstance(value, str) or not value:
            raise _refused_argument(f"{name} is missing", f"give {name} as text")
        return value

    def optional(self, name: str) -> str | None:
        return None if self.values.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        value = self.values.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise _refused_argument(f"{name} is not a number above 0", f"give {name} as a number")
        return value


class Administration:
    """The commands of operators, on one store. Every call may block."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._publishing = Publishing(store)
        self._access = Access(store)
        self._revocations = Revocations(store)
        self._commands: Final[Mapping[str, Callable[[_Arguments, str], JsonObject]]] = {
            "list": self._list,
            "versions": self._versions,
            "promote": self._promote,
            "yank": self._yank,
            "prune": self._prune,
            "tokens": self._tokens,
            "tokens-add": self._add_token,
            "tokens-revoke": self._revoke_token,
            "grants": self._grants,
            "grant": self._grant,
            "uploads": self._uploads,
            "uploads-drop": self._drop_uploads,
            "revocations": self._list_revoked,
            "revocations-sign": self._sign_revoked,
            "revoke": self._revoke,
            "revoke-undo": self._undo_revoke,
        }

    def run(self, command: str, arguments: Mapping[str, object], *, by: str) -> JsonObject:
        """Run a command, or raise the reason why it cannot be run."""
        function = self._commands.get(command)
        if function is None:
            raise _refused_argument(
                f"{shown(command)!r} is not a command", f"use one of {', '.join(sorted(self._commands))}"
            )
        return function(_Arguments(arguments), by)

    def _list(self, given: _Arguments, _by: str) -> JsonObject:
        """Every namespace with its numbers, or the skills of one."""
        if (namespace := given.optional("namespace")) is not None:
            return {"skills": self._skills_of(namespace)}
        query = (
            sa.select(
                namespaces.c.name,
                namespaces.c.quota_bytes,
                namespaces.c.published_bytes,
                namespaces.c.signer_name,
                sa.func.count(sa.distinct(skills.c.id)).label("skills"),
                sa.func.count(versions.c.id).label("versions"),
                sa.func.count(versions.c.revoked).label("revoked"),
            )
            .outerjoin(skills, skills.c.namespace == namespaces.c.name)
            .outerjoin(versions, versions.c.skill_id == skills.c.id)
            .group_by(namespaces.c.name)
            .order_by(namespaces.c.name)
        )
        with self._store.reading() as connection:
            rows = connection.execute(query).all()
        return {
            "namespaces": [
                {
                    "name": row.name,
                    "skills": row.skills,
                    "versions": row.versions,
                    "revoked": row.revoked,
                    "bytes": row.published_bytes,
                    "quota_bytes": row.quota_bytes,
                    "signer": row.signer_name,
                }
                for row in rows
            ]
        }

    def _skills_of(self, namespace: str) -> list[JsonValue]:
        counted = (
            sa.select(skills.c.id, skills.c.name, sa.func.count(versions.c.id).label("versions"))
            .outerjoin(versions, versions.c.skill_id == skills.c.id)
            .where(skills.c.namespace == namespace)
            .group_by(skills.c.id, skills.c.name)
            .order_by(skills.c.name)
        )
        pointing = (
            sa.select(channels.c.name, channels.c.channel, versions.c.version)
            .join(versions, versions.c.id == channels.c.version_id)
            .where(channels.c.namespace == namespace)
        )
        refused = (
            sa.select(versions.c.skill_id, versions.c.version)
            .join(skills, skills.c.id == versions.c.skill_id)
            .where(skills.c.namespace == namespace, versions.c.revoked.is_not(None))
            .order_by(versions.c.id)
        )
        with self._store.reading() as connection:
            rows = connection.execute(counted).all()
            revoked: dict[int, list[JsonValue]] = {}
            for row in connection.execute(refused):
                revoked.setdefault(row.skill_id, []).append(row.version)
            by_name: dict[str, JsonObject] = {}
            for row in connection.execute(pointing):
                by_name.setdefault(row.name, {})[row.channel] = row.version
        return [
            {
                "name": row.name,
                "versions": row.versions,
                "revoked": revoked.get(row.id, []),
                "channels": by_name.get(row.name, {}),
            }
            for row in rows
        ]

    def _versions(self, given: _Arguments, _by: str) -> JsonObject:
        rows = self._publishing.versions(given.text("namespace"), given.text("name"))
        return {
            "versions": [
                {
                    "version": row.version,
                    "set_digest": row.set_digest,
                    "size": row.size,
                    "signer": row.signer or None,
                    "published_by": row.published_by,
                    "published_at": time_text(row.published_at),
                    "yanked": row.yanked,
                    "revoked": row.revoked,
                    "channels": list(row.channels),
                }
                for row in rows
            ]
        }

    def _promote(self, given: _Arguments, by: str) -> JsonObject:
        namespace, name, version = given.text("namespace"), given.text("name"), given.text("version")
        channel = given.optional("channel") or STABLE
        self._publishing.promote(namespace, name, version, channel, by=by)
        return {"skill": f"{namespace}/{name}", "version": version, "channel": channel}

    def _yank(self, given: _Arguments, by: str) -> JsonObject:
        namespace, name, version = given.text("namespace"), given.text("name"), given.text("version")
        reason = given.optional("reason") or "withdrawn"
        left = self._publishing.yank(namespace, name, version, reason, by=by)
        rows = self._publishing.versions(namespace, name)
        [place] = [number for number, row in enumerate(rows) if row.version == version]
        before = next((row.version for row in rows[place + 1 :] if row.yanked is None), None)
        return {
            "skill": f"{namespace}/{name}",
            "version": version,
            "channels": list(left),
            "version_before": before,
        }

    def _prune(self, given: _Arguments, by: str) -> JsonObject:
        """Delete what is old, for as long as a request may take. `finished` is false if there is more."""
        end = time.monotonic() + _PRUNE_SECONDS

        def report(versions: int, files: int) -> None:
            if time.monotonic() > end:
                raise _OutOfTimeError(versions, files)

        try:
            deleted, removed = self._publishing.prune(keep=given.number("keep"), by=by, progress=report)
        except _OutOfTimeError as stopped:
            return {"versions": stopped.args[0], "files": stopped.args[1], "finished": False}
        return {"versions": deleted, "files": removed, "finished": True}

    def _tokens(self, _given: _Arguments, _by: str) -> JsonObject:
        return {
            "tokens": [
                {
                    "name": row.name,
                    "channel": row.channel,
                    "created_at": time_text(row.created_at),
                    "revoked_at": None if row.revoked_at is None else time_text(row.revoked_at),
                    "roles": {key: value.name.lower() for key, value in sorted(row.roles.items())},
                }
                for row in self._access.list_tokens()
            ]
        }

    def _add_token(self, given: _Arguments, by: str) -> JsonObject:
        name, role = given.text("name"), given.optional("role")
        parsed = None if role is None else Role.parse(role)
        token = self._access.add_token(name, channel=given.optional("channel") or STABLE, by=by)
        if parsed is not None:
            self._access.grant(f"token:{name}", given.optional("namespace") or ALL, parsed, by=by)
        return {"name": name, "token": token}

    def _revoke_token(self, given: _Arguments, by: str) -> JsonObject:
        self._access.revoke_token(given.text("name"), by=by)
        return {"revoked": given.text("name")}

    def _grants(self, _given: _Arguments, _by: str) -> JsonObject:
        with self._store.reading() as connection:
            rows = connection.execute(sa.select(grants).order_by(grants.c.subject, grants.c.namespace)).all()
        return {
            "grants": [{"subject": row.subject, "namespace": row.namespace, "role": row.role} for row in rows]
        }

    def _grant(self, given: _Arguments, by: str) -> JsonObject:
        subject, role, namespace = given.text("subject"), given.text("role"), given.optional("namespace")
        parsed = None if role == "none" else Role.parse(role)
        self._access.grant(subject, namespace or ALL, parsed, by=by)
        return {"subject": subject, "namespace": namespace or ALL, "role": role}

    def _uploads(self, _given: _Arguments, _by: str) -> JsonObject:
        rows = self._publishing.waiting_uploads()
        return {"uploads": [{**asdict(row), "at": time_text(row.at)} for row in rows]}

    def _drop_uploads(self, given: _Arguments, by: str) -> JsonObject:
        files = self._publishing.drop_uploads(given.text("namespace"), given.text("sent_by"), by=by)
        return {"files": files}

    def _list_revoked(self, _given: _Arguments, _by: str) -> JsonObject:
        rows, signed = self._revocations.listing()
        return {
            "revoked": [{**asdict(row), "revoked_at": time_text(row.revoked_at)} for row in rows],
            "serial": signed.serial,
            "expires": time_text(signed.expires) if signed.serial else None,
            "signer": signed.signer or None,
            "document": b64encode(signed.data).decode(),
            "signature": b64encode(signed.signature).decode(),
        }

    def _sign_revoked(self, given: _Arguments, by: str) -> JsonObject:
        try:
            signature = b64decode(given.text("signature"), validate=True)
        except ValueError:
            raise _refused_argument("signature is not base64", "use skillwire registry revoke") from None
        made = self._revocations.sign(
            given.number("serial"), given.number("expires"), signature, given.text("key"), by=by
        )
        return {"serial": made.serial, "expires": time_text(made.expires), "signer": made.signer}

    def _revoke(self, given: _Arguments, by: str) -> JsonObject:
        target = given.text("target")
        digests, affected = self._revocations.revoke(target, given.text("reason"), by=by)
        return {"target": target, "digests": [*digests], "versions": [*affected]}

    def _undo_revoke(self, given: _Arguments, by: str) -> JsonObject:
        target = given.text("target")
        digests, affected = self._revocations.undo(target, by=by)
        return {"target": target, "digests": [*digests], "versions": [*affected]}


_IN_A_NAMESPACE: Final = frozenset({"versions", "promote", "yank", "uploads-drop"})


def namespace_of(command: str, arguments: Mapping[str, object]) -> str:
    """The namespace in which a caller needs the role `admin` for a command; `*` for all of them."""
    namespace = arguments.get("namespace")
    if command in _IN_A_NAMESPACE or (command == "list" and namespace is not None):
        return namespace if isinstance(namespace, str) else ALL
    return ALL


def time_text(milliseconds: int) -> str:
    """A time of the tables, as people read it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _refused_argument(message: str, fix: str) -> FormatError:
    return FormatError(Issue(rule="registry-command", message=message, fix=fix))
