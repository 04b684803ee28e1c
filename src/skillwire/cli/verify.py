"""`skillwire verify`: conformance tests of a server, for a terminal and for continuous integration."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.output import error as print_error
from skillwire.cli.output import write
from skillwire.cli.parser import UsageError
from skillwire.errors import SkillwireError
from skillwire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from skillwire.conformance.probe import Progress
    from skillwire.conformance.report import Report

VIOLATIONS = 1
COULD_NOT_RUN = 2
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e]*)")


def verify(
    *,
    target: tuple[str, ...],
    protocol: str,
    max_skills: int,
    max_bytes: int,
    timeout: float,
    header: tuple[str, ...],
    token_env: str | None,
    ignore: tuple[str, ...],
    as_json: bool,
    junit: Path | None,
    rules: bool,
) -> int:
    """Check that a server conforms to the Skills extension."""
    # Imported here: `serve` and `lint` need none of it.
    from skillwire.conformance.report_json import as_json as render_json
    from skillwire.conformance.report_junit import as_junit
    from skillwire.conformance.report_text import as_text, rules_text

    if rules:
        write(rules_text())
        return 0
    if not target:
        raise UsageError(
            "URL or COMMAND is missing: give the URL of a server, or -- and the command that starts one"
        )
    try:
        report = _run(
            target,
            protocol,
            max_skills=max_skills,
            max_bytes=max_bytes,
            timeout=timeout,
            headers=_headers(header),
            token=_token(token_env),
            ignore=ignore,
        )
        if junit is not None:
            _write(junit, as_junit(report))
    except UsageError:
        raise
    except SkillwireError as error:
        # What kind of error it was matters less here than that nothing was judged.
        print_error(str(error))
        return COULD_NOT_RUN
    write(render_json(report) if as_json else as_text(report))
    if report.violations:
        return VIOLATIONS
    if report.looked_at_nothing:
        print_error("the server has no skills to check, so nothing was verified: add one and run this again")
        return COULD_NOT_RUN
    return 0


def _run(
    target: Sequence[str],
    protocol: str,
    *,
    max_skills: int,
    max_bytes: int,
    timeout: float,
    headers: dict[str, str],
    token: str,
    ignore: Sequence[str],
) -> Report:
    import anyio

    from skillwire.conformance.session import ERAS
    from skillwire.conformance.verify import verify as judge

    where = target[0] if len(target) == 1 and "://" in target[0] else list(target)

    async def run() -> Report:
        with _progress() as progress:
            return await judge(
                where,
                eras=[one for one in ERAS if protocol in ("both", one)],
                max_skills=max_skills,
                max_bytes=max_bytes,
                headers=headers,
                token=token,
                ignore=ignore,
                limits=replace(
                    DEFAULT_LIMITS,
                    call_seconds=timeout,
                    connect_seconds=min(timeout, DEFAULT_LIMITS.connect_seconds),
                ),
                progress=progress,
            )

    return anyio.run(run)


def _headers(given: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in given:
        match = _HEADER.fullmatch(text)
        if match is None:
            # The value may be a secret: it is not shown.
            raise UsageError("--header: write a header as 'NAME: VALUE'")
        headers[match[1]] = match[2]
    return headers


def _token(variable: str | None) -> str:
    if variable is None:
        return ""
    token = os.environ.get(variable, "").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError(f"--token-env: {variable} is not set to a token")
    return token


def _write(path: Path, text: str) -> None:
    from skillwire.errors import SourceError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def _progress() -> Generator[Progress | None]:
    """A bar on standard error, when a person watches it."""
    if sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("connecting", total=1)

        def told(step: str, done: int, total: int) -> None:
            bar.update(task, description=step, completed=done, total=total)

        yield told
