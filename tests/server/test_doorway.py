"""The doorway: what it answers itself, when it steps aside, and how it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lane_calls import DISCOVER, GET, LIST, READ, Talk, aged, body, folder, request, running
from skillwire.server.app import SkillServer
from skillwire.server.doorway import VISIT, Door, Doorway
from skillwire.server.heads import HeadRules
from skillwire.server.http.address import Address
from skillwire.server.http.app import HttpApp, HttpServer
from skillwire.server.http.auth import BearerToken
from skillwire.sources.base import Read, Source
from trees import skill_md, write

__all__ = ["aged", "folder"]

ERROR = body("skills/get", uri="skill://none/SKILL.md")
BIG = body("resources/read", uri="skill://big/SKILL.md")
KEEP_ALIVE = 0.02


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both event loops that `skillwire serve --http` may run on: their transports are not the same."""
    return "asyncio", {"use_uvloop": request.param}


class Behind:
    """In place of uvicorn's protocol: it notes what reaches it, and answers with one word."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.taken = b""
        self.is_lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.state.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self.taken += data
        self.transport.write(b"aside")
        if self.state.is_done_at_once and (visit := VISIT.get()) is not None:
            visit.is_answered()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def eof_received(self) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...

    def shutdown(self) -> None:
        self.transport.close()


class State:
    """In place of what uvicorn's connections share. `is_done_at_once`: requests given away are answered."""

    def __init__(self, *, is_done_at_once: bool) -> None:
        self.connections: set[object] = set()
        self.default_headers = [(b"date", b"today")]
        self.behind: list[Behind] = []
        self.is_done_at_once = is_done_at_once
        self.is_choked, self.is_lost = asyncio.Event(), asyncio.Event()

    def make(self) -> Behind:
        self.behind.append(Behind(self))
        return self.behind[-1]


class SeenDoorway(Doorway):
    """A doorway that says when the client does not read, and when it is gone."""

    seen: State

    def pause_writing(self) -> None:
        super().pause_writing()
        self.seen.is_choked.set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.seen.is_lost.set()


@asynccontextmanager
async def doorway(
    *sources: Any, token: str | None = None, keep_alive: float = 60, is_done_at_once: bool = False
) -> AsyncGenerator[tuple[Talk, State]]:
    """A doorway over a real socket, with a stranger behind it."""
    lane = SkillServer(*sources)._lane  # pyright: ignore[reportPrivateUsage]
    assert lane is not None
    secret = None if token is None else BearerToken(token)
    door = Door(lane, HeadRules(path="/mcp", hosts=["127.0.0.1"], token=secret))
    state = State(is_done_at_once=is_done_at_once)

    def connection() -> Doorway:
        made = SeenDoorway(door, state.make, state, keep_alive)
        made.seen = state
        return made

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    talk = await Talk.open(server.sockets[0].getsockname()[1])
    try:
        yield talk, state
    finally:
        talk.close()
        server.close()
        await server.wait_closed()


@pytest.mark.anyio
@pytest.mark.parametrize("message", [DISCOVER, LIST, GET, READ])
async def test_an_ordinary_request_never_gets_past_the_doorway(
    folder: Path, aged: None, message: dict[str, Any]
) -> None:
    async with doorway(folder) as (talk, state):
        first = await talk.ask(request(message))
        again = await talk.ask(request({**message, "id": 8}))
        pieces = await talk.ask_in_pieces(request({**message, "id": 9}))
        assert state.behind == []
    assert first[:2] == (b"http/1.1 200 ok", b"application/json")
    assert [got[2]["id"] for got in (first, again, pieces)] == [7, 8, 9]
    assert first[2]["result"] == again[2]["result"] == pieces[2]["result"]


