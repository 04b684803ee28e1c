"""What a way in needs for its bombs: `python tests/attacks/cost.py WAY FOLDER` prints a JSON list.

Each bomb is read in a fork of a process that has read something small the same way: what is measured is what
the bomb costs. `python -m benchmarks.input_run` shows the seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from attacks.bombs import MIB, WAYS
from attacks.repositories import REPOSITORIES, SMALL, read_repository
from forks import cost_in_fork, in_fork


@dataclass(frozen=True, slots=True)
class Read:
    """A bomb that was read: its size and what it took, in bytes and seconds, and how it was answered."""

    bomb: str
    size: int
    memory: int
    seconds: float
    answer: str

    @property
    def allowed(self) -> int:
        """The memory that it may take."""
        return 4 * self.size + 64 * MIB


def read_bombs(way: str, folder: Path) -> Iterator[Read]:
    """Read every bomb of a way in; `git` is one of them."""
    if way == "git":
        read_repository(SMALL.make(folder / "small", 1))
        for name, repository in REPOSITORIES.items():
            place = repository.make(folder / name, repository.full)
            size = sum(file.stat().st_size for file in place.rglob("*"))
            yield Read(name, size, *cost_in_fork(partial(read_repository, place)))
        return
    file = folder / "bomb"
    answer = WAYS[way].answer
    answer(WAYS[way].small)
    for name, bomb in WAYS[way].bombs.items():
        for full in bomb.full:
            # Made elsewhere: what this process freed again would not count.
            size = in_fork(lambda make=bomb.make, full=full: file.write_bytes(make(full)))
            yield Read(name, size, *cost_in_fork(lambda: answer(file.read_bytes())))


def reads_of(way: str, folder: Path) -> list[Read]:
    """How every bomb of a way in was read, by a process that did nothing else."""
    words = [sys.executable, __file__, way, folder]
    done = subprocess.run(words, capture_output=True, text=True, timeout=570, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [Read(**row) for row in json.loads(done.stdout)]


if __name__ == "__main__":
    print(json.dumps([asdict(read) for read in read_bombs(sys.argv[1], Path(sys.argv[2]))]))
