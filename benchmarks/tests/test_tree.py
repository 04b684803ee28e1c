"""A tree depends on its seed alone, and its digests are those of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from benchmarks.tree import SKILL_MD_BYTES, make_skill, write_tree

from skillwire.sources import DirectorySource


def contents(root: Path) -> dict[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def test_two_trees_of_one_seed_are_equal(tmp_path: Path) -> None:
    one, other = write_tree(tmp_path / "one", 60), write_tree(tmp_path / "other", 60)
    assert contents(one.root) == contents(other.root)


def test_a_tree_of_another_seed_differs() -> None:
    assert make_skill(3, seed=1).files["SKILL.md"] != make_skill(3, seed=2).files["SKILL.md"]


def test_a_skill_is_the_same_in_trees_of_every_size(tmp_path: Path) -> None:
    small, large = write_tree(tmp_path / "small", 5), write_tree(tmp_path / "large", 55)
    assert small.skill(4) == large.skill(4)
    assert contents(small.root).items() <= contents(large.root).items()


def test_a_skill_has_four_files_and_a_skill_md_of_4_kb() -> None:
    skill = make_skill(42)
    assert sorted(skill.files) == [
        "SKILL.md",
        "references/guide.md",
        "references/limits.md",
        "scripts/check.py",
    ]
    assert len(skill.files["SKILL.md"]) == SKILL_MD_BYTES == 4096
    assert all(data.isascii() and data.endswith(b"\n") for data in skill.files.values())


def test_fifty_skills_share_a_folder() -> None:
    assert make_skill(49).path.startswith("group-000/")
    assert make_skill(50).path.startswith("group-001/")


def test_digests_are_those_of_what_was_written(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree", 2)
    for number in range(2):
        for uri, digest in tree.skill(number).digests.items():
            data = (tree.root / uri.removeprefix("skill://")).read_bytes()
            assert digest == "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(("count", "wanted"), [(3, [0, 3, 6]), (10, list(range(10))), (99, list(range(10)))])
def test_a_spread_is_even(tmp_path: Path, count: int, wanted: list[int]) -> None:
    tree = write_tree(tmp_path / "tree", 10)
    assert tree.spread(count) == [make_skill(number) for number in wanted]


def test_a_complete_tree_is_not_written_again(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree", 2)
    file = tree.root / tree.skill(0).path / "SKILL.md"
    file.write_text("edited")
    write_tree(tmp_path / "tree", 2)
    assert file.read_text() == "edited"
    write_tree(tmp_path / "tree", 3)
    assert file.read_bytes() == tree.skill(0).files["SKILL.md"]


def test_every_skill_is_one_that_skillwire_serves(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree", 60)
    source = DirectorySource([tree.root])
    source.scan()
    assert source.problems() == ()
    served = {uri: file.resource.digest for uri, file in source.snapshot.files.items()}
    assert served == {
        uri: digest for number in range(60) for uri, digest in tree.skill(number).digests.items()
    }
