"""Gateways that share approvals and the audit log in a store; and stores of earlier versions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from registry.conftest import publish_to
from skillwire import ApprovalRequired, SkillHost, SkillServer
from skillwire.host.approvals.database import ApprovalBackend, ApprovalDatabase
from skillwire.host.approvals.schema import Decided, Decision, Row
from skillwire.registry.approvals import SharedApprovals, StoreAudit
from skillwire.registry.audit import first_broken, read_audit
from skillwire.registry.catalog import StoreCatalog, View
from skillwire.registry.publishing import Publishing
from skillwire.registry.store import Store


def row(server: str, uri: str = "skill://a/SKILL.md", **changes: Any) -> Row:
    usual = Row(server, uri, "label", "[]", 0, 1, "{}", 1, "2026-11-16", "ada", "asked")
    return replace(usual, **changes)


def story(database: ApprovalBackend) -> list[object]:
    """Everything that a host does with approvals, and what it gets back."""
    seen: list[object] = [database.open(), database.last_decisions(), database.signers()]
    declined = Decision("one", "skill://b/SKILL.md", Decided.DECLINED, "sha256:0", decided_at="t")
    database.put(row("one"), row("two"), decisions=[Decision("one", "skill://a/SKILL.md", Decided.APPROVED)])
    database.put(row("one", label="renamed"))
    database.decide(declined)
    database.decide(replace(declined, decision=Decided.REVOKED))
    seen += [database.rows(), database.row("one", "skill://a/SKILL.md"), database.row("one", "nothing")]
    seen += [database.decisions("one", "skill://b/SKILL.md"), database.last_decisions()]
    database.withdraw("two", "skill://a/SKILL.md", "another time", noted=declined)
    seen.append(database.row("two", "skill://a/SKILL.md"))
    ended = Decision("two", "skill://a/SKILL.md", Decided.CHANGED)
    database.withdraw("two", "skill://a/SKILL.md", "2026-11-16", noted=ended)
    seen += [database.row("two", "skill://a/SKILL.md"), database.decisions("two", "skill://a/SKILL.md")]
    database.put_signer("one", "skill://a/SKILL.md", "key:1")
    database.put_signer("one", "skill://a/SKILL.md", "key:2")
    seen += [database.signers(), database.signers("one", "skill://a/SKILL.md"), database.signers("two", "x")]
    seen += [database.remove("two", "skill://a/SKILL.md"), database.remove("one", "skill://a/SKILL.md")]
    database.put(row("one"), row("one", "skill://c/SKILL.md", is_current=0))
    seen += [database.remove_server("one"), database.rows(), database.signers()]
    for number in range(60):
        database.decide(replace(declined, digest=f"sha256:{number}"))
    return [*seen, [one.digest for one in database.decisions("one", "skill://b/SKILL.md")]]


def test_a_store_keeps_approvals_exactly_as_a_file_does(store: Store, tmp_path: Path):
    assert story(SharedApprovals(store)) == story(ApprovalDatabase(tmp_path / "approvals.db"))


@pytest.mark.anyio
async def test_a_decision_in_one_gateway_counts_in_the_other(store: Store, tmp_path: Path):
    skill = tmp_path / "skills" / "pdf"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: pdf\ndescription: Does one thing.\n---\nDo it.\n")

    def host() -> SkillHost:
        return SkillHost(
            servers={"team": SkillServer(tmp_path / "skills").low_level},
            approvals_file=SharedApprovals(store),
            cache_directory=tmp_path / "cache",
        )

    async with host() as first, host() as second:
        with pytest.raises(ApprovalRequired):
            await second.load("pdf")
        await first.admin.approve(await first.find("pdf"))
        assert "Do it." in (await second.load("pdf")).text
        await first.admin.revoke("pdf")
        with pytest.raises(ApprovalRequired):
            await second.load("pdf")


def test_gateways_write_into_one_chained_audit_log(store: Store):
    logs = [StoreAudit(store), StoreAudit(store)]
    for number in range(50):
        logs[number % 2].write("load", caller="ada", uri=f"skill://a/{number}/SKILL.md", digest="sha256:0")
    for log in logs:
        log.close()

    lines = [line for line in read_audit(store) if line.action == "load"]
    assert {line.what for line in lines} == {f"skill://a/{number}/SKILL.md" for number in range(50)}
    assert {line.who for line in lines} == {"caller:ada"}
    assert first_broken(store) is None


@pytest.mark.parametrize("revision", ["0001", "0002"])
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.process)])
def test_a_store_of_an_earlier_schema_is_migrated_and_keeps_everything(
    kind: str, revision: str, tmp_path: Path, request: pytest.FixtureRequest
):
    url = f"sqlite:///{tmp_path / 'old.db'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").empty()
    store = Store(url)
    store.create(revision)
    Publishing(store).set_namespace("acme", by="test")
    publish_to(store)("pdf", files={"a.md": b"kept"})
    before = StoreCatalog(store, View()).page(None, 10)

    store.create()

    assert StoreCatalog(store, View()).page(None, 10) == before
    assert SharedApprovals(store).rows() == []
    assert first_broken(store) is None
    store.close()
