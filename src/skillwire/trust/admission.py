"""Admission: the one decision on which skills are listed, offered to a model, and loaded.

`admit` takes these steps in order; the first one that applies decides.

1. Switches: an administrator, an untrusted folder or a disabled server hides every skill of an origin.
2. Selection: the configuration includes and excludes skills of a server by name.
3. Style: the emulated host does not accept such a skill.
4. Disabled: the user disabled this skill. It stays known, but is neither in the catalog nor loaded.

A skill that gets here is listed: people see it. To be loaded, it must pass the remaining steps. A model is
offered it, in the catalog and in search results, unless step 5, 8 or 10 is sure to refuse it. Step 6 does not
count for that: who signed a skill, and what a scanner finds in it, is not known before something of it is
fetched. To be installed or published, it must pass steps 5 and 6: whoever does that is asked elsewhere.

5. Policy: no layer of the policy refuses it (`trust/policy.py`). Whatever is granted below is limited by it.
6. Publisher: if the policy or the configuration requires publishers for the origin, they must have signed
   these files. If the policy has a scanner with a threshold, it must have scanned them.
7. Own files: the user's own files need no approval. Those of a project do, because others may have written
   them.
8. Approval mode `never`: nothing from that server, approved or not.
9. Approval: one for exactly these files of this skill and origin counts, with its grants (ENT-4, SEC-6): that
   of the user, or of everybody whom the policy names.
10. Declined: the user declined exactly these files, and is not asked again until they change.
11. Approval mode `always`: without grants, and not for a nested skill (SEC-2, SEC-4, SEC-5), nor for one
    whose signature changed or disappeared since it was last loaded or approved, nor where the policy wants
    an approval.
12. Approval mode `pinned`: skills that are not approved are refused without asking.
13. Otherwise the user is asked, and shown what changed since the last approval (SEC-5, SEC-6).

Pure: the caller collects the facts in an `AdmissionRequest`, and acts on the decision, whose step, cause and
remedy are values (`decision.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from skillwire.errors import ApprovalRequired, PolicyRefused
from skillwire.skill import SkillEntry, SkillUri, shown_uri
from skillwire.trust.approval import (
    NO_GRANTS,
    Approval,
    ApprovalMode,
    ChangeKind,
    Coverage,
    FileChange,
    Grants,
    Reason,
    ResourceSet,
    coverage,
    difference,
    resource_set,
)
from skillwire.trust.decision import (
    Allowed,
    Ask,
    Decision,
    Denied,
    NotSignedBy,
    Step,
    Unapproved,
    Unavailable,
    Unsupported,
)
from skillwire.trust.origin import Origin
from skillwire.trust.policy import (
    NO_POLICY,
    Policy,
    Subject,
    TeamApproval,
    may_run,
    unscanned,
    unsigned,
)
from skillwire.trust.scans import Scan
from skillwire.trust.signatures import SignatureVerdict, signer_change, signer_text


class Purpose(StrEnum):
    """The purposes for which a skill is admitted."""

    LIST = "list"
    """To be shown to people, with its approval status. Steps 1 to 4 decide."""
    OFFER = "offer"
    """To be in a model's catalog and search results. No approval is needed, as they have names and
    descriptions only; but what a load is sure to refuse, by step 5, 8 or 10, is of no use to a model."""
    INSTALL = "install"
    """To be written to the folders of agents, or published. Steps 1 to 6 decide."""
    LOAD = "load"
    """To be read by the model. All steps decide."""


# Not frozen: a listing makes ten thousand of them, and a frozen one takes twice as long. Nothing changes one.
@dataclass(slots=True, kw_only=True)
class AdmissionRequest:
    """A skill, and everything that its admission depends on. By default, there is no decision about it."""

    origin: Origin
    entry: SkillEntry
    unavailable: str = ""
    """Why nothing of the origin may be used; empty if it may."""
    selected: bool = True
    """Whether it passes the include and exclude patterns of the configuration."""
    style_refusal: str = ""
    """Why the style does not accept it; empty if it does."""
    disabled: bool = False
    approval_mode: ApprovalMode = ApprovalMode.PROMPT
    approval: Approval | None = None
    """The stored approval of the person for whom it is loaded."""
    session: Approval | None = None
    """An approval that is not stored: for this session, or for one load."""
    ended: Approval | None = None
    """The approval before the skill changed or was declined. It allows nothing, and shows what
    changed."""
    declined: bool = False
    """Whether the user's last decision was to decline exactly these files."""
    nested: bool = False
    """Whether it is inside another skill of its origin (`is_nested`)."""
    seen: ResourceSet = frozenset()
    """The files retrieved of a dynamic skill, including the requested one."""
    require: tuple[str, ...] = ()
    """The publishers who must have signed it."""
    signature: SignatureVerdict | None = None
    """Who signed the current files; `None` if that has not been checked."""
    signer: str = ""
    """The `signer_text` of its signer when it was last loaded or approved; empty if unknown."""
    scans: Mapping[str, Scan] | None = None
    """The findings of the policy's scanners in these files; `None` if it has not been scanned yet."""
    policy: Policy = NO_POLICY
    sources: tuple[str, ...] = ()
    """The names of the place that it comes from, as the patterns of a policy have them."""
    team: tuple[TeamApproval, ...] = ()
    """The signed approvals of exactly these files, from this source."""

    @property
    def subject(self) -> Subject:
        """The skill as its policy sees it."""
        return Subject(
            entry=self.entry,
            sources=self.sources or (str(self.origin),),
            seen=self.seen,
            signature=self.signature,
            scans=self.scans,
            team=self.team,
        )

    @property
    def before_scan(self) -> AdmissionRequest:
        """The same, to be decided without scanners if it has not been scanned: a load does that first."""
        if self.scans is not None or not self.policy.thresholds:
            return self
        return replace(self, policy=self.policy.without_scanners)

    @property
    def before_signature(self) -> AdmissionRequest:
        """The same without what depends on who signed it, for as long as that has not been checked: it shows
        what holds in any case.
        """
        if self.signature is not None:
            return self
        return replace(self, require=(), policy=self.policy.without_publishers)

    @property
    def signer_change(self) -> str:
        """How its signer changed; empty if it did not, or if that has not been checked."""
        if self.signature is None or not self.signer:
            return ""
        return signer_change(self.signer, signer_text(self.signature))


