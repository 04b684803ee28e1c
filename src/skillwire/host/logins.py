"""LoginStore: who is signed in where, and the tokens of each login.

Tokens are kept in the system's keyring if the `keyring` package finds one, otherwise in a file that only the
user can read. A small record beside them says which servers there is a login for: a host looks there first,
and opens no keyring for servers that need none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, cast

from skillwire.errors import SourceError
from skillwire.files import make_folder, read_regular, try_lock, write_atomic

_VERSION: Final = 1
_SERVICE: Final = "skillwire"
_LONGEST_RECORD: Final = 1024 * 1024
_LEEWAY_SECONDS: Final = 30.0
_UNREADABLE: Final = (OSError, ValueError, TypeError, LookupError, RecursionError)
KEYRING: Final = "the system keyring"
"""Where tokens are, in words, if not in a file."""


class Keyring(Protocol):
    """The part of a keyring that is used."""

    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The tokens for one server, and what is needed to renew and to revoke them."""

    url: str
    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at: float | None = None
    """When the access token expires, in seconds since 1970; `None` if its issuer did not say."""
    scope: str = ""
    client: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """How the authorization server knows us."""
    server: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The metadata of the authorization server (RFC 8414)."""
    resource: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The metadata of the protected resource (RFC 9728)."""

    @property
    def issuer(self) -> str:
        """The authorization server, as it calls itself."""
        return str(self.server.get("issuer") or "")

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.access_token, self.refresh_token, str(self.client.get("client_secret") or ""))

    def is_current(self, now: float) -> bool:
        """Whether the access token can still be sent."""
        return self.expires_at is None or now < self.expires_at - _LEEWAY_SECONDS


class LoginStore:
    """The logins of a user, by the identity of a server (`ServerConfig.identity`)."""

    def __init__(self, directory: Path, *, keyring: Keyring | None = None) -> None:
        """`keyring` replaces that of the system."""
        self._directory = directory
        self._given = keyring

    def has(self, identity: str) -> bool:
        """Whether there is a login for a server. Opens no keyring."""
        return bool(identity) and self._path(identity).is_file()

    def get(self, identity: str) -> Login | None:
        """The login for a server, or `None` when there is none that can be read."""
        record = self._record(identity)
        text = record.get("login")
        if record.get("stored") == "keyring":
            keyring = self._keyring()
            try:
                text = json.loads(keyring.get_password(_SERVICE, identity) or "null") if keyring else None
            except Exception:  # Keyrings raise errors of many libraries; none of them may end a command.
                return None
        try:
            values = dict(cast("dict[str, Any]", text))
            return Login(
                url=str(values["url"]),
                access_token=str(values["access_token"]),
                refresh_token=str(values.get("refresh_token") or ""),
                expires_at=None if values.get("expires_at") is None else float(values["expires_at"]),
                scope=str(values.get("scope") or ""),
                client=dict(values.get("client") or {}),
                server=dict(values.get("server") or {}),
                resource=dict(values.get("resource") or {}),
            )
        except _UNREADABLE:
            return None

    def put(self, identity: str, login: Login) -> str:
        """Store a login, replacing an earlier one. Returns where its tokens are, in words."""
        values: dict[str, Any] = {
            "url": login.url,
            "access_token": login.access_token,
            "refresh_token": login.refresh_token,
            "expires_at": login.expires_at,
            "scope": login.scope,
            "client": dict(login.client),
            "server": dict(login.server),
            "resource": dict(login.resource),
        }
        path = self._path(identity)
        keyring = self._keyring()
        if keyring is not None:
            try:
                keyring.set_password(_SERVICE, identity, json.dumps(values))
            except Exception:  # A locked keyring, or one that takes only short values: the file is there.
                keyring = None
        record: dict[str, Any] = {"version": _VERSION, "stored": "keyring" if keyring else "file"}
        if keyring is None:
            record["login"] = values
        try:
            make_folder(path.parent)
            write_atomic(path, json.dumps(record).encode("utf-8"))
        except OSError as error:
            raise SourceError(f"{path} cannot be written: {error.strerror}") from None
        return KEYRING if keyring is not None else str(path)

    def remove(self, identity: str) -> None:
        """Delete a login, wherever its tokens are."""
        if self._record(identity).get("stored") == "keyring":
            keyring = self._keyring()
            with suppress(Exception):
                if keyring is not None:
                    keyring.delete_password(_SERVICE, identity)
        path = self._path(identity)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise SourceError(f"{path} cannot be removed: {error.strerror}") from None

    @contextmanager
    def renewing(self, identity: str) -> Generator[bool]:
        """Renew a login in one process at a time: a refresh token is often good for one use.

        Gives whether it is our turn; if not, another process renews it right now.
        """
        lock = self._path(identity).with_suffix(".lock")
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError:
            yield True  # Nothing can be written here, so there is nothing to lose.
            return
        try:
            yield try_lock(descriptor)
        finally:
            os.close(descriptor)

    def _record(self, identity: str) -> dict[str, Any]:
        try:
            values: Any = json.loads(read_regular(self._path(identity), _LONGEST_RECORD))
            return dict(values) if values["version"] == _VERSION else {}
        except _UNREADABLE:
            return {}

    def _path(self, identity: str) -> Path:
        return self._directory / f"{hashlib.sha256(identity.encode()).hexdigest()}.json"

    def _keyring(self) -> Keyring | None:
        return self._given if self._given is not None else system_keyring()


def system_keyring() -> Keyring | None:
    """The keyring of this system, or `None` when there is none that is better than a file of the user's."""
    try:
        import keyring
        from keyring.backends import fail, null

        backend = keyring.get_keyring()
        if isinstance(backend, fail.Keyring | null.Keyring):
            return None
        # A keyring that the user chose is used as it is; otherwise one that `keyring` recommends.
        chosen = bool(os.environ.get("PYTHON_KEYRING_BACKEND"))
        return cast("Keyring", backend) if chosen or backend.priority >= 1 else None
    except Exception:  # Not installed, or its backends cannot be loaded here.
        return None
