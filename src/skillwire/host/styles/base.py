"""Style: how a host names, merges, lists, loads and describes skills. Data and small pure functions.

A style changes conventions, never a rule: what is verified, approved, fenced and held is the same in all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from skillwire.catalog.naming import Naming, Spellings, plain_name, spec_spellings
from skillwire.catalog.registry import RegisteredSkill
from skillwire.catalog.render import LOAD_TOOL, CatalogText, render_catalog, render_file, render_skill
from skillwire.errors import FrontmatterMismatch, LimitExceeded
from skillwire.host.styles.fields import SkillFields, is_awake, typed_fields
from skillwire.host.styles.ranks import KeeperOf, Ranks, nobody_keeps
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, shown_uri, split_uri
from skillwire.text import clean_line
from skillwire.trust.approval import FileChange, Reason
from skillwire.trust.origin import Origin
from skillwire.trust.verify import VerifiedFile, VerifiedSkill


def no_path(origin: Origin, uri: SkillUri) -> str:
    return ""


def no_files(origin: Origin, uri: SkillUri) -> Sequence[SkillUri]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderContext:
    """What a text is made with: the limits, the fences' salt, and what is known of files."""

    limits: Limits = DEFAULT_LIMITS
    salt: bytes = b""
    local_path: Callable[[Origin, SkillUri], str] = no_path
    """Where a file of a local skill is on disk; empty for a server's."""
    listed_files: Callable[[Origin, SkillUri], Sequence[SkillUri]] = no_files
    """The supporting files that a server lists for the skill at a URI, where its entry does not say."""

    def path_of(self, skill: RegisteredSkill) -> str:
        """Where a local skill's `SKILL.md` is on disk; empty for a server's."""
        return self.local_path(skill.origin, skill.uri)


class Question(Protocol):
    """What the user is asked: may this skill be loaded, as it is now?"""

    @property
    def skill(self) -> RegisteredSkill: ...
    @property
    def reason(self) -> Reason: ...
    @property
    def changes(self) -> tuple[FileChange, ...]: ...
    @property
    def nested(self) -> bool: ...
    @property
    def requested_tools(self) -> tuple[str, ...]: ...


class Actions(Protocol):
    """What a tool can have the host do. Every one takes the way of approval and verification."""

    async def load_for_model(self, name: str, server: str | None = None) -> str:
        """Load a skill; its text."""
        ...

    async def read(self, name: str, path: str) -> str:
        """A file of a loaded skill."""
        ...

    async def list_files(self, name: str, path: str = "") -> str:
        """A directory of a loaded skill, a line for each child."""
        ...

    async def read_resource(self, server: str, uri: str) -> str:
        """A resource of a server; a skill's URI loads that skill (VER-7)."""
        ...

    async def read_anywhere(self, text: str, server: str | None = None) -> str:
        """A resource of the one server that has it, or a file of a local skill by its path or URI."""
        ...

    async def list_resources(self, server: str | None = None) -> str:
        """The resources of a server, or of all, a line for each."""
        ...

    def knows(self, name: str) -> bool:
        """Whether a skill is called so."""
        ...

    def is_loaded(self, name: str) -> bool:
        """Whether the skill of this name is held."""
        ...


