"""One decision for everything: how often it is asked for, and that the rules it follows belong to a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateways import User, joined, make_gateway
from host.test_publishers import ACME, KEY, signed_by
from publishers import new_key
from scanning import change_policy, clean_machine
from simulator import Simulator, agree, opened
from skillwire.access import Caller
from skillwire.consent import ApprovalRequest, ConsentStore, Once, states
from skillwire.errors import ApprovalRequired, PolicyRefused
from skillwire.host import PolicyFiles, SkillHost, SkillReader, decide, rules
from skillwire.trust import SIGNATURE_FILE, ApprovalMode

pytestmark = pytest.mark.anyio

URI = "skill://shop/refunds/SKILL.md"
ALICE = Caller(name="alice")


def plain() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"text"})
    return sim


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts decisions by their purpose, reads of records, and files that are looked at for a signature."""
    counted: Counter[str] = Counter()

    def count(where: object, name: str, kind: Callable[..., str]) -> None:
        real: Any = getattr(where, name)

        def counting(*given: Any, **options: Any) -> Any:
            counted[kind(*given, **options)] += 1
            return real(*given, **options)

        monkeypatch.setattr(where, name, counting)

    for module in (decide, states, rules):
        count(module, "admit", lambda request, purpose: f"admit {purpose}")
    count(ConsentStore, "fetch", lambda store, key: "record")
    count(SkillReader, "look", lambda reader, skill, path="SKILL.md": path)
    return counted


async def test_a_load_is_decided_before_anything_is_fetched_and_after_the_last_wait(
    tmp_path: Path, calls: Counter[str]
) -> None:
    async with opened(tmp_path, shop=plain(), host_options={"ask": agree}) as host:
        skill = await host.find("refunds")
        for approved in (False, True):
            calls.clear()
            await host.load(skill.handle)
            assert (calls["admit load"], calls["record"]) == (2, 2), approved
            assert calls["admit install"] == calls["admit offer"] == 0
            host.release(skill.handle)


async def test_a_signature_is_checked_once_for_a_load_with_a_question(
    tmp_path: Path, calls: Counter[str]
) -> None:
    options = {"ask": agree, "publishers": [ACME]}
    async with opened(tmp_path, shop=signed_by(KEY), host_options=options) as host:
        await host.load("refunds")
        assert calls[SIGNATURE_FILE] == 1
        assert (calls["admit load"], calls["record"]) == (2, 2)


async def test_a_generated_skill_is_decided_about_once_more_for_what_was_seen(
    tmp_path: Path, calls: Counter[str]
) -> None:
    sim = Simulator()
    sim.skill("weather", dynamic=True)
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("weather")
        assert (calls["admit load"], calls["record"]) == (3, 3)
        host.release("weather")
        calls.clear()
        await host.load("weather")
        assert (calls["admit load"], calls["record"]) == (2, 2), "what was seen is approved"


async def test_a_listing_takes_one_decision_for_each_skill_and_reads_no_record(
    tmp_path: Path, calls: Counter[str]
) -> None:
    sim = Simulator()
    for number in range(20):
        sim.skill(f"skill-{number}")
    async with opened(tmp_path, shop=sim) as host:
        assert calls["admit list"] == 20
        calls.clear()
        assert len(host.decide.statuses(host.skills())) == 20
        assert calls == {"admit load": 20}
        calls.clear()
        host.catalog()
        host.catalog()
        assert calls == {"admit offer": 20}


async def test_a_read_through_a_gateway_is_decided_before_and_after_its_fetch(
    tmp_path: Path, calls: Counter[str]
) -> None:
    async with make_gateway(tmp_path, shop=plain()) as gateway:
        async with joined(gateway, user=User(), caller=ALICE) as client:
            await client.read_resource(URI)
        server: Any = gateway.server(ALICE)
        calls.clear()
        await server.source.read(URI)
        assert calls["admit load"] == 2
        assert calls["record"] == 0, "the records are read as a whole, where another process wrote"


