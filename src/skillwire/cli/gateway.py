"""`skillwire gateway`: the skills of many servers as one server. `skillwire ui`: the review page."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from skillwire.cli import running
from skillwire.cli.host_options import HostOptions, with_host
from skillwire.cli.output import counted, info, is_terminal, printable, write
from skillwire.errors import SourceError, UsageError
from skillwire.version import pip_command

if TYPE_CHECKING:
    from skillwire.access import Caller, Callers
    from skillwire.gateway import ApprovalQuestion, Audit, Gateway, GatewayOptions
    from skillwire.host import HostSettings, SkillHost
    from skillwire.limits import Limits
    from skillwire.server import Address, ServerOptions, StoppableApp
    from skillwire.ui import ReviewApp


def ui(
    *,
    http: str | None,
    allow_host: tuple[str, ...],
    token_file: Path | None,
    open_browser: bool,
    options: HostOptions,
) -> None:
    """Serve the review page until a signal ends it."""
    from skillwire.access import TokenFile
    from skillwire.consent import require_person
    from skillwire.server import parse_address

    # Whoever has the link approves.
    require_person("opening the review page", page=False)
    require_packages()
    address = parse_address(http or "127.0.0.1:0")
    tokens = TokenFile(token_file) if token_file is not None else None
    if not address.is_loopback and tokens is None:
        raise SourceError(
            f"{address.host} can be reached from other machines, and whoever opens the page approves skills "
            "for you: give a token with --token-file, which everybody must enter"
        )

    settings = options.settings()

    async def action(host: SkillHost) -> None:
        await _serve(
            host,
            address,
            names=allow_host,
            tokens=tokens,
            open_browser=open_browser,
            options=options,
            hidden=lambda: settings.hidden(host.places.servers()),
        )

    with_host(options, action, watch=True, cached=False)


async def _serve(
    host: SkillHost,
    address: Address,
    *,
    names: Iterable[str],
    tokens: Callers | None,
    open_browser: bool,
    options: HostOptions,
    hidden: Callable[[], Sequence[str]],
) -> None:
    from skillwire.cli.install_setup import installer, workspace
    from skillwire.evals import selection_figures
    from skillwire.server import HttpServer, listen
    from skillwire.ui import ReviewApp

    listening = listen(address)
    port = listening.getsockname()[1]
    loopback = ("127.0.0.1", "localhost", "[::1]")
    own = () if address.host in ("0.0.0.0", "::") else (address.shown_host,)  # noqa: S104 - compared, not used
    known = tuple(
        dict.fromkeys((*own, *names, *loopback) if address.is_loopback else (*names, *own, *loopback))
    )
    app = ReviewApp(
        host,
        names=known,
        port=port,
        tokens=tokens,
        installers={
            "project": lambda: installer(workspace(user=False), options, scans=host.decide.scans),
            "user": lambda: installer(workspace(user=True), options, scans=host.decide.scans),
        },
        hidden=hidden,
        figures=selection_figures,
    )
    server = HttpServer(app, address, listening=listening, path="/")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt instead.
            loop.add_signal_handler(number, server.stop)
    app.prepare()
    link = app.link()
    write(link)
    if not address.is_loopback:
        info(
            "Other machines can reach this page. Whoever has the token approves skills for you, and nothing "
            "is encrypted: put a proxy with TLS in front of it."
        )
    info(
        "Press Ctrl-C to stop."
        + (" Press Enter for another link: each works once." if is_terminal(sys.stdin) else "")
    )
    if open_browser:
        await asyncio.to_thread(_open_browser, link)
    more = asyncio.ensure_future(_give_links(app)) if is_terminal(sys.stdin) else None
    try:
        await server.serve()
    finally:
        if more is not None:
            more.cancel()


async def _give_links(app: ReviewApp) -> None:
    """Print a new link whenever Enter is pressed."""
    from skillwire.consent import read_line

    while await read_line(sys.stdin):
        write(app.link())


def _open_browser(link: str) -> None:
    import webbrowser

    with suppress(webbrowser.Error):
        webbrowser.open(link)


def require_packages() -> None:
    """Say what to install when the packages of the page are not there."""
    from importlib.util import find_spec

    missing = [name for name in ("jinja2", "markdown_it", "starlette") if find_spec(name) is None]
    if missing:
        raise SourceError(f"the review page needs more packages: {pip_command('ui')}")


_HOW = "--tokens or --token-file"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(running.ServingOptions):
    """The options of `gateway run`, as they were given."""

    options: HostOptions
    approval: Literal["required", "listed", "locked"] | None
    locked: Path | None
    tokens: Path | None
    audit: Path | None
    ui: bool
    ui_url: str | None
    run: bool


def run(**given: Any) -> None:
    """Run a gateway until its client disconnects or a signal ends it."""
    options = RunOptions(**given)
    _check(options)
    if options.ui:
        from skillwire.consent import require_person

        require_person("opening the review page", page=False)
    running.log_to_stderr(as_json=options.log_format == "json", access_log=options.access_log)
    callers = _callers(options)
    address = None
    if options.http is not None:
        address = running.listen_address(
            options.http, has_token=callers is not None, unsafe_no_auth=options.unsafe_no_auth, how=_HOW
        )
    instructions = running.read_instructions(options.instructions)
    from skillwire.gateway import Gateway

    settings = _host_settings(options)
    page = _Page() if options.ui else None
    gateway = Gateway(
        settings,
        _server_options(options),
        options=replace(_gateway_options(options, callers), page=page),
        name=options.name or "skillwire-gateway",
        instructions=instructions,
    )
    audit = gateway.options.audit
    what = _what(settings)
    with _closing(audit):
        if address is None:
            info(f"Gateway to {what} over stdio")
            if os.isatty(0):
                info("An MCP client is meant to start this: `skillwire gateway install CLIENT` sets one up")
            running.run_until_signal(gateway.run_stdio, on_hangup=audit.reopen if audit else None)
            return
        from skillwire.server import HttpServer, listen

        hosts = [*options.allow_host, address.shown_host]
        frontend = gateway.http_app(allowed_hosts=hosts, stateless=options.stateless)
        app: StoppableApp = frontend
        listening = listen(address)
        if page is not None:
            app = page.beside(app, gateway, hosts, listening.getsockname()[1], options)
        limits = gateway.server_options.limits
        http = HttpServer(app, address, listening=listening, limits=limits)
        info(f"Gateway to {what} at {http.url}" + (" (bearer token required)" if callers else ""))
        if page is not None:
            info(f"Review page, a link for you that works once: {page.link()}")
        on_hangup = audit.reopen if audit else None
        running.serve_http(http, frontend, metrics=options.metrics, limits=limits, on_hangup=on_hangup)


@contextmanager
def _closing(audit: Audit | None) -> Generator[None]:
    """Close the audit log at the end, and fail if it is not complete: nobody would notice otherwise."""
    try:
        yield
    except BaseException:
        if audit is not None:
            audit.close()
        raise
    if audit is not None:
        audit.close()
        if audit.problem:
            raise SourceError(audit.problem)


class _Page:
    """The review page of a gateway, at its own address. Callers are sent to it to decide about a skill."""

    def __init__(self) -> None:
        require_packages()
        self._app: ReviewApp | None = None

    def url(self, caller: Caller, question: ApprovalQuestion) -> str | None:
        app = self._app
        return None if app is None else app.ask(caller.name, question.label, question.uri)

    def link(self) -> str:
        return self._app.link() if self._app is not None else ""

    def beside(
        self, app: StoppableApp, gateway: Gateway, names: list[str], port: int, options: RunOptions
    ) -> StoppableApp:
        """The gateway's application with the page beside it."""
        from skillwire.server.http.frontend import LOOPBACK, PATHS
        from skillwire.ui import CombinedApp, ReviewApp

        known = [name for name in (*names, *LOOPBACK) if name not in ("0.0.0.0", "[::]")]  # noqa: S104 - compared
        page = self._app = ReviewApp(
            gateway.host,
            names=list(dict.fromkeys(known)),
            port=port,
            audit_log=options.audit,
            base_url=options.ui_url or "",
        )
        return CombinedApp(app, page, PATHS)


