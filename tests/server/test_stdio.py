"""`skillwire serve` over standard input and output: what clients send, right and wrong, and how it ends."""

from __future__ import annotations

import array
import base64
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from clients import both_eras, call, connected
from fast_path_calls import body
from served import INITIALIZE, INITIALIZED, SKILLWIRE, Served, environment, serving, serving_stdio
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import digest_of
from trees import write_skill
from waiting import PATIENCE

BIG = 3_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stdio")
    write_skill(folder / "alpha", {"odd \u2028 name.txt": "\ufeffa\r\nb\u2028c".encode(), "bin": b"\xff\x00"})
    write_skill(folder / "beta", {"big.txt": b"x" * BIG})
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    """One server for all that a client may send it, one after the other: it has to go on each time."""
    with serving_stdio(folder, "--ttl", "5") as served:
        yield served


def works(server: Served) -> bool:
    return len(server.ask("skills/list")["result"]["skills"]) == 2


@pytest.mark.process
@pytest.mark.anyio
@pytest.mark.requirement("CAP-1", "CAP-2", "CAP-4", "RD-2", "LST-2")
@both_eras
async def test_a_client_lists_and_verifies_every_file_on_both_revisions(folder: Path, version: str) -> None:
    target = StdioServerParameters(command=SKILLWIRE, args=["serve", str(folder)], env=environment())
    async with connected(target, version) as client:
        extensions = client.server_capabilities.extensions or {}
        assert extensions["io.modelcontextprotocol/skills"] == {"directoryRead": True}
        listing = await call(client, "skills/list")
        assert ("ttlMs" in listing) == (version == "2026-07-28")
        for entry in listing["skills"]:
            for file in entry["resources"]:
                (item,) = (await call(client, "resources/read", uri=file["uri"]))["contents"]
                data = item["text"].encode() if "text" in item else base64.b64decode(item["blob"])
                assert (digest_of(data), len(data)) == (file["digest"], file["size"])


@pytest.mark.process
@pytest.mark.requirement("CAP-4", "LST-2", "GET-2", "DIR-1")
def test_on_the_2025_revisions_the_wire_carries_no_later_fields(server: Served) -> None:
    results = [
        server.ask("skills/list"),
        server.ask("skills/get", uri="skill://alpha/SKILL.md"),
        server.ask("resources/directory/read", uri="skill://alpha"),
        server.ask("resources/list"),
        server.ask("resources/read", uri="skill://alpha/SKILL.md"),
    ]
    for result in results:
        assert not {"resultType", "ttlMs", "cacheScope"} & result["result"].keys()


@pytest.mark.process
@pytest.mark.requirement("LST-2", "GET-2", "DIR-1")
def test_on_2026_07_28_the_wire_says_how_long_an_answer_is_fresh(folder: Path) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    with serving_stdio(folder, "--ttl", "0.25", "--cache-scope", "private", handshake=False) as served:
        discovered = served.ask("server/discover", _meta=meta)["result"]
        assert discovered["capabilities"]["extensions"]["io.modelcontextprotocol/skills"] == {
            "directoryRead": True
        }
        for method, params in {
            "skills/list": {},
            "skills/get": {"uri": "skill://alpha/SKILL.md"},
            "resources/directory/read": {"uri": "skill://alpha"},
            "resources/list": {},
            "resources/read": {"uri": "skill://alpha/SKILL.md"},
        }.items():
            result = served.ask(method, _meta=meta, **params)["result"]
            advice = {key: result[key] for key in ("ttlMs", "cacheScope") if key in result}
            # The extension has no cache advice for directories.
            is_directory = method == "resources/directory/read"
            assert result["resultType"] == "complete"
            assert advice == ({} if is_directory else {"ttlMs": 250, "cacheScope": "private"})


@pytest.mark.process
def test_requests_that_come_again_are_answered_in_their_order_under_their_own_ids(folder: Path) -> None:
    kinds = [body("skills/get", uri="skill://alpha/SKILL.md"), body("skills/list"), body("server/discover")]
    asked = [{**kinds[number % 3], "id": number} for number in range(300)]
    with serving_stdio(folder, handshake=False) as served:
        served.send(*asked[:3])
        first = [served.receive() for _ in range(3)]
        served.send(b"\n".join(json.dumps(message, separators=(",", ":")).encode() for message in asked))
        answers = [served.receive() for _ in asked]
    assert [answer["id"] for answer in answers] == list(range(300))
    assert all(answer["result"] == first[answer["id"] % 3]["result"] for answer in answers)


