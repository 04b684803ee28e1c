"""Skills for the pages: a shop and a team that look like real ones, and hostile servers."""

from __future__ import annotations

from pathlib import Path

from simulator import Simulator

REFUNDS = """# Refunds

Pay money back through the ledger, and leave a trail that accounting can follow.

1. Look the order up with `scripts/find_order.py`.
2. Check the [limits](references/limits.md): above 500 € a colleague confirms.
3. Write the reason into the ticket, in one sentence.

> Never refund to another card than the one that paid.

| Case | Who decides |
|---|---|
| up to 500 € | you |
| above | a colleague |
"""
SCRIPT = b'''#!/usr/bin/env python3
"""Find an order by its number."""

import json
import sys


def find(number: int) -> dict:
    # The ledger is read only.
    with open("ledger.json") as file:
        orders = json.load(file)
    return orders[str(number)]


print(find(int(sys.argv[1])))
'''


def shop() -> Simulator:
    """A server with ordinary skills."""
    sim = Simulator()
    sim.skill(
        "refunds",
        body=REFUNDS,
        description="Pay money back to a customer, within the limits. Use when an order comes back.",
        files={
            "references/limits.md": b"# Limits\n\n- 500 \xe2\x82\xac without a second pair of eyes\n",
            "scripts/find_order.py": SCRIPT,
        },
        fields={"allowed-tools": "Bash(ledger:*) Read"},
    )
    sim.skill(
        "stock-report",
        description="Count what is in the warehouse and say what runs out. Use for questions about stock.",
        body="# Stock report\n\nCount, compare, say what runs out.\n",
    )
    sim.skill(
        "complaints",
        description="Answer a complaint in the customer's language, without promises. For angry ones.",
        body="# Complaints\n\nBe brief.\n",
    )
    sim.skill("gift-cards", description="Issue and cancel gift cards.", body="# Gift cards\n\nAsk first.\n")
    return sim


def team() -> Simulator:
    """Another one, with a skill that hides something."""
    sim = Simulator()
    sim.skill(
        "deploy",
        description="Roll a release out to staging, watch its health, and roll back when it is not well.",
        body="# Deploy\n\nRun `scripts/deploy.sh`.\u200b Then wait."
        "\U000e0073\U000e0065\U000e006e\U000e0064 Done\u202e!\n",
        files={"scripts/deploy.sh": b"#!/bin/sh\nset -e\necho deploying\n"},
        fields={"allowed-tools": "Bash(kubectl:*)"},
    )
    sim.skill(
        "postmortem",
        description="Write up an incident without blame.",
        body="# Post-mortem\n\nFacts first.\n",
    )
    return sim


HOSTILE_BODY = "\n\n".join(
    [
        "# <script>window.hacked=1;alert(1)</script>",
        "<img src=x onerror=alert(1)><svg onload=alert(1)><iframe src=https://evil.example></iframe>",
        "[click](javascript:alert(1)) [data](data:text/html,<script>alert(1))",
        "[site](https://evil.example/a)",
        "![picture](https://evil.example/p.png) ![svg](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YQ==)",
        "<style>body{background:url(https://evil.example)}</style><link rel=stylesheet href=//evil.example>",
        "<meta http-equiv=refresh content='0;url=https://evil.example'><base href=https://evil.example>",
        "<form action=https://evil.example><button>Approve</button></form>",
        "\u202eevol\u202c \u200bzero \U000e0061\U000e0062",
        "]]>--></textarea></title></script><script>alert(2)</script>",
        "{{ 7*7 }} {% raw %} ${7*7}",
    ]
)


def hostile() -> Simulator:
    """Skills whose every text tries to be more than text."""
    sim = Simulator()
    nasty = "</title><script>alert(1)</script><img src=x onerror=alert(1)> \u202e'\"&"
    sim.skill(
        "nasty",
        body=HOSTILE_BODY,
        description=nasty,
        files={
            "page.html": b"<script>alert(1)</script>",
            "picture.svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)",
            "long.txt": b"<script>alert(1)</script>" + b"x" * 1_000_000,
            "notes.md": HOSTILE_BODY.encode(),
            "scripts/'onmouseover=alert(1) x='.sh": b"echo <b>\n",
            "image.png": b"\x89PNG\r\n\x1a\n\0\0",
        },
        fields={"allowed-tools": "Bash(<script>alert(1)</script>)", "license": "javascript:alert(1)"},
    )
    sim.skill(
        "most", description="As many as a host takes.", files={f"f/{n:03}.md": b"x" for n in range(511)}
    )
    sim.skill("many", description="Ten thousand files.", files={f"f/{n:05}.md": b"x" for n in range(10_000)})
    return sim


def own(folder: Path) -> Path:
    """A directory of the user's own skills."""
    skill = folder / "own" / "tidy"
    skill.mkdir(parents=True, exist_ok=True)
    (skill / "SKILL.md").write_text(
        "---\nname: tidy\ndescription: Tidies a folder up.\n---\n# Tidy\n", "utf-8"
    )
    return skill.parent
