"""Who may see and do what in a registry: tokens, signed-in users and their groups, and what each was granted.

A caller has subjects: `token:NAME`, or `user:SUBJECT` and a `group:NAME` for each group; everybody is
`anyone`. A grant gives a subject a role in one namespace or in all. What a caller has no role for does not
exist for it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

import sqlalchemy as sa

from skillwire.errors import FormatError, SkillNotFound
from skillwire.issues import Issue, shown
from skillwire.registry.audit import record
from skillwire.registry.catalog import View
from skillwire.registry.places import checked_channel, checked_namespace
from skillwire.registry.schema import grants, namespaces, tokens
from skillwire.registry.store import Store, now

ALL: Final = "*"
ANYONE: Final = "anyone"
_PREFIX: Final = "skr_"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SUBJECT: Final = re.compile(r"anyone|(?:token|user|group):[^\s\x00-\x1f\x7f]{1,200}")


class Role(IntEnum):
    """What a caller may do. Each role includes those before it."""

    READ = 1
    PUBLISH = 2
    ADMIN = 3

    @classmethod
    def parse(cls, text: str) -> Role:
        try:
            return cls[text.upper()]
        except KeyError:
            raise _refused(f"{shown(text)!r} is not a role", "use read, publish or admin") from None


@dataclass(frozen=True)
class Caller:
    """The sender of a request, with their roles by namespace (`*` for all)."""

    name: str
    roles: Mapping[str, Role]
    channel: str = "stable"

    def may(self, role: Role, namespace: str) -> bool:
        return max(self.roles.get(namespace, 0), self.roles.get(ALL, 0)) >= role

    @cached_property
    def view(self) -> View:
        """What they see: callers with the same view can share everything that is cached."""
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

    def caller_of_token(self, token: str) -> Caller | None:
        """Who has this token; `None` for nobody, or when it was revoked."""
        # Looked up by its hash: the time that takes reveals nothing about any token.
        query = sa.select(tokens.c.name, tokens.c.channel).where(
            tokens.c.hash == _hash(token), tokens.c.revoked_at.is_(None)
        )
        with self._store.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else self.caller(f"token:{row.name}", channel=row.channel)

    def caller(self, name: str, groups: Iterable[str] = (), *, channel: str = "stable") -> Caller:
        """A signed-in user with these groups, and what they were granted."""
        subjects = sorted({name, ANYONE, *(f"group:{group}" for group in groups)})
        with self._store.reading() as connection:
            rows = connection.execute(
                sa.select(grants.c.namespace, grants.c.role).where(grants.c.subject.in_(subjects))
            ).all()
        return Caller(name, _roles(rows), channel)

    def add_token(self, name: str, *, channel: str = "stable", by: str) -> str:
        """A new token. It is returned once and stored as a hash."""
        if not _NAME.fullmatch(name):
            raise _refused(f"{shown(name)!r} is not a token's name", "use letters, digits and . _ @ -")
        token = _PREFIX + secrets.token_urlsafe(32)
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            if connection.execute(sa.select(tokens.c.name).where(tokens.c.name == name)).first() is not None:
                raise _refused(f"there is a token {name} already", "choose another name, or revoke it first")
            connection.execute(
                tokens.insert().values(
                    name=name, hash=_hash(token), channel=checked_channel(channel), created_at=now()
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
        """Give a subject a role in a namespace (`*` for all); `None` revokes it."""
        if not _SUBJECT.fullmatch(subject):
            raise _refused(
                f"{shown(subject)!r} is not a subject", "write token:NAME, user:SUBJECT, group:NAME or anyone"
            )
        if subject == ANYONE and role not in (None, Role.READ):
            raise _refused("anyone can only be granted read", "name a token, a user or a group")
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            if namespace != ALL:
                known = sa.select(namespaces.c.name).where(namespaces.c.name == checked_namespace(namespace))
                if connection.execute(known).first() is None:
                    connection.execute(namespaces.insert().values(name=namespace))
            connection.execute(
                grants.delete().where(grants.c.subject == subject, grants.c.namespace == namespace)
            )
            if role is not None:
                connection.execute(
                    grants.insert().values(subject=subject, namespace=namespace, role=role.name.lower())
                )
            name = "none" if role is None else role.name.lower()
            record(connection, by, "grant", subject, {"namespace": namespace, "role": name})


def _roles(rows: Iterable[sa.Row[Any, Any]]) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for row in rows:
        roles[row.namespace] = max(roles.get(row.namespace, Role.READ), Role.parse(row.role))
    return roles


def _hash(token: str) -> str:
    # Tokens are random and long: nobody can guess one from its hash, salted or not.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _refused(message: str, fix: str) -> FormatError:
    return FormatError(Issue(rule="registry-access", message=message, fix=fix))
