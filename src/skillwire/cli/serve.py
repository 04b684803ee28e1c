"""`skillwire serve`: a folder of skills for every MCP client, over stdio or HTTP."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from skillwire.cli.command import words_of
from skillwire.cli.commands import commands_of
from skillwire.cli.commands.publish import LIMIT_FIELDS, TOKEN_VARIABLE
from skillwire.cli.output import counted, human_size, info, printable, write
from skillwire.cli.running import (
    ServingOptions,
    http_limits,
    listen_address,
    log_to_stderr,
    read_instructions,
    refuse_without_http,
    run_until_signal,
    serve_http,
)
from skillwire.errors import FormatError, SourceError, UsageError
from skillwire.files import expand_user

if TYPE_CHECKING:
    from skillwire.access import Callers, OAuthSettings
    from skillwire.limits import Limits
    from skillwire.server import Address, IndexShape
    from skillwire.skill import SkillUri
    from skillwire.sources import DirectorySource
    from skillwire.sources.remote import RemoteSource

_PROBLEMS_SHOWN: Final = 20
_SHARED_ADDRESS: Final = "0.0.0.0:8711"
"""Where `--share` listens without --http."""
_LEAST_TOKEN: Final = 20
_LEAST_DIFFERENT: Final = 8
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
        "metrics",
        *LIMIT_FIELDS,
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


def run(**given: Any) -> None:
    """Serve skills over MCP, with a value for each field of `ServeOptions`."""
    options = ServeOptions(**given)
    if options.share and options.http is None:
        options = replace(options, http=_SHARED_ADDRESS)
    if options.http is None:
        refuse_without_http(
            options,
            "well_known",
            "cert",
            "key",
            "url",
            "oauth_issuer",
            "oauth_audience",
            "oauth_groups_claim",
        )
    store = _registry_url(options)
    if store is not None:
        refuse_idle(given)
        options = replace(options, store=store)
    elif options.channel or options.oauth_issuer or options.oauth_audience or options.oauth_groups_claim:
        raise UsageError("--channel and --oauth-... are for a registry: add --store URL, or leave them out")
    elif not (options.paths or options.locked or options.installed):
        raise UsageError("PATH is missing: write skillwire serve [OPTIONS] PATH...")
    if (options.cert is None) != (options.key is None):
        raise UsageError("--cert and --key belong together: give both, or leave them out")
    if options.yes and not options.share:
        raise UsageError("--yes is for --share: leave it out")
    if options.url is not None and not options.url.startswith(("http://", "https://")):
        raise UsageError("--url is not an http:// or https:// URL: write the one that others use")
    if options.print_config is not None:
        print_config(options.print_config, options)
    else:
        serve(options)


def serve(options: ServeOptions) -> None:
    """Serve skills over MCP until the client disconnects or a signal stops it."""
    log_to_stderr(as_json=options.log_format == "json", access_log=options.access_log, changes=True)
    if options.store is not None:
        serve_store(options, options.store)
        return
    limits = http_limits(options)
    callers = address = shared = None
    if options.share:
        from skillwire.cli.share import prepare_share

        shared = prepare_share(
            options.http or _SHARED_ADDRESS,
            options.allow_host,
            url=options.url,
            token_file=options.token_file,
            is_https=options.cert is not None,
            yes=options.yes,
        )
        options = replace(options, allow_host=shared.hosts, token_file=shared.token_file)
    if options.http is not None:
        callers = token_callers(options.token_file, limits)
        address = _address(options.http, callers, unsafe_no_auth=options.unsafe_no_auth)
        if not address.is_loopback:
            refuse_weak_token(options.token_file)

    instructions = read_instructions(options.instructions)
    # Imported here: the checks above need none of it, and their message comes at once.
    from skillwire.server import LegacyFeatures, ServerOptions, SkillServer
    from skillwire.sources import DirectorySource, scan_cache_directory

    cache_directory = scan_cache_directory() if options.scan_cache else None
    directories, remotes = _places(options)
    source = DirectorySource(
        directories,
        allow_oversize=options.allow_oversize,
        strict=options.strict,
        follow_links=options.follow_links,
        only=options.only or None,
        cache_directory=cache_directory,
    )
    source.scan()
    if options.only:
        _check_only(options.only, {entry.name for entry in source.snapshot.entries}, remotes)
    _summarize(source, strict=options.strict)
    if remotes:
        from skillwire.cli.install_setup import fetch_remotes

        fetch_remotes(remotes, strict=options.strict)
    server = SkillServer(
        *([source] if directories or not remotes else []),
        *remotes,
        name=options.name or "skillwire",
        instructions=instructions,
        options=ServerOptions(
            ttl_ms=round(options.ttl * 1000),
            cache_scope=options.cache_scope or ("private" if callers else "public"),
            page_size=options.page_size,
            unlisted=options.unlisted,
            query=options.query,
            legacy_features=LegacyFeatures(
                index="off" if options.reference else options.index,
                manifests=options.manifests,
                prompt_xml=options.prompt_xml,
                tools=options.tools,
                prompts=options.prompts,
                list_legacy=options.list_legacy or options.reference,
                list_files=options.list_files,
                every_tool=options.every_tool,
            ),
            watch=options.watch,
            limits=limits,
        ),
        fast=options.fast_path,
    )
    count = counted(
        len(source.snapshot.entries) + sum(len(remote.snapshot.entries) for remote in remotes), "skill"
    )
    if address is None:
        info(f"Serving {count} over stdio")
        if os.isatty(0):
            info(
                "An MCP client is meant to start this command. To serve over HTTP, add --http 127.0.0.1:8000"
            )
        with source.saving_cache():
            run_until_signal(lambda: server.run_stdio(), on_hangup=_refreshing(remotes))
    else:
        from skillwire.server import HttpServer

        with source.saving_cache():
            hosts = [*options.allow_host, address.shown_host]
            app = server.http_app(
                allowed_hosts=hosts,
                identity=callers,
                stateless=options.stateless,
                well_known=options.well_known,
            )
            certificate = _certificate(options)
            http = HttpServer(app, address, limits=limits, certificate=certificate)
            if shared is not None:
                shared.show(count, http.url)
            info(f"Serving {count} at {http.url}" + (" (bearer token required)" if callers else ""))
            if not address.is_loopback:
                names = ", ".join(printable(name) for name in ("localhost", *hosts))
                info(f"Requests must be addressed to one of: {names}. Add a name with --allow-host")
            serve_http(http, app, metrics=options.metrics, limits=limits, on_hangup=_refreshing(remotes))


def _registry_url(options: ServeOptions) -> str | None:
    """The registry to serve. The command line takes precedence over the environment."""
    if options.store is None and (options.paths or options.locked or options.installed):
        return None
    from skillwire.cli.registry import store_url

    return store_url(options.store)


def _places(options: ServeOptions) -> tuple[tuple[str, ...], Sequence[RemoteSource]]:
    """The directories to serve, and the places that have to be fetched."""
    is_remote = any("://" in path for path in options.paths)
    if not is_remote and options.locked is None and not options.installed:
        return options.paths, ()  # The common case: nothing more is imported.
    from skillwire.cli.install_setup import places

    return places(options.paths, options.locked, installed=options.installed, interval=options.refresh)


def _refreshing(remotes: Sequence[RemoteSource]) -> Callable[[], object] | None:
    """Return the handler of SIGHUP: it fetches every repository and site again."""
    return (lambda: [remote.request_refresh() for remote in remotes]) if remotes else None


def _address(text: str, callers: Callers | None, *, unsafe_no_auth: bool) -> Address:
    return listen_address(
        text,
        has_token=callers is not None,
        unsafe_no_auth=unsafe_no_auth,
        how=f"--token-file or {TOKEN_VARIABLE}",
    )


def _certificate(options: ServeOptions) -> tuple[Path, Path] | None:
    """The certificate and its key, or a `SourceError` if they cannot be used."""
    if options.cert is None or options.key is None:
        return None
    import ssl

    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(options.cert, options.key)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "they cannot be read"
        raise SourceError(
            f"{options.cert} and {options.key} are no certificate and its key: {reason}"
        ) from None
    return options.cert, options.key


def _check_only(names: Sequence[str], there: Collection[str], remotes: Sequence[RemoteSource]) -> None:
    if remotes:
        raise UsageError("--only is for directories: name the folder in the URL of a repository instead")
    missing = [name for name in names if name not in there]
    if missing:
        known = ", ".join(sorted(there)) or "none of these"
        raise SourceError(f"--only: no skill is called {printable(missing[0])}; served: {printable(known)}")


def refuse_weak_token(file: Path | None) -> None:
    """Refuse a token that others can guess or read, where others can reach the server."""
    if file is None:
        _check_strength(os.environ.get(TOKEN_VARIABLE, "").strip(), TOKEN_VARIABLE)
        return
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return  # A pipe of a shell.
        lines = [line.split() for line in file.read_text("utf-8").splitlines()]
    except (OSError, UnicodeError):
        return  # `TokenFile` has said what is wrong with it.
    if os.name == "posix" and status.st_mode & 0o004:
        raise SourceError(
            f"everybody on this machine can read the tokens in {file}: run `chmod 600 {file}`, or let "
            "--share make a token"
        )
    for words in lines:
        if words and not words[0].startswith("#"):
            _check_strength(words[1] if len(words) > 1 else words[0], str(file))


def _check_strength(token: str, place: str) -> None:
    if token and (len(token) < _LEAST_TOKEN or len(set(token)) < _LEAST_DIFFERENT):
        raise SourceError(
            f"the token in {place} can be guessed: use {_LEAST_TOKEN} random characters or more; let --share "
            """make one, or `python3 -c "import secrets; print(secrets.token_urlsafe(32))"`"""
        )


def token_callers(file: Path | None, limits: Limits) -> Callers | None:
    """The callers of a token file, or of the token in the environment; `None` without either."""
    from skillwire.access import Callers, TokenFile, checked_token

    if file is not None:
        return TokenFile(file, limits=limits)
    token = os.environ.get(TOKEN_VARIABLE)
    return None if token is None else Callers.of_token(checked_token(token.strip(), TOKEN_VARIABLE))


def _note_large_files(sizes: Mapping[SkillUri, int]) -> None:
    """Name the files that are too large for clients that read manifests (R6). They are served anyway."""
    from skillwire.skill import MANIFEST_FILE_BYTES

    large = {uri: size for uri, size in sizes.items() if size > MANIFEST_FILE_BYTES}
    if large:
        first = max(large, key=large.__getitem__)
        limit = human_size(MANIFEST_FILE_BYTES)
        info(
            f"{counted(len(large), 'file')} of over {limit}, which clients that read manifests may refuse; "
            f"the largest is {printable(first)}, {human_size(large[first])}"
        )


def _summarize(source: DirectorySource, *, strict: bool) -> None:
    """Print what will be served and what was left out."""
    from skillwire.sources import problem_lines, problems_of

    if not source.roots:
        return
    problems = source.problems()
    info(f"{'directory':<40} {'skills':>8} {'files':>8} {'bytes':>10} {'left out':>9}")
    all_sizes: dict[SkillUri, int] = {}
    for root in source.roots:
        skills = source.snapshot.skills_of(root)
        sizes = {file.uri: file.size for skill in skills for file in skill.resources}
        all_sizes |= sizes
        place = printable(str(root.path))
        shown = place if len(place) <= 40 else f"…{place[-39:]}"
        left_out = sum(problem.is_left_out for problem in problems_of(root, problems))
        info(
            f"{shown:<40} {len(skills):>8,} {len(sizes):>8,} {human_size(sum(sizes.values())):>10}"
            f" {left_out:>9,}"
        )
        if not skills:
            info(f"No skills in {place}: a skill is a directory with a SKILL.md")
    _note_large_files(all_sizes)
    if not problems:
        return
    info(f"{counted(len(problems), 'problem')}:")
    for line in problem_lines(problems, source.roots, limit=_PROBLEMS_SHOWN):
        info(f"  {printable(line)}")
    if strict:
        message = f"--strict: {counted(len(problems), 'problem')}, so nothing is served"
        raise FormatError.of(rule="strict", message=message, fix="fix what is listed above")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions(ServingOptions):
    """The options of the command, as they were given."""

    paths: tuple[str, ...]
    locked: Path | None
    installed: bool
    channel: str | None
    oauth_issuer: str | None
    oauth_audience: str | None
    oauth_groups_claim: str | None
    refresh: float
    well_known: bool
    cache_scope: Literal["public", "private"] | None
    unlisted: tuple[str, ...]
    query: bool
    allow_oversize: bool
    strict: bool
    follow_links: bool
    watch: bool
    fast_path: bool
    scan_cache: bool
    print_config: str | None
    share: bool
    yes: bool
    cert: Path | None
    key: Path | None
    url: str | None
    only: tuple[str, ...]
    index: IndexShape
    manifests: bool
    prompt_xml: bool
    reference: bool
    list_legacy: bool
    list_files: bool
    every_tool: bool


def print_config(client: str, options: ServeOptions) -> None:
    """Print the client's configuration for this command line."""
    import shutil

    from skillwire.cli.commands.registry import REGISTRY_TOKEN_VARIABLE
    from skillwire.clients import ClientServer, shown_entry, writable_clients

    if options.http is not None:
        from skillwire.server import parse_address

        variable = TOKEN_VARIABLE if options.store is None else REGISTRY_TOKEN_VARIABLE
        token = options.store or options.token_file or TOKEN_VARIABLE in os.environ
        address = parse_address(options.http)
        host = "127.0.0.1" if address.host in ("0.0.0.0", "::") else address.shown_host  # noqa: S104 - compared
        if options.allow_host:
            host = options.allow_host[0]  # The name that others reach it by.
        elif not address.is_loopback and options.url is None:
            info("Others reach this server by the name of this machine: give it with --allow-host NAME")
        url = options.url or f"{'https' if options.cert else 'http'}://{host}:{address.port}/mcp"
        server = ClientServer(url=url, token_variable=variable if token else "")
    else:
        # A client may start it anywhere, and without the PATH of this shell.
        program = shutil.which("skillwire")
        start = (program,) if program else (sys.executable, "-m", "skillwire")
        values = asdict(options)
        files = {
            name: expand_user(value).absolute() for name, value in values.items() if isinstance(value, Path)
        }
        absolute = {
            **values,
            **files,
            "paths": tuple(map(_absolute, options.paths)),
            "store": None if options.store is None else _absolute_store(options.store),
            "print_config": None,
        }
        if options.instructions is not None and options.instructions.startswith("@"):
            absolute["instructions"] = f"@{_absolute(options.instructions[1:])}"
        [command] = commands_of("serve")
        server = ClientServer(command=(*start, "serve", *words_of(command, absolute)))
    known = writable_clients()[client]
    if known.config is not None:
        info(known.config.place)
    write(shown_entry(known, server))
    if server.token_variable:
        info(f"The client reads the token from {server.token_variable} of its environment: set it there.")
    for text in map(_absolute, options.paths):
        path = text.partition("=")[2] if "=" in text and not Path(text).exists() else text
        if "://" not in path and not Path(path).is_dir():
            info(f"There is no directory {printable(path)}: create it before the client starts the server.")


