"""The resource `skill://prompt-xml`: the skills of a server as XML, for a host's system prompt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skillwire.skill.entries import SkillEntry
from skillwire.trust.sanitize import clean_line, escape_xml

PROMPT_XML_URI: Final = "skill://prompt-xml"


def write_prompt_xml(entries: Iterable[SkillEntry]) -> bytes:
    """The skills as `<available_skills>`. What XML cannot hold and what hides is taken out (SEC-11)."""
    lines = ["<available_skills>"]
    for entry in entries:
        lines += [
            "<skill>",
            f"<name>{_text(entry.name)}</name>",
            f"<description>{_text(entry.description)}</description>",
            f"<location>{_text(entry.uri)}</location>",
            "</skill>",
        ]
    return "\n".join([*lines, "</available_skills>", ""]).encode("utf-8")


def _text(text: str) -> str:
    return escape_xml(clean_line(text).text)
