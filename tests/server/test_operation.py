"""What operators see and set: tokens with names, the access log, changes, metrics, health, refused hosts."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from fast_path_calls import READ, send
from folder_server import in_task
from served import serving_http
from skillwire import Limits, SkillServer, SourceError
from skillwire.access import TokenFile
from skillwire.access.callers import parse_tokens
from skillwire.server import ServerOptions
from trees import skill_md, write, write_skill
from waiting import pass_time, until, until_answered

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_skill(tmp_path / "skills/acme/refunds")
    return tmp_path / "skills"


@asynccontextmanager
async def running(server: SkillServer, **options: Any) -> AsyncGenerator[httpx.AsyncClient]:
    async with (
        in_task(server.http_app(**options)) as http,
        httpx.AsyncClient(base_url=http.url.removesuffix("/mcp"), timeout=30) as client,
    ):
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_each_token_has_a_name_and_can_be_revoked_without_a_restart(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tokens"
    write(file, b"# who may read\nada one-secret operator\ngrace other-secret\n")
    caplog.set_level(logging.INFO, "skillwire.access")
    options = ServerOptions(limits=Limits(http_revoke_seconds=60))
    async with running(SkillServer(folder, options=options), identity=TokenFile(file)) as client:
        assert (await client.get("/metrics", headers=bearer("one-secret"))).status_code == 200
        assert (await client.get("/metrics", headers=bearer("other-secret"))).status_code == 403
        assert (await client.get("/metrics", headers=bearer("secret"))).status_code == 401
        write(tmp_path / "new", b"grace other-secret\nlinus third-secret operator\n")
        (tmp_path / "new").replace(file)
        await pass_time(60)

        async def is_revoked() -> bool:
            return (await client.get("/metrics", headers=bearer("one-secret"))).status_code == 401

        await until_answered(is_revoked)
        assert (await client.get("/metrics", headers=bearer("third-secret"))).status_code == 200
        file.unlink()
        await pass_time(60)
        await until(lambda: "tokens" in caplog.records[-1].getMessage())
        assert (await client.get("/metrics", headers=bearer("third-secret"))).status_code == 200
    users = {
        record.__dict__["fields"]["user"] for record in caplog.records if record.name == "skillwire.access"
    }
    assert users == {"ada", "grace", "linus", "-"}
    assert "-secret" not in caplog.text
    assert "added: linus, removed: ada" in caplog.text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no token"),
        ("ada one\nada two", "line 2"),
        ("ada one two", "line 1"),
        ("a/b one", "line 1"),
        ("ada one\nlonely", "line 2"),
        ("ada näh", "printable ASCII"),
        ("ada one\nbob one", "the same token"),
    ],
)
async def test_a_token_file_that_cannot_be_understood_names_the_line(text: str, complaint: str) -> None:
    with pytest.raises(SourceError, match=complaint):
        parse_tokens(text, "tokens")


async def test_one_token_alone_needs_no_name() -> None:
    [caller] = parse_tokens("# shared\n s3cret \n", "tokens").values()
    assert (caller.name, caller.is_operator) == ("", True)


async def test_a_refused_host_is_told_what_to_start_the_server_with(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(SkillServer(folder)) as client:
        refused = await client.post("/mcp", content=b"{}", headers={"Host": "skills.corp:8080"})
    assert refused.status_code == 421
    assert "--allow-host skills.corp" in refused.text
    assert "--allow-host skills.corp" in caplog.text


@pytest.mark.requirement("SEC-6")
async def test_a_host_header_cannot_control_a_terminal(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(SkillServer(folder)) as client:
        assert client.base_url.port is not None
        status, _, text = await send(client.base_url.port, READ, {"Host": "evil\x9b2J.example"})
    assert status.startswith(b"http/1.1 421")
    assert b"evil" in text
    assert b"\x9b" not in text
    assert "\x9b" not in caplog.text


async def test_metrics_count_requests_by_method_and_status(folder: Path) -> None:
    async with running(SkillServer(folder), token="s3cret") as client:
        port = client.base_url.port
        assert port is not None
        client.headers.update(bearer("s3cret"))
        for _ in range(3):
            await send(port, READ, {**bearer("s3cret")})
        await send(port, READ, {"Mcp-Method": "made/up", **bearer("s3cret")})
        found = (await client.get("/metrics")).text
        assert (await client.post("/metrics")).status_code == 405
    lines = dict(line.rsplit(" ", 1) for line in found.splitlines() if not line.startswith("#"))
    assert lines["skillwire_skills"] == "1"
    assert lines['skillwire_http_requests_total{method="resources/read",status="200"}'] == "3"
    assert sum(int(count) for name, count in lines.items() if 'method="other"' in name) == 1
    assert lines['skillwire_http_request_seconds_bucket{le="+Inf"}'] == "4"
    assert int(lines["skillwire_connections"]) >= 1


async def test_a_change_of_a_skill_is_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "skillwire.changes")

    def logged() -> list[Any]:
        return [record.__dict__["fields"] for record in caplog.records if "fields" in record.__dict__]

    async with running(SkillServer(folder)) as client:
        await client.get("/healthz")
        write_skill(folder / "notes")
        await until(lambda: len(logged()) == 1)
        write(folder / "notes/SKILL.md", skill_md("notes", "Other words."))
        await until(lambda: len(logged()) == 2)
        (folder / "notes/SKILL.md").unlink()
        await until(lambda: len(logged()) == 3)
    uri = "skill://notes/SKILL.md"
    assert logged() == [{"change": change, "skill": uri} for change in ("added", "changed", "removed")]


@pytest.mark.process
async def test_the_log_can_be_json_and_the_server_has_a_name_and_instructions(
    folder: Path, tmp_path: Path
) -> None:
    write(tmp_path / "about.md", b"Ask for refunds.")
    options = (
        "--access-log",
        "--log-format",
        "json",
        "--name",
        "acme",
        "--instructions",
        f"@{tmp_path}/about.md",
    )
    with serving_http(folder, *options) as (url, served):
        discover = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "server/discover",
            "params": READ["params"] | {"uri": None},
        }
        del discover["params"]["uri"]
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "server/discover",
        }
        result = httpx.post(url, json=discover, headers=headers, timeout=60).json()["result"]
        assert result["instructions"] == "Ask for refunds."
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "acme"
        httpx.post(url, content=b"{}", headers={"Host": "skills.corp"}, timeout=60)
        served.wait_until_it_says("skills.corp")
        said = [line for line in served.said if line.startswith("{")]
    lines = [json.loads(line) for line in said]
    (access,) = [line for line in lines if line.get("mcp_method") == "server/discover"]
    assert (access["event"], access["status"], access["user"]) == ("access", 200, "-")
    assert any("--allow-host skills.corp" in line.get("message", "") for line in lines)


@pytest.mark.parametrize(
    ("body", "method"),
    [
        (
            '{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{"uri":"skill://none/SKILL.md"}}',
            "skills/get",
        ),
        ('{"jsonrpc":"2.0","id":1,"method":"no/such"}', "no/such"),
        ('{"jsonrpc":"2.0","id":1,"method":"a\\u001b[2J"}', "a\\u001b[2J"),
        ('{"jsonrpc":"2.0","id":1,"method":7}', "-"),
        ("[1", "-"),
        ('{"method":"ping","params":{"_meta":{"x":"' + 70_000 * "x" + '"}}}', "-"),
    ],
)
async def test_the_access_log_names_the_method_of_a_request_without_the_header(
    folder: Path, caplog: pytest.LogCaptureFixture, body: str, method: str
) -> None:
    caplog.set_level(logging.INFO, "skillwire.access")
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    async with running(SkillServer(folder), token="s3cret") as client:
        client.headers.update(bearer("s3cret"))
        headers["Content-Type"] = "application/json"
        await client.post("/mcp", content=body, headers=headers)
        metrics = (await client.get("/metrics")).text
    fields = [one.__dict__["fields"] for one in caplog.records if one.name == "skillwire.access"]
    assert [one["mcp_method"] for one in fields] == [method, "-"]
    label = "skills/get" if method == "skills/get" else "other"
    assert f'skillwire_http_requests_total{{method="{label}",status=' in metrics


@pytest.mark.parametrize("fast", [True, False])
async def test_a_body_that_is_not_json_is_never_answered_from_the_cache(folder: Path, fast: bool) -> None:
    os.utime(folder / "acme/refunds/SKILL.md", (1, 1))
    head_first = json.dumps(
        {"jsonrpc": "2.0", "id": 7, **{k: READ[k] for k in ("method", "params")}}, separators=(",", ":")
    ).encode()
    id_last = head_first.replace(b'{"jsonrpc":"2.0","id":7,', b"{")[:-1] + b',"jsonrpc":"2.0","id":7}'
    rest = head_first.removeprefix(b'{"jsonrpc":"2.0","id":7')
    broken = [
        rest + b',"jsonrpc":"2.0","id":8}',
        id_last[1:],
        b" " + id_last[1:],
        id_last[:-1],
        head_first + b"}",
        head_first.replace(b'"id":7', b'"id":07'),
    ]
    headers = {"Mcp-Method": "resources/read", "Mcp-Name": READ["params"]["uri"]}
    async with running(SkillServer(folder, options=ServerOptions(watch=False), fast=fast)) as client:
        port = client.base_url.port
        assert port is not None
        for good in (head_first, id_last, head_first, id_last):
            assert (await send(port, good, headers))[0] == b"http/1.1 200 ok"
        for bad in broken:
            status, _, answer = await send(port, bad, headers)
            assert status != b"http/1.1 200 ok" or "error" in answer, bad
