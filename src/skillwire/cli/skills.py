"""`skillwire list`, `search`, `show` and `load`: which skills there are, and what a model gets of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from skillwire.cli.host_options import HostOptions, no_skills, with_host
from skillwire.errors import ApprovalRequired, SourceError, UsageError
from skillwire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from skillwire.catalog import HostSkill
    from skillwire.cli.install_view import Pinned
    from skillwire.cli.output import Screen
    from skillwire.cli.skill_view import SkillRow
    from skillwire.host import LoadedSkill, SearchMatch, SkillHost

Result = TypeVar("Result")
_FILES_SHOWN = 10


def _label(host: SkillHost, given: str) -> str:
    """The label of a server or directory, or a `SkillNotFound` that names those that there are."""
    from skillwire.cli.output import printable
    from skillwire.errors import SkillNotFound

    labels = {
        *(state.label for state in host.places.servers()),
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
    installed: bool,
    user: bool,
    for_model: bool,
    budget: int | None,
    working: tuple[str, ...],
    refresh: bool,
    usage: bool,
    clear: bool,
    fail_on_error: bool,
    as_json: bool,
) -> int:
    """List the skills of your servers and directories, what is installed, or what a model is told of them."""
    if (budget is not None or working) and not for_model:
        raise UsageError("--budget and --working need --for-model: they are about what a model is told")
    if user and not installed:
        raise UsageError("--user needs --installed: what is listed otherwise includes your own skills")
    if clear and not usage:
        raise UsageError("--clear needs --usage: it deletes what was counted")
    if for_model or installed or usage:
        given = {"--on": on, "--from-clients": from_clients, "--all": disabled, "--signed": signed}
        given |= {"--fail-on-error": fail_on_error, "--installed": installed and (for_model or usage)}
        given |= {"--refresh": refresh and installed, "--usage": usage and for_model}
        if extra := [name for name, value in given.items() if value]:
            what = "--for-model" if for_model else "--usage" if usage else "--installed"
            raise UsageError(f"{what} and {', '.join(extra)} exclude each other: leave out one")
    if installed:
        _list_installed(user=user, as_json=as_json)
        return 0
    if usage:
        return _show_usage(options, clear=clear, refresh=refresh, as_json=as_json)
    if for_model:
        _print_catalog(options, budget, working, refresh=refresh, as_json=as_json)
        return 0
    from skillwire.catalog import copies_of
    from skillwire.cli.output import Screen, info, is_terminal, printable, show_json
    from skillwire.cli.skill_view import (
        SkillRow,
        problem_events,
        problems_json,
        server_json,
        show_list,
        skill_json,
        template_json,
    )
    from skillwire.host import EventKind

    settings = options.settings()
    notes: tuple[str, ...] = ()
    if from_clients:
        from skillwire.cli.servers import with_client_servers

        settings, notes = with_client_servers(settings)

    async def action(host: SkillHost) -> bool:
        skills, templates = host.skills(disabled=disabled), host.places.templates()
        label = None if on is None else _label(host, on)
        if label is not None:
            skills = tuple(skill for skill in skills if skill.origin.label == label)
            templates = tuple(one for one in templates if one.origin.label == label)
        # What a required publisher did not sign is listed as refused.
        await host.signatures.check_all(skills if signed else None)
        copies = copies_of(skills)
        folded = {copy.key for group in copies.values() for copy in group}
        skills = tuple(skill for skill in skills if skill.key not in folded) if folded else skills
        rows = [
            SkillRow(
                skill,
                status,
                host.style.tag(skill),
                signature=await host.signatures.check(skill) if signed else None,
                also_on=tuple(copy.origin.label for copy in copies.get(skill.key, ())) if copies else (),
            )
            for skill, status in zip(skills, host.decide.statuses(skills), strict=True)
        ]
        events = problem_events(host)
        failed = any(event.kind is EventKind.FAILURE for event in events)
        if as_json:
            show_json(
                {
                    "skills": [skill_json(row) for row in rows],
                    "templates": [template_json(one) for one in templates],
                    "servers": [server_json(state) for state in host.places.servers()],
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
            state.label for state in host.places.servers() if state.cached and label in (None, state.label)
        ]
        if recent and is_terminal(sys.stderr):
            info(f"From a recent listing: {', '.join(recent)}. `skillwire list --refresh` asks again.")
        if not rows and not failed and not templates:
            screen.wrapped(no_skills(host, settings, label))
        if any(row.status.waits for row in rows) and is_terminal(sys.stderr):
            info(f"To read a skill and approve it: skillwire approve NAME{printable(options.words)}")
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
    from skillwire.cli.install_view import Pinned
    from skillwire.cli.output import Screen, printable, show_json
    from skillwire.cli.skill_view import SkillRow, files_json, show_skill, skill_json
    from skillwire.consent import State
    from skillwire.errors import SkillNotFound
    from skillwire.host import is_template
    from skillwire.skill import SKILL_FILE
    from skillwire.trust import shown_digest

    values = template_values(value)

    async def action(host: SkillHost) -> None:
        if is_template(name) and not values:
            from skillwire.cli.skill_view import show_template

            await show_template(host, name, on, as_json=as_json)
            return
        try:
            skill = await host.find(name, server=on, values=values)
        except SkillNotFound:
            if on is None and (pinned := Pinned.find(name, options.publishers)) is not None:
                _show_pinned(pinned, as_json=as_json)  # It is pinned, and its folder is not there yet.
                return
            raise
        pinned = Pinned.find(skill.entry.name, options.publishers) if skill.origin.is_local else None
        signature = await host.signatures.check(skill)
        scans = await host.decide.scan(skill)
        row = SkillRow(skill, host.decide.status(skill), signature=signature, scans=scans)
        wanted = path or (SKILL_FILE if text else None)
        digest = shown_digest(skill.entry)
        if digest is None and row.status.state is not State.REFUSED:
            # Its server lists no digests: they are computed from what it has now, if it can be reached.
            with suppress(SourceError):
                digest = (await host.files.fetch_files(skill.uri, server=skill.origin.label)).digest
        if as_json:
            document = {
                **skill_json(row),
                "frontmatter": dict(skill.entry.frontmatter),
                "files": files_json(row),
                "supporting_files": list(host.files.paths(skill)),
                "digest": digest,
                "installed": pinned.as_json() if pinned is not None else None,
            }
            if wanted is not None:
                file = await file_of(skill, wanted, host.files.preview(skill.handle, wanted))
                document["shown"] = {"path": file.path, "digest": file.digest, "text": file.text}
            show_json(document)
            return
        screen = Screen()
        if wanted is not None:
            await _show_text(screen, host, row, wanted)
            return
        places = {state.label: state.place for state in host.places.servers()}
        place = "" if skill.origin.is_local else places.get(skill.origin.label, "")
        show_skill(screen, row, place, host.files.paths(skill))
        if row.status.state is State.CHANGED:
            from skillwire.cli.skill_view import show_changes

            await show_changes(screen, host, row)
        if pinned is not None:
            screen.line()
            pinned.show(screen)
        if row.status.waits:
            screen.line()
            also = printable(options.words + (f" --on {on}" if on else ""))
            screen.line(f"To read it:    skillwire show {skill.handle} --text{also}")
            screen.line(f"To approve it: skillwire approve {skill.handle}{also}")

    with_host(options, action, name=name, on=on)


def _show_pinned(pinned: Pinned, *, as_json: bool) -> None:
    from skillwire.cli.output import Screen, show_json

    if as_json:
        show_json({"installed": pinned.as_json()})
        return
    screen = Screen()
    screen.line((pinned.skill.name, "bold"), " is pinned, and its folder is missing: ")
    screen.line(f"`skillwire sync{pinned.work.option}` installs it.")
    pinned.show(screen)


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
    from skillwire.cli.output import origin_words
    from skillwire.trust import shown_path

    file = await file_of(row.skill, path, host.files.preview(row.skill.handle, path))
    origin = origin_words(row.skill.origin)
    screen.line((f"──── {shown_path(file.path)} of {row.skill.handle}, from {origin}; not loaded", "bold"))
    remark = ""
    if file.text is None:
        screen.line(f"binary: {file.size:,} bytes, {file.digest}")
    else:
        remark = screen.quoted(file.text)
    screen.line((f"──── {remark}" if remark else "────", "bold"))


async def file_of(skill: HostSkill, path: str, reading: Awaitable[Result]) -> Result:
    """Read a file. A path that the skill does not have is the caller's mistake: its files are named."""
    from skillwire.cli.command import closest
    from skillwire.errors import SkillNotFound, UnlistedFile
    from skillwire.skill import DYNAMIC, path_below, skill_root
    from skillwire.trust import shown_path

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


