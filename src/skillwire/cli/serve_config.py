"""`skillwire serve --print-config`: what a client needs to use this server."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.client_config import ClientServer, client_config
from skillwire.cli.commands import commands_of
from skillwire.cli.commands.publish import TOKEN_VARIABLE
from skillwire.cli.commands.registry import REGISTRY_TOKEN_VARIABLE
from skillwire.cli.output import info, printable, write
from skillwire.cli.parser import words_of
from skillwire.files import expand_user

if TYPE_CHECKING:
    from skillwire.cli.serve_options import ServeOptions


def print_config(client: str, options: ServeOptions) -> None:
    """Print the client's configuration for this command line."""
    if options.http is not None:
        from skillwire.server.http.server import parse_address

        variable = TOKEN_VARIABLE if options.store is None else REGISTRY_TOKEN_VARIABLE
        token = options.store or options.token_file or TOKEN_VARIABLE in os.environ
        address = parse_address(options.http)
        host = "127.0.0.1" if address.host in ("0.0.0.0", "::") else address.shown_host  # noqa: S104 - compared
        url = f"http://{host}:{address.port}/mcp"
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
    snippet, place = client_config(client, server)
    info(place)
    write(snippet)
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
