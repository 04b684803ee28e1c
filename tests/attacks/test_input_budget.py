"""What any input from outside costs: at most four times its size plus 64 MiB of memory, and steps in
proportion to its size (SEC-9). Every way in, with a bomb of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from attacks.bombs import MIB, WAYS
from attacks.cost import reads_of
from attacks.repositories import REPOSITORIES, read_repository
from steps import count_steps

pytestmark = pytest.mark.requirement("SEC-9")

STEPS_PER_BYTE, STEPS_PER_PATH = 256, 1_000
FIXED_STEPS = 1_000_000
# What takes time by the square of its size takes four times the steps.
MOST_GROWTH = 2.3
SIZE = 6_144


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("way", [*WAYS, "git"])
def test_an_input_needs_no_more_memory_than_its_size_allows(way: str, tmp_path: Path) -> None:
    reads = reads_of(way, tmp_path)
    assert len(reads) >= 4
    assert all(read.size < 16 * MIB for read in reads)
    assert [read for read in reads if read.memory > read.allowed] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_an_input_takes_steps_in_proportion_to_its_size(name: str) -> None:
    """At a size at which no limit refuses it."""
    way = WAYS[name]
    way.answer(way.small)
    for bomb in way.bombs.values():
        # What is unpacked may be much larger than an archive.
        size = SIZE * (64 if name == "archive" else 1)
        data, double = bomb.make(size), bomb.make(2 * size)
        steps = count_steps(lambda data=data: way.answer(data), most=FIXED_STEPS + STEPS_PER_BYTE * len(data))
        most = FIXED_STEPS + STEPS_PER_BYTE * len(double)
        count_steps(lambda data=double: way.answer(data), most=min(most, round(MOST_GROWTH * steps) + 1_000))


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "size", "paths"),
    [
        ("equal folders", 3, 1_000),
        ("many skills", 200, 200),
        ("a file of zeros", MIB, 1),
        ("nested skills", 10, 610),
    ],
)
def test_a_repository_takes_steps_in_proportion_to_its_paths(
    name: str, size: int, paths: int, tmp_path: Path
) -> None:
    folder = REPOSITORIES[name].make(tmp_path / "repository", size)
    read_repository(folder)
    count_steps(lambda: read_repository(folder), most=50_000 + STEPS_PER_PATH * paths)
