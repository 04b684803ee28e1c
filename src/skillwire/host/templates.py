"""ServedTemplate: an entry of a server's index that stands for many skills, one for each value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skillwire.catalog.naming import skill_path
from skillwire.errors import AmbiguousName, SkillNotFound
from skillwire.issues import shown
from skillwire.skill.uris import SkillUri
from skillwire.trust.origin import Origin
from skillwire.wire.templates import SkillTemplate


@dataclass(frozen=True, slots=True)
class ServedTemplate:
    """A template and the server that has it. `host.load(name, values={...})` loads a skill of it."""

    origin: Origin
    template: SkillTemplate

    @property
    def uri_template(self) -> str:
        """The URI with its arguments in braces, as the server writes it."""
        return self.template.template

    @property
    def name(self) -> str:
        """What it is called here: its path, as in `docs/{product}`."""
        return "/".join(skill_path(SkillUri(self.uri_template)))

    @property
    def description(self) -> str:
        return self.template.description

    @property
    def arguments(self) -> tuple[str, ...]:
        """What has to be filled in, in the order of the URI."""
        return self.template.arguments


def is_template(name: str) -> bool:
    """Whether a name is that of a template, not of a skill."""
    return "{" in name


def find_template(name: str, served: Iterable[ServedTemplate], server: str | None = None) -> ServedTemplate:
    """The template of this name or URI, on this server if one is given."""
    known = [one for one in served if server in (None, one.origin.label)]
    found = [one for one in known if name in (one.name, one.uri_template, f"{one.origin.label}/{one.name}")]
    if not found:
        there = ", ".join(one.name for one in known[:8]) or "none"
        raise SkillNotFound(f"no template is called {shown(name, 200)}; there is {shown(there, 400)}")
    if len(found) > 1:
        raise AmbiguousName(shown(name, 200), [one.origin.label for one in found], kind="servers")
    return found[0]
