"""Pages: what each address shows. Nothing here changes anything."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from anyio import to_thread
from starlette.responses import Response

from skillwire.consent import State
from skillwire.documents import is_object
from skillwire.errors import SkillNotFound, SkillwireError
from skillwire.host import ConnectionStatus
from skillwire.install import LockedFile, acceptance_key
from skillwire.skill import SKILL_FILE, parse_digest
from skillwire.text import safe_line
from skillwire.ui.code import LINE_CHARS, Part, reveal, show_text
from skillwire.ui.diff import show_comparison
from skillwire.ui.items import Filter, PageLinks, SkillItem, address, file_tree, paged
from skillwire.ui.rendering import MOST_CHARS, render_markdown
from skillwire.ui.scans import scan_rows
from skillwire.words import human_size

if TYPE_CHECKING:
    from markupsafe import Markup

    from skillwire.catalog import HostSkill
    from skillwire.consent import Decision
    from skillwire.host import FileComparison, ServerState, SkillHost
    from skillwire.skill import SkillEntry
    from skillwire.trust import VerifiedFile
    from skillwire.ui.access import Visit
    from skillwire.ui.installed import InstalledSkill, InstalledSkills
    from skillwire.ui.items import Overview
    from skillwire.ui.rendering import Layout

_INBOX_ROWS: Final = 25
_LIST_ROWS: Final = 50
_FILE_ROWS: Final = 200
_FIELD_CHARS: Final = 2_000
_GROUPS: Final = (
    (State.CHANGED, "Changed", "their files, or who signed them, since you approved them"),
    (State.NOT_APPROVED, "Not approved", "not decided yet"),
)


class Pages:
    """The pages of one host."""

    def __init__(
        self,
        host: SkillHost,
        overview: Overview,
        installed: InstalledSkills,
        layout: Layout,
        *,
        figures: Callable[[SkillHost, HostSkill], Awaitable[object | None]] | None = None,
        audit_log: Path | None = None,
    ) -> None:
        self._host, self._overview, self._installed, self._layout = host, overview, installed, layout
        self._figures = figures
        self._audit_log = audit_log

    async def inbox(self, visit: Visit) -> Response:
        """Show what needs a decision."""
        await self._overview.prepare()
        chosen = visit.query("from")
        page = paged(self._overview.waiting(chosen), visit.number("page"), _INBOX_ROWS)
        await self._overview.request_texts(page.rows)
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
            not_yet=self._overview.not_yet_waiting(),
            origin_href=PageLinks("/", {}, "from"),
            page_href=PageLinks("/", {"from": chosen}),
        )

    async def skills(self, visit: Visit) -> Response:
        """Every known skill."""
        await self._overview.prepare()
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
            states=[(state.value, state.value) for state in self._overview.states()],
            signers=self._overview.signers(),
            page_href=PageLinks(
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
        if file is not None and item.scans is not None:
            visit.session.note_opened(item.digest)
        line, column = visit.number("line"), visit.number("column", 0)
        view = await to_thread.run_sync(
            lambda: _file_view(item, file, root=visit.session.root, first=line, column=column)
        )
        files = paged(item.files, visit.number("files"), _FILE_ROWS)
        path = file.path if file else wanted
        history = await self._host.decide.history(item.review.skill, caller=visit.caller)
        servers = {state.label: state for state in self._host.places.servers()}
        server = None if item.review.skill.origin.is_local else servers.get(item.label)
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
            files_href=PageLinks("/skill", {**item.key, "file": path}, "files"),
            part_href=PageLinks("/skill", {**item.key, "file": path}, "line"),
            column_href=address(
                "/skill", {**item.key, "file": path, "line": line, "column": column + LINE_CHARS}
            ),
            place=server.place if server is not None else "",
            known=known_since(server, entry) if server is not None else "",
            dialect="" if item.review.skill.origin.is_local else entry.dialect.meaning,
            history=[_decision_view(decision) for decision in history],
            figures=await self._figures(self._host, item.review.skill) if self._figures else None,
            installed=[
                _installed_view(scope, one, item)
                for scope, one in (() if visit.session.only else await self._installed.of(item.review))
            ],
            **view,
        )

    async def diff(self, visit: Visit) -> Response:
        """Show what changed in a skill since it was approved, or since a stored version."""
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
            comparison = await self._host.decide.compare(item.review)
        else:
            raise SkillNotFound(f"{item.handle} was never approved: there is nothing to compare with")
        files = await to_thread.run_sync(lambda: show_comparison(comparison, split=split))
        if item.scans is not None:
            visit.session.note_opened(item.digest)
        query: dict[str, str | int] = {**item.key, "with": chosen}
        return self._layout.render(
            visit,
            "diff.html",
            "Inbox" if item.review.waits else "Skills",
            item=item,
            known="",
            split=split,
            files=files,
            versions=versions,
            chosen=chosen,
            compared_words=dict(versions).get(chosen, "that version"),
            view_href=PageLinks("/diff", query, "view"),
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
        skill = next(
            (one for one in self._host.skills(disabled=True) if (one.uri, one.origin.label) == (uri, label)),
            None,
        ) or await self._host.find(uri, server=label or None)
        self._host.following.show(skill)
        # First who signed it: what its approval status is depends on that.
        await self._host.signatures.check(skill)
        review = self._host.decide.review(skill, caller=visit.caller)
        if review.waits:
            await self._overview.request_texts([review])
        await self._overview.scans.request(review)
        review = self._host.decide.review(skill, caller=visit.caller)
        return self._overview.item(review, visit.caller)

    async def _read(self, item: SkillItem, path: str) -> tuple[VerifiedFile | None, str]:
        """A verified file to show, or why it cannot be shown."""
        try:
            return await self._host.files.preview(item.uri, path, server=item.label), ""
        except SkillNotFound:
            raise
        except SkillwireError as error:
            return None, str(error)

    async def servers(self, visit: Visit) -> Response:
        """Every server and directory: whether it works, its protocol, and what is wrong with it."""
        counts = Counter(review.skill.origin for review in self._overview.reviews())
        waiting = dict(self._overview.waiting_by_origin())
        left_out: dict[object, list[str]] = {}
        for problem in self._host.log.left_out():
            left_out.setdefault(problem.origin, []).append(problem.message)
        states = self._host.places.servers()
        known = {state.origin for state in states}
        directories = sorted({*counts, *(problem.origin for problem in self._host.log.left_out())} - known)
        return self._layout.render(
            visit,
            "servers.html",
            "Servers",
            servers=[
                _server(
                    state, counts[state.origin], waiting.get(state.label, 0), left_out.get(state.origin, [])
                )
                for state in states
            ],
            directories=[
                {
                    "label": origin.label,
                    "kind": "project directory" if not origin.is_own else "your own directory",
                    "count": counts[origin],
                    "href": address("/skills", {"from": origin.label}),
                    "left_out": left_out.get(origin, []),
                }
                for origin in directories
            ],
            problems=[
                failure.message for failure in self._host.log.failures() if failure.origin not in known
            ],
        )

    async def installed(self, visit: Visit) -> Response:
        """Show the pinned skills, their state on disk, and what their sources have."""
        scopes = await self._installed.scopes()
        return self._layout.render(
            visit,
            "installed.html",
            "Installed",
            scopes=[
                {
                    "name": scope.name,
                    "lock_file": scope.lock_file,
                    "problem": scope.problem,
                    "in_sync": scope.in_sync,
                    "unaccepted": scope.unaccepted,
                    "accepted": " ".join(acceptance_key(skill) for skill in scope.unaccepted),
                    "skills": scope.skills,
                }
                for scope in scopes
            ],
            update_href=lambda scope, name: address("/installed/update", {"scope": scope, "name": name}),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        )

    async def update(self, visit: Visit) -> Response:
        """Show what the source of an installed skill has now, before it is installed."""
        scope, name = visit.query("scope"), visit.query("name")
        update = await self._installed.propose(scope, name)
        files = await to_thread.run_sync(
            lambda: show_comparison(update.comparison if update else (), split=False)
        )
        return self._layout.render(
            visit,
            "update.html",
            "Installed",
            scope=scope,
            name=name,
            update=update,
            skill=update.candidate.skill if update else None,
            scan_rows=scan_rows(update.candidate.scans) if update else (),
            files=files,
        )

    async def audit(self, visit: Visit) -> Response:
        """Show what a gateway did for its callers, the latest first."""
        rows = await to_thread.run_sync(read_audit, self._audit_log) if self._audit_log else []
        query = visit.query("q").strip().casefold()
        if query:
            rows = [row for row in rows if query in json.dumps(row, ensure_ascii=False).casefold()]
        page = paged(rows, visit.number("page"), _AUDIT_ROWS)
        return self._layout.render(
            visit,
            "audit.html",
            "Audit",
            log=str(self._audit_log or ""),
            page=page,
            rows=[_audit_row(row) for row in page.rows],
            query=visit.query("q"),
            page_href=PageLinks("/audit", {"q": visit.query("q")}),
        )


def _file_view(
    item: SkillItem, file: VerifiedFile | None, *, root: str, first: int, column: int
) -> dict[str, Any]:
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
                link=lambda path: root + item.file_href(path),
            )
    return {"part": part, "rendered": rendered, "hidden": part.hidden if part else 0}


def known_since(server: ServerState, entry: SkillEntry | None = None) -> str:
    """Since when what is shown of a server is known to be so, in words."""
    if server.listed_at is None:
        return "not listed yet"
    words = f"as of {server.listed_at:%H:%M:%S} UTC"
    if entry is not None and entry.is_dynamic:
        return f"{words}, checked when loaded"
    again = f"listed again every {server.list_seconds:,.0f} s"
    return f"{words}, {again}" + (", and the server tells of changes" if server.notifies else "")


def _field(value: object) -> Markup | str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return reveal(text[:_FIELD_CHARS]) + ("…" if len(text) > _FIELD_CHARS else "") if text else "(empty)"


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


_TONES: Final = {
    ConnectionStatus.READY: "ok",
    ConnectionStatus.FAILED: "bad",
    ConnectionStatus.CONNECTING: "wait",
}
_AUDIT_BYTES: Final = 2 * 1024 * 1024
"""How much of the end of an audit log is read."""
_AUDIT_ROWS: Final = 100


def read_audit(path: Path) -> list[dict[str, Any]]:
    """The entries of an audit log, the latest first; of a long one, those at its end."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(size - _AUDIT_BYTES, 0))
            lines = stream.read(_AUDIT_BYTES).split(b"\n")
    except OSError:
        return []
    if size > _AUDIT_BYTES:
        lines = lines[1:]  # It begins in the middle of a line.
    rows: list[dict[str, Any]] = []
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if is_object(row):
            rows.append(cast("dict[str, Any]", row))
    return rows


def _audit_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """An entry with the fields that have a column of their own, and the rest as words."""
    known = {name: _words(row.get(name)) for name in ("time", "act", "caller", "origin", "skill")}
    rest = [
        f"{name}: {_words(value)}"
        for name, value in row.items()
        if name not in known and value not in (None, "")
    ]
    return {**known, "rest": rest}


def _words(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _server(state: ServerState, count: int, waiting: int, left_out: list[str]) -> dict[str, Any]:
    return {
        "label": state.label,
        "place": state.place,
        "status": state.status.value,
        "tone": _TONES.get(state.status, ""),
        "failed": state.status is ConnectionStatus.FAILED,
        "reason": state.reason,
        "count": count,
        "waiting": waiting,
        "dialects": ", ".join(dialect.meaning for dialect in state.dialects),
        "era": state.era,
        "approval_mode": state.approval_mode.value,
        "cached": state.cached,
        "known": known_since(state),
        "output": state.last_output,
        "left_out": left_out,
        "href": address("/skills", {"from": state.label}),
        "inbox_href": address("/", {"from": state.label}),
    }
