"""Pages: what each address shows. Nothing here changes anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread
from starlette.responses import Response

from skillwire.errors import SkillNotFound, SkillwireError
from skillwire.host.approvals.status import State
from skillwire.install.lock import LockedFile
from skillwire.skill.digests import parse_digest
from skillwire.skill.uris import SKILL_FILE
from skillwire.text import safe_line
from skillwire.ui.code import LINE_CHARS, Part, show_text
from skillwire.ui.comparing import show_comparison
from skillwire.ui.items import Address, SkillItem, address
from skillwire.ui.markdown import MOST_CHARS, render_markdown
from skillwire.ui.overview import Filter, paged
from skillwire.ui.tree import file_tree
from skillwire.words import human_size

if TYPE_CHECKING:
    from markupsafe import Markup

    from skillwire.host.approvals.schema import Decision
    from skillwire.host.host import SkillHost
    from skillwire.host.review import FileComparison
    from skillwire.trust.verify import VerifiedFile
    from skillwire.ui.installed import InstalledSkill, InstalledSkills
    from skillwire.ui.overview import Overview
    from skillwire.ui.rendering import Layout
    from skillwire.ui.visit import Visit

_INBOX_ROWS: Final = 25
_LIST_ROWS: Final = 50
_FILE_ROWS: Final = 200
_FIELD_CHARS: Final = 2_000
_STATE_WORDS: Final = {State.NEW: "new"}
_GROUPS: Final = (
    (State.SIGNER, "Signer changed", "another publisher signed them, or none did"),
    (State.CHANGED, "Changed", "since you approved them"),
    (State.NEW, "New", "not decided yet"),
)


class Pages:
    """The pages of one host."""

    def __init__(
        self, host: SkillHost, overview: Overview, installed: InstalledSkills, layout: Layout
    ) -> None:
        self._host = host
        self._overview = overview
        self._installed = installed
        self._layout = layout

    async def inbox(self, visit: Visit) -> Response:
        """What needs a decision."""
        chosen = visit.query("from")
        page = paged(self._overview.waiting(chosen), visit.number("page"), _INBOX_ROWS)
        rows = [self._overview.item(review) for review in page.rows]
        asked = [row for row in rows if row.asked_by]
        groups: list[dict[str, Any]] = [
            {"title": "Asked for", "about": "callers of the gateway wait for them", "rows": asked}
        ]
        groups += [
            {
                "title": title,
                "about": about,
                "rows": [row for row in rows if row.review.status.state is state and not row.asked_by],
            }
            for state, title, about in _GROUPS
        ]
        return self._layout.render(
            visit,
            "inbox.html",
            "Inbox",
            page=page,
            groups=[group for group in groups if group["rows"]],
            origins=self._overview.waiting_by_origin(),
            chosen=chosen,
            page_href=Address("/", {"from": chosen}),
        )

    async def skills(self, visit: Visit) -> Response:
        """Every known skill."""
        wanted = Filter(
            visit.query("q")[:500], visit.query("from"), visit.query("state"), visit.query("signer")
        )
        found = await self._overview.find(wanted)
        page = paged(found, visit.number("page"), _LIST_ROWS)
        return self._layout.render(
            visit,
            "skills.html",
            "Skills",
            filter=wanted,
            page=page,
            rows=[self._overview.item(review) for review in page.rows],
            origins=self._overview.origins(),
            states=[
                (state.name.lower(), _STATE_WORDS.get(state, state.value))
                for state in self._overview.states()
            ],
            signers=self._overview.signers(),
            page_href=Address(
                "/skills",
                {
                    "q": wanted.query,
                    "from": wanted.origin,
                    "state": wanted.state,
                    "signer": wanted.signer,
                },
            ),
        )

    async def skill(self, visit: Visit) -> Response:
        """One skill: its text, its files, what it asks for, and the form for a decision."""
        item = await self.item(visit)
        wanted = visit.query("file") or SKILL_FILE
        file, problem = await self._read(item, wanted)
        line, column = visit.number("line"), visit.number("column", 0)
        view = await to_thread.run_sync(lambda: _file_view(item, file, first=line, column=column))
        files = paged(item.files, visit.number("files"), _FILE_ROWS)
        path = file.path if file else wanted
        history = await self._host.admin.history(item.review.skill, caller=visit.caller)
        place = {state.label: state.place for state in self._host.admin.servers()}.get(item.label, "")
        entry = item.review.skill.entry
        return self._layout.render(
            visit,
            "skill.html",
            "Skills",
            item=item,
            problem=problem,
            file_path=path,
            file_words=human_size(file.size) if file else "",
            file_digest=file.digest if file else "",
            frontmatter=[
                (safe_line(key, limit=60), _field(value)) for key, value in entry.frontmatter.items()
            ],
            files=files,
            tree=file_tree(item.files, files.rows, path),
            files_href=Address("/skill", {**item.key, "file": path}, "files"),
            part_href=Address("/skill", {**item.key, "file": path}, "line"),
            column_href=address(
                "/skill", {**item.key, "file": path, "line": line, "column": column + LINE_CHARS}
            ),
            place="" if item.review.skill.origin.is_local else place,
            dialect="" if item.review.skill.origin.is_local else entry.dialect.meaning,
            history=[_decision_view(decision) for decision in history],
            installed=[
                _installed_view(scope, one, item)
                for scope, one in (() if visit.session.only else await self._installed.of(item.review))
            ],
            **view,
        )

    async def diff(self, visit: Visit) -> Response:
        """What changed in a skill since it was approved, or since a stored version."""
        item = await self.item(visit)
        split = visit.query("view") != "unified"
        chosen = visit.query("with")
        kept = [
            (version.digest, f"installed {version.at[:16].replace('T', ' ')} · {version.digest[7:15]}")
            for _, one in await self._installed.of(item.review)
            for version in reversed(one.versions)
        ]
        has_approval = item.review.status.approved is not None
        versions = [*([("", "what you approved")] if has_approval else []), *kept]
        if not chosen and not has_approval and kept:
            chosen = kept[0][0]
        if chosen:
            comparison = await self._compare_with_kept(item, chosen)
        elif has_approval:
            comparison = await self._host.admin.compare(item.review)
        else:
            raise SkillNotFound(f"{item.handle} was never approved: there is nothing to compare with")
        files = await to_thread.run_sync(lambda: show_comparison(comparison, split=split))
        query: dict[str, str | int] = {**item.key, "with": chosen}
        return self._layout.render(
            visit,
            "diff.html",
            "Inbox" if item.review.waits else "Skills",
            item=item,
            split=split,
            files=files,
            versions=versions,
            chosen=chosen,
            compared_words=dict(versions).get(chosen, "that version"),
            view_href=Address("/diff", query, "view"),
        )

    async def _compare_with_kept(self, item: SkillItem, digest: str) -> tuple[FileComparison, ...]:
        """Compare with a stored version. Only the files that differ are read."""
        kept = {
            file.path: file.digest
            for _, one in await self._installed.of(item.review)
            for version in one.versions
            if version.digest == digest
            for file in version.skill.files
        }
        current: dict[str, bytes] = {}
        for file in item.files:
            if kept.get(file.real_path) != file.digest:
                read, _ = await self._read(item, file.real_path)
                current |= {file.real_path: read.data} if read else {}
        listed = [
            LockedFile(path=file.real_path, digest=parse_digest(file.digest), size=file.bytes)
            for file in item.files
        ]
        return await self._installed.compare_with(item.review, digest, current, listed)

    async def item(self, visit: Visit) -> SkillItem:
        """The skill that an address names, as it is now."""
        label, uri = visit.query("on"), visit.query("uri")
        if visit.caller:
            skill = await self._host.find(uri, server=label)
            review = self._host.admin.review(skill, caller=visit.caller)
            return SkillItem(review, await self._host.admin.signature(skill))
        for review in self._overview.reviews():
            if review.skill.uri == uri and review.skill.origin.label == label:
                return SkillItem(review, await self._host.admin.signature(review.skill))
        skill = await self._host.find(uri, server=label or None)
        return SkillItem(self._host.admin.review(skill), await self._host.admin.signature(skill))

    async def _read(self, item: SkillItem, path: str) -> tuple[VerifiedFile | None, str]:
        """A verified file to show, or why it cannot be shown."""
        try:
            return await self._host.admin.preview(item.uri, path, server=item.label), ""
        except SkillNotFound:
            raise
        except SkillwireError as error:
            return None, str(error)


def _file_view(item: SkillItem, file: VerifiedFile | None, *, first: int, column: int) -> dict[str, Any]:
    """A file as raw text, and rendered if it is Markdown."""
    text = file.text if file else None
    part: Part | None = None
    rendered: Markup | None = None
    if file is not None and text is not None:
        part = show_text(text, file.path, first=first, line_from=column)
        if file.path.lower().endswith((".md", ".markdown")) and len(text) <= MOST_CHARS:
            rendered = render_markdown(
                text,
                folder=file.path.rpartition("/")[0],
                files={one.real_path for one in item.files},
                link=item.file_href,
            )
    return {"part": part, "rendered": rendered, "hidden": part.hidden if part else 0}


def _field(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return safe_line(text, limit=_FIELD_CHARS) or "(empty)"


def _installed_view(scope: str, one: InstalledSkill, item: SkillItem) -> dict[str, object]:
    same = "this version" if one.skill.digest == item.digest else f"another version, {one.skill.digest[:19]}…"
    return {"scope": scope, "words": f"{same}, {one.act.words}", "places": [str(path) for path in one.places]}


def _decision_view(decision: Decision) -> dict[str, str]:
    moment = decision.decided_at.replace("T", " ")[:16]
    how = f"{decision.decided_how}, granted: {decision.grants}" if decision.grants else decision.decided_how
    return {
        "what": decision.decision,
        "when": f"{moment} UTC" if moment else "",
        "by": decision.decided_by,
        "how": how,
        "digest": f"{decision.digest[:19]}…" if decision.digest else "",
    }
