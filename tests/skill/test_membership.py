"""One predicate says what belongs to a skill."""

from __future__ import annotations

import pytest

from skillwire.skill.membership import belongs_to_skill


@pytest.mark.requirement("FMT-1")
@pytest.mark.parametrize(
    "name",
    [
        "SKILL.md",
        "scripts",
        "run.py",
        ".hidden",
        ".gitignore",
        ".env",
        "a~b",
        "swap.swift",
        "#tag",
        "c#.md",
        "_.txt",
        "x.pyi",
    ],
)
def test_anything_in_the_directory_belongs_to_the_skill(name: str) -> None:
    assert belongs_to_skill(name)


@pytest.mark.parametrize(
    "name",
    [
        ".git", ".hg", ".svn", ".jj", "_darcs", "CVS",
        "__pycache__", "node_modules", ".venv", ".ruff_cache", "mod.pyc",
        ".DS_Store", "Thumbs.db", ".idea", "notes.md~", ".notes.md.swp", ".#notes.md", "#notes.md#",
        "._a", "~$a.docx", ".a.kate-swp",
    ],
)  # fmt: skip
def test_version_control_caches_and_editor_litter_do_not(name: str) -> None:
    assert not belongs_to_skill(name)
