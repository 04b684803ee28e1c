"""Who signed a skill of a host: from its entry and one small file, before anything else is fetched."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from skillwire.catalog.registry import RegisteredSkill
from skillwire.errors import SkillwireError
from skillwire.trust.oms import SIGNATURE_FILE
from skillwire.trust.signatures import (
    UNSIGNED,
    Publisher,
    SignatureState,
    SignatureVerdict,
    check_signature,
    skill_files,
)
from skillwire.trust.verify import VerifiedFile


class Previewer(Protocol):
    """What is needed of a host: to read a file of a skill for a person, without loading the skill."""

    async def preview(self, name: str, path: str = ..., *, server: str | None = ...) -> VerifiedFile: ...


async def signature_of(
    host: Previewer, skill: RegisteredSkill, publishers: Sequence[Publisher]
) -> SignatureVerdict:
    """Who signed a skill, over which of its files. A signature file that cannot be read proves nothing."""
    files = skill_files(skill.entry)
    if files is None or SIGNATURE_FILE not in files:
        return UNSIGNED
    try:
        file = await host.preview(skill.handle, SIGNATURE_FILE)
    except SkillwireError as error:
        return SignatureVerdict(SignatureState.INVALID, reason=f"{SIGNATURE_FILE} cannot be read: {error}")
    return check_signature(files, file.data, publishers, now=datetime.now(UTC))
