"""`skillwire servers login` and `logout`, against a real authorization server on loopback."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Generator
from pathlib import Path

import pytest
from keyring.backend import KeyringBackend

from authorization_server import AuthorizationServer, authorization_server, browse, end_of
from command_line import Ended, Run, hiding
from skillwire.cli.login import has_browser

pytestmark = pytest.mark.slow

SKILLWIRE = str(Path(sys.executable).parent / "skillwire")


class MemoryKeyring(KeyringBackend):
    """A keyring of this process."""

    priority = 5  # pyright: ignore[reportAssignmentType,reportIncompatibleMethodOverride]

    def __init__(self) -> None:
        super().__init__()
        self.passwords: dict[tuple[str, str], str] = {}
        self.fails = False

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.fails:
            raise RuntimeError("the keyring is locked")
        self.passwords[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.passwords[service, username]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "SSH_CONNECTION", "BROWSER", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def server(tmp_path: Path) -> Generator[AuthorizationServer]:
    folder = tmp_path / "skills/refunds"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: refunds\ndescription: Does it.\n---\nDo it.\n", "utf-8")
    with authorization_server(tmp_path / "skills") as running:
        yield running


@pytest.fixture
def run(server: AuthorizationServer, run: Run) -> Run:
    return hiding(run, lambda: (*server.access, *server.refresh, *server.used))


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were opened. Each is browsed to its end, as a person would."""
    opened: list[str] = []

    def open_address(url: str) -> bool:
        opened.append(url)
        threading.Thread(target=browse, args=(url,), daemon=True).start()
        return True

    monkeypatch.setattr(webbrowser, "open", open_address)
    return opened


@pytest.fixture
def keyring_of_the_system(monkeypatch: pytest.MonkeyPatch) -> MemoryKeyring:
    import keyring

    backend = MemoryKeyring()
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    monkeypatch.setattr(keyring, "get_keyring", lambda: backend)
    return backend


def stored(home: Path) -> list[Path]:
    return list((home / "xdg_data_home/skillwire/logins").glob("*.json"))


def skills(ended: Ended) -> list[str]:
    return [skill["name"] for skill in ended.document["skills"]]


def test_before_a_login_the_message_says_which_command_to_run(run: Run, server: AuthorizationServer) -> None:
    run("servers", "add", "--no-check", "shop", server.url)
    ended = run("list")
    assert "wants you to sign in (HTTP 401): run `skillwire servers login shop`" in " ".join(
        ended.out.split()
    )


def test_a_login_in_the_browser_gives_access_and_logout_ends_it(
    run: Run, server: AuthorizationServer, browser: list[str], home: Path
) -> None:
    run("servers", "add", "--no-check", "shop", server.url)
    ended = run("servers", "login", "shop")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("Signed in to shop.\n")
    assert "It is renewed when it expires." in " ".join(ended.out.split())
    assert f"shop ({server.url}) signs in at 127.0.0.1:{server.port}." in ended.err
    assert browser[0] in ended.err
    assert skills(run("list", "--json")) == ["refunds"]
    [file] = stored(home)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "signed in" in run("servers", "list").out
    ended = run("servers", "logout", "shop")
    assert ended.out == "Signed out of shop. Its tokens are deleted.\n"
    assert (server.access, server.refresh, stored(home)) == (set(), {}, [])
    assert skills(run("list", "--json")) == []


@pytest.mark.usefixtures("browser")
def test_tokens_go_into_the_keyring_where_there_is_one(
    run: Run, server: AuthorizationServer, home: Path, keyring_of_the_system: MemoryKeyring
) -> None:
    run("servers", "add", "--no-check", "shop", server.url)
    login = run("servers", "login", "shop", "--json").document["login"]
    assert (login["stored"], login["renewable"]) == ("keyring", True)
    [token] = server.access
    [kept] = keyring_of_the_system.passwords.values()
    assert token in kept
    assert token not in stored(home)[0].read_text("utf-8")
    assert skills(run("list", "--json")) == ["refunds"]
    run("servers", "logout", "shop")
    assert keyring_of_the_system.passwords == {}