async def test_nothing_is_fetched_of_a_generated_skill_that_nobody_can_be_asked_about(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("weather", dynamic=True)
    async with opened(tmp_path, shop=sim) as host:
        with pytest.raises(ApprovalRequired):
            await host.load("weather")
        assert sim.read_uris() == []


@pytest.mark.parametrize("mode", [ApprovalMode.NEVER, ApprovalMode.PINNED])
async def test_nothing_is_fetched_of_a_generated_skill_that_its_mode_refuses(
    tmp_path: Path, mode: ApprovalMode
) -> None:
    sim = Simulator()
    sim.skill("weather", dynamic=True)
    async with opened(tmp_path, shop=sim, config={"approval": mode}, host_options={"ask": agree}) as host:
        with pytest.raises(ApprovalRequired, match=mode.value):
            await host.load("weather")
        assert sim.read_uris() == []


async def test_a_policy_that_changes_during_a_question_decides_about_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "more.toml"
    head = '[policy]\nformat = 1\nname = "acme"\n'
    file.write_text(head)
    files = PolicyFiles([file])

    async def ask(request: ApprovalRequest) -> Once:
        file.write_text(head + '[sources]\ndeny = ["*"]\n')
        host.rules.set_policy(files.current())
        return Once()

    options = {"ask": ask, "policy": files, "watch": False}
    async with opened(tmp_path, shop=plain(), host_options=options) as host:
        with pytest.raises(PolicyRefused, match="acme"):
            await host.load("refunds")
        assert host.active() == ()


async def test_two_hosts_of_one_process_have_policies_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "strict.toml"
    file.write_text('[policy]\nformat = 1\nname = "strict"\n[sources]\ndeny = ["*"]\n')
    strict = {"policy": PolicyFiles([file])}

    def words(host: SkillHost) -> list[str]:
        return [status.words for status in host.decide.statuses(host.skills())]

    async with (
        opened(tmp_path / "one", shop=plain(), host_options=strict) as one,
        opened(tmp_path / "two", shop=plain(), host_options={"ask": agree}) as two,
    ):
        assert (words(one), words(two)) == (["refused (policy strict)"], ["not approved"])
        with pytest.raises(PolicyRefused):
            await one.load("refunds")
        await two.load("refunds")
        assert one.decide.scans is not two.decide.scans


async def test_a_loaded_skill_whose_signature_was_never_read_is_released_when_the_policy_asks_for_a_signer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_machine(tmp_path, monkeypatch)
    key = new_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    # A mode that asks nobody: then nothing says yet who signed it.
    config, options = {"approval": ApprovalMode.ALWAYS}, {"watch": True}
    async with opened(tmp_path, shop=signed_by(KEY), config=config, host_options=options) as host:
        await host.load("refunds")
        assert host.signatures.known(host.skills()[0]) is None
        await change_policy(tmp_path, host, f'[publishers.team]\nkeys = ["""\n{key}"""]\nrequire = ["*"]')
        with anyio.fail_after(60):
            async for event in host.log.events():
                if event.message.endswith("it is released"):
                    break
        assert host.active() == ()


async def test_a_policy_that_changed_since_a_load_decides_about_every_file_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "more.toml"
    head = '[policy]\nformat = 1\nname = "acme"\n'
    file.write_text(head)
    files = PolicyFiles([file])
    options = {"ask": agree, "policy": files, "watch": False}
    async with opened(tmp_path, shop=plain(), host_options=options) as host:
        await host.load("refunds")
        file.write_text(head + '[sources]\ndeny = ["*"]\n')
        host.rules.set_policy(files.current())
        with pytest.raises(PolicyRefused, match="acme"):
            await host.read("refunds", "a.md")


async def test_a_skill_that_changed_at_its_server_is_released_when_a_file_of_it_is_read(
    tmp_path: Path,
) -> None:
    sim = plain()
    options = {"ask": agree, "watch": False}
    async with opened(tmp_path, shop=sim, host_options=options) as host:
        await host.load("refunds")
        sim.skill("refunds").change_file("a.md", b"another text")
        with pytest.raises(ApprovalRequired, match="changed since it was approved"):
            await host.read("refunds", "a.md")
        assert host.active() == ()


@pytest.mark.parametrize("change", ["disabled", "mode"])
async def test_what_changes_about_a_skill_during_a_question_decides_about_the_load(
    tmp_path: Path, change: str
) -> None:
    async def ask(request: ApprovalRequest) -> Once:
        if change == "disabled":
            host.decide.set_enabled("refunds", False)
        else:
            servers = {
                origin: replace(config, approval=ApprovalMode.NEVER)
                for origin, config in host.rules.origins.servers.items()
            }
            host.rules.set_origins(replace(host.rules.origins, servers=servers))
        return Once()

    async with opened(tmp_path, shop=plain(), host_options={"ask": ask, "watch": False}) as host:
        with pytest.raises(ApprovalRequired, match="disabled" if change == "disabled" else "never"):
            await host.load("refunds")
        assert host.active() == ()


async def test_a_signer_that_another_process_has_just_noted_is_compared_although_nobody_is_to_be_asked(
    tmp_path: Path,
) -> None:
    options = {"watch": False}
    always = {"approval": ApprovalMode.ALWAYS}
    async with opened(tmp_path, shop=signed_by(new_key()), config=always, host_options=options) as host:
        other_options = {"ask": agree, "publishers": [ACME], "watch": False}
        async with opened(tmp_path, shop=signed_by(KEY), host_options=other_options) as other:
            await other.load("refunds")
        with pytest.raises(ApprovalRequired, match="changed"):
            await host.load("refunds")
        assert host.active() == ()


async def test_a_decline_while_a_load_waits_leaves_nothing_loaded(tmp_path: Path) -> None:
    sim = plain()
    async with opened(tmp_path, shop=sim, host_options={"ask": agree, "watch": False}) as host:
        skill = await host.find("refunds")
        await host.load("refunds")
        await host.decide.decline(skill)
        assert host.active() == ()
        with pytest.raises(ApprovalRequired, match="declined"):
            await host.load("refunds")
