"""Who is listed and who is loaded: one decision, step by step."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_entries import DEMO, LOCAL, OTHER, checked, read
from skillwire.errors import ApprovalRequired
from skillwire.skill import SkillEntry, SkillUri
from skillwire.trust import (
    ALL_GRANTS,
    NO_GRANTS,
    UNSIGNED,
    AdmissionRequest,
    Allowed,
    Approval,
    ApprovalMode,
    Ask,
    ChangeKind,
    Decision,
    Denied,
    FileChange,
    Grants,
    Origin,
    Purpose,
    Reason,
    ResourceSet,
    SignatureState,
    SignatureVerdict,
    Step,
    Unapproved,
    admit,
    approve,
    require,
    resource_set,
    seen_set,
)

TOOLS = Grants(allowed_tools=True)
ENTRY = checked(files={"a.md": b"a", "b.md": b"b"})
CHANGED = checked(files={"a.md": b"A", "c.md": b"c"})
DYNAMIC_ENTRY = checked(dynamic=True)
FILE = read("a.md", b"a")
SEEN = seen_set([FILE])
APPROVED = approve(ENTRY, DEMO, grants=TOOLS)
SESSION = approve(DYNAMIC_ENTRY, DEMO, grants=TOOLS, seen=SEEN)
CHANGES = (
    FileChange(SkillUri("skill://acme/refunds/a.md"), ChangeKind.CHANGED),
    FileChange(SkillUri("skill://acme/refunds/b.md"), ChangeKind.REMOVED),
    FileChange(SkillUri("skill://acme/refunds/c.md"), ChangeKind.ADDED),
)


def decide(
    entry: SkillEntry,
    origin: Origin,
    policy: ApprovalMode,
    approval: Approval | None,
    *,
    nested: bool,
    seen: ResourceSet = frozenset(),
    ended: Approval | None = None,
) -> Decision:
    """What a load meets with when nothing is said against listing the skill."""
    candidate = AdmissionRequest(
        origin=origin,
        entry=entry,
        approval_mode=policy,
        approval=approval,
        nested=nested,
        seen=seen,
        ended=ended,
    )
    return admit(candidate, Purpose.LOAD)


REFUSALS = {
    "unavailable": ("the folder is not trusted", "is unavailable: the folder is not trusted"),
    "selected": (False, "is excluded by the configuration"),
    "style_refusal": ("too long (uri_bytes)", "is not taken: too long"),
    "disabled": (True, "is disabled: enable it"),
}


@pytest.mark.parametrize("act", Purpose)
@pytest.mark.parametrize("origin", [DEMO, LOCAL])
@pytest.mark.parametrize("fact", REFUSALS)
def test_each_step_before_the_policy_keeps_a_skill_out_of_lists_and_loads(
    fact: str, origin: Origin, act: Purpose
) -> None:
    value, said = REFUSALS[fact]
    facts = {"approval": APPROVED, "approval_mode": ApprovalMode.ALWAYS, fact: value}
    decision = admit(AdmissionRequest(origin=origin, entry=ENTRY, **facts), act)  # pyright: ignore[reportArgumentType]
    assert isinstance(decision, Denied)
    with pytest.raises(ApprovalRequired, match=said) as caught:
        require(decision, ENTRY.uri, origin)
    assert caught.value.reason == Reason.DENIED


def test_the_first_step_that_refuses_is_the_one_that_is_named() -> None:
    order = ["unavailable", "excluded", "not taken", "disabled"]
    given_facts = dict(REFUSALS)
    for step in order:
        facts = {fact: value for fact, (value, _) in given_facts.items()}
        decision = admit(AdmissionRequest(origin=DEMO, entry=ENTRY, **facts), Purpose.LIST)  # pyright: ignore[reportArgumentType]
        assert isinstance(decision, Denied)
        assert step in decision.message
        del given_facts[next(iter(given_facts))]


@pytest.mark.parametrize("policy", ApprovalMode)
def test_listing_needs_no_approval(policy: ApprovalMode) -> None:
    assert admit(AdmissionRequest(origin=DEMO, entry=ENTRY, approval_mode=policy), Purpose.LIST) == Allowed()


@pytest.mark.parametrize("origin", [DEMO, LOCAL])
@pytest.mark.parametrize("policy", ApprovalMode)
@pytest.mark.parametrize("approval", [None, APPROVED])
@pytest.mark.parametrize("declined", [False, True])
def test_a_model_is_offered_all_but_what_is_sure_to_be_refused(
    origin: Origin, policy: ApprovalMode, approval: Approval | None, declined: bool
) -> None:
    known = replace(approval, origin=origin) if approval else None
    candidate = AdmissionRequest(
        origin=origin, entry=ENTRY, approval_mode=policy, approval=known, declined=declined
    )
    offered = isinstance(admit(candidate, Purpose.OFFER), Allowed)
    is_hidden = policy is ApprovalMode.NEVER or (declined and approval is None)
    assert offered is (origin == LOCAL or not is_hidden)
    if not offered:
        assert admit(candidate, Purpose.LOAD) == admit(candidate, Purpose.OFFER)


def test_a_skill_is_offered_before_its_signature_was_checked() -> None:
    candidate = AdmissionRequest(origin=DEMO, entry=ENTRY, require=("acme",))
    assert admit(candidate, Purpose.OFFER) == Allowed()
    assert isinstance(admit(candidate, Purpose.LOAD), Denied)


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize("approval", [None, APPROVED])
@pytest.mark.parametrize(
    ("policy", "decision"),
    [
        (ApprovalMode.PROMPT, Ask(Reason.CHANGED, CHANGES)),
        (ApprovalMode.PINNED, Denied(Step.PINNED, Unapproved(Reason.CHANGED, CHANGES))),
        (ApprovalMode.ALWAYS, Allowed(NO_GRANTS)),
    ],
)
def test_a_revoked_approval_still_says_what_changed_and_allows_nothing(
    policy: ApprovalMode, decision: Decision, approval: Approval | None
) -> None:
    assert decide(CHANGED, DEMO, policy, approval, nested=False, ended=APPROVED) == decision


@pytest.mark.requirement("SEC-6")
def test_a_skill_that_changed_back_is_not_approved_again() -> None:
    assert decide(ENTRY, DEMO, ApprovalMode.PROMPT, None, nested=False, ended=APPROVED) == Ask(Reason.NEW)
    dynamic = decide(DYNAMIC_ENTRY, DEMO, ApprovalMode.PROMPT, None, nested=False, ended=APPROVED)
    assert dynamic == Ask(Reason.UNBINDABLE)


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize(
    "files",
    [{"a.md": b"a", "b.md": b"b", "c.md": b"c"}, {"a.md": b"a"}, {"a.md": b"a", "b.md": b"B"}],
    ids=["a file only added", "a file only removed", "a file only changed"],
)
def test_a_set_that_is_larger_smaller_or_other_is_not_what_was_approved(files: dict[str, bytes]) -> None:
    decision = decide(checked(files=files), DEMO, ApprovalMode.PROMPT, APPROVED, nested=False)
    assert isinstance(decision, Ask)
    assert decision.reason is Reason.CHANGED


@pytest.mark.requirement("SEC-5", "SEC-6")
@pytest.mark.parametrize(
    ("policy", "approval", "nested", "decision"),
    [
        (ApprovalMode.PROMPT, None, False, Ask(Reason.NEW)),
        (ApprovalMode.PROMPT, None, True, Ask(Reason.NEW)),
        (ApprovalMode.PROMPT, APPROVED, False, Allowed(TOOLS, approved=True)),
        (ApprovalMode.PROMPT, APPROVED, True, Allowed(TOOLS, approved=True)),
        (ApprovalMode.PINNED, None, False, Denied(Step.PINNED, Unapproved(Reason.NEW))),
        (ApprovalMode.PINNED, APPROVED, False, Allowed(TOOLS, approved=True)),
        (ApprovalMode.ALWAYS, None, False, Allowed(NO_GRANTS)),
        (ApprovalMode.ALWAYS, None, True, Ask(Reason.NEW)),
        (ApprovalMode.ALWAYS, APPROVED, False, Allowed(TOOLS, approved=True)),
        (ApprovalMode.ALWAYS, APPROVED, True, Allowed(TOOLS, approved=True)),
        (ApprovalMode.NEVER, None, False, Denied(Step.NEVER)),
        (ApprovalMode.NEVER, APPROVED, False, Denied(Step.NEVER)),
    ],
)
def test_policy_and_approval_decide_together(
    policy: ApprovalMode, approval: Approval | None, nested: bool, decision: Allowed | Ask | Denied
) -> None:
    assert decide(ENTRY, DEMO, policy, approval, nested=nested) == decision


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize(
    ("policy", "nested", "decision"),
    [
        (ApprovalMode.PROMPT, False, Ask(Reason.CHANGED, CHANGES)),
        (ApprovalMode.PINNED, False, Denied(Step.PINNED, Unapproved(Reason.CHANGED, CHANGES))),
        (ApprovalMode.ALWAYS, True, Ask(Reason.CHANGED, CHANGES)),
        # The grants were for other files; the policy gives none.
        (ApprovalMode.ALWAYS, False, Allowed(NO_GRANTS)),
    ],
)
def test_any_other_set_of_files_revokes_an_approval_and_says_which(
    policy: ApprovalMode, nested: bool, decision: Allowed | Ask | Denied
) -> None:
    assert decide(CHANGED, DEMO, policy, APPROVED, nested=nested) == decision


@pytest.mark.requirement("ENT-4", "SEC-6")
def test_an_approval_of_another_server_or_skill_counts_for_nothing() -> None:
    elsewhere = checked("skill://acme/deep/refunds/SKILL.md")
    assert decide(ENTRY, OTHER, ApprovalMode.PROMPT, APPROVED, nested=False) == Ask(Reason.NEW)
    assert decide(elsewhere, DEMO, ApprovalMode.PROMPT, APPROVED, nested=False) == Ask(Reason.NEW)


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize(
    ("policy", "approval", "seen", "decision"),
    [
        (ApprovalMode.PROMPT, None, SEEN, Ask(Reason.UNBINDABLE)),
        (ApprovalMode.PROMPT, SESSION, SEEN, Allowed(TOOLS, approved=True)),
        (ApprovalMode.PROMPT, SESSION, frozenset(), Ask(Reason.UNBINDABLE)),
        (ApprovalMode.PROMPT, SESSION, SEEN | seen_set([read("a.md", b"rotated")]), Ask(Reason.UNBINDABLE)),
        (ApprovalMode.PROMPT, SESSION, seen_set([read("other.md", b"a")]), Ask(Reason.UNBINDABLE)),
        (ApprovalMode.PROMPT, APPROVED, SEEN, Ask(Reason.UNBINDABLE)),
        (ApprovalMode.PINNED, None, SEEN, Denied(Step.PINNED, Unapproved(Reason.UNBINDABLE))),
        (ApprovalMode.ALWAYS, None, SEEN, Allowed(NO_GRANTS)),
    ],
)
def test_a_dynamic_skill_is_approved_only_for_what_was_seen(
    policy: ApprovalMode, approval: Approval | None, seen: ResourceSet, decision: Allowed | Ask | Denied
) -> None:
    assert decide(DYNAMIC_ENTRY, DEMO, policy, approval, nested=False, seen=seen) == decision


def test_an_approval_for_a_session_ends_when_the_skill_lists_its_files() -> None:
    session = approve(DYNAMIC_ENTRY, DEMO, seen=resource_set(ENTRY))
    decision = decide(ENTRY, DEMO, ApprovalMode.PROMPT, session, nested=False)
    assert decision == Ask(Reason.CHANGED)
    with pytest.raises(ApprovalRequired, match="now with a fixed list of files"):
        require(decision, ENTRY.uri, DEMO)


def test_the_users_own_skills_need_no_approval_and_are_granted_nothing_by_themselves() -> None:
    for policy, nested, entry in product(ApprovalMode, (False, True), (ENTRY, DYNAMIC_ENTRY)):
        assert decide(entry, LOCAL, policy, None, nested=nested) == Allowed(NO_GRANTS)
    granted = approve(ENTRY, LOCAL, grants=ALL_GRANTS)
    assert decide(ENTRY, LOCAL, ApprovalMode.PROMPT, granted, nested=False) == Allowed(ALL_GRANTS)
    assert decide(CHANGED, LOCAL, ApprovalMode.PROMPT, granted, nested=False) == Allowed(NO_GRANTS)


def test_skills_of_a_project_need_approval_like_a_servers() -> None:
    project = Origin.project()
    assert decide(ENTRY, project, ApprovalMode.PROMPT, None, nested=False) == Ask(Reason.NEW)
    approval = approve(ENTRY, project)
    assert decide(ENTRY, project, ApprovalMode.PROMPT, approval, nested=False) == Allowed(approved=True)


@pytest.mark.requirement("SEC-4", "SEC-5", "SEC-6")
@given(
    st.sampled_from(ApprovalMode),
    st.sampled_from([None, APPROVED, SESSION, approve(CHANGED, DEMO, grants=ALL_GRANTS)]),
    st.booleans(),
    st.sampled_from([ENTRY, CHANGED, DYNAMIC_ENTRY]),
    st.sampled_from([frozenset[tuple[SkillUri, object]](), SEEN]),
)
def test_a_grant_comes_from_an_approval_of_just_these_files(
    policy: ApprovalMode, approval: Approval | None, nested: bool, entry: object, seen: ResourceSet
) -> None:
    assert entry in (ENTRY, CHANGED, DYNAMIC_ENTRY)
    skill = next(known for known in (ENTRY, CHANGED, DYNAMIC_ENTRY) if known is entry)
    decision = decide(skill, DEMO, policy, approval, nested=nested, seen=seen)
    if not isinstance(decision, Allowed):
        return
    if decision.grants != NO_GRANTS or nested:
        assert approval is not None
        assert approval.resources == (seen if skill is DYNAMIC_ENTRY else resource_set(skill))
    assert policy is not ApprovalMode.NEVER


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Ask(Reason.NEW), "is not approved: review it and approve it"),
        (Ask(Reason.CHANGED, CHANGES), r"changed since it was approved \(1 added, 1 changed, 1 removed\)"),
        (Ask(Reason.UNBINDABLE), "only what was seen can be approved"),
        (
            Denied(Step.PINNED, Unapproved(Reason.NEW)),
            "mode of its server is pinned; change that or approve",
        ),
        (
            Denied(Step.NEVER),
            "mode of its server is never; change that to load it",
        ),
    ],
)
@pytest.mark.requirement("VER-8", "SEC-7")
def test_a_skill_that_may_not_be_loaded_says_whose_it_is_and_what_to_do(
    decision: Ask | Denied, said: str
) -> None:
    with pytest.raises(ApprovalRequired, match=said) as caught:
        require(decision, ENTRY.uri, DEMO)
    error = caught.value
    assert (error.reason, error.origin, error.uri, error.exit_code) == (decision.reason, "demo", ENTRY.uri, 7)
    assert "MCP server demo" in str(error)
    assert not re.search(r"\b(trusted|safe|secure)\b", str(error))
    assert {*error.added, *error.changed, *error.removed} == {change.uri for change in decision.changes}
    assert error.added == tuple(c.uri for c in decision.changes if c.kind is ChangeKind.ADDED)


def test_an_allowed_skill_gives_its_grants() -> None:
    assert require(Allowed(TOOLS), ENTRY.uri, DEMO) is TOOLS


SIGNED = SignatureVerdict(SignatureState.SIGNED, "acme", "key:ab")
VERDICTS = {
    "acme": SIGNED,
    "another publisher": SignatureVerdict(SignatureState.SIGNED, "corp", "key:cd"),
    "other files": SignatureVerdict(SignatureState.DIFFERS, "acme", "key:ab", ("a.md",)),
    "a stranger": SignatureVerdict(SignatureState.UNKNOWN, signer="key:ab"),
    "not valid": SignatureVerdict(SignatureState.INVALID, reason="it is not JSON"),
    "unsigned": UNSIGNED,
    "not checked": None,
}


@pytest.mark.parametrize("origin", [DEMO, LOCAL])
@pytest.mark.parametrize("policy", ApprovalMode)
@pytest.mark.parametrize("name", VERDICTS)
def test_a_required_publisher_comes_before_every_approval_and_policy(
    origin: Origin, policy: ApprovalMode, name: str
) -> None:
    candidate = AdmissionRequest(
        origin=origin,
        entry=ENTRY,
        approval_mode=policy,
        approval=approve(ENTRY, origin, grants=TOOLS),
        require=("acme",),
        signature=VERDICTS[name],
    )
    decision = admit(candidate, Purpose.LOAD)
    if name == "acme":
        assert isinstance(decision, Allowed) is (policy is not ApprovalMode.NEVER or origin is LOCAL)
    else:
        assert isinstance(decision, Denied)
        assert "is refused: the publisher acme is required" in decision.message
    assert admit(candidate, Purpose.LIST) == Allowed()


def test_every_required_publisher_must_have_signed() -> None:
    candidate = AdmissionRequest(origin=DEMO, entry=ENTRY, approval=APPROVED, signature=SIGNED)
    assert isinstance(admit(replace(candidate, require=("acme",)), Purpose.LOAD), Allowed)
    assert isinstance(admit(replace(candidate, require=("acme", "corp")), Purpose.LOAD), Denied)


@pytest.mark.parametrize("policy", ApprovalMode)
@pytest.mark.parametrize("signature", [UNSIGNED, VERDICTS["another publisher"], SIGNED])
def test_another_signer_is_asked_about_whatever_a_policy_allows(
    policy: ApprovalMode, signature: SignatureVerdict
) -> None:
    candidate = AdmissionRequest(
        origin=DEMO, entry=ENTRY, approval_mode=policy, signer="acme key:ab", signature=signature
    )
    decision = admit(candidate, Purpose.LOAD)
    if policy in (ApprovalMode.NEVER, ApprovalMode.PINNED):
        assert isinstance(decision, Denied)
    elif signature is SIGNED:
        assert isinstance(decision, Allowed) is (policy is ApprovalMode.ALWAYS)
    else:
        assert isinstance(decision, Ask)
        assert decision.reason is Reason.SIGNER
        assert "was signed by acme" in decision.signer_change
    # What was approved with exactly these files was approved with this signature.
    approved = admit(replace(candidate, approval=APPROVED), Purpose.LOAD)
    assert isinstance(approved, Allowed) is (policy is not ApprovalMode.NEVER)


def test_a_signer_that_nobody_checked_is_no_change() -> None:
    candidate = AdmissionRequest(
        origin=DEMO, entry=ENTRY, approval_mode=ApprovalMode.ALWAYS, signer="acme key:ab"
    )
    assert admit(candidate, Purpose.LOAD) == Allowed(NO_GRANTS)


@pytest.mark.parametrize("policy", ApprovalMode)
def test_what_the_user_declined_is_loaded_by_no_policy_until_it_is_approved(policy: ApprovalMode) -> None:
    candidate = AdmissionRequest(origin=DEMO, entry=ENTRY, approval_mode=policy, declined=True)
    assert isinstance(admit(candidate, Purpose.LOAD), Denied)
    approved = admit(replace(candidate, approval=APPROVED), Purpose.LOAD)
    assert isinstance(approved, Allowed) is (policy is not ApprovalMode.NEVER)
