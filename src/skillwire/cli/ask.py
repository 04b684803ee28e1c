"""The question on a terminal: may this skill be loaded, as it is now?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from skillwire.cli.output import counted, human_size, printable
from skillwire.cli.screen import Screen, origin_words, scan_rows
from skillwire.errors import SkillwireError
from skillwire.skill import DYNAMIC, SkillEntry, skill_root
from skillwire.text import safe_line
from skillwire.trust import Reason

if TYPE_CHECKING:
    from skillwire.consent import ApprovalCallback, ApprovalRequest, Once
    from skillwire.consent.ask import PersonTerminal

_FILES_SHOWN = 8
_DESCRIPTION_SHOWN = 300


@cache
def person_terminal() -> PersonTerminal | None:
    """The terminal on which this process asks; `None` if it has none. It stays open."""
    from skillwire.consent.ask import open_terminal

    return open_terminal()


def person_screen() -> Screen:
    """Where a question and what it is about are shown: the terminal that the answer is read from."""
    terminal = person_terminal()
    return Screen(errors=True) if terminal is None else Screen(stream=terminal.screen)


def terminal_callback() -> ApprovalCallback | None:
    """A callback that asks the user; `None` without a terminal, and inside an agent."""
    import os

    from skillwire.clients import running_agent

    return None if running_agent(os.environ) or person_terminal() is None else ask_person


async def answer(screen: Screen, question: str, choices: str) -> str:
    """Ask on the terminal: one line, lowercase and stripped. Without a terminal the answer is no."""
    terminal = person_terminal()
    if terminal is None:
        return ""
    terminal.forget_typed_ahead()
    screen.line((f"{question} ", "bold"), choices)
    return await terminal.answer()


async def ask_person(request: ApprovalRequest, *, question: str = "") -> bool | Once:
    """Show the request on the terminal, and read the answer there. Anything but yes is a no.

    A yes lasts until the files change; `once` is for this load only.
    """
    from skillwire.consent import Once, single_file

    screen = person_screen()
    _describe(screen, request)
    at_load = not question
    question = question or ("Read it?" if single_file(request.skill.entry, request.files) else "Load it?")
    is_kept = request.digest is not None or request.skill.entry.draft is not None
    once = at_load and is_kept
    choices = ["[y]es, until it changes", *(["[o]nce"] if once else []), "show its [t]ext"]
    choices += ["show the [d]iff"] if request.changes else []
    while True:
        said = await answer(screen, question, f"{', '.join(choices)}, or anything else for [N]o")
        if said in ("t", "text"):
            await _show_text(screen, request)
            continue
        if said in ("d", "diff") and request.changes:
            await _show_diff(screen, request)
            continue
        if once and said in ("o", "once"):
            return Once()
        return said in ("y", "yes")


async def ask_set(requests: Sequence[ApprovalRequest]) -> bool:
    """Show several skills, and ask once for all of them; their texts can be read first."""
    screen = person_screen()
    for request in requests:
        _describe(screen, request)
        screen.line()
    question = f"Approve these {len(requests)} skills?"
    while True:
        said = await answer(
            screen, question, "[y]es, until they change, show their [t]ext, or anything else for [N]o"
        )
        if said not in ("t", "text"):
            return said in ("y", "yes")
        for request in requests:
            await _show_text(screen, request)


async def _show_diff(screen: Screen, request: ApprovalRequest) -> None:
    """Print what changed in each file since it was approved."""
    from skillwire.cli.skill_view import show_diff
    from skillwire.skill import path_below
    from skillwire.trust import ChangeKind, shown_path

    for change in request.changes:
        path = shown_path("/".join(path_below(change.uri, skill_root(request.skill.uri))))
        screen.line("  ", (change.kind.value, "yellow"), f"  {path}")
        if change.kind is not ChangeKind.CHANGED:
            continue
        try:
            old, new = await request.approved(change.uri), (await request.preview(change.uri)).text
        except SkillwireError as error:
            screen.wrapped(f"its text cannot be shown: {printable(str(error))}", indent=4, style="dim")
            continue
        if old is None or new is None:
            screen.wrapped("no diff: it is binary, or the approved text is not cached", indent=4, style="dim")
        else:
            show_diff(screen, old.decode("utf-8", "replace"), new, path)


def _describe(screen: Screen, request: ApprovalRequest) -> None:
    from skillwire.consent import file_lines, single_file

    skill, entry = request.skill, request.skill.entry
    what = {
        Reason.CHANGED: "changed since you approved it",
        Reason.SIGNER: "has another signer than before",
        Reason.UNBINDABLE: "is generated on request: a yes is for this text, while the host is open"
        if entry.draft is None
        else "comes without digests: a yes is for the files below, as they are now",
    }.get(request.reason, "is not approved")
    path = single_file(entry, request.files)
    screen.line(
        *([(path, "bold"), " of "] if path else []),
        (skill.handle, "bold"),
        f" from {origin_words(skill.origin)} {what}.",
    )
    rows = [
        ("description", safe_line(entry.description, limit=_DESCRIPTION_SHOWN)),
        ("uri", printable(skill.uri)),
        ("protocol", "" if entry.draft is None else entry.dialect.meaning),
        ("files", f"{counted(len(request.files), 'file')}; a yes covers exactly this:"),
        *(("", line) for line in file_lines(entry, request.files)),
        ("signature", printable(str(request.signature))),
        ("digest", request.digest or request.seen_digest or ""),
        *((change.kind.value, printable(change.uri)) for change in request.changes[:_FILES_SHOWN]),
        ("note", "it is nested in another skill, and needs an approval of its own" if request.nested else ""),
        ("wants", _wanted(request)),
        *scan_rows(request.scans),
    ]
    screen.pairs(rows)
    if request.signer_change:
        screen.line("  ", ("signer changed: ", "bold yellow"), printable(f"it {request.signer_change}"))


def files_words(entry: SkillEntry) -> str:
    """The files of a skill on one line; empty for one that is generated on request."""
    if entry.resources is DYNAMIC:
        return ""
    root = f"{skill_root(entry.uri)}/"
    names = [printable(resource.uri.removeprefix(root)) for resource in entry.resources]
    more = f" and {len(names) - _FILES_SHOWN} more" if len(names) > _FILES_SHOWN else ""
    size = human_size(entry.total_size)
    return f"{counted(len(names), 'file')}, {size}: {', '.join(names[:_FILES_SHOWN])}{more}"


def _wanted(request: ApprovalRequest) -> str:
    if not request.requested_tools:
        return ""
    return f"the tools {printable(' '.join(request.requested_tools))}, which a yes does not grant"


async def _show_text(screen: Screen, request: ApprovalRequest) -> None:
    """The text of every file that a yes covers."""
    from skillwire.trust import shown_path

    for covered in request.files:
        try:
            file = await request.preview(covered.uri)
        except SkillwireError as error:
            screen.wrapped(f"{printable(covered.uri)} cannot be shown: {printable(str(error))}")
            continue
        screen.line((f"──── {shown_path(file.path)} of {request.skill.handle}; shown, not loaded", "bold"))
        remark = screen.quoted(file.text or f"(binary, {human_size(len(file.data))})")
        screen.line((f"──── {remark}" if remark else "────", "bold"))
