"""A server over HTTP: both revisions, who may send requests, what wrong requests get, and how
`skillwire serve --http` ends."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from clients import both_eras, call, connected, refusal
from folder_server import in_thread
from served import INITIALIZE, INITIALIZED, serving, serving_http
from skillwire import SkillServer, SourceError
from skillwire.limits import DEFAULT_LIMITS
from skillwire.server import Address, HttpServer, parse_address
from skillwire.version import VERSION
from trees import write_skill
from waiting import PATIENCE

TOKEN = "skw_0123456789abcdefghijklmnop"
MODERN = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("http")
    write_skill(folder / "alpha", {"odd \u2028 name.txt": "\ufeffa\r\nb\u2028c".encode(), "bin": b"\xff\x00"})
    write_skill(folder / "team/beta")
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with in_thread(SkillServer(folder).http_app()) as url:
        yield f"{url}/mcp"


@pytest.fixture(scope="module")
def stateless_url(folder: Path) -> Iterator[str]:
    app = SkillServer(folder).http_app(stateless=True, allowed_hosts=["skills.example"])
    with in_thread(app) as url:
        yield f"{url}/mcp"


@pytest.fixture(scope="module")
def guarded_url(folder: Path) -> Iterator[str]:
    with serving_http(folder, env={"SKILLWIRE_TOKEN": f"{TOKEN}\n"}) as (url, served):
        assert any("bearer token required" in line for line in served.said)
        yield url


def headers(method: str, **more: str) -> dict[str, str]:
    return {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        **more,
    }


def post(url: str, method: str = "skills/list", *, send: Any = None, **more: str) -> httpx.Response:
    """One request of the 2026 era, or whatever is to be sent in its place."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": MODERN} if send is None else send
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(url, content=content, headers=headers(method, **more), timeout=PATIENCE)


def skills_in(response: httpx.Response) -> int:
    assert response.status_code == 200, response.text
    return len(response.json()["result"]["skills"])


@pytest.mark.anyio
@pytest.mark.requirement("CAP-1", "CAP-2", "CAP-4", "LST-2", "RD-2")
@both_eras
@pytest.mark.parametrize("kind", ["url", "stateless_url"])
async def test_a_client_finds_everything_on_both_revisions(
    request: pytest.FixtureRequest, version: str, kind: str
) -> None:
    async with connected(request.getfixturevalue(kind), version) as client:
        extensions = client.server_capabilities.extensions or {}
        assert extensions["io.modelcontextprotocol/skills"] == {"directoryRead": True}
        assert client.server_capabilities.resources is not None
        assert "load_skill" in (client.instructions or "")
        listing = await call(client, "skills/list")
        for entry in listing["skills"]:
            assert (await call(client, "skills/get", uri=entry["uri"]))["skill"] == entry
            for file in entry["resources"]:
                assert await client.read_resource(file["uri"])
        (child,) = (await call(client, "resources/directory/read", uri="skill://team"))["resources"]
        assert child["mimeType"] == "inode/directory"
        error = await refusal(client, "resources/read", uri="skill://none/x")
        assert (error.code, error.data) == (-32602, {"uri": "skill://none/x"})


@pytest.mark.requirement("CAP-4", "LST-2")
def test_on_the_2025_revisions_the_wire_carries_no_later_fields(url: str, stateless_url: str) -> None:
    base = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    for target in (url, stateless_url):
        with httpx.Client(headers=base, timeout=PATIENCE) as client:
            opened = client.post(target, json=INITIALIZE)
            declared = opened.json()["result"]["capabilities"]["extensions"]
            assert declared == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
            if session := opened.headers.get("mcp-session-id"):
                client.headers["Mcp-Session-Id"] = session
            assert (session is None) == (target == stateless_url)
            client.post(target, json=INITIALIZED)
            for method in ("skills/list", "resources/list"):
                result = client.post(target, json={"jsonrpc": "2.0", "id": 1, "method": method}).json()[
                    "result"
                ]
                assert not {"resultType", "ttlMs", "cacheScope"} & result.keys()
    assert post(url).json()["result"]["resultType"] == "complete"


@pytest.mark.parametrize(
    ("send", "status"),
    [
        (b"{", 400),
        (b"\xff", 400),
        (b"5", 400),
        (b"[]", 400),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', 400),
        ({"hello": "world"}, 400),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, 400),
        (b"", 400),
        (b"[" * 5_000, 400),
        (b"[" * 100_000, 413),
        (b"[" + b"{}," * 100_000, 413),
        (b"x" * (DEFAULT_LIMITS.http_body_bytes + 1), 413),
    ],
)
def test_a_body_that_is_no_message_is_refused_and_the_server_goes_on(
    url: str, send: object, status: int
) -> None:
    response = post(url, send=send)
    assert response.status_code == status
    assert "Traceback" not in response.text
    assert skills_in(post(url)) == 2


