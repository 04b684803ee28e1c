"""Signers in a host: what a required publisher did not sign is refused, and another signer is asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from publishers import new_key
from simulator import Simulator, agree, opened
from skillwire.consent import ApprovalRequest, Once, State
from skillwire.errors import ApprovalRequired
from skillwire.host import SkillHost
from skillwire.skill import digest_of
from skillwire.trust import MAX_BUNDLE_BYTES, SIGNATURE_FILE, ApprovalMode, Publisher, Reason, sign_files

pytestmark = pytest.mark.anyio

KEY = new_key()
ACME = Publisher("acme", keys=[KEY.public_key()])
FILES = {"a.md": b"text"}


def signed_by(key: Any, *, change: bytes | None = None) -> Simulator:
    """A server with one skill that was signed with this key; with `change`, a file was changed afterwards."""
    plain = Simulator().skill("refunds", files=FILES)
    listed = {path: digest_of(data) for path, data in plain.files.items()}
    bundle = sign_files(listed, name="refunds", key=key)
    sim = Simulator()
    files = {**FILES, SIGNATURE_FILE: bundle} | ({"a.md": change} if change is not None else {})
    sim.skill("refunds", files=files)
    return sim


def options(*known: Publisher) -> dict[str, Any]:
    return {"config": {"require": ("acme",)}, "host_options": {"ask": agree, "publishers": known}}


async def test_what_the_publisher_signed_is_approved_and_loaded(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=signed_by(KEY), **options(ACME)) as host:
        await host.decide.approve(await host.find("refunds"))
        assert (await host.load("refunds")).text


@pytest.mark.parametrize(
    ("server", "known", "reason"),
    [
        (lambda: signed_by(KEY, change=b"other"), [ACME], "1 file differs"),
        (lambda: signed_by(new_key()), [ACME], "unknown publisher"),
        (lambda: signed_by(KEY), [], "unknown publisher"),
        (lambda: signed_by(KEY), [Publisher("corp", keys=[KEY.public_key()])], "signed by corp"),
    ],
    ids=["changed", "another key", "nobody is known", "another publisher"],
)
async def test_what_it_did_not_sign_is_refused_with_the_reason(
    tmp_path: Path, server: Any, known: list[Publisher], reason: str
) -> None:
    sim = server()
    async with opened(tmp_path, shop=sim, **options(*known)) as host:
        skill = await host.find("refunds")
        for attempt in (host.decide.approve(skill), host.load("refunds")):
            with pytest.raises(ApprovalRequired, match=reason):
                await attempt
    assert {uri.rpartition("/")[2] for uri in sim.read_uris()} <= {SIGNATURE_FILE}


@pytest.mark.parametrize("dynamic", [False, True])
async def test_an_unsigned_skill_is_refused_before_anything_is_fetched(tmp_path: Path, dynamic: bool) -> None:
    sim = Simulator()
    sim.skill("refunds", files=FILES, dynamic=dynamic)
    async with opened(tmp_path, shop=sim, **options(ACME)) as host:
        with pytest.raises(ApprovalRequired, match="not signed"):
            await host.load("refunds")
    assert sim.read_uris() == []


async def test_a_skill_that_misses_its_publisher_is_listed_as_refused_with_the_reason(tmp_path: Path) -> None:
    sim = signed_by(KEY, change=b"other")
    sim.skill("plain")
    async with opened(tmp_path, shop=sim, **options(ACME)) as host:
        await host.signatures.check_all()
        shown = {skill.handle: host.decide.status(skill) for skill in host.skills()}
        assert {name: status.state for name, status in shown.items()} == dict.fromkeys(shown, State.REFUSED)
        assert "signed by acme, but 1 file differs" in shown["refunds"].problem
        assert "the skill is not signed" in shown["plain"].problem


async def test_a_signature_file_that_is_too_long_is_not_even_fetched(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds", files={SIGNATURE_FILE: b"x" * (MAX_BUNDLE_BYTES + 1)})
    async with opened(tmp_path, shop=sim, host_options={"publishers": [ACME]}) as host:
        verdict = await host.signatures.check(await host.find("refunds"))
    assert str(verdict) == f"signature not valid: {SIGNATURE_FILE} is too long"
    assert sim.read_uris() == []


async def test_a_signature_that_could_not_be_read_is_read_again_later(tmp_path: Path) -> None:
    sim = signed_by(KEY)
    sim.refuse("resources/read", "not now")
    async with opened(tmp_path, shop=sim, host_options={"publishers": [ACME]}) as host:
        skill = await host.find("refunds")
        assert "cannot be read" in str(await host.signatures.check(skill))
        sim.behave("resources/read")
        assert (await host.signatures.check(skill)).is_signed
        sim.requests.clear()
        assert (await host.signatures.check(skill)).is_signed
    assert sim.read_uris() == []


@pytest.mark.parametrize(
    ("make", "known", "text"),
    [
        (lambda: signed_by(KEY), [ACME], "signed by acme over exactly these files"),
        (lambda: signed_by(KEY, change=b"other"), [ACME], "signed by acme, but 1 file differs"),
        (lambda: signed_by(new_key()), [ACME], "signature of an unknown publisher"),
        (lambda: signed_by(KEY), [], "signature of an unknown publisher"),
    ],
)
async def test_the_question_and_an_event_say_who_signed(
    tmp_path: Path, make: Any, known: list[Publisher], text: str
) -> None:
    asked: list[str] = []

    async def note(request: ApprovalRequest) -> bool:
        asked.append(str(request.signature))
        return False

    async with opened(tmp_path, shop=make(), host_options={"ask": note, "publishers": known}) as host:
        with pytest.raises(ApprovalRequired):
            await host.load("refunds")
        told = [event.message for event in host.log.events_so_far() if event.kind == "signature"]
    assert asked == [text]
    assert told == [f"refunds from MCP server shop: {text}"]


def served(sim: Simulator, key: Any, text: bytes) -> None:
    """Make the server's skill another one, signed with a key or, without one, not signed."""
    skill = sim.skill("refunds")
    skill.files.pop(SIGNATURE_FILE, None)
    skill.files["a.md"] = text
    if key is not None:
        listed = {path: digest_of(data) for path, data in skill.files.items()}
        skill.files[SIGNATURE_FILE] = sign_files(listed, name="refunds", key=key)


