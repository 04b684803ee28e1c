"""Administration: the commands of a registry's administrators.

A process that has the database calls it, and so does the registry for what it gets over HTTP.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from skillwire.documents import JsonObject, JsonValue
from skillwire.errors import FormatError, Issue
from skillwire.registry.access import ALL, Access, RegistryCaller, Role, RoleMissing
from skillwire.registry.publishing import STABLE, Publishing
from skillwire.registry.revocations import Revocations
from skillwire.registry.schema import channels, grants, namespaces, skills, versions
from skillwire.registry.store import Store
from skillwire.text import shown

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

    def run(self, command: str, arguments: Mapping[str, object], *, caller: RegistryCaller) -> JsonObject:
        """Run a command for a caller, or raise the reason why it is not run; without the role that it needs,
        that is a `RoleMissing`."""
        where = namespace_of(command, arguments)
        if not caller.may(Role.ADMIN, where):
            place = "every namespace" if where == ALL else where
            raise RoleMissing(f"this needs the role admin in {shown(place)}")
        function = self._commands.get(command)
        if function is None:
            raise _refused_argument(
                f"{shown(command)!r} is not a command", f"use one of {', '.join(sorted(self._commands))}"
            )
        return function(_Arguments(arguments), caller.name)

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
