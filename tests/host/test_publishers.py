"""A server that must have a publisher: what that publisher did not sign is neither approved nor loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from publishers import new_key
from simulator import Simulator, agree, opened
from skillwire.errors import ApprovalRequired
from skillwire.skill.digests import digest_of
from skillwire.trust.oms import SIGNATURE_FILE
from skillwire.trust.publishers import Publisher
from skillwire.trust.signatures import sign_files

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
        await host.admin.approve(await host.find("refunds"))
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
        for attempt in (host.admin.approve(skill), host.load("refunds")):
            with pytest.raises(ApprovalRequired, match=reason):
                await attempt
    assert {uri.rpartition("/")[2] for uri in sim.read_uris()} <= {SIGNATURE_FILE}


async def test_an_unsigned_skill_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds", files=FILES)
    async with opened(tmp_path, shop=sim, **options(ACME)) as host:
        with pytest.raises(ApprovalRequired, match="not signed"):
            await host.load("refunds")
    assert sim.read_uris() == []
