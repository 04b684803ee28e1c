"""`skillwire gateway`: the skills of many servers as one server, and who may use it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from skillwire.cli.host_options import HostOptions
from skillwire.cli.output import counted, info
from skillwire.cli.parser import UsageError
from skillwire.errors import SourceError

if TYPE_CHECKING:
    from skillwire.gateway.app import Gateway
    from skillwire.gateway.asking import ApprovalQuestion
    from skillwire.gateway.audit import Audit
    from skillwire.gateway.callers import Caller, Callers
    from skillwire.gateway.options import GatewayOptions
    from skillwire.server.http.asgi import Asgi, StoppableApp
    from skillwire.server.legacy.features import ToolsMode
    from skillwire.server.options import ServerOptions
    from skillwire.ui.app import ReviewApp

_HOW = "--tokens or --token-file"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `gateway run`, as they were given."""

    options: HostOptions
    approval: Literal["required", "listed", "locked"] | None
    locked: Path | None
    http: str | None
    tokens: Path | None
    token_file: Path | None
    unsafe_no_auth: bool
    allow_host: tuple[str, ...]
    stateless: bool
    audit: Path | None
    store: str | None
    rate: int
    max_requests: int
    max_connections: int
    max_connections_per_address: int
    name: str | None
    instructions: str | None
    access_log: bool
    log_format: Literal["text", "json"]
    ttl: float
    page_size: int
    tools: ToolsMode
    prompts: bool
    ui: bool
    ui_url: str | None


def run(**given: Any) -> None:
    """Run a gateway until its client disconnects or a signal ends it."""
    from skillwire.cli.logs import log_to_stderr
    from skillwire.cli.running import listen_address, read_instructions, run_until_signal

    options = RunOptions(**given)
    _check(options)
    log_to_stderr(as_json=options.log_format == "json", access_log=options.access_log)
    callers = _callers(options)
    address = None
    if options.http is not None:
        address = listen_address(
            options.http, has_token=callers is not None, unsafe_no_auth=options.unsafe_no_auth, how=_HOW
        )
    instructions = read_instructions(options.instructions)
    from skillwire.gateway.app import Gateway

    host_options = _host_options(options)
    page = _Page() if options.ui else None
    gateway = Gateway(
        host_options,
        _server_options(options),
        options=replace(_gateway_options(options, callers), page=page),
        name=options.name or "skillwire-gateway",
        instructions=instructions,
    )
    audit = gateway.options.audit
    what = _what(host_options)
    try:
        if address is None:
            info(f"Gateway to {what} over stdio")
            if os.isatty(0):
                info("An MCP client is meant to start this: `skillwire gateway install CLIENT` sets one up")
            run_until_signal(gateway.run_stdio, on_hangup=audit.reopen if audit else None)
            return
        from skillwire.server.http.server import HttpServer, listen

        hosts = [*options.allow_host, address.shown_host]
        app = gateway.http_app(allowed_hosts=hosts, stateless=options.stateless)
        listening = listen(address)
        if page is not None:
            app = page.beside(app, gateway, hosts, listening.getsockname()[1], options)
        http = HttpServer(app, address, listening=listening, limits=gateway.server_options.limits)
        info(f"Gateway to {what} at {http.url}" + (" (bearer token required)" if callers else ""))
        if page is not None:
            info(f"Review page, a link for you that works once: {page.link()}")
        run_until_signal(http.serve, stop=http.stop, on_hangup=audit.reopen if audit else None)
    finally:
        if audit is not None:
            audit.close()


class _Page:
    """The review page of a gateway, at its own address. Callers are sent to it to decide about a skill."""

    def __init__(self) -> None:
        from skillwire.cli.ui import require_packages

        require_packages()
        self._app: ReviewApp | None = None

    def url(self, caller: Caller, question: ApprovalQuestion) -> str | None:
        app = self._app
        return None if app is None else app.ask(caller.name, question.label, question.uri)

    def link(self) -> str:
        return self._app.link() if self._app is not None else ""

    def beside(
        self, app: Asgi, gateway: Gateway, names: list[str], port: int, options: RunOptions
    ) -> StoppableApp:
        """The gateway's application with the page beside it."""
        from skillwire.server.http.app import HEALTH_PATH, LOOPBACK, MCP_PATH, METRICS_PATH
        from skillwire.ui.app import ReviewApp
        from skillwire.ui.beside import PageBeside

        known = [name for name in (*names, *LOOPBACK) if name not in ("0.0.0.0", "[::]")]  # noqa: S104 - compared
        page = self._app = ReviewApp(
            gateway.host,
            names=list(dict.fromkeys(known)),
            port=port,
            audit_log=options.audit,
            base_url=options.ui_url or "",
        )
        return PageBeside(app, page, (MCP_PATH, HEALTH_PATH, METRICS_PATH))


