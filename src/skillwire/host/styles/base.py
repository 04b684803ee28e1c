"""Style: how a host names, merges, lists, loads and describes skills. Data and small pure functions.

A style changes conventions, never a rule: what is verified, approved, fenced and held is the same in all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, Protocol, TypeAlias

from skillwire.catalog import (
    LOAD_TOOL,
    CatalogText,
    Collision,
    HostSkill,
    Keeper,
    Naming,
    SkillKey,
    Spellings,
    fold_handle,
    plain_name,
    render_catalog,
    render_file,
    render_skill,
)
from skillwire.catalog.table import nobody, spec_spellings
from skillwire.consent import file_lines, single_file
from skillwire.documents import JsonValue
from skillwire.errors import AmbiguousName, FrontmatterMismatch, LimitExceeded, SkillNotFound
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import SkillEntry, SkillResource, SkillUri, is_inside, shown_uri, skill_root, split_uri
from skillwire.text import clean_line, shown
from skillwire.trust import (
    FileChange,
    Origin,
    Reason,
    VerifiedFile,
    VerifiedSkill,
    looks_like_uri,
    requested_tools,
)

_MENTION: Final = re.compile(r"(?<![\w$\\])\$([^\W_][\w.:/~-]*)")
INVOCATION: Final = frozenset({"disable-model-invocation", "user-invocable", "argument-hint"})
"""Who may invoke a skill, and with what. They apply in every style, because they only restrict."""
ALL_FIELDS: Final = INVOCATION | frozenset(
    ("name", "description", "allowed-tools", "model", "effort", "when-to-use", "paths")
)
_LINE: Final = 1024
_WORD: Final = 100
_GLOBS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFields:
    """The fields that a style supports. All others are empty, whatever the skill says."""

    name: str = ""
    """The name in the frontmatter; the handle, once the skill is loaded."""
    description: str = ""
    allowed_tools: tuple[str, ...] = ()
    model: str = ""
    effort: str = ""
    when_to_use: str = ""
    paths: tuple[str, ...] = ()
    argument_hint: str = ""
    """Arguments that a user can type after its slash command."""
    disable_model_invocation: bool = False
    """Whether only users may load it: the model does not see it."""
    user_invocable: bool = True
    """Whether it is a slash command for users."""


def typed_fields(frontmatter: Mapping[str, JsonValue], honored: Collection[str] = ALL_FIELDS) -> SkillFields:
    """The fields of a frontmatter. A field of an unexpected type is ignored."""

    def get(key: str) -> JsonValue:
        counts = key in honored or key in INVOCATION
        return frontmatter.get(key, frontmatter.get(key.replace("-", "_"))) if counts else None

    return SkillFields(
        name=_line(get("name"), _WORD),
        description=_line(get("description"), _LINE),
        allowed_tools=requested_tools(get("allowed-tools")),
        model=_line(get("model"), _WORD),
        effort=_line(get("effort"), _WORD),
        when_to_use=_line(get("when-to-use"), _LINE),
        paths=_globs(get("paths")),
        argument_hint=_line(get("argument-hint"), _LINE),
        disable_model_invocation=get("disable-model-invocation") is True,
        user_invocable=get("user-invocable") is not False,
    )


def is_visible(paths: Collection[str], working: Collection[str]) -> bool:
    """Whether a skill with these globs is in the catalog: if it has none, or one matches a working path."""
    return not paths or any(glob_matches(glob, path) for glob in paths for path in working)


def glob_matches(glob: str, path: str) -> bool:
    """Whether a glob matches a path: `*` and `?` stay within a segment, `**` matches any number of them.

    A glob without a slash matches a file of that name in any directory. As the glob may come from a hostile
    server, the time is bounded by the product of both lengths.
    """
    pattern = glob.replace("\\", "/").strip("/").split("/")
    segments = path.replace("\\", "/").strip("/").split("/")
    if len(pattern) == 1 and pattern != ["**"]:
        return _segment_matches(pattern[0], segments[-1])
    # reached[n]: whether the pattern so far matches the first n segments.
    reached = [True] + [False] * len(segments)
    for part in pattern:
        if part == "**":
            for at in range(1, len(reached)):
                reached[at] = reached[at] or reached[at - 1]
        else:
            fits = [_segment_matches(part, segment) for segment in segments]
            reached = [False] + [before and fit for before, fit in zip(reached, fits, strict=False)]
    return reached[-1]


def _segment_matches(pattern: str, text: str) -> bool:
    at = mark = 0
    star = -1
    place = 0
    while place < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, mark, at = at, place, at + 1
        elif at < len(pattern) and pattern[at] in ("?", text[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            mark += 1
            at, place = star + 1, mark
        else:
            return False
    return not pattern[at:].strip("*")


def _line(value: JsonValue, limit: int) -> str:
    return clean_line(value, limit=limit).text if isinstance(value, str) else ""


def _globs(value: JsonValue) -> tuple[str, ...]:
    if isinstance(value, str):
        value = list(value.split(","))
    if not isinstance(value, list):
        return ()
    lines = (_line(item, _WORD) for item in value[:_GLOBS])
    return tuple(line for line in lines if line)


class Layer(IntEnum):
    """Where skills come from, in the order of Wayland: the first takes precedence."""

    BUNDLED = 0
    """Skills that are part of the agent."""
    MCP = 1
    USER = 2
    PROJECT = 3
    ADDED = 4
    """A directory that was named for this run."""
    COMMANDS = 5
    """A folder of flat command files, which agents used before skills."""


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """A layer, and the position of the origin among those that the user named in it."""

    layer: Layer
    number: int


Ranks: TypeAlias = Mapping[Origin, Rank]
KeeperOf: TypeAlias = Callable[[Ranks], Keeper]


def nobody_keeps(ranks: Ranks) -> Keeper:
    """No skill keeps the name: all are shown with their origin."""
    return nobody


def highest_layer_keeps(ranks: Ranks) -> Keeper:
    """The skill of the first layer keeps the name; within a layer, that of the origin named first."""
    return lambda claimants: _single_best(claimants, lambda origin: (False, ranks[origin]))


def local_then_first_keeps(ranks: Ranks) -> Keeper:
    """A local skill keeps the name; if there is none, the skill of the server that was named first."""
    return lambda claimants: _single_best(claimants, lambda origin: (not origin.is_local, ranks[origin]))


def local_keeps(ranks: Ranks) -> Keeper:
    """A local skill keeps the name; a skill of a server never does."""

    def keeper(claimants: Sequence[SkillKey]) -> SkillKey | None:
        local = [key for key in claimants if key.origin.is_local]
        return _single_best(local, lambda origin: (False, ranks[origin])) if local else None

    return keeper


def _single_best(
    claimants: Sequence[SkillKey], order: Callable[[Origin], tuple[bool, Rank]]
) -> SkillKey | None:
    """The skill of the best rank, unless its origin has two of that name, which need their paths (ENT-5)."""
    best = min((key.origin for key in claimants), key=order)
    keys = [key for key in claimants if key.origin == best]
    return keys[0] if len(keys) == 1 else None


def collision_lines(collision: Collision) -> tuple[str, ...]:
    """Messages for the user: one for each skill that is masked by another, or one for all."""
    winners = [skill for skill in collision.skills if skill.handle == collision.handle]
    if len(winners) != 1:
        return (str(collision),)
    (winner,) = winners
    return tuple(
        f"{collision.handle} from {skill.origin} is masked by the one from {winner.origin}; "
        f"it can be loaded as {skill.handle}"
        for skill in collision.skills
        if skill.key != winner.key
    )


def file_refusal(path: str, tool: str) -> str:
    """Why a file tool must refuse this path; empty if it is a path. `tool` is the one that reads URIs."""
    # SEC-3: `file:/x` has only one slash, but is a URI too.
    if not looks_like_uri(path):
        return ""
    return f"{shown(path)} is a URI, not a file: read it with {tool}"


def owner_of(
    uri: SkillUri, skills: Iterable[HostSkill], listing: Iterable[Origin], servers: Iterable[Origin]
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


def no_path(origin: Origin, uri: SkillUri) -> str:
    return ""


def no_files(origin: Origin, uri: SkillUri) -> Sequence[SkillUri]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderContext:
    """The context in which texts are rendered: the limits, the salt of the fences, and what is known about
    files."""

    limits: Limits = DEFAULT_LIMITS
    salt: bytes = b""
    local_path: Callable[[Origin, SkillUri], str] = no_path
    """Where a file of a local skill is on disk; empty for a server's."""
    listed_files: Callable[[Origin, SkillUri], Sequence[SkillUri]] = no_files
    """The supporting files that a server lists for the skill at a URI, if its entry lists none."""

    def path_of(self, skill: HostSkill) -> str:
        """Where a local skill's `SKILL.md` is on disk; empty for a server's."""
        return self.local_path(skill.origin, skill.uri)


