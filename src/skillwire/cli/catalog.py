"""`skillwire catalog`: prints the text that tells a model about skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, with_host

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost


def catalog(
    *,
    options: HostOptions,
    budget: int | None,
    working: tuple[str, ...],
    refresh: bool,
    as_json: bool,
) -> None:
    """Print exactly what a model sees of your skills, and with --json the tools that it gets."""
    from skillwire.cli.output import counted, info, write
    from skillwire.cli.screen import show_json

    async def action(host: SkillHost) -> None:
        text = host.catalog(budget=budget, working=working)
        if as_json:
            tools = [tool.for_anthropic() for tool in host.tools()]
            show_json({"style": host.style.name, "text": text, "tools": tools})
            return
        write(text)
        # On standard error: standard output has exactly what a model sees.
        hidden = len(host.skills()) - len(host.skills(for_models=True))
        if hidden:
            verb, them = ("is", "it") if hidden == 1 else ("are", "them")
            info(f"{counted(hidden, 'skill')} {verb} not shown to models: `skillwire list` shows {them}")

    with_host(options, action, cached=not refresh)