def test_wrong_methods_types_and_a_uri_of_a_megabyte_are_refused(url: str) -> None:
    def ask(method: str, **params: object) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**MODERN, **params}}
        answer = post(url, method, send=body)
        assert len(answer.content) < 1000
        return answer.json()["error"]

    assert ask("nothing/here")["code"] == -32601
    assert ask("skills/get", uri=5)["code"] == -32602
    assert ask("skills/list", cursor="zz")["code"] == -32602
    assert ask("skills/get", uri="skill://" + "a" * 1_000_000)["code"] == -32602
    assert skills_in(post(url)) == 2


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        (
            "Host",
            ["127.0.0.1", "localhost:9", "[::1]:9"],
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "skills.example"],
        ),
        (
            "Origin",
            ["http://localhost:3000", "https://127.0.0.1"],
            ["http://evil.example", "http://localhost.evil.example", "null"],
        ),
    ],
)
def test_host_and_origin_must_be_of_this_machine(
    url: str, name: str, allowed: list[str], refused: list[str]
) -> None:
    for value in allowed:
        assert post(url, **{name: value}).status_code == 200, value
    for value in refused:
        assert post(url, **{name: value}).status_code in (403, 421), value


@pytest.mark.parametrize("value", ["skills.example", "skills.example:8443", "localhost"])
def test_a_host_that_was_allowed_is_accepted_too(stateless_url: str, value: str) -> None:
    assert post(stateless_url, Host=value, Origin=f"https://{value}").status_code == 200
    assert post(stateless_url, Host="other.example").status_code == 421


@pytest.mark.process
@pytest.mark.parametrize(
    ("given", "challenge"),
    [
        ([], 'Bearer realm="skillwire"'),
        (["Bearer wrong"], 'Bearer realm="skillwire", error="invalid_token"'),
        ([f"Basic {TOKEN}"], 'Bearer realm="skillwire", error="invalid_token"'),
        (["Bearer"], 'Bearer realm="skillwire", error="invalid_token"'),
        ([f"Bearer {TOKEN}x"], 'Bearer realm="skillwire", error="invalid_token"'),
        ([TOKEN], 'Bearer realm="skillwire", error="invalid_token"'),
        ([f"Bearer {TOKEN}", f"Bearer {TOKEN}"], 'Bearer realm="skillwire", error="invalid_token"'),
        (["Bearer wrong", f"Bearer {TOKEN}"], 'Bearer realm="skillwire", error="invalid_token"'),
    ],
)
def test_without_the_token_there_is_a_challenge_and_nothing_else(
    guarded_url: str, given: list[str], challenge: str
) -> None:
    fields = [*headers("skills/list").items(), *(("Authorization", value) for value in given)]
    for method, path in (("POST", guarded_url), ("GET", guarded_url), ("GET", guarded_url + "/../secret")):
        response = httpx.request(method, path, headers=fields, content=b"{}")
        assert (response.status_code, response.headers["www-authenticate"]) == (401, challenge)


@pytest.mark.process
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_the_token_opens_whatever_the_case_of_the_scheme(guarded_url: str, scheme: str) -> None:
    response = post(guarded_url, Authorization=f"{scheme} {TOKEN}")
    assert skills_in(response) == 2
    # An answer to somebody with a token is not for everybody.
    assert response.json()["result"]["cacheScope"] == "private"


@pytest.mark.process
def test_health_is_open_to_all_and_tells_strangers_nothing_else(guarded_url: str, url: str) -> None:
    asked = {"Host": "probe.example"}
    stranger = httpx.get(guarded_url.replace("/mcp", "/healthz"), headers=asked, timeout=60)
    assert (stranger.status_code, stranger.json()) == (200, {"status": "ok"})
    for path in ("/livez", "/readyz"):
        assert httpx.get(url.replace("/mcp", path), headers=asked, timeout=60).json() == {"status": "ok"}
    known = {"Authorization": f"Bearer {TOKEN}"}
    detail = guarded_url.replace("/mcp", "/healthz?detail")
    assert httpx.get(detail, headers={**asked, **known}, timeout=60).status_code == 421
    assert httpx.get(detail, timeout=60).status_code == 401
    told = httpx.get(detail, headers=known, timeout=60).json()
    assert told.keys() == {"status", "version", "skills", "left_out", "uptime_seconds"}
    assert (told["version"], told["left_out"]) == (VERSION, 0)
    assert told["skills"] > 0
    # Nobody is an operator only because there are no tokens, or because of where they come from.
    for path in ("/healthz?detail", "/metrics"):
        assert httpx.get(url.replace("/mcp", path), timeout=60).status_code == 403
    refused = httpx.post(url.replace("/mcp", "/healthz"), headers=asked, timeout=60)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.anyio