class Question(Protocol):
    """The question to the user: may this skill be loaded, as it is now?"""

    @property
    def skill(self) -> HostSkill: ...
    @property
    def files(self) -> tuple[SkillResource, ...]: ...
    @property
    def reason(self) -> Reason: ...
    @property
    def changes(self) -> tuple[FileChange, ...]: ...
    @property
    def nested(self) -> bool: ...
    @property
    def requested_tools(self) -> tuple[str, ...]: ...


class Actions(Protocol):
    """The actions of a tool on its host. Every action goes through approval and verification."""

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


def spec_catalog(skills: Sequence[HostSkill], context: RenderContext) -> CatalogText:
    return render_catalog(skills, limits=context.limits)


def spec_skill_text(skill: VerifiedSkill, handle: str, context: RenderContext) -> str:
    if type(skill) is not VerifiedSkill:
        raise TypeError("only a VerifiedSkill is rendered")
    files = context.listed_files(skill.origin, skill.entry.uri)
    return render_skill(skill, handle, files=files, limits=context.limits, salt=context.salt)


def spec_file_text(file: VerifiedFile, handle: str, context: RenderContext) -> str:
    return render_file(file, handle, salt=context.salt)


def spec_tag(skill: HostSkill) -> str:
    """No mark: lists show the origin of each skill anyway."""
    return ""