def _absolute(text: str) -> str:
    """A path, or `PREFIX=PATH`, that means the same in every directory."""
    if "://" in text:
        return text  # A repository or a site is the same in every directory.
    prefix, sign, path = text.partition("=")
    if sign and not expand_user(text).exists():
        return f"{prefix}={expand_user(path).absolute()}"
    return str(expand_user(text).absolute())


def _absolute_store(url: str) -> str:
    scheme, sign, file = url.partition("sqlite:///")
    return f"sqlite:///{Path(file).absolute()}" if sign and not scheme else url


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
    from skillwire.cli.registry import open_store

    instructions = read_instructions(given.instructions)
    store = open_store(url)
    from skillwire.registry import View
    from skillwire.registry.queries import SkillQueries
    from skillwire.server import LegacyFeatures, ServerOptions

    name = given.name or "skillwire"
    options = ServerOptions(
        ttl_ms=round(given.ttl * 1000),
        page_size=given.page_size,
        legacy_features=LegacyFeatures(tools=given.tools, prompts=False),
        watch=given.watch,
        limits=http_limits(given),
    )
    channel = given.channel or "stable"
    view = View(channel)
    try:
        store.check_tables()
        count = counted(SkillQueries(store, view).count(), "skill")
    except SourceError as error:
        if given.http is None or not store.is_postgresql:
            raise
        info(f"Waiting, and not ready until this is solved: {printable(str(error))}")
        count = "the skills"
    if given.http is None:
        from skillwire.registry import StoreSource
        from skillwire.server import SkillServer

        server = SkillServer(StoreSource(store, view), name=name, instructions=instructions, options=options)
        info(f"Serving {count} of {printable(store.place)} over stdio")
        run_until_signal(server.run_stdio)
        return
    from skillwire.registry import RegistryApp
    from skillwire.server import HttpServer, parse_address

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
    serve_http(http, app, metrics=given.metrics, limits=options.limits)


def _oauth(given: ServeOptions, channel: str) -> OAuthSettings | None:
    from skillwire.access import OAuthSettings

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
