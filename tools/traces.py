"""Write the request traces of docs/architecture.md from real runs: `python -m tools.traces`.

A trace is the call stack at the moments that matter: when a file is read, a page is parsed, an approval is
withdrawn. The files on that stack, in the order of the calls, are what a reader opens to follow the request.
Leaf modules, which only hold values, are left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = str(ROOT / "src/skillwire") + os.sep
PAGE = ROOT / "docs/architecture.md"
MOST_FILES = 8
START, END = "<!-- traces: written by tools/traces.py -->", "<!-- end of traces -->"
LEAVES = ("lazy.py", "errors.py", "limits.py", "issues.py", "json_types.py", "text.py", "files.py")
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "trace", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
SKILL = "skill://pdf/SKILL.md"

Moment = tuple[str, str]
"""A file below src/skillwire and the name of a function in it."""


class Recorder:
    """Keeps the stacks at some moments, as files."""

    def __init__(self, moments: tuple[Moment, ...]) -> None:
        self.moments = moments
        self.stacks: dict[Moment, list[str]] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        moment = _file(frame), frame.f_code.co_name
        if moment in self.moments and moment not in self.stacks:
            self.stacks[moment] = list(_files(frame))

    @property
    def files(self) -> list[str]:
        missing = [moment for moment in self.moments if moment not in self.stacks]
        if missing:
            raise RuntimeError(f"never called in this trace: {missing}")
        return list(dict.fromkeys(file for moment in self.moments for file in self.stacks[moment]))


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(SOURCE).replace(os.sep, "/")


def _files(frame: FrameType) -> Generator[str]:
    found: list[str] = []
    here: FrameType | None = frame
    while here is not None:
        if here.f_code.co_filename.startswith(SOURCE) and _file(here) not in LEAVES:
            found.append(_file(here))
        here = here.f_back
    yield from reversed(found)


@contextmanager
def recording(*moments: Moment) -> Generator[Recorder]:
    """Record in this thread and in those that are started meanwhile."""
    recorder = Recorder(moments)
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        yield recorder
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def write_skill(folder: Path, text: str = "Do it.\n") -> None:
    (folder / "pdf").mkdir(exist_ok=True)
    (folder / "pdf/SKILL.md").write_text(f"---\nname: pdf\ndescription: Reads PDF files.\n---\n{text}")


def request(method: str, **params: object) -> bytes:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": _META, **params}}
    return json.dumps(body, separators=(",", ":")).encode()


async def read_over_http(folder: Path) -> list[str]:
    """A client reads a file over HTTP"""
    from skillwire import SkillServer

    app = SkillServer(folder).http_app()
    body = request("resources/read", uri=SKILL)
    headers = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "resources/read",
        "mcp-name": SKILL,
        "content-length": str(len(body)),
    }
    scope = {
        "type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "http_version": "1.1",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "scheme": "http",
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200, message

    async with lifespan(app):
        with recording(("sources/directory/source.py", "read")) as recorder:
            await app(scope, receive, send)  # pyright: ignore[reportArgumentType]
    return recorder.files


@asynccontextmanager
async def lifespan(app: Any) -> AsyncGenerator[None]:
    asked: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    told: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    task = asyncio.ensure_future(app({"type": "lifespan"}, asked.get, told.put))
    await asked.put({"type": "lifespan.startup"})
    await told.get()
    try:
        yield
    finally:
        await asked.put({"type": "lifespan.shutdown"})
        await told.get()
        await task


async def list_over_stdio(folder: Path) -> list[str]:
    """A client lists the skills over stdio"""
    out = folder.parent / "trace.json"
    # In a process of its own, as a client would start it.
    program = (
        "import json; from pathlib import Path; from tools.traces import *\n"
        "with recording(('server/library.py', 'list_skills')) as recorder:\n"
        "    import anyio; from skillwire import SkillServer\n"
        f"    anyio.run(SkillServer(Path({str(folder)!r})).run_stdio)\n"
        f"Path({str(out)!r}).write_text(json.dumps(recorder.files))\n"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program],
        input=request("skills/list") + b"\n",
        capture_output=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    if not out.exists():
        raise RuntimeError(done.stderr.decode())
    return json.loads(out.read_text())


async def discovery(folder: Path) -> list[str]:
    """A host finds the skills of a server"""
    from skillwire import SkillHost, SkillServer

    moments = ("wire/responses.py", "list_page"), ("trust/admission.py", "admit")
    with recording(*moments) as recorder:
        async with SkillHost(servers={"team": SkillServer(folder)}, **_state(folder)) as host:
            assert [skill.handle for skill in host.skills()] == ["pdf"]
    return recorder.files


async def load(folder: Path) -> list[str]:
    """An agent loads a skill"""
    from skillwire import SkillHost, SkillServer

    async with SkillHost(servers={"team": SkillServer(folder)}, ask=_yes, **_state(folder)) as host:
        moments = ("host/approvals/approver.py", "obtain"), ("trust/verify.py", "verify_skill_md")
        with recording(*moments) as recorder:
            await host.load("pdf")
    return recorder.files


async def revocation(folder: Path) -> list[str]:
    """An edit on the server revokes an approval"""
    from skillwire import SkillHost, SkillServer

    async with SkillHost(servers={"team": SkillServer(folder)}, ask=_yes, **_state(folder)) as host:
        await host.load("pdf")
        with recording(("host/approvals/approver.py", "forget_changed")) as recorder:
            write_skill(folder, "Do something else.\n")
            until = time.monotonic() + 10
            while not recorder.stacks and time.monotonic() < until:
                await host.refresh()
                await asyncio.sleep(0.1)
    return recorder.files


async def conformance(folder: Path) -> list[str]:
    """`skillwire verify` checks a server"""
    from skillwire import SkillServer, verify

    moments = ("conformance/probe.py", "pages"), ("conformance/checks/files.py", "check_files")
    with recording(*moments) as recorder:
        await verify(SkillServer(folder))
    return recorder.files


async def _yes(request: object) -> bool:
    return True


def _state(folder: Path) -> dict[str, Any]:
    state = folder.parent / f"state-{time.monotonic_ns()}"
    return {"cache_directory": state / "cache", "approvals_file": state / "approvals.sqlite"}


SCENARIOS: tuple[Callable[[Path], Awaitable[list[str]]], ...] = (
    read_over_http,
    list_over_stdio,
    discovery,
    load,
    revocation,
    conformance,
)


def traces() -> str:
    """Every scenario as a heading and a list of files."""
    parts: list[str] = []
    for scenario in SCENARIOS:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place, "skills")
            folder.mkdir()
            write_skill(folder)
            files = asyncio.run(scenario(folder))  # pyright: ignore[reportArgumentType]
        if len(files) > MOST_FILES:
            raise RuntimeError(f"{scenario.__name__} goes through {len(files)} files: {files}")
        lines = [f"{number}. [`{file}`](../src/skillwire/{file})" for number, file in enumerate(files, 1)]
        parts += [f"### {(scenario.__doc__ or '').strip()}", "", *lines, ""]
    return "\n".join([START, "", *parts, END])


def main() -> None:
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(START)
    PAGE.write_text(before + traces() + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main()
