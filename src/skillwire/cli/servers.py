"""`skillwire servers`: the MCP servers of the configuration, and those of other clients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, with_host, with_timeout
from skillwire.cli.parser import UsageError
from skillwire.cli.project_trust import HINT, write_project
from skillwire.errors import SkillNotFound, SourceError

if TYPE_CHECKING:
    from skillwire.host.config.configured import HostConfig
    from skillwire.host.config.text import ConfigText, Place
    from skillwire.host.host import SkillHost


def list_servers(
    *,
    check: bool,
    timeout: float | None,
    config: Path | None,
    profile: str | None,
    as_json: bool,
) -> int:
    """List the servers of your configuration; with `check`, fail if one cannot be used."""
    from skillwire.cli.server_view import show_servers
    from skillwire.host.config.file import load_config
    from skillwire.host.state import Status

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
            for state in host.admin.servers()
        }
        states = {state.label: state for state in host.admin.servers()}
        show_servers(settings, logins, states, counts, as_json=as_json)
        return any(state.status is Status.FAILED for state in host.admin.servers())

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
    from skillwire.host.config.server import ServerConfig
    from skillwire.host.directories import state_places
    from skillwire.host.login.store import LoginStore

    store = LoginStore(state_places().logins)
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
    as_json: bool,
) -> None:
    """Add a server to skillwire.toml and keep the rest of the file as it is."""
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, show_json
    from skillwire.host.config.edit import with_server
    from skillwire.host.config.file import read_config
    from skillwire.host.config.text import Place, ServerText, parse_config
    from skillwire.trust.approval import Policy
    from skillwire.trust.origin import Origin

    Origin.mcp(name)
    policy = None
    if approval is not None:
        policy = Policy(approval)
        if policy is Policy.ALWAYS and not user:
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
    server = Place(
        url=place[0] if is_url else "",
        command=() if is_url else place,
        headers=_pairs(header, "--header"),
        env=_pairs(env, "--env"),
        token_env=token_env or "",
    )
    file, other = config_files(user)
    _refuse_twin(name, file, other)
    server = without_secrets(name, server, file, use_variables=use_variables)
    before = read_config(file)
    text = with_server(config_source(before), name, ServerText(place=server, approval=policy), file=file)
    parse_config(text, file)
    trusted = write_project(file, before, text)
    if as_json:
        show_json({"added": {"label": name, "place": server.shown, "file": str(file)}})
        return
    screen = Screen()
    screen.line(("Added ", "green"), f"{name} ({server.shown}) to {printable(str(file))}.")
    screen.line("See its skills with: skillwire list" if trusted else HINT)


def remove(*, name: str, user: bool, as_json: bool) -> None:
    """Remove a server from skillwire.toml. Its cached files and approvals are deleted, too."""
    import asyncio

    from skillwire.cli.output import counted, printable
    from skillwire.cli.screen import Screen, show_json
    from skillwire.host.approvals.store import ApprovalStore
    from skillwire.host.cache import SkillCache
    from skillwire.host.config.edit import without_server
    from skillwire.host.config.file import project_file, read_config
    from skillwire.host.directories import state_places
    from skillwire.trust.origin import Origin

    places = state_places()
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
        cache, approvals = SkillCache(places.cache), ApprovalStore(places.approvals)
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
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, show_json
    from skillwire.host.config.edit import with_switch
    from skillwire.host.config.file import load_config, project_file, read_config

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
    name: str, place: Place, file: Path, *, use_variables: bool, asking: bool = True
) -> Place:
    """The place as it will be written: with variables for its secrets, or with a warning about each.

    On a terminal the user decides. A secret is never printed.
    """
    import sys

    from skillwire.cli.ask import drop_typed_ahead
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen
    from skillwire.host.config.secrets import with_variables

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
        if asking and sys.stdin.isatty() and sys.stderr.isatty():
            names = ", ".join(one.variable for one in secrets)
            drop_typed_ahead()
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
    from skillwire.host.config.file import project_file
    from skillwire.host.directories import state_places

    files = (state_places().config, project_file())
    return files if user else (files[1], files[0])


def config_source(config: ConfigText | None) -> str:
    # Read through the checks: a file with mistakes is fixed by its owner, not by us.
    return config.text if config is not None else ""


def _servers(config: ConfigText | None) -> list[str]:
    return list(config.servers) if config is not None else []


def _identity(config: ConfigText | None, name: str, of_project: bool) -> str:
    """The identity that its approvals belong to; empty if unknown because a variable is not set."""
    import os

    from skillwire.host.config.merge import combine

    files = (None, config) if of_project else (config, None)
    server = combine(*files, environment=os.environ, trusted=True).servers.get(name)
    return server.identity if server is not None else ""


def _refuse_twin(name: str, file: Path, other: Path) -> None:
    from skillwire.host.config.file import read_config

    for path in (file, other):
        for label in _servers(read_config(path)):
            if label.casefold() == name.casefold():
                raise SourceError(
                    f"{path} already has a server called {label}: choose another name, or remove that one "
                    f"with `skillwire servers remove {label}`"
                )


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"{option}: write NAME=VALUE")
        pairs[key.strip()] = value
    return pairs
