"""The status of a skill says what a load would do."""

from __future__ import annotations

import pytest

from skillwire.catalog.registry import RegisteredSkill
from skillwire.host.approvals.status import ApprovalStatus, State, status_of
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill.digests import digest_of
from skillwire.skill.entries import DYNAMIC, SkillEntry, SkillResource
from skillwire.skill.uris import make_uri
from skillwire.trust.admission import Candidate
from skillwire.trust.approval import NO_GRANTS, Approval, ChangeKind, Grants, Policy, resource_set
from skillwire.trust.origin import Origin

URI = make_uri(["refunds", "SKILL.md"])
SHOP = Origin.mcp("shop")


def entry(body: bytes = b"now", *, name: str = "refunds") -> SkillEntry:
    resource = SkillResource(URI, digest_of(body), len(body))
    return SkillEntry(URI, {"name": name, "description": "Pays back."}, (resource,))


def approval(body: bytes = b"now", grants: Grants = NO_GRANTS) -> Approval:
    return Approval(origin=SHOP, uri=URI, resources=resource_set(entry(body)), grants=grants)


def status(
    skill: RegisteredSkill,
    policy: Policy,
    stored: Approval | None = None,
    before: Approval | None = None,
    *,
    nested: bool = False,
) -> ApprovalStatus:
    candidate = Candidate(
        origin=skill.origin,
        entry=skill.entry,
        policy=policy,
        approval=stored,
        withdrawn=before,
        nested=nested,
    )
    return status_of(candidate, limits=DEFAULT_LIMITS)


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize(
    ("policy", "stored", "before", "state"),
    [
        (Policy.PROMPT, None, None, State.NEW),
        (Policy.PROMPT, approval(), None, State.APPROVED),
        (Policy.PROMPT, approval(b"then"), None, State.CHANGED),
        (Policy.PROMPT, None, approval(b"then"), State.CHANGED),
        (Policy.PROMPT, None, approval(), State.NEW),
        (Policy.PINNED, None, approval(b"then"), State.CHANGED),
        (Policy.PINNED, None, None, State.NEW),
        (Policy.ALWAYS, None, None, State.ALWAYS),
        (Policy.ALWAYS, approval(b"then"), None, State.ALWAYS),
        (Policy.NEVER, approval(), None, State.NEVER),
    ],
)
def test_a_state_follows_policy_and_approval(
    policy: Policy, stored: Approval | None, before: Approval | None, state: State
) -> None:
    skill = RegisteredSkill(SHOP, entry(), "refunds")
    computed = status(skill, policy, stored, before)
    assert (computed.state, computed.policy) == (state, policy)
    assert [change.kind for change in computed.changes] == (
        [ChangeKind.CHANGED] if state is State.CHANGED else []
    )


def test_a_nested_skill_is_not_covered_by_a_policy() -> None:
    skill = RegisteredSkill(SHOP, entry(), "refunds")
    computed = status(skill, Policy.ALWAYS, nested=True)
    assert (computed.state, computed.nested) == (State.NEW, True)


def test_grants_are_a_part_of_it() -> None:
    grants = Grants(allowed_tools=True)
    skill = RegisteredSkill(SHOP, entry(), "refunds")
    computed = status(skill, Policy.PROMPT, approval(grants=grants))
    assert computed.grants == grants


def test_local_dynamic_and_unsound_skills_have_states_of_their_own() -> None:
    def state(origin: Origin, skill: SkillEntry) -> State:
        registered = RegisteredSkill(origin, skill, "refunds")
        return status(registered, Policy.PROMPT).state

    assert state(Origin.local(), entry()) is State.LOCAL
    assert state(SHOP, SkillEntry(URI, dict(entry().frontmatter), DYNAMIC)) is State.DYNAMIC
    assert state(SHOP, entry(name="other")) is State.UNUSABLE
