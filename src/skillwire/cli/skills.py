"""`skillwire list` and `skillwire show`: what skills there are, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, with_host

if TYPE_CHECKING:
    from skillwire.cli.screen import Screen
    from skillwire.cli.skill_view import SkillRow
    from skillwire.host.host import SkillHost

_HINT = (
    "No skills here. Add a server with `skillwire servers add NAME URL`, look for those that other clients "
    "have with `skillwire servers import`, or put skills into .agents/skills."
)


def list_skills(
    *,
    options: HostOptions,
    from_clients: bool,
    disabled: bool,
    as_json: bool,
) -> None:
    """List the skills of your servers and directories."""
    from skillwire.cli.screen import Screen, show_json
    from skillwire.cli.skill_view import (
        SkillRow,
        problem_events,
        problems_json,
        server_json,
        show_list,
        skill_json,
    )
    from skillwire.host.events import EventKind

    settings = options.settings()
    notes: tuple[str, ...] = ()
    if from_clients:
        from skillwire.cli.servers import with_client_servers

        settings, notes = with_client_servers(settings)

    async def action(host: SkillHost) -> None:
        rows = [
            SkillRow(skill, host.admin.status(skill), host.style.tag(skill))
            for skill in host.skills(disabled=disabled)
        ]
        events = problem_events(host)
        if as_json:
            show_json(
                {
                    "skills": [skill_json(row) for row in rows],
                    "servers": [server_json(state) for state in host.servers()],
                    "problems": problems_json(events),
                    "skipped": list(notes),
                }
            )
            return
        screen = Screen()
        show_list(screen, rows, events)
        for note in notes:
            screen.line(("skipped  ", "dim"), "  ", note)
        if not rows and not any(event.kind is EventKind.FAILURE for event in events):
            screen.wrapped(_HINT)

    with_host(options, action, settings=settings)


def show(
    *,
    name: str,
    path: str | None,
    text: bool,
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Show where a skill comes from, its files, and what changed since you approved it."""
    from skillwire.cli.screen import Screen, show_json
    from skillwire.cli.skill_view import SkillRow, files_json, show_skill, skill_json
    from skillwire.host.approvals.status import State
    from skillwire.skill.uris import SKILL_FILE

    async def action(host: SkillHost) -> None:
        skill = await host.find(name, server=on)
        row = SkillRow(skill, host.admin.status(skill))
        wanted = path or (SKILL_FILE if text else None)
        if as_json:
            document = {
                **skill_json(row),
                "frontmatter": dict(skill.entry.frontmatter),
                "files": files_json(row),
            }
            if wanted is not None:
                file = await host.admin.preview(skill.handle, wanted)
                document["shown"] = {"path": file.path, "digest": file.digest, "text": file.text}
            show_json(document)
            return
        screen = Screen()
        if wanted is not None:
            await _show_text(screen, host, row, wanted)
            return
        places = {state.label: state.place for state in host.servers()}
        show_skill(screen, row, "" if skill.origin.is_local else places.get(skill.origin.label, ""))
        if row.standing.state is State.CHANGED:
            from skillwire.cli.changes import show_changes

            await show_changes(screen, host, row)
        if row.standing.state in (State.NEW, State.CHANGED):
            screen.line()
            also = options.style_words
            screen.line(f"To read it: skillwire show {skill.handle} --text{also}")
            screen.line(f"To allow it: skillwire approve {skill.handle}{also}")

    with_host(options, action)


async def _show_text(screen: Screen, host: SkillHost, row: SkillRow, path: str) -> None:
    """A file for the person's eyes, between two lines that no text of it can imitate."""
    from skillwire.cli.screen import origin_words
    from skillwire.trust.paths import shown_path

    file = await host.admin.preview(row.skill.handle, path)
    origin = origin_words(row.skill.origin)
    screen.line(
        (f"──── {shown_path(file.path)} of {row.skill.handle}, from {origin}; shown, not loaded", "bold")
    )
    remark = ""
    if file.text is None:
        screen.line(f"binary: {file.size:,} bytes, {file.digest}")
    else:
        remark = screen.quoted(file.text)
    screen.line((f"──── {remark}" if remark else "────", "bold"))
