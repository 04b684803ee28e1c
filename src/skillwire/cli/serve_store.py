"""`skillwire serve --store`: the skills of a registry, over stdio for its operator or HTTP for callers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from skillwire.cli.commands import commands_of
from skillwire.cli.output import counted, info, printable
from skillwire.cli.parser import UsageError
from skillwire.cli.registry import open_store
from skillwire.cli.running import read_instructions, run_until_signal

if TYPE_CHECKING:
    from skillwire.cli.serve_options import ServeOptions
    from skillwire.registry.login import OAuthSettings


_USED: Final = frozenset(
    {
        "store",
        "channel",
        "oauth_issuer",
        "oauth_audience",
        "oauth_groups_claim",
        "http",
        "allow_host",
        "stateless",
        "max_connections",
        "max_connections_per_address",
        "max_body_bytes",
        "max_sessions",
        "session_timeout",
        "head_timeout",
        "body_timeout",
        "write_timeout",
        "idle_timeout",
        "name",
        "instructions",
        "access_log",
        "log_format",
        "ttl",
        "page_size",
        "watch",
        "tools",
        "print_config",
    }
)
"""The options of `serve` that mean something for a registry."""


def refuse_idle(given: Mapping[str, object]) -> None:
    """Refuse options that do nothing for a registry: nobody should rely on something that is not there."""
    if given["paths"]:
        raise UsageError("--store serves only a registry: leave out the paths")
    [command] = commands_of("serve")
    idle = [
        option.off or option.name
        for option in command.options
        if option.field not in _USED and given[option.field] != option.default
    ]
    if idle:
        raise UsageError(f"a registry has no {', '.join(idle)}: leave that out, or serve directories")


def serve_store(given: ServeOptions, url: str) -> None:
    """Serve a registry until it is stopped."""
    instructions = read_instructions(given.instructions)
    store = open_store(url)
    from skillwire.registry.catalog import StoreCatalog, View
    from skillwire.server.legacy.features import LegacyFeatures
    from skillwire.server.options import ServerOptions

    name = given.name or "skillwire"
    options = ServerOptions(
        ttl_ms=round(given.ttl * 1000),
        page_size=given.page_size,
        legacy_features=LegacyFeatures(tools=given.tools, prompts=False),
        watch=given.watch,
        limits=given.limits(),
    )
    channel = given.channel or "stable"
    view = View(channel)
    count = counted(StoreCatalog(store, view).count(), "skill")
    if given.http is None:
        from skillwire.registry.source import StoreSource
        from skillwire.server.app import SkillServer

        server = SkillServer(StoreSource(store, view), name=name, instructions=instructions, options=options)
        info(f"Serving {count} of {printable(store.place)} over stdio")
        run_until_signal(server.run_stdio)
        return
    from skillwire.registry.app import RegistryApp
    from skillwire.server.http.server import HttpServer, parse_address

    address = parse_address(given.http)
    hosts = [*given.allow_host, address.shown_host]
    app = RegistryApp(
        store,
        options=options,
        name=name,
        instructions=instructions,
        oauth=_oauth(given, channel),
        allowed_hosts=hosts,
        stateless=given.stateless,
    )
    http = HttpServer(app, address, limits=options.limits)
    info(f"Serving {count} of {printable(store.place)} at {http.url} to callers with a grant")
    run_until_signal(http.serve, stop=http.stop)


def _oauth(given: ServeOptions, channel: str) -> OAuthSettings | None:
    from skillwire.registry.login import OAuthSettings

    if given.oauth_issuer is None and given.oauth_audience is None:
        return None
    if given.oauth_issuer is None or given.oauth_audience is None:
        raise UsageError("--oauth-issuer and --oauth-audience belong together")
    return OAuthSettings(
        issuer=given.oauth_issuer,
        audience=given.oauth_audience,
        groups_claim=given.oauth_groups_claim or "groups",
        channel=channel,
    )
