"""Logins: where tokens are kept, how they are renewed, and what a hostile server cannot do with them."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from authorization_server import AuthorizationServer, authorization_server, end_of
from skillwire.errors import SourceError
from skillwire.host import Login, LoginStore
from skillwire.host.login_flow import (
    Browser,
    LoginTokens,
    callback_values,
    check_address,
    renew,
    revoke,
    sign_in,
)

pytestmark = pytest.mark.anyio
ID = "url:0123"
REDIRECT = "http://127.0.0.1:9/callback"


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def server(tmp_path: Path) -> Generator[AuthorizationServer]:
    (tmp_path / "skills").mkdir()
    with authorization_server(tmp_path / "skills") as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> LoginStore:
    return LoginStore(tmp_path / "logins")


async def signed_in(server: AuthorizationServer) -> Login:
    shown: list[str] = []

    async def show(url: str) -> None:
        shown.append(url)

    async def wait() -> str:
        return await anyio.to_thread.run_sync(end_of, shown[0])

    login = await sign_in(server.url, Browser(REDIRECT, show, wait), headers={}, seconds=60)
    assert login is not None
    return login


async def test_a_login_comes_back_as_it_was_kept(server: AuthorizationServer, store: LoginStore) -> None:
    login = await signed_in(server)
    assert not store.has(ID)
    assert store.put(ID, login).endswith(".json")
    assert (store.has(ID), store.get(ID)) == (True, login)
    assert login.issuer == server.issuer
    assert "access-" not in repr(login)
    store.remove(ID)
    assert (store.has(ID), store.get(ID)) == (False, None)
    store.remove(ID)


async def test_two_connections_renew_a_token_once(server: AuthorizationServer, store: LoginStore) -> None:
    server.expires_in = 1
    store.put(ID, await signed_in(server))
    server.expires_in = 3600
    found: list[str] = []

    async def ask() -> None:
        found.append(await LoginTokens(store, ID, seconds=10).get())

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    # The server takes all tokens back when a refresh token comes twice.
    assert server.count("POST /token") == 2
    assert set(found) < server.access
    assert len(set(found)) == 1


async def test_a_token_that_cannot_be_renewed_is_not_sent(
    server: AuthorizationServer, store: LoginStore
) -> None:
    server.expires_in = 1
    store.put(ID, await signed_in(server))
    server.refresh.clear()
    tokens = LoginTokens(store, ID, seconds=60)
    assert await tokens.get() == ""
    assert await tokens.after_refusal("") == ""


async def test_a_server_that_offers_only_plain_challenges_gets_no_login(server: AuthorizationServer) -> None:
    server.challenge_methods = ["plain"]
    with pytest.raises(SourceError, match="does not offer S256"):
        await signed_in(server)
    assert server.count("GET /authorize") == 0
    server.challenge_methods = None
    assert await signed_in(server)


async def test_tokens_are_revoked_at_the_service_where_possible(server: AuthorizationServer) -> None:
    assert await revoke(await signed_in(server), seconds=60)
    assert (server.access, server.refresh) == (set(), {})
    server.revokes = False
    assert not await revoke(await signed_in(server), seconds=60)


async def test_a_login_whose_server_is_gone_is_not_renewed(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    with authorization_server(tmp_path / "skills") as server:
        login = await signed_in(server)
    assert await renew(login, seconds=2) is None
    assert not await revoke(login, seconds=2)


async def test_an_endless_answer_is_cut_off(server: AuthorizationServer) -> None:
    server.padding = 2 * 1024 * 1024
    with pytest.raises(SourceError, match="more than 1,048,576 bytes"):
        await signed_in(server)


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"null", b'{"version": 2}', b'{"version": 1}', b'{"version": 1, "login": 3}', b"\xff"],
)
async def test_a_damaged_record_is_no_login(tmp_path: Path, store: LoginStore, damage: bytes) -> None:
    store.put(ID, Login(url="https://x.example", access_token="t"))
    [file] = (tmp_path / "logins").glob("*.json")
    file.write_bytes(damage)
    assert store.get(ID) is None
    assert await LoginTokens(store, ID, seconds=60).get() == ""
    store.remove(ID)
    assert not store.has(ID)


async def test_a_damaged_client_or_server_renews_nothing() -> None:
    login = Login(
        url="https://x.example",
        access_token="a",
        refresh_token="r",
        client={"nothing": 1},
        server={"issuer": 3},
    )
    assert await renew(login, seconds=1) is None
    assert not await revoke(login, seconds=1)


def test_a_token_expires_a_little_early() -> None:
    now = time.time()
    login = Login(url="https://x.example", access_token="t", expires_at=now + 60)
    assert (login.is_current(now), login.is_current(now + 31)) == (True, False)
    assert Login(url="https://x.example", access_token="t").is_current(now)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://auth.example/token", "https://mcp.example/mcp"),
        ("http://127.0.0.1:1/token", "http://127.0.0.1:2/mcp"),
        ("http://localhost:1/token", "http://[::1]:2/mcp"),
        ("https://127.0.0.1/token", "http://localhost/mcp"),
    ],
)
def test_tokens_and_codes_go_over_tls_or_stay_here(url: str, server: str) -> None:
    check_address(url, server)


REFUSED = {
    "must be an https:// URL": ["http://auth.example/token", "file:///etc/passwd", "javascript:alert(1)"],
    "an address of this machine": [
        "https://localhost/token",
        "https://127.0.0.1:1/",
        "https://a.localhost/",
        "https://127.1/",
        "https://0.0.0.0/",
        "https://[::ffff:127.0.0.1]/",
        "https://2130706433/",
        "https://169.254.169.254/",
    ],
    "private network": ["https://10.0.0.1/"],
    "not a valid URL": ["https://[x/"],
}


@pytest.mark.parametrize(
    ("url", "server", "said"),
    [
        *((url, "https://mcp.example/mcp", said) for said, urls in REFUSED.items() for url in urls),
        ("http://mcp.example/mcp", "http://mcp.example/mcp", "must be an https:// URL"),
        ("http://127.evil.example/", "http://127.0.0.1/mcp", "must be an https:// URL"),
    ],
)
def test_tokens_and_codes_go_nowhere_else(url: str, server: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        check_address(url, server)


@pytest.mark.parametrize(
    ("address", "values"),
    [
        ("http://127.0.0.1:1/callback?code=a&state=b", {"code": "a", "state": "b"}),
        ("  http://127.0.0.1:1/callback?code=a%2Fb&iss=c \n", {"code": "a/b", "iss": "c"}),
        ("code=a&state=b", {"code": "a", "state": "b"}),
    ],
)
def test_what_the_last_address_says(address: str, values: dict[str, str]) -> None:
    assert callback_values(address) == values


@pytest.mark.parametrize("address", ["", "x", "http://127.0.0.1:1/callback", "http://h/?state=b"])
def test_an_address_without_a_code_does_not_complete_a_login(address: str) -> None:
    with pytest.raises(SourceError, match="paste the whole address"):
        callback_values(address)
