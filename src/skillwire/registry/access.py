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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Final, Literal

import sqlalchemy as sa

from skillwire.access import Caller
from skillwire.errors import FormatError, Issue, RefusedByPolicy, SkillNotFound
from skillwire.registry.audit import record
from skillwire.registry.publications import checked_channel, checked_namespace
from skillwire.registry.queries import View
from skillwire.registry.schema import grants, namespaces, tokens
from skillwire.registry.store import Store, batches, now
from skillwire.text import shown

ALL: Final = "*"
ANYONE: Final = "anyone"
PREFIX: Final = "skr_"
"""What every token of a registry begins with."""
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


class RoleMissing(RefusedByPolicy):
    """The caller has no role for what they asked for."""


@dataclass(frozen=True, kw_only=True, eq=True)
class RegistryCaller(Caller):
    """The sender of a request, with their roles by namespace (`*` for all).

    The name has its kind before it: `token:ci`, `user:ada`.
    """

    roles: Mapping[str, Role]
    subject: Subject = NOBODY
    channel: str = "stable"
    expires: float = math.inf
    """When their access token expires, as `time.time` counts."""

    __hash__ = Caller.__hash__

    def may(self, role: Role, namespace: str) -> bool:
        return max(self.roles.get(namespace, 0), self.roles.get(ALL, 0)) >= role

    @cached_property
    def view(self) -> View:
        """Return their view: callers with the same view can share everything that is cached."""
        seen = None if ALL in self.roles else frozenset(self.roles)
        return View(self.channel, seen)


def operator(name: str) -> RegistryCaller:
    """A process that has the database itself, and so every role in every namespace."""
    return RegistryCaller(name=name, roles={ALL: Role.ADMIN}, is_operator=True)


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
            for part in batches(hashes):
                # Looked up by its hash: the time that takes reveals nothing about any token.
                query = sa.select(tokens.c.hash, tokens.c.name, tokens.c.channel).where(
                    tokens.c.hash.in_(part), tokens.c.revoked_at.is_(None)
                )
                valid |= {row.hash: (row.name, row.channel) for row in connection.execute(query)}
            names = {one: _names(one, valid) for one in subjects}
            for part in batches(sorted({name for own in names.values() for name in own})):
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
