"""ServedTemplate: an entry of a server's index that stands for many skills, one for each set of values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skillwire.catalog import skill_path
from skillwire.errors import AmbiguousName, SkillNotFound
from skillwire.limits import Limits
from skillwire.skill import SkillUri
from skillwire.text import clean_line, escape_xml, shown
from skillwire.trust import Origin
from skillwire.wire import SkillTemplate


@dataclass(frozen=True, slots=True)
class ServedTemplate:
    """A template and its server. `host.load(name, values={...})` loads one of its skills."""

    origin: Origin
    template: SkillTemplate

    @property
    def uri_template(self) -> str:
        """The URI with its arguments in braces, as the server writes it."""
        return self.template.template

    @property
    def name(self) -> str:
        """Its name: the path of the URI, such as `docs/{product}`."""
        return "/".join(skill_path(SkillUri(self.uri_template)))

    @property
    def description(self) -> str:
        return self.template.description

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names in braces, in the order of the URI."""
        return self.template.arguments


def is_template(name: str) -> bool:
    """Whether this is the name of a template, not of a skill."""
    return "{" in name


def find_template(name: str, served: Iterable[ServedTemplate], server: str | None = None) -> ServedTemplate:
    """The template of this name or URI, on this server if one is given."""
    known = [one for one in served if server in (None, one.origin.label)]
    found = [one for one in known if name in (one.name, one.uri_template, f"{one.origin.label}/{one.name}")]
    if not found:
        there = ", ".join(one.name for one in known[:8]) or "none"
        raise SkillNotFound(f"no template is called {shown(name, 200)}; known: {shown(there, 400)}")
    if len(found) > 1:
        raise AmbiguousName(shown(name, 200), [one.origin.label for one in found], kind="servers")
    return found[0]


def templates_text(served: Iterable[ServedTemplate], tool: str, room: int, limits: Limits) -> str:
    """The templates as text for a model, after its catalog, as many as there is room for; empty if none fits.

    `tool` is the one that reads a resource: the URI of a skill loads that skill (VER-7).
    """
    how = f"Each of these stands for many skills: replace what is in braces, then call {tool} with that URI."
    lines = ["<skill_templates>", how, "</skill_templates>"]
    room -= sum(len(line) + 1 for line in lines)
    items: list[str] = []
    for one in served:
        said = clean_line(one.description, limit=limits.description_chars).text
        item = (
            f"<template><uri>{escape_xml(clean_line(one.uri_template).text)}</uri>"
            f"<description>{escape_xml(said)}</description>"
            f"<server>{escape_xml(one.origin.label)}</server></template>"
        )
        room -= len(item) + 1
        if room < 0:
            break
        items.append(item)
    return "\n".join([*lines[:2], *items, lines[2]]) if items else ""
