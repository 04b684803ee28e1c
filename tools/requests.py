"""The requests whose files are counted by tools/budget.py: `python -m tools.requests` prints them as JSON.

Each request is run for real, with every call of every thread recorded. The other side, where there is one, is
a process of its own, so that only one side is counted. All of it runs once before it counts: nothing is
imported, compiled or created for the first time while a request is recorded. Then it runs twice, and the
files that both runs touched count: what a background task did at that moment is not part of the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from html import unescape
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

ROOT = Path(__file__).parent.parent
SOURCE = str(ROOT / "src/skillwire") + os.sep
_SUSPENDS = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
PATIENCE = 120
"""Seconds until a run fails that would otherwise wait for ever."""
_PERIOD = 2.5
"""Seconds. What a replica does once a second belongs to what it does when something is published."""
_SETTLED = 2.5
"""Seconds. Responses are not cached for files that were changed a moment ago."""
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "budget", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_URI = "skill://pdf/SKILL.md"

Moment: TypeAlias = tuple[str, str]
"""A file below src/skillwire and the name of a function in it."""

PATHS: Mapping[str, tuple[Moment, ...]] = {
    "HTTP read, first": (("sources/directory/source.py", "read"),),
    "stdio list": (("server/library.py", "list_skills"),),
    "discovery": (("wire/v1.py", "list_page"), ("trust/admission.py", "admit")),
    "load_skill": (("host/approver.py", "obtain"), ("trust/verify.py", "verify_skill_md")),
    "edit to revocation": (("host/approver.py", "end_outdated"),),
    "add": (("install/fetcher.py", "fetch"), ("install/workspace.py", "carry_out")),
    "gateway read, first": (("host/loader.py", "fetch"),),
    "publish": (("registry/publishing.py", "publish"),),
    "verify URL": (("conformance/probe.py", "pages"), ("conformance/checks/entries.py", "check_files")),
}
"""The calls to which docs/architecture.md shows the way: the call stack there is what a reader follows."""


class Recorder:
    """Records the files whose functions are called, in all threads that start after `install`."""

    def __init__(self) -> None:
        self.files: dict[str, set[str]] = {}
        self.stacks: dict[str, dict[Moment, list[str]]] = {}
        self._name = ""

    def install(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def uninstall(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @contextmanager
    def request(self, name: str) -> Generator[None]:
        """Record everything that happens until the block ends."""
        self.files[name], self.stacks[name] = set(), {}
        self._name = name
        try:
            yield
        finally:
            self._name = ""

    def path(self, name: str) -> list[str]:
        """The files on the way to the moments of a request, in the order of the calls."""
        moments, stacks = PATHS.get(name, ()), self.stacks[name]
        if missing := [moment for moment in moments if moment not in stacks]:
            raise RuntimeError(f"never called in {name}: {missing}; correct PATHS in tools/requests.py")
        return list(dict.fromkeys(file for moment in moments for file in stacks[moment]))

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        name, code = self._name, frame.f_code
        if not name or event != "call" or not code.co_filename.startswith(SOURCE):
            return
        if code.co_name == "<module>" or not _is_start(frame):
            return  # The first request imports a module, any may find it imported.
        file = _file(frame)
        self.files[name].add(file)
        moment = file, code.co_name
        if moment in PATHS.get(name, ()) and moment not in self.stacks[name]:
            self.stacks[name][moment] = _stack(frame)


RECORDER = Recorder()


def _is_start(frame: FrameType) -> bool:
    """Whether this is a call, not a coroutine that goes on: background tasks go on at any time."""
    code = frame.f_code
    return code.co_code[frame.f_lasti + 1] & 3 == 0 or not code.co_flags & _SUSPENDS


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(SOURCE).replace(os.sep, "/")


def _stack(frame: FrameType) -> list[str]:
    files: list[str] = []
    here: FrameType | None = frame
    while here is not None:
        if here.f_code.co_filename.startswith(SOURCE):
            files.insert(0, _file(here))
        here = here.f_back
    return files


# The requests, each in a folder of its own with one skill in `skills`.


async def read_over_http(folder: Path) -> None:
    from skillwire import SkillServer
    from skillwire.server import ServerOptions

    # Watching starts when the process is idle, which may be in the middle of a request.
    app = SkillServer(folder / "skills", options=ServerOptions(watch=False)).http_app()
    async with lifespan(app):
        with RECORDER.request("HTTP read, first"):
            await post(app, "resources/read", uri=_URI)
        await post(app, "resources/read", uri=_URI)
        with RECORDER.request("HTTP read, cached"):
            await post(app, "resources/read", uri=_URI)


async def list_over_stdio(folder: Path) -> None:
    from skillwire import SkillServer
    from skillwire.server import ServerOptions

    server = SkillServer(folder / "skills", options=ServerOptions(watch=False))
    with standard_streams() as (send, receive):
        running = asyncio.create_task(server.run_stdio())

        async def ask(method: str, **params: object) -> None:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            os.write(send, json.dumps(body).encode() + b"\n")
            assert b'"result"' in await asyncio.to_thread(os.read, receive, 1 << 16)

        # As the clients of today do it, on a connection that is open.
        client = {"name": "budget", "version": "1"}
        await ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        os.write(send, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        await ask("resources/read", uri=_URI)
        with RECORDER.request("stdio list"):
            await ask("skills/list")
        os.close(send)
        await running


async def discover_and_load(folder: Path) -> None:
    from skillwire import SkillHost

    with serving(folder / "skills") as url:
        with RECORDER.request("discovery"):
            host = SkillHost(servers={"team": url}, ask=_yes, **_state(folder))
            await host.__aenter__()
            assert [skill.handle for skill in host.skills()] == ["pdf"]
        try:
            tool = next(one for one in host.tools() if one.name == "load_skill")
            with RECORDER.request("load_skill"):
                assert not (await tool.handler({"name": "pdf"})).is_error
            with RECORDER.request("edit to revocation"):
                write_skill(folder / "skills", "Do something else.\n")
                async for event in host.log.events():
                    if event.kind == "revoked":
                        break
        finally:
            await host.close()


async def add_and_sync(folder: Path) -> None:
    project = folder / "project"
    project.mkdir()
    with contextlib.chdir(project):
        with RECORDER.request("add"):
            await command("add", "../skills", "--yes")
        shutil.rmtree(project / ".agents")
        with RECORDER.request("sync"):
            await command("sync", "--yes")


async def read_through_gateway(folder: Path) -> None:
    from skillwire.gateway import Gateway, GatewayOptions
    from skillwire.host import ServerConfig
    from skillwire.server import ServerOptions

    with serving(folder / "skills") as url:
        mode: Any = "always"
        servers = {"docs": ServerConfig(url=url, approval=mode)}
        options = GatewayOptions(approval="listed")
        gateway = Gateway({"servers": servers, **_state(folder)}, ServerOptions(watch=False), options=options)
        app = gateway.http_app()
        async with lifespan(app):
            await post(app, "skills/list")
            with RECORDER.request("gateway read, first"):
                await post(app, "resources/read", uri="skill://docs/pdf/SKILL.md")
            with RECORDER.request("gateway read, again"):
                await post(app, "resources/read", uri="skill://docs/pdf/SKILL.md")


async def publish(folder: Path) -> None:
    from skillwire.registry import RegistryApp, Store

    store = f"sqlite:///{folder / 'registry.db'}"
    await command("registry", "init", "--store", store)
    await command("registry", "namespace", "acme", "--store", store)
    await command("registry", "grants", "add", "anyone", "read", "--namespace", "acme", "--store", store)
    to = ("--store", store, "--namespace", "acme")
    with RECORDER.request("publish"):
        await command("publish", str(folder / "skills/pdf"), *to)
    replica = Store(store)
    app = RegistryApp(replica)
    async with lifespan(app), listening(app) as notified:
        write_skill(folder / "skills", "Do something else.\n", version="1.0.1")
        with RECORDER.request("seen on a replica"):
            words = [sys.executable, "-m", "skillwire", "publish", str(folder / "skills/pdf"), *to]
            await asyncio.to_thread(subprocess.run, words, check=True, capture_output=True, timeout=PATIENCE)
            await notified.wait()
            await asyncio.sleep(_PERIOD)
    replica.close()


async def open_review_page(folder: Path) -> None:
    import httpx2

    from skillwire import SkillHost
    from skillwire.ui import ReviewApp

    base = "http://127.0.0.1:8765"
    with serving(folder / "skills") as url:
        async with SkillHost(servers={"team": url}, **_state(folder)) as host:
            app = ReviewApp(host, names=["127.0.0.1"], port=8765)
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url=base) as client:
                opened = (await client.get(app.link())).text
                inbox = (await client.get(unescape(_match(r'content="0;url=([^"]+)"', opened)))).text
                link = unescape(_match(r'href="([^"]*/skill\?[^"]*)"', inbox))
                with RECORDER.request("review page"):
                    page = await client.get(link)
                assert page.status_code == 200
                assert "Do it." in page.text


async def verify(folder: Path) -> None:
    with serving(folder / "skills") as url, RECORDER.request("verify URL"):
        await command("verify", url)


REQUESTS: tuple[Callable[[Path], Coroutine[Any, Any, None]], ...] = (
    read_over_http,
    list_over_stdio,
    discover_and_load,
    add_and_sync,
    read_through_gateway,
    publish,
    open_review_page,
    verify,
)


# What the requests need.


def write_skill(folder: Path, text: str = "Do it.\n", *, version: str = "1.0.0") -> None:
    (folder / "pdf").mkdir(exist_ok=True, parents=True)
    head = f"name: pdf\ndescription: Reads PDF files.\nmetadata:\n  version: {version}\n"
    (folder / "pdf/SKILL.md").write_text(f"---\n{head}---\n{text}")


def _message(method: str, **params: object) -> bytes:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": _META, **params}}
    return json.dumps(body, separators=(",", ":")).encode()


@asynccontextmanager
async def lifespan(app: Any) -> AsyncGenerator[None]:
    """Run an ASGI application as a server does."""
    asked: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    told: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    task = asyncio.ensure_future(app({"type": "lifespan"}, asked.get, told.put))
    await asked.put({"type": "lifespan.startup"})
    started = await told.get()
    assert started["type"] == "lifespan.startup.complete", started
    try:
        yield
    finally:
        await asked.put({"type": "lifespan.shutdown"})
        await told.get()
        await task


async def post(app: Any, method: str, on_body: Callable[[bytes], None] | None = None, **params: Any) -> None:
    """Send one request of 2026-07-28 to an ASGI application."""
    body = _message(method, **params)
    headers = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        "content-length": str(len(body)),
    }
    if "uri" in params:
        headers["mcp-name"] = params["uri"]
    scope = {
        "type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "http_version": "1.1",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "scheme": "http",
    }  # fmt: skip
    sent = False
    answer = b""

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:  # The client waits for the answer and does not disconnect.
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal answer
        assert message.get("status", 200) == 200, message
        part = message.get("body", b"")
        answer += part
        if on_body is not None:
            on_body(part)

    await app(scope, receive, send)
    assert b'"error":' not in answer, answer


@asynccontextmanager
async def listening(app: Any) -> AsyncGenerator[asyncio.Event]:
    """An event that is set when a subscribed client is notified of a change."""
    ready, notified = asyncio.Event(), asyncio.Event()

    def hear(part: bytes) -> None:
        ready.set()
        if b"list_changed" in part:
            notified.set()

    wanted = {"resourcesListChanged": True}
    stream = asyncio.create_task(post(app, "subscriptions/listen", hear, notifications=wanted))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([stream, waiting], return_when=asyncio.FIRST_COMPLETED)
    if stream.done():
        await stream
    try:
        yield notified
    finally:
        stream.cancel()
        await asyncio.wait([stream])


@contextmanager
def standard_streams() -> Generator[tuple[int, int]]:
    """Pipes in the place of standard input and output: where to write, and where to read."""
    saved = os.dup(0), os.dup(1)
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    os.dup2(theirs_in, 0)
    os.dup2(theirs_out, 1)
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield ours_out, ours_in
    finally:
        for number, old in enumerate(saved):
            os.dup2(old, number)
            os.close(old)
        os.close(ours_in)


async def command(*words: str) -> None:
    """Run a command of `skillwire` in this process."""

    def run() -> None:
        from skillwire.cli import main

        out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        argv, sys.argv = sys.argv, ["skillwire", *words]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                main()
        except SystemExit as error:
            if error.code:
                raise RuntimeError(f"skillwire {' '.join(words)}: {out.buffer.getvalue().decode()}") from None
        finally:
            sys.argv = argv

    await asyncio.to_thread(run)


@contextmanager
def serving(folder: Path) -> Generator[str]:
    """The URL of `skillwire serve` in a process of its own."""
    words = [sys.executable, "-m", "skillwire", "serve", str(folder), "--http", "127.0.0.1:0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            lines: list[str] = []
            for line in process.stderr:
                lines.append(line)
                if url := re.search(r"http://\S+/mcp", line):
                    yield url[0]
                    return
            raise RuntimeError("".join(lines))
        finally:
            process.kill()


def _match(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, text
    return match[1]


async def _yes(request: object) -> bool:
    return True


def _state(folder: Path) -> dict[str, Any]:
    return {"cache_directory": folder / "cache", "approvals_file": folder / "approvals.sqlite"}


def run(names: Collection[str] = ()) -> dict[str, dict[str, list[str]]]:
    """The files that each request touches, and those on its path."""
    RECORDER.install()
    runs = [request for request in REQUESTS if not names or request.__name__ in names for _ in range(3)]
    touched: dict[str, list[set[str]]] = {}
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place).resolve() / str(number) for number in range(len(runs))]
        for folder in folders:
            write_skill(folder / "skills")
        time.sleep(_SETTLED)
        for request, folder in zip(runs, folders, strict=True):
            os.environ["HOME"] = str(folder)
            RECORDER.files = {}
            asyncio.run(asyncio.wait_for(request(folder), PATIENCE))
            for name, files in RECORDER.files.items():
                touched.setdefault(name, []).append(files)
    RECORDER.uninstall()
    return {
        name: {"files": sorted(second & third), "path": RECORDER.path(name)}
        for name, (_, second, third) in touched.items()
    }


def main() -> None:
    for name in list(os.environ):
        if name.startswith(("SKILLWIRE_", "XDG_")):
            del os.environ[name]
    print(json.dumps(run(sys.argv[1:])))


if __name__ == "__main__":
    main()
