"""A folder of skills that has something of everything a peer might trip over."""

from __future__ import annotations

from pathlib import Path

# The suite and the Inspector accept only ASCII names, and both drop the newline before the closing `---`,
# so no name here is beyond ASCII and no block scalar is the last key: those have tests of their own.
REFUNDS = """\
---
name: refunds
description: "Refund an order: check, approve, pay. Use when a customer asks for money back."
license: Apache-2.0
version: 1.10
released: 2024-01-01
enabled: yes
opens: 12:30
mode: 0o17
nothing: ~
tags: [billing, "42", 42, 4.0, true]
notes: |
  Two lines,
  with an umlaut: ü.
metadata:
  author: acme
  com.example/reviewed: "true"
---
# Refunds
See [the mail](examples/email.md).
"""

SKILLS = (
    "acme/billing/refunds",
    "atlas",
    "atlas/routes/map-reading",
    "notes",
    *(f"team/page-{number:02}" for number in range(8)),
)
PAGE_SIZE = 5


def plant(root: Path) -> Path:
    """Write the tree under `root` and give the folder to serve."""
    folder = root / "skills"
    # The first listed skill has folders, one of them empty: the suite's directory scenario looks there.
    _write(folder / "acme/billing/refunds/SKILL.md", REFUNDS.encode())
    _write(folder / "acme/billing/refunds/examples/email.md", b"Dear customer,\r\nyour money is back.\r\n")
    _write(folder / "acme/billing/refunds/examples/deep/er/still.txt", b"deep\n")
    (folder / "acme/billing/refunds/drafts").mkdir()
    # A nested skill, whose files are the enclosing skill's too.
    _skill(folder / "atlas", "Find a place on a map.")
    _write(folder / "atlas/every-byte.bin", bytes(range(256)))
    _write(folder / "atlas/empty.txt", b"")
    _skill(folder / "atlas/routes/map-reading", "Read a map.")
    _write(folder / "atlas/routes/map-reading/legend.svg", b"<svg xmlns='urn:x'/>")
    # Bytes that a careless server changes on the way, and names that need percent-encoding.
    _skill(folder / "notes", "Take notes.", start="\ufeff", newline="\r\n")
    _write(folder / "notes/bom.txt", "\ufeffbyte order mark\n".encode())
    _write(folder / "notes/crlf and cr.txt", b"one\r\ntwo\rthree\n")
    _write(folder / "notes/été 100%/#1?.md", "naïve\u2028\n".encode())
    _write(folder / "notes/latin-1.txt", "é".encode("latin-1"))
    # Enough skills for several pages.
    for number in range(8):
        _skill(folder / f"team/page-{number:02}", f"Skill number {number}.")
    return folder


def _skill(folder: Path, description: str, *, start: str = "", newline: str = "\n") -> None:
    lines = ["---", f"name: {folder.name}", f"description: {description}", "---", f"# {folder.name}", ""]
    _write(folder / "SKILL.md", (start + newline.join(lines)).encode())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