@pytest.mark.process
def test_a_client_that_reads_late_loses_nothing_that_was_answered_at_once(folder: Path) -> None:
    message = body("skills/get", uri="skill://alpha/SKILL.md")
    lines = [json.dumps({**message, "id": number}, separators=(",", ":")) for number in range(1000)]
    sent = "\n".join(lines).encode()
    with serving(folder) as served:
        process = served.process
        assert process.stdout is not None
        sending = threading.Thread(target=lambda: served.send(sent))
        sending.start()
        # It has written what the pipe takes, and more is to come.
        waiting = array.array("i", [0])
        while waiting[0] < select.PIPE_BUF:
            fcntl.ioctl(process.stdout.fileno(), termios.FIONREAD, waiting)
        answers = [json.loads(process.stdout.readline()) for _ in lines]
        sending.join(PATIENCE)
    assert [answer["id"] for answer in answers] == list(range(1000))


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "code", "identity"),
    [
        (b"{", -32700, None),
        (b"hello", -32700, None),
        (b"\xff\xfe\x00", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"x": "\\ud800"}}', -32600, 7),
        (b"9" * 10_000, -32700, None),
        (b"5", -32600, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc": "2.0", "id": 7, "method": "ping"}]', -32600, None),
        (b'{"hello": "world"}', -32600, None),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}', -32600, 7),
        (b'{"id": "x", "method": "ping"}', -32600, "x"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": 5}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": [7], "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": 5}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "nothing/here"}', -32601, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "skills/get"}', -32602, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "skills/get", "params": {"uri": 5}}', -32602, 7),
        (
            b'{"jsonrpc": "2.0", "id": 7, "method": "skills/get", "params": {"uri": "skill://none/SKILL.md"}}',
            -32602,
            7,
        ),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "skills/list", "params": {"cursor": "zz"}}', -32602, 7),
    ],
)
def test_what_is_wrong_gets_an_error_and_the_server_goes_on(
    server: Served, line: bytes, code: int, identity: object
) -> None:
    server.send(line)
    answer = server.receive()
    assert (answer["error"]["code"], answer.get("id")) == (code, identity)
    assert len(json.dumps(answer)) < 1000
    assert works(server)


@pytest.mark.process
def test_a_uri_of_ten_megabytes_is_refused_in_few_words(server: Served) -> None:
    uri = "skill://" + "a" * 10_000_000
    answer = server.ask("resources/read", uri=uri)
    assert answer["error"]["code"] == -32602
    assert len(json.dumps(answer)) < 1000
    assert works(server)


@pytest.mark.process
def test_a_line_beyond_the_limit_is_dropped_and_refused(server: Served) -> None:
    server.send(b"x" * (DEFAULT_LIMITS.message_bytes + 200_000))
    error = server.receive()["error"]
    assert error["code"] == -32600
    assert str(DEFAULT_LIMITS.message_bytes) in error["message"]
    assert works(server)


@pytest.mark.process
def test_blank_lines_carriage_returns_and_pieces_are_taken_as_they_come(server: Served) -> None:
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    server.send(b"", b"  ", request + b"\r")
    assert server.receive()["id"] == 1
    assert server.process.stdin is not None
    for piece in (request[:10], request[10:], b"\n" + request, b"\n"):
        server.process.stdin.write(piece)
        server.process.stdin.flush()
    assert [server.receive()["id"] for _ in range(2)] == [1, 1]


@pytest.mark.process
def test_a_request_before_the_handshake_is_refused_and_the_handshake_still_works(folder: Path) -> None:
    with serving_stdio(folder, handshake=False) as served:
        assert served.ask("skills/list")["error"]["code"] == -32602
        served.send(INITIALIZE)
        assert "extensions" in served.receive()["result"]["capabilities"]
        served.send(INITIALIZED)
        assert works(served)


@pytest.mark.process
def test_large_answers_arrive_whole_and_in_order(server: Served) -> None:
    read = {"jsonrpc": "2.0", "method": "resources/read", "params": {"uri": "skill://beta/big.txt"}}
    server.send(
        *({**read, "id": number} for number in range(5)),
        b"no json",
        {"jsonrpc": "2.0", "id": 5, "method": "ping"},
    )
    answers = [server.receive() for _ in range(7)]
    texts = {
        answer["id"]: answer["result"]["contents"][0]["text"]
        for answer in answers
        if "contents" in answer.get("result", {})
    }
    assert {number: len(text) for number, text in texts.items()} == dict.fromkeys(range(5), BIG)


