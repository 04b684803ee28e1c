"""`skillwire serve`: a folder of skills for every MCP client, over stdio or HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillwire.cli.commands.publish import TOKEN_VARIABLE
from skillwire.cli.logs import log_to_stderr
from skillwire.cli.output import counted, human_size, info, printable
from skillwire.cli.parser import UsageError
from skillwire.cli.running import (
    listen_address,
    read_instructions,
    refuse_without_http,
    run_until_signal,
)
from skillwire.cli.serve_options import ServeOptions
from skillwire.errors import FormatError

if TYPE_CHECKING:
    from skillwire.server.http.auth import Tokens
    from skillwire.server.http.server import Address
    from skillwire.skill.uris import SkillUri
    from skillwire.sources.directory.source import DirectorySource
    from skillwire.sources.remote import RemoteSource

_PROBLEMS_SHOWN = 20


def run(**given: Any) -> None:
    """Serve skills over MCP, with a value for each field of `ServeOptions`."""
    options = ServeOptions(**given)
    if options.http is None:
        refuse_without_http(options, "well_known", "oauth_issuer", "oauth_audience", "oauth_groups_claim")
    store = _store_url(options)
    if store is not None:
        from skillwire.cli.serve_store import refuse_idle

        refuse_idle(given)
        options = replace(options, store=store)
    elif options.channel or options.oauth_issuer or options.oauth_audience or options.oauth_groups_claim:
        raise UsageError("--channel and --oauth-... are for a registry: add --store URL, or leave them out")
    elif not (options.paths or options.locked or options.installed):
        raise UsageError("PATH is missing: write skillwire serve [OPTIONS] PATH...")
    if options.print_config is not None:
        from skillwire.cli.serve_config import print_config

        print_config(options.print_config, options)
    else:
        serve(options)


def serve(options: ServeOptions) -> None:
    """Serve skills over MCP until the client disconnects or a signal stops it."""
    log_to_stderr(as_json=options.log_format == "json", access_log=options.access_log, changes=True)
    if options.store is not None:
        from skillwire.cli.serve_store import serve_store

        serve_store(options, options.store)
        return
    token = address = None
    if options.http is not None:
        token = _token(options.token_file)
        address = _address(options.http, token, unsafe_no_auth=options.unsafe_no_auth)

    instructions = read_instructions(options.instructions)
    # Imported here: the checks above need none of it, and their message comes at once.
    from skillwire.server.app import SkillServer
    from skillwire.server.legacy.features import LegacyFeatures
    from skillwire.server.options import ServerOptions
    from skillwire.sources.directory.scan_cache import scan_cache_directory
    from skillwire.sources.directory.source import DirectorySource

    cache_directory = scan_cache_directory() if options.scan_cache else None
    directories, remotes = _places(options)
    source = DirectorySource(
        directories,
        allow_oversize=options.allow_oversize,
        strict=options.strict,
        follow_links=options.follow_links,
        cache_directory=cache_directory,
    )
    source.scan()
    _summarize(source, strict=options.strict)
    if remotes:
        from skillwire.cli.serve_remote import fetch_remotes

        fetch_remotes(remotes, strict=options.strict)
    limits = options.limits()
    server = SkillServer(
        *([source] if directories or not remotes else []),
        *remotes,
        name=options.name or "skillwire",
        instructions=instructions,
        options=ServerOptions(
            ttl_ms=round(options.ttl * 1000),
            cache_scope=options.cache_scope or ("private" if token else "public"),
            page_size=options.page_size,
            unlisted=options.unlisted,
            legacy_features=LegacyFeatures(
                index=options.index,
                manifests=options.manifests,
                prompt_xml=options.prompt_xml,
                tools=options.tools,
                prompts=options.prompts,
                listed=options.list_legacy,
                files=options.list_files,
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
        from skillwire.server.http.server import HttpServer

        with source.saving_cache():
            hosts = [*options.allow_host, address.shown_host]
            app = server.http_app(
                allowed_hosts=hosts, token=token, stateless=options.stateless, well_known=options.well_known
            )
            http = HttpServer(app, address, limits=limits)
            info(f"Serving {count} at {http.url}" + (" (bearer token required)" if token else ""))
            if not address.is_loopback:
                names = ", ".join(printable(name) for name in ("localhost", *hosts))
                info(f"Requests must be addressed to one of: {names}. Add a name with --allow-host")
            run_until_signal(http.serve, stop=http.stop, on_hangup=_refreshing(remotes))


def _store_url(options: ServeOptions) -> str | None:
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
    from skillwire.cli.serve_remote import places

    return places(options.paths, options.locked, installed=options.installed, interval=options.refresh)


def _refreshing(remotes: Sequence[RemoteSource]) -> Callable[[], object] | None:
    """What SIGHUP does: fetch every repository and site again."""
    return (lambda: [remote.request_refresh() for remote in remotes]) if remotes else None


def _address(text: str, token: Tokens | None, *, unsafe_no_auth: bool) -> Address:
    return listen_address(
        text,
        has_token=token is not None,
        unsafe_no_auth=unsafe_no_auth,
        how=f"--token-file or {TOKEN_VARIABLE}",
    )


def _token(file: Path | None) -> Tokens | None:
    from skillwire.server.http.auth import DEFAULT_NAME, TokenFile, Tokens, checked_token

    if file is not None:
        return TokenFile(file)
    token = os.environ.get(TOKEN_VARIABLE)
    return None if token is None else Tokens({DEFAULT_NAME: checked_token(token.strip(), TOKEN_VARIABLE)})


def _note_large_files(sizes: Mapping[SkillUri, int]) -> None:
    """Name the files that are too large for clients that read manifests (R6). They are served anyway."""
    from skillwire.skill.files import MANIFEST_FILE_BYTES

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
    from skillwire.sources.directory.report import problem_lines, problems_of

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
