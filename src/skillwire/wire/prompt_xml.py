"""The resource `skill://prompt-xml`: the skills of a server as XML, for a host's system prompt."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from skillwire.skill.entries import SkillEntry
from skillwire.text import clean_line, escape_xml

PROMPT_XML_URI: Final = "skill://prompt-xml"


def write_prompt_xml(entries: Iterable[SkillEntry], *, limit: int = 100_000) -> bytes:
    """The skills as `<available_skills>`, at most `limit` characters; the rest are counted in a comment.

    Hidden characters and those not allowed in XML are removed (SEC-11).
    """
    skills: list[str] = []
    left_out = 0
    for entry in entries:
        skill = _skill(entry.name, entry.description, entry.uri)
        limit -= len(skill) + 1
        if limit >= 0 and not left_out:
            skills.append(skill)
        else:
            left_out += 1
    if left_out:
        skills.append(f"<!-- {left_out} more skills are not shown -->")
    return "\n".join(["<available_skills>", *skills, "</available_skills>", ""]).encode("utf-8")


@lru_cache(maxsize=16_384)
def _skill(name: str, description: str, uri: str) -> str:
    """One skill. Cached, because cleaning is slow and most skills do not change."""
    return "\n".join(
        [
            "<skill>",
            f"<name>{_text(name)}</name>",
            f"<description>{_text(description)}</description>",
            f"<location>{_text(uri)}</location>",
            "</skill>",
        ]
    )


def _text(text: str) -> str:
    return escape_xml(clean_line(text).text)
