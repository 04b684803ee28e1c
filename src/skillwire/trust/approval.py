"""Approval: what the user agreed to, and whether it covers a skill as it is now (SEC-5, SEC-6).

An approval is bound to the set of (uri, digest) of a skill's files. Any other set is another skill and is
asked about again. A dynamic skill has no such set: the user can agree only to what was seen, and that
agreement ends with the session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from skillwire.errors import ApprovalRequired
from skillwire.skill.digests import Digest
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SkillUri, is_inside, skill_root
from skillwire.trust.origin import Origin
from skillwire.trust.verify import CheckedEntry, VerifiedFile

ResourceSet: TypeAlias = frozenset[tuple[SkillUri, Digest]]


class Policy(StrEnum):
    """What a user says about all skills of one server."""

    PROMPT = "prompt"
    """Ask about what is not approved."""
    PINNED = "pinned"
    """Only what is approved; do not ask."""
    ALWAYS = "always"
    """Load without asking. Covers neither grants nor nested skills."""
    NEVER = "never"
    """Nothing, approved or not."""


class Reason(StrEnum):
    """Why a skill may not be loaded as it is."""

    NEW = "new"
    CHANGED = "changed"
    UNBINDABLE = "unbindable"
    DENIED = "denied"


class ChangeKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, order=True)
class FileChange:
    """One file that differs from what was approved."""

    uri: SkillUri
    kind: ChangeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """What a skill may do beyond being read. Each is given by the user, for one skill (SEC-2, SEC-4)."""

    allowed_tools: bool = False
    execute_code: bool = False


NO_GRANTS: Final = Grants()
ALL_GRANTS: Final = Grants(allowed_tools=True, execute_code=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What the user agreed to. Only a `bound` one may be kept beyond the session (SEC-6)."""

    origin: Origin
    uri: SkillUri
    resources: ResourceSet
    grants: Grants = NO_GRANTS
    bound: bool = True


@dataclass(frozen=True, slots=True)
class Allowed:
    """The skill may be loaded, with these grants."""

    grants: Grants


@dataclass(frozen=True, slots=True)
class Ask:
    """The user has to be asked first."""

    reason: Reason
    changes: tuple[FileChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Denied:
    """The skill may not be loaded, and the user does not want to be asked."""

    policy: Policy
    reason: Reason
    changes: tuple[FileChange, ...] = ()


Decision: TypeAlias = Allowed | Ask | Denied


def resource_set(entry: SkillEntry) -> ResourceSet:
    """What an approval of this entry is bound to; empty for a dynamic skill."""
    if entry.resources is DYNAMIC:
        return frozenset()
    return frozenset((resource.uri, resource.digest) for resource in entry.resources)


def seen_set(files: Iterable[VerifiedFile]) -> ResourceSet:
    """What was seen of a dynamic skill."""
    return frozenset((file.uri, file.digest) for file in files)


def approve(
    entry: CheckedEntry, origin: Origin, *, grants: Grants = NO_GRANTS, seen: ResourceSet = frozenset()
) -> Approval:
    """The approval that a user's yes stands for. A dynamic skill is approved for `seen` alone."""
    return Approval(
        origin=origin,
        uri=entry.uri,
        resources=seen if entry.is_dynamic else resource_set(entry),
        grants=grants,
        bound=not entry.is_dynamic,
    )


def decide(
    entry: CheckedEntry,
    origin: Origin,
    policy: Policy,
    approval: Approval | None,
    *,
    nested: bool,
    seen: ResourceSet = frozenset(),
) -> Decision:
    """Whether a skill may be loaded, as its entry is now.

    `nested` is what `is_nested` says. `seen` is what was retrieved of a dynamic skill, the file in question
    included: ask again for every file that is not in the approval.
    """
    if origin.is_local:
        # The user's own files need no approval; they are labelled like all others.
        return Allowed(ALL_GRANTS)
    if policy is Policy.NEVER:
        return Denied(policy, Reason.DENIED)
    if approval is not None and (approval.origin, approval.uri) != (origin, entry.uri):
        # ENT-4: an approval of another server or skill counts for nothing here.
        approval = None
    if approval is not None and _covers(approval, entry, seen):
        return Allowed(approval.grants)
    if policy is Policy.ALWAYS and not nested:
        # SEC-2, SEC-4: a policy never grants anything; SEC-5: and never covers a nested skill.
        return Allowed(NO_GRANTS)
    reason, changes = _objection(entry, approval)
    return Denied(policy, reason, changes) if policy is Policy.PINNED else Ask(reason, changes)


def difference(old: ResourceSet, new: ResourceSet) -> tuple[FileChange, ...]:
    """File by file, what is in one set and not in the other."""
    before = {uri for uri, _ in old}
    after = {uri for uri, _ in new}
    changes = [FileChange(uri, ChangeKind.ADDED) for uri in after - before]
    changes += [FileChange(uri, ChangeKind.REMOVED) for uri in before - after]
    differing = {uri for uri, _ in old ^ new}
    changes += [FileChange(uri, ChangeKind.CHANGED) for uri in differing & before & after]
    return tuple(sorted(changes))


def is_nested(uri: SkillUri, uris: Iterable[SkillUri]) -> bool:
    """Whether a skill lies inside another one of the same origin (FMT-8, SEC-5)."""
    return any(other != uri and is_inside(uri, skill_root(other)) for other in uris)


def require(decision: Decision, entry: CheckedEntry, origin: Origin) -> Grants:
    """The grants of a skill that may be loaded; `ApprovalRequired` for any other decision."""
    if isinstance(decision, Allowed):
        return decision.grants
    changes = decision.changes
    raise ApprovalRequired(
        f"{entry.uri} from {origin} {_words(decision.reason, changes)}: {_remedy(decision)}",
        reason=decision.reason,
        origin=origin.label,
        uri=entry.uri,
        added=_uris(changes, ChangeKind.ADDED),
        changed=_uris(changes, ChangeKind.CHANGED),
        removed=_uris(changes, ChangeKind.REMOVED),
    )


def _covers(approval: Approval, entry: CheckedEntry, seen: ResourceSet) -> bool:
    if entry.is_dynamic:
        # SEC-6: what was not seen was not approved, and nothing seen is nothing approved.
        return not approval.bound and bool(seen) and seen <= approval.resources
    return approval.bound and approval.resources == resource_set(entry)


def _objection(entry: CheckedEntry, approval: Approval | None) -> tuple[Reason, tuple[FileChange, ...]]:
    if entry.is_dynamic:
        return Reason.UNBINDABLE, ()
    if approval is None:
        return Reason.NEW, ()
    return Reason.CHANGED, difference(approval.resources, resource_set(entry))


def _words(reason: Reason, changes: tuple[FileChange, ...]) -> str:
    if reason is Reason.CHANGED:
        counts = {kind: sum(change.kind is kind for change in changes) for kind in ChangeKind}
        said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        return f"changed since it was approved ({said or 'now with a fixed list of files'})"
    return {
        Reason.NEW: "is not approved",
        Reason.UNBINDABLE: "is made on request, so only what was seen can be approved",
        Reason.DENIED: "may not be loaded",
    }[reason]


def _remedy(decision: Ask | Denied) -> str:
    if isinstance(decision, Ask):
        return "look at it and approve it"
    way_out = "to load it" if decision.policy is Policy.NEVER else "or approve the skill"
    return f"the policy of its server is {decision.policy}; change that {way_out}"


def _uris(changes: tuple[FileChange, ...], kind: ChangeKind) -> tuple[SkillUri, ...]:
    return tuple(change.uri for change in changes if change.kind is kind)
