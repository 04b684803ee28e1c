"""What `list` and `show` print: skills as rows, as pages and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from skillwire.catalog.registry import RegisteredSkill
from skillwire.cli.output import counted, human_size, printable
from skillwire.cli.screen import Screen, cut, origin_words, padded
from skillwire.host.approvals.status import ApprovalStatus, State
from skillwire.host.events import Event, EventKind
from skillwire.host.review import SkillReview
from skillwire.json_types import JsonValue
from skillwire.skill.entries import DYNAMIC, NO_SIZE
from skillwire.skill.uris import path_below, skill_root
from skillwire.text import safe_line
from skillwire.trust.paths import shown_path
from skillwire.trust.signatures import SignatureVerdict

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost
    from skillwire.host.state import ServerState
    from skillwire.host.templates import ServedTemplate

_STYLES: Final = {
    State.LOCAL: "dim",
    State.APPROVED: "green",
    State.ALWAYS: "green",
    State.NEW: "yellow",
    State.DYNAMIC: "yellow",
    State.CHANGED: "bold yellow",
    State.SIGNER: "bold yellow",
    State.NEVER: "red",
    State.REFUSED: "red",
    State.DECLINED: "red",
    State.UNUSABLE: "red",
}
_LEAST_DESCRIPTION: Final = 36
_PROBLEMS: Final = (EventKind.FAILURE, EventKind.COLLISION, EventKind.REVOKED, EventKind.REMARK)
_SHORT_DIGEST: Final = len("sha256:") + 12
_FIELD_SHOWN: Final = 2000


@dataclass(frozen=True, slots=True)
class SkillRow:
    """A skill with its approval status."""

    skill: RegisteredSkill
    status: ApprovalStatus
    tag: str = ""
    """How the host's style marks where it comes from, if it does."""
    signature: SignatureVerdict | None = None
    """Who signed it, if requested."""

    @property
    def remarks(self) -> str:
        """The state, and the draft that its server uses if that is not the final extension."""
        dialect = self.skill.entry.dialect
        state = self.status.state.value if self.skill.enabled else "disabled"
        short = "" if self.skill.origin.is_local else dialect.short
        parts = (state, short, str(self.signature) if self.signature is not None else "")
        return ", ".join(part for part in parts if part)


def show_list(
    screen: Screen,
    rows: Sequence[SkillRow],
    events: Iterable[Event],
    templates: Sequence[ServedTemplate] = (),
) -> None:
    """A table of skills and one of templates, and below them what went wrong."""
    if rows:
        _show_table(screen, rows)
    if templates:
        from skillwire.cli.template_view import show_templates

        if rows:
            screen.line()
        show_templates(screen, templates)
    problems = [event for event in events if event.kind in _PROBLEMS]
    refused = [row for row in rows if row.status.state in (State.REFUSED, State.SIGNER)]
    if problems or refused:
        screen.line()
        for row in refused:
            words = row.status.problem or f"it {row.status.signer_change}"
            title = "refused" if row.status.state is State.REFUSED else "signer"
            screen.hanging(padded(title, 9), f"{row.skill.handle}: {printable(words)}", style="red")
        for event in problems:
            style = "red" if event.kind is EventKind.FAILURE else "yellow"
            screen.hanging(padded(event.kind.value, 9), printable(event.message), style=style)


def _show_table(screen: Screen, rows: Sequence[SkillRow]) -> None:
    columns = [
        (
            row.skill.handle,
            row.tag or origin_words(row.skill.origin),
            row.remarks,
            row.skill.entry.description,
        )
        for row in rows
    ]
    titles = ("NAME", "FROM", "APPROVAL", "DESCRIPTION")
    widths = [max(cell_len(line[column]) for line in (titles, *columns)) for column in range(3)]
    left = screen.width - sum(widths) - 6
    beside = left >= _LEAST_DESCRIPTION
    heads = [padded(title, width) for title, width in zip(titles, widths, strict=False)]
    screen.line(("  ".join([*heads, titles[3]] if beside else heads).rstrip(), "bold"))
    for row, (handle, origin, remarks, description) in zip(rows, columns, strict=True):
        parts: list[str | tuple[str, str]] = [
            (padded(handle, widths[0]), "bold" if row.skill.enabled else "dim"),
            "  ",
            (padded(origin, widths[1]), "" if row.skill.origin.is_local else "cyan"),
            "  ",
            (padded(remarks, widths[2]) if beside else remarks, _STYLES[row.status.state]),
        ]
        if beside:
            screen.line(*parts, "  ", cut(description, left))
        else:
            # Too narrow for a fourth column: the description has the line below to itself.
            screen.line(*parts)
            screen.line("  ", (cut(description, screen.width - 2), "dim"))


