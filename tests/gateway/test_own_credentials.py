"""A caller with a credential of their own decides in the same records as with the one that all share."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateways import User, joined, make_gateway, serving, text_of
from simulator import Simulator
from skillwire.access import Caller
from skillwire.access.callers import Credential
from skillwire.gateway import GatewayOptions
from skillwire.host import ServerConfig

pytestmark = pytest.mark.anyio


async def test_an_approval_with_a_credential_of_ones_own_is_kept_with_those_of_all_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALICE_UP", "a token")
    sim = Simulator()
    sim.skill("refunds")
    upstream = make_gateway(tmp_path / "upstream", GatewayOptions(approval="listed"), docs=sim)
    alice = Caller(name="alice", credentials={"up": Credential(variable="ALICE_UP")})
    async with serving(upstream) as url:
        gateway = make_gateway(tmp_path, up=ServerConfig(url=url))
        async with gateway, joined(gateway, caller=alice, user=User()) as client:
            read = await client.read_resource("skill://up/docs/refunds/SKILL.md")
            assert "refunds" in text_of(read)
            [record] = gateway.host.consent.approved(caller="alice")
            assert record.key.uri == "skill://docs/refunds/SKILL.md"