def _check(options: RunOptions) -> None:
    """Refuse options that contradict each other or do nothing: requested protection must be there."""
    if options.http is None:
        from skillwire.cli.running import refuse_without_http

        refuse_without_http(options, "tokens", "ui")
    if options.ui_url and not options.ui:
        raise UsageError("--ui-url needs --ui: add it, or leave both out")
    if options.tokens and options.token_file:
        raise UsageError("--tokens and --token-file exclude each other: leave out one")
    if options.locked and options.approval not in (None, "locked"):
        raise UsageError(f"--locked and --approval {options.approval} exclude each other: leave out one")
    if options.approval == "locked" and not options.locked:
        raise UsageError("--approval locked needs --locked FILE: name the lock file")


def _host_options(options: RunOptions) -> dict[str, Any]:
    from skillwire.host.config.publishers import load_publishers
    from skillwire.host.styles import DEFAULT

    config = options.options.settings()
    _refuse_loop(config.files)
    found: dict[str, Any] = {
        "servers": config.servers,
        "directories": (*config.local_directories, *options.options.given_directories()),
        "disabled": config.disabled,
        "untrusted": config.skipped,
        "publishers": load_publishers(config.publishers),
        "style": options.options.style or DEFAULT,
    }
    if options.store is not None:
        from skillwire.cli.registry import open_store
        from skillwire.registry.approvals import SharedApprovals

        found["approvals_file"] = SharedApprovals(open_store(options.store))
    if options.locked is not None:
        from skillwire.cli.serve_remote import locked_source
        from skillwire.gateway.locked import LockedSkills

        # What the lock has from servers comes from them; everything else from where it was installed.
        if any(skill.pin.kind != "mcp" for skill in LockedSkills(options.locked).lock.skills):
            source = locked_source(options.locked, interval=300, servers=False)
            found["sources"] = {"locked": source}
    if not found["servers"] and not found["directories"] and not found.get("sources"):
        raise SourceError(
            "there is nothing to serve: add a server with `skillwire servers add NAME URL`, "
            "or import those of your other clients with `skillwire servers import`"
        )
    return found


def _refuse_loop(files: Sequence[Path]) -> None:
    """Refuse to run below a gateway of the same files: each would start another one, without end."""
    from hashlib import sha256

    from skillwire.sources.command_line import GATEWAYS

    started_by = os.environ.get(GATEWAYS, "").split()
    own = sha256("\n".join(str(file.resolve()) for file in files).encode()).hexdigest()[:16]
    if files and own in started_by:
        raise SourceError(
            "a gateway with the same configuration started this one: remove the server that runs "
            f"`skillwire gateway` from {' or '.join(map(str, files))}"
        )
    os.environ[GATEWAYS] = " ".join([*started_by, own])


def _server_options(options: RunOptions) -> ServerOptions:
    from skillwire.limits import Limits
    from skillwire.server.legacy.features import LegacyFeatures
    from skillwire.server.options import ServerOptions

    return ServerOptions(
        ttl_ms=round(options.ttl * 1000),
        page_size=options.page_size,
        legacy_features=LegacyFeatures(tools=options.tools, prompts=options.prompts),
        limits=Limits(
            http_connections=options.max_connections,
            http_connections_per_address=options.max_connections_per_address,
        ),
    )


def _gateway_options(options: RunOptions, callers: Callers | None) -> GatewayOptions:
    from skillwire.gateway.locked import LockedSkills
    from skillwire.gateway.options import GatewayOptions

    return GatewayOptions(
        approval="locked" if options.locked else options.approval or "required",
        locked=LockedSkills(options.locked) if options.locked else None,
        callers=callers,
        audit=_audit(options),
        requests_per_minute=options.rate,
        requests_at_once=options.max_requests,
    )


def _audit(options: RunOptions) -> Audit | None:
    if options.audit is not None:
        from skillwire.gateway.audit import AuditLog

        return AuditLog(options.audit)
    if options.store is not None:
        from skillwire.cli.registry import open_store
        from skillwire.registry.approvals import StoreAudit

        return StoreAudit(open_store(options.store))
    return None


def _callers(options: RunOptions) -> Callers | None:
    from skillwire.cli.commands.publish import TOKEN_VARIABLE
    from skillwire.gateway.callers import CallerFile, NamedTokens

    if options.tokens is not None:
        return CallerFile(options.tokens)
    from skillwire.server.http.auth import DEFAULT_NAME, TokenFile, Tokens, checked_token

    if options.token_file is not None:
        return NamedTokens(TokenFile(options.token_file))
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None or options.http is None:
        return None
    return NamedTokens(Tokens({DEFAULT_NAME: checked_token(token.strip(), TOKEN_VARIABLE)}))


def _what(host_options: dict[str, Any]) -> str:
    servers, directories = len(host_options["servers"]), len(host_options["directories"])
    parts = [counted(servers, "server")] if servers else []
    parts += [counted(directories, "folder")] if directories else []
    parts += ["the lock"] if host_options.get("sources") else []
    return " and ".join(parts)
