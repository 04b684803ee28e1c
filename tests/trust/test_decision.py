"""The words of a decision, which are rendered from typed values in one place."""

from __future__ import annotations

import pytest

from skillwire.skill import SkillUri
from skillwire.trust import ChangeKind, FileChange, LayerKind, PolicyLayer, Reason
from skillwire.trust.decision import (
    REMEDIES,
    Ask,
    Denied,
    NotSignedBy,
    Remedy,
    Step,
    Unapproved,
    Unavailable,
    Unsupported,
)
from skillwire.trust.policy import Refusal

LAYER = PolicyLayer(kind=LayerKind.MACHINE, place="/etc/p.toml", name="acme", contact="security@example.org")
REFUSAL = Refusal(LAYER, "sources.deny", "x matches *")
CHANGES = (
    FileChange(SkillUri("skill://a/b.md"), ChangeKind.ADDED),
    FileChange(SkillUri("skill://a/c.md"), ChangeKind.CHANGED),
    FileChange(SkillUri("skill://a/d.md"), ChangeKind.CHANGED),
)


@pytest.mark.parametrize(
    ("decision", "message", "problem"),
    [
        (Denied(Step.SWITCHES, Unavailable("it is off")), "is unavailable: it is off", None),
        (Denied(Step.SELECTION), "is excluded by the configuration; change that", None),
        (Denied(Step.STYLE, Unsupported("too long")), "is not taken: too long", None),
        (Denied(Step.DISABLED), "is disabled: enable it to use it", None),
        (
            Denied(Step.POLICY, REFUSAL),
            "is refused: the policy acme refuses it by sources.deny: x matches *; ask security@example.org",
            "the policy acme refuses it by sources.deny: x matches *; ask security@example.org",
        ),
        (
            Denied(Step.PUBLISHER, NotSignedBy("acme", None)),
            "is refused: the publisher acme is required, and its signature has not been checked; "
            "ask its operator for a signed one",
            "the publisher acme is required, and its signature has not been checked; "
            "ask its operator for a signed one",
        ),
        (
            Denied(Step.NEVER),
            "is refused: the approval mode of its server is never; change that to load it",
            "the approval mode of its server is never; change that to load it",
        ),
        (Denied(Step.DECLINED), "was declined by you: approve it to change that", None),
        (
            Denied(Step.PINNED, Unapproved(Reason.CHANGED, CHANGES)),
            "changed since it was approved (1 added, 2 changed): the approval mode of its server is pinned; "
            "change that or approve the skill",
            None,
        ),
        (
            Denied(Step.PINNED, Unapproved(Reason.SIGNER, (), "is not signed now")),
            "changed: it is not signed now: the approval mode of its server is pinned; "
            "change that or approve the skill",
            None,
        ),
    ],
)
def test_a_refusal_says_why_and_what_to_do(decision: Denied, message: str, problem: str | None) -> None:
    assert decision.message == message
    assert decision.problem == (problem or message)
    assert decision.remedy is REMEDIES[decision.step]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Ask(Reason.NEW), "is not approved: review it and approve it"),
        (
            Ask(Reason.UNBINDABLE),
            "is not approved and comes without digests, so only what was seen can be approved: "
            "review it and approve it",
        ),
        (Ask(Reason.SIGNER), "changed: it has another signer: review it and approve it"),
        (
            Ask(Reason.SIGNER, (), "is not signed now"),
            "changed: it is not signed now: review it and approve it",
        ),
        (
            Ask(Reason.CHANGED, (), "is not signed now"),
            "changed since it was approved (now with a fixed list of files) and is not signed now: "
            "review it and approve it",
        ),
    ],
)
def test_a_question_says_what_is_not_approved(question: Ask, message: str) -> None:
    assert (question.message, question.remedy) == (message, Remedy.APPROVE)


def test_only_what_is_not_approved_has_a_reason_that_an_approval_changes() -> None:
    pinned = Denied(Step.PINNED, Unapproved(Reason.CHANGED, CHANGES))
    assert (pinned.reason, pinned.changes, pinned.refusal) == (Reason.CHANGED, CHANGES, None)
    refused = Denied(Step.POLICY, REFUSAL)
    assert (refused.reason, refused.changes, refused.refusal) == (Reason.DENIED, (), REFUSAL)


def test_every_step_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Step)
    assert set(REMEDIES.values()) == set(Remedy)
