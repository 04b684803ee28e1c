"""`skillwire catalog`: the text that puts skills before a model, printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from skillwire.cli.host_options import (
    AsJson,
    ConfigFile,
    Directories,
    NoUsual,
    Profile,
    Servers,
    StyleName,
    chosen,
    with_host,
)

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost


def catalog(
    server: Servers = None,
    directory: Directories = None,
    no_usual: NoUsual = False,
    config: ConfigFile = None,
    profile: Profile = None,
    style: StyleName = None,
    budget: Annotated[
        int | None, typer.Option(metavar="N", help="Characters at most; what does not fit is counted.", min=0)
    ] = None,
    working: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A path that is worked on, which may wake skills. Repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print exactly what a model is told of your skills, and with --json the tools that it gets.

    \b
    skillwire catalog                    as Skillwire would put it
    skillwire catalog --style codex      as Codex would
    """
    from skillwire.cli.output import show as print_out
    from skillwire.cli.screen import show_json

    async def action(host: SkillHost) -> None:
        text = host.catalog(budget=budget, working=working or ())
        if as_json:
            tools = [tool.for_anthropic() for tool in host.tools()]
            show_json({"style": host.style.name, "text": text, "tools": tools})
        else:
            print_out(text)

    with_host(chosen(server, directory, no_usual, config, profile), action, style=style)
