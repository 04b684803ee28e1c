"""Access: who may use the review page. One link opens it once; after that a cookie, and a token in each form.

A request passes these checks in order, and the first that fails answers it:

1. `Host` names this server, so that no other site can reach it under its own name.
2. `Origin` of a request that changes something is this page.
3. The cookie belongs to a session that was opened with a link.
4. A form carries the token of that session.

Nothing here does input or output; the clock is passed in.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skillwire.server.http.auth import Tokens

LINK_SECONDS: Final = 600.0
SESSION_SECONDS: Final = 12 * 3600.0
_MOST_SESSIONS: Final = 64
_MOST_LINKS: Final = 256


@dataclass(frozen=True, slots=True)
class Notice:
    """What to tell the person on the next page, and the approval that they can undo there."""

    text: str
    is_problem: bool = False
    undo: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class OneSkill:
    """What the link of a gateway's caller opens: one skill, for that caller alone to decide about."""

    caller: str
    label: str
    uri: str


@dataclass(slots=True)
class Session:
    """One browser with access."""

    form_token: str
    """What its forms carry, so that no other site can send one in its name."""
    used_at: float
    """When it was last used, by the clock of `Access`. It ends when it was not used for
    `SESSION_SECONDS`."""
    only: OneSkill | None = None
    """The one skill that it may see; `None` for everything."""
    notice: Notice | None = None
    """What to tell the person on the next page, once."""


@dataclass(slots=True)
class Access:
    """The links and sessions of one running page. Secrets are kept as digests."""

    hosts: frozenset[str]
    """The allowed values of `Host`, with the port."""
    clock: Callable[[], float]
    tokens: Tokens | None = None
    """What opens a session besides a link, for a page that can be reached from other machines."""
    _links: dict[bytes, tuple[float, OneSkill | None]] = field(
        default_factory=dict[bytes, "tuple[float, OneSkill | None]"]
    )
    _sessions: dict[bytes, Session] = field(default_factory=dict[bytes, Session])

    @classmethod
    def for_server(
        cls, names: Iterable[str], port: int, *, clock: Callable[[], float], tokens: Tokens | None = None
    ) -> Access:
        """Access to a server that is known by these names, on one port."""
        known = [name.lower() for name in names]
        # A proxy in front of it may leave out the port.
        bare = known if port in (80, 443) or tokens is not None else []
        return cls(frozenset([*bare, *(f"{name}:{port}" for name in known)]), clock, tokens)

    @property
    def takes_tokens(self) -> bool:
        return self.tokens is not None

    def new_link(self, only: OneSkill | None = None) -> str:
        """A token that opens one session, within ten minutes; with `only`, one for that skill alone."""
        now = self.clock()
        self._links = {key: link for key, link in self._links.items() if link[0] > now}
        while len(self._links) >= _MOST_LINKS:
            del self._links[next(iter(self._links))]
        token = secrets.token_urlsafe(32)
        self._links[_digest(token)] = (now + LINK_SECONDS, only)
        return token

    def open_session(self, token: str, *, is_link: bool) -> str | None:
        """The cookie of a new session, for the token of a link, which is used up, or for one of `tokens`.

        `None` for anything else.
        """
        only: OneSkill | None = None
        if is_link:
            end, only = self._links.pop(_digest(token), (0.0, None))
            is_valid = end > self.clock()
        else:
            given = [(b"authorization", b"Bearer " + token.strip().encode("utf-8", "replace"))]
            is_valid = self.tokens is not None and self.tokens.name_for(given) is not None
        if not is_valid:
            return None
        while len(self._sessions) >= _MOST_SESSIONS:
            oldest = min(self._sessions, key=lambda key: self._sessions[key].used_at)
            del self._sessions[oldest]
        cookie = secrets.token_urlsafe(32)
        self._sessions[_digest(cookie)] = Session(secrets.token_urlsafe(32), self.clock(), only)
        return cookie

    def session(self, cookie: str) -> Session | None:
        """The session of a cookie, unless it was not used for twelve hours."""
        found = self._sessions.get(_digest(cookie)) if cookie else None
        if found is None or self.clock() - found.used_at > SESSION_SECONDS:
            return None
        found.used_at = self.clock()
        return found

    def is_addressed(self, hosts: list[str]) -> bool:
        """Whether the one `Host` header names this server."""
        return len(hosts) == 1 and hosts[0].lower() in self.hosts

    def is_own_origin(self, origins: list[str], host: str) -> bool:
        """Whether a form was sent by a page of this server: `Origin` is where the request goes."""
        return len(origins) == 1 and origins[0].lower() in (
            f"http://{host.lower()}",
            f"https://{host.lower()}",
        )


def is_form_token(session: Session, given: str) -> bool:
    """Whether a form carries the token of its session."""
    return hmac.compare_digest(session.form_token.encode(), given.encode("utf-8", "replace"))


def content_policy(nonce: str) -> str:
    """The Content-Security-Policy of a page: nothing but our own style and script, and no frame around it."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types skillwire"
    )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
