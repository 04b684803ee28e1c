"""Actions: what the forms do. Each goes through the same calls as the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from starlette.responses import RedirectResponse, Response

from skillwire.errors import SkillNotFound
from skillwire.trust.approval import Grants
from skillwire.ui.access import Notice
from skillwire.ui.visit import local_path

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost
    from skillwire.ui.live import Live
    from skillwire.ui.visit import Visit

HOW: Final = "on the review page"


class Actions:
    """The decisions of a person about the skills of one host."""

    def __init__(self, host: SkillHost, live: Live) -> None:
        self._host = host
        self._live = live

    def routes(self) -> Mapping[str, Callable[[Visit], Awaitable[Response]]]:
        return {"/approve": self.approve, "/decline": self.decline, "/revoke": self.revoke}

    async def approve(self, visit: Visit) -> Response:
        """Approve exactly the files that the form was shown with (SEC-6)."""
        label, uri = _named(visit)
        grants = Grants(
            allowed_tools=bool(visit.form.get("allow_tools")), execute_code=bool(visit.form.get("allow_code"))
        )
        skill = await self._host.find(uri, server=label)
        await self._host.admin.approve(
            uri,
            digest=visit.form.get("digest", ""),
            grants=grants,
            server=label,
            how=f"approved {HOW}",
            keep_files=True,
        )
        return self._done(visit, Notice(f"{skill.handle} is approved.", undo={"on": label, "uri": uri}))

    async def decline(self, visit: Visit) -> Response:
        """Decline exactly the files that the form was shown with."""
        label, uri = _named(visit)
        skill = await self._host.find(uri, server=label)
        await self._host.admin.decline(
            uri, digest=visit.form.get("digest", ""), server=label, how=f"declined {HOW}"
        )
        return self._done(visit, Notice(f"{skill.handle} is declined.", undo={"on": label, "uri": uri}))

    async def revoke(self, visit: Visit) -> Response:
        """Take a decision back."""
        label, uri = _named(visit)
        skill = await self._host.find(uri, server=label)
        await self._host.admin.revoke(uri, server=label)
        return self._done(visit, Notice(f"The decision about {skill.handle} is taken back."))

    def _done(self, visit: Visit, notice: Notice) -> Response:
        self._live.changed()
        visit.session.notice = notice
        return RedirectResponse(local_path(visit.form.get("back", "/")), 303)


def _named(visit: Visit) -> tuple[str, str]:
    """The skill that a form is about: its origin and its URI."""
    label, uri = visit.form.get("on", ""), visit.form.get("uri", "")
    if not label or not uri:
        raise SkillNotFound("the form names no skill: open the page again")
    return label, uri
