"""Approval: what the user agreed to, and whether it covers the current files of a skill (SEC-5, SEC-6).

An approval is bound to the set of (URI, digest) of a skill's files. Any other set needs another approval. A
dynamic skill has no such set: the user can only approve what was shown, and the approval covers exactly those
bytes. `admission.py` decides what follows from an approval.

The guards say what a model may do while skills of a server are in its context (SEC-2, SEC-3, SEC-4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from skillwire.documents import JsonValue
from skillwire.skill import (
    DYNAMIC,
    SKILL_FILE,
    Digest,
    SetDigest,
    SkillEntry,
    SkillUri,
    path_below,
    set_digest,
    skill_root,
)
from skillwire.trust.origin import Origin
from skillwire.trust.verify import CheckedEntry, VerifiedFile

ResourceSet: TypeAlias = frozenset[tuple[SkillUri, Digest]]


class ApprovalMode(StrEnum):
    """The decision of a user about all skills of one server."""

    PROMPT = "prompt"
    """Ask about skills that are not approved."""
    PINNED = "pinned"
    """Load only approved skills; do not ask."""
    ALWAYS = "always"
    """Load without asking. Covers neither grants nor nested skills."""
    NEVER = "never"
    """Load nothing, approved or not."""


class Reason(StrEnum):
    """Why a skill may not be loaded."""

    NEW = "new"
    """There is no approval of this skill from this origin."""
    CHANGED = "changed"
    """Other files of it were approved than those that it has now."""
    SIGNER = "signer"
    """Its signer changed, although its server's approval mode would load it without asking."""
    UNBINDABLE = "unbindable"
    """Its content is generated on request, so no approval can be bound to it beforehand: the user is asked
    about the text that was seen."""
    DENIED = "denied"
    """The approval mode, the configuration or an earlier decision refuses it. The user is not asked."""

    @property
    def sentence(self) -> str:
        """Why the user is asked, for a person to read."""
        return _SENTENCES[self]


_SENTENCES: Final = {
    Reason.NEW: "It is not approved.",
    Reason.CHANGED: "It changed since you approved it.",
    Reason.SIGNER: "It has another signer than before.",
    Reason.UNBINDABLE: "Its server lists no digests: a yes is for these files, as they are now.",
    Reason.DENIED: "It is refused.",
}


class ChangeKind(StrEnum):
    """How a file differs between two versions of a skill, usually the approved one and the current one.

    The values are those of JSON output.
    """

    ADDED = "added"
    """Only the later version has it."""
    CHANGED = "changed"
    """Both have it, with different bytes."""
    REMOVED = "removed"
    """Only the earlier version has it."""


@dataclass(frozen=True, slots=True, order=True)
class FileChange:
    """One file that differs from what was approved.

    Changes sort by URI, so that the same ones are always shown in the same order.
    """

    uri: SkillUri
    kind: ChangeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """The permissions of a skill beyond being read. The user grants each to one skill (SEC-2, SEC-4)."""

    allowed_tools: bool = False
    execute_code: bool = False
    scripts: frozenset[tuple[str, str]] = frozenset()
    """Permissions of scripts in the sandbox: pairs of a script's path and `run`, `read:PATH`, `net:HOST` and
    so on. It gives nothing outside of the sandbox."""