def _list_installed(*, user: bool, as_json: bool) -> None:
    from skillwire.cli.install_setup import workspace
    from skillwire.cli.install_view import show_pins, skill_json
    from skillwire.cli.output import show_json

    skills = workspace(user=user, lock=True).require_lock().skills
    if as_json:
        show_json({"skills": [skill_json(skill) for skill in skills]})
    else:
        show_pins(skills)


def _show_usage(options: HostOptions, *, clear: bool, refresh: bool, as_json: bool) -> int:
    """Print what was counted, with the skills that were never used; or delete it."""
    from skillwire.cli.output import info, show_json
    from skillwire.cli.skill_view import show_usage, usage_json
    from skillwire.host import UsageFile, state_paths

    file = UsageFile(state_paths().usage, most=DEFAULT_LIMITS.usage_skills)
    if clear:
        info("What was counted is deleted." if file.clear() else "Nothing was counted yet.")
        return 0
    settings = options.settings()
    counted = file.read()
    if not settings.usage:
        info(f"Use is not counted: write usage = true into {state_paths().config}")
        if not counted.turns and not counted.skills:
            return 0

    async def action(host: SkillHost) -> list[tuple[str, str, str, int]]:
        return [
            (str(one.origin), one.uri, one.entry.name, len(one.handle) + len(one.entry.description))
            for one in host.skills()
        ]

    known = with_host(options, action, settings=replace(settings, usage=False), cached=not refresh)
    document = usage_json(counted, known)
    if as_json:
        show_json(document)
    else:
        show_usage(document)
    return 0


