"""What docs/operate sets up: Debian's nginx and PgBouncer, and what its units start."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import os
import random
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from mcp.client.streamable_http import streamable_http_client

from postgres import Postgres, new_postgres, run_folder
from server.test_notifications import Heard, legacy, modern
from skillwire.registry import Publishing, Store
from waiting import eventually

ROOT = Path(__file__).parent.parent.parent
FILES = ROOT / "docs/operate"
PAGE = ROOT / "docs/operate.md"
BIN = Path(sys.executable).parent
HOST = "skills.example.org"
PATIENCE = 120
ROLES = ("skillwire", "skillwire_owner", "skillwire_backup")
_SERVICES = ROOT / ".envs/services"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def program(name: str) -> str:
    """A program of this machine, or of the packages that `make environments` unpacks."""
    places = [_SERVICES / folder / name for folder in ("usr/sbin", "usr/bin", "bin")]
    found = shutil.which(name) or next((str(file) for file in places if file.exists()), None)
    if found is None:
        message = f"{name} is not installed, and there are no Debian packages here to take it from"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return found


def libraries() -> dict[str, str]:
    """The environment in which an unpacked program finds its libraries."""
    folders = [*_SERVICES.glob("usr/lib/*-linux-gnu"), *_SERVICES.glob("usr/lib/*-linux-gnu/systemd")]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}


def configured(name: str, changes: Mapping[str, object]) -> str:
    """A file of docs/operate, with its names and addresses replaced by those of a test."""
    text = (FILES / name).read_text("utf-8")
    for old, new in changes.items():
        assert old in text, f"{name} has no {old}"
        text = text.replace(old, str(new))
    return text


def free_port() -> int:
    """A free port of four digits whose metrics port (10,000 more) is free too, as the units need it."""
    while True:
        port = random.randrange(5000, 9999)
        with suppress(OSError), ExitStack() as stack:
            for each in (port, port + 10_000):
                one = stack.enter_context(socket.socket())
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(("127.0.0.1", each))
            return port


def wait_for(url: str, *, status: int = 200, verify: Any = True) -> httpx.Response:
    """The first response with this status."""
    answers: list[httpx.Response] = []

    def has_answered() -> bool:
        with suppress(httpx.TransportError):
            answers.append(httpx.get(url, verify=verify, timeout=PATIENCE))
        return bool(answers) and answers[-1].status_code == status

    eventually(has_answered)
    return answers[-1]


class Unit:
    """What a unit of docs/operate starts: its command with its environment, as systemd expands them."""

    def __init__(self, name: str, instance: int, environment: Mapping[str, str], changes: Mapping[str, str]):
        self.port = instance
        text = (FILES / name).read_text("utf-8").replace("%i", str(instance))
        command = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
        assert command
        line = command[1]
        for old, new in changes.items():
            assert old in line, f"{name} has no {old}"
            line = line.replace(old, new)
        options = shlex.split(environment["SKILLWIRE_OPTIONS"])
        words = [
            word
            for part in shlex.split(line)
            for word in (options if part == "$SKILLWIRE_OPTIONS" else [part])
        ]
        assert words[0] == "/opt/skillwire/bin/skillwire"
        self.command = [str(BIN / "skillwire"), *words[1:]]
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SKILLWIRE_")},
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def metrics(self) -> str:
        """What Prometheus would read."""
        return httpx.get(f"http://127.0.0.1:1{self.port}/metrics", timeout=PATIENCE).text

    def start(self, *, until_ready: bool = True) -> None:
        self.process = subprocess.Popen(
            self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        if until_ready:
            wait_for(f"{self.base}/readyz")

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        return self.process.wait(PATIENCE)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It neither answers nor closes a connection, and the system still accepts new ones for it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def hearing(http: httpx.AsyncClient, url: str, version: str) -> AsyncGenerator[Heard]:
    """What a client of this protocol version hears, whose stream is open."""
    opened = asyncio.Event()

    async def note(response: httpx.Response) -> None:
        if response.request.method == "GET" and response.status_code == 200:
            opened.set()

    http.event_hooks["response"].append(note)
    target = streamable_http_client(f"{url}/mcp", http_client=http)
    if version == "2026-07-28":
        async with modern(target) as heard:
            yield heard
    else:
        async with legacy(target) as (_, heard):
            await opened.wait()
            yield heard


def environment_of(name: str, changes: Mapping[str, object]) -> dict[str, str]:
    """The variables of an environment file of docs/operate."""
    lines = configured(name, changes).splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


class Nginx:
    """Debian's nginx with Debian's own nginx.conf, which includes files of docs/operate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = folder / "site.pem"
        self._make_certificate()
        for name in ("conf.d", "sites-enabled", "modules-enabled", "temp"):
            (folder / name).mkdir()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def add(self, name: str, changes: Mapping[str, object]) -> str:
        """Serve with a file of docs/operate; gives its URL."""
        host = re.search(r"server_name (\S+);", (FILES / name).read_text("utf-8"))
        assert host
        port = free_port()
        own = {
            "listen 443": f"listen 127.0.0.1:{port}",
            f"/etc/ssl/certs/{host[1]}.pem": self.certificate,
            f"/etc/ssl/private/{host[1]}.key": self.folder / "site.key",
        }
        (self.folder / "conf.d" / name).write_text(configured(name, {**own, **changes}))
        return f"https://localhost:{port}"

    def start(self) -> None:
        nginx = program("nginx")
        base = _SERVICES / "etc/nginx"
        if not base.is_dir():
            base = Path("/etc/nginx")
        shutil.copy(base / "mime.types", self.folder)
        main = (base / "nginx.conf").read_text()
        for old, new in {
            "user www-data;": "",
            "/run/nginx.pid": f"{self.folder}/nginx.pid",
            "/var/log/nginx/error.log": f"{self.folder}/error.log",
            "/var/log/nginx/access.log": f"{self.folder}/access.log",
            "/etc/nginx/": f"{self.folder}/",
            "worker_processes auto;": "worker_processes 2;",
        }.items():
            main = main.replace(old, new)
        if os.geteuid() == 0:
            main = f"user root;\n{main}"
        temporary = "".join(
            f"{kind}_temp_path {self.folder}/temp/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        file = self.folder / "nginx.conf"
        file.write_text(main.replace("http {", f"http {{\n{temporary}", 1))
        command = [nginx, "-c", str(file), "-g", "daemon off;"]
        checked = subprocess.run([*command, "-t"], env=libraries(), capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
        assert "warn" not in checked.stderr
        self._process = subprocess.Popen(command, env=libraries())

    @contextmanager
    def serving(self, url: str) -> Iterator[None]:
        """It runs until the block ends; ready at this URL from the start of the block."""
        self.start()
        try:
            wait_for(f"{url}/readyz", verify=self.trust)
            yield
        finally:
            if self._process is not None:
                self._process.terminate()
                self._process.wait(PATIENCE)

    def _make_certificate(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
        names = [x509.DNSName(HOST), x509.DNSName("localhost")]
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(
                x509.SubjectAlternativeName([*names, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                False,
            )
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
            .sign(key, hashes.SHA256())
        )
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self.folder / "site.key").write_bytes(private)


class Database:
    """A PostgreSQL for the roles of docs/operate/roles.sql, which sign in with passwords."""

    def __init__(self, server: Postgres, folder: Path) -> None:
        self.server = server
        self.passwords = folder / "pgpass"
        self.passwords.write_text("".join(f"*:*:*:{role}:secret of {role}\n" for role in ROLES))
        self.passwords.chmod(0o600)
        rules = self.server.folder / "pg_hba.conf"
        own = "".join(f"local all {role} scram-sha-256\n" for role in ROLES)
        rules.write_text(own + rules.read_text())

    def psql(self, file: Path) -> None:
        """Run a file of SQL as the superuser."""
        command = [self.server.bin_path / "psql", self.server.uri("postgres"), "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run([*command, "-f", file], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def set_passwords(self) -> None:
        with psycopg.connect(self.server.uri("postgres"), autocommit=True) as admin:
            for role in ROLES:
                admin.execute(f"ALTER ROLE {role} PASSWORD 'secret of {role}'".encode())
            admin.execute("SELECT pg_reload_conf()")

    def url(self, role: str, database: str = "skills") -> str:
        """A store's URL as the pages have it; the password comes from the file of passwords."""
        return f"postgresql://{role}@/{database}?host={self.server.folder}"

    def store(self, role: str = "skillwire") -> Store:
        return Store(f"{self.url(role)}&passfile={self.passwords}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operate")


@pytest.fixture
def own_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL that only this test uses, and may kill."""
    with new_postgres(run_folder(tmp_path_factory)) as server:
        yield server


@pytest.fixture(scope="module")
def empty_database(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A PostgreSQL without the roles and tables of the page."""
    with new_postgres(run_folder(tmp_path_factory)) as server:
        yield Database(server, folder)


def set_up(database: Database) -> None:
    """The roles, the tables, and the namespace `acme`."""
    database.psql(FILES / "roles.sql")
    database.set_passwords()
    owner = database.store("skillwire_owner")
    owner.create()
    owner.close()
    store = database.store()
    Publishing(store).set_namespace("acme", by="test")
    store.close()


@pytest.fixture(scope="module")
def database(empty_database: Database) -> Database:
    """A registry with the namespace `acme`, made as the page says."""
    set_up(empty_database)
    return empty_database


def replica(database: Database, url: str | None = None) -> Unit:
    """A replica as its unit starts it."""
    changes = {
        "postgresql://skillwire@127.0.0.1/skills": url or database.url("skillwire"),
        "/etc/skillwire/pgpass": database.passwords,
    }
    return Unit("skillwire-registry@.service", free_port(), environment_of("registry.env", changes), {})


@contextmanager
def started(*units: Unit) -> Iterator[None]:
    try:
        for unit in units:
            unit.start(until_ready=False)
        for unit in units:
            wait_for(f"{unit.base}/readyz")
        yield
    finally:
        for unit in units:
            with suppress(Exception):
                unit.stop()
