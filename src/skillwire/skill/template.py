"""The text of a new skill, for `skillwire new`. It passes the linter."""

from __future__ import annotations

from skillwire.skill.names import parse_name


def new_skill_md(name: str, description: str = "") -> str:
    """A `SKILL.md` for a skill of this name, or a `FormatError` that says what is wrong with the name."""
    checked = parse_name(name)
    title = checked.replace("-", " ").capitalize()
    said = " ".join(description.split()) or (
        f"{title}: say here in one sentence what the skill does. "
        "Use when the user asks for it, and name the words they would use."
    )
    quoted = said.replace("\\", "\\\\").replace('"', '\\"')
    return f"""---
name: {checked}
description: "{quoted}"
---

# {title}

Say in a sentence or two what a good result looks like.

## Steps

1. Write the first step as an instruction.
2. Name the commands to run and the files to read, with paths relative to this file.
3. Say how to check the result before it is shown.

## When something is missing

Say what to ask the user for, and what to do when they do not know.
"""
