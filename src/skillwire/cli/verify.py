"""`skillwire verify`: the judge of skill servers, for a desk and for continuous integration."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skillwire.cli.output import complain, show
from skillwire.errors import SkillwireError
from skillwire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from skillwire.conformance.probe import Progress
    from skillwire.conformance.report import Report

VIOLATIONS = 1
COULD_NOT_RUN = 2
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e]*)")


class EraChoice(StrEnum):
    BOTH = "both"
    LEGACY = "2025-11-25"
    MODERN = "2026-07-28"


def verify(
    target: Annotated[
        list[str] | None,
        typer.Argument(metavar="URL | -- COMMAND...", help="A server's URL, or the command that starts it."),
    ] = None,
    era: Annotated[EraChoice, typer.Option(help="The revisions of the protocol to speak.")] = EraChoice.BOTH,
    max_skills: Annotated[
        int, typer.Option(metavar="N", help="Read the files of at most so many skills.", min=1)
    ] = DEFAULT_LIMITS.judged_skills,
    max_bytes: Annotated[
        int, typer.Option(metavar="N", help="Take in at most so many bytes on each era.", min=1)
    ] = DEFAULT_LIMITS.bytes_per_server,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Wait so long for an answer.", min=0.1, max=3600)
    ] = DEFAULT_LIMITS.call_seconds,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="'NAME: VALUE'", help="Send this HTTP header. Repeatable."),
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option(metavar="VARIABLE", help="Send the bearer token in this environment variable."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Leave out a rule, or all of a requirement. Repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a JUnit report to this file as well.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and exit.")] = False,
) -> None:
    """Check whether a skill server keeps the whole extension.

    \b
    skillwire verify https://example.org/mcp     a server that runs
    skillwire verify -- node server.mjs          one that is started over stdio
    skillwire verify --rules                     what is checked

    Exits with 0 when nothing was violated, with 1 when something was, and with 2 when it could not run.
    """
    # Imported here: `serve` and `lint` need none of it.
    from skillwire.conformance.report_json import as_json as render_json
    from skillwire.conformance.report_junit import as_junit
    from skillwire.conformance.report_text import as_text, rules_text

    if rules:
        show(rules_text())
        return
    if not target:
        raise typer.BadParameter("name a URL, or -- and a command", param_hint="URL | -- COMMAND...")
    try:
        report = _run(
            target,
            era,
            max_skills=max_skills,
            max_bytes=max_bytes,
            timeout=timeout,
            headers=_headers(header or []),
            token=_token(token_env),
            ignore=ignore or [],
        )
        if junit is not None:
            _write(junit, as_junit(report))
    except SkillwireError as error:
        # What kind of error it was matters less here than that nothing was judged.
        complain(str(error))
        raise typer.Exit(COULD_NOT_RUN) from None
    show(render_json(report) if as_json else as_text(report))
    if report.violations:
        raise typer.Exit(VIOLATIONS)
    if report.looked_at_nothing:
        complain("no skill was there to be checked, so that nothing is said about the server")
        raise typer.Exit(COULD_NOT_RUN)


def _run(
    target: Sequence[str],
    era: EraChoice,
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
                eras=[one for one in ERAS if era in (EraChoice.BOTH, one)],
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
            raise typer.BadParameter("write a header as 'NAME: VALUE'", param_hint="--header")
        headers[match[1]] = match[2]
    return headers


def _token(variable: str | None) -> str:
    if variable is None:
        return ""
    token = os.environ.get(variable, "").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise typer.BadParameter(f"{variable} is not set to a token", param_hint="--token-env")
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
