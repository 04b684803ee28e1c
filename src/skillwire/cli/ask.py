"""The question on a terminal: may this skill be loaded, as it is now?"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from skillwire.cli.output import counted, human_size, printable
from skillwire.cli.screen import Screen, origin_words
from skillwire.errors import SkillwireError
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SKILL_FILE, skill_root
from skillwire.text import safe_line
from skillwire.trust.approval import Reason

if TYPE_CHECKING:
    from skillwire.host.approvals.asking import ApprovalCallback, ApprovalRequest, Once

_FILES_SHOWN = 8
_DESCRIPTION_SHOWN = 300


def terminal_callback() -> ApprovalCallback | None:
    """A callback that asks the user, if both input and output are a terminal."""
    return ask_person if sys.stdin.isatty() and sys.stderr.isatty() else None


async def ask_person(request: ApprovalRequest, *, question: str = "Load it?") -> bool | Once:
    """Show the request on standard error, and read the answer. Anything but yes is a no.

    A yes lasts until the files change; `once` is for this load only.
    """
    from skillwire.host.approvals.asking import Once

    screen = Screen(errors=True)
    _describe(screen, request)
    is_kept = request.digest is not None or request.skill.entry.draft is not None
    once = question == "Load it?" and is_kept
    choices = ["[y]es, until it changes", *(["[o]nce"] if once else []), "show its [t]ext"]
    choices += ["show the [d]iff"] if request.changes else []
    while True:
        drop_typed_ahead()
        screen.line((f"{question} ", "bold"), f"{', '.join(choices)}, or anything else for [N]o")
        answer = (await read_line()).strip().lower()
        if answer in ("t", "text"):
            await _show_text(screen, request)
            continue
        if answer in ("d", "diff") and request.changes:
            await _show_diff(screen, request)
            continue
        if once and answer in ("o", "once"):
            return Once()
        return answer in ("y", "yes")


async def _show_diff(screen: Screen, request: ApprovalRequest) -> None:
    """What changed in each file since it was approved."""
    from skillwire.cli.changes import show_diff
    from skillwire.skill.uris import path_below
    from skillwire.trust.approval import ChangeKind
    from skillwire.trust.paths import shown_path

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
    skill, entry = request.skill, request.skill.entry
    what = {
        Reason.CHANGED: "changed since you approved it",
        Reason.SIGNER: "has another signer than before",
        Reason.UNBINDABLE: "is generated on request: a yes is for this text, while the host is open"
        if entry.draft is None
        else "comes without digests: a yes is for its current text",
    }.get(request.reason, "is not approved")
    screen.line((skill.handle, "bold"), f" from {origin_words(skill.origin)} {what}.")
    rows = [
        ("description", safe_line(entry.description, limit=_DESCRIPTION_SHOWN)),
        ("uri", printable(skill.uri)),
        ("protocol", "" if entry.draft is None else entry.dialect.meaning),
        ("files", files_words(entry)),
        ("signature", printable(str(request.signature))),
        ("digest", request.digest or request.seen_digest or ""),
        *((change.kind.value, printable(change.uri)) for change in request.changes[:_FILES_SHOWN]),
        ("note", "it is nested in another skill, and needs an approval of its own" if request.nested else ""),
        ("wants", _wanted(request)),
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
    try:
        file = await request.preview(SKILL_FILE)
    except SkillwireError as error:
        screen.wrapped(f"Its text cannot be shown: {printable(str(error))}")
        return
    screen.line((f"──── {SKILL_FILE} of {request.skill.handle}; shown, not loaded", "bold"))
    remark = screen.quoted(file.text or "(binary)")
    screen.line((f"──── {remark}" if remark else "────", "bold"))


def drop_typed_ahead() -> None:
    """Discard what was typed before the question was shown: it is not an answer to it."""
    with suppress(ImportError, OSError, ValueError):
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def read_line() -> str:
    """A line of standard input, read in a thread that is not waited for: Ctrl-C ends the question at once."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def settle(line: str) -> None:
        if not answered.done():
            answered.set_result(line)

    def read() -> None:
        line = sys.stdin.readline()
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, line)

    threading.Thread(target=read, daemon=True).start()
    return await answered
