"""Lock: which skills are installed, pinned to what, as `skillwire.lock` says. Only values; `lock_format.py`
has the text of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self, TypeAlias

from skillwire.errors import SkillNotFound
from skillwire.install.powers import Powers
from skillwire.issues import shown
from skillwire.skill.digests import Digest, SetDigest
from skillwire.skill.names import SkillName

LOCK_NAME: Final = "skillwire.lock"
UNSIGNED: Final = "unsigned"

Extra: TypeAlias = tuple[tuple[str, Any], ...]


class LockedFile(NamedTuple):
    """One file of a pinned skill."""

    path: str
    digest: Digest
    size: int
    executable: bool = False
    extra: Extra = ()


@dataclass(frozen=True, slots=True)
class Pin:
    """Where a skill came from, as exactly as its kind of source can say.

    `mcp`: `server`, `uri`, and `url` for a server that has one. `git`: `repository`, `commit`, `path`.
    `site`: `index`, `artifact` (a URL), `digest` (of the artifact). `folder` and `archive`: `path`.
    `package`: `package`, `version`.
    """

    kind: str
    details: tuple[tuple[str, str], ...] = ()
    extra: Extra = ()

    @classmethod
    def make(cls, kind: str, **details: str) -> Self:
        return cls(kind, tuple((key, value) for key, value in sorted(details.items()) if value))

    def get(self, key: str) -> str:
        return dict(self.details).get(key, "")

    @property
    def identity(self) -> tuple[str, ...]:
        """What stays the same when the source publishes another version."""
        keys = {
            "mcp": ("server", "uri"),
            "git": ("repository", "path"),
            "site": ("index",),
            "package": ("package",),
        }.get(self.kind, ("path",))
        return (self.kind, *(self.get(key) for key in keys))


KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "mcp": ("server", "uri"),
    "git": ("repository", "commit"),
    "site": ("index", "artifact", "digest"),
    "folder": ("path",),
    "archive": ("path",),
    "package": ("package",),
}
"""The kinds of source, each with the details that its pin must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSkill:
    """One skill: what it is called, where it came from, and every byte of it by digest."""

    name: SkillName
    source: str
    """As the user wrote it."""
    pin: Pin
    digest: SetDigest
    files: tuple[LockedFile, ...]
    powers: Powers = field(default_factory=Powers)
    signer: str = UNSIGNED
    targets: tuple[str, ...] = ()
    """The agents that have links or copies of their own, beside the canonical folder."""
    extra: Extra = ()

    @property
    def source_words(self) -> str:
        """Where it comes from, for a person: what was given, and what it resolved to."""
        pin = self.pin
        more = {
            "mcp": pin.get("url") or "an MCP server",
            "git": f"commit {pin.get('commit')[:12]}",
            "site": pin.get("artifact"),
            "package": f"{pin.get('package')} {pin.get('version')}",
        }.get(pin.kind, pin.get("path"))
        return self.source if not more or more == self.source else f"{self.source} ({more})"

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Lock:
    """Every installed skill of a project or a user, by name."""

    skills: tuple[LockedSkill, ...] = ()
    extra: Extra = ()

    def get(self, name: str) -> LockedSkill | None:
        return next((skill for skill in self.skills if skill.name == name), None)

    def require(self, name: str) -> LockedSkill:
        """The skill of this name, or `SkillNotFound`."""
        skill = self.get(name)
        if skill is None:
            raise SkillNotFound(
                f"{LOCK_NAME} has no skill called {shown(name)}: `skillwire why` lists those it has"
            )
        return skill

    def put(self, *skills: LockedSkill) -> Lock:
        """The lock with these skills in place of those of the same names."""
        kept = {skill.name: skill for skill in self.skills} | {skill.name: skill for skill in skills}
        return replace(self, skills=tuple(kept[name] for name in sorted(kept)))

    def without(self, names: Iterable[str]) -> Lock:
        dropped = set(names)
        return replace(self, skills=tuple(skill for skill in self.skills if skill.name not in dropped))
