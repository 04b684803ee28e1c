"""PageAccess: who may use the review page, and what a request of theirs names.

One link opens the page once. After that a cookie does, and a token in each form. Browsers send a cookie to
every port of a machine, so each session has a random path, to which its cookie is bound: a server on another
port does not know the path, and never gets the cookie.

A request passes these checks in order, and the first that fails answers it:

1. `Host` names this server, so that no other site can reach it under its own name.
2. `Origin` of a request that changes something is this page.
3. The cookie belongs to a session that was opened with a link, and the path is that of the session.
4. A form carries the token of that session.

Nothing here does input or output; the clock is passed in.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from starlette.responses import RedirectResponse, Response

from skillwire.ui.items import address

if TYPE_CHECKING:
    from starlette.requests import Request

    from skillwire.access import Callers


LINK_SECONDS: Final = 600.0
SESSION_SECONDS: Final = 12 * 3600.0
_MOST_SESSIONS: Final = 64
_MOST_LINKS: Final = 256
_MOST_OPENED: Final = 10_000
_ROOT_BYTES: Final = 24
_ROOT: Final = re.compile(r"/[A-Za-z0-9_-]{32}(?=/|$)")


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the person on the next page, and the approval that they can undo there."""

    text: str
    is_problem: bool = False
    undo: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class OneSkill:
    """The scope of a link of a gateway's caller: one skill, for that caller alone to decide about."""

    caller: str
    label: str
    uri: str


@dataclass(slots=True)
class BrowserSession:
    """One browser with access."""

    root: str
    """The path that its pages are below, such as `/s3cr3t`."""
    form_token: str
    """The token that its forms carry, so that no other site can send one in its name."""
    used_at: float
    """When it was last used, by the clock of `PageAccess`. It ends when it was not used for
    `SESSION_SECONDS`."""
    only: OneSkill | None = None
    """The one skill that it may see; `None` for everything."""
    notice: Notice | None = None
    """The message for the person on the next page, once."""
    _opened: dict[str, None] = field(default_factory=dict[str, None])

    def note_opened(self, digest: str) -> None:
        """The person was shown the files of this digest."""
        self._opened[digest] = None
        while len(self._opened) > _MOST_OPENED:
            del self._opened[next(iter(self._opened))]

    def has_opened(self, digest: str) -> bool:
        return digest in self._opened


@dataclass(slots=True)
class PageAccess:
    """The links and sessions of one running page. Secrets are kept as digests."""

    hosts: frozenset[str]
    """The allowed values of `Host`, with the port."""
    clock: Callable[[], float]
    tokens: Callers | None = None
    """Tokens that open a session besides a link, for a page that can be reached from other machines."""
    _links: dict[bytes, tuple[float, OneSkill | None]] = field(
        default_factory=dict[bytes, "tuple[float, OneSkill | None]"]
    )
    _sessions: dict[bytes, BrowserSession] = field(default_factory=dict[bytes, BrowserSession])

    @classmethod
    def for_server(
        cls, names: Iterable[str], port: int, *, clock: Callable[[], float], tokens: Callers | None = None
    ) -> PageAccess:
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

    def open_session(self, token: str, *, is_link: bool) -> tuple[str, BrowserSession] | None:
        """A new session and its cookie, for the token of a link, which is used up, or for one of `tokens`.

        `None` for anything else.
        """
        only: OneSkill | None = None
        if is_link:
            end, only = self._links.pop(_digest(token), (0.0, None))
            is_valid = end > self.clock()
        else:
            given = token.strip().encode("utf-8", "replace")
            is_valid = self.tokens is not None and self.tokens.find(given) is not None
        if not is_valid:
            return None
        while len(self._sessions) >= _MOST_SESSIONS:
            oldest = min(self._sessions, key=lambda key: self._sessions[key].used_at)
            del self._sessions[oldest]
        cookie = secrets.token_urlsafe(32)
        session = BrowserSession(
            root=f"/{secrets.token_urlsafe(_ROOT_BYTES)}",
            form_token=secrets.token_urlsafe(32),
            used_at=self.clock(),
            only=only,
        )
        self._sessions[_digest(cookie)] = session
        return cookie, session

    def session(self, cookie: str, root: str) -> BrowserSession | None:
        """The session of a cookie, at its own path, unless it was not used for twelve hours."""
        found = self._sessions.get(_digest(cookie)) if cookie else None
        if found is None or self.clock() - found.used_at > SESSION_SECONDS:
            return None
        if not hmac.compare_digest(found.root.encode(), root.encode("utf-8", "replace")):
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


def is_form_token(session: BrowserSession, given: str) -> bool:
    """Whether a form carries the token of its session."""
    return hmac.compare_digest(session.form_token.encode(), given.encode("utf-8", "replace"))


def root_of(path: str) -> str:
    """The path of a session that a request's path begins with; empty for paths outside of every session."""
    found = _ROOT.match(path)
    return found[0] if found else ""


def content_policy(nonce: str) -> str:
    """The Content-Security-Policy of a page: nothing but our own style and script, and no frame around it."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types skillwire"
    )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


UPDATE_HEADER: Final = "skillwire-update"
"""What the script of a page sends when it fetches the page again."""
_ABOUT_ONE_SKILL: Final = frozenset({"/skill", "/diff", "/approve", "/decline", "/revoke"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request with its session. Its values are text of a browser: nothing in them has been checked."""

    request: Request
    session: BrowserSession
    nonce: str
    revision: int
    """The last change before the request: what is shown may be older than what happened since."""
    form: Mapping[str, str]
    picked: tuple[str, ...] = ()
    """The values of the selected boxes of a form."""

    def query(self, name: str) -> str:
        return self.request.query_params.get(name, "")

    def number(self, name: str, default: int = 1) -> int:
        return as_number(self.query(name), default)

    @property
    def path(self) -> str:
        """The path of this page below that of the session."""
        return self.request.url.path.removeprefix(self.session.root)

    @property
    def here(self) -> str:
        """The path and query of this page, below that of the session."""
        query = self.request.url.query
        return self.path + (f"?{query}" if query else "")

    @property
    def caller(self) -> str:
        """The caller of a gateway who decides here; empty for the user."""
        return self.session.only.caller if self.session.only else ""

    @property
    def is_allowed(self) -> bool:
        """Whether the session may see this page: one for a single skill has no other."""
        only, path = self.session.only, self.path
        if only is None or path == "/events":
            return True
        named = self.form if self.request.method == "POST" else self.request.query_params
        return path in _ABOUT_ONE_SKILL and (named.get("on"), named.get("uri")) == (only.label, only.uri)

    @property
    def back(self) -> str:
        """Where to go after a form: the page that it names, or the skill of a session for one skill."""
        only = self.session.only
        if only is not None:
            return address("/skill", {"on": only.label, "uri": only.uri})
        return local_path(self.form.get("back", "/"))

    def redirect(self, path: str) -> Response:
        """Leads to a page of this session."""
        return RedirectResponse(self.session.root + path, 303)

    def take_notice(self) -> Notice | None:
        """The message for the person, once. A live update shows parts of a page and leaves it to the next
        page."""
        if UPDATE_HEADER in self.request.headers:
            return None
        notice, self.session.notice = self.session.notice, None
        return notice


def as_number(text: str, default: int) -> int:
    """The number that a browser sent, of at most nine digits; `default` for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default


def local_path(text: str) -> str:
    """A path of the page; the inbox for anything that could lead elsewhere."""
    is_local = text.startswith("/") and not text.startswith(("//", "/\\", "/open")) and text.isprintable()
    return text if is_local and "\\" not in text else "/"
