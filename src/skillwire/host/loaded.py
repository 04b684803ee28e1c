"""What a host gives of loaded skills: their text, slash commands, and what to restore after a compaction."""

from __future__ import annotations

from dataclasses import dataclass

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill
from skillwire.catalog.replay import ActiveSkill, Candidate, Replay, fit_replay
from skillwire.host.loader import Loader
from skillwire.host.parts import HostParts
from skillwire.host.styles.fields import SkillFields
from skillwire.text import clean_line, safe_line
from skillwire.trust.approval import Grants, shown_digest
from skillwire.trust.origin import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A skill as a command that a user can type. What it does is `host.load(command.handle)`."""

    name: str
    description: str
    argument_hint: str
    """What can be typed after it, in the skill's own words; empty if the skill does not say."""
    origin: Origin
    handle: str
    session: str
    """The host that it works in: `host.session`."""
    is_loaded: bool
    """Whether the skill's text is in the context of this session."""


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill that is loaded. `text` is for the model, as a tool's result (SEC-12)."""

    skill: RegisteredSkill
    text: str
    grants: Grants
    fields: SkillFields
    """What its frontmatter asks for, as far as the style honors it. Requests, never grants (SEC-4)."""


def slash_commands(parts: HostParts, session: str) -> tuple[SlashCommand, ...]:
    """The skills that a user may invoke, as commands of one session."""
    most = parts.context.limits.description_chars
    return tuple(
        SlashCommand(
            name=f"/{skill.handle}",
            description=clean_line(skill.entry.description, limit=most).text,
            argument_hint=parts.style.fields(skill.entry.frontmatter).argument_hint,
            origin=skill.origin,
            handle=skill.handle,
            session=session,
            is_loaded=parts.loader.held_text(skill.key) is not None,
        )
        for skill in parts.resolver.invocable()
    )


def active_skills(loader: Loader) -> tuple[ActiveSkill, ...]:
    """What is loaded now, most recently loaded first."""
    found: list[ActiveSkill] = []
    for handle, held in loader.active():
        digest = shown_digest(held.entry)
        line = f"{handle} from {held.origin}, {digest or 'dynamic'}"
        found.append(ActiveSkill(handle, held.origin, held.entry, held.grants, digest, safe_line(line)))
    return tuple(found)


async def replay_active(parts: HostParts, budget: int) -> Replay:
    """The text of what is loaded, in `budget` characters; what may not be repeated is only named."""
    candidates: list[Candidate] = []
    for handle, held in parts.loader.active():
        found = await parts.loader.replayable(SkillKey(held.origin, held.entry.uri))
        if isinstance(found, str):
            candidates.append(Candidate(handle, "", None, problem=found))
        else:
            text = parts.style.skill_text(found, handle, parts.context)
            candidates.append(Candidate(handle, text, shown_digest(held.entry)))
    return fit_replay(candidates, budget)
