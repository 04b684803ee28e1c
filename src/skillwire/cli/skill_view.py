"""Output of `list` and `show`: skills and templates as rows, pages and JSON, and what changed in a skill."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len

from skillwire.catalog import HostSkill
from skillwire.cli.output import (
    Screen,
    columns_of,
    counted,
    cut,
    human_size,
    origin_words,
    padded,
    printable,
    scan_rows,
    show_json,
)
from skillwire.consent import ApprovalStatus, State
from skillwire.documents import JsonValue
from skillwire.host import Event, EventKind, SkillReview
from skillwire.skill import DYNAMIC, NO_SIZE, path_below, skill_root
from skillwire.text import clean_text, safe_line
from skillwire.trust import ChangeKind, Scan, SignatureVerdict, shown_path

if TYPE_CHECKING:
    from skillwire.host import ServedTemplate, ServerState, SkillHost, Usage

_STYLES: Final = {
    State.OWN: "dim",
    State.APPROVED: "green",
    State.ALLOWED: "green",
    State.NOT_APPROVED: "yellow",
    State.CHANGED: "bold yellow",
    State.DECLINED: "red",
    State.REFUSED: "red",
}
_LEAST_DESCRIPTION: Final = 36
_PROBLEMS: Final = (EventKind.FAILURE, EventKind.COLLISION, EventKind.REVOKED, EventKind.REMARK)
_SHORT_DIGEST: Final = len("sha256:") + 12
_FIELD_SHOWN: Final = 2000
_VALUES_SHOWN: Final = 20
_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}
_LABELS: Final = ("approved", "now")


@dataclass(frozen=True, slots=True)
class SkillRow:
    """A skill with its approval status."""

    skill: HostSkill
    status: ApprovalStatus
    tag: str = ""
    """How the host's style marks where it comes from, if it does."""
    signature: SignatureVerdict | None = None
    """Who signed it, if requested."""
    scans: tuple[Scan, ...] = ()
    """The findings of the scanners of the policy, if requested."""
    also_on: tuple[str, ...] = ()
    """Where the same files are under the same name."""

    @property
    def remarks(self) -> str:
        """The state, and the draft that its server uses if that is not the final extension."""
        draft = self.skill.entry.draft
        if draft is None and self.skill.enabled and self.signature is None:
            return self.status.words
        disabled = "" if self.skill.enabled else "disabled"
        short = "" if self.skill.origin.is_local or draft is None else draft.dialect.short
        signature = str(self.signature) if self.signature is not None else ""
        parts = (self.status.words, disabled, short, signature)
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
        if rows:
            screen.line()
        show_templates(screen, templates)
    problems = [event for event in events if event.kind in _PROBLEMS]
    refused = [row for row in rows if row.status.problem or row.status.signer_change]
    if problems or refused:
        screen.line()
        for row in refused:
            words = row.status.problem or f"it {row.status.signer_change}"
            title = "refused" if row.status.problem else "signer"
            screen.hanging(padded(title, 9), f"{row.skill.handle}: {printable(words)}", style="red")
        for event in problems:
            style = "red" if event.kind is EventKind.FAILURE else "yellow"
            screen.hanging(padded(event.kind.value, 9), printable(event.message), style=style)


def _place(row: SkillRow) -> str:
    place = row.tag or origin_words(row.skill.origin)
    return f"{place}, also on {', '.join(map(printable, row.also_on))}" if row.also_on else place