def _check(options: RunOptions) -> None:
    """Refuse options that contradict each other or do nothing: requested protection must be there."""
    if options.http is None:
        running.refuse_without_http(options, "tokens", "ui")
    if options.ui_url and not options.ui:
        raise UsageError("--ui-url needs --ui: add it, or leave both out")
    if options.tokens and options.token_file:
        raise UsageError("--tokens and --token-file exclude each other: leave out one")
    if options.locked and options.approval not in (None, "locked"):
        raise UsageError(f"--locked and --approval {options.approval} exclude each other: leave out one")
    if options.approval == "locked" and not options.locked:
        raise UsageError("--approval locked needs --locked FILE: name the lock file")


def _host_settings(options: RunOptions) -> HostSettings:
    from skillwire.host import HostSettings, load_publishers
    from skillwire.host.styles import DEFAULT

    followed = options.options.followed_settings()
    config = followed.loaded if followed is not None else options.options.settings()
    _refuse_loop(config.files)
    found = HostSettings(
        servers=config.servers,
        directories=(*config.local_directories, *options.options.given_directories()),
        disabled=config.disabled,
        untrusted=config.skipped,
        publishers=load_publishers(config.publishers),
        required_sources=config.required_sources,
        usage_file=config.usage_file,
        style=options.options.style or DEFAULT,
        policy=options.options.policy_files(),
        # The gateway serves what is configured, and not what else is on the machine.
        config=replace(followed, default_directories=False) if followed is not None else None,
    )
    if options.store is not None:
        from skillwire.cli.registry import open_store
        from skillwire.registry import SharedConsent

        found = replace(found, approvals_file=SharedConsent(open_store(options.store)))
    if options.locked is not None:
        from skillwire.cli.install_setup import locked_source
        from skillwire.gateway import LockedSkills

        # What the lock has from servers comes from them; everything else from where it was installed.
        if any(skill.pin.kind != "mcp" for skill in LockedSkills(options.locked).lock.skills):
            source = locked_source(options.locked, interval=300, servers=False)
            found = replace(found, sources={"locked": source})
    if not found.servers and not found.directories and not found.sources:
        raise SourceError(
            "there is nothing to serve: add a server with `skillwire servers add NAME URL`, "
            "or import those of your other clients with `skillwire servers import`"
        )
    return found


