"""Draw the pictures of the README: `python -m tools.pictures` writes docs/images/.

The diagram is drawn from the table below. The terminal shows what the commands really print, run on the
sample skills in an empty home directory.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs/images"

_BOX = 'rx="8" fill="{fill}" stroke="#57606a" stroke-width="1.2"'
BOXES = (
    # x, y, width, height, fill, lines of text
    (20, 30, 150, 74, "#ddf4ff", ("Your skills", "folders with SKILL.md")),
    (20, 124, 150, 56, "#f6f8fa", ("git, wheels, functions",)),
    (250, 52, 170, 104, "#dafbe1", ("skillwire serve", "checks, lists, watches", "sends sizes and digests")),
    (500, 30, 180, 60, "#f6f8fa", ("Any MCP client", "Claude, Cursor, VS Code …")),
    (
        500,
        120,
        180,
        104,
        "#dafbe1",
        ("SkillHost", "verifies every file", "asks the user", "marks whose text it is"),
    ),
    (760, 120, 130, 104, "#fff8c5", ("Your agent", "a catalog, tools", "and loaded skills")),
    (250, 196, 170, 56, "#f6f8fa", ("Other skill servers", "in any language")),
)
ARROWS = (
    (170, 67, 250, 90),
    (170, 150, 250, 118),
    (420, 90, 500, 62),
    (420, 118, 500, 150),
    (420, 224, 500, 196),
    (680, 172, 760, 172),
)
LABELS = ((442, 66, "MCP"), (442, 128, "MCP"), (442, 204, "MCP"))

COMMANDS = (
    ("skillwire lint ./skills", ("lint", "skills")),
    (
        "skillwire list --server 'team=skillwire serve ./skills'",
        ("list", "--server", "team=skillwire serve skills"),
    ),
)


def diagram() -> str:
    """The README's overview as SVG."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 910 270" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
        "<title>Skillwire serves skill folders over MCP, and lets an agent use skills of servers</title>",
        '<defs><marker id="tip" markerWidth="9" markerHeight="9" refX="8" refY="4.5" orient="auto">'
        '<path d="M0,0 L9,4.5 L0,9 z" fill="#57606a"/></marker></defs>',
        '<rect width="910" height="270" fill="#ffffff"/>',
    ]
    for x1, y1, x2, y2 in ARROWS:
        parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#57606a" stroke-width="1.6" '
            'marker-end="url(#tip)"/>'
        )
    for x, y, width, height, fill, lines in BOXES:
        parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {_BOX.format(fill=fill)}/>')
        top = y + height / 2 - (len(lines) - 1) * 9.5 + 5
        for number, line in enumerate(lines):
            style = 'font-size="15" font-weight="600"' if number == 0 else 'font-size="12" fill="#57606a"'
            parts.append(
                f'<text x="{x + width / 2:g}" y="{top + number * 19:g}" text-anchor="middle" {style}>'
                f"{escape(line)}</text>"
            )
    for x, y, text in LABELS:
        parts.append(f'<text x="{x}" y="{y}" font-size="11" fill="#57606a">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def terminal() -> str:
    """What a first session prints, as SVG."""
    console = Console(
        record=True, width=96, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    with tempfile.TemporaryDirectory() as home:
        Path(home, "skills").symlink_to(ROOT / "examples/skills")
        for shown, words in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (shown, "bold")))
            done = subprocess.run(
                [Path(sys.executable).with_name("skillwire"), *words],
                cwd=home,
                env={
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                    "HOME": home,
                    "COLUMNS": "94",
                    "FORCE_COLOR": "1",
                },
                capture_output=True,
                text=True,
                check=False,
            )
            console.print(Text.from_ansi(done.stdout.rstrip().replace(home, "~")))
            console.print()
    return console.export_svg(title="skillwire", unique_id="skillwire")


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / "overview.svg").write_text(diagram(), "utf-8")
    (TARGET / "terminal.svg").write_text(terminal(), "utf-8")


if __name__ == "__main__":
    main()
