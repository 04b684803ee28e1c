"""Git repositories of a few megabytes at most that have far more to read: see `bombs.py`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from skillwire.errors import SkillwireError
from skillwire.net import split_skills
from skillwire.sources.git import fetch_tree, git_environment
from skillwire.sources.reference import parse_reference


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository to be made in a folder, of any size: a number of folders, or of bytes."""

    tree: Callable[[Path, int], str]
    full: int
    """The size at which it is dearest."""

    def make(self, folder: Path, size: int) -> Path:
        folder.mkdir()
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main")
        commit = git(folder, "commit-tree", self.tree(folder, size), "-m", "x")
        git(folder, "update-ref", "refs/heads/main", commit)
        return folder


def read_repository(folder: Path) -> str:
    """Read the skills of a repository: why it is refused, if it is."""
    try:
        split_skills(fetch_tree(parse_reference(f"git+file://{folder}")).files, nested=True)
    except SkillwireError as error:
        return str(error)
    return "accepted"


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
    environment = {**os.environ, **git_environment(os.environ)}
    done = subprocess.run(command, cwd=folder, env=environment, input=given, check=True, capture_output=True)
    return done.stdout.decode().strip()


def file_of(folder: Path, content: bytes) -> str:
    """The row of a tree that has this as its skill."""
    return f"100644 blob {git(folder, 'hash-object', '-w', '--stdin', given=content)}\tSKILL.md\n"


def tree_of(folder: Path, *rows: str) -> str:
    return git(folder, "mktree", given="".join(rows).encode())


def one_file(folder: Path, size: int) -> str:
    return tree_of(folder, file_of(folder, bytes(size)))


def equal_folders(folder: Path, size: int) -> str:
    """Ten folders in each folder, that many deep, all the same object."""
    tree = one_file(folder, 1)
    for _ in range(size):
        tree = tree_of(folder, *(f"040000 tree {tree}\td{number}\n" for number in range(10)))
    return tree


def many_skills(folder: Path, size: int) -> str:
    skill = tree_of(folder, file_of(folder, b"---\nname: a\n---\n"))
    return tree_of(folder, *(f"040000 tree {skill}\tskill-{number:05}\n" for number in range(size)))


def nested_skills(folder: Path, size: int) -> str:
    """A skill in a skill, sixty deep, that many times."""
    file = file_of(folder, b"x")
    tree = tree_of(folder, file)
    for _ in range(60):
        tree = tree_of(folder, file, f"040000 tree {tree}\td\n")
    return tree_of(folder, *(f"040000 tree {tree}\td{number:03}\n" for number in range(size)))


REPOSITORIES = {
    "equal folders": Repository(equal_folders, 10),
    "many skills": Repository(many_skills, 14_400),
    "a file of zeros": Repository(one_file, 128_000_000),
    "nested skills": Repository(nested_skills, 700),
}
SMALL = Repository(one_file, 1)
