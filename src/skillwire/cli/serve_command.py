"""`skillwire serve` as typer knows it: its help, and every command line that `quick.py` does not read."""

from __future__ import annotations

import math
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from skillwire.cli.serve import serve
from skillwire.cli.serve_options import Option, Row, ServeOptions, table


def serve_command(**given: Any) -> None:
    options = ServeOptions(**given)
    idle = options.idle_without_http
    if idle:
        raise typer.BadParameter("this needs --http", param_hint=", ".join(idle))
    if not math.isfinite(options.ttl):
        raise typer.BadParameter("a number of seconds is wanted", param_hint="--ttl")
    serve(options)


def _parameter(row: Row) -> Parameter:
    default = Parameter.empty if row.is_required else row.default
    annotation = Annotated[row.kind, _explained(row.option)]
    return Parameter(row.field, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _explained(option: Option) -> Any:
    if not option.spelling:
        return typer.Argument(metavar=option.metavar, help=option.help)
    return typer.Option(
        option.spelling, metavar=option.metavar, help=option.help, min=option.least, max=option.most
    )


# Typer asks a command for its docstring and its signature. They are made from what there is already.
serve_command.__doc__ = serve.__doc__
serve_command.__dict__["__signature__"] = Signature([_parameter(row) for row in table()])
