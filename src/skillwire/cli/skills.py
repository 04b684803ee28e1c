"""`skillwire list` and `skillwire show`: which skills there are, and what is in them."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from skillwire.cli.host_options import HostOptions, no_skills, with_host
from skillwire.cli.parser import UsageError
from skillwire.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from skillwire.catalog.registry import RegisteredSkill
    from skillwire.cli.screen import Screen
    from skillwire.cli.skill_view import SkillRow
    from skillwire.host.host import SkillHost


Result = TypeVar("Result")
_FILES_SHOWN = 10


def _label(host: SkillHost, given: str) -> str:
    """The label of a server or directory, or a `SkillNotFound` that names those that there are."""
    from skillwire.cli.output import printable
    from skillwire.errors import SkillNotFound

    labels = {
        *(state.label for state in host.admin.servers()),
        *(skill.origin.label for skill in host.skills(disabled=True)),
    }
    for label in labels:
        if label.casefold() == given.casefold():
            return label
    known = ", ".join(map(printable, sorted(labels))) or "none"
    raise SkillNotFound(f"no server or directory is called {printable(given)}; known: {known}")


def list_skills(
    *,
    options: HostOptions,
    on: str | None,
    from_clients: bool,
    disabled: bool,
    signed: bool,
    refresh: bool,
    fail_on_error: bool,
    as_json: bool,
) -> int:
    """List the skills of your servers and directories."""
    from skillwire.cli.output import info
    from skillwire.cli.screen import Screen, show_json
    from skillwire.cli.skill_view import (
        SkillRow,
        problem_events,
        problems_json,
        server_json,
        show_list,
        skill_json,
    )
    from skillwire.cli.template_view import template_json
    from skillwire.host.events import EventKind

    settings = options.settings()
    notes: tuple[str, ...] = ()
    if from_clients:
        from skillwire.cli.client_servers import with_client_servers

        settings, notes = with_client_servers(settings)

    async def action(host: SkillHost) -> bool:
        skills, templates = host.skills(disabled=disabled), host.admin.templates()
        label = None if on is None else _label(host, on)
        if label is not None:
            skills = tuple(skill for skill in skills if skill.origin.label == label)
            templates = tuple(one for one in templates if one.origin.label == label)
        # What a required publisher did not sign is listed as refused.
        await host.admin.check_signatures(skills if signed else None)
        rows = [
            SkillRow(
                skill,
                host.admin.status(skill),
                host.style.tag(skill),
                signature=await host.admin.signature(skill) if signed else None,
            )
            for skill in skills
        ]
        events = problem_events(host)
        failed = any(event.kind is EventKind.FAILURE for event in events)
        if as_json:
            show_json(
                {
                    "skills": [skill_json(row) for row in rows],
                    "templates": [template_json(one) for one in templates],
                    "servers": [server_json(state) for state in host.admin.servers()],
                    "problems": problems_json(events),
                    "skipped": list(notes),
                }
            )
            return failed
        screen = Screen()
        show_list(screen, rows, events, templates)
        for note in notes:
            screen.hanging("skipped  ", note, style="dim")
        recent = [
            state.label for state in host.admin.servers() if state.cached and label in (None, state.label)
        ]
        if recent and sys.stderr.isatty():
            info(f"From a recent listing: {', '.join(recent)}. `skillwire list --refresh` asks again.")
        if not rows and not failed and not templates:
            screen.wrapped(no_skills(host, label))
        return failed

    failed = with_host(options, action, settings=settings, on=on, failures=False, cached=not refresh)
    return SourceError.exit_code if failed and fail_on_error else 0


def show(
    *,
    name: str,
    path: str | None,
    text: bool,
    value: tuple[str, ...],
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Show where a skill comes from, its files, and what changed since you approved it."""
    from skillwire.cli.screen import Screen, show_json
    from skillwire.cli.skill_view import SkillRow, files_json, show_skill, skill_json
    from skillwire.host.approvals.status import State
    from skillwire.host.templates import is_template
    from skillwire.skill.uris import SKILL_FILE
    from skillwire.trust.approval import shown_digest

    values = template_values(value)

    async def action(host: SkillHost) -> None:
        if is_template(name) and not values:
            from skillwire.cli.template_view import show_template

            await show_template(host, name, on, as_json=as_json)
            return
        skill = await host.find(name, server=on, values=values)
        signature = await host.admin.signature(skill)
        row = SkillRow(skill, host.admin.status(skill), signature=signature)
        wanted = path or (SKILL_FILE if text else None)
        digest = shown_digest(skill.entry)
        if digest is None and row.status.state is not State.UNUSABLE:
            # Its server lists no digests: they are computed from what it has now, if it can be reached.
            with suppress(SourceError):
                digest = (await host.admin.fetch_files(skill.uri, server=skill.origin.label)).digest
        if as_json:
            document = {
                **skill_json(row),
                "frontmatter": dict(skill.entry.frontmatter),
                "files": files_json(row),
                "supporting_files": list(host.admin.files(skill)),
                "digest": digest,
            }
            if wanted is not None:
                file = await file_of(skill, wanted, host.admin.preview(skill.handle, wanted))
                document["shown"] = {"path": file.path, "digest": file.digest, "text": file.text}
            show_json(document)
            return
        screen = Screen()
        if wanted is not None:
            await _show_text(screen, host, row, wanted)
            return
        places = {state.label: state.place for state in host.admin.servers()}
        place = "" if skill.origin.is_local else places.get(skill.origin.label, "")
        show_skill(screen, row, place, host.admin.files(skill))
        if row.status.state is State.CHANGED:
            from skillwire.cli.changes import show_changes

            await show_changes(screen, host, row)
        if row.status.state in (State.NEW, State.CHANGED, State.DYNAMIC):
            screen.line()
            also = options.style_words
            screen.line(f"To read it:    skillwire show {skill.handle} --text{also}")
            if digest is not None:
                screen.line(f"To approve it: skillwire approve {skill.handle} --digest {digest}{also}")

    with_host(options, action, name=name, on=on)


