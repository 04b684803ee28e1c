"""`skillwire list` and `skillwire show`: what skills there are, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from skillwire.cli.host_options import (
    AsJson,
    ConfigFile,
    Directories,
    Name,
    NoUsual,
    On,
    Profile,
    Servers,
    StyleName,
    chosen,
    style_words,
    with_host,
)

if TYPE_CHECKING:
    from skillwire.cli.screen import Screen
    from skillwire.cli.skill_view import SkillRow
    from skillwire.host.host import SkillHost

_HINT = (
    "No skills here. Add a server with `skillwire servers add NAME URL`, look for those that other clients "
    "have with `skillwire servers import`, or put skills into .agents/skills."
)


def list_skills(
    server: Servers = None,
    directory: Directories = None,
    no_usual: NoUsual = False,
    config: ConfigFile = None,
    profile: Profile = None,
    style: StyleName = None,
    from_clients: Annotated[
        bool,
        typer.Option(
            "--from-clients", help="Ask the servers that other MCP clients have, too. Writes nothing."
        ),
    ] = False,
    disabled: Annotated[bool, typer.Option("--all", help="Show skills that are switched off, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the skills of your servers and directories.

    \b
    skillwire list                                          as skillwire.toml says
    skillwire list --server docs=https://docs.example/mcp   one server more
    skillwire list --dir ./skills --no-usual                one directory, and none of the usual ones
    skillwire list --from-clients                           the servers of your other MCP clients
    skillwire list --style goose                            with the names that Goose would use
    """
    from skillwire.cli.screen import Screen, show_json
    from skillwire.cli.skill_view import SkillRow, problems_json, server_json, show_list, skill_json
    from skillwire.host.events import EventKind

    settings = chosen(server, directory, no_usual, config, profile)
    notes: tuple[str, ...] = ()
    if from_clients:
        from skillwire.cli.servers import with_client_servers

        settings, notes = with_client_servers(settings)

    async def action(host: SkillHost) -> None:
        rows = [
            SkillRow(skill, host.standing(skill), host.style.tag(skill))
            for skill in host.skills(disabled=disabled)
        ]
        events = host.events_so_far()
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

    with_host(settings, action, style=style)


def show(
    name: Name,
    path: Annotated[
        str | None, typer.Argument(metavar="[PATH]", help="Show the text of this file; SKILL.md with --text.")
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Show the skill's text. This is no load: nothing is approved.")
    ] = False,
    on: On = None,
    server: Servers = None,
    directory: Directories = None,
    no_usual: NoUsual = False,
    config: ConfigFile = None,
    profile: Profile = None,
    style: StyleName = None,
    as_json: AsJson = False,
) -> None:
    """Show where a skill comes from, its files, and what changed since you approved it.

    \b
    skillwire show code-review                       origin, approval, frontmatter, files
    skillwire show code-review --text                its SKILL.md, before you load it
    skillwire show code-review references/guide.md   one of its files
    """
    from skillwire.cli.screen import Screen, show_json
    from skillwire.cli.skill_view import SkillRow, files_json, show_skill, skill_json
    from skillwire.host.approvals.status import State
    from skillwire.skill.uris import SKILL_FILE

    async def action(host: SkillHost) -> None:
        skill = await host.find(name, server=on)
        row = SkillRow(skill, host.standing(skill))
        wanted = path or (SKILL_FILE if text else None)
        if as_json:
            document = {
                **skill_json(row),
                "frontmatter": dict(skill.entry.frontmatter),
                "files": files_json(row),
            }
            if wanted is not None:
                file = await host.preview(skill.handle, wanted)
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
            also = style_words(style)
            screen.line(f"To read it: skillwire show {skill.handle} --text{also}")
            screen.line(f"To allow it: skillwire approve {skill.handle}{also}")

    with_host(chosen(server, directory, no_usual, config, profile), action, style=style)


async def _show_text(screen: Screen, host: SkillHost, row: SkillRow, path: str) -> None:
    """A file for the person's eyes, between two lines that no text of it can imitate."""
    from skillwire.cli.screen import origin_words
    from skillwire.trust.paths import shown_path

    file = await host.preview(row.skill.handle, path)
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