NO_GRANTS: Final = Grants()
ALL_GRANTS: Final = Grants(allowed_tools=True, execute_code=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The approval of a user: the files that they agreed to (SEC-6).

    A `bound` approval covers all files of an entry, any other the files of a dynamic skill that were shown.
    """

    origin: Origin
    uri: SkillUri
    resources: ResourceSet
    grants: Grants = NO_GRANTS
    bound: bool = True


class Coverage(StrEnum):
    """How an approval relates to the current files of a skill."""

    NONE = "none"
    """There is no approval, or it is for another skill or origin."""
    EQUAL = "equal"
    """Exactly this was approved."""
    OTHER = "other"
    """Other files were approved: the skill changed, and a stored approval is revoked."""


def resource_set(entry: SkillEntry) -> ResourceSet:
    """The set that an approval of this entry is bound to; empty for a dynamic skill."""
    if entry.resources is DYNAMIC:
        return frozenset()
    return frozenset((resource.uri, resource.digest) for resource in entry.resources)


def shown_digest(entry: SkillEntry) -> SetDigest | None:
    """The digest of all files of a skill, which identifies the set that was shown to a user.

    `None` for a dynamic skill. A `FormatError` if the entry is not a valid set of files, for example if two
    have the same path.
    """
    if entry.resources is DYNAMIC:
        return None
    root = skill_root(entry.uri)
    return set_digest(("/".join(path_below(file.uri, root)), file.digest) for file in entry.resources)


def seen_digest(entry: SkillEntry, seen: ResourceSet) -> SetDigest:
    """The digest of what was shown of a dynamic skill."""
    root = skill_root(entry.uri)
    return set_digest(("/".join(path_below(uri, root)), digest) for uri, digest in seen)


def seen_set(files: Iterable[VerifiedFile]) -> ResourceSet:
    """The files of a dynamic skill that were shown."""
    return frozenset((file.uri, file.digest) for file in files)


def approve(
    entry: CheckedEntry, origin: Origin, *, grants: Grants = NO_GRANTS, seen: ResourceSet = frozenset()
) -> Approval:
    """The approval that a user gives. For a dynamic skill, it only covers `seen`."""
    return Approval(
        origin=origin,
        uri=entry.uri,
        resources=seen if entry.is_dynamic else resource_set(entry),
        grants=grants,
        bound=not entry.is_dynamic,
    )


def coverage(
    approval: Approval | None, origin: Origin, entry: SkillEntry, seen: ResourceSet = frozenset()
) -> Coverage:
    """Whether an approval covers exactly this skill. Only this function compares approvals with entries."""
    # ENT-4: an approval of another server or skill does not count.
    if approval is None or (approval.origin, approval.uri) != (origin, entry.uri):
        return Coverage.NONE
    if entry.is_dynamic:
        # SEC-6: what was not shown was not approved.
        is_covered = not approval.bound and bool(seen) and seen <= approval.resources
    else:
        # SEC-6: the same files with the same digests, no more and no fewer.
        is_covered = approval.bound and approval.resources == resource_set(entry)
    return Coverage.EQUAL if is_covered else Coverage.OTHER


def difference(old: ResourceSet, new: ResourceSet) -> tuple[FileChange, ...]:
    """The differences between two sets, file by file."""
    before = {uri for uri, _ in old}
    after = {uri for uri, _ in new}
    changes = [FileChange(uri, ChangeKind.ADDED) for uri in after - before]
    changes += [FileChange(uri, ChangeKind.REMOVED) for uri in before - after]
    differing = {uri for uri, _ in old ^ new}
    changes += [FileChange(uri, ChangeKind.CHANGED) for uri in differing & before & after]
    return tuple(sorted(changes))


def is_nested(uri: SkillUri, uris: Collection[SkillUri]) -> bool:
    """Whether a skill is inside another one of the same origin (FMT-8, SEC-5). Pass `uris` as a set, so that
    this takes one lookup for each level of the path.
    """
    directory = skill_root(uri)
    while True:
        directory = directory.rpartition("/")[0]
        if directory.endswith("/"):  # Only the scheme is left.
            return False
        if f"{directory}/{SKILL_FILE}" in uris:
            return True


# Words; `Bash(git add:*)` is a single one.
_TOOL: Final = re.compile(r"[^\s,()]+(?:\([^()]*\))?")


@dataclass(frozen=True, slots=True)
class HeldSkill:
    """A loaded skill with its entry, until it is released (VER-3)."""

    origin: Origin
    entry: CheckedEntry
    grants: Grants

    @property
    def granted_tools(self) -> frozenset[str]:
        """The `allowed-tools` patterns that it requests, if the user granted them to it (SEC-4)."""
        if not self.grants.allowed_tools:
            return frozenset()
        return frozenset(requested_tools(self.entry.frontmatter.get("allowed-tools")))


@dataclass(frozen=True, slots=True)
class Execution:
    """Whether a tool may be called now, and the held skills that prevent it."""

    blocked_by: tuple[HeldSkill, ...] = ()

    @property
    def allowed(self) -> bool:
        return not self.blocked_by

    def __str__(self) -> str:
        if self.allowed:
            return "may be called"
        skills = ", ".join(f"{held.entry.uri} from {held.origin}" for held in self.blocked_by)
        return f"may run code, and no grant for that was given to {skills}: ask the user"


def may_execute(tool: str, held: Iterable[HeldSkill], *, safe_tools: Collection[str] = ()) -> Execution:
    """Whether a host's tool may be called while these skills are held (SEC-2).

    A tool that is not in the host's `safe_tools` counts as code execution. Then every held skill of a server
    needs the grant, because it is unknown which text caused the call.
    """
    if tool in safe_tools:
        return Execution()
    return Execution(
        tuple(skill for skill in held if not skill.origin.is_own and not skill.grants.execute_code)
    )


def granted_tools(held: Iterable[HeldSkill]) -> frozenset[str]:
    """The `allowed-tools` patterns that may be called without asking, while these skills are held (SEC-4).

    A skill's request only counts with the user's grant. While skills of servers or projects are held, a
    pattern only counts if every one of them requests it and has the grant; otherwise one skill's text could
    use what another was granted.
    """
    skills = tuple(held)
    patterns = frozenset(pattern for skill in skills for pattern in skill.granted_tools)
    for skill in skills:
        if not skill.origin.is_own:
            patterns &= skill.granted_tools
    return patterns


def requested_tools(value: JsonValue) -> tuple[str, ...]:
    """The patterns of an `allowed-tools` field, a string or a list. They are requests, not grants."""
    if isinstance(value, str):
        return tuple(_TOOL.findall(value))
    if isinstance(value, list):
        return tuple(item.strip() for item in value if isinstance(item, str) and item.strip())
    return ()


class ReadScope(StrEnum):
    """Whether a server's resource may be read while skills are held."""

    FREE = "free"
    """No skill of any server is held."""
    SAME_ORIGIN = "same-origin"
    """All held skills of servers come from the same server."""
    NEEDS_APPROVAL = "needs-approval"
    """A skill of another server is held, whose text may have caused the read. The user has to approve this
    call."""
    REFUSED = "refused"
    """Never: the URI names a local file, or is not a URI."""


@dataclass(frozen=True, slots=True)
class ReadRuling:
    """A decision on one read. `others` are the origins of held skills that are not the target."""

    scope: ReadScope
    target: Origin
    others: tuple[Origin, ...] = ()

    def __str__(self) -> str:
        if self.scope is ReadScope.REFUSED:
            return "is not the URI of a server's resource: file: URIs and plain paths are never read"
        if self.scope is ReadScope.NEEDS_APPROVAL:
            held = ", ".join(str(origin) for origin in self.others)
            return f"a skill from {held} is in use, and the read goes to {self.target}: ask the user"
        return f"may be read from {self.target}"


def read_scope(uri: str, target: Origin, held: Iterable[Origin]) -> ReadRuling:
    """Whether `uri` on the server `target` may be read while skills of these origins are held (SEC-3).

    Local skills do not count: only a server's text must not access another server.
    """
    scheme = uri_scheme(uri)
    if scheme is None or scheme == "file":
        return ReadRuling(ReadScope.REFUSED, target)
    servers = sorted({origin for origin in held if not origin.is_local})
    others = tuple(origin for origin in servers if origin != target)
    if others:
        return ReadRuling(ReadScope.NEEDS_APPROVAL, target, others)
    return ReadRuling(ReadScope.SAME_ORIGIN if servers else ReadScope.FREE, target)


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# Some URL parsers drop white space and controls, so `fi\nle:` is `file:` to them.
_DROPPED: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029]")


def uri_scheme(text: str) -> str | None:
    """The scheme of a URI in lower case, as a lenient parser would find it; `None` for a plain path."""
    match = _SCHEME.match(_DROPPED.sub("", text))
    return match[1].lower() if match else None


def looks_like_uri(text: str) -> bool:
    """Whether a file tool was given a URI, which it must not open as a path, whatever the scheme (SEC-3).

    `C:/notes.md` is a path with a drive, so one letter is a scheme only before two slashes.
    """
    scheme = uri_scheme(text)
    if scheme is None:
        return False
    rest = _DROPPED.sub("", text)[len(scheme) + 1 :]
    return len(scheme) > 1 or rest.startswith(("//", "\\\\"))
