"""`skillwire servers login` and `logout`: sign in to remote servers with OAuth."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from skillwire.cli.output import info, printable
from skillwire.errors import SkillNotFound, SourceError, UsageError
from skillwire.version import pip_command

if TYPE_CHECKING:
    from skillwire.host import Login, LoginStore, ServerConfig

_SECONDS = 30.0


def login(
    *,
    name: str,
    paste: bool,
    client_id: str | None,
    client_secret_env: str | None,
    port: int,
    timeout: float,
    as_json: bool,
) -> None:
    """Sign in to a server with OAuth, in a browser here or on another machine."""
    import anyio

    from skillwire.cli.output import Screen, show_json
    from skillwire.host.logins import KEYRING, system_keyring
    from skillwire.text import redact_url

    label, config = _server(name)
    if config.token or any(header.lower() == "authorization" for header in config.headers):
        raise SourceError(
            f"{label} has a token in your configuration, which is used instead of a login: remove it first"
        )
    secret = ""
    if client_secret_env is not None:
        if client_id is None:
            raise UsageError("--client-secret-env needs --client-id")
        secret = os.environ.get(client_secret_env, "")
        if not secret:
            raise UsageError(f"--client-secret-env: {client_secret_env} is not set")
    store = _store()
    try:
        done = anyio.run(
            _sign_in, label, config, store.get(config.identity), paste, client_id or "", secret, port, timeout
        )
    except SourceError as error:
        raise SourceError(f"cannot sign in to {label}: {error}") from None
    if done is None:
        raise SourceError(f"{label} does not ask for a login: it can be used as it is, see `skillwire list`")
    place = store.put(config.identity, done)
    _forget_listing(config)
    if as_json:
        show_json(
            {
                "login": {
                    "label": label,
                    "place": config.place,
                    "authorization_server": redact_url(done.issuer) or None,
                    "stored": "keyring" if place == KEYRING else place,
                    "renewable": bool(done.refresh_token),
                    "expires_at": done.expires_at,
                }
            }
        )
        return
    screen = Screen()
    where = place if place == KEYRING else f"{printable(place)}, which only you can read"
    screen.line(("Signed in ", "green"), f"to {label}.")
    screen.wrapped(f"The token is in {where}. {_lifetime(done)}")
    if place != KEYRING and system_keyring() is None:
        screen.wrapped(
            "No usable system keyring was found, or the package keyring is not installed: "
            f"{pip_command('keyring')}"
        )
    screen.line("See its skills with: skillwire list")


def logout(*, name: str, as_json: bool) -> None:
    """Revoke and delete the tokens of a server."""
    import anyio

    from skillwire.cli.output import Screen, show_json
    from skillwire.host.login_flow import revoke

    label, config = _server(name)
    store = _store()
    if not store.has(config.identity):
        raise SkillNotFound(f"you are not signed in to {label}: there is nothing to delete")
    known = store.get(config.identity)
    revoked = False
    if known is not None:

        async def run() -> bool:
            return await revoke(known, seconds=_SECONDS)

        revoked = anyio.run(run)
    store.remove(config.identity)
    _forget_listing(config)
    if as_json:
        show_json({"logout": {"label": label, "revoked": revoked}})
        return
    screen = Screen()
    screen.line(f"Signed out of {label}. Its tokens are deleted.")
    if not revoked:
        screen.wrapped(
            "The authorization server did not revoke them, or has no way to. They expire on their own; to "
            "be sure, remove Skillwire where you manage the applications of your account."
        )


async def _sign_in(
    label: str,
    config: ServerConfig,
    known: Login | None,
    paste: bool,
    client_id: str,
    secret: str,
    port: int,
    wait_seconds: float,
) -> Login | None:
    from skillwire.consent.asking import read_line
    from skillwire.host.login_flow import Browser, listening, redirect_uri, sign_in

    by_hand = paste or not has_browser(os.environ, sys.platform)
    async with AsyncExitStack() as stack:
        listener = None
        wanted = port or _registered_port(known)
        if not by_hand:
            try:
                listener = await stack.enter_async_context(listening(wanted))
            except SourceError:
                if port:
                    raise
                # The port of the earlier login is in use: a new one means a new registration.
                listener = await stack.enter_async_context(listening(0))
        address = listener.redirect_uri if listener else redirect_uri(wanted or 8765)

        async def show(url: str) -> None:
            if listener is not None:
                listener.expect(url)
            _show(label, config, url, address, by_hand=listener is None)
            if listener is not None and not await _open_browser(url):
                info("No browser could be opened. Open the address above, or use --paste.")

        async def wait() -> str:
            if listener is not None:
                return await listener.wait(wait_seconds)
            line = await read_line(sys.stdin)
            if not line.strip():
                raise SourceError("no address was pasted: run the command again")
            return line

        try:
            return await sign_in(
                config.url,
                Browser(address, show, wait),
                headers=config.headers,
                seconds=_SECONDS,
                client_id=client_id,
                client_secret=secret,
                known=known,
            )
        except SourceError as error:
            failure = error  # Raised below: the task group of the listener would wrap it.
    raise failure


def _show(label: str, config: ServerConfig, url: str, address: str, *, by_hand: bool) -> None:
    """Print where the login is before anything is opened, on standard error like every question."""
    from urllib.parse import urlsplit

    from skillwire.cli.output import print_stderr
    from skillwire.text import shown

    host = urlsplit(url).netloc.rpartition("@")[2]
    print_stderr(f"{label} ({config.place}) signs in at {printable(host)}.")
    if not by_hand:
        print_stderr("Your browser opens this address; if it does not, open it yourself:")
        print_stderr(f"  {shown(url, len(url))}")
        print_stderr("Waiting for you to finish there. Ctrl-C stops.")
        return
    print_stderr("1. Open this address in a browser, on any machine, and sign in:")
    print_stderr(f"   {shown(url, len(url))}")
    print_stderr(f"2. The browser is then sent to an address that starts with {address}")
    print_stderr("   and cannot be opened there. That is expected.")
    print_stderr("3. Copy that whole address, paste it here, and press Enter:")


async def _open_browser(url: str) -> bool:
    import webbrowser

    import anyio.to_thread

    return await anyio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)


def has_browser(environment: Any, platform: str) -> bool:
    """Whether a browser can be opened for the user: not on a machine that they reached over SSH."""
    if environment.get("BROWSER"):
        return True
    if platform in ("darwin", "win32"):
        return not environment.get("SSH_CONNECTION")
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def _registered_port(known: Login | None) -> int:
    """The port of the registered redirect address: authorization servers often compare it."""
    from urllib.parse import urlsplit

    for address in (known.client.get("redirect_uris") or ()) if known is not None else ():
        try:
            return urlsplit(str(address)).port or 0
        except ValueError:
            continue
    return 0


def _lifetime(done: Login) -> str:
    from datetime import UTC, datetime

    if done.refresh_token:
        return "It is renewed when it expires."
    if done.expires_at is None:
        return ""
    until = datetime.fromtimestamp(done.expires_at, UTC).astimezone().isoformat(sep=" ", timespec="minutes")
    return f"It expires at {until} and cannot be renewed: sign in again then."


def _store() -> LoginStore:
    from skillwire.host import LoginStore, state_paths

    return LoginStore(state_paths().logins)


def _server(name: str) -> tuple[str, ServerConfig]:
    """The server of this name in the configuration, or one by its URL."""
    from skillwire.host import ServerConfig, load_config

    if "://" in name:
        config = ServerConfig(url=name)
        return config.place, config
    settings = load_config()
    for label, config in settings.servers.items():
        if label.casefold() == name.casefold():
            if not config.url:
                raise SourceError(f"{label} is started by a command: only servers with a URL have a login")
            return label, config
    for one in settings.skipped:
        if one.label.casefold() == name.casefold():
            raise SourceError(f"{one.label} {one.reason}")
    known = ", ".join(server.label for server in settings.configured) or "none"
    raise SkillNotFound(
        f"no server is called {printable(name)}; known: {known}. Add it first with "
        "`skillwire servers add NAME URL`, or give its URL"
    )


def _forget_listing(config: ServerConfig) -> None:
    """Delete the cached listing: it may have been made for another user."""
    from skillwire.host import state_paths
    from skillwire.host.sources import ListingCache
    from skillwire.limits import DEFAULT_LIMITS

    ListingCache(state_paths().cache.parent / "listings", limits=DEFAULT_LIMITS).forget(config)