class Asked:
    """A user who answers, and what was asked."""

    def __init__(self, answer: Any = True) -> None:
        self.requests: list[ApprovalRequest] = []
        self.answer = answer

    async def __call__(self, request: ApprovalRequest) -> Any:
        self.requests.append(request)
        return self.answer


async def load_again(host: SkillHost) -> None:
    await host.refresh()
    await host.load("refunds")
    host.release("refunds")


@pytest.mark.parametrize("key", [None, new_key()], ids=["vanished", "another"])
async def test_a_policy_of_always_asks_when_the_signer_changes_or_vanishes(tmp_path: Path, key: Any) -> None:
    sim, asked = signed_by(KEY), Asked()
    given = {
        "config": {"approval": ApprovalMode.ALWAYS},
        "host_options": {"ask": asked, "publishers": [ACME]},
    }
    async with opened(tmp_path, shop=sim, **given) as host:
        await load_again(host)
        served(sim, KEY, b"a new version of the same publisher")
        await load_again(host)
        assert asked.requests == []
    # The signer is remembered from one session to the next.
    served(sim, key, b"of somebody else")
    async with opened(tmp_path, shop=sim, **given) as host:
        await host.signatures.check_all(host.skills())
        [skill] = host.skills()
        assert host.decide.status(skill).state is State.CHANGED
        await load_again(host)
        [request] = asked.requests
        assert request.reason is Reason.SIGNER
        assert "was signed by acme" in request.signer_change
        # A yes is for these files; the next version of the same signer needs none.
        served(sim, key, b"and once more")
        await load_again(host)
        assert len(asked.requests) == 1


async def test_without_a_yes_a_changed_signer_is_not_loaded(tmp_path: Path) -> None:
    sim = signed_by(KEY)
    given = {"config": {"approval": ApprovalMode.ALWAYS}, "host_options": {"publishers": [ACME]}}
    async with opened(tmp_path, shop=sim, **given) as host:
        await load_again(host)
        served(sim, None, b"unsigned")
        with pytest.raises(ApprovalRequired, match=r"was signed by acme .* and is not signed now: review it"):
            await load_again(host)


async def test_a_yes_for_one_load_does_not_make_another_signer_the_known_one(tmp_path: Path) -> None:
    sim, asked = signed_by(KEY), Asked(Once())
    given = {
        "config": {"approval": ApprovalMode.ALWAYS},
        "host_options": {"ask": asked, "publishers": [ACME]},
    }
    async with opened(tmp_path, shop=sim, **given) as host:
        await load_again(host)
        served(sim, None, b"unsigned")
        await load_again(host)
        await load_again(host)
        assert [request.reason for request in asked.requests] == [Reason.SIGNER, Reason.SIGNER]


async def test_a_changed_text_with_another_signer_says_both(tmp_path: Path) -> None:
    sim, asked = signed_by(KEY), Asked()
    async with opened(
        tmp_path, shop=sim, host_options={"ask": asked, "publishers": [ACME], "watch": False}
    ) as host:
        await load_again(host)
        served(sim, None, b"unsigned")
        await host.refresh()
        revoked = [event.message for event in host.log.events_so_far() if event.kind == "revoked"]
        assert "is not signed now): its approval is revoked" in revoked[0]
        await host.load("refunds")
        assert asked.requests[1].reason is Reason.CHANGED
        assert "is not signed now" in asked.requests[1].signer_change
