"""How a skill stands is what a load would meet with."""

from __future__ import annotations

import pytest

from skillwire.catalog.registry import RegisteredSkill
from skillwire.host.approvals.status import State, since_approval, status_of
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill.digests import digest_of
from skillwire.skill.entries import DYNAMIC, SkillEntry, SkillResource
from skillwire.skill.uris import make_uri
from skillwire.trust.approval import (
    NO_GRANTS,
    Allowed,
    Approval,
    Ask,
    ChangeKind,
    Decision,
    Denied,
    Grants,
    Policy,
    Reason,
    difference,
    resource_set,
)
from skillwire.trust.origin import Origin

URI = make_uri(["refunds", "SKILL.md"])
SHOP = Origin.mcp("shop")


def entry(body: bytes = b"now", *, name: str = "refunds") -> SkillEntry:
    resource = SkillResource(URI, digest_of(body), len(body))
    return SkillEntry(URI, {"name": name, "description": "Pays back."}, (resource,))


def approval(body: bytes = b"now", grants: Grants = NO_GRANTS) -> Approval:
    return Approval(origin=SHOP, uri=URI, resources=resource_set(entry(body)), grants=grants)


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
        (Policy.NEVER, approval(), None, State.NEVER),
    ],
)
def test_a_state_follows_policy_and_approval(
    policy: Policy, stored: Approval | None, before: Approval | None, state: State
) -> None:
    skill = RegisteredSkill(SHOP, entry(), "refunds")
    standing = status_of(skill, policy, stored, before, nested=False, limits=DEFAULT_LIMITS)
    assert (standing.state, standing.policy) == (state, policy)
    assert [change.kind for change in standing.changes] == (
        [ChangeKind.CHANGED] if state is State.CHANGED else []
    )


def test_a_nested_skill_is_not_covered_by_a_policy() -> None:
    skill = RegisteredSkill(SHOP, entry(), "refunds")
    standing = status_of(skill, Policy.ALWAYS, None, None, nested=True, limits=DEFAULT_LIMITS)
    assert (standing.state, standing.nested) == (State.NEW, True)


def test_grants_are_a_part_of_it() -> None:
    grants = Grants(allowed_tools=True)
    skill = RegisteredSkill(SHOP, entry(), "refunds")
    standing = status_of(
        skill, Policy.PROMPT, approval(grants=grants), None, nested=False, limits=DEFAULT_LIMITS
    )
    assert standing.grants == grants


def test_local_dynamic_and_unsound_skills_have_states_of_their_own() -> None:
    def state(origin: Origin, skill: SkillEntry) -> State:
        registered = RegisteredSkill(origin, skill, "refunds")
        return status_of(registered, Policy.PROMPT, None, None, nested=False, limits=DEFAULT_LIMITS).state

    assert state(Origin.local(), entry()) is State.LOCAL
    assert state(SHOP, SkillEntry(URI, dict(entry().frontmatter), DYNAMIC)) is State.DYNAMIC
    assert state(SHOP, entry(name="other")) is State.UNUSABLE


CHANGES = difference(resource_set(entry(b"then")), resource_set(entry()))


@pytest.mark.parametrize(
    ("decision", "before", "after"),
    [
        (Ask(Reason.NEW), approval(b"then"), Ask(Reason.CHANGED, CHANGES)),
        (
            Denied(Policy.PINNED, Reason.NEW),
            approval(b"then"),
            Denied(Policy.PINNED, Reason.CHANGED, CHANGES),
        ),
        (Ask(Reason.NEW), None, Ask(Reason.NEW)),
        (Ask(Reason.NEW), approval(), Ask(Reason.NEW)),
        (Ask(Reason.UNBINDABLE), approval(b"then"), Ask(Reason.UNBINDABLE)),
        (Allowed(NO_GRANTS), approval(b"then"), Allowed(NO_GRANTS)),
    ],
)
def test_a_question_about_a_skill_that_was_approved_says_what_changed(
    decision: Decision, before: Approval | None, after: Decision
) -> None:
    assert since_approval(decision, entry(), before) == after