@pytest.mark.usefixtures("browser")
def test_without_a_working_keyring_tokens_go_into_the_file(
    run: Run, server: AuthorizationServer, home: Path, keyring_of_the_system: MemoryKeyring
) -> None:
    keyring_of_the_system.fails = True
    run("servers", "add", "--no-check", "shop", server.url)
    assert run("servers", "login", "shop", "--json").document["login"]["stored"] == str(stored(home)[0])
    assert skills(run("list", "--json")) == ["refunds"]


def test_an_expired_token_is_renewed_and_the_new_one_is_kept(
    run: Run, server: AuthorizationServer, browser: list[str]
) -> None:
    server.expires_in = 1  # Less than the leeway: it has expired when it is issued.
    run("servers", "add", "--no-check", "shop", server.url)
    run("servers", "login", "shop")
    server.expires_in = 3600
    server.forget_tokens()
    for _ in range(2):
        assert skills(run("list", "--json")) == ["refunds"]
    assert server.count("POST /token") == 2  # The code, and one renewal: the second command had its token.
    assert len(browser) == 1


def test_a_token_that_the_server_refuses_is_renewed(
    run: Run, server: AuthorizationServer, browser: list[str]
) -> None:
    run("servers", "add", "--no-check", "shop", server.url)
    run("servers", "login", "shop")
    server.forget_tokens()
    assert skills(run("list", "--json")) == ["refunds"]
    assert server.count("POST /token") == 2


def test_a_login_that_cannot_be_renewed_says_to_sign_in_again(
    run: Run, server: AuthorizationServer, browser: list[str]
) -> None:
    server.refreshes = False
    run("servers", "add", "--no-check", "shop", server.url)
    assert "cannot be renewed: sign in again then" in " ".join(run("servers", "login", "shop").out.split())
    server.forget_tokens()
    said = " ".join(run("list").out.split())
    assert (
        "your login there has expired or was revoked (HTTP 401): run `skillwire servers login shop`" in said
    )
    assert run("servers", "login", "shop").code == 0
    assert skills(run("list", "--json")) == ["refunds"]
    assert len(server.clients) == 1  # The second login used the registration of the first.


def test_without_a_browser_the_address_is_pasted(
    run: Run, server: AuthorizationServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from skillwire.cli import login

    run("servers", "add", "--no-check", "shop", server.url)
    monkeypatch.delenv("DISPLAY")
    show = login._show  # pyright: ignore[reportPrivateUsage]

    def show_and_copy(label: str, config: object, url: str, address: str, *, by_hand: bool) -> None:
        show(label, config, url, address, by_hand=by_hand)  # pyright: ignore[reportArgumentType]
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"  {end_of(url)}\n"))

    monkeypatch.setattr(login, "_show", show_and_copy)
    ended = run("servers", "login", "shop")
    assert ended.code == 0, ended.err
    assert "paste it here, and press Enter" in ended.err
    assert skills(run("list", "--json")) == ["refunds"]


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("", "no address was pasted"),
        ("\n", "no address was pasted"),
        ("abc\n", "paste the whole address"),
        ("http://127.0.0.1:8765/callback?code=x\n", "State parameter mismatch"),
        ("http://127.0.0.1:8765/callback?code=x&state=y\n", "State parameter mismatch"),
        ("http://127.0.0.1:8765/callback?error=access_denied\n", "access_denied"),
    ],
)
def test_what_is_pasted_must_be_the_end_of_this_login(
    run: Run, server: AuthorizationServer, monkeypatch: pytest.MonkeyPatch, pasted: str, said: str
) -> None:
    run("servers", "add", "--no-check", "shop", server.url)
    monkeypatch.setattr(sys, "stdin", io.StringIO(pasted))
    ended = run("servers", "login", "shop", "--paste")
    assert (ended.code, ended.out) == (4, "")
    last = ended.err.splitlines()[-1]
    assert last.startswith("skillwire: cannot sign in to shop: ")
    assert said in last
    assert server.access == set()


def test_a_login_that_is_denied_says_so(
    run: Run, server: AuthorizationServer, browser: list[str], home: Path
) -> None:
    server.denies = True
    run("servers", "add", "--no-check", "shop", server.url)
    ended = run("servers", "login", "shop")
    assert ended.code == 4
    assert "the authorization server refused: access_denied: You said no." in ended.err
    assert stored(home) == []