def plain_confirmation(question: Question) -> str:
    """The question as plain text. The skill's own description comes last, in quotation marks."""
    skill = question.skill
    lines = [f"{_act(question)} from the {skill.origin}?", question.reason.sentence, *covered_lines(question)]
    if question.nested:
        lines.append("It is inside another skill and needs an approval of its own.")
    if question.changes:
        lines.append(f"Files that changed since it was approved: {len(question.changes)}.")
    if question.requested_tools:
        tools = ", ".join(clean_line(tool, limit=100).text for tool in question.requested_tools)
        lines.append(f"It requests these tools; loading it does not grant them: {tools}")
    lines.append(f'Its own description: "{clean_line(skill.entry.description, limit=500).text}"')
    return "\n".join(lines)


def _act(question: Question) -> str:
    skill = question.skill
    if path := single_file(skill.entry, question.files):
        return f"Read {path} of the skill {skill.handle}"
    return f"Load the skill {skill.handle}"


def covered_lines(question: Question) -> list[str]:
    """The files that a yes covers, a line for each."""
    return ["A yes covers:", *(f"- {line}" for line in file_lines(question.skill.entry, question.files))]


def dollar_mentions(message: str, skills: Sequence[HostSkill]) -> Sequence[HostSkill]:
    """The skills that a user's message mentions as `$name` or `$server/name`, each once, in order."""
    by_name: dict[str, HostSkill] = {fold_handle(skill.handle): skill for skill in skills}
    for skill in skills:
        by_name.setdefault(fold_handle(f"{skill.origin.label}/{skill.entry.name}"), skill)
    found: dict[str, HostSkill] = {}
    for match in _MENTION.finditer(message):
        name = match[1]
        # `$refunds.` at the end of a sentence is `$refunds`.
        while name and fold_handle(name) not in by_name and name[-1] in ".:/~-_":
            name = name[:-1]
        if skill := by_name.get(fold_handle(name)):
            found.setdefault(skill.handle, skill)
    return [*found.values()]


def load_call(tool: str, parameter: str) -> Callable[[HostSkill], str]:
    """Writes the call that loads a skill which the user mentioned."""

    def line(skill: HostSkill) -> str:
        return f"call {tool}({parameter}={json.dumps(skill.handle)})"

    return line


_LOAD_CALL: Final = load_call(LOAD_TOOL, "name")


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
    catalog: Callable[[Sequence[HostSkill], RenderContext], CatalogText] = spec_catalog
    skill_text: Callable[[VerifiedSkill, str, RenderContext], str] = spec_skill_text
    file_text: Callable[[VerifiedFile, str, RenderContext], str] = spec_file_text
    tag: Callable[[HostSkill], str] = spec_tag
    confirmation: Callable[[Question], str] = plain_confirmation
    mentioned: Callable[[str, Sequence[HostSkill]], Sequence[HostSkill]] = dollar_mentions
    """The skills that a user's message names with a marker such as `$`, each once, in order."""
    mention: Callable[[HostSkill], str] = _LOAD_CALL
    """Return the text that tells a model to load a server's skill that the user mentioned."""

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
        if self.name_pattern:
            name = plain_name(entry) if entry.draft and not entry.name else entry.name
            if not re.fullmatch(self.name_pattern, name):
                pattern = f"{self.name_pattern} (name_pattern of {self.name})"
                return f"the name {shown(name)!r} does not match {pattern}"
        longest = len(entry.uri.encode("utf-8", "replace"))
        if entry.draft:
            longest = max(longest, len(entry.draft.spelling.encode("utf-8", "replace")))
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

    def visible(self, skills: Sequence[HostSkill], working: Collection[str]) -> list[HostSkill]:
        """The skills that are in the catalog while the user works on these paths."""
        if "paths" not in self.honored:
            return [*skills]
        return [skill for skill in skills if is_visible(self.fields(skill.entry.frontmatter).paths, working)]

    def server_view(self, origin: Origin, skills: Sequence[HostSkill], limits: Limits) -> str:
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
