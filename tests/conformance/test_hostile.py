"""`verify` against hostile servers: it ends soon, and its output cannot control a terminal."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

import skillwire
from conformance.clean_server import REFUNDS, CleanServer, Json
from conformance.defective_server import make_server
from skillwire.conformance import as_json, as_junit, as_text
from skillwire.conformance.checks import MOST_PER_RULE
from skillwire.errors import SourceError
from skillwire.limits import DEFAULT_LIMITS
from timeless import without_waiting
from waiting import pass_time

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SEC-9")]

QUICK = replace(DEFAULT_LIMITS, call_seconds=0.5, connect_seconds=0.5)
MUTE = "import signal; signal.pause()"
GARBAGE = "while True: print('x' * 1000, flush=True)"
NO_LINE_ENDS = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
DEAF = "import os, signal; os.close(0); signal.pause()"
# Its child keeps standard output open: only writing to it shows that it has ended.
EXITS_AFTER_THE_FIRST_ANSWER = """
import json, os, subprocess, sys
request = json.loads(sys.stdin.readline())
os.close(0)
sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
subprocess.Popen(sleep, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
capabilities = {"extensions": {"io.modelcontextprotocol/skills": {}}}
info = {"name": "a", "version": "1"}
result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
os._exit(3)
"""


@pytest.mark.process
@pytest.mark.parametrize("program", [MUTE, GARBAGE, NO_LINE_ENDS, DEAF, "raise SystemExit(3)"])
async def test_a_silent_process_is_given_up(program: str) -> None:
    limits = replace(QUICK, answer_bytes=1_000_000)
    with anyio.fail_after(30), pytest.raises(SourceError, match="cannot be verified"):
        await skillwire.verify([sys.executable, "-c", program], limits=limits)


@pytest.mark.process
async def test_the_last_lines_of_standard_error_are_shown_without_escapes() -> None:
    program = (
        r"import sys; sys.stderr.write('Error: no key\n    at line 1\n\x1b[31mset KEY\nv20.1\n'); sys.exit(3)"
    )
    with pytest.raises(SourceError, match=r"the server exited with code 3") as caught:
        await skillwire.verify([sys.executable, "-c", program])
    text = str(caught.value)
    assert text.partition("ends with:")[2].split("\n")[1:] == [
        "  Error: no key",
        "  at line 1",
        "  \\u001b[31mset KEY",
        "  v20.1",
    ]


@pytest.mark.process
async def test_a_failed_write_to_a_server_that_has_ended_is_reported_with_its_exit_code() -> None:
    command = [sys.executable, "-c", EXITS_AFTER_THE_FIRST_ANSWER]
    report = await skillwire.verify(command, revisions=["2025-11-25"])
    assert "the server exited with code 3" in as_text(report)


@pytest.mark.process
async def test_a_stray_line_on_standard_output_is_named_when_no_answer_comes(tmp_path: Path) -> None:
    program = (
        "import pathlib, signal, sys; sys.stdin.readline(); print('Starting server', flush=True); "
        "pathlib.Path('written').touch(); signal.pause()"
    )
    failed = ""

    async def pass_deadlines() -> None:
        while True:
            await pass_time(DEFAULT_LIMITS.call_seconds, once=(tmp_path / "written").exists)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pass_deadlines)
        try:
            await skillwire.verify([sys.executable, "-c", program], directory=str(tmp_path))
        except SourceError as error:
            failed = str(error)
        tasks.cancel_scope.cancel()
    assert "not a message: `Starting server`" in failed
    assert "write logs to standard error" in failed


@pytest.mark.process
async def test_json_nested_too_deep_over_stdio_is_named_and_not_waited_for() -> None:
    program = "import sys; sys.stdin.readline(); print('[' * 5000 + ']' * 5000, flush=True); sys.stdin.read()"
    with anyio.fail_after(60), pytest.raises(SourceError, match="JSON with more than 100 levels"):
        await skillwire.verify([sys.executable, "-c", program], limits=DEFAULT_LIMITS)


@without_waiting
async def test_a_server_that_falls_silent_is_asked_no_more() -> None:
    asked: list[str] = []

    async def silent(_server: CleanServer, method: str, _params: Json, answer: Json) -> Json | None:
        asked.append(method)
        return answer if method in ("initialize", "skills/list") else None

    server = make_server()
    server.bend = silent
    report = await skillwire.verify(server, revisions=["2025-11-25"], limits=QUICK)
    assert {finding.rule for finding in report.findings} == {"MCP/no-answer"}
    assert report.revisions[0].skipped_requests > 10
    assert len(asked) < 20


@without_waiting
async def test_a_server_that_answers_too_slowly_as_a_whole_is_given_up() -> None:
    async def slow(_server: CleanServer, _method: str, _params: Json, answer: Json) -> Json:
        await anyio.sleep(0.2)
        return answer

    server = make_server()
    server.bend = slow
    with pytest.raises(SourceError, match=r"not checked to the end within 1 s"):
        await skillwire.verify(server, limits=replace(DEFAULT_LIMITS, verify_seconds=1))


async def test_findings_beyond_a_hundred_of_a_rule_are_counted_not_kept() -> None:
    async def many(_server: CleanServer, method: str, _params: Json, answer: Json) -> Json:
        if method == "skills/list":
            answer["result"] = {"skills": [{"uri": number} for number in range(600)]}
        return answer

    server = make_server()
    server.bend = many
    report = await skillwire.verify(server, revisions=["2025-11-25"])
    assert len(report.of("ENT-1/uri")) == MOST_PER_RULE
    assert report.omitted == {"ENT-1/uri": 500}
    assert "and 595 more; --json shows some of them" in as_text(report)


async def test_nothing_that_a_server_wrote_acts_on_a_terminal() -> None:
    evil = "\x1b]0;pwned\x07\x1b[2J\u202e\U000e0041\r\nok"

    async def bend(_server: CleanServer, method: str, params: Json, answer: Json) -> Json:
        if "error" in answer:
            answer["error"] = {"code": -1, "message": evil}
        if method == "resources/read" and "result" in answer:
            answer["result"]["contents"][0].update(mimeType=evil, uri=evil)
        if method == "resources/list":
            for item in answer["result"]["resources"]:
                item.update(name=evil, description=evil)
        return answer

    def bend_entry(root: str, entry: Json) -> Any:
        if root == REFUNDS:
            entry["frontmatter"][evil] = evil
            entry["resources"].append({"uri": evil, "digest": evil, "size": evil})
            entry["_meta"] = {f"mcp/{evil}": 1}
        return entry

    server = make_server()
    server.bend, server.bend_entry = bend, bend_entry
    report = await skillwire.verify(server)
    assert len(report.findings) > 20
    for text in (as_text(report), as_json(report), as_junit(report)):
        assert not {char for char in text if not char.isprintable()} - {"\n"}
