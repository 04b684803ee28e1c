"""What changed in a skill since the user approved it, as far as the old bytes are still there."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

from skillwire.cli.output import printable
from skillwire.cli.screen import Screen
from skillwire.cli.skill_view import SkillRow
from skillwire.errors import SkillwireError
from skillwire.skill.uris import SkillUri, path_below, skill_root
from skillwire.text import clean_text
from skillwire.trust.approval import ChangeKind, FileChange
from skillwire.trust.paths import shown_path

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost

_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_LABELS = ("approved", "now")


async def show_changes(screen: Screen, host: SkillHost, row: SkillRow) -> None:
    """Every file that changed, with a diff where both sides are text and the old one is in the cache."""
    screen.line()
    screen.line(("Changed since you approved it", "bold"))
    for change in row.standing.changes:
        path = shown_path("/".join(path_below(change.uri, skill_root(row.skill.uri))))
        screen.line("  ", (change.kind.value, "yellow"), f"  {path}")
        if change.kind is not ChangeKind.CHANGED:
            continue
        old, new = _old(host, row, change.uri), await _new(host, row, change)
        if isinstance(new, SkillwireError):
            screen.wrapped(f"its text cannot be shown: {printable(str(new))}", indent=4, style="dim")
        elif old is None:
            screen.wrapped("the approved text is not in the cache: no diff", indent=4, style="dim")
        elif new is None:
            screen.wrapped("binary: no diff", indent=4, style="dim")
        else:
            show_diff(screen, old, new, path)


def show_diff(screen: Screen, old: str, new: str, path: str, labels: tuple[str, str] = _LABELS) -> None:
    """What changed between two texts, line by line."""
    before, after = (clean_text(text).text.splitlines() for text in (old, new))
    lines = list(unified_diff(before, after, f"{labels[0]}/{path}", f"{labels[1]}/{path}", lineterm=""))
    for line in lines:
        style = "bold" if line.startswith(("+++", "---")) else _STYLES.get(line[:1], "")
        screen.quoted(line, style=style)
    if not lines:
        screen.wrapped("the texts differ in hidden characters or line ends alone", indent=4, style="dim")


def _old(host: SkillHost, row: SkillRow, uri: SkillUri) -> str | None:
    """The approved text of a file, when the cache still has it."""
    approved = row.standing.approved
    digest = next((digest for file, digest in approved.resources if file == uri), None) if approved else None
    data = host.admin.cache.get(row.skill.origin, uri, digest) if digest else None
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


async def _new(host: SkillHost, row: SkillRow, change: FileChange) -> str | SkillwireError | None:
    """The text of a file as it is served now, verified; it is no load (SEC-7)."""
    try:
        return (await host.admin.preview(row.skill.handle, change.uri)).text
    except SkillwireError as error:
        return error