@pytest.mark.anyio
async def test_the_typescript_order_of_a_message_is_known_again_too(folder: Path, aged: None) -> None:
    def message(identity: int) -> dict[str, Any]:
        given = {**READ, "id": identity}
        return {key: given[key] for key in ("method", "params", "jsonrpc", "id")}

    async with running(folder, fast=True) as (port, server):
        talk = await Talk.open(port)
        answers = [await talk.ask(request(message(identity))) for identity in (1, 22, 333)]
        talk.close()
        assert server._lane.repeated == 2  # pyright: ignore
    assert [answer[2]["id"] for answer in answers] == [1, 22, 333]


RAW = request(LIST)
HEAD, _, DATA = RAW.partition(b"\r\n\r\n")
ODD_BYTES: dict[str, bytes] = {
    "not HTTP": b"hello\r\n\r\n",
    "a head that is not whole": HEAD[:40],
    "an empty line first": b"\r\n" + RAW,
    "GET": RAW.replace(b"POST", b"GET", 1),
    "HTTP/1.0": RAW.replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    "another path": RAW.replace(b"/mcp", b"/healthz", 1),
    "a query": RAW.replace(b"/mcp", b"/mcp?a=1", 1),
    "an absolute target": RAW.replace(b"/mcp", b"http://127.0.0.1:80/mcp", 1),
    "to be closed": HEAD + b"\r\nConnection: close\r\n\r\n" + DATA,
    "to be upgraded": HEAD + b"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n" + DATA,
    "expects a word": HEAD + b"\r\nExpect: 100-continue\r\n\r\n" + DATA,
    "chunked": HEAD + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + DATA,
    "two lengths": HEAD + b"\r\nContent-Length: 5\r\n\r\n" + DATA,
    "no length": RAW.replace(b"Content-Length", b"User-Agent", 1),
    "a signed length": RAW.replace(b"Content-Length: ", b"Content-Length: +", 1),
    "a folded field": HEAD + b"\r\nUser-Agent: a\r\n b\r\n\r\n" + DATA,
    "a blank before the colon": HEAD + b"\r\nUser-Agent : a\r\n\r\n" + DATA,
    "no blank after the colon": HEAD + b"\r\nUser-Agent:a\r\n\r\n" + DATA,
    "a bare line feed": HEAD + b"\r\nUser-Agent: a\nHost: b\r\n\r\n" + DATA,
    "an origin": HEAD + b"\r\nOrigin: http://127.0.0.1\r\n\r\n" + DATA,
    "another host": RAW.replace(b"127.0.0.1", b"evil.example", 1),
    "two at once": RAW + RAW,
    "more than the length": RAW + b" ",
    "another method in the head": RAW.replace(b"Mcp-Method: skills/list", b"Mcp-Method: skills/get", 1),
    "an error to be told": request(ERROR),
    "a method of the SDK": request(body("tools/list")),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", ODD_BYTES)
async def test_whatever_is_odd_reaches_uvicorn_byte_for_byte(folder: Path, aged: None, name: str) -> None:
    sent = ODD_BYTES[name]
    async with doorway(folder) as (talk, state):
        for _ in range(2):
            assert (await talk.ask(RAW))[0] == b"http/1.1 200 ok"
        talk.writer.write(sent)
        assert await talk.reader.readexactly(5) == b"aside"
        assert state.behind[0].taken == sent
        talk.writer.write(RAW)  # From here on, everything does.
        assert await talk.reader.readexactly(5) == b"aside"
        assert state.behind[0].taken == sent + RAW


PLAIN_TO_SEE = [
    "GET",
    "another path",
    "a query",
    "an absolute target",
    "an origin",
    "another host",
    "another method in the head",
    "an error to be told",
    "a method of the SDK",
]


@pytest.mark.anyio
@pytest.mark.parametrize("name", ODD_BYTES)
async def test_the_connection_comes_back_where_it_is_plain_that_the_request_has_ended(
    folder: Path, aged: None, name: str
) -> None:
    async with doorway(folder, is_done_at_once=True) as (talk, state):
        for _ in range(2):
            talk.writer.write(ODD_BYTES[name])
            assert await talk.reader.readexactly(5) == b"aside"
            # Who had it cannot reach it any more, not even by a timer that it forgot to stop.
            if name in PLAIN_TO_SEE:
                state.behind[-1].transport.write(b"late")
                state.behind[-1].transport.close()
            talk.writer.write(RAW)
            came_back = await talk.reader.readexactly(5) == b"HTTP/"
            assert came_back is (name in PLAIN_TO_SEE)
            if not came_back:
                return
            await talk.answer()
        assert len(state.behind) == 2


@pytest.mark.anyio
async def test_what_comes_while_another_answers_is_for_that_one(folder: Path) -> None:
    odd = ODD_BYTES["a method of the SDK"]
    async with doorway(folder) as (talk, state):
        talk.writer.write(odd)
        assert await talk.reader.readexactly(5) == b"aside"
        talk.writer.write(RAW)
        assert await talk.reader.readexactly(5) == b"aside"
        assert [behind.taken for behind in state.behind] == [odd + RAW]
        talk.close()
        await state.is_lost.wait()
        assert state.behind[0].is_lost


@pytest.mark.anyio
async def test_a_kept_answer_is_not_given_to_a_head_that_names_another_file(folder: Path, aged: None) -> None:
    odd = request(READ, {"Mcp-Name": "skill://other"})
    async with doorway(folder) as (talk, state):
        for _ in range(2):
            await talk.ask(request(READ))
        talk.writer.write(odd)
        assert await talk.reader.readexactly(5) == b"aside"
        assert state.behind[0].taken == odd


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("field", "is_let_in"),
    [
        ("Bearer s3cret", True),
        ("bearer s3cret", True),
        ("Bearer other", False),
        ("Basic s3cret", False),
        (None, False),
    ],
)
async def test_without_the_token_nothing_is_answered_here(
    folder: Path, aged: None, field: str | None, is_let_in: bool
) -> None:
    async with doorway(folder, token="s3cret") as (talk, state):
        for _ in range(2):  # What is known by now is of no use to who has no token.
            await talk.ask(request(LIST, {"Authorization": "Bearer s3cret"}))
        talk.writer.write(request(LIST, {"Authorization": field}))
        beginning = await talk.reader.readexactly(5)
        assert beginning == (b"HTTP/" if is_let_in else b"aside")
        assert (state.behind == []) is is_let_in


