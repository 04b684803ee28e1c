"""Who signed a skill of a host: from its entry and one small file, before anything else is fetched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from skillwire.catalog.registry import RegisteredSkill
from skillwire.errors import ApprovalRequired, SkillwireError
from skillwire.skill.entries import SkillEntry
from skillwire.trust.approval import Reason
from skillwire.trust.oms import SIGNATURE_FILE
from skillwire.trust.publishers import Publisher
from skillwire.trust.signatures import (
    UNSIGNED,
    SignatureState,
    SignatureVerdict,
    check_signature,
    skill_files,
)
from skillwire.trust.verify import VerifiedFile


async def signature_of(
    preview: Callable[[str], Awaitable[VerifiedFile]], entry: SkillEntry, publishers: Sequence[Publisher]
) -> SignatureVerdict:
    """Who signed a skill, over which of its files. A signature file that cannot be read proves nothing."""
    files = skill_files(entry)
    if files is None or SIGNATURE_FILE not in files:
        return UNSIGNED
    try:
        file = await preview(SIGNATURE_FILE)
    except SkillwireError as error:
        return SignatureVerdict(SignatureState.INVALID, reason=f"{SIGNATURE_FILE} cannot be read: {error}")
    return check_signature(files, file.data, publishers, now=datetime.now(UTC))


def require_publishers(skill: RegisteredSkill, verdict: SignatureVerdict, required: Sequence[str]) -> None:
    """Refuse a skill unless each of these publishers signed exactly its files."""
    for name in required:
        if not verdict.is_signed or verdict.publisher != name:
            raise ApprovalRequired(
                f"{skill.handle} from {skill.origin} is refused: its server requires the publisher {name}, "
                f"and the skill is {verdict}; ask its operator for a signed one",
                reason=Reason.DENIED,
                origin=skill.origin.label,
                uri=skill.uri,
            )
