"""Pinned skills for tests of installing."""

from __future__ import annotations

from collections.abc import Mapping

from skillwire.install import LockedFile, LockedSkill, Pin
from skillwire.install.lock import requested_powers
from skillwire.skill import digest_of, parse_name, set_digest

SKILL_MD = "---\nname: {name}\ndescription: Does {name}.\n---\n# {name}\n"


def skill_md(name: str, body: str = "") -> bytes:
    return (SKILL_MD.format(name=name) + body).encode()


def locked(
    name: str = "pdf",
    files: Mapping[str, bytes] | None = None,
    *,
    targets: tuple[str, ...] = (),
    executable: tuple[str, ...] = (),
) -> LockedSkill:
    """A pinned skill of these files; `SKILL.md` is added where it is missing."""
    content = {"SKILL.md": skill_md(name), **(files or {})}
    rows = tuple(
        LockedFile(path, digest_of(data), len(data), path in executable)
        for path, data in sorted(content.items())
    )
    return LockedSkill(
        name=parse_name(name),
        source=f"docs/{name}",
        pin=Pin.make("mcp", server="docs", uri=f"skill://{name}/SKILL.md", url="https://docs.example/mcp"),
        digest=set_digest((row.path, row.digest) for row in rows),
        files=rows,
        powers=requested_powers({}, ((path, data, path in executable) for path, data in content.items())),
        targets=targets,
    )
