"""The status of a skill says what a load would do."""

from __future__ import annotations

import pytest

from skillwire.catalog import HostSkill
from skillwire.consent import ApprovalStatus, State, status_of
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import DYNAMIC, SkillEntry, SkillResource, digest_of, make_uri
from skillwire.trust import (
    NO_GRANTS,
    AdmissionRequest,
    Approval,
    ApprovalMode,
    ChangeKind,
    Grants,
    Origin,
    resource_set,
)

URI = make_uri(["refunds", "SKILL.md"])
SHOP = Origin.mcp("shop")


def entry(body: bytes = b"now", *, name: str = "refunds") -> SkillEntry:
    resource = SkillResource(URI, digest_of(body), len(body))
    return SkillEntry(URI, {"name": name, "description": "Pays back."}, (resource,))


def approval(body: bytes = b"now", grants: Grants = NO_GRANTS) -> Approval:
    return Approval(origin=SHOP, uri=URI, resources=resource_set(entry(body)), grants=grants)


def status(
    skill: HostSkill,
    policy: ApprovalMode,
    stored: Approval | None = None,
    before: Approval | None = None,
    *,
    nested: bool = False,
) -> ApprovalStatus:
    candidate = AdmissionRequest(
        origin=skill.origin,
        entry=skill.entry,
        approval_mode=policy,
        approval=stored,
        ended=before,
        nested=nested,
    )
    return status_of(candidate, limits=DEFAULT_LIMITS)


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize(
    ("policy", "stored", "before", "state"),
    [
        (ApprovalMode.PROMPT, None, None, State.NOT_APPROVED),
        (ApprovalMode.PROMPT, approval(), None, State.APPROVED),
        (ApprovalMode.PROMPT, approval(b"then"), None, State.CHANGED),
        (ApprovalMode.PROMPT, None, approval(b"then"), State.CHANGED),
        (ApprovalMode.PROMPT, None, approval(), State.NOT_APPROVED),
        (ApprovalMode.PINNED, None, approval(b"then"), State.CHANGED),
        (ApprovalMode.PINNED, None, None, State.NOT_APPROVED),
        (ApprovalMode.ALWAYS, None, None, State.ALLOWED),
        (ApprovalMode.ALWAYS, approval(b"then"), None, State.ALLOWED),
        (ApprovalMode.NEVER, approval(), None, State.REFUSED),
    ],
)
def test_a_state_follows_policy_and_approval(
    policy: ApprovalMode, stored: Approval | None, before: Approval | None, state: State
) -> None:
    skill = HostSkill(SHOP, entry(), "refunds")
    computed = status(skill, policy, stored, before)
    assert (computed.state, computed.approval_mode) == (state, policy)
    assert [change.kind for change in computed.changes] == (
        [ChangeKind.CHANGED] if state is State.CHANGED else []
    )


def test_a_nested_skill_is_not_covered_by_a_policy() -> None:
    skill = HostSkill(SHOP, entry(), "refunds")
    computed = status(skill, ApprovalMode.ALWAYS, nested=True)
    assert (computed.state, computed.nested) == (State.NOT_APPROVED, True)


def test_grants_are_a_part_of_it() -> None:
    grants = Grants(allowed_tools=True)
    skill = HostSkill(SHOP, entry(), "refunds")
    computed = status(skill, ApprovalMode.PROMPT, approval(grants=grants))
    assert computed.grants == grants


def test_local_dynamic_and_unsound_skills_have_states_of_their_own() -> None:
    def state(origin: Origin, skill: SkillEntry) -> State:
        registered = HostSkill(origin, skill, "refunds")
        return status(registered, ApprovalMode.PROMPT).state

    assert state(Origin.local(), entry()) is State.OWN
    assert state(SHOP, SkillEntry(URI, dict(entry().frontmatter), DYNAMIC)) is State.NOT_APPROVED
    assert state(SHOP, entry(name="other")) is State.REFUSED
