"""`skillwire servers import` and `list --from-clients`: the servers of other MCP clients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skillwire.cli.parser import UsageError
from skillwire.cli.project_trust import found_servers, trusted_files, write_project
from skillwire.cli.servers import config_files, config_source, without_secrets
from skillwire.errors import FormatError

if TYPE_CHECKING:
    from skillwire.host.config.configured import HostConfig
    from skillwire.host.config.text import ServerText
    from skillwire.host.importers.files import FoundServer


def import_servers(
    *, write: bool, project: bool, use_variables: bool, only: tuple[str, ...], as_json: bool
) -> None:
    """Find the servers of other MCP clients, and write them to skillwire.toml."""
    from skillwire.cli.project_trust import client_files
    from skillwire.cli.server_view import show_import
    from skillwire.host.config.edit import with_server
    from skillwire.host.config.file import read_config
    from skillwire.host.importers.base import canonical

    found = [_if_trusted(server) for server in found_servers()]
    if only:
        unknown = [name for name in only if name not in {server.label for server in found}]
        if unknown:
            known = ", ".join(sorted({server.label for server in found})) or "none"
            raise UsageError(f"--only: no client has a server called {unknown[0]}; known: {known}")
        found = [server for server in found if server.label in only]
    file, other = config_files(not project)
    before = read_config(file)
    configs = [config for config in (before, read_config(other)) if config is not None]
    labels = {label.casefold() for config in configs for label in config.servers}
    places = [
        (canonical(text.place), label)
        for config in configs
        for label, text in config.servers.items()
        if text.place is not None
    ]
    # The same server is configured here, under any name.
    known = {
        server.label: label
        for server in found
        for place, label in places
        if server.place is not None and server.place == place
    }
    new = [
        server
        for server in found
        if server.place is not None and server.label.casefold() not in labels and server.label not in known
    ]
    text = config_source(before)
    for server in new:
        if server.place is not None:
            place = without_secrets(
                server.label, server.place, file, use_variables=use_variables, asking=write
            )
            text = with_server(text, server.label, replace(_server_text(server), place=place), file=file)
    if write and new:
        write_project(file, before, text)
    show_import(found, new, known, file, client_files(), written=write, as_json=as_json)


def with_client_servers(settings: HostConfig) -> tuple[HostConfig, tuple[str, ...]]:
    """The settings with the servers of other clients, and a note on each that is left out."""
    import os
    from dataclasses import replace

    from skillwire.cli.output import printable
    from skillwire.host.config.merge import combine
    from skillwire.host.config.text import ConfigText
    from skillwire.host.config.trust import UntrustedServer
    from skillwire.host.importers.base import canonical

    servers = dict(settings.servers)
    same = {server.label: canonical(server.place) for server in settings.configured}
    # An untrusted server does not take the name of a trusted one.
    configured = [server.label for server in settings.configured if server.trusted]
    known = {name.casefold() for name in (*configured, *servers)}
    trusted = trusted_files()
    untrusted = list(settings.untrusted)
    notes: list[str] = []
    for found in found_servers():
        who = f"{printable(found.name)} ({', '.join(found.clients)})"
        own = next((label for label, place in same.items() if place == found.place), None)
        if found.place is None:
            notes.append(f"{who}: {printable(found.skipped)}")
        elif own is not None:
            continue  # It is listed already, under the name that the user gave it.
        elif found.label.casefold() in known:
            notes.append(f"{who}: your own configuration has a server of this name")
        elif not any(map(trusted.trusts, found.files)):
            untrusted.append(UntrustedServer(label=found.label, file=found.file))
        else:
            text = ConfigText(file=found.file, servers={found.label: _server_text(found)})
            try:
                config = combine(text, environment=os.environ)
                servers |= config.servers
                notes += [f"{who}: {printable(one.reason)}" for one in config.unusable]
            except FormatError as error:
                notes.append(f"{who}: {printable('; '.join(issue.message for issue in error.issues))}")
    return replace(settings, servers=servers, untrusted=tuple(untrusted)), tuple(notes)


def _server_text(found: FoundServer) -> ServerText:
    """A server of another client as a table of skillwire.toml, with the same restrictions."""
    from skillwire.host.config.text import ServerText

    server = found.server
    return ServerText(
        place=server.place,
        skills=None if server.skills else False,
        include=server.include,
        exclude=server.exclude,
    )


def _if_trusted(found: FoundServer) -> FoundServer:
    """A server to import; one from an untrusted project file is skipped."""
    from dataclasses import replace

    if found.place is None or any(map(trusted_files().trusts, found.files)):
        return found
    reason = "its file is not trusted: see `skillwire trust`"
    return replace(found, server=replace(found.server, place=None, skipped=reason))
