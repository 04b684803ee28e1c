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
from skillwire.host.styles.fields import SkillFields, is_visible, typed_fields
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
    """What texts are rendered with: the limits, the salt of the fences, and what is known about files."""

    limits: Limits = DEFAULT_LIMITS
    salt: bytes = b""
    local_path: Callable[[Origin, SkillUri], str] = no_path
    """Where a file of a local skill is on disk; empty for a server's."""
    listed_files: Callable[[Origin, SkillUri], Sequence[SkillUri]] = no_files
    """The supporting files that a server lists for the skill at a URI, if its entry lists none."""

    def path_of(self, skill: RegisteredSkill) -> str:
        """Where a local skill's `SKILL.md` is on disk; empty for a server's."""
        return self.local_path(skill.origin, skill.uri)


class Question(Protocol):
    """The question to the user: may this skill be loaded, as it is now?"""

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
    """What a tool can do with the host. Every action goes through approval and verification."""

    async def load_for_model(self, name: str, server: str | None = None) -> str:
        """Load a skill and return its text."""
        ...

    async def read(self, name: str, path: str) -> str:
        """A file of a loaded skill."""
        ...

    async def list_files(self, name: str, path: str = "") -> str:
        """A directory of a loaded skill, one line for each child."""
        ...

    async def read_resource(self, server: str, uri: str) -> str:
        """A resource of a server; a skill's URI loads that skill (VER-7)."""
        ...

    async def read_anywhere(self, text: str, server: str | None = None) -> str:
        """A resource of the only server that has it, or a file of a local skill by its path or URI."""
        ...

    async def list_resources(self, server: str | None = None) -> str:
        """The resources of one server or of all, one line for each."""
        ...

    def knows(self, name: str) -> bool:
        """Whether a skill has this name."""
        ...

    def is_loaded(self, name: str) -> bool:
        """Whether the skill of this name is loaded."""
        ...


