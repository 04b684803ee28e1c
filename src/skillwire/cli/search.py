"""`skillwire search`: the skills that words fit."""

from __future__ import annotations

from collections.abc import Sequence
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
from skillwire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost
    from skillwire.host.search.engine import FoundSkill

_MOST = 1000


def search(
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORDS...", help="What to look for. The last word may be unfinished."),
    ],
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="NAME", help="Search the skills of this server or directory alone."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=_MOST, help="Show at most so many skills.")
    ] = DEFAULT_LIMITS.search_results,
    server: Servers = None,
    directory: Directories = None,
    no_usual: NoUsual = False,
    config: ConfigFile = None,
    profile: Profile = None,
    style: StyleName = None,
    as_json: AsJson = False,
) -> None:
    """Find skills by words: in their names, descriptions, and texts that are at hand.

    \b
    skillwire search refund customer     the best first; then those with some of the words
    skillwire search refund --on shop    of one server or directory
    """
    from skillwire.cli.output import complain
    from skillwire.cli.screen import show_json
    from skillwire.cli.skill_view import SkillRow, problems_json, skill_json
    from skillwire.host.events import EventKind
    from skillwire.host.search.tokenize import parse_query

    query = " ".join(words)
    if not parse_query(query, limits=DEFAULT_LIMITS):
        raise typer.BadParameter("there is no word in this: say what to look for", param_hint="WORDS")

    async def action(host: SkillHost) -> None:
        found = await host.search(query, server=on, limit=limit)
        if as_json:
            skills = [
                {
                    **skill_json(SkillRow(one.skill, host.standing(one.skill))),
                    "snippet": one.snippet,
                    "partial": one.partial,
                }
                for one in found
            ]
            show_json({"skills": skills, "problems": problems_json(host.events_so_far())})
            return
        _show(found)
        for event in host.events_so_far():
            if event.kind is EventKind.FAILURE:
                # What fits best may be on a server that could not be asked.
                complain(event.message)

    with_host(chosen(server, directory, no_usual, config, profile), action, style=style)


def _show(found: Sequence[FoundSkill]) -> None:
    from skillwire.cli.screen import Screen, origin_words

    screen = Screen()
    if not found:
        screen.line("No skill has these words. Try other words, or fewer.")
    partial = False
    for one in found:
        if one.partial and not partial:
            partial = True
            screen.line(("Only some of the words:", "dim"))
        origin = one.skill.origin
        screen.line(
            (one.skill.handle, "bold"), "  ", (origin_words(origin), "" if origin.is_local else "cyan")
        )
        screen.wrapped(one.snippet, indent=4, style="dim")