@pytest.mark.anyio
async def test_an_idle_connection_is_closed_and_a_busy_one_is_not(folder: Path) -> None:
    async with doorway(folder, keep_alive=KEEP_ALIVE) as (talk, state):
        head, _, data = request(LIST).partition(b"\r\n\r\n")
        await talk.ask(request(LIST))
        talk.writer.write(head + b"\r\n\r\n")
        # A request that is half here is no silence: the timer runs out, and runs on.
        for _ in range(3):
            await asyncio.sleep(KEEP_ALIVE)
        talk.writer.write(data)
        assert (await talk.answer())[0] == b"http/1.1 200 ok"
        assert await talk.reader.read() == b""
        await state.is_lost.wait()
        assert state.connections == set()


@asynccontextmanager
async def choked(tmp_path: Path) -> AsyncGenerator[tuple[Talk, State, int]]:
    """A doorway whose client has not read its answers, and how many there are."""
    write(tmp_path / "big/SKILL.md", skill_md("big") + b"x" * 200_000)
    async with doorway(tmp_path) as (talk, state):
        transport: Any = talk.writer.transport
        await talk.ask(request(BIG))
        transport.pause_reading()
        sent = 0
        while not state.is_choked.is_set():
            talk.writer.write(request({**BIG, "id": sent}))
            sent += 1
            await asyncio.sleep(0.001)  # Two at once would be uvicorn's.
        yield talk, state, sent


