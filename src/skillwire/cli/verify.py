"""`skillwire verify`: conformance checks of a server, for a terminal and for continuous integration."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from skillwire.cli.output import error as print_error
from skillwire.cli.output import info, is_terminal, printable, write
from skillwire.errors import SkillwireError, SourceError, UsageError
from skillwire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from skillwire.conformance import Baseline, Progress, Report, SiteReport
    from skillwire.host import ServerConfig

VIOLATIONS = 1
COULD_NOT_RUN = 2
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?::[ \t]*|=)([\x20-\x7e]*)")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_MOST_BASELINE_BYTES = 64 * 1024 * 1024


def verify(
    *,
    target: tuple[str, ...],
    kind: str,
    protocol: str,
    max_skills: int,
    max_bytes: int,
    timeout: float,
    header: tuple[str, ...],
    token_env: str | None,
    ignore: tuple[str, ...],
    only: tuple[str, ...],
    fail_on: str,
    baseline: Path | None,
    trace: Path | None,
    as_json: bool,
    junit: Path | None,
    sarif: Path | None,
    quick: bool,
    repeat: int,
    profile: str | None,
    rules: bool,
) -> int:
    """Check that a server conforms to the Skills extension."""
    # Imported here: `serve` and `lint` need none of it.
    from skillwire.conformance import as_json as render_json
    from skillwire.conformance import as_junit, as_sarif, as_text, rules_json, rules_text

    if rules:
        write(rules_json() if as_json else rules_text())
        return 0
    if not target:
        raise UsageError(
            "URL or COMMAND is missing: give the URL of a server, -- and the command that starts one, or the "
            "name of a configured server"
        )
    written = {"--junit": (junit, as_junit), "--sarif": (sarif, as_sarif)}
    for option, (file, _) in written.items():
        if file is not None:
            _check_writable(option, file)
    headers, token = _headers(header), _token(token_env)
    as_site = kind == "site" or (kind == "auto" and _may_be_site(target))
    try:
        if as_site:
            only_for_servers = {
                "--baseline": baseline,
                "--trace": trace,
                "--junit": junit,
                "--sarif": sarif,
                "--quick": quick,
                "--repeat": repeat > 1,
                "--profile": profile,
                "--ignore": ignore,
                "--only": only,
            }
            found = _verify_site(
                target,
                headers | ({"Authorization": f"Bearer {token}"} if token else {}),
                max_skills=max_skills,
                timeout=timeout,
                fail_on=fail_on,
                as_json=as_json,
                given=[name for name, value in only_for_servers.items() if value],
                surely=kind == "site" or "/.well-known/" in target[0],
            )
            if found is not None:
                return found
        report = _run(
            target,
            protocol,
            timeout,
            headers,
            token,
            max_skills=max_skills,
            max_bytes=max_bytes,
            ignore=ignore,
            only=only,
            baseline=_baseline(baseline),
            trace=trace,
            quick=quick,
            profile=profile or "",
            repeat=repeat,
        )
        for file, render in written.values():
            if file is not None:
                _write(file, render(report))
    except UsageError:
        raise
    except SkillwireError as error:
        # Whatever the error, nothing was verified.
        message, *lines = str(error).split("\n")
        print_error(message)
        for line in lines:
            info(line)
        if as_site and kind == "auto":
            info("No index of skills was found there either: --as site says why.")
        return COULD_NOT_RUN
    write(render_json(report) if as_json else as_text(report))
    return _exit_code(report, fail_on, "the server has no skills to check")


def _may_be_site(words: Sequence[str]) -> bool:
    """Whether a URL is that of a site, or has no path: then the site may have an index, or be a server."""
    if len(words) != 1 or not words[0].lower().startswith(("https://", "http://")):
        return False
    path = urlsplit(words[0]).path
    return path in ("", "/") or "/.well-known/" in path


def _verify_site(
    words: Sequence[str],
    headers: Mapping[str, str],
    *,
    max_skills: int,
    timeout: float,
    fail_on: str,
    as_json: bool,
    given: Sequence[str],
    surely: bool,
) -> int | None:
    """Check a site's index, for the exit code; `None` where there is none and it is not `surely` a site."""
    import anyio

    from skillwire.conformance import site_json, site_text, verify_site

    if len(words) != 1:
        raise UsageError("--as site takes one URL")
    limits = replace(DEFAULT_LIMITS, call_seconds=timeout)
    try:
        report = anyio.run(
            lambda: verify_site(words[0], headers=headers, max_skills=max_skills, limits=limits)
        )
    except SkillwireError:
        if surely:
            raise
        return None
    if given:
        raise UsageError(
            f"{', '.join(given)} is for MCP servers, and this is an index of skills: leave it out, "
            "or say --as server"
        )
    write(site_json(report) if as_json else site_text(report))
    return _exit_code(report, fail_on, "the index lists no skills")