def _show_table(screen: Screen, rows: Sequence[SkillRow]) -> None:
    columns = [
        (
            row.skill.handle,
            _place(row),
            row.remarks,
            row.skill.entry.description,
        )
        for row in rows
    ]
    titles = ("NAME", "FROM", "APPROVAL", "DESCRIPTION")
    widths = [max(map(columns_of, {*column})) for column in [*zip(titles, *columns, strict=True)][:3]]
    left = screen.width - sum(widths) - 6
    beside = left >= _LEAST_DESCRIPTION
    heads = [padded(title, width) for title, width in zip(titles, widths, strict=False)]
    lines = [screen.styled(("  ".join([*heads, titles[3]] if beside else heads).rstrip(), "bold"))]

    @cache
    def place_and_state(origin: str, color: str, remarks: str, style: str) -> str:
        state = padded(remarks, widths[2]) if beside else remarks
        return screen.styled("  ", (padded(origin, widths[1]), color), "  ", (state, style))

    for row, (handle, origin, remarks, description) in zip(rows, columns, strict=True):
        name = screen.styled((padded(handle, widths[0]), "bold" if row.skill.enabled else "dim"))
        color = "" if row.skill.origin.is_local else "cyan"
        line = name + place_and_state(origin, color, remarks, _STYLES[row.status.state])
        if beside:
            lines.append(f"{line}  {cut(description, left)}")
        else:
            # Too narrow for a fourth column: the description has the line below to itself.
            lines.append(line)
            lines.append(screen.styled("  ", (cut(description, screen.width - 2), "dim")))
    screen.lines(lines)


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
            *scan_rows(row.scans),
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
        "also_on": list(row.also_on),
        "enabled": skill.enabled,
        "listed": skill.listed,
        "approval": {
            "state": status.state.value,
            "reason": status.reason or None,
            "approval_mode": None if skill.origin.is_local else status.approval_mode.value,
            "nested": status.nested,
            "allowed_tools": status.grants.allowed_tools,
            "execute_code": status.grants.execute_code,
            "scripts": [f"{script} {grant}" for script, grant in sorted(status.grants.scripts)],
            "problem": status.problem or None,
            "signer_change": status.signer_change or None,
            "changes": [{"uri": change.uri, "kind": change.kind.value} for change in status.changes],
        },
        "signature": row.signature.as_json() if row.signature is not None else None,
        "scans": [scan.as_json() for scan in row.scans],
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
        "approval_mode": server.approval_mode.value,
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
    """Return what is uncertain about a skill of an older dialect."""
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


def show_templates(screen: Screen, templates: Sequence[ServedTemplate]) -> None:
    """A table: what each is called, where it comes from, what has to be filled in, and what it is for."""
    titles = ("TEMPLATE", "FROM", "ARGUMENTS", "DESCRIPTION")
    rows = [
        (printable(one.name), origin_words(one.origin), ", ".join(one.arguments), one.description)
        for one in templates
    ]
    widths = [max(cell_len(line[column]) for line in (titles, *rows)) for column in range(3)]
    room = max(screen.width - sum(widths) - 6, 20)
    for number, row in enumerate((titles, *rows)):
        cells = [padded(cell, width) for cell, width in zip(row, widths, strict=False)]
        line = "  ".join([*cells, cut(row[3], room)]).rstrip()
        screen.line((line, "" if number else "bold"))


async def show_template(host: SkillHost, name: str, on: str | None, *, as_json: bool) -> None:
    """One template, with the values that its server suggests for each argument."""
    from skillwire.host import find_template

    found = find_template(name, host.places.templates(), on)
    known = {
        argument: await host.places.complete(found.uri_template, argument, server=found.origin.label)
        for argument in found.arguments
    }
    if as_json:
        suggested = {argument: list(values) for argument, values in known.items()}
        show_json({**template_json(found), "suggested": suggested})
        return
    screen = Screen()
    screen.line((printable(found.name), "bold"))
    screen.pairs(
        [
            ("from", origin_words(found.origin)),
            ("template", printable(found.uri_template)),
            ("description", printable(found.description)),
            *((argument, _values(values)) for argument, values in known.items()),
        ]
    )
    screen.line()
    example = " ".join(
        f"--value {argument}={values[0] if values else argument.upper()}"
        for argument, values in known.items()
    )
    screen.line(f"To load one: skillwire load {printable(found.name)!r} {printable(example)}")


def template_json(template: ServedTemplate) -> dict[str, object]:
    """A template as a document."""
    return {
        "name": template.name,
        "template": template.uri_template,
        "description": template.description,
        "arguments": list(template.arguments),
        "origin": {"kind": template.origin.kind.value, "label": template.origin.label},
    }


def _values(values: Sequence[str]) -> str:
    if not values:
        return "any value: its server suggests none"
    more = f" and {len(values) - _VALUES_SHOWN} more" if len(values) > _VALUES_SHOWN else ""
    return f"{', '.join(printable(value) for value in values[:_VALUES_SHOWN])}{more}"