def template_values(texts: tuple[str, ...]) -> dict[str, str] | None:
    """The values of `--value NAME=VALUE`; `None` when there are none."""
    values: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value:
            raise UsageError("--value: write NAME=VALUE, with an argument of the template")
        values[name.strip()] = value
    return values or None


async def _show_text(screen: Screen, host: SkillHost, row: SkillRow, path: str) -> None:
    """A file for the user to read, between two lines that its text cannot imitate."""
    from skillwire.cli.screen import origin_words
    from skillwire.trust.paths import shown_path

    file = await file_of(row.skill, path, host.admin.preview(row.skill.handle, path))
    origin = origin_words(row.skill.origin)
    screen.line((f"──── {shown_path(file.path)} of {row.skill.handle}, from {origin}; not loaded", "bold"))
    remark = ""
    if file.text is None:
        screen.line(f"binary: {file.size:,} bytes, {file.digest}")
    else:
        remark = screen.quoted(file.text)
    screen.line((f"──── {remark}" if remark else "────", "bold"))


async def file_of(skill: RegisteredSkill, path: str, reading: Awaitable[Result]) -> Result:
    """What was read. A path that the skill does not have is the caller's mistake: its files are named."""
    from skillwire.cli.parser import closest
    from skillwire.errors import SkillNotFound, UnlistedFile
    from skillwire.skill.entries import DYNAMIC
    from skillwire.skill.uris import path_below, skill_root
    from skillwire.trust.paths import shown_path

    try:
        return await reading
    except UnlistedFile:
        entry = skill.entry
        if entry.resources is DYNAMIC:
            raise
        root = skill_root(entry.uri)
        files = [shown_path("/".join(path_below(resource.uri, root))) for resource in entry.resources]
        more = f" and {len(files) - _FILES_SHOWN} more" if len(files) > _FILES_SHOWN else ""
        hint = closest(path, files) or f"it has {', '.join(files[:_FILES_SHOWN])}{more}"
        raise SkillNotFound(f"{skill.handle} has no file {shown_path(path)}: {hint}") from None
