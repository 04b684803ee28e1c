"""`skillwire load` and `skillwire read`: what a model would get, printed."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skillwire.cli.host_options import (
    AsJson,
    ConfigFile,
    Directories,
    Name,
    NoUsual,
    On,
    Profile,
    Servers,
    StyleName,
    chosen,
    style_words,
    with_host,
)
from skillwire.errors import ApprovalRequired, SourceError

if TYPE_CHECKING:
    from skillwire.host.config.merge import HostConfig
    from skillwire.host.host import LoadedSkill, SkillHost


def load(
    name: Name,
    on: On = None,
    server: Servers = None,
    directory: Directories = None,
    no_usual: NoUsual = False,
    config: ConfigFile = None,
    profile: Profile = None,
    style: StyleName = None,
    as_json: AsJson = False,
) -> None:
    """Load a skill and print exactly what a model would get.

    On a terminal you are asked about a skill that you have not approved. Elsewhere the command ends with 7.
    """
    from skillwire.cli.output import show as print_out
    from skillwire.cli.screen import show_json

    async def action(host: SkillHost) -> None:
        loaded = await _load(host, name, on, style)
        if as_json:
            show_json({**_loaded_json(loaded), "text": loaded.text})
        else:
            print_out(loaded.text)

    _with_person(chosen(server, directory, no_usual, config, profile), action, style)


def read(
    name: Name,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The file's path in the skill's directory.")],
    raw: Annotated[
        bool, typer.Option("--raw", help="The file's bytes as they are, not the model's view.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a new file; needs --raw.")
    ] = None,
    on: On = None,
    server: Servers = None,
    directory: Directories = None,
    no_usual: NoUsual = False,
    config: ConfigFile = None,
    profile: Profile = None,
    style: StyleName = None,
    as_json: AsJson = False,
) -> None:
    """Read a file of a skill as a model would get it, or its verified bytes.

    \b
    skillwire read code-review references/guide.md
    skillwire read code-review assets/logo.png --raw -o logo.png
    """
    from skillwire.cli.output import say
    from skillwire.cli.output import show as print_out
    from skillwire.cli.screen import show_json

    if output is not None and not raw:
        raise typer.BadParameter("this needs --raw", param_hint="--output")
    if raw and as_json:
        raise typer.BadParameter("bytes are no JSON: leave out one of the two", param_hint="--raw")
    if raw and output is None and sys.stdout.isatty():
        raise typer.BadParameter(
            "bytes as they are could drive your terminal: add -o FILE", param_hint="--raw"
        )

    async def action(host: SkillHost) -> None:
        loaded = await _load(host, name, on, style)
        handle = loaded.skill.handle
        if not raw:
            shown = await host.read(handle, path)
            if as_json:
                show_json({**_loaded_json(loaded), "path": path, "text": shown})
            else:
                print_out(shown)
            return
        file = await host.read_bytes(handle, path)
        if output is None:
            sys.stdout.buffer.write(file.data)
            sys.stdout.buffer.flush()
            return
        try:
            with output.open("xb") as stream:
                stream.write(file.data)
        except FileExistsError:
            raise SourceError(f"{output} is there already: give another name") from None
        except OSError as error:
            raise SourceError(f"{output} cannot be written: {error.strerror}") from None
        say(f"Wrote {len(file.data):,} bytes, {file.digest}, to {output}")

    _with_person(chosen(server, directory, no_usual, config, profile), action, style)


def _with_person(
    settings: HostConfig, action: Callable[[SkillHost], Awaitable[None]], style: str | None
) -> None:
    from skillwire.cli.ask import terminal_callback

    with_host(settings, action, ask=terminal_callback(), style=style)


async def _load(host: SkillHost, name: str, on: str | None, style: str | None) -> LoadedSkill:
    """Load a skill; where nobody can be asked, the error says what to type."""
    from skillwire.cli.ask import terminal_callback

    try:
        return await host.load(name, server=on)
    except ApprovalRequired as error:
        if error.reason == "denied" or terminal_callback() is not None:
            raise
        also = style_words(style)
        raise ApprovalRequired(
            f"{error} with `skillwire show {name} --text{also}` and `skillwire approve {name}{also}`",
            reason=error.reason,
            origin=error.origin,
            uri=error.uri,
            added=error.added,
            changed=error.changed,
            removed=error.removed,
        ) from None


def _loaded_json(loaded: LoadedSkill) -> dict[str, object]:
    skill = loaded.skill
    return {
        "handle": skill.handle,
        "origin": {"kind": skill.origin.kind.value, "label": skill.origin.label},
        "uri": skill.uri,
        "grants": {
            "allowed_tools": loaded.grants.allowed_tools,
            "execute_code": loaded.grants.execute_code,
        },
    }
