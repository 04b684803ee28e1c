"""The skills of the April-draft servers: what their index, their resources and their templates hold.

One table for the Python server and, through `python april_skills.py`, as JSON for the TypeScript one.
"""

from __future__ import annotations

import json
from typing import Any, Final

REFUNDS: Final = """---
name: refunds
description: Refund a customer. Use when somebody asks for their money back.
short-description: Refund a customer
---
# Refunds

Read [the limits](references/limits.md) first.
"""
LIMITS: Final = "# Limits\n\nNo refund over 500.\n"
RUN: Final = "print('refund')\n"
BARE: Final = "---\nname: bare\ndescription: Only its file says what it is for.\n---\nBare text.\n"
PRODUCT: Final = "---\nname: {product}\ndescription: How {product} works.\n---\nAll about {product}.\n"
PRODUCTS: Final = ("widget", "gadget")

FULL: Final[list[dict[str, Any]]] = [
    {
        "type": "skill-md",
        "name": "refunds",
        "description": "Refund a customer. Use when somebody asks for their money back.",
        "url": "skill://refunds/SKILL.md",
    },
    {
        "type": "mcp-resource-template",
        "description": "How a product works.",
        "url": "skill://docs/{product}/SKILL.md",
    },
]
MINIMAL: Final[list[dict[str, Any]]] = [
    {"type": "skill-md", "url": "skill://refunds/SKILL.md"},
    {"url": "skill://bare"},
]
MALFORMED: Final[list[Any]] = [
    *FULL,
    "not an object",
    {"type": "skill-md", "name": "no-url", "description": "It has no url."},
    {"type": "hologram", "name": "odd", "description": "Of an unknown type.", "url": "skill://odd/SKILL.md"},
    {"type": "skill-md", "name": "escape", "description": "Leaves.", "url": "skill://../../etc/passwd"},
    {"type": "skill-md", "name": "file", "description": "A file.", "url": "file:///etc/passwd"},
    {"type": "skill-md", "name": "refunds", "description": "Twice.", "url": "skill://other/refunds/SKILL.md"},
    {"type": "archive", "name": "packed", "description": "An archive.", "url": "skill://packed.tar.gz"},
    {
        "type": "mcp-resource-template",
        "description": "Never resolves.",
        "url": "skill://docs/{unclosed/SKILL.md",
    },
]
HOSTILE: Final[list[dict[str, Any]]] = [
    {
        "type": "skill-md",
        "name": f"s{number}",
        "description": "One of many.",
        "url": f"skill://s{number}/SKILL.md",
    }
    for number in range(60_000)
]
INDEXES: Final[dict[str, list[Any]]] = {"full": FULL, "minimal": MINIMAL, "malformed": MALFORMED}


def index_text(kind: str) -> str:
    """`skill://index.json` of this kind."""
    match kind:
        case "not-json":
            return "{skills: [}"
        case "huge":
            return json.dumps({"skills": HOSTILE})
        case _:
            return json.dumps({"skills": INDEXES[kind]})


def resources() -> dict[str, tuple[str, str]]:
    """Every listed resource but the index: its media type and text."""
    return {
        "skill://refunds/SKILL.md": ("text/markdown", REFUNDS),
        "skill://refunds/references/limits.md": ("text/markdown", LIMITS),
        "skill://refunds/scripts/run.py": ("text/x-python", RUN),
        "skill://other/refunds/SKILL.md": ("text/markdown", REFUNDS),
        "skill://bare": ("text/markdown", BARE),
        "doc://readme": ("text/plain", "A resource that is no skill.\n"),
    }


def unlisted() -> dict[str, tuple[str, str]]:
    """What can be read and is in no list: the skills behind the template, and one that nobody mentions."""
    made = {
        f"skill://docs/{name}/SKILL.md": ("text/markdown", PRODUCT.format(product=name)) for name in PRODUCTS
    }
    made["skill://hidden/SKILL.md"] = (
        "text/markdown",
        "---\nname: hidden\ndescription: In no index.\n---\nHidden text.\n",
    )
    return made


def as_json() -> str:
    """All of it for a server in another language."""
    return json.dumps(
        {
            "indexes": {kind: index_text(kind) for kind in (*INDEXES, "not-json", "huge")},
            "resources": resources(),
            "unlisted": unlisted(),
            "products": PRODUCTS,
        }
    )
