"""Status pages: servers and directories, installed skills, and what a gateway did."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from anyio import to_thread
from starlette.responses import Response

from skillwire.host.state import Status
from skillwire.install.state import acceptance_key
from skillwire.json_types import is_object
from skillwire.ui.comparing import show_comparison
from skillwire.ui.items import Address, address
from skillwire.ui.overview import paged

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost
    from skillwire.host.state import ServerState
    from skillwire.ui.installed import InstalledSkills
    from skillwire.ui.overview import Overview
    from skillwire.ui.rendering import Layout
    from skillwire.ui.visit import Visit

_TONES: Final = {Status.READY: "ok", Status.FAILED: "bad", Status.CONNECTING: "wait"}
_AUDIT_BYTES: Final = 2 * 1024 * 1024
"""How much of the end of an audit log is read."""
_AUDIT_ROWS: Final = 100


class StatusPages:
    """Pages about where skills come from and where they are installed."""

    def __init__(
        self,
        host: SkillHost,
        overview: Overview,
        installed: InstalledSkills,
        layout: Layout,
        *,
        audit_log: Path | None = None,
    ) -> None:
        self._host = host
        self._overview = overview
        self._installed = installed
        self._layout = layout
        self._audit_log = audit_log

    async def servers(self, visit: Visit) -> Response:
        """Every server and directory: whether it works, its protocol, and what is wrong with it."""
        counts = Counter(review.skill.origin for review in self._overview.reviews())
        waiting = dict(self._overview.waiting_by_origin())
        left_out: dict[object, list[str]] = {}
        for problem in self._host.log.left_out():
            left_out.setdefault(problem.origin, []).append(problem.message)
        states = self._host.admin.servers()
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
        """What is pinned, its state on disk, and what its sources have."""
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
        """What the source of an installed skill has now, before it is installed."""
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
            files=files,
        )

    async def audit(self, visit: Visit) -> Response:
        """What a gateway did for its callers, the latest first."""
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
            page_href=Address("/audit", {"q": visit.query("q")}),
        )


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
        "failed": state.status is Status.FAILED,
        "reason": state.reason,
        "count": count,
        "waiting": waiting,
        "dialects": ", ".join(dialect.meaning for dialect in state.dialects),
        "era": state.era,
        "policy": state.policy.value,
        "cached": state.cached,
        "output": state.last_output,
        "left_out": left_out,
        "href": address("/skills", {"from": state.label}),
        "inbox_href": address("/", {"from": state.label}),
    }
