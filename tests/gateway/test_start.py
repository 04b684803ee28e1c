"""The start of a gateway: what its first lists and its instructions name, and when servers are connected."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import skillwire.gateway.app
from command_line import Run
from fast_path_calls import GREETED, greeting, piped, plain
from folder_server import in_task
from gateways import User, joined, make_gateway, text_of
from skillwire.gateway import Gateway
from skillwire.host import ServerConfig
from skillwire.limits import Limits
from skillwire.server import SkillServer
from trees import write_skill
from waiting import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are connected after the first list, however late that is asked for on a busy machine."""
    monkeypatch.setattr(skillwire.gateway.app, "_FIRST_LIST_SECONDS", 60)


@pytest.mark.parametrize(("given", "seconds"), [((), Limits().upstream_seconds), (("--timeout", "60"), 60)])
def test_a_request_waits_for_a_server_as_long_as_the_command_line_says(
    run: Run, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], seconds: float
) -> None:
    started: list[Gateway] = []

    async def start(gateway: Gateway) -> None:
        started.append(gateway)

    monkeypatch.setattr(Gateway, "run_stdio", start)
    assert run("gateway", "--no-config", "--server", "docs=https://docs.example/mcp", *given).code == 0
    assert started[0].limits.upstream_seconds == seconds


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[ServerConfig]:
    """A real server over HTTP, with the skills of a folder."""
    async with in_task(SkillServer(folder).http_app()) as server:
        yield ServerConfig(url=server.url)


@asynccontextmanager
async def mute() -> AsyncGenerator[ServerConfig]:
    """A server that takes connections and says nothing."""
    ended = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield ServerConfig(url=f"http://127.0.0.1:{port}/mcp", connect_seconds=60)
    finally:
        ended.set()
        server.close()


async def once(gateway: Gateway) -> tuple[str, str]:
    """The instructions and tools that a client over stdio gets first."""
    gateway._is_stdio = True  # pyright: ignore[reportPrivateUsage]
    async with gateway, piped(gateway.server()) as client:
        greeted = await client.ask(greeting())
        client.send(GREETED)
        tools = await client.ask(plain("tools/list"))
    return greeted["result"]["instructions"], json.dumps(tools)


async def test_a_second_start_answers_with_the_last_listing_and_notifies_of_what_changed(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path / "skills/alpha")
    async with serving(tmp_path / "skills") as docs:
        await once(make_gateway(tmp_path, docs=docs))
        write_skill(tmp_path / "skills/beta")
        gateway = make_gateway(tmp_path, docs=docs)
        gateway._is_stdio = True  # pyright: ignore[reportPrivateUsage]
        async with gateway, piped(gateway.server()) as client:
            greeted = await client.ask(greeting())
            client.send(GREETED)
            assert "alpha" in greeted["result"]["instructions"]
            assert gateway.health()["servers"] == [
                {"label": "docs", "status": "connecting", "skills": 1, "listed": "last run"}
            ]
            tools = await client.ask(plain("tools/list"))
            assert "alpha" in json.dumps(tools)
            assert "beta" not in json.dumps(tools)
            assert not client.is_sdk_used
            told = {(await client.receive())["method"] for _ in range(3)}
            assert told == {
                f"notifications/{kind}/list_changed" for kind in ("resources", "tools", "prompts")
            }
            assert "beta" in json.dumps(await client.ask(plain("tools/list", 2)))
            assert "listed" not in json.dumps(gateway.health()["servers"])


