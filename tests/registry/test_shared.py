"""Gateways that share approvals in a store; and stores of earlier versions."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from consent_contract import ConsentContract, ConsentFaults, MakeBackend, Place
from postgres import Postgres
from registry.conftest import both_databases, publish_to
from skillwire import ApprovalRequired, SkillHost, SkillServer
from skillwire.consent import ConsentBackend
from skillwire.errors import SourceError
from skillwire.registry import Publishing, SharedConsent, Store, View
from skillwire.registry import store as store_module
from skillwire.registry.audit import first_broken
from skillwire.registry.queries import SkillQueries


@both_databases
class TestSharedConsent(ConsentContract):
    @pytest.fixture
    def make(self, store: Store) -> MakeBackend:
        return lambda: SharedConsent(store)


def connected(url: str, stores: dict[ConsentBackend, Store]) -> ConsentBackend:
    store = Store(url)
    backend = SharedConsent(store)
    stores[backend] = store
    return backend


@contextmanager
def locked(url: str) -> Generator[None]:
    with psycopg.connect(url) as connection:
        connection.execute("LOCK TABLE consent IN ACCESS EXCLUSIVE MODE")
        yield
        connection.rollback()


class TestPostgresFaults(ConsentFaults):
    @pytest.fixture
    def stores(self) -> Generator[dict[ConsentBackend, Store]]:
        stores: dict[ConsentBackend, Store] = {}
        yield stores
        for store in stores.values():
            store.close()

    @pytest.fixture
    def place(self, postgres: Postgres, stores: dict[ConsentBackend, Store]) -> Place:
        url = postgres.new()

        def hurry(backend: ConsentBackend) -> None:
            stores[backend].call_seconds = 0.3

        return Place(
            name=url,
            make=lambda: connected(url, stores),
            hurry=hurry,
            locked=lambda: locked(url),
            busy="cannot be used right now|does not answer",
        )

    @pytest.fixture
    def full_make(
        self, own_postgres: Postgres, small_disk: Path, stores: dict[ConsentBackend, Store]
    ) -> MakeBackend:
        (small_disk / "other").write_bytes(bytes(3_000_000))
        url = own_postgres.new()
        own_postgres.move(url, ("consent", "consent_history"), small_disk)
        return lambda: connected(url, stores)


@pytest.mark.anyio
async def test_a_decision_in_one_gateway_counts_in_the_other(store: Store, tmp_path: Path):
    skill = tmp_path / "skills" / "pdf"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: pdf\ndescription: Does one thing.\n---\nDo it.\n")

    def host() -> SkillHost:
        return SkillHost(
            servers={"team": SkillServer(tmp_path / "skills").low_level},
            approvals_file=SharedConsent(store),
            cache_directory=tmp_path / "cache",
        )

    async with host() as first, host() as second:
        with pytest.raises(ApprovalRequired):
            await second.load("pdf")
        await first.decide.approve(await first.find("pdf"))
        assert "Do it." in (await second.load("pdf")).text
        await first.decide.revoke("pdf")
        with pytest.raises(ApprovalRequired):
            await second.load("pdf")


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.process)])
def test_a_store_of_an_earlier_schema_is_refused_until_it_is_migrated_and_keeps_everything(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    url = f"sqlite:///{tmp_path / 'old.db'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").empty()
    store = Store(url)
    with pytest.raises(SourceError, match="create it with skillwire registry init"):
        store.check_tables()
    store.create()
    store.check_tables()
    Publishing(store).set_namespace("acme", by="test")
    publish_to(store)("pdf", files={"a.md": b"kept"})
    before = SkillQueries(store, View()).page(None, 10)

    folder = tmp_path / "migrations"
    shutil.copytree(store_module.MIGRATIONS, folder)
    (folder / "versions/0002_notes.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n\nrevision = '0002'\ndown_revision = '0001'\n\n\n"
        "def upgrade():\n    op.add_column('namespaces', sa.Column('notes', sa.Text))\n"
    )
    monkeypatch.setattr(store_module, "MIGRATIONS", folder)

    with pytest.raises(SourceError, match="of revision 0001, this program needs 0002: migrate them"):
        store.check_tables()
    store.create()
    store.check_tables()

    assert SkillQueries(store, View()).page(None, 10) == before
    assert SharedConsent(store).read() == []
    assert first_broken(store) is None
    store.close()
