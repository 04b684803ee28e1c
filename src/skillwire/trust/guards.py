"""Guards: what a model may do while skills of a server are in its context (SEC-2, SEC-3, SEC-4)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from skillwire.json_types import JsonValue
from skillwire.trust.approval import Grants
from skillwire.trust.origin import Origin
from skillwire.trust.verify import CheckedEntry

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