@pytest.mark.process
def test_standard_output_carries_json_rpc_alone_whatever_prints(folder: Path) -> None:
    program = f"""
import anyio, os, sys
from skillwire import FunctionSource, SkillServer
source = FunctionSource()
@source.static("loud")
def loud():
    print("printed")
    os.system("echo shouted")
    sys.__stdout__.write("written\\n")
    assert sys.stdin.read() == "", "the client's words are not for functions"
    return "---\\nname: loud\\ndescription: d\\n---\\n"
anyio.run(SkillServer(source, {str(folder)!r}).run_stdio)
"""
    messages = [INITIALIZE, INITIALIZED, {"jsonrpc": "2.0", "id": 1, "method": "skills/list"}]
    text = "".join(json.dumps(message) + "\n" for message in messages)
    done = subprocess.run(
        [sys.executable, "-u", "-c", program], input=text, capture_output=True, text=True, timeout=PATIENCE
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [0, 1]
    assert len(answers[1]["result"]["skills"]) == 3
    assert {"printed", "shouted", "written"} <= set(done.stderr.split())
    assert done.returncode == 0


def answered_by(command: list[str | Path], text: str) -> list[int]:
    """The ids that a server answers which is given this text and no more. It ends well."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=PATIENCE, env=environment()
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    return [json.loads(line)["id"] for line in done.stdout.splitlines()]


@pytest.mark.process
def test_what_was_asked_before_the_end_of_input_is_answered(folder: Path) -> None:
    messages: list[dict[str, Any]] = [INITIALIZE, INITIALIZED]
    messages += [{"jsonrpc": "2.0", "id": number, "method": "skills/list"} for number in range(1, 4)]
    text = "".join(json.dumps(message) + "\n" for message in messages).removesuffix("\n")
    assert answered_by([SKILLWIRE, "serve", folder], text) == [0, 1, 2, 3]


@pytest.mark.process
@pytest.mark.parametrize(("number", "handshake"), [(signal.SIGINT, False), (signal.SIGTERM, True)])
def test_a_signal_ends_it_cleanly_while_the_input_stays_open(
    folder: Path, number: signal.Signals, handshake: bool
) -> None:
    with serving_stdio(folder, handshake=handshake) as served:
        served.wait_until_it_says("over stdio")
        if not handshake:
            served.send(b"{")  # By the time of the answer, it listens for signals.
            served.receive()
        assert served.end(number) == 0
        assert "Traceback" not in "".join(served.said)


@pytest.mark.process
def test_a_signal_ends_it_although_the_client_reads_nothing(folder: Path) -> None:
    with serving(folder) as served:
        read = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "resources/read",
            "params": {"uri": "skill://beta/big.txt"},
        }
        served.send(INITIALIZE, INITIALIZED, read)
        assert served.process.stdout is not None
        assert json.loads(served.process.stdout.readline())["id"] == 0
        assert served.process.stdout.read(10)  # The large answer has begun, and fills the pipe.
        assert served.end() == 0
        assert "Traceback" not in "".join(served.said)


@pytest.mark.process
def test_a_client_that_disconnects_ends_it_silently(folder: Path) -> None:
    with serving(folder) as served:
        served.send(INITIALIZE)
        assert served.process.stdout is not None
        served.process.stdout.readline()
        served.process.stdout.close()
        served.send(INITIALIZED, *({"jsonrpc": "2.0", "id": n, "method": "skills/list"} for n in range(3)))
        assert served.process.stdin is not None
        served.process.stdin.close()
        assert served.process.wait(PATIENCE) == 0
        assert "Traceback" not in "".join(served.said)


@pytest.mark.process
@pytest.mark.parametrize(("closed", "answered"), [(0, False), (1, False), (2, True)])
def test_a_closed_standard_descriptor_breaks_nothing(folder: Path, closed: int, answered: bool) -> None:
    line = f'exec "$0" serve "$1" {closed}{"<" if closed == 0 else ">"}&-'
    text = json.dumps(INITIALIZE) + "\n"
    assert answered_by(["sh", "-c", line, SKILLWIRE, folder], text) == ([0] if answered else [])


@pytest.mark.process
def test_nobody_listening_on_standard_error_is_no_reason_to_end(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = subprocess.run(
            [SKILLWIRE, "serve", folder],
            input=json.dumps(INITIALIZE).encode(),
            stdout=subprocess.PIPE,
            stderr=nobody,
            timeout=PATIENCE,
            env=environment(),
        )
    assert json.loads(done.stdout)["id"] == 0
    assert done.returncode == 0