def test_a_service_without_registration_needs_a_client_id(
    run: Run, server: AuthorizationServer, browser: list[str]
) -> None:
    server.registers = False
    run("servers", "add", "--no-check", "shop", server.url)
    ended = run("servers", "login", "shop")
    assert (ended.code, "give its id with --client-id" in ended.err) == (4, True)
    server.clients["mine"] = {"redirect_uris": ["http://127.0.0.1:43127/callback"]}
    assert run("servers", "login", "shop", "--client-id", "mine", "--port", "43127").code == 0
    assert skills(run("list", "--json")) == ["refunds"]


@pytest.mark.slow
def test_an_unfinished_login_times_out(
    run: Run, server: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    run("servers", "add", "--no-check", "shop", server.url)
    ended = run("servers", "login", "shop", "--timeout", "1")
    assert (ended.code, "the login was not finished within 1 s" in ended.err) == (4, True)


def test_foreign_requests_at_the_loopback_address_change_nothing(
    run: Run, server: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from urllib.parse import parse_qs, urlsplit

    answers: list[int] = []

    def open_address(url: str) -> bool:
        address = parse_qs(urlsplit(url).query)["redirect_uri"][0]

        def browse_around() -> None:
            answers.append(browse(f"{address}?code=forged&state=forged"))
            answers.append(browse(address.replace("/callback", "/")))
            answers.append(browse(url))

        threading.Thread(target=browse_around, daemon=True).start()
        return True

    monkeypatch.setattr(webbrowser, "open", open_address)
    run("servers", "add", "--no-check", "shop", server.url)
    assert run("servers", "login", "shop").code == 0
    assert answers[:2] == [400, 404]


def test_a_server_that_asks_for_no_login_needs_none(
    run: Run, server: AuthorizationServer, browser: list[str], home: Path
) -> None:
    server.asks = False
    run("servers", "add", "--no-check", "shop", server.url)
    ended = run("servers", "login", "shop")
    assert (ended.code, "shop does not ask for a login" in ended.err) == (4, True)
    assert (browser, stored(home)) == ([], [])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["servers", "login", "nobody"], 8, "no server is called nobody; known: "),
        (["servers", "login", "tool"], 4, "tool is started by a command"),
        (["servers", "login", "token"], 4, "token has a token in your configuration"),
        (["servers", "login", "http://other.example/mcp"], 4, "it must be an https:// URL"),
        (
            ["servers", "login", "shop", "--client-secret-env", "X"],
            2,
            "--client-secret-env needs --client-id",
        ),
        (
            ["servers", "login", "shop", "--client-id", "x", "--client-secret-env", "NO_SUCH"],
            2,
            "NO_SUCH is not set",
        ),
        (["servers", "logout", "shop"], 8, "you are not signed in to shop"),
    ],
)
def test_what_has_no_login_is_refused(
    run: Run,
    server: AuthorizationServer,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("T", "s3cr3t")
    run("servers", "add", "--no-check", "shop", server.url)
    run("servers", "add", "--no-check", "tool", "--", "sh")
    run("servers", "add", "--no-check", "token", "https://t.example", "--token-env", "T")
    ended = run(*arguments)
    assert (ended.code, said in ended.err) == (code, True), ended.err


@pytest.mark.slow
def test_verify_by_name_uses_the_login(run: Run, server: AuthorizationServer, browser: list[str]) -> None:
    run("servers", "add", "--no-check", "shop", server.url)
    assert run("verify", "--quick", "shop").code == 2
    run("servers", "login", "shop")
    assert run("verify", "--quick", "shop").code == 0


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({"BROWSER": "w3m"}, "linux", True),
        ({}, "darwin", True),
        ({"SSH_CONNECTION": "x"}, "darwin", False),
        ({}, "win32", True),
    ],
)
def test_a_browser_is_detected(environment: dict[str, str], platform: str, expected: bool) -> None:
    assert has_browser(environment, platform) is expected


@pytest.mark.process
def test_as_a_real_process_with_the_browser_of_the_environment(
    run: Run, server: AuthorizationServer, home: Path
) -> None:
    browser = home / "browser.py"
    browser.write_text("import sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n", "utf-8")
    run("servers", "add", "--no-check", "shop", server.url)
    ended = subprocess.run(
        [SKILLWIRE, "servers", "login", "shop"],
        env={**os.environ, "BROWSER": f"{sys.executable} -IS {browser} %s"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.startswith("Signed in to shop.")
    assert skills(run("list", "--json")) == ["refunds"]