async def test_nothing_is_loaded_from_a_last_listing_before_its_server_has_answered(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/alpha")
    async with serving(tmp_path / "skills") as docs:
        await once(make_gateway(tmp_path, docs=docs))
        (tmp_path / "skills/alpha/SKILL.md").write_text(
            "---\nname: alpha\ndescription: New.\n---\n# New text\n"
        )
        gateway = make_gateway(tmp_path, docs=docs)
        gateway._is_stdio = True  # pyright: ignore[reportPrivateUsage]
        async with gateway, joined(gateway, user=User()) as client:
            text = text_of(await client.read_resource("skill://docs/alpha/SKILL.md"))
    assert "# New text" in text


async def test_a_server_that_is_gone_takes_its_last_listing_with_it(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/alpha")
    async with serving(tmp_path / "skills") as docs:
        await once(make_gateway(tmp_path, docs=docs))
    gateway = make_gateway(tmp_path, docs=docs)
    gateway._is_stdio = True  # pyright: ignore[reportPrivateUsage]
    async with gateway, piped(gateway.server()) as client:
        await client.ask(greeting())
        client.send(GREETED)
        assert "alpha" in json.dumps(await client.ask(plain("tools/list")))
        for _ in range(3):
            assert "list_changed" in (await client.receive())["method"]
        assert (await client.ask(plain("tools/list", 2)))["result"] == {"tools": []}


async def test_a_server_that_says_nothing_hides_none_of_the_others(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/alpha")
    options = {"limits": Limits(first_list_seconds=0.2, introduction_seconds=0.2)}
    async with serving(tmp_path / "skills") as docs, mute() as slow:
        # The first time the names of `docs` may come after the greeting, but not after the list.
        _, tools = await once(make_gateway(tmp_path, host_options=options, docs=docs, slow=slow))
        assert "alpha" in tools
        instructions, tools = await once(make_gateway(tmp_path, host_options=options, docs=docs, slow=slow))
        assert "alpha" in tools
        assert "- docs (1): alpha" in instructions


@pytest.mark.parametrize("count", [10, 50, 300, 3000])
async def test_what_a_model_is_given_stays_within_the_budget_of_the_docs(tmp_path: Path, count: int) -> None:
    for number in range(count):
        about = f"Does the work of kind {number:04}, " + "carefully and with all that belongs to it, " * 2
        text = f"---\nname: skill-{number:04}\ndescription: {about[:120]}\n---\n"
        (tmp_path / f"skills/skill-{number:04}").mkdir(parents=True)
        (tmp_path / f"skills/skill-{number:04}/SKILL.md").write_text(text)
    options = {"directories": [tmp_path / "skills"], "limits": Limits(introduction_seconds=60)}
    gateway = make_gateway(tmp_path, host_options=options)
    instructions, answer = await once(gateway)
    tools = json.dumps(json.loads(answer)["result"]["tools"])
    assert "skill-0000" in instructions
    assert len(instructions) <= 2_000
    assert len(tools) <= 10_000


AT_ONCE = """
import threading
from skillwire.host.sources import import_sessions
from skillwire.server.app import SkillServer

start, failures = threading.Barrier(2), []

def run(work):
    start.wait()
    try:
        work()
    except BaseException as error:
        failures.append(error)

both = [import_sessions, lambda: SkillServer('.')._sdk_session(None, None)]
threads = [threading.Thread(target=run, args=(work,)) for work in both]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
raise SystemExit(failures[0] if failures else 0)
"""


@pytest.mark.process
def test_the_sdk_can_be_needed_for_a_server_and_for_the_client_at_the_same_moment() -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_a_client_is_greeted_and_gets_the_tools_where_the_sdk_cannot_be_imported(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/alpha")
    config = tmp_path / ".config/skillwire/skillwire.toml"
    config.parent.mkdir(parents=True)
    config.write_text('directories = ["~/skills"]\n', "utf-8")
    blocked = "sys.modules |= dict.fromkeys(('mcp', 'mcp_types', 'pydantic', 'httpx2', 'starlette'))"
    (tmp_path / "sitecustomize.py").write_text(f"import sys\n{blocked}\n", "utf-8")
    asked = [greeting(), GREETED, plain("tools/list")]
    done = subprocess.run(
        [sys.executable, "-m", "skillwire", "gateway"],
        input="".join(f"{json.dumps(message)}\n" for message in asked),
        env={"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    greeted, tools = map(json.loads, done.stdout.splitlines())
    assert "alpha" in greeted["result"]["instructions"], done.stderr
    assert "load_skill" in {tool["name"] for tool in tools["result"]["tools"]}


async def test_instructions_name_what_is_approved_first_and_then_by_name(tmp_path: Path) -> None:
    for name in ("alpha", "beta", "zeta"):
        write_skill(tmp_path / "skills" / name)
    async with serving(tmp_path / "skills") as docs:
        async with make_gateway(tmp_path, docs=docs) as gateway, joined(gateway, user=User()) as client:
            await client.read_resource("skill://docs/zeta/SKILL.md")
        instructions, _ = await once(make_gateway(tmp_path, docs=docs))
    assert "- docs (3): zeta, alpha, beta" in instructions
