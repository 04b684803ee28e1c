"""What changed in a skill since the user approved it, if the old bytes are still cached."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

from skillwire.cli.output import printable
from skillwire.cli.screen import Screen
from skillwire.cli.skill_view import SkillRow
from skillwire.text import clean_text
from skillwire.trust.approval import ChangeKind
from skillwire.trust.paths import shown_path

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost

_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_LABELS = ("approved", "now")


async def show_changes(screen: Screen, host: SkillHost, row: SkillRow) -> None:
    """Every file that changed, with a diff where both sides are text and the old one is in the cache."""
    screen.line()
    screen.line(("Changed since you approved it", "bold"))
    for change in await host.admin.compare(host.admin.review(row.skill)):
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
    """What changed between two texts, line by line."""
    before, after = (clean_text(text).text.splitlines() for text in (old, new))
    lines = list(unified_diff(before, after, f"{labels[0]}/{path}", f"{labels[1]}/{path}", lineterm=""))
    for line in lines:
        style = "bold" if line.startswith(("+++", "---")) else _STYLES.get(line[:1], "")
        screen.quoted(line, style=style)
    if not lines:
        screen.wrapped("the texts differ only in hidden characters or line endings", indent=4, style="dim")
