"""Lock: the installed skills and what they are pinned to. `lock_format.py` reads and writes the text of
`skillwire.lock`.
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
    """Where a skill came from, as precisely as its kind of source allows.

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

    def with_unknown_keys(self, other: Pin) -> Pin:
        """This pin with the keys of another one that this version does not know."""
        known = dict(self.details)
        more = {key: value for key, value in other.details if key not in _DETAILS and key not in known}
        return replace(self, details=tuple(sorted({**known, **more}.items())), extra=other.extra)

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


_DETAILS: Final = frozenset(
    "artifact commit digest index package path repository server uri url version".split()  # noqa: SIM905
)
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
    """One pinned skill: its name, where it came from, and the digest of every file."""

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

    def with_unknown_keys(self, other: LockedSkill) -> LockedSkill:
        """This skill with the keys of another version of it that this version of Skillwire does not know."""
        extras = {(file.path, file.digest): file.extra for file in other.files if file.extra}
        files = self.files
        if extras:
            files = tuple(
                file._replace(extra=extras.get((file.path, file.digest), file.extra)) for file in files
            )
        return replace(self, extra=other.extra, pin=self.pin.with_unknown_keys(other.pin), files=files)

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