def _exit_code(report: Report | SiteReport, fail_on: str, nothing: str) -> int:
    """The exit code for a report; `nothing` says why one that checked nothing is empty."""
    from skillwire.conformance import Level

    if report.failures(Level(fail_on)):
        return VIOLATIONS
    if report.checked_nothing:
        print_error(f"{nothing}, so nothing was verified: add one and run this again")
        return COULD_NOT_RUN
    return 0


def _run(
    words: Sequence[str],
    protocol: str,
    timeout: float,
    headers: Mapping[str, str],
    token: str,
    *,
    repeat: int,
    **options: Any,
) -> Report:
    """The report on one run, or on all of them together."""
    import anyio

    from skillwire.conformance import REVISIONS, combine
    from skillwire.conformance import verify as check

    target: str | list[str] = words[0] if len(words) == 1 and "://" in words[0] else list(words)
    configured = _configured(words)
    if configured is not None:
        token = token or configured.token or _login_token(configured)
        target = configured.url or list(configured.command)
        headers = {**configured.headers, **headers}
        options |= {"env": configured.env, "directory": configured.directory}
    elif len(words) == 1 and Path(words[0]).is_dir():
        folder = printable(words[0])
        raise UsageError(
            f"{folder} is a folder, not a server: `skillwire lint {folder}` checks its skills, and "
            f"`skillwire verify -- skillwire serve {folder}` a server that serves them"
        )

    async def run() -> Report:
        with _progress() as progress:
            return await check(
                target,
                revisions=[one for one in REVISIONS if protocol in ("both", one)],
                headers=headers,
                token=token,
                limits=replace(DEFAULT_LIMITS, call_seconds=timeout, connect_seconds=timeout),
                progress=progress,
                **options,
            )

    reports = [anyio.run(run) for _ in range(repeat)]
    return combine(reports) if repeat > 1 else reports[0]


def _configured(words: Sequence[str]) -> ServerConfig | None:
    """The configured server of this name, if the one word given is such a name."""
    if len(words) != 1 or not _WORD.fullmatch(words[0]):
        return None
    from skillwire.host import load_config

    name = words[0]
    try:
        known = load_config(fill=False)
    except SkillwireError:
        return None  # A command can be verified even if the configuration is broken.
    found = next((server for server in known.configured if server.label == name), None)
    if found is None:
        return None
    server = load_config().servers.get(name)
    if server is None:
        raise SourceError(
            f"{name} is configured in {found.file}, but not in use there: trust the file with "
            "`skillwire trust`, or give the URL or the command"
        )
    return server


def _login_token(server: ServerConfig) -> str:
    """The token of the user's login at a server; empty if there is none."""
    import anyio

    from skillwire.host import LoginStore, state_paths

    store = LoginStore(state_paths().logins)
    if not server.url or not store.has(server.identity):
        return ""
    from skillwire.host import LoginTokens

    async def run() -> str:
        return await LoginTokens(store, server.identity, seconds=server.call_seconds).get()

    return anyio.run(run)


def _headers(given: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in given:
        match = _HEADER.fullmatch(text)
        if match is None:
            # The value may be a secret: it is not shown.
            raise UsageError("--header: write a header as 'NAME: VALUE' or NAME=VALUE")
        headers[match[1]] = match[2]
    return headers


def _token(variable: str | None) -> str:
    if variable is None:
        return ""
    token = os.environ.get(variable, "").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError(f"--token-env: {variable} is not set to a token")
    return token


def _baseline(file: Path | None) -> Baseline | None:
    if file is None:
        return None
    from skillwire.conformance import Baseline

    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BASELINE_BYTES)
        return Baseline.parse(data.decode("utf-8"))
    except OSError as error:
        raise SourceError(
            f"cannot read the baseline {file}: {error.strerror}; write it with `skillwire verify --json`"
        ) from None
    except UnicodeDecodeError:
        raise SourceError(f"the baseline {file} is not a report of `skillwire verify --json`") from None


def _check_writable(option: str, file: Path) -> None:
    """Refuse a file that cannot be written, before a run that may take minutes."""
    directory = file.absolute().parent
    if not directory.is_dir():
        problem = f"there is no directory {directory}: create it, or choose another place"
    elif file.is_dir():
        problem = "it is a directory: add the name of a file"
    elif not os.access(file if file.exists() else directory, os.W_OK):
        problem = "permission denied: choose another place"
    else:
        return
    raise UsageError(f"{option}: cannot write {file}: {problem}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def _progress() -> Generator[Progress | None]:
    """A progress bar on standard error, if that is a terminal."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("connecting", total=1)

        def update(step: str, done: int, total: int) -> None:
            bar.update(task, description=step, completed=done, total=total)

        yield update
