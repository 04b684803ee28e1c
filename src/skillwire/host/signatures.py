"""Who signed the skills of a host: from an entry and one small file, before anything else is fetched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

import anyio

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill
from skillwire.errors import SkillwireError
from skillwire.host.events import Event, EventKind, skill_event
from skillwire.skill.entries import DYNAMIC, SkillEntry, SkillResource
from skillwire.skill.uris import skill_root
from skillwire.trust.approval import ResourceSet, resource_set
from skillwire.trust.oms import MAX_BUNDLE_BYTES, SIGNATURE_FILE
from skillwire.trust.origin import Origin
from skillwire.trust.publishers import Publisher
from skillwire.trust.signatures import (
    UNSIGNED,
    SignatureState,
    SignatureVerdict,
    check_signature,
    skill_files,
)
from skillwire.trust.verify import VerifiedFile

Preview: TypeAlias = Callable[[RegisteredSkill, str], Awaitable[VerifiedFile]]
_TOGETHER: Final = 16


class Signatures:
    """The signatures of a host's skills. Each is checked when it is needed, and again when files change."""

    def __init__(
        self,
        publishers: Iterable[Publisher],
        *,
        required: Callable[[Origin], Sequence[str]],
        tell: Callable[[Event], None],
    ) -> None:
        self.publishers = tuple(publishers)
        self._required = required
        self._tell = tell
        self._checked: dict[SkillKey, tuple[ResourceSet, SignatureVerdict]] = {}

    def required(self, origin: Origin) -> tuple[str, ...]:
        """The publishers who must have signed every skill of an origin."""
        return tuple(self._required(origin))

    def known(self, skill: RegisteredSkill) -> SignatureVerdict | None:
        """What is known without fetching anything; `None` when the signature has not been checked yet."""
        if _signature_resource(skill.entry) is None:
            return UNSIGNED
        checked = self._checked.get(skill.key)
        return checked[1] if checked is not None and checked[0] == resource_set(skill.entry) else None

    async def check(
        self, skill: RegisteredSkill, preview: Preview, publishers: Sequence[Publisher] | None = None
    ) -> SignatureVerdict:
        """Who signed a skill as it is listed now; at most its signature file is fetched.

        With `publishers`, these count and not those of the host.
        """
        signature = _signature_resource(skill.entry)
        if signature is None:
            return UNSIGNED
        verdict = self.known(skill) if publishers is None else None
        if verdict is not None and not verdict.is_unread:
            return verdict
        if signature.size > MAX_BUNDLE_BYTES:
            verdict = SignatureVerdict(SignatureState.INVALID, reason=f"{SIGNATURE_FILE} is too long")
        else:
            verdict = await self._read(skill, preview, self.publishers if publishers is None else publishers)
        if publishers is None:
            self._checked[skill.key] = (resource_set(skill.entry), verdict)
            message = f"{skill.handle} from {skill.origin}: {verdict}"
            self._tell(skill_event(EventKind.SIGNATURE, skill, message))
        return verdict

    async def _read(
        self, skill: RegisteredSkill, preview: Preview, publishers: Sequence[Publisher]
    ) -> SignatureVerdict:
        try:
            file = await preview(skill, SIGNATURE_FILE)
        except SkillwireError as error:
            # It proves nothing, and is read again when it is next needed.
            reason = f"{SIGNATURE_FILE} cannot be read: {error}"
            return SignatureVerdict(SignatureState.INVALID, reason=reason, is_unread=True)
        files = skill_files(skill.entry) or {}
        return check_signature(files, file.data, publishers, now=datetime.now(UTC))

    async def check_all(self, skills: Iterable[RegisteredSkill], preview: Preview) -> None:
        """Check many skills concurrently; `known` has the verdicts then."""
        limiter = anyio.CapacityLimiter(_TOGETHER)

        async def check(skill: RegisteredSkill) -> None:
            async with limiter:
                await self.check(skill, preview)

        async with anyio.create_task_group() as tasks:
            for skill in skills:
                tasks.start_soon(check, skill)


def _signature_resource(entry: SkillEntry) -> SkillResource | None:
    """The signature file that an entry lists."""
    if entry.resources is DYNAMIC:
        return None
    uri = f"{skill_root(entry.uri)}/{SIGNATURE_FILE}"
    return next((resource for resource in entry.resources if resource.uri == uri), None)