def admit(skill: AdmissionRequest, act: Purpose) -> Decision:
    """Decide whether a skill may be listed, or loaded with its current entry. The steps are numbered as
    above.
    """
    # 1. Switches.
    if skill.unavailable:
        return Denied(Step.SWITCHES, Unavailable(skill.unavailable))
    # 2. Selection.
    if not skill.selected:
        return Denied(Step.SELECTION)
    # 3. Style.
    if skill.style_refusal:
        return Denied(Step.STYLE, Unsupported(skill.style_refusal))
    # 4. Disabled.
    if skill.disabled:
        return Denied(Step.DISABLED)
    if act is Purpose.LIST:
        return Allowed()
    # 5. Policy.
    subject = skill.subject if skill.policy.given else None
    asks = act is not Purpose.INSTALL
    if subject is not None and (refusal := skill.policy.refusal(subject, approvals=asks)):
        return Denied(Step.POLICY, refusal)
    # 6. Publisher.
    if act in (Purpose.LOAD, Purpose.INSTALL):
        if subject is not None and (refusal := unsigned(skill.policy, subject)):
            return Denied(Step.PUBLISHER, refusal)
        if subject is not None and (refusal := unscanned(skill.policy, subject)):
            return Denied(Step.SCANNER, refusal)
        if missing := _missing_publisher(skill):
            return Denied(Step.PUBLISHER, missing)
    reported = () if subject is None else skill.policy.reported(subject)
    if act is Purpose.INSTALL:
        return Allowed(reported=reported)
    covering = _covering(skill)
    grants = NO_GRANTS if covering is None else covering.grants
    team: tuple[tuple[str, TeamApproval], ...] = ()
    if subject is not None:
        team = skill.policy.approved_by_team(subject)
        if team and covering is None:
            grants = _team_grants(team)
        grants = skill.policy.limit(grants, subject)
    # 7. Own files. S3: they need no approval; grants come from one.
    if skill.origin.is_own:
        return Allowed(grants, reported=reported)
    # 8. Approval mode `never`.
    if skill.approval_mode is ApprovalMode.NEVER:
        return Denied(Step.NEVER)
    # 9. Approval.
    if covering is not None:
        return Allowed(grants, approved=True, team=team, reported=reported)
    # 10. Declined.
    if skill.declined:
        return Denied(Step.DECLINED)
    if team:
        return Allowed(grants, approved=True, team=team, reported=reported)
    if act is Purpose.OFFER:
        return Allowed(reported=reported)
    # 11. Approval mode `always`: SEC-2, SEC-4: it grants nothing; SEC-5: and never covers a nested skill.
    needs_person = subject is not None and skill.policy.needs_person(subject)
    signer_change = skill.signer_change
    is_settled = not skill.nested and not signer_change and not needs_person
    if skill.approval_mode is ApprovalMode.ALWAYS and is_settled:
        return Allowed(NO_GRANTS, reported=reported)
    reason, changes = _objection(skill, signer_change)
    # 12. Approval mode `pinned`.
    if skill.approval_mode is ApprovalMode.PINNED:
        return Denied(Step.PINNED, Unapproved(reason, changes, signer_change))
    # 13. The user decides.
    return Ask(reason, changes, signer_change)


