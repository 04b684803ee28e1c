"""The skills that a server's instructions name (LST-3)."""

from __future__ import annotations

import re
from typing import Final

from skillwire.limits import Limits
from skillwire.skill.uris import SKILL_FILE

_BETWEEN: Final = re.compile(r"[\s<>\"'`()\[\]{},]+")
_END: Final = f"/{SKILL_FILE}"


def mentioned_skills(instructions: str, limits: Limits) -> list[str]:
    """What looks like the URI of a skill, each once; only its server can say whether it is one (FMT-5).

    The text is cut into words and each is looked at once, so that no text takes longer than its length.
    """
    found: dict[str, None] = {}
    for word in _BETWEEN.split(instructions[: limits.instructions_chars]):
        text = word.rstrip(".;:!?")
        if text.endswith(_END) and "://" in text and len(text) <= limits.uri_bytes:
            found[text] = None
    return list(found)[: limits.linked_skills]
