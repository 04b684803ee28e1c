"""Approvals: what the callers of a gateway approved, and what one has to be asked about a skill.

Nothing here needs the MCP SDK: a gateway answers its first lists before that is imported.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from skillwire.access import Caller
from skillwire.consent import ApprovalStatus, ConsentStore, Key, consider
from skillwire.errors import ApprovalRequired, SkillwireError
from skillwire.gateway.upstreams import Offer
from skillwire.skill import SetDigest, SkillResource, digest_of
from skillwire.trust import (
    AdmissionRequest,
    FileChange,
    ResourceSet,
    Scan,
    approve,
    check_entry,
    is_outdated,
)

_log = logging.getLogger("skillwire.gateway")


@dataclass(frozen=True, slots=True)
class CallerQuestion:
    """A question to a caller: may this skill be loaded with exactly these files?"""

    offer: Offer
    digest: SetDigest | None
    """Of all its files; `None` for a skill without digests, where the answer is for `files` alone."""
    files: tuple[SkillResource, ...]
    """Every file that a yes covers."""
    changes: tuple[FileChange, ...] = ()
    """Differences from the version that was approved before."""
    scans: tuple[Scan, ...] = ()
    """The findings of the scanners of the policy."""

    @property
    def seen(self) -> ResourceSet:
        return frozenset((file.uri, file.digest) for file in self.files)

    @property
    def subject(self) -> tuple[str, str, str]:
        """The skill and the set of files, as plain values to compare and to sign."""
        seen = "".join(sorted(f"{uri} {digest}\n" for uri, digest in self.seen))
        return self.offer.skill.origin.label, self.offer.skill.uri, self.digest or digest_of(seen.encode())


class Unapproved(ApprovalRequired):
    """A caller has to approve a skill before it is loaded. `question` is `None` if nobody may be asked."""

    def __init__(
        self,
        message: str,
        *,
        offer: Offer,
        reason: str,
        question: CallerQuestion | None,
        status: ApprovalStatus,
        policy: str = "",
    ) -> None:
        super().__init__(message, reason=reason, origin=offer.skill.origin.label, uri=offer.uri)
        self.policy = policy
        """Why the policy refuses it, whoever approves it; empty if it does not."""
        self.question = question
        self.offer = offer
        self.status = status
        """The state of the skill for this caller, in the words that the user sees everywhere."""


class Approvals:
    """Approvals by the callers of a gateway, in the store of its host."""

    def __init__(self, store: ConsentStore) -> None:
        self.store = store
        self.problem = ""
        """Why approvals cannot be read now. Nothing that needs one is loaded then."""

    async def refresh(self) -> None:
        """Read what other processes approved and revoked."""
        try:
            await self.store.refresh()
            self.problem = ""
        except SkillwireError as error:
            if not self.problem:
                _log.warning("%s", error)
            self.problem = str(error)

    def is_known(self, caller: Caller, offer: Offer) -> bool:
        """Whether a caller approved or declined any version of a skill."""
        key = self._key(caller, offer)
        return bool(self.store.record(key).last.decision) or self.store.session(key) is not None

    def candidate(self, caller: Caller, offer: Offer, seen: ResourceSet = frozenset()) -> AdmissionRequest:
        """Return the facts that the admission of a skill for a caller depends on."""
        key = self._key(caller, offer)
        facts = replace(offer.upstream.host.feed.candidate(offer.skill), seen=seen)
        return consider(facts, self.store.record(key), session=self.store.session(key))

    async def keep(self, caller: Caller, question: CallerQuestion, *, how: str) -> None:
        """Record a caller's yes to exactly what they were asked about."""
        skill = question.offer.skill
        key = self._key(caller, question.offer)
        approval = approve(check_entry(skill.entry), skill.origin, seen=question.seen)
        if approval.bound:
            await self.store.approve(key, approval, skill.entry, how=how)
        else:
            self.store.approve_for_session(key, approval)

    def end_outdated(self, caller: Caller, offer: Offer) -> None:
        """End an approval that is for another set of files than the skill has now (SEC-6)."""
        key = self._key(caller, offer)
        skill = offer.skill
        if is_outdated(self.store.record(key).approval(skill.origin), skill.origin, skill.entry):
            self.store.end(key)

    def _key(self, caller: Caller, offer: Offer) -> Key:
        return self.store.key(offer.skill.origin, offer.skill.uri, caller.name)
