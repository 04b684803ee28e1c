"""`skillwire search`: the skills that match words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, no_skills, with_host
from skillwire.cli.parser import UsageError
from skillwire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost
    from skillwire.host.search import FoundSkill


def search(
    *,
    words: tuple[str, ...],
    on: str | None,
    limit: int,
    refresh: bool,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Find skills by words in their names, descriptions and cached text."""
    from skillwire.catalog.tokenize import parse_query
    from skillwire.cli.screen import Screen, show_json
    from skillwire.cli.skill_view import SkillRow, problem_events, problems_json, skill_json

    query = " ".join(words)
    if not parse_query(query, limits=DEFAULT_LIMITS):
        raise UsageError("WORDS has no letters or digits: say what to look for")

    async def action(host: SkillHost) -> None:
        found = await host.search(query, server=on, limit=limit)
        if not found and any(server.cached for server in host.admin.servers()):
            await host.refresh(on)  # A cached listing may be older than the skill.
            found = await host.search(query, server=on, limit=limit)
        empty = not any(on in (None, skill.origin.label) for skill in host.skills())
        if as_json:
            skills = [
                {
                    **skill_json(SkillRow(one.skill, host.admin.status(one.skill))),
                    "snippet": one.snippet,
                    "partial": one.partial,
                }
                for one in found
            ]
            show_json({"skills": skills, "problems": problems_json(problem_events(host))})
            return
        if empty:
            failed = bool(host.log.failures())
            Screen().wrapped(
                "There is nothing to search: see what failed." if failed else no_skills(host, on)
            )
        else:
            _show(found)

    with_host(options, action, on=on, cached=not refresh)


def _show(found: Sequence[FoundSkill]) -> None:
    from skillwire.cli.screen import Screen, origin_words

    screen = Screen()
    if not found:
        screen.line("No skill matches. Try other words, or fewer.")
    partial = False
    for one in found:
        if one.partial and not partial:
            partial = True
            screen.line(("Match only some of the words:", "dim"))
        origin = one.skill.origin
        screen.line(
            (one.skill.handle, "bold"), "  ", (origin_words(origin), "" if origin.is_local else "cyan")
        )
        screen.wrapped(one.snippet, indent=4, style="dim")