def _refuse_loop(files: Sequence[Path]) -> None:
    """Refuse to run below a gateway of the same files: each would start another one, without end."""
    from hashlib import sha256

    from skillwire.sources.process import GATEWAYS

    started_by = os.environ.get(GATEWAYS, "").split()
    own = sha256("\n".join(str(file.resolve()) for file in files).encode()).hexdigest()[:16]
    if files and own in started_by:
        raise SourceError(
            "a gateway with the same configuration started this one: remove the server that runs "
            f"`skillwire gateway` from {' or '.join(map(str, files))}"
        )
    os.environ[GATEWAYS] = " ".join([*started_by, own])


def _server_options(options: RunOptions) -> ServerOptions:
    from skillwire.server import LegacyFeatures, ServerOptions

    return ServerOptions(
        ttl_ms=round(options.ttl * 1000),
        page_size=options.page_size,
        legacy_features=LegacyFeatures(tools=options.tools, prompts=options.prompts),
        limits=_limits(options),
    )


def _limits(options: RunOptions) -> Limits:
    """The limits that the options set. A request waits for a server as long as the server may take."""
    limits = running.http_limits(options)
    seconds = options.options.timeout
    return limits if seconds is None else replace(limits, upstream_seconds=seconds)


def _gateway_options(options: RunOptions, callers: Callers | None) -> GatewayOptions:
    from skillwire.gateway import GatewayOptions

    locked = None
    if options.locked:
        from skillwire.gateway import LockedSkills

        locked = LockedSkills(options.locked)
    return GatewayOptions(
        approval="locked" if locked else options.approval or "required",
        locked=locked,
        callers=callers,
        audit=_audit(options),
        run=options.run,
    )


