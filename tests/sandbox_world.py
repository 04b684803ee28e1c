"""A sandbox as root and as an unprivileged user, and a world around it that no script may reach."""

from __future__ import annotations

import http.server
import itertools
import json
import os
import secrets
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from environments import bubblewrap

ROOT = Path(__file__).parent.parent
NOBODY = 65534
USERS = ("root", "unprivileged")


class Worker:
    """A process that runs scripts in the sandbox as one user."""

    def __init__(self, user: str, temporary: Path, secret: str, program: Path) -> None:
        self.user, self.temporary = user, temporary
        self.uid = 0 if user == "root" else NOBODY if os.getuid() == 0 else os.getuid()
        tests = ROOT / "tests"
        environment = {
            "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join([str(tests), str(ROOT / "src")]),
            "TMPDIR": str(temporary),
            "SECRET_TOKEN": secret,
            "HOME": str(temporary / "home"),
        }
        # It inherits a descriptor of a folder outside, as a careless program would leave one open.
        self.process = subprocess.Popen(
            [sys.executable, str(tests / "sandbox_worker.py"), str(self.uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._ids = itertools.count()

    def start(self, **job: Any) -> int:
        """Begin a run, without waiting for it."""
        assert self.process.stdin is not None
        number = next(self._ids)
        self.process.stdin.write(json.dumps({"id": number, **job}) + "\n")
        self.process.stdin.flush()
        return number

    def answers(self, count: int) -> list[dict[str, Any]]:
        """The next answers, in the order in which they come."""
        assert self.process.stdout is not None
        return [json.loads(self.process.stdout.readline()) for _ in range(count)]

    def run(self, code: str, *, script: str = "scripts/run.py", **job: Any) -> dict[str, Any]:
        """Run one script and wait for its end."""
        self.start(script=script, files={script: code, **job.pop("files", {})}, **job)
        return self.answers(1)[0]

    def folder(self, name: str) -> Path:
        """A new folder outside the sandbox that the user owns."""
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.temporary))
        os.chown(folder, self.uid, self.uid)
        return folder

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


@dataclass
class World:
    """What is outside of the sandbox, and what is granted."""

    folder: Path
    secret: str
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def grants(self) -> list[str]:
        port = self.facts["granted_port"]
        return [f"read:{self.folder}/docs", f"write:{self.folder}/out", f"net:localhost:{port}"]


class _Granted(http.server.BaseHTTPRequestHandler):
    """The server that may be reached."""

    protocol_version = "HTTP/1.1"
    closed_port = 0

    def do_GET(self) -> None:
        text = f"{self.headers['Host']}\n".encode()
        self.send_response(302 if self.path == "/redirect" else 200)
        self.send_header("Location", f"http://127.0.0.1:{self.closed_port}/")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def sandbox_folder() -> Generator[Path]:
    """A folder that every user may enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="skillwire-tests-", dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def bwrap(sandbox_folder: Path) -> Path:
    """A copy of bubblewrap that every user may run."""
    (sandbox_folder / "bin").mkdir(exist_ok=True)
    return Path(shutil.copy(bubblewrap(), sandbox_folder / "bin" / "bwrap"))


@pytest.fixture(scope="session")
def secret() -> str:
    return f"secret-{secrets.token_hex(8)}"


@pytest.fixture(scope="module", params=USERS)
def worker(
    request: pytest.FixtureRequest, sandbox_folder: Path, bwrap: Path, secret: str
) -> Generator[Worker]:
    if request.param == "root" and os.getuid() != 0:
        pytest.skip("only root can be root")
    temporary = Path(tempfile.mkdtemp(prefix=f"{request.param}-", dir=sandbox_folder))
    temporary.chmod(0o755)
    started = Worker(request.param, temporary, secret, bwrap)
    os.chown(temporary, started.uid, started.uid)
    yield started
    started.close()


@pytest.fixture(scope="module")
def world(worker: Worker, secret: str) -> Generator[World]:
    found = World(worker.temporary / "world", secret)
    for name in ("docs", "out", "home"):
        (found.folder / name).mkdir(parents=True)
    (found.folder / "secret.txt").write_text(secret)
    (found.folder / "docs/text.txt").write_text("text")
    (found.folder / "docs/link-to-secret").symlink_to("../secret.txt")
    (worker.temporary / "outside-marker").write_text("x")
    mark = f"mark-{secrets.token_hex(8)}"
    with ExitStack() as stack:
        closed, closed6 = (
            _serve(stack, host, family, found.secret)
            for host, family in (("0.0.0.0", socket.AF_INET), ("::1", socket.AF_INET6))
        )
        _Granted.closed_port = closed
        granted = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Granted))
        stack.callback(granted.shutdown)
        threading.Thread(target=granted.serve_forever, daemon=True).start()
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(found.folder / "socket"))
        (found.folder / "socket").chmod(0o777)
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0{mark}")
        for one in (unix, abstract):
            one.listen(64)
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        victim = subprocess.Popen([f"victim-{mark}", "600"], executable="/bin/sleep", **_as(worker.uid))
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        found.facts = {
            "reversed": secret[::-1],
            "secret_file": str(found.folder / "secret.txt"),
            "docs": str(found.folder / "docs"),
            "out": str(found.folder / "out"),
            "home": str(found.folder / "home"),
            "temporary": str(worker.temporary),
            "mark": mark,
            "victim": victim.pid,
            "victim_mark": f"victim-{mark}",
            "nodename": os.uname().nodename,
            "closed_port": closed,
            "closed_port6": closed6,
            "granted_port": granted.server_address[1],
            "udp_port": udp.getsockname()[1],
            "addresses": [one for one in [_own_address()] if one],
            "nameservers": _nameservers(),
            "unix_socket": str(found.folder / "socket"),
        }
        (found.folder / "docs/world.json").write_text(json.dumps(found.facts))
        for path in (found.folder, *found.folder.rglob("*")):
            os.lchown(path, worker.uid, worker.uid)
        yield found


def _as(uid: int) -> dict[str, Any]:
    return {"user": uid, "group": uid, "extra_groups": []} if os.getuid() != uid else {}


def _serve(stack: ExitStack, host: str, family: socket.AddressFamily, text: str) -> int:
    """A server that tells everybody the secret."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            body = text.encode()
            self.request.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    class Server(socketserver.ThreadingTCPServer):
        address_family = family
        daemon_threads = True

    server = stack.enter_context(Server((host, 0), Handler))
    stack.callback(server.shutdown)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # Nothing is sent.
        except OSError:
            return ""
        return probe.getsockname()[0]


def _nameservers() -> list[str]:
    try:
        lines = Path("/etc/resolv.conf").read_text().splitlines()
    except OSError:
        return []
    return [line.split()[1] for line in lines if line.startswith("nameserver ") and ":" not in line]


def processes(mark: str) -> Sequence[str]:
    """The processes that have a text in their command line."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found