def _print_catalog(
    options: HostOptions, budget: int | None, working: tuple[str, ...], *, refresh: bool, as_json: bool
) -> None:
    """Print exactly what a model sees of your skills, and with --json the tools that it gets."""
    from skillwire.cli.output import counted, info, show_json, write

    async def action(host: SkillHost) -> None:
        text = host.catalog(budget=budget, working=working)
        if as_json:
            tools = [tool.for_anthropic() for tool in host.tools()]
            show_json({"style": host.style.name, "text": text, "tools": tools})
            return
        write(text)
        # On standard error: standard output has exactly what a model sees.
        hidden = len(host.skills()) - len(host.skills(for_models=True))
        if hidden:
            verb, them = ("is", "it") if hidden == 1 else ("are", "them")
            info(f"{counted(hidden, 'skill')} {verb} not shown to models: `skillwire list` shows {them}")

    with_host(options, action, cached=not refresh)


def search(
    *,
    words: tuple[str, ...],
    on: str | None,
    limit: int,
    semantic: bool,
    refresh: bool,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Find skills by words in their names, descriptions and cached text."""
    from skillwire.catalog import parse_query
    from skillwire.cli.output import Screen, info, printable, show_json
    from skillwire.cli.skill_view import SkillRow, problem_events, problems_json, skill_json

    query = " ".join(words)
    if not parse_query(query, limits=DEFAULT_LIMITS):
        raise UsageError("WORDS has no letters or digits: say what to look for")

    settings = options.settings()
    if semantic:
        settings = replace(settings, semantic=True)
    for problem in settings.problems:
        info(printable(problem))

    async def action(host: SkillHost) -> None:
        found = await host.search(query, server=on, limit=limit)
        if not found and any(server.cached for server in host.places.servers()):
            await host.refresh(on)  # A cached listing may be older than the skill.
            found = await host.search(query, server=on, limit=limit)
        empty = not any(on in (None, skill.origin.label) for skill in host.skills())
        if as_json:
            skills = [
                {
                    **skill_json(SkillRow(one.skill, host.decide.status(one.skill))),
                    "snippet": one.snippet,
                    "partial": one.partial,
                    "byText": one.by_text,
                }
                for one in found
            ]
            show_json({"skills": skills, "problems": problems_json(problem_events(host))})
            return
        if empty:
            failed = bool(host.log.failures())
            Screen().wrapped(
                "There is nothing to search: see what failed." if failed else no_skills(host, settings, on)
            )
        else:
            _show(found)

    with_host(options, action, settings=settings, on=on, cached=not refresh)


def _show(found: Sequence[SearchMatch]) -> None:
    from skillwire.cli.output import Screen, origin_words

    screen = Screen()
    if not found:
        screen.line("No skill seems to fit. Try other words, or fewer.")
    partial = False
    for one in found:
        if one.partial and not partial:
            partial = True
            screen.line(("Match only some of the words:", "dim"))
        origin = one.skill.origin
        screen.line(
            (one.skill.handle, "bold"), "  ", (origin_words(origin), "" if origin.is_local else "cyan")
        )
        screen.wrapped(one.snippet, indent=4, style="dim")


def load(
    *,
    name: str,
    path: str | None,
    raw: bool,
    output: Path | None,
    value: tuple[str, ...],
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Load a skill and print exactly what a model would get, of it or of one of its files.

    On a terminal you are asked about a skill that you have not approved. Otherwise the command exits with 7.
    """
    from skillwire.cli.output import is_terminal, show_json, write

    if raw and path is None:
        raise UsageError("--raw needs PATH: name a file of the skill")
    if output is not None and not raw:
        raise UsageError("--output needs --raw")
    if raw and as_json:
        raise UsageError("--raw and --json exclude each other: leave out one")
    if raw and output is None and is_terminal(sys.stdout):
        raise UsageError("--raw could send control characters to your terminal: add -o FILE")
    values = template_values(value)

    async def action(host: SkillHost) -> None:
        loaded = await _load(host, name, values, on, options)
        handle = loaded.skill.handle
        if raw and path is not None:
            file = await file_of(loaded.skill, path, host.read_bytes(handle, path))
            _write_bytes(file.data, file.digest, output)
            return
        text = loaded.text
        if path is not None:
            text = await file_of(loaded.skill, path, host.read(handle, path))
        if as_json:
            named = {} if path is None else {"path": path}
            show_json({**_loaded_json(loaded), **named, "text": text})
        else:
            write(text)

    _with_person(options, action, name, on)


def _write_bytes(data: bytes, digest: str, output: Path | None) -> None:
    from skillwire.cli.output import info, write_bytes

    if output is None:
        write_bytes(data)
        return
    try:
        with output.open("xb") as stream:
            stream.write(data)
    except FileExistsError:
        raise SourceError(f"{output} already exists: give another name, or delete it") from None
    except OSError as error:
        raise SourceError(f"{output} cannot be written: {error.strerror}") from None
    info(f"Wrote {len(data):,} bytes, {digest}, to {output}")


def _with_person(
    options: HostOptions, action: Callable[[SkillHost], Awaitable[None]], name: str, on: str | None
) -> None:
    from skillwire.cli.host_options import terminal_callback

    with_host(options, action, ask=terminal_callback(), name=name, on=on)


async def _load(
    host: SkillHost, name: str, values: dict[str, str] | None, on: str | None, options: HostOptions
) -> LoadedSkill:
    """Load a skill; if the user cannot be asked, the error names the command to run."""
    from skillwire.cli.host_options import terminal_callback
    from skillwire.clients import running_agent

    try:
        return await host.load(name, server=on, values=values)
    except ApprovalRequired as error:
        # No command for an agent: it is its user who must act.
        if error.reason == "denied" or terminal_callback() is not None or running_agent(os.environ):
            raise
        # The skill of a template is known by its URI.
        name = f"{error.uri} --on {error.origin}" if values else name
        also = options.words
        raise ApprovalRequired(
            f"{error} with `skillwire show {name}{also}`, which prints the `skillwire approve` line to run",
            reason=error.reason,
            origin=error.origin,
            uri=error.uri,
            added=error.added,
            changed=error.changed,
            removed=error.removed,
        ) from None


def _loaded_json(loaded: LoadedSkill) -> dict[str, object]:
    skill = loaded.skill
    return {
        "handle": skill.handle,
        "origin": {"kind": skill.origin.kind.value, "label": skill.origin.label},
        "uri": skill.uri,
        "grants": {
            "allowed_tools": loaded.grants.allowed_tools,
            "execute_code": loaded.grants.execute_code,
        },
    }
