"""C3: skills with format problems are served with valid entries and a warning, unless `strict`."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire import DirectorySource
from skillwire.errors import Severity
from skillwire.skill import SkillUri, parse_skill_md
from skillwire.trust import check_entry
from trees import assert_serves_what_it_lists, paths_of, rules_of, scanned, skill_md, write, write_skill

pytestmark = pytest.mark.anyio


def stretch(folder: Path, text: str) -> Path:
    write(folder / "SKILL.md", text.encode())
    return folder


async def serve(root: Path, **options: bool) -> DirectorySource:
    """A source whose entries keep every MUST that a host checks, and that serves what they list."""
    source = scanned([root], **options)
    await assert_serves_what_it_lists(source)
    for entry in source.snapshot.entries:
        check_entry(entry)
        data = (await source.read(entry.uri)).data
        assert parse_skill_md(data).frontmatter == entry.frontmatter
    return source


def uris(source: DirectorySource) -> list[str]:
    return [entry.uri for entry in source.snapshot.entries]


@pytest.mark.requirement("FMT-3")
async def test_a_skill_is_served_under_its_name_beside_its_directory(tmp_path: Path) -> None:
    write(tmp_path / "team/folder/SKILL.md", skill_md("name"))
    write(tmp_path / "team/folder/sub/x.txt", b"x")
    (tmp_path / "team/folder/empty").mkdir()
    source = await serve(tmp_path)
    assert uris(source) == ["skill://team/name/SKILL.md"]
    assert paths_of(source.snapshot.entries[0]) == ["SKILL.md", "sub/x.txt"]
    children = await source.read_directory(SkillUri("skill://team/name"))
    assert [child.name for child in children] == ["SKILL.md", "empty", "sub"]
    (problem,) = source.problems()
    assert not problem.is_left_out
    assert "skill://team/name" in str(problem)
    assert ":2:" in str(problem)


@pytest.mark.requirement("FMT-3")
async def test_a_root_that_is_a_skill_is_served_under_its_name(tmp_path: Path) -> None:
    write(tmp_path / "folder/SKILL.md", skill_md("name"))
    assert uris(await serve(tmp_path / "folder")) == ["skill://name/SKILL.md"]


async def test_a_name_that_is_taken_gets_its_directory_before_it(tmp_path: Path) -> None:
    write_skill(tmp_path / "pdf")
    for folder in ("en", "zh"):
        write(tmp_path / folder / "SKILL.md", skill_md("pdf"))
    source = await serve(tmp_path)
    assert uris(source) == ["skill://en/pdf/SKILL.md", "skill://pdf/SKILL.md", "skill://zh/pdf/SKILL.md"]
    assert source.snapshot.skills[SkillUri("skill://pdf/SKILL.md")].directory == str(tmp_path / "pdf")


async def test_a_name_never_takes_the_place_of_a_directory_of_skills(tmp_path: Path) -> None:
    write_skill(tmp_path / "team/one")
    write(tmp_path / "folder/SKILL.md", skill_md("team"))
    assert uris(await serve(tmp_path)) == ["skill://folder/team/SKILL.md", "skill://team/one/SKILL.md"]


@pytest.mark.requirement("FMT-8")
async def test_skills_inside_a_renamed_one_move_with_it(tmp_path: Path) -> None:
    write(tmp_path / "folder/SKILL.md", skill_md("name"))
    write_skill(tmp_path / "folder/inner", {"x.txt": b"x"})
    source = await serve(tmp_path)
    assert uris(source) == ["skill://name/SKILL.md", "skill://name/inner/SKILL.md"]
    assert paths_of(source.snapshot.entries[0]) == ["SKILL.md", "inner/SKILL.md", "inner/x.txt"]


@pytest.mark.requirement("FMT-8")
async def test_an_inner_skill_with_another_name_is_served_as_files_of_the_outer_one(tmp_path: Path) -> None:
    write_skill(tmp_path / "outer")
    write(tmp_path / "outer/folder/SKILL.md", skill_md("name"))
    source = await serve(tmp_path)
    assert uris(source) == ["skill://outer/SKILL.md"]
    assert paths_of(source.snapshot.entries[0]) == ["SKILL.md", "folder/SKILL.md"]
    assert rules_of(source.problems()) == ["name-not-directory"]


async def test_a_renamed_skill_follows_its_changes(tmp_path: Path) -> None:
    write(tmp_path / "folder/SKILL.md", skill_md("name"))
    write_skill(tmp_path / "other")
    source = await serve(tmp_path)
    before = source.snapshot
    assert await source.rescan() is False
    assert source.snapshot.entries is before.entries
    write(tmp_path / "folder/x.txt", b"x")
    assert (await source.read(SkillUri("skill://name/x.txt"))).data == b"x"
    write(tmp_path / "folder/SKILL.md", skill_md("new"))
    assert await source.rescan([str(tmp_path / "folder/SKILL.md")]) is True
    assert uris(source) == ["skill://new/SKILL.md", "skill://other/SKILL.md"]
    write(tmp_path / "folder/SKILL.md", skill_md("folder"))
    assert await source.rescan([str(tmp_path / "folder/SKILL.md")]) is True
    assert uris(source) == ["skill://folder/SKILL.md", "skill://other/SKILL.md"]
    write_skill(tmp_path / "name")
    write(tmp_path / "folder/SKILL.md", skill_md("name"))
    await source.rescan([str(tmp_path / "folder/SKILL.md"), str(tmp_path / "name")])
    assert uris(source) == uris(scanned([tmp_path]))


async def test_a_renamed_skill_comes_from_the_cache_with_its_warning(tmp_path: Path) -> None:
    write(tmp_path / "skills/folder/SKILL.md", skill_md("name"))
    first = scanned([tmp_path / "skills"], cache_directory=tmp_path / "cache")
    first.save_cache()
    second = scanned([tmp_path / "skills"], cache_directory=tmp_path / "cache")
    assert uris(second) == ["skill://name/SKILL.md"]
    assert second.problems() == first.problems()


@pytest.mark.requirement("VER-2", "ENT-1")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("description: Review code: find it", "Review code: find it"),
        ("description: Use when:", "Use when:"),
        ('description: It\'s so: "quoted" # not a comment', 'It\'s so: "quoted" # not a comment'),
        ("description: [WIP] Reviews code", "[WIP] Reviews code"),
        ("description: @team reviews", "@team reviews"),
    ],
)
async def test_a_value_without_quotes_is_read_as_its_text(tmp_path: Path, line: str, expected: str) -> None:
    stretch(tmp_path / "a", f"---\nname: a\n{line}\nlicense: MIT\n---\nBody\n")
    source = await serve(tmp_path)
    (entry,) = source.snapshot.entries
    assert entry.frontmatter == {"name": "a", "description": expected, "license": "MIT"}
    (problem,) = source.problems()
    assert [issue.severity for issue in problem.issues] == [Severity.WARNING]
    assert problem.issues[0].line == 3


@pytest.mark.parametrize(
    "more",
    [
        "x: 'open",
        "x: a: b\n  c: d",
        "x: *alias",
        "x: !tag y",
        "x: a\nx: b",
        "\tx: y",
        'x: "a" b',
    ],
)
async def test_what_only_guessing_could_repair_is_left_out(tmp_path: Path, more: str) -> None:
    stretch(tmp_path / "a", f"---\nname: a\ndescription: Does it: well\n{more}\n---\n")
    source = await serve(tmp_path)
    assert uris(source) == []
    assert all(problem.is_left_out for problem in source.problems())


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        (f"description: {'x' * 1068}", "description-too-long"),
    ],
)
async def test_other_format_problems_are_served_with_a_warning(tmp_path: Path, more: str, rule: str) -> None:
    stretch(tmp_path / "a", f"---\nname: a\n{more}\n---\n")
    source = await serve(tmp_path)
    assert uris(source) == ["skill://a/SKILL.md"]
    assert rules_of(source.problems()) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: other\ndescription: x\n---\n",
        "---\nname: a\ndescription: x: y\n---\n",
        f"---\nname: a\ndescription: {'x' * 1025}\n---\n",
    ],
)
async def test_strict_leaves_out_whatever_has_a_format_problem(tmp_path: Path, text: str) -> None:
    stretch(tmp_path / "a", text)
    assert uris(await serve(tmp_path))
    source = await serve(tmp_path, strict=True)
    assert uris(source) == []
    assert all(problem.is_left_out for problem in source.problems())


@pytest.mark.requirement("FMT-2", "ENT-1")
@pytest.mark.parametrize(
    "text",
    ["---\ndescription: x\n---\n", "---\nname: My Skill\ndescription: x\n---\n", "---\nname: a\n---\nBody\n"],
)
async def test_a_name_or_description_that_no_entry_may_have_is_filled_in_for_local_use_only(
    tmp_path: Path, text: str
) -> None:
    stretch(tmp_path / "a", text)
    assert uris(await serve(tmp_path)) == []
    source = scanned([tmp_path], local=True)
    (entry,) = source.snapshot.entries
    assert (entry.uri, entry.name) == ("skill://a/SKILL.md", "a")
    assert entry.description
    check_entry(entry)


async def test_a_pointer_of_git_lfs_is_named(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    write_skill(tmp_path / "a", {"model.bin": pointer})
    source = await serve(tmp_path)
    assert rules_of(source.problems()) == ["git-lfs-pointer"]
    assert "model.bin" in str(source.problems()[0])
    write(tmp_path / "a/other.txt", b"x")
    await source.rescan()
    assert rules_of(source.problems()) == ["git-lfs-pointer"]


def test_skills_that_codex_brings_along_are_not_the_users_own(tmp_path: Path) -> None:
    write_skill(tmp_path / "mine")
    write_skill(tmp_path / ".system/imagegen")
    assert [entry.name for entry in scanned([tmp_path], local=True).snapshot.entries] == ["mine"]
    served = scanned([tmp_path]).snapshot.entries
    assert sorted(entry.name for entry in served) == ["imagegen", "mine"]
