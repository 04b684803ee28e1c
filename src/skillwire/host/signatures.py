"""Signatures: who signed the skills of a host. Each is checked when it is needed, and again when files
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import anyio

from skillwire.catalog import HostSkill, SkillKey, SkillTable
from skillwire.errors import SkillwireError
from skillwire.host.events import EventKind, EventRecorder, skill_event
from skillwire.host.files import SkillReader
from skillwire.host.rules import Rules
from skillwire.skill import DYNAMIC, SkillEntry, SkillResource, skill_root
from skillwire.trust import (
    MAX_BUNDLE_BYTES,
    SIGNATURE_FILE,
    UNSIGNED,
    Publisher,
    ResourceSet,
    SignatureState,
    SignatureVerdict,
    check_signature,
    resource_set,
    skill_files,
)

_TOGETHER: Final = 16


class Signatures:
    """The signatures of a host's skills. Each is checked when it is needed, and again when files change."""

    def __init__(
        self,
        publishers: Iterable[Publisher],
        *,
        rules: Rules,
        table: SkillTable,
        files: SkillReader,
        log: EventRecorder,
    ) -> None:
        self.publishers = tuple(publishers)
        self._rules = rules
        self._table = table
        self._files = files
        self._log = log
        self._checked: dict[SkillKey, tuple[ResourceSet, SignatureVerdict]] = {}
        self.revision = 0
        """A number that changes with every signature that was checked."""

    def recognize(self, publishers: Iterable[Publisher]) -> None:
        """Recognize these publishers from now on. What was checked for others is checked again."""
        recognized = tuple(publishers)
        if recognized != self.publishers:
            self.publishers = recognized
            self._checked.clear()

    def known(self, skill: HostSkill) -> SignatureVerdict | None:
        """Return the verdict without fetching anything; `None` when the signature was not checked yet."""
        if _signature_resource(skill.entry) is None:
            return UNSIGNED
        checked = self._checked.get(skill.key)
        return checked[1] if checked is not None and checked[0] == resource_set(skill.entry) else None

    async def check(
        self, skill: HostSkill, publishers: Sequence[Publisher] | None = None
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
            verdict = await self._read(skill, publishers)
        if publishers is None:
            self._checked[skill.key] = (resource_set(skill.entry), verdict)
            self.revision += 1
            message = f"{skill.handle} from {skill.origin}: {verdict}"
            self._log.record(skill_event(EventKind.SIGNATURE, skill, message))
        return verdict

    async def _read(self, skill: HostSkill, publishers: Sequence[Publisher] | None) -> SignatureVerdict:
        try:
            file = await self._files.look(skill, SIGNATURE_FILE)
        except SkillwireError as error:
            # It proves nothing, and is read again when it is next needed.
            reason = f"{SIGNATURE_FILE} cannot be read: {error}"
            return SignatureVerdict(SignatureState.INVALID, reason=reason, is_unread=True)
        files = skill_files(skill.entry) or {}
        # Not before the file was read: others may be recognized by now.
        recognized = self.publishers if publishers is None else publishers
        return check_signature(files, file.data, recognized, now=datetime.now(UTC))

    async def check_all(self, skills: Iterable[HostSkill] | None = None) -> None:
        """Check the signatures of these skills concurrently, or of all whose origin requires a publisher.

        `known` has the verdicts then, and the states of the skills say which of them are refused.
        """
        if skills is None:
            every = self._table.skills(disabled=True)
            skills = [one for one in every if self._rules.facts(one.origin).require]
        limiter = anyio.CapacityLimiter(_TOGETHER)

        async def check(skill: HostSkill) -> None:
            async with limiter:
                await self.check(skill)

        async with anyio.create_task_group() as tasks:
            for skill in skills:
                tasks.start_soon(check, skill)


def _signature_resource(entry: SkillEntry) -> SkillResource | None:
    """The signature file that an entry lists."""
    if entry.resources is DYNAMIC:
        return None
    uri = f"{skill_root(entry.uri)}/{SIGNATURE_FILE}"
    return next((resource for resource in entry.resources if resource.uri == uri), None)
