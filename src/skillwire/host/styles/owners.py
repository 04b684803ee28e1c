"""Who serves a URI, when a tool is given a URI alone."""

from __future__ import annotations

from collections.abc import Iterable

from skillwire.catalog.registry import RegisteredSkill
from skillwire.errors import AmbiguousName, SkillNotFound
from skillwire.skill.uris import SkillUri, is_inside, shown_uri, skill_root
from skillwire.trust.origin import Origin


def owner_of(uri: SkillUri, skills: Iterable[RegisteredSkill], servers: Iterable[Origin]) -> Origin:
    """The one server that serves a URI: by its skills, else the only server there is.

    Two servers that serve it are a collision, and nobody guesses: `AmbiguousName` (ENT-4).
    """
    owners = {
        skill.origin
        for skill in skills
        if not skill.origin.is_local and (skill.uri == uri or is_inside(uri, skill_root(skill.uri)))
    }
    candidates = sorted(owners or set(servers))
    if not candidates:
        raise SkillNotFound(f"no server serves {shown_uri(uri)}: check the URI", uri=uri)
    if len(candidates) > 1:
        raise AmbiguousName(shown_uri(uri), [origin.label for origin in candidates])
    return candidates[0]
