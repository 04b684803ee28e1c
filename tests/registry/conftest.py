"""A registry in SQLite or in a real PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from postgres import Postgres, new_postgres, run_folder, shared_postgres
from skillwire.registry import FileRow, Published, Publishing, Store
from skillwire.registry.publications import publication_of
from skillwire.skill import digest_of
from waiting import PATIENCE

Publish: TypeAlias = Callable[..., Published]


both_databases = pytest.mark.parametrize(
    "store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.process)], indirect=True
)
"""For what the two databases do in different ways. Other tests have a registry in SQLite."""


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """The PostgreSQL of this run."""
    with shared_postgres(run_folder(tmp_path_factory)) as server:
        yield server


@pytest.fixture
def own_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL that only this test uses, and may kill."""
    with new_postgres(run_folder(tmp_path_factory)) as server:
        yield server


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables of a registry, to copy: migrations take longer than many tests."""
    file = tmp_path_factory.mktemp("registry") / "template.db"
    store = Store(f"sqlite:///{file}")
    store.create()
    store.close()
    return file


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty registry with the namespace `acme`, in SQLite unless a test is for `both_databases`."""
    if getattr(request, "param", "sqlite") == "sqlite":
        file = tmp_path / "registry.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), file)
        url = f"sqlite:///{file}"
    else:
        url = request.getfixturevalue("postgres").new()
    # A busy machine may need longer for a call than a registry waits.
    store = Store(url, call_seconds=PATIENCE)
    Publishing(store).set_namespace("acme", by="test")
    yield store
    store.close()


def skill_md(name: str, description: str, body: str = "Do it.") -> bytes:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}\n".encode()


def publish_to(store: Store) -> Publish:
    """Publish a skill with one line: a name, a version, and what differs from the usual."""
    publishing = Publishing(store)

    def publish(
        name: str,
        version: str = "1.0.0",
        *,
        description: str = "Does one thing well. Use when it has to be done.",
        namespace: str = "acme",
        channel: str = "stable",
        files: dict[str, bytes] | None = None,
        promote: bool = True,
        expect: str | None = None,
        by: str = "token:writer",
    ) -> Published:
        contents = {"SKILL.md": skill_md(name, description), **(files or {})}
        rows = [FileRow(path, digest_of(data), len(data)) for path, data in contents.items()]
        draft = publication_of(namespace, version, channel, rows, promote=promote, expect=expect)
        missing = set(publishing.missing(draft, by=by))
        publishing.upload(
            namespace, [data for data in contents.values() if digest_of(data) in missing], by=by
        )
        return publishing.publish(draft, by=by)

    return publish


@pytest.fixture
def publish(store: Store) -> Publish:
    return publish_to(store)
