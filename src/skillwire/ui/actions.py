"""ReviewActions: what the forms do. Each goes through the same calls as the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from skillwire.errors import ApprovalRequired, SkillNotFound, SkillwireError
from skillwire.trust import Grants, Reason
from skillwire.ui.access import Notice
from skillwire.words import counted

if TYPE_CHECKING:
    from skillwire.host import SkillHost
    from skillwire.install import InstallReport
    from skillwire.ui.access import Visit
    from skillwire.ui.installed import InstalledSkills
    from skillwire.ui.items import Overview
    from skillwire.ui.rendering import Live

HOW: Final = "on the review page"


class ReviewActions:
    """The decisions of a person about the skills of one host."""

    def __init__(self, host: SkillHost, overview: Overview, live: Live, installed: InstalledSkills) -> None:
        self._host = host
        self._overview = overview
        self._live = live
        self._installed = installed

    async def approve(self, visit: Visit) -> Response:
        """Approve exactly the files that the form was shown with (SEC-6)."""
        label, uri = _named(visit)
        skill = await self._host.find(uri, server=label)
        digest = visit.form.get("digest", "")
        item = self._overview.item(self._host.admin.review(skill, caller=visit.caller), visit.caller)
        if item.review_reasons and not visit.session.has_opened(digest):
            raise ApprovalRequired(
                f"{skill.handle} is not approved: open it first ({', '.join(item.review_reasons)})",
                reason=Reason.NEW,
                origin=label,
                uri=uri,
            )
        await self._host.admin.approve(
            uri,
            digest=digest,
            grants=_grants(visit),
            server=label,
            how=f"approved {HOW}",
            caller=visit.caller,
            keep_files=True,
        )
        return self._done(visit, Notice(f"{skill.handle} is approved.", undo={"on": label, "uri": uri}))

    async def decline(self, visit: Visit) -> Response:
        """Decline exactly the files that the form was shown with."""
        label, uri = _named(visit)
        skill = await self._host.find(uri, server=label)
        await self._host.admin.decline(
            uri, digest=visit.form.get("digest", ""), server=label, how=f"declined {HOW}", caller=visit.caller
        )
        return self._done(visit, Notice(f"{skill.handle} is declined.", undo={"on": label, "uri": uri}))

    async def decline_selected(self, visit: Visit) -> Response:
        """Decline every selected skill of the inbox with exactly the files that it was shown with."""
        waiting = {item.id: item for item in map(self._overview.item, self._overview.waiting())}
        declined = 0
        problems: list[str] = []
        for picked in visit.picked:
            name, _, digest = picked.partition(" ")
            item = waiting.get(name)
            if item is None:
                continue  # It was decided meanwhile.
            try:
                await self._host.admin.decline(
                    item.uri, digest=digest, server=item.label, how=f"declined {HOW}"
                )
                declined += 1
            except SkillwireError as error:
                problems.append(str(error))
        words = [f"{counted(declined, 'skill')} declined.", *problems]
        return self._done(visit, Notice(" ".join(words), is_problem=bool(problems)))

    async def revoke(self, visit: Visit) -> Response:
        """Undo a decision."""
        label, uri = _named(visit)
        skill = await self._host.find(uri, server=label)
        await self._host.admin.revoke(uri, server=label, caller=visit.caller)
        return self._done(visit, Notice(f"The decision about {skill.handle} is undone."))

    async def reconnect(self, visit: Visit) -> Response:
        """Connect to a server again, or list it again."""
        label = visit.form.get("label", "")
        await self._host.admin.reconnect(label)
        return self._done(visit, Notice(f"{label} was listed again."))

    async def check(self, visit: Visit) -> Response:
        """Ask the sources of installed skills whether they have other versions."""
        outdated = await self._installed.check(visit.form.get("scope", ""))
        words = f"{counted(outdated, 'skill')} outdated." if outdated else "Everything is up to date."
        return self._done(visit, Notice(words))

    async def update(self, visit: Visit) -> Response:
        """Install the version that the form was shown with."""
        form = visit.form
        report = await self._installed.update(
            form.get("scope", ""), form.get("name", ""), form.get("digest", ""), _grants(visit)
        )
        return self._done(visit, _report_notice(report))

    async def roll_back(self, visit: Visit) -> Response:
        """Restore an earlier version of an installed skill."""
        form = visit.form
        report = await self._installed.roll_back(
            form.get("scope", ""), form.get("name", ""), form.get("to", "")
        )
        return self._done(visit, _report_notice(report))

    async def sync(self, visit: Visit) -> Response:
        """Make the folders match the lock, with what the form was shown with."""
        accepted = visit.form.get("accepted", "").split()
        report = await self._installed.sync(visit.form.get("scope", ""), accepted)
        return self._done(visit, _report_notice(report))

    def _done(self, visit: Visit, notice: Notice) -> Response:
        self._live.changed()
        visit.session.notice = notice
        return visit.redirect(visit.back)


def _named(visit: Visit) -> tuple[str, str]:
    """The skill that a form is about: its origin and its URI."""
    label, uri = visit.form.get("on", ""), visit.form.get("uri", "")
    if not label or not uri:
        raise SkillNotFound("the form names no skill: open the page again")
    return label, uri


def _grants(visit: Visit) -> Grants:
    """Return the grants of a form's boxes."""
    return Grants(
        allowed_tools=bool(visit.form.get("allow_tools")), execute_code=bool(visit.form.get("allow_code"))
    )


def _report_notice(report: InstallReport) -> Notice:
    """Return what happened to installed skills, in one line."""
    parts = [
        f"{words}: {', '.join(names)}."
        for words, names in (
            ("Installed", report.installed),
            ("Updated", report.updated),
            ("Removed", report.removed),
            ("As pinned", report.current if not (report.installed or report.updated) else ()),
        )
        if names
    ]
    parts += [f"{step.name}: {step.act.words}, left unchanged." for step in report.stopped]
    parts += [f"Not installed: {failure.error}" for failure in (*report.refused, *report.failures)]
    return Notice(" ".join(parts) or "There was nothing to do.", is_problem=not report.is_whole)
