"""The question on a terminal: may this skill be loaded, as it is now?"""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING

from skillwire.cli.output import counted, human_size, printable, say
from skillwire.cli.screen import origin_words
from skillwire.errors import SkillwireError
from skillwire.skill.entries import DYNAMIC
from skillwire.skill.uris import SKILL_FILE
from skillwire.trust.approval import Reason
from skillwire.trust.sanitize import clean_text, safe_line

if TYPE_CHECKING:
    from skillwire.host.consent import ApprovalCallback, ApprovalRequest

_FILES_SHOWN = 8
_DESCRIPTION_SHOWN = 300


def terminal_callback() -> ApprovalCallback | None:
    """A callback that asks the person, when there is one at both ends of the terminal."""
    return ask_person if sys.stdin.isatty() and sys.stderr.isatty() else None


async def ask_person(request: ApprovalRequest) -> bool:
    """Show what is asked for, on standard error, and take the answer. Only a yes is a yes."""
    _describe(request)
    while True:
        say("Load it?  y = yes, t = show its text first, anything else = no")
        answer = (await _line()).strip().lower()
        if answer in ("t", "text"):
            await _show_text(request)
            continue
        return answer in ("y", "yes")


def _describe(request: ApprovalRequest) -> None:
    skill = request.skill
    what = {
        Reason.CHANGED: "changed since you approved it",
        Reason.UNBINDABLE: "is made on request, so a yes counts for what was seen, and for now",
    }.get(request.reason, "is not approved")
    say(f"{skill.handle} from {origin_words(skill.origin)} {what}.")
    say(f"  the server says: {safe_line(skill.entry.description, limit=_DESCRIPTION_SHOWN)}")
    say(f"  {printable(skill.uri)}")
    if skill.entry.resources is not DYNAMIC:
        root = skill.uri.removesuffix(SKILL_FILE)
        files = [printable(resource.uri.removeprefix(root)) for resource in skill.entry.resources]
        more = f" and {len(files) - _FILES_SHOWN} more" if len(files) > _FILES_SHOWN else ""
        size = human_size(skill.entry.total_size)
        say(f"  {counted(len(files), 'file')}, {size}: {', '.join(files[:_FILES_SHOWN])}{more}")
    for change in request.changes[:_FILES_SHOWN]:
        say(f"  {change.kind}: {printable(change.uri)}")
    if request.nested:
        say("  it lies inside another skill, and is asked about on its own")
    if request.requested_tools:
        tools = printable(" ".join(request.requested_tools))
        say(f"  it asks for these tools, which a yes does not grant: {tools}")


async def _show_text(request: ApprovalRequest) -> None:
    try:
        file = await request.preview(SKILL_FILE)
    except SkillwireError as error:
        say(f"  its text cannot be shown: {printable(str(error))}")
        return
    say(f"──── {SKILL_FILE}, text of {origin_words(request.skill.origin)} ────")
    for line in clean_text(file.text or "(binary)").text.splitlines():
        say(f"│ {line}")
    say("────")


async def _line() -> str:
    """A line of standard input, read in a thread that nobody waits for: Ctrl-C ends the question at once."""
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