def _audit(options: RunOptions) -> Audit | None:
    if options.audit is not None:
        from skillwire.gateway import AuditLog

        return AuditLog(options.audit)
    if options.store is not None:
        from skillwire.cli.registry import open_store
        from skillwire.host import state_paths
        from skillwire.registry import StoreAudit

        return StoreAudit(open_store(options.store), state_paths().audit)
    return None


def _callers(options: RunOptions) -> Callers | None:
    from skillwire.access import CallerFile
    from skillwire.cli.serve import token_callers

    limits = running.http_limits(options)
    if options.tokens is not None:
        return CallerFile(options.tokens, limits=limits)
    return None if options.http is None else token_callers(options.token_file, limits)


def _what(settings: HostSettings) -> str:
    servers, directories = len(settings.servers or {}), len([*settings.directories])
    parts = [counted(servers, "server")] if servers else []
    parts += [counted(directories, "folder")] if directories else []
    parts += ["the lock"] if settings.sources else []
    return " and ".join(parts)


def callers(
    *,
    action: str | None,
    name: str | None,
    tokens: Path | None,
    label: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    replace: bool,
    as_json: bool,
) -> None:
    """List, add or remove those who may use a gateway."""
    from skillwire.access.callers import with_caller

    if tokens is None:
        raise UsageError("--tokens is missing: write --tokens FILE, as for `skillwire gateway`")
    if action != "add" and (label or include or exclude or replace):
        raise UsageError("--label, --include, --exclude and --replace need add: they are for a new caller")
    if action in (None, "list"):
        if name is not None:
            raise UsageError(f"unexpected argument {name!r}: list shows every caller")
        _list_callers(tokens, as_json=as_json)
    elif name is None:
        raise UsageError(f"NAME is missing: write skillwire gateway callers {action} NAME")
    elif action == "add":
        change = partial(with_caller, labels=label, include=include, exclude=exclude, replace=replace)
        _add_caller(tokens, name, change, as_json=as_json)
    else:
        _remove_caller(tokens, name, as_json=as_json)


def _list_callers(path: Path, *, as_json: bool) -> None:
    """Who may use a gateway, and what each may see."""
    from skillwire.access.callers import parse_callers, read_caller_file
    from skillwire.cli.output import Screen, show_json

    callers = sorted(parse_callers(read_caller_file(path), str(path)).values(), key=lambda one: one.name)
    if as_json:
        rows = [
            {
                "name": caller.name,
                "labels": None if caller.labels is None else sorted(caller.labels),
                "include": list(caller.include),
                "exclude": list(caller.exclude),
                "credentials": sorted(caller.credentials),
            }
            for caller in callers
        ]
        show_json({"callers": rows})
        return
    screen = Screen()
    for caller in callers:
        screen.line((printable(caller.name), "bold"))
        screen.pairs(
            [
                ("servers", "all" if caller.labels is None else printable(", ".join(sorted(caller.labels)))),
                ("include", printable(", ".join(caller.include))),
                ("exclude", printable(", ".join(caller.exclude))),
                ("credentials", printable(", ".join(sorted(caller.credentials)))),
            ]
        )
    if not callers:
        screen.line("There are no callers.")


def _add_caller(path: Path, name: str, change: Callable[[str, str, str], str], *, as_json: bool) -> None:
    """Add a caller to a file, and print their token once."""
    from skillwire.access import new_token
    from skillwire.cli.output import show_json
    from skillwire.host import write_config

    token = new_token()
    write_config(path, change(_text(path), name, token))
    if as_json:
        show_json({"caller": name, "token": token, "file": str(path)})
        return
    info(f"Added {printable(name)} to {printable(str(path))}. This token is not shown again:")
    write(token)


def _remove_caller(path: Path, name: str, *, as_json: bool) -> None:
    """Revoke a caller."""
    from skillwire.access.callers import without_caller
    from skillwire.cli.output import show_json
    from skillwire.host import write_config

    write_config(path, without_caller(_text(path), name))
    if as_json:
        show_json({"removed": name, "file": str(path)})
    else:
        info(f"{printable(name)} can no longer use the gateway.")


def _text(path: Path) -> str:
    from skillwire.access.callers import read_caller_file

    return read_caller_file(path) if path.exists() else ""
