"""Pinned skills for tests of installing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from skillwire.install import Lock, LockedFile, LockedSkill, Pin, Plan, StepResult
from skillwire.install.apply import write_step
from skillwire.install.candidates import make_candidate, read_folder
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


def apply(
    made: Plan,
    content: Callable[[LockedSkill], Mapping[str, bytes]],
    *,
    windows: bool = os.name == "nt",
) -> tuple[StepResult, ...]:
    """Carry out the writing steps of a plan."""
    return tuple(write_step(step, content, windows=windows) for step in made.writes)


def lock_folder(folder: Path) -> Lock:
    """A lock of every skill below a folder, as it is on disk."""
    skills = [
        make_candidate(
            files,
            source=str(folder),
            pin=Pin.make("folder", path=(folder / below).as_posix()),
            expected_name=below.rpartition("/")[2],
        ).skill
        for below, files in read_folder(folder).items()
    ]
    return Lock().put(*skills)