ToolAction: TypeAlias = Callable[[Actions, Mapping[str, Any]], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as it is described to a model, and what it does."""

    name: str
    description: str
    parameters: tuple[tuple[str, str], ...]
    """Each parameter, a string, with its description."""
    required: tuple[str, ...]
    action: ToolAction
    names: str = ""
    """The parameter that takes a name from the catalog. Its schema lists these names."""


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
    """No mark: lists show the origin of each skill anyway."""
    return ""


def plain_confirmation(question: Question) -> str:
    """The question as plain text. The skill's own description comes last, in quotation marks."""
    skill = question.skill
    lines = [f"Load the skill {skill.handle} from the {skill.origin}? ({question.reason.value})"]
    if question.nested:
        lines.append("It is inside another skill and needs an approval of its own.")
    if question.changes:
        lines.append(f"Files that changed since it was approved: {len(question.changes)}.")
    if question.requested_tools:
        tools = ", ".join(clean_line(tool, limit=100).text for tool in question.requested_tools)
        lines.append(f"It requests these tools; loading it does not grant them: {tools}")
    lines.append(f'Its own description: "{clean_line(skill.entry.description, limit=500).text}"')
    return "\n".join(lines)


def nothing_mentioned(message: str, skills: Sequence[RegisteredSkill]) -> Sequence[RegisteredSkill]:
    return ()


def load_line(skill: RegisteredSkill) -> str:
    """The call that loads a skill which the user mentioned."""
    return f"call {LOAD_TOOL}(name={json.dumps(skill.handle)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The conventions of one host. The defaults are those of `spec`."""

    name: str
    summary: str

    # Finding
    bare_scan: bool = False
    """Whether every `skill://` resource counts as a skill, even if its server does not say so (D0)."""
    peek: bool = False
    """Whether frontmatter is read early if the dialect has no metadata of its own (VER-5: D0 and D1)."""
    peek_index: bool = False
    """Whether the frontmatter of index skills is read early too: then the file is authoritative (C3)."""
    asks_everyone: bool = False
    """Whether servers that declare neither the extension nor resources are asked for an index too."""
    skill_folders: tuple[str, ...] = ()
    """More folders of skills, in the project and in the user's home."""
    config_folders: tuple[str, ...] = ()
    """More folders of skills, below the user's configuration directory."""
    command_folders: tuple[str, ...] = ()
    """Folders of flat command files, in the project and in the user's home, that are local skills too."""
    keeps_offline: bool = True
    """Whether approved skills stay listed while their server is unavailable."""
    listing_seconds: float | None = None
    """How long the listing of one server may take. After that, the server counts as one without skills."""
    call_seconds: float | None = None
    """The longest time for one request."""
    caps: tuple[tuple[str, int], ...] = ()
    """Fields of `Limits` that are lower in this style."""
    name_pattern: str = ""
    """The pattern for names of servers' skills, if the style allows less than the format."""
    own_name_only: bool = False
    """Whether a skill is refused if its file has another name than its listing, in any dialect."""
    plain_uris: bool = False
    """Whether URIs with control characters, encoded or not, are refused."""

    # Naming
    spellings: Spellings = spec_spellings
    keeper: KeeperOf = nobody_keeps

    # Rendering
    honored: frozenset[str] = frozenset({"name", "description", "allowed-tools"})
    """The frontmatter fields that have an effect."""
    catalog: Callable[[Sequence[RegisteredSkill], RenderContext], CatalogText] = spec_catalog
    skill_text: Callable[[VerifiedSkill, str, RenderContext], str] = spec_skill_text
    file_text: Callable[[VerifiedFile, str, RenderContext], str] = spec_file_text
    tag: Callable[[RegisteredSkill], str] = spec_tag
    confirmation: Callable[[Question], str] = plain_confirmation
    mentioned: Callable[[str, Sequence[RegisteredSkill]], Sequence[RegisteredSkill]] = nothing_mentioned
    """The skills that a user's message names with a marker such as `$`, each once, in order."""
    mention: Callable[[RegisteredSkill], str] = load_line
    """What tells a model to load a server's skill that the user mentioned."""

    # Tools
    tools: tuple[ToolSpec, ...]
    resource_tool: str = "read_resource"
    """The tool that reads URIs, for messages that refer to it."""

    def naming(self, ranks: Ranks) -> Naming:
        """How skills are named, given the rank of every origin."""
        return Naming(self.spellings, self.keeper(ranks))

    def limits(self, limits: Limits) -> Limits:
        """The lower of each limit and the style's own."""
        return replace(limits, **{cap: min(value, getattr(limits, cap)) for cap, value in self.caps})

    def seconds(self, given: float) -> float:
        """The time for one request: the shorter of the configured time and the style's own."""
        return given if self.call_seconds is None else min(given, self.call_seconds)

    def refusal(self, entry: SkillEntry, limits: Limits) -> str:
        """Why the style does not accept a server's skill, with the name of the limit; empty if it does."""
        name = plain_name(entry) if entry.draft and not entry.name else entry.name
        if self.name_pattern and not re.fullmatch(self.name_pattern, name):
            return (
                f"the name {shown(name)!r} does not match {self.name_pattern} (name_pattern of {self.name})"
            )
        spelling = entry.draft.spelling if entry.draft else ""
        longest = max(len(uri.encode("utf-8", "replace")) for uri in (entry.uri, spelling))
        if longest > limits.uri_bytes:
            return f"its URI has {longest:,} bytes, at most {limits.uri_bytes:,} are accepted (uri_bytes)"
        if self.plain_uris and _has_controls(entry):
            return f"its URI {shown_uri(entry.uri)} contains control characters (plain_uris of {self.name})"
        return ""

    def check(self, skill: VerifiedSkill, limits: Limits) -> None:
        """Raise if the style does not accept a verified skill. The error names the limit."""
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
        """The frontmatter fields that have an effect in this style. Requests, never grants (SEC-4)."""
        return typed_fields(frontmatter, self.honored)

    def visible(self, skills: Sequence[RegisteredSkill], working: Collection[str]) -> list[RegisteredSkill]:
        """The skills that are in the catalog while the user works on these paths."""
        if "paths" not in self.honored:
            return [*skills]
        return [skill for skill in skills if is_visible(self.fields(skill.entry.frontmatter).paths, working)]

    def server_view(self, origin: Origin, skills: Sequence[RegisteredSkill], limits: Limits) -> str:
        """A server and its skills, as text for a person."""
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
