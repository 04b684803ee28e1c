"""Sources of a host: a class of the user's own, what a change costs, and what is not imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest

from simulator import Request, Simulator, agree, make_host
from skillwire import (
    Change,
    Event,
    EventKind,
    FunctionSource,
    Limits,
    Read,
    ServerConfig,
    SkillEntry,
    SkillHost,
    SkillNotFound,
    SkillResource,
    SkillUri,
    Source,
    SourceError,
    digest_of,
    parse_uri,
)
from trees import write_skill

URI = parse_uri("skill://refunds/SKILL.md")


class MySource(Source):
    """A source with nothing but the names that `skillwire` exports."""

    def __init__(self) -> None:
        self.body = "Pay it back.\n"
        self.edited = anyio.Event()
        self.asked: list[str] = []
        self.closed = False

    @property
    def text(self) -> bytes:
        return f"---\nname: refunds\ndescription: Pays back.\n---\n{self.body}".encode()

    def entry(self) -> SkillEntry:
        resource = SkillResource(URI, digest_of(self.text), len(self.text))
        return SkillEntry(URI, {"name": "refunds", "description": "Pays back."}, (resource,))

    async def list_entries(self) -> Sequence[SkillEntry]:
        self.asked.append("list")
        return (self.entry(),)

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        self.asked.append("get")
        return self.entry()

    async def read(self, uri: SkillUri) -> Read:
        if uri != URI:
            raise SkillNotFound(f"no file {uri}", uri=uri)
        return Read(self.text)

    async def changes(self) -> AsyncGenerator[Change]:
        await self.edited.wait()
        yield Change(URI)

    async def aclose(self) -> None:
        self.closed = True


async def hear(host: SkillHost, kind: EventKind) -> Event:
    with anyio.fail_after(30):
        async for event in host.log.events():
            if event.kind is kind:
                return event
    raise AssertionError("the host was closed")


@pytest.mark.anyio
async def test_a_class_of_the_users_own_is_a_source(tmp_path: Path) -> None:
    mine = MySource()
    host = SkillHost(
        sources={"mine": mine},
        cache_directory=tmp_path / "cache",
        approvals_file=tmp_path / "approvals.sqlite",
    )
    async with host:
        assert "<directory>mine</directory>" in host.catalog()
        assert "Pay it back." in (await host.load("refunds")).text
        assert mine.asked == ["list"]
        mine.body = "Pay it back twice.\n"
        mine.edited.set()
        assert (await hear(host, EventKind.OUTDATED)).handle == "refunds"
        assert mine.asked == ["list", "get"]
        assert "twice" in (await host.load("refunds")).text
    assert mine.closed


@pytest.mark.anyio
async def test_functions_are_a_source_of_a_host(tmp_path: Path) -> None:
    source = FunctionSource()
    source.static("notes")(lambda: "---\nname: notes\ndescription: Takes notes.\n---\nWrite it down.\n")
    async with make_host(tmp_path, sources={"made": source}) as host:
        assert "Write it down." in (await host.load("notes")).text


class Broken(MySource):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def list_entries(self) -> Sequence[SkillEntry]:
        raise self._error


@pytest.mark.anyio
@pytest.mark.parametrize("error", [SourceError("the disk is gone"), ZeroDivisionError("oops")])
async def test_a_source_that_fails_affects_only_itself_and_stays_visible(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_host(tmp_path, sources={"bad": Broken(error), "mine": MySource()}) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        [failure] = host.log.failures()
        assert failure.origin is not None
        assert failure.origin.label == "bad"
        assert str(error) in failure.message
        assert failure.message in caplog.messages
        with pytest.raises(SkillNotFound, match="Not all places could be searched: .*" + str(error)):
            await host.find("something-else")


@pytest.mark.anyio
async def test_one_edit_of_one_skill_in_use_costs_one_get_and_no_listing(tmp_path: Path) -> None:
    count, sim = 2_000, Simulator()
    for number in range(count):
        sim.skill(f"skill-{number}")
    sessions: list[Any] = []

    async def subscribe(context: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
        raise AssertionError("the simulator answers")

    async def note(ctx: Any, call_next: Any) -> Any:
        if ctx.method != "resources/subscribe":
            return await call_next(ctx)
        sessions.append(ctx.session)
        sim.requests.append(Request(ctx.method, {}))
        return types.EmptyResult()

    sim.server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    sim.server.middleware.insert(0, note)
    config = ServerConfig(instance=sim.server, era="legacy")
    limits = Limits(min_ttl_seconds=0, change_seconds=0.01)
    async with make_host(tmp_path, servers={"shop": config}, ask=agree, limits=limits) as host:
        await host.load("skill-7")
        # A subscription is caught up with: what changed before it was told to nobody.
        await until(lambda: len(sim.asked("skills/get")) == 1)
        before = len(sim.requests)
        sim.skill("skill-7").change_body("Another text.\n")
        await sessions[0].send_resource_updated("skill://skill-7/SKILL.md")
        assert (await hear(host, EventKind.OUTDATED)).handle == "skill-7"
        assert [request.method for request in sim.requests[before:]] == ["skills/get"]
        sim.skill("new")
        before = len(sim.requests)
        await sessions[0].send_resource_list_changed()
        await until(lambda: any(skill.handle == "new" for skill in host.skills()))
        methods = [request.method for request in sim.requests[before:]]
        assert methods == ["skills/list"] * (count // sim.page_size + 1)


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not true():
            await anyio.lowlevel.checkpoint()


IMPORTS = """
import asyncio, sys
from pathlib import Path
from skillwire import SkillHost

async def run(folder):
    state = {"cache_directory": folder / "cache", "approvals_file": folder / "approvals.sqlite"}
    async with SkillHost(directories=[folder / "skills"], **state) as host:
        assert [skill.handle for skill in host.skills()] == ["notes"]
        await host.load("notes")
        host.tools()
        host.catalog()
        await host.search("notes")

asyncio.run(run(Path(sys.argv[1])))
print(sorted({name.partition(".")[0] for name in sys.modules} & {"mcp", "mcp_types", "pydantic", "httpx2"}))
"""


@pytest.mark.process
def test_local_skills_need_neither_the_sdk_nor_pydantic(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/notes")
    command = [sys.executable, "-c", IMPORTS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.anyio
async def test_a_skill_for_users_alone_is_not_shown_to_models(tmp_path: Path) -> None:
    folder = tmp_path / "skills/deploy"
    folder.mkdir(parents=True)
    text = "---\nname: deploy\ndescription: Ships it.\ndisable-model-invocation: true\n---\nShip.\n"
    (folder / "SKILL.md").write_text(text, "utf-8")
    write_skill(tmp_path / "skills/notes")
    async with make_host(tmp_path, directories=[tmp_path / "skills"]) as host:
        assert {skill.handle for skill in host.skills()} == {"deploy", "notes"}
        assert "deploy" not in host.catalog()
        assert "notes" in host.catalog()
        assert "Ship." in (await host.load("deploy")).text