ToolAction: TypeAlias = Callable[[Actions, Mapping[str, Any]], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told about it, and what it does."""

    name: str
    description: str
    parameters: tuple[tuple[str, str], ...]
    """Each parameter, a string, with its description."""
    required: tuple[str, ...]
    action: ToolAction
    names: str = ""
    """The parameter whose values are the names of the catalog, which its schema then lists."""


def spec_catalog(skills: Sequence[RegisteredSkill], context: RenderContext) -> CatalogText:
    return render_catalog(skills, limits=context.limits)


def spec_skill_text(skill: VerifiedSkill, handle: str, context: RenderContext) -> str:
    if type(skill) is not VerifiedSkill:
        raise TypeError("only a VerifiedSkill is rendered")
    files = context.listed_files(skill.origin, skill.entry.uri)
    return render_skill(skill, handle, files=files, limits=context.limits, salt=context.salt)


def spec_file_text(file: VerifiedFile, handle: str, context: RenderContext) -> str:
    return render_file(file, handle, salt=context.salt)


def spec_tag(skill: RegisteredSkill) -> str:
    """No mark of its own: whoever lists skills says where they come from."""
    return ""


def plain_confirmation(question: Question) -> str:
    """The question in plain lines. What the skill says of itself comes last, and as its own words."""
    skill = question.skill
    lines = [f"Load the skill {skill.handle} from the {skill.origin}? ({question.reason.value})"]
    if question.nested:
        lines.append("It lies inside another skill and needs a yes of its own.")
    if question.changes:
        lines.append(f"Files that changed since it was approved: {len(question.changes)}.")
    if question.requested_tools:
        tools = ", ".join(clean_line(tool, limit=100).text for tool in question.requested_tools)
        lines.append(f"It asks for these tools, and does not get them by this: {tools}")
    lines.append(f'It says of itself: "{clean_line(skill.entry.description, limit=500).text}"')
    return "\n".join(lines)


def nothing_mentioned(message: str, skills: Sequence[RegisteredSkill]) -> Sequence[RegisteredSkill]:
    return ()


def load_line(skill: RegisteredSkill) -> str:
    """How a model opens a skill that the user mentioned."""
    return f"call {LOAD_TOOL}(name={json.dumps(skill.handle)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """One host's conventions. Defaults are those of `spec`."""

    name: str
    summary: str

    # Finding
    bare_scan: bool = False
    """Whether `skill://` resources that no server calls skills are taken for some (D0)."""
    peek: bool = False
    """Whether frontmatter is read early where a dialect has no metadata of its own (VER-5: D0 and D1)."""
    peek_index: bool = False
    """Whether the frontmatter of index skills is read early, too: the file is authoritative then (C3)."""
    asks_everyone: bool = False
    """Whether servers that declare neither the extension nor resources are asked for an index, too."""
    skill_folders: tuple[str, ...] = ()
    """More folders of skills, in the project and in the user's home."""
    config_folders: tuple[str, ...] = ()
    """More folders of skills, below the user's configuration directory."""
    command_folders: tuple[str, ...] = ()
    """Folders of flat command files, in the project and in the user's home, that are local skills too."""
    keeps_offline: bool = True
    """Whether skills that were approved stay listed while their server is away."""
    listing_seconds: float | None = None
    """How long one server's listing may take; longer is as if it had none."""
    call_seconds: float | None = None
    """How long one request may take, at most."""
    caps: tuple[tuple[str, int], ...] = ()
    """Fields of `Limits` that are tighter here."""
    name_pattern: str = ""
    """What a server's skill names must match, when that is less than the format allows."""
    own_name_only: bool = False
    """Whether a skill is refused whose file gives another name than it was listed under, in any dialect."""
    plain_uris: bool = False
    """Whether URIs that hold control characters, encoded ones too, are refused."""

    # Naming
    spellings: Spellings = spec_spellings
    keeper: KeeperOf = nobody_keeps

    # RenderContext
    honored: frozenset[str] = frozenset({"name", "description", "allowed-tools"})
    """The frontmatter fields that have an effect."""
    catalog: Callable[[Sequence[RegisteredSkill], RenderContext], CatalogText] = spec_catalog
    skill_text: Callable[[VerifiedSkill, str, RenderContext], str] = spec_skill_text
    file_text: Callable[[VerifiedFile, str, RenderContext], str] = spec_file_text
    tag: Callable[[RegisteredSkill], str] = spec_tag
    confirmation: Callable[[Question], str] = plain_confirmation
    mentioned: Callable[[str, Sequence[RegisteredSkill]], Sequence[RegisteredSkill]] = nothing_mentioned
    """The skills that a user's message names by a sign, each once, in order."""
    mention: Callable[[RegisteredSkill], str] = load_line
    """What a model is told to do about a server's skill that the user mentioned."""

    # Tools
    tools: tuple[ToolSpec, ...]
    resource_tool: str = "read_resource"
    """The tool that reads URIs, for messages that send somebody there."""

    def naming(self, ranks: Ranks) -> Naming:
        """How skills are named, given the rank of every origin."""
        return Naming(self.spellings, self.keeper(ranks))

    def limits(self, limits: Limits) -> Limits:
        """The limits with the tighter caps of the style. None gets looser."""
        return replace(limits, **{cap: min(value, getattr(limits, cap)) for cap, value in self.caps})

    def seconds(self, given: float) -> float:
        """How long one request may take, no longer than the user said."""
        return given if self.call_seconds is None else min(given, self.call_seconds)

    def refusal(self, entry: SkillEntry, limits: Limits) -> str:
        """Why a server's skill is not taken in here, with the name of the cap; empty when it is."""
        name = plain_name(entry) if entry.draft and not entry.name else entry.name
        if self.name_pattern and not re.fullmatch(self.name_pattern, name):
            return (
                f"the name {shown(name)!r} does not match {self.name_pattern} (name_pattern of {self.name})"
            )
        spelling = entry.draft.spelling if entry.draft else ""
        longest = max(len(uri.encode("utf-8", "replace")) for uri in (entry.uri, spelling))
        if longest > limits.uri_bytes:
            return f"its URI has {longest:,} bytes, at most {limits.uri_bytes:,} are taken (uri_bytes)"
        if self.plain_uris and _has_controls(entry):
            return f"its URI {shown_uri(entry.uri)} holds control characters (plain_uris of {self.name})"
        return ""

    def check(self, skill: VerifiedSkill, limits: Limits) -> None:
        """Refuse a skill that passed verification and is still not for this style, with the cap's name."""
        size = len(skill.body.encode("utf-8", "replace"))
        if size > limits.body_bytes:
            raise LimitExceeded(
                f"{shown_uri(skill.entry.uri)} has {size:,} bytes of text, at most {limits.body_bytes:,} are "
                "loaded (body_bytes): ask for a smaller skill"
            )
        name = skill.frontmatter.get("name", skill.entry.name)
        if self.own_name_only and name != skill.entry.name:
            raise FrontmatterMismatch(uri=shown_uri(skill.entry.uri), differences=["name"])

    def fields(self, frontmatter: Mapping[str, Any]) -> SkillFields:
        """The frontmatter's fields that have an effect here. Requests, never grants (SEC-4)."""
        return typed_fields(frontmatter, self.honored)

    def awake(self, skills: Sequence[RegisteredSkill], working: Collection[str]) -> list[RegisteredSkill]:
        """The skills that are shown while these paths are worked on."""
        if "paths" not in self.honored:
            return [*skills]
        return [skill for skill in skills if is_awake(self.fields(skill.entry.frontmatter).paths, working)]

    def server_view(self, origin: Origin, skills: Sequence[RegisteredSkill], limits: Limits) -> str:
        """A server's own view for a person, with its skills."""
        lines = [str(origin), "Skills:"]
        own = [skill for skill in skills if skill.origin == origin]
        for skill in own:
            said = clean_line(skill.entry.description, limit=limits.description_chars).text
            parts = (skill.handle, self.tag(skill), said)
            lines.append(f"- {' '.join(part for part in parts if part)}")
        return "\n".join(lines if own else [*lines, "(none)"])


def _has_controls(entry: SkillEntry) -> bool:
    parts = split_uri(entry.uri)
    decoded = "".join((parts.authority, *parts.segments))
    return any(not char.isprintable() for char in decoded)
