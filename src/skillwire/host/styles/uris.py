"""URIs that a model passes to a tool: whether a text is one, and which server has it."""

from __future__ import annotations

from collections.abc import Iterable

from skillwire.catalog.registry import RegisteredSkill
from skillwire.errors import AmbiguousName, SkillNotFound
from skillwire.issues import shown
from skillwire.skill.uris import SkillUri, is_inside, shown_uri, skill_root
from skillwire.trust.guards import looks_like_uri
from skillwire.trust.origin import Origin


def file_refusal(path: str, tool: str) -> str:
    """Why a file tool must refuse this path; empty if it is a path. `tool` is the one that reads URIs."""
    # SEC-3: `file:/x` has only one slash, but is a URI too.
    if not looks_like_uri(path):
        return ""
    return f"{shown(path)} is a URI, not a file: read it with {tool}"


def owner_of(
    uri: SkillUri, skills: Iterable[RegisteredSkill], listing: Iterable[Origin], servers: Iterable[Origin]
) -> Origin:
    """The only server that has a URI: by its skills, otherwise by its listing, otherwise the only server.

    If several have it, this is an `AmbiguousName` (ENT-4).
    """
    owners = {
        skill.origin
        for skill in skills
        if not skill.origin.is_local and (skill.uri == uri or is_inside(uri, skill_root(skill.uri)))
    }
    candidates = sorted(owners or set(listing) or set(servers))
    if not candidates:
        raise SkillNotFound(f"no server serves {shown_uri(uri)}: check the URI", uri=uri)
    if len(candidates) > 1:
        raise AmbiguousName(shown_uri(uri), [origin.label for origin in candidates], kind="servers")
    return candidates[0]