@pytest.mark.anyio
async def test_a_client_that_does_not_read_is_not_read_from_and_loses_nothing(
    tmp_path: Path, aged: None
) -> None:
    async with choked(tmp_path) as (talk, state, sent):
        talk.writer.transport.resume_reading()  # pyright: ignore
        assert [(await talk.answer())[2]["id"] for _ in range(sent)] == list(range(sent))
        assert (await talk.ask(request({**BIG, "id": sent})))[2]["id"] == sent
        assert state.behind == []


@pytest.mark.anyio
async def test_a_client_that_reads_only_after_the_stop_still_gets_what_was_answered(
    tmp_path: Path, aged: None
) -> None:
    async with choked(tmp_path) as (talk, state, sent):
        [connection] = state.connections
        assert isinstance(connection, Doorway)
        connection.shutdown()
        talk.writer.transport.resume_reading()  # pyright: ignore
        assert [(await talk.answer())[2]["id"] for _ in range(sent)] == list(range(sent))
        assert await talk.reader.read() == b""
        await state.is_lost.wait()


class SlowSource(Source):
    """A source whose files take until `go` is set."""

    def __init__(self) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def list_entries(self) -> tuple[()]:
        return ()

    async def read(self, uri: Any) -> Read:
        self.asked.set()
        await self.go.wait()
        return Read(b"slow")


@pytest.mark.anyio
async def test_a_stop_waits_for_the_answer_that_is_under_way() -> None:
    source = SlowSource()
    http = HttpServer(SkillServer(source).http_app(), Address("127.0.0.1", 0))
    serving = asyncio.ensure_future(http.serve())
    talk = await Talk.open(int(http.url.rpartition(":")[2].partition("/")[0]))
    talk.writer.write(request(READ))
    await source.asked.wait()
    http.stop()
    source.go.set()
    assert (await talk.answer())[2]["result"]["contents"][0]["text"] == "slow"
    assert await talk.reader.read() == b""
    talk.close()
    await serving


@pytest.mark.anyio
async def test_what_comes_before_its_turn_waits_for_it() -> None:
    source = SlowSource()
    async with doorway(source) as (talk, state):
        talk.writer.write(request(READ))
        await source.asked.wait()
        talk.writer.write(request({**LIST, "id": 8}))
        await talk.writer.drain()
        source.go.set()
        assert [(await talk.answer())[2]["id"] for _ in range(2)] == [7, 8]
        assert state.behind == []


@pytest.mark.anyio
async def test_a_client_that_goes_away_meanwhile_is_forgotten() -> None:
    source = SlowSource()
    async with doorway(source) as (talk, state):
        talk.writer.write(request(READ))
        await source.asked.wait()
        talk.close()
        await state.is_lost.wait()
        assert state.connections == set()


