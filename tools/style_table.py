"""A table of the styles, generated from how each of them names and marks the same skills."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skillwire.catalog import SkillTable
from skillwire.host.styles.base import Layer, Rank, Style
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import DYNAMIC, SkillEntry, parse_uri
from skillwire.trust import Origin

_LOCAL: Final = Origin.local("project")
_DEMO: Final = Origin.mcp("demo")
_OTHER: Final = Origin.mcp("other")
_RANKS: Final = {_LOCAL: Rank(Layer.PROJECT, 0), _DEMO: Rank(Layer.MCP, 0), _OTHER: Rank(Layer.MCP, 1)}
_ENTRY: Final = SkillEntry(
    parse_uri("skill://db/migrate/SKILL.md"),
    {"name": "migrate", "description": "Moves a database."},
    DYNAMIC,
)


def style_table(styles: Iterable[Style]) -> str:
    """The styles side by side, in Markdown: one row for each convention."""
    columns = [(f"`{style.name}`", _conventions(style)) for style in styles]
    lines = ["| | " + " | ".join(title for title, _ in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in columns[0][1]:
        lines.append(f"| {name} | " + " | ".join(conventions[name] for _, conventions in columns) + " |")
    return "\n".join(lines)


def _conventions(style: Style) -> dict[str, str]:
    alone = _handles(style, _DEMO)
    tags = [style.tag(skill) for skill in _registry(style, _DEMO).skills()]
    return {
        "a server's skill": _code(alone["demo"]),
        "next to a local skill of that name": _pair(_handles(style, _LOCAL, _DEMO)),
        "next to another server's": _pair(_handles(style, _DEMO, _OTHER)),
        "mark in lists": _code(tags[0]) if tags[0] else "none",
        "tools": ", ".join(_code(_signature(tool.name, tool.parameters)) for tool in style.tools),
        "accepts bare `skill://` resources": _yes(style.bare_scan),
        "reads SKILL.md early if a dialect has no metadata": _yes(style.peek),
        "asks servers that declare nothing": _yes(style.asks_everyone),
        "keeps approved skills while a server is unavailable": _yes(style.keeps_offline),
        "flat command files": ", ".join(_code(folder) for folder in style.command_folders) or "no",
        "frontmatter fields with an effect": ", ".join(sorted(style.honored)),
        "time for a listing": _seconds(style.listing_seconds),
        "time for a request": _seconds(style.call_seconds),
        "lower limits": ", ".join(_departures(style)) or "none",
    }


def _departures(style: Style) -> list[str]:
    caps = [f"`{cap}` {value:,}" for cap, value in style.caps if value < getattr(DEFAULT_LIMITS, cap)]
    if style.name_pattern:
        caps.append(f"`name_pattern` `{style.name_pattern}`")
    return [*caps, *(["`plain_uris`"] if style.plain_uris else [])]


def _registry(style: Style, *origins: Origin) -> SkillTable:
    registry = SkillTable(style.naming(_RANKS))
    registry.replace_many({origin: [_ENTRY] for origin in origins})
    return registry


def _handles(style: Style, *origins: Origin) -> dict[str, str]:
    return {skill.origin.label: skill.handle for skill in _registry(style, *origins).skills()}


def _pair(handles: dict[str, str]) -> str:
    return ", ".join(_code(handle) for handle in handles.values())


def _signature(name: str, parameters: tuple[tuple[str, str], ...]) -> str:
    return f"{name}({', '.join(parameter for parameter, _ in parameters)})"


def _code(text: str) -> str:
    return f"`{text}`"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _seconds(value: float | None) -> str:
    return "as configured" if value is None else f"{value:g} s at most"