async def test_what_is_not_an_http_request_is_closed(folder: Path) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nobody reads")

    app = SkillServer(folder).http_app(token=TOKEN)
    await app({"type": "websocket", "path": "/healthz", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close"}]
    with pytest.raises(ValueError, match="empty"):
        SkillServer(folder).http_app(token="")


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_although_a_client_listens(folder: Path, number: signal.Signals) -> None:
    with serving_http(folder) as (url, served), httpx.Client(timeout=PATIENCE) as client:
        accept = {"Accept": "application/json, text/event-stream"}
        opened = client.post(url, json=INITIALIZE, headers=accept)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Accept": "text/event-stream"}
        with client.stream("GET", url, headers=session) as events:
            assert events.status_code == 200
            assert served.end(number) == 0
            assert list(events.iter_raw()) == []
        assert served.said[-1].startswith("Serving"), "an end that was asked for needs no words"
        assert served.process.stdout is not None
        assert served.process.stdout.read() == b""


@pytest.mark.process
def test_a_port_that_is_in_use_is_reported_on_one_line(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with serving(folder, "--http", f"127.0.0.1:{port}") as served:
            assert served.process.wait(PATIENCE) == SourceError.exit_code
            served.wait_until_it_says(
                f"skillwire: cannot listen on 127.0.0.1:{port}: Address already in use; choose another port"
            )
            assert "Traceback" not in "".join(served.said)


def ipv6_is_here() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.process
@pytest.mark.skipif(not ipv6_is_here(), reason="this machine has no IPv6 loopback")
def test_the_loopback_of_ipv6_is_served_too(folder: Path) -> None:
    with serving(folder, "--http", "[::1]:0") as served:
        url = served.wait_until_it_says(r"http://\S+")[0]
        assert url.startswith("http://[::1]:")
        assert skills_in(post(url)) == 2
        assert served.end() == 0


@pytest.mark.process
def test_a_public_address_with_a_token_says_which_names_are_accepted(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"  {TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    options = ("--http", "0.0.0.0:0", "--token-file", tmp_path / "token", "--allow-host", "skills.example")
    with serving(folder, *options) as served:
        url = served.wait_until_it_says(r"http://\S+")[0].replace("0.0.0.0", "127.0.0.1")
        served.wait_until_it_says("skills.example.*--allow-host")
        assert post(url).status_code == 401
        assert skills_in(post(url, Authorization=f"Bearer {TOKEN}", Host="skills.example")) == 2
        assert served.end() == 0


@pytest.mark.parametrize(
    ("text", "host", "port", "is_loopback"),
    [
        ("8000", "127.0.0.1", 8000, True),
        (":8000", "127.0.0.1", 8000, True),
        ("localhost:1", "localhost", 1, True),
        ("127.0.0.2:1", "127.0.0.2", 1, True),
        ("[::1]:65535", "::1", 65535, True),
        ("0.0.0.0:0", "0.0.0.0", 0, False),
        ("[::]:0", "::", 0, False),
        ("10.0.0.1:1", "10.0.0.1", 1, False),
        ("localhost.evil.example:1", "localhost.evil.example", 1, False),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int, is_loopback: bool) -> None:
    address = parse_address(text)
    assert (address.host, address.port, address.is_loopback) == (host, port, is_loopback)


@pytest.mark.parametrize(
    "text",
    ["", "localhost", "localhost:", "localhost:x", "1:65536", "[::1]", "1:-1", "1:٣", "1:" + "9" * 5000],
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="is not an address: write HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70 + ".example", "é..example", "1:2:3"])
def test_a_host_that_cannot_be_bound_is_reported(tmp_path: Path, host: str) -> None:
    app = SkillServer(tmp_path).http_app()
    with pytest.raises(SourceError, match="cannot listen on"):
        HttpServer(app, Address(host, 0))


@pytest.mark.anyio
async def test_the_application_runs_and_stops_in_another_program(folder: Path) -> None:
    http = HttpServer(SkillServer(folder).http_app(token=TOKEN), Address("127.0.0.1", 0))
    running = asyncio.ensure_future(http.serve())
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": "skills/list", "params": MODERN}
        refused = await client.post(http.url, json=body, headers=headers("skills/list"))
        answer = await client.post(
            http.url, json=body, headers=headers("skills/list", Authorization=f"Bearer {TOKEN}")
        )
    assert (refused.status_code, skills_in(answer)) == (401, 2)
    http.stop()
    await running
