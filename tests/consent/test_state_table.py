"""Every step of admission that refuses or asks has one state and one remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_entries import DEMO, checked
from skillwire.consent import State, status_of
from skillwire.limits import DEFAULT_LIMITS
from skillwire.trust import (
    UNSIGNED,
    AdmissionRequest,
    Allowed,
    ApprovalMode,
    Ask,
    LayerKind,
    Patterns,
    Policy,
    PolicyLayer,
    PolicyPublisher,
    Purpose,
    Remedy,
    Scanner,
    Step,
    admit,
)
from skillwire.trust.scans import FindingLevel

PLAIN = AdmissionRequest(origin=DEMO, entry=checked(files={"a.md": b"a"}), sources=("https://demo.example",))


def under(**rules: object) -> Policy:
    layer = PolicyLayer(kind=LayerKind.MACHINE, place="policy.toml", name="acme")
    return Policy((replace(layer, **rules),))  # pyright: ignore[reportArgumentType]


SIGNED = under(
    publishers=(
        PolicyPublisher(name="acme", pems=(), signers=frozenset({"key:ab"}), require=Patterns(["*"])),
    )
)
SCANNED = under(
    scanners=(
        Scanner(name="downloads", command=("/bin/scan", "/skill"), seconds=1, refuse=FindingLevel.ERROR),
    )
)

CASES = {
    Step.SWITCHES: (replace(PLAIN, unavailable="it is off"), "refused (not offered)", Remedy.SWITCH),
    Step.SELECTION: (replace(PLAIN, selected=False), "refused (not offered)", Remedy.CONFIGURE),
    Step.STYLE: (replace(PLAIN, style_refusal="no room"), "refused (not offered)", Remedy.RESTYLE),
    Step.DISABLED: (replace(PLAIN, disabled=True), "not approved", Remedy.ENABLE),
    Step.POLICY: (
        replace(PLAIN, policy=under(deny=Patterns(["*"]))),
        "refused (policy acme)",
        Remedy.CONTACT,
    ),
    Step.PUBLISHER: (
        replace(PLAIN, require=("acme",), signature=UNSIGNED),
        "refused (not signed by acme)",
        Remedy.SIGN,
    ),
    Step.SCANNER: (replace(PLAIN, policy=SCANNED), "not approved", Remedy.CONTACT),
    Step.NEVER: (
        replace(PLAIN, approval_mode=ApprovalMode.NEVER),
        "refused (approval mode never)",
        Remedy.CHANGE_MODE,
    ),
    Step.DECLINED: (replace(PLAIN, declined=True), "declined", Remedy.APPROVE),
    Step.PINNED: (
        replace(PLAIN, approval_mode=ApprovalMode.PINNED),
        "not approved",
        Remedy.CHANGE_MODE_OR_APPROVE,
    ),
    Step.QUESTION: (PLAIN, "not approved", Remedy.APPROVE),
}


def test_every_step_is_tried() -> None:
    assert set(CASES) == set(Step)


@pytest.mark.parametrize("step", Step)
def test_each_step_has_one_state_and_one_remedy(step: Step) -> None:
    candidate, words, remedy = CASES[step]
    decision = admit(candidate, Purpose.LOAD)
    assert not isinstance(decision, Allowed)
    assert (decision.step, decision.remedy) == (step, remedy)
    status = status_of(candidate, limits=DEFAULT_LIMITS)
    assert status.words == words
    if status.state is State.REFUSED and not isinstance(decision, Ask):
        assert status.problem == decision.problem


@pytest.mark.parametrize("facts", [{"require": ("acme",)}, {"policy": SIGNED}], ids=["require", "policy"])
@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, "not approved (signature not checked yet)"),
        ({"declined": True}, "declined"),
        ({"approval_mode": ApprovalMode.NEVER}, "refused (approval mode never)"),
    ],
)
def test_before_a_signature_is_checked_only_what_holds_in_any_case_is_said(
    facts: dict[str, object], known: dict[str, object], words: str
) -> None:
    candidate = replace(PLAIN, **facts, **known)  # pyright: ignore[reportArgumentType]
    assert status_of(candidate, limits=DEFAULT_LIMITS).words == words
