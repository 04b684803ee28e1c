"""The commands of `skillwire`. The module of a command is imported when the command is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Final

import typer

from skillwire.version import VERSION

COMMANDS: Final = {
    "serve": "serve_command:serve_command",
    "lint": "lint:lint",
    "verify": "verify:verify",
    "list": "skills:list_skills",
    "show": "skills:show",
    "search": "search:search",
    "catalog": "catalog:catalog",
    "load": "load:load",
    "read": "load:read",
    "approve": "approvals:approve",
    "revoke": "approvals:revoke",
    "servers": "servers:app",
    "cache": "cache:app",
    "paths": "paths:paths",
}
"""Where each command is: its module here, and its name there. Help lists them in this order."""


def app_for(words: Iterable[str] = ()) -> typer.Typer:
    """The application for a command line: with the command that it names alone, or with all of them."""
    app = typer.Typer(
        name="skillwire",
        help="Serve Agent Skills over MCP, and take them in again.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    first = next(iter(words), "")
    for name in (first,) if first in COMMANDS else COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(f"skillwire.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"skillwire {VERSION}")
        raise typer.Exit


def options(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Serve Agent Skills over MCP, and take them in again."""
