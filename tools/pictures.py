# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
"""Draw the pictures of the README and the guides: `python -m tools.pictures` writes docs/images/.

The diagram is drawn from the table below. The recording is what a person sees who types into `skillwire chat
--demo`, on a real pseudo-terminal in an empty home directory. How long each screen is shown is written here,
so that every run draws the same.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyte

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

COLUMNS, ROWS = 96, 38
LINE, TOP = 19, 28
SECONDS = 60
SETTLED = 0.4
TYPING = 0.08
TEXT, BACKGROUND = "#d0d7de", "#161b22"
COLORS = {
    "default": TEXT,
    "black": "#6e7681",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": TEXT,
}


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


@dataclass(frozen=True)
class Frame:
    """A screen of the recording, and for how many seconds it is shown."""

    rows: tuple[tuple[tuple[str, str], ...], ...]
    """Per row, pieces of text, each with the attributes that draw it."""
    seconds: float


class Recorder:
    """A command on a pseudo-terminal, somebody who types, and the screens that they see."""

    def __init__(self, words: Sequence[str], home: str) -> None:
        self.frames: list[Frame] = []
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": home,
            "COLUMNS": str(COLUMNS),
            "LINES": str(ROWS),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        self._mine, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [Path(sys.executable).with_name("skillwire"), *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=home,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def show(self, seconds: float) -> None:
        """Keep the screen as it is now."""
        rows: list[tuple[tuple[str, str], ...]] = []
        for number in range(ROWS):
            row = self._screen.buffer[number]
            characters = [row[column] for column in range(COLUMNS)]
            pieces = [
                ("".join(one.data for one in run), attributes)
                for attributes, run in groupby(characters, _attributes)
            ]
            while pieces and not pieces[-1][0].strip():
                pieces.pop()
            rows.append(tuple(pieces))
        self.frames.append(Frame(tuple(rows), seconds))

    def wait_for(self, text: str, count: int = 1) -> None:
        """Read until a text is on the screen so many times, and nothing more comes."""
        end = time.monotonic() + SECONDS
        while "\n".join(self._screen.display).count(text) < count:
            if not self._read(end - time.monotonic()):
                raise SystemExit(f"{text!r} was not shown:\n" + "\n".join(self._screen.display))
        while self._read(SETTLED):
            pass

    def type(self, text: str) -> None:
        """Type a line, a frame for each character."""
        for number in range(1, len(text) + 1):
            os.write(self._mine, text[number - 1].encode())
            self.wait_for(text[:number])
            self.show(TYPING)
        os.write(self._mine, b"\r")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._mine)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._mine], [], [], max(0, seconds))[0]:
            return False
        self._stream.feed(os.read(self._mine, 65536))
        return True


def _attributes(one: Any) -> str:
    color = COLORS.get(one.fg, f"#{one.fg}" if len(one.fg) == 6 else TEXT)
    bold = ' font-weight="bold"' if one.bold else ""
    slant = ' font-style="italic"' if one.italics else ""
    return f'fill="{color}"{bold}{slant}'


def recording() -> list[Frame]:
    """`skillwire chat --demo`: a question to the model, the question to the user, and the list of skills."""
    with tempfile.TemporaryDirectory() as home:
        recorder = Recorder(["chat", "--demo"], home)
        try:
            recorder.wait_for("> ")
            recorder.show(1.5)
            recorder.type("write release notes")
            recorder.wait_for("[N]o")
            recorder.show(5)
            recorder.type("y")
            recorder.wait_for("so far 3 requests")
            recorder.wait_for("> ", 2)
            recorder.show(4)
            recorder.type("/skills")
            recorder.wait_for("approved)", 2)
            recorder.wait_for("> ", 3)
            recorder.show(6)
        finally:
            recorder.end()
    return recorder.frames


def animation(frames: Sequence[Frame]) -> str:
    """Frames as SVG. A row is drawn once for every text that it has, and shown while it has it; without
    animations, the last frame is there."""
    total = sum(frame.seconds for frame in frames)
    times = [0.0, *accumulate(frame.seconds for frame in frames)]
    shown: dict[tuple[int, tuple[tuple[str, str], ...]], list[int]] = {}
    for number, frame in enumerate(frames):
        for row, pieces in enumerate(frame.rows):
            if pieces:
                shown.setdefault((row, pieces), []).append(number)
    rules: list[str] = []
    lines: list[str] = []
    for place, ((row, pieces), numbers) in enumerate(shown.items()):
        steps = [
            (times[at], at in numbers)
            for at in range(len(frames))
            if at == 0 or (at in numbers) != (at - 1 in numbers)
        ]
        is_last = len(frames) - 1 in numbers
        text = "".join(f"<tspan {how}>{escape(said)}</tspan>" for said, how in pieces)
        name = ""
        if len(steps) > 1 or not is_last:
            keys = "".join(f"{100 * at / total:.2f}%{{opacity:{int(on)}}}" for at, on in steps)
            rules.append(f"@keyframes k{place}{{{keys}}}#r{place}{{animation-name:k{place}}}")
            name = f' id="r{place}" opacity="{int(is_last)}"'
        lines.append(f'<text{name} x="12" y="{TOP + LINE * row}" xml:space="preserve">{text}</text>')
    width, height = 24 + 8.4 * COLUMNS, TOP + LINE * ROWS
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" role="img">',
            "<title>A session: a model asks for a skill of a server, the user approves its files, and the "
            "model uses it</title>",
            f"<style>text{{font:14px ui-monospace,Menlo,Consolas,monospace;animation:{total:g}s step-end "
            "infinite}",
            "@media (prefers-reduced-motion:reduce){text{animation:none!important}}",
            *rules,
            "</style>",
            f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
            *lines,
            "</svg>",
            "",
        ]
    )


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / "overview.svg").write_text(diagram(), "utf-8")
    (TARGET / "chat.svg").write_text(animation(recording()), "utf-8")


if __name__ == "__main__":
    main()