def admit_script(skill: AdmissionRequest, script: str, *, sandboxed: bool = True) -> Decision:
    """Decide whether a script of an admitted skill may run, in the sandbox or outside of it."""
    policy, entry = skill.policy, skill.entry
    if refusal := may_run(policy.enforced, entry, script, sandboxed=sandboxed):
        return Denied(Step.POLICY, refusal)
    reported = may_run(policy.reporting, entry, script, sandboxed=sandboxed)
    return Allowed(reported=() if reported is None else (reported,))


def require(decision: Decision, uri: SkillUri, origin: Origin) -> Grants:
    """The grants of a skill that may be loaded; raises `ApprovalRequired` for any other decision."""
    if isinstance(decision, Allowed):
        return decision.grants
    if isinstance(decision, Denied) and decision.refusal is not None:
        message = f"{shown_uri(uri)} from {origin} {decision.message}"
        raise PolicyRefused(message, origin=origin.label, uri=uri)
    raise approval_error(decision, uri, origin)


def approval_error(decision: Ask | Denied, uri: SkillUri, origin: Origin) -> ApprovalRequired:
    """The error for a skill that may not be loaded as it is."""
    changes = decision.changes
    return ApprovalRequired(
        f"{shown_uri(uri)} from {origin} {decision.message}",
        reason=decision.reason,
        origin=origin.label,
        uri=uri,
        added=_uris(changes, ChangeKind.ADDED),
        changed=_uris(changes, ChangeKind.CHANGED),
        removed=_uris(changes, ChangeKind.REMOVED),
    )


def is_outdated(approval: Approval | None, origin: Origin, entry: SkillEntry) -> bool:
    """Whether a stored approval is for other files than the skill has now: then it ends (SEC-6)."""
    if approval is None or (entry.is_dynamic and not approval.bound):
        return False  # Whether it fits what a dynamic skill has now is seen when that is read.
    return coverage(approval, origin, entry) is Coverage.OTHER


def _team_grants(team: Iterable[tuple[str, TeamApproval]]) -> Grants:
    """Everything that any of the teams granted; the policy limits it to what all of them did."""
    given = [one.grants for _, one in team]
    return Grants(
        allowed_tools=any(one.allowed_tools for one in given),
        execute_code=any(one.execute_code for one in given),
        scripts=frozenset[tuple[str, str]]().union(*(one.scripts for one in given)),
    )


def _covering(skill: AdmissionRequest) -> Approval | None:
    """The approval of exactly these files; that of this session comes first."""
    for approval in (skill.session, skill.approval):
        if approval is None:
            continue
        if coverage(approval, skill.origin, skill.entry, skill.seen) is Coverage.EQUAL:
            return approval
    return None


def _objection(skill: AdmissionRequest, signer_change: str) -> tuple[Reason, tuple[FileChange, ...]]:
    if skill.entry.is_dynamic:
        return Reason.UNBINDABLE, ()
    before = skill.session or skill.approval
    if before is not None and coverage(before, skill.origin, skill.entry) is Coverage.OTHER:
        return Reason.CHANGED, difference(before.resources, resource_set(skill.entry))
    ended = skill.ended
    if ended is not None and (changes := difference(ended.resources, resource_set(skill.entry))):
        return Reason.CHANGED, changes
    if signer_change:
        return Reason.SIGNER, ()
    # A skill that changed and changed back is not approved either.
    return Reason.NEW, ()


def _missing_publisher(skill: AdmissionRequest) -> NotSignedBy | None:
    """Which required publisher did not sign the skill; `None` if all signed exactly its files."""
    for name in skill.require:
        verdict = skill.signature
        if verdict is None or not verdict.is_signed or verdict.publisher != name:
            return NotSignedBy(name, verdict)
    return None


def _uris(changes: tuple[FileChange, ...], kind: ChangeKind) -> tuple[SkillUri, ...]:
    return tuple(change.uri for change in changes if change.kind is kind)
