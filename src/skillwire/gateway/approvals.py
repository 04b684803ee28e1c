"""Approvals of callers: what has to be approved, and what each caller has approved."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Final

from skillwire.errors import ApprovalRequired, SkillwireError
from skillwire.gateway.callers import Caller
from skillwire.gateway.upstreams import Offer
from skillwire.host.approvals.store import ApprovalStore
from skillwire.skill.digests import SetDigest, digest_of
from skillwire.trust.admission import Candidate
from skillwire.trust.approval import Approval, Coverage, FileChange, ResourceSet, approve, coverage
from skillwire.trust.verify import check_entry

_MOST_SEEN: Final = 10_000

_log = logging.getLogger("skillwire.gateway")


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller has to be asked: may this skill be loaded with exactly these files?"""

    offer: Offer
    digest: SetDigest | None
    """Of all its files; `None` for a skill that is generated on request, where the answer is for `seen`."""
    seen: ResourceSet = frozenset()
    changes: tuple[FileChange, ...] = ()
    """What differs from what was approved before."""

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
        question: Question | None,
        was_declined: bool = False,
    ) -> None:
        super().__init__(message, reason=reason, origin=offer.skill.origin.label, uri=offer.uri)
        self.question = question
        self.offer = offer
        self.was_declined = was_declined
        """Whether the caller said no to exactly these files on the review page."""


class Approvals:
    """The approvals of all callers: in the store, or in memory for skills that are generated on request."""

    def __init__(self, store: ApprovalStore) -> None:
        self.store = store
        self.problem = ""
        """Why approvals cannot be read now. Nothing that needs one is loaded then."""
        self._seen: dict[tuple[str, str, str], Approval] = {}

    async def refresh(self) -> None:
        """Read what other processes approved and revoked."""
        try:
            await self.store.refresh()
            self.problem = ""
        except SkillwireError as error:
            if not self.problem:
                _log.warning("%s", error)
            self.problem = str(error)

    def of(self, caller: Caller, offer: Offer) -> Approval | None:
        skill = offer.skill
        if skill.entry.is_dynamic:
            return self._seen.get((caller.name, skill.origin.label, skill.uri))
        return self.store.get(skill.origin, skill.uri, caller=caller.name)

    def facts(self, caller: Caller, offer: Offer, seen: ResourceSet) -> Candidate:
        """What the admission of a skill for a caller depends on."""
        skill = offer.skill
        return replace(
            offer.upstream.host.feed.candidate(skill),
            approval=self.of(caller, offer),
            withdrawn=self.store.withdrawn(skill.origin, skill.uri, caller=caller.name),
            declined=self.is_declined(caller, offer),
            seen=seen,
        )

    def is_declined(self, caller: Caller, offer: Offer) -> bool:
        """Whether the caller's last decision was a no to exactly these files, on the review page."""
        declined = self.store.declined(offer.skill.origin, offer.skill.uri, caller=caller.name)
        return declined is not None and declined == offer.digest

    async def keep(self, caller: Caller, question: Question, *, how: str) -> None:
        """Record a caller's yes to exactly what they were asked about."""
        offer = question.offer
        skill = offer.skill
        approval = approve(check_entry(skill.entry), skill.origin, seen=question.seen)
        if approval.bound:
            await self.store.put(approval, skill.entry, how=how, caller=caller.name)
            return
        key = (caller.name, skill.origin.label, skill.uri)
        before = self._seen.pop(key, None)
        self._seen[key] = approval
        if before is not None:
            self._seen[key] = replace(approval, resources=approval.resources | before.resources)
        while len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]

    def forget_changed(self, caller: Caller, offer: Offer) -> None:
        """End an approval that is for another set of files than the skill has now (SEC-6)."""
        skill = offer.skill
        kept = self.store.get(skill.origin, skill.uri, caller=caller.name)
        if kept is not None and coverage(kept, skill.origin, skill.entry) is Coverage.OTHER:
            self.store.withdraw(skill.origin, skill.uri, caller=caller.name)
