"""SkillTree: a folder of skills made from a seed, with the digest of every file known beforehand."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

SEED: Final = 2640
PER_PREFIX: Final = 50
SKILL_MD_BYTES: Final = 4096
# ASCII, and nothing that one JSON writer escapes and another does not: answers are compared as bytes.
_WORDS: Final = """
order refund customer ledger invoice balance approve review archive export merge deploy rollback schema index
query cache token window region quota budget report summary draft outline figure table label sample before
after when while unless every first second last check write read compare collect prepare confirm the a of to
in with for from by on and or not its this that each all any one two three
""".split()  # noqa: SIM905 - a list of strings would fill the page


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill of a tree. `files` are its bytes by path below its folder."""

    path: str
    files: Mapping[str, bytes]

    @property
    def uri(self) -> str:
        return self.uri_of("SKILL.md")

    def uri_of(self, file: str) -> str:
        return f"skill://{self.path}/{file}"

    @property
    def digests(self) -> dict[str, str]:
        """The digest of every file, by URI."""
        return {self.uri_of(name): digest(data) for name, data in self.files.items()}


@dataclass(frozen=True, slots=True)
class SkillTree:
    """A written tree of `size` skills. Skill number n is the same in trees of every size."""

    root: Path
    size: int
    seed: int = SEED
    first: int = 0

    def skill(self, number: int) -> Skill:
        return make_skill(self.first + number, self.seed)

    def spread(self, count: int) -> list[Skill]:
        """So many skills, evenly over the tree."""
        wanted = min(count, self.size)
        return [self.skill(turn * self.size // wanted) for turn in range(wanted)]


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@cache
def make_skill(number: int, seed: int = SEED) -> Skill:
    """A skill of four files: a `SKILL.md` of 4 KB, two references and a script."""
    dice = random.Random(f"{seed} {number}")
    name = f"skill-{number:05}"
    head = (
        f"---\nname: {name}\ndescription: {_sentence(dice, 18)} Use it to {_sentence(dice, 10).lower()}\n"
        f"license: Apache-2.0\nmetadata:\n  author: team-{number % 7}\n  revision: r{dice.randrange(100)}\n"
        "---\n"
        f"# {name}\n\nSee references/guide.md and references/limits.md, then run scripts/check.py.\n\n"
    )
    files = {
        "SKILL.md": _text(dice, head, SKILL_MD_BYTES),
        "references/guide.md": _text(dice, "# Guide\n\n", 1500 + dice.randrange(1000)),
        "references/limits.md": _text(dice, "# Limits\n\n", 500 + dice.randrange(1000)),
        "scripts/check.py": _text(dice, "#!/usr/bin/env python3\n", 400 + dice.randrange(800), comment="# "),
    }
    return Skill(f"group-{number // PER_PREFIX:03}/{name}", files)


def write_tree(root: Path, size: int, *, seed: int = SEED, first: int = 0) -> SkillTree:
    """Write a tree, unless the folder holds a whole one of this kind already."""
    mark, stamp = root.with_suffix(".whole"), f"{size} skills from {first} on, seed {seed}, layout 1\n"
    if not mark.exists() or mark.read_text() != stamp:
        for number in range(first, first + size):
            skill = make_skill(number, seed)
            for name, data in skill.files.items():
                file = root / skill.path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
        mark.write_text(stamp)
    return SkillTree(root, size, seed, first)


def _sentence(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(_WORDS, k=words)).capitalize() + "."


def _text(dice: random.Random, head: str, size: int, *, comment: str = "") -> bytes:
    """Lines of words after `head`, cut to exactly `size` bytes with a newline at the end."""
    lines = [head]
    length = len(head)
    while length < size:
        line = f"{comment}{_sentence(dice, 12)}\n"
        lines.append(line)
        length += len(line)
    return "".join(lines).encode("ascii")[: size - 1] + b"\n"