def show_skill(screen: Screen, row: SkillRow, place: str, listed: Sequence[str] = ()) -> None:
    """One skill: where it comes from, whether it is approved, its description, and its files.

    `listed` are the supporting files that its server lists, where its entry does not.
    """
    skill, entry = row.skill, row.skill.entry
    screen.line((skill.handle, "bold"))
    screen.pairs(
        [
            ("from", f"{origin_words(skill.origin)} ({place})" if place else origin_words(skill.origin)),
            ("uri", printable(skill.uri)),
            ("protocol", "" if skill.origin.is_local else entry.dialect.meaning),
            ("approval", SkillReview(row.skill, row.status).sentence),
            ("signature", printable(str(row.signature)) if row.signature is not None else ""),
            *(("differs", printable(path)) for path in (row.signature.differing if row.signature else ())),
            ("signer", f"changed: it {printable(change)}" if (change := row.status.signer_change) else ""),
            ("note", _doubts(row)),
        ]
    )
    screen.line()
    screen.line(("Frontmatter", "bold"))
    screen.pairs((safe_line(key, limit=40), _field(value)) for key, value in entry.frontmatter.items())
    screen.line()
    if entry.resources is DYNAMIC:
        screen.line(("Files", "bold"), " no digests: its server lists none")
        for path in listed:
            screen.line("  ", shown_path(path))
        return
    size = human_size(entry.total_size)
    screen.line(("Files", "bold"), f" {counted(len(entry.resources), 'file')}, {size}")
    root = skill_root(entry.uri)
    paths = [shown_path("/".join(path_below(resource.uri, root))) for resource in entry.resources]
    widest = min(max(cell_len(path) for path in paths), max(screen.width - 40, 20))
    for path, resource in zip(paths, entry.resources, strict=True):
        size = "no size" if resource.size == NO_SIZE else human_size(resource.size)
        digest = resource.digest[:_SHORT_DIGEST] + "…"
        screen.line("  ", padded(path, widest), f"  {size:>9}  ", (digest, "dim"))


def skill_json(row: SkillRow) -> dict[str, object]:
    """A skill as a document; fields may be added, none changes its meaning."""
    skill, status = row.skill, row.status
    entry = skill.entry
    files = None if entry.resources is DYNAMIC else len(entry.resources)
    return {
        "handle": skill.handle,
        "name": entry.name,
        "description": entry.description,
        "origin": {"kind": skill.origin.kind.value, "label": skill.origin.label},
        "uri": skill.uri,
        "dialect": None if skill.origin.is_local else entry.dialect.value,
        "enabled": skill.enabled,
        "listed": skill.listed,
        "approval": {
            "state": status.state.name.lower(),
            "policy": None if skill.origin.is_local else status.policy.value,
            "nested": status.nested,
            "allowed_tools": status.grants.allowed_tools,
            "execute_code": status.grants.execute_code,
            "problem": status.problem or None,
            "signer_change": status.signer_change or None,
            "changes": [{"uri": change.uri, "kind": change.kind.value} for change in status.changes],
        },
        "signature": row.signature.as_json() if row.signature is not None else None,
        "file_count": files,
        "bytes": None if files is None else entry.total_size,
    }


def files_json(row: SkillRow) -> list[dict[str, object]] | None:
    entry = row.skill.entry
    if entry.resources is DYNAMIC:
        return None
    root = skill_root(entry.uri)
    return [
        {
            "path": "/".join(path_below(resource.uri, root)),
            "uri": resource.uri,
            "size": None if resource.size == NO_SIZE else resource.size,
            "digest": resource.digest,
        }
        for resource in entry.resources
    ]


def server_json(server: ServerState) -> dict[str, object]:
    return {
        "label": server.label,
        "place": server.place,
        "status": server.status.value,
        "reason": server.reason or None,
        "protocol": server.era or None,
        "era": server.era or None,
        "dialects": [dialect.value for dialect in server.dialects],
        "policy": server.policy.value,
        "cached": server.cached,
    }


def event_json(event: Event) -> dict[str, object]:
    return {
        "kind": event.kind.value,
        "origin": event.origin.label if event.origin else None,
        "message": event.message,
    }


def problem_events(host: SkillHost) -> list[Event]:
    """Everything that is wrong now, and every name that several skills have."""
    told = {failure.message for failure in host.log.failures()} | {
        left.message for left in host.log.left_out()
    }
    others = [
        event
        for event in host.log.events_so_far()
        if event.kind in _PROBLEMS and event.kind is not EventKind.FAILURE and event.message not in told
    ]
    return [
        *(
            Event(kind=EventKind.FAILURE, message=failure.message, origin=failure.origin)
            for failure in host.log.failures()
        ),
        *(
            Event(kind=EventKind.REMARK, message=left.message, origin=left.origin)
            for left in host.log.left_out()
        ),
        *others,
    ]


def problems_json(events: Iterable[Event]) -> list[dict[str, object]]:
    return [event_json(event) for event in events if event.kind in _PROBLEMS]


def _doubts(row: SkillRow) -> str:
    """What is uncertain about a skill of an older dialect."""
    draft = row.skill.entry.draft
    if draft is None:
        return ""
    doubts: list[str] = []
    resources = row.skill.entry.resources
    if resources is not DYNAMIC and any(file.size == NO_SIZE for file in resources):
        doubts.append("its entry has no file sizes, as in drafts of the extension: only digests are checked")
    if not draft.confirmed:
        doubts.append("the server does not call it a skill; only its URI looks like one")
    if row.skill.entry.resources is DYNAMIC:
        doubts.append("its list of files is not complete, so an approval covers those that you saw")
    return "; ".join(doubts)


def _field(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return safe_line(text, limit=_FIELD_SHOWN) or "(empty)"