async def show_changes(screen: Screen, host: SkillHost, row: SkillRow) -> None:
    """Every file that changed, with a diff where both sides are text and the old one is in the cache."""
    screen.line()
    screen.line(("Changed since you approved it", "bold"))
    for change in await host.decide.compare(host.decide.review(row.skill)):
        path = shown_path(change.path)
        screen.line("  ", (change.kind.value, "yellow"), f"  {path}")
        if change.kind is not ChangeKind.CHANGED:
            continue
        if change.new is None:
            screen.wrapped(f"its text cannot be shown: {printable(change.problem)}", indent=4, style="dim")
        elif change.old is None:
            screen.wrapped("the approved text is not in the cache: no diff", indent=4, style="dim")
        elif change.old_text is None or change.new_text is None:
            screen.wrapped("binary: no diff", indent=4, style="dim")
        else:
            show_diff(screen, change.old_text, change.new_text, path)


def show_diff(screen: Screen, old: str, new: str, path: str, labels: tuple[str, str] = _LABELS) -> None:
    """Print what changed between two texts, line by line."""
    before, after = (clean_text(text).text.splitlines() for text in (old, new))
    lines = list(unified_diff(before, after, f"{labels[0]}/{path}", f"{labels[1]}/{path}", lineterm=""))
    for line in lines:
        style = "bold" if line.startswith(("+++", "---")) else _DIFF_STYLES.get(line[:1], "")
        screen.quoted(line, style=style)
    if not lines:
        screen.wrapped("the texts differ only in hidden characters or line endings", indent=4, style="dim")


_USES: Final = ("offered", "found", "loaded", "read", "refused")
_MOST_UNUSED: Final = 20


def usage_json(usage: Usage, known: Iterable[tuple[str, str, str, int]]) -> dict[str, Any]:
    """Return what was counted, beside the skills that there are now: origin, URI, name, and characters of
    name and description.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {
        (one.origin, one.uri): {
            "name": one.name,
            "origin": one.origin,
            "uri": one.uri,
            **{kind: getattr(one, kind) for kind in _USES},
            "chars": one.chars,
        }
        for one in usage.skills
    }
    for origin, uri, name, chars in known:
        fresh = {"name": name, "origin": origin, "uri": uri, **dict.fromkeys(_USES, 0), "chars": chars}
        rows.setdefault((safe_line(origin, limit=200), safe_line(uri, limit=1000)), fresh)
    ordered = sorted(
        rows.values(), key=lambda row: (-row["loaded"], -row["found"], row["origin"], row["uri"])
    )
    return {
        "turns": usage.turns,
        "charsPerTurn": round(usage.chars / usage.turns, 1) if usage.turns else None,
        "since": usage.since,
        "skills": ordered,
        "neverUsed": [row["uri"] for row in ordered if not row["loaded"]],
    }


def show_usage(document: Mapping[str, Any]) -> None:
    """Print the counts as a table, then what was never loaded and costs the most."""
    from skillwire.cli.output import write

    turns, rows = document["turns"], document["skills"]
    if turns:
        write(f"{counted(turns, 'turn')}; skills took {document['charsPerTurn']:,.0f} characters of each")
    used = [row for row in rows if row["loaded"] or row["found"] or row["read"] or row["refused"]]
    if used:
        width = max(len(row["name"]) for row in used)
        write(f"{'':<{width}}" + "".join(f"{kind:>9}" for kind in (*_USES, "chars")))
        for row in used:
            numbers = "".join(f"{row[kind]:>9,}" for kind in (*_USES, "chars"))
            write(f"{printable(row['name']):<{width}}{numbers}  {printable(row['origin'])}")
    unused = sorted((row for row in rows if not row["loaded"]), key=lambda row: (-row["chars"], row["uri"]))
    if unused:
        total = sum(row["chars"] for row in unused)
        write(
            f"Never loaded: {counted(len(unused), 'skill')}, {total:,} characters of names and descriptions"
        )
        for row in unused[:_MOST_UNUSED]:
            said = f"offered {row['offered']:,} times" if row["offered"] else "not offered"
            write(
                f"  {printable(row['name'])}  {row['chars']:,} characters, {said}  {printable(row['origin'])}"
            )
        if len(unused) > _MOST_UNUSED:
            write(f"  ... and {len(unused) - _MOST_UNUSED:,} more; --json has them all")