@pytest.mark.anyio
async def test_requests_of_every_kind_follow_each_other_on_one_connection(
    folder: Path, aged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []
    call = HttpApp.__call__

    async def noting(self: HttpApp, scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["type"])
        await call(self, scope, receive, send)

    messages = [LIST, GET, GET, ERROR, GET, body("tools/list"), READ, READ, ERROR, LIST]
    async with running(folder, fast=False) as (port, _):
        talk = await Talk.open(port)
        theirs = [await talk.ask(request(message)) for message in messages]
        talk.close()
    monkeypatch.setattr(HttpApp, "__call__", noting)
    async with running(folder, fast=True) as (port, _):
        talk = await Talk.open(port)
        ours = [await talk.ask(request(message)) for message in messages]
        talk.close()
        assert reached == ["lifespan", "http", "http", "http"]  # two errors, and the SDK's method
    assert ours == theirs


HOSTS = HeadRules(path="/mcp", hosts=["127.0.0.1"], token=None)


@given(st.integers(0, len(HEAD)), st.integers(0, 3), st.binary(max_size=12))
@example(len(HEAD), 0, b"\r\nExpect: x")
def test_a_head_that_is_taken_means_the_same_to_an_http_library(at: int, cut: int, put: bytes) -> None:
    raw = HEAD[:at] + put + HEAD[at + cut :] + b"\r\n\r\n"
    head = HOSTS.read(raw)
    if head is None:
        return  # Then nothing is assumed of it.
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(raw)
    event = parser.next_event()
    assert isinstance(event, h11.Request)
    fields = {bytes(name): bytes(value) for name, value in event.headers}
    assert event.http_version == b"1.1"
    assert int(fields.get(b"content-length", b"0")) == head.length
    assert parser.trailing_data == (b"", False)
    if head.is_for_lane:
        assert (event.method, event.target) == (b"POST", b"/mcp")
        assert (fields.get(b"mcp-method", b""), fields.get(b"mcp-name", b"")) == (head.method, head.name)


EDITS: dict[str, Callable[[Path], object]] = {
    "other bytes of the same length": lambda file: file.write_bytes(
        file.read_bytes().replace(b"old", b"new")
    ),
    "other bytes and the old time": lambda file: _with_old_time(file),
    "another file in its place": lambda file: _replaced(file),
    "a longer file": lambda file: file.write_bytes(file.read_bytes() + b"more new"),
}


def _with_old_time(file: Path) -> None:
    status = file.stat()
    file.write_bytes(file.read_bytes().replace(b"old", b"new"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def _replaced(file: Path) -> None:
    beside = file.with_name("beside.tmp")
    beside.write_bytes(file.read_bytes().replace(b"old", b"new"))
    beside.replace(file)


@pytest.mark.anyio
@pytest.mark.parametrize("name", EDITS)
async def test_an_edit_ends_what_was_kept_at_once_although_nobody_watches(
    tmp_path: Path, aged: None, name: str
) -> None:
    file = tmp_path / "note/notes.txt"
    write(tmp_path / "note/SKILL.md", skill_md("note"))
    write(file, b"old words")
    read = body("resources/read", uri="skill://note/notes.txt")
    get = body("skills/get", uri="skill://note/SKILL.md")
    async with running(tmp_path, fast=True, watch=False) as (port, server):
        talk = await Talk.open(port)
        before = [await talk.ask(request(message)) for message in (read, get, read, get)]
        assert server._lane.repeated == 2  # pyright: ignore
        EDITS[name](file)
        after = [await talk.ask(request(message)) for message in (read, get)]
        talk.close()
    assert before[0][2]["result"]["contents"][0]["text"] == "old words"
    assert "new" in after[0][2]["result"]["contents"][0]["text"]
    digests = [
        [each["digest"] for each in got[2]["result"]["skill"]["resources"]] for got in (before[1], after[1])
    ]
    assert digests[0] != digests[1]


@pytest.mark.anyio
async def test_a_file_that_is_gone_is_no_longer_answered(tmp_path: Path, aged: None) -> None:
    write(tmp_path / "note/SKILL.md", skill_md("note"))
    write(tmp_path / "note/notes.txt", b"words")
    read = body("resources/read", uri="skill://note/notes.txt")
    async with running(tmp_path, fast=True, watch=False) as (port, _):
        talk = await Talk.open(port)
        for _ in range(2):
            assert "result" in (await talk.ask(request(read)))[2]
        (tmp_path / "note/notes.txt").unlink()
        assert (await talk.ask(request(read)))[2]["error"]["code"] == -32602
        talk.close()


@pytest.mark.anyio
async def test_a_file_that_was_just_written_is_read_and_hashed_every_time(tmp_path: Path) -> None:
    write(tmp_path / "note/SKILL.md", skill_md("note"))
    async with running(tmp_path, fast=True, watch=False) as (port, server):
        talk = await Talk.open(port)
        for _ in range(3):
            await talk.ask(request(body("resources/read", uri="skill://note/SKILL.md")))
        talk.close()
        assert server._lane.repeated == 0  # pyright: ignore
        assert server._lane.given == 3  # pyright: ignore
