"""`skillwire servers`: the MCP servers of the configuration, and those of other clients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, with_host, with_timeout
from skillwire.cli.trust import HINT, found_servers, trusted_files, write_project
from skillwire.errors import FormatError, SkillNotFound, SourceError, UsageError

if TYPE_CHECKING:
    from skillwire.host import HostConfig, ServerAddress, SkillHost
    from skillwire.host.config.text import ConfigText, ServerText
    from skillwire.host.importers.readers import FoundServer


def list_servers(
    *, check: bool, timeout: float | None, config: Path | None, profile: str | None, as_json: bool
) -> int:
    """List the servers of your configuration; with `check`, fail if one cannot be used."""
    from skillwire.cli.server_view import show_servers
    from skillwire.host import ConnectionStatus, load_config

    if timeout is not None and not check:
        raise UsageError("--timeout needs --check: without it no server is connected")
    settings = load_config(file=config, profile=profile, fill=check)
    logins = _logins(settings)
    if not check:
        show_servers(settings, logins, as_json=as_json)
        return 0

    async def action(host: SkillHost) -> bool:
        counts = {
            state.label: sum(
                not skill.origin.is_local and skill.origin.label == state.label for skill in host.skills()
            )
            for state in host.places.servers()
        }
        states = {state.label: state for state in host.places.servers()}
        show_servers(settings, logins, states, counts, as_json=as_json)
        return any(state.status is ConnectionStatus.FAILED for state in host.places.servers())

    failed = with_host(
        HostOptions(),
        action,
        settings=replace(
            settings, servers=with_timeout(settings.servers, timeout), default_directories=False
        ),
        failures=False,
        cached=False,
    )
    return SourceError.exit_code if failed or settings.unusable else 0


def _logins(settings: HostConfig) -> frozenset[str]:
    """The servers that the user is signed in to."""
    from skillwire.host import LoginStore, ServerConfig, state_paths

    store = LoginStore(state_paths().logins)
    urls = {
        server.label: server.place.url
        for server in settings.configured
        if server.place.url.startswith(("http://", "https://")) and "${" not in server.place.url
    }
    return frozenset(label for label, url in urls.items() if store.has(ServerConfig(url=url).identity))


def add(
    *,
    name: str,
    place: tuple[str, ...],
    command: bool,
    user: bool,
    header: tuple[str, ...],
    token_env: str | None,
    env: tuple[str, ...],
    use_variables: bool,
    approval: str | None,
    is_replaced: bool,
    check: bool,
    as_json: bool,
) -> None:
    """Add a server to skillwire.toml and keep the rest of the file as it is; then connect to it once."""
    from skillwire.cli.output import Screen, printable, show_json
    from skillwire.consent import require_person
    from skillwire.host import ServerAddress
    from skillwire.host.config.file import read_config
    from skillwire.host.config.text import ServerText, parse_config, with_server
    from skillwire.trust import ApprovalMode, Origin

    Origin.mcp(name)
    approval_mode = None
    if approval is not None:
        approval_mode = ApprovalMode(approval)
        if approval_mode is ApprovalMode.ALWAYS and not user:
            raise UsageError("--approval always is for your own file only: add --user")
    is_url = len(place) == 1 and "://" in place[0]
    if not is_url and not command:
        _refuse_mistaken_url(place)
    if is_url and env:
        raise UsageError("--env is for a command: leave it out for a URL")
    if not is_url and (header or token_env):
        raise UsageError(
            f"{'--header' if header else '--token-env'} is for a URL: leave it out for a command"
        )
    server = ServerAddress(
        url=place[0] if is_url else "",
        command=() if is_url else place,
        headers=_pairs(header, "--header"),
        env=_pairs(env, "--env"),
        token_env=token_env or "",
    )
    file, other = config_files(user)
    before = read_config(file)
    known = before.servers.get(name) if before is not None and is_replaced else None
    if is_replaced and known is None:
        raise SkillNotFound(
            f"{file} has no server called {printable(name)} to replace: "
            f"{'leave out --user' if user else 'add --user for your own file'}, or leave out --replace"
        )
    if known is None:
        _refuse_twin(name, file, other)
    server = without_secrets(name, server, file, use_variables=use_variables)
    entry = replace(
        known or ServerText(), place=server, approval=approval_mode or (known.approval if known else None)
    )
    if entry.approval is ApprovalMode.ALWAYS:
        # Its skills are loaded without a question: that is a yes to all of them.
        require_person("allowing every skill of a server", page=False)
    text = with_server(config_source(before), name, entry, file=file, replaces=known is not None)
    parse_config(text, file)
    trusted = write_project(file, before, text)
    answer = _checked(name) if check and trusted else None
    if as_json:
        added = {"label": name, "place": server.shown, "file": str(file)}
        show_json({"added": added, **({"answer": answer} if answer is not None else {})})
        return
    screen = Screen()
    done = ("Replaced ", "in") if known else ("Added ", "to")
    screen.line((done[0], "green"), f"{name} ({server.shown}) {done[1]} {printable(str(file))}.")
    screen.wrapped(
        "It is there for all your projects." if user else "It is there in this project alone: see --user."
    )
    if answer is not None:
        screen.wrapped(printable(answer))
    screen.line("See its skills with: skillwire list" if trusted else HINT)


def _checked(name: str) -> str:
    """Return what a server answers to one connection, in a sentence."""
    import asyncio

    from skillwire.cli.output import counted
    from skillwire.host import ConnectionStatus, SkillHost
    from skillwire.host.config.file import load_config

    settings = load_config()
    config = settings.servers.get(name)
    if config is None:
        reason = next((one.problem for one in settings.unusable if one.label == name), "it is not used")
        return f"It was not asked: {reason}."

    async def ask() -> str:
        async with SkillHost(servers={name: config}, watch=False, cache_listings="write") as host:
            [state] = host.places.servers()
            if state.status is ConnectionStatus.FAILED:
                return (
                    f"It does not answer: {state.reason}. The entry stays: correct it with "
                    f"`skillwire servers add {name} ... --replace`."
                )
            return f"It answers, with {counted(len(host.skills()), 'skill')}."

    return asyncio.run(ask())


def remove(*, name: str, user: bool, as_json: bool) -> None:
    """Remove a server from skillwire.toml. Its cached files and approvals are deleted, too."""
    import asyncio

    from skillwire.cli.output import Screen, counted, printable, show_json
    from skillwire.consent import ConsentStore
    from skillwire.host import SkillCache, project_file, state_paths
    from skillwire.host.config.file import read_config
    from skillwire.host.config.text import without_server
    from skillwire.trust import Origin

    places = state_paths()
    files = [places.config] if user else [project_file(), places.config]
    configs = {file: read_config(file) for file in files}
    having = [file for file in files if name in _servers(configs[file])]
    if not having:
        known = [label for file in files for label in _servers(configs[file])]
        there = ", ".join(dict.fromkeys(known)) or "none"
        raise SkillNotFound(f"no server is called {printable(name)} in your files; known: {there}")
    file = having[0]
    write_project(file, configs[file], without_server(config_source(configs[file]), name, file=file))
    cached = approved = 0
    if len(having) == 1:
        origin = Origin.mcp(name)
        cache, approvals = SkillCache(places.cache), ConsentStore(places.approvals)
        if identity := _identity(configs[file], name, file == project_file()):
            cache.bind({origin: identity})
            approvals.bind({origin: identity})
        cached = cache.remove_server(origin)
        approved = asyncio.run(approvals.remove_server(origin))
    if as_json:
        show_json({"removed": {"label": name, "file": str(file), "files": cached, "approvals": approved}})
        return
    screen = Screen()
    screen.line(f"Removed {name} from {printable(str(file))}.")
    if len(having) > 1:
        screen.line(f"It is still in {printable(str(having[1]))}, so its files and approvals stay.")
    else:
        counts = (("cached file", cached), ("approval", approved))
        gone = " and ".join(counted(count, noun) for noun, count in counts if count)
        if gone:
            screen.line(f"Deleted with it: {gone}.")


def enable(*, name: str, as_json: bool) -> None:
    """Use the skills of a server again."""
    _switch(name, on=True, project=False, as_json=as_json)


def disable(*, name: str, project: bool, as_json: bool) -> None:
    """Stop using the skills of a server. It is no longer connected; approvals are kept."""
    _switch(name, on=False, project=project, as_json=as_json)


def _switch(name: str, *, on: bool, project: bool, as_json: bool) -> None:
    from skillwire.cli.output import Screen, printable, show_json
    from skillwire.host import load_config, project_file
    from skillwire.host.config.file import read_config
    from skillwire.host.config.text import with_switch

    configured = {server.label.casefold(): server for server in load_config(fill=False).configured}
    server = configured.get(name.casefold())
    if server is None:
        known = ", ".join(one.label for one in configured.values()) or "none"
        raise SkillNotFound(
            f"no server is called {printable(name)} in your files; known: {known}. `skillwire servers` "
            "lists them, and `skillwire servers add` adds one"
        )
    changed: list[Path] = []
    for file in config_files(True) if on else (project_file() if project else server.file,):
        before = read_config(file)
        text = before.servers.get(server.label) if before is not None else None
        said = text.skills if text is not None else None
        if said is (False if on else None) or (said and not on):
            write_project(file, before, with_switch(config_source(before), server.label, on=on, file=file))
            changed.append(file)
    if as_json:
        show_json(
            {"server": {"label": server.label, "enabled": on, "files": [str(file) for file in changed]}}
        )
        return
    screen = Screen()
    where = " and ".join(printable(str(file)) for file in changed)
    state = "enabled" if on else "disabled"
    screen.line(
        f"{server.label} is {state} in {where}." if changed else f"{server.label} is {state} already."
    )


def without_secrets(
    name: str, place: ServerAddress, file: Path, *, use_variables: bool, asking: bool = True
) -> ServerAddress:
    """The place as it will be written: with variables for its secrets, or with a warning about each.

    On a terminal the user decides. A secret is never printed.
    """
    import sys

    from skillwire.cli.output import Screen, is_terminal, printable
    from skillwire.consent import forget_typed_ahead
    from skillwire.host.config.text import with_variables

    changed, secrets = with_variables(name, place)
    if not secrets:
        return place
    screen = Screen(errors=True)
    where = ", ".join(printable(one.where) for one in secrets)
    if not use_variables:
        screen.line(
            ("warning  ", "yellow"),
            f"{name}: {where} looks like a secret, and would be plain text in {printable(str(file))}.",
        )
        if asking and is_terminal(sys.stdin) and is_terminal(sys.stderr):
            names = ", ".join(one.variable for one in secrets)
            forget_typed_ahead(sys.stdin)
            screen.line((f"Read it from {names} of your environment instead? ", "bold"), "[Y/n]")
            use_variables = sys.stdin.readline().strip().lower() in ("", "y", "yes")
        else:
            screen.line("         --use-variables writes the name of an environment variable instead.")
    if not use_variables:
        return place
    for one in secrets:
        screen.line(f"Put the value of {printable(one.where)} into the environment variable {one.variable}.")
    return changed


def _refuse_mistaken_url(place: tuple[str, ...]) -> None:
    """A single word that is not a program is a mistyped URL, not a command."""
    import re
    import shutil

    word = place[0]
    if len(place) > 1 or shutil.which(word) is not None:
        return
    looks = re.fullmatch(r"(localhost|[\w-]+(\.[\w-]+)+|\[[0-9a-f:]+\])(:\d+)?(/.*)?", word, re.IGNORECASE)
    if looks is not None and not Path(word).exists():
        near = looks[1] == "localhost" or looks[1].startswith(("127.", "["))
        raise UsageError(f"{word} is not a URL: write {'http' if near else 'https'}://{word}")
    raise UsageError(
        f"{word} is neither a URL nor a program on the PATH: write a URL with https://, or put -- before a "
        "command that is not installed yet"
    )


def config_files(user: bool) -> tuple[Path, Path]:
    """The file to write to, and the other one."""
    from skillwire.host import project_file, state_paths

    files = (state_paths().config, project_file())
    return files if user else (files[1], files[0])


def config_source(config: ConfigText | None) -> str:
    # Read through the checks: a file with mistakes is fixed by its owner, not by us.
    return config.text if config is not None else ""


def _servers(config: ConfigText | None) -> list[str]:
    return list(config.servers) if config is not None else []


def _identity(config: ConfigText | None, name: str, of_project: bool) -> str:
    """The identity that its approvals belong to; empty if unknown because a variable is not set."""
    import os

    from skillwire.host.config.config import combine

    files = (None, config) if of_project else (config, None)
    server = combine(*files, environment=os.environ, trusted=True).servers.get(name)
    return server.identity if server is not None else ""


def _refuse_twin(name: str, file: Path, other: Path) -> None:
    from skillwire.host.config.file import read_config

    for path in (file, other):
        for label in _servers(read_config(path)):
            if label.casefold() == name.casefold():
                raise SourceError(
                    f"{path} already has a server called {label}: choose another name, or add --replace to "
                    "correct that one"
                )


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"{option}: write NAME=VALUE")
        pairs[key.strip()] = value
    return pairs


def import_servers(
    *, write: bool, project: bool, use_variables: bool, only: tuple[str, ...], as_json: bool
) -> None:
    """Find the servers of other MCP clients, and write them to skillwire.toml."""
    from skillwire.cli.server_view import show_import
    from skillwire.cli.trust import client_files
    from skillwire.host.config.file import read_config
    from skillwire.host.config.text import with_server
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

    from skillwire.cli.output import printable
    from skillwire.host import UntrustedServer
    from skillwire.host.config.config import combine
    from skillwire.host.config.text import ConfigText
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

    if found.place is None or any(map(trusted_files().trusts, found.files)):
        return found
    reason = "its file is not trusted: see `skillwire trust`"
    return replace(found, server=replace(found.server, place=None, skipped=reason))
