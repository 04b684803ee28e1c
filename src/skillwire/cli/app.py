"""The commands of `skillwire`."""

from __future__ import annotations

from typing import Annotated

import typer

from skillwire.cli import approvals, cache, catalog, lint, load, paths, search, serve, servers, skills, verify
from skillwire.version import VERSION

app = typer.Typer(
    name="skillwire",
    help="Serve Agent Skills over MCP, and take them in again.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.command("lint")(lint.lint)
app.command("verify")(verify.verify)
app.command("list")(skills.list_skills)
app.command("show")(skills.show)
app.command("search")(search.search)
app.command("catalog")(catalog.catalog)
app.command("load")(load.load)
app.command("read")(load.read)
app.command("approve")(approvals.approve)
app.command("revoke")(approvals.revoke)
app.add_typer(servers.app, name="servers")
app.add_typer(cache.app, name="cache")
app.command("paths")(paths.paths)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"skillwire {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Serve Agent Skills over MCP, and take them in again."""
