"""Skills for the Claude Agent SDK, which reads them from folders: `ClaudeAgentOptions(**skill_options("."))`.

`skillwire add SOURCE --agent claude-code` puts skills into `.claude/skills`, with your approval, pinned by
`skillwire.lock`; `skillwire sync` makes the folder equal to it again. `skill_options` hashes every file
before an agent starts, and names the skills that are exactly as pinned. What somebody put into
the folder by hand is not among them.

The agent reads a folder, so there is no fence around the text, and nothing is asked again while it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from skillwire.clients import BaseDirectories, Scope, agents
from skillwire.errors import VerificationError
from skillwire.install import LOCK_NAME, Link, LockedSkill, Tree, parse_lock
from skillwire.install.state import look_at

_AGENT: Final = "claude-code"


def skill_options(project: str | Path = ".", *, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """The arguments `cwd`, `setting_sources` and `skills` of `ClaudeAgentOptions`: verified skills alone.

    `only` names the skills to use; all of the lock by default. A skill that is not installed for Claude, or
    whose files are not those that are pinned, is a `VerificationError` that names every one.
    """
    root = Path(project).resolve()
    file = root / LOCK_NAME
    lock = parse_lock(file.read_text("utf-8"), file=str(file))
    wanted = [lock.require(name) for name in only] if only else list(lock.skills)
    folder = BaseDirectories.here(root).folder(agents()[_AGENT], Scope.PROJECT)
    assert folder is not None, "Claude Code has a folder in every project"  # noqa: S101
    problems = [f"{skill.name} {problem}" for skill in wanted if (problem := _problem(folder, skill))]
    if problems:
        raise VerificationError(
            f"{'; '.join(problems)}: run `skillwire sync`, or `skillwire add SOURCE --agent {_AGENT}` for "
            "one that was never installed for Claude",
            uri=str(file),
        )
    return {"cwd": str(root), "setting_sources": ["project"], "skills": [str(skill.name) for skill in wanted]}


def _problem(folder: Path, skill: LockedSkill) -> str:
    """Why an installed skill is not used; empty when its files are those of the lock, and no others."""
    pinned = [file.path for file in skill.files]
    found = look_at(folder / skill.name, pinned)
    if isinstance(found, Link):  # Into the canonical folder; whatever it leads to is hashed.
        found = look_at(found.leads_to, pinned)
    if not isinstance(found, Tree):
        return "is not installed for Claude"
    return "" if found.digest == skill.digest else "is not as it was pinned"
