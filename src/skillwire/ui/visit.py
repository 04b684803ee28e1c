"""Visit: one request of a browser with access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillwire.ui.items import address

if TYPE_CHECKING:
    from starlette.requests import Request

    from skillwire.ui.access import Notice, Session

_ABOUT_ONE_SKILL: Final = frozenset({"/skill", "/diff", "/approve", "/decline", "/revoke"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request with its session. Its values are text of a browser: nothing in them has been checked."""

    request: Request
    session: Session
    nonce: str
    form: Mapping[str, str]

    def query(self, name: str) -> str:
        return self.request.query_params.get(name, "")

    def number(self, name: str, default: int = 1) -> int:
        text = self.query(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default

    @property
    def here(self) -> str:
        """The path and query of this page."""
        url = self.request.url
        return url.path + (f"?{url.query}" if url.query else "")

    @property
    def caller(self) -> str:
        """The caller of a gateway who decides here; empty for the user."""
        return self.session.only.caller if self.session.only else ""

    @property
    def is_allowed(self) -> bool:
        """Whether the session may see this page: one for a single skill has no other."""
        only, path = self.session.only, self.request.url.path
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

    def take_notice(self) -> Notice | None:
        notice, self.session.notice = self.session.notice, None
        return notice


def local_path(text: str) -> str:
    """A path of this server; the inbox for anything that could lead elsewhere."""
    is_local = text.startswith("/") and not text.startswith(("//", "/\\", "/open")) and text.isprintable()
    return text if is_local and "\\" not in text else "/"
