"""What a walk over directories finds, leaves out and says about it."""

from __future__ import annotations

import errno
import os
import socket
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from skillwire import DirectorySource, LimitExceeded, Limits, SourceError
from skillwire.errors import Issue
from skillwire.skill import SkillUri
from skillwire.sources.directory import builder
from skillwire.sources.directory.files import hash_file, parse_root
from skillwire.sources.directory.walk import MeasuredSkill, Walk
from trees import assert_serves_what_it_lists, paths_of, rules_of, scanned, skill_md, write, write_skill

pytestmark = pytest.mark.anyio


def uris(source: DirectorySource) -> list[str]:
    return [entry.uri for entry in source.snapshot.entries]


def only(source: DirectorySource) -> list[str]:
    (entry,) = source.snapshot.entries
    return paths_of(entry)


def issues(source: DirectorySource) -> list[Issue]:
    return [issue for problem in source.problems() for issue in problem.issues]


@pytest.mark.requirement("FMT-1", "FMT-3", "ENT-5")
def test_skills_are_found_at_any_depth_and_named_by_their_path(tmp_path: Path) -> None:
    write_skill(tmp_path / "top")
    write_skill(tmp_path / "a/b/c/deep")
    write_skill(tmp_path / "a/top")
    write(tmp_path / "a/readme.txt", b"no skill")
    source = scanned([tmp_path])
    assert uris(source) == ["skill://a/b/c/deep/SKILL.md", "skill://a/top/SKILL.md", "skill://top/SKILL.md"]
    assert not source.problems()


@pytest.mark.requirement("FMT-3", "FMT-8")
async def test_a_root_that_is_a_skill_is_served_under_its_own_name(tmp_path: Path) -> None:
    write_skill(tmp_path / "refunds", {"a.txt": b"a"})
    write_skill(tmp_path / "refunds/sub/inner")
    source = scanned([tmp_path / "refunds"])
    assert uris(source) == ["skill://refunds/SKILL.md", "skill://refunds/sub/inner/SKILL.md"]
    assert uris(scanned([f"acme/eu={tmp_path}/refunds"]))[0] == "skill://acme/eu/refunds/SKILL.md"
    await assert_serves_what_it_lists(source)


@pytest.mark.requirement("FMT-8", "ENT-2")
async def test_a_nested_skill_has_an_entry_and_its_files_stand_in_both_manifests(tmp_path: Path) -> None:
    write_skill(tmp_path / "outer", {"z.txt": b"z"})
    write_skill(tmp_path / "outer/parts/inner", {"data.bin": b"\xff"})
    source = scanned([tmp_path])
    outer, inner = source.snapshot.entries
    assert paths_of(outer) == ["SKILL.md", "parts/inner/SKILL.md", "parts/inner/data.bin", "z.txt"]
    assert paths_of(inner) == ["SKILL.md", "data.bin"]
    await assert_serves_what_it_lists(source)


@pytest.mark.requirement("FMT-8")
def test_a_bad_nested_skill_is_a_plain_file_of_a_good_one_and_the_other_way_round(tmp_path: Path) -> None:
    write_skill(tmp_path / "good")
    write(tmp_path / "good/inner/SKILL.md", b"no frontmatter")
    write(tmp_path / "bad/SKILL.md", b"no frontmatter")
    write_skill(tmp_path / "bad/fine")
    source = scanned([tmp_path])
    good = source.snapshot.entries[1]
    assert uris(source) == ["skill://bad/fine/SKILL.md", "skill://good/SKILL.md"]
    assert paths_of(good) == ["SKILL.md", "inner/SKILL.md"]
    assert {Path(problem.place).name for problem in source.problems()} == {"bad", "inner"}
    assert "skill://bad/SKILL.md" not in source.snapshot.files


@pytest.mark.requirement("ENT-5", "FMT-3")
def test_roots_with_prefixes_serve_skills_of_the_same_name_side_by_side(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_skill(tmp_path / folder / "same")
    source = scanned([tmp_path / "one", f"acme/eu={tmp_path}/two"])
    assert uris(source) == ["skill://acme/eu/same/SKILL.md", "skill://same/SKILL.md"]
    assert [len(source.snapshot.skills_of(root)) for root in source.roots] == [1, 1]


@pytest.mark.requirement("ENT-5")
async def test_the_same_uri_from_two_roots_is_reported_and_the_first_stays(tmp_path: Path) -> None:
    write_skill(tmp_path / "one/same", {"a.txt": b"one"})
    write_skill(tmp_path / "two/same", {"a.txt": b"two"})
    source = scanned([tmp_path / "one", tmp_path / "two"])
    (issue,) = issues(source)
    assert issue.rule == "uri-taken"
    assert str(tmp_path / "one/same") in issue.message
    assert "prefix" in issue.fix
    assert (await source.read(source.snapshot.entries[0].uri)).data == skill_md("same")
    await assert_serves_what_it_lists(source)


@pytest.mark.requirement("ENT-2", "FMT-8")
@pytest.mark.parametrize("order", [("outer", "inner"), ("inner", "outer")])
async def test_a_root_cannot_put_a_skill_inside_a_skill_of_another_root(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    # Both roots have a file at skill://x/y/SKILL.md, with different bytes.
    write_skill(tmp_path / "outer/x", {"y/SKILL.md": b"plain", "y/only-here.txt": b"1"})
    write_skill(tmp_path / "inner/x/y", {"more.txt": b"2"})
    source = scanned([tmp_path / name for name in order])
    assert uris(source) == ["skill://x/SKILL.md"]
    assert "uri-taken" in rules_of(source.problems())
    await assert_serves_what_it_lists(source)


def test_a_misspelt_skill_md_is_pointed_out(tmp_path: Path) -> None:
    write(tmp_path / "a/skill.md", skill_md("a"))
    write(tmp_path / "b/Skill.MD", skill_md("b"))
    write_skill(tmp_path / "good", {"skill.md": b"a file like any other"})
    (tmp_path / "c/skill.md").mkdir(parents=True)
    source = scanned([tmp_path])
    assert uris(source) == ["skill://good/SKILL.md"]
    assert rules_of(source.problems()) == ["skill-md-case", "skill-md-case"]


def test_editor_and_system_files_are_not_part_of_a_skill(tmp_path: Path) -> None:
    litter = [
        ".git/config",
        "__pycache__/x.pyc",
        "node_modules/m/index.js",
        ".DS_Store",
        "a.md~",
        ".#a",
        "x.swp",
    ]
    write_skill(tmp_path / "a", dict.fromkeys([*litter, ".hidden", "keep.py"], b"x"))
    assert only(scanned([tmp_path])) == [".hidden", "SKILL.md", "keep.py"]


async def test_links_inside_the_root_are_followed(tmp_path: Path) -> None:
    write_skill(tmp_path / "a", {"real.txt": b"real"})
    write(tmp_path / "shared/notes/one.txt", b"one")
    (tmp_path / "a/link.txt").symlink_to("real.txt")
    (tmp_path / "a/notes").symlink_to(tmp_path / "shared/notes")
    (tmp_path / "a/again").symlink_to(tmp_path / "shared")
    source = scanned([tmp_path])
    assert only(source) == ["SKILL.md", "again/notes/one.txt", "link.txt", "notes/one.txt", "real.txt"]
    assert not source.problems()
    await assert_serves_what_it_lists(source)


async def test_a_skill_md_that_is_a_link_makes_a_skill_and_one_that_leaves_makes_none(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root / "texts/b.md", skill_md("b"))
    write(tmp_path / "outside/SKILL.md", skill_md("c"))
    for name, target in {"b": root / "texts/b.md", "c": tmp_path / "outside/SKILL.md"}.items():
        (root / name).mkdir()
        (root / name / "SKILL.md").symlink_to(target)
    source = scanned([root])
    assert uris(source) == ["skill://b/SKILL.md"]
    assert rules_of(source.problems()) == ["link-leaves-root"]
    await assert_serves_what_it_lists(source)


def test_a_root_whose_skill_md_leaves_it_is_no_skill_and_names_nothing(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/SKILL.md", skill_md("root"))
    write_skill(tmp_path / "root/inner")
    (tmp_path / "root/SKILL.md").symlink_to(tmp_path / "elsewhere/SKILL.md")
    assert uris(scanned([tmp_path / "root"])) == ["skill://inner/SKILL.md"]


def test_links_that_leave_the_root_are_refused_and_dangling_ones_reported(tmp_path: Path) -> None:
    write(tmp_path / "root-and-more/secret.txt", b"secret")
    write(tmp_path / "secret.txt", b"secret")
    skill = write_skill(tmp_path / "root/a")
    (skill / "out.txt").symlink_to(tmp_path / "secret.txt")
    # A neighbor whose path begins like the root's is outside all the same.
    (skill / "near").symlink_to(tmp_path / "root-and-more")
    (skill / "up").symlink_to("../..")
    (skill / "nowhere").symlink_to("gone")
    (skill / "me").symlink_to("me")
    source = scanned([tmp_path / "root"])
    assert only(source) == ["SKILL.md"]
    found = {Path(problem.place).name: problem.issues[0].rule for problem in source.problems()}
    assert found == {
        "out.txt": "link-leaves-root",
        "near": "link-leaves-root",
        "up": "link-leaves-root",
        "nowhere": "link-dangling",
        "me": "link-dangling",
    }


async def test_cycles_are_cut_at_the_root_and_below_silently(tmp_path: Path) -> None:
    skill = write_skill(tmp_path / "a", {"sub/file.txt": b"x"})
    (skill / "sub/back").symlink_to("..")
    (skill / "sub/self").symlink_to(".")
    (tmp_path / "root-link").symlink_to(".")
    (skill / "top").symlink_to(tmp_path)
    source = scanned([tmp_path])
    assert only(source) == ["SKILL.md", "sub/file.txt"]
    assert not source.problems()


async def test_a_walk_of_one_skill_cuts_the_same_cycles_as_the_walk_of_all(tmp_path: Path) -> None:
    skill = write_skill(tmp_path / "a", {"x.txt": b"1"})
    write_skill(tmp_path / "b")
    (skill / "all").symlink_to(tmp_path)
    source = scanned([tmp_path])
    before = uris(source)
    write(skill / "x.txt", b"2")
    (entry, _) = source.snapshot.entries
    assert (await source.read(entry.resources[-1].uri)).data == b"2"  # type: ignore[index]
    assert uris(source) == before
    assert paths_of(source.snapshot.entries[0]) == ["SKILL.md", "x.txt"]


async def test_a_directory_reached_by_two_links_is_served_at_both_places(tmp_path: Path) -> None:
    write_skill(tmp_path / "store/tool", {"f.txt": b"f"})
    for name in ("left", "right"):
        (tmp_path / name).symlink_to("store")
    source = scanned([tmp_path])
    assert [uri.split("/")[2] for uri in uris(source)] == ["left", "right", "store"]
    await assert_serves_what_it_lists(source)


def test_links_that_multiply_end_in_a_limit(tmp_path: Path) -> None:
    for level in range(12):
        folder = tmp_path / f"level-{level}"
        folder.mkdir()
        for side in ("l", "r"):
            (folder / side).symlink_to(f"../level-{level + 1}")
    (tmp_path / "level-12").mkdir()
    with pytest.raises(LimitExceeded, match="more than 1000 directories"):
        scanned([tmp_path], limits=Limits(directories_per_root=1000))


def test_pipes_devices_and_sockets_are_passed_over(tmp_path: Path) -> None:
    skill = write_skill(tmp_path / "a")
    os.mkfifo(skill / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(skill / "socket"))
        (skill / "null").symlink_to("/dev/null")
        source = scanned([tmp_path])
    assert only(source) == ["SKILL.md"]
    assert rules_of(source.problems()) == ["link-leaves-root"]


def test_a_pipe_named_skill_md_is_not_a_skill_and_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a/SKILL.md")
    write_skill(tmp_path / "b")
    assert uris(scanned([tmp_path])) == ["skill://b/SKILL.md"]


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO])
def test_a_file_that_cannot_be_read_leaves_out_only_its_skill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    write_skill(tmp_path / "bad", {"locked.txt": b"x"})
    write_skill(tmp_path / "good")
    _fail(monkeypatch, "open", "locked.txt", error)
    source = scanned([tmp_path])
    assert uris(source) == ["skill://good/SKILL.md"]
    (issue,) = issues(source)
    assert (issue.rule, issue.file) == ("unreadable", "locked.txt")
    assert os.strerror(error) in issue.message


@pytest.mark.parametrize(("call", "name"), [("open", "locked"), ("stat", "x.txt")])
def test_a_directory_that_cannot_be_read_leaves_out_the_skills_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    write_skill(tmp_path / "bad")
    write_skill(tmp_path / "bad/inner", {"locked/x.txt": b"x"})
    write_skill(tmp_path / "good")
    write(tmp_path / "none/locked/x.txt", b"x")
    _fail(monkeypatch, call, name, errno.EACCES)
    source = scanned([tmp_path])
    assert uris(source) == ["skill://good/SKILL.md"]
    assert sorted(Path(problem.place).name for problem in source.problems()) == ["bad", "inner", name]


@pytest.mark.parametrize(("call", "name"), [("open", "x.txt"), ("open", "sub"), ("stat", "x.txt")])
def test_running_out_of_descriptors_is_reported_and_blames_no_skill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    write_skill(tmp_path / "a", {"sub/x.txt": b"x"})
    _fail(monkeypatch, call, name, errno.EMFILE)
    with pytest.raises(SourceError, match="cannot be read now: Too many open files"):
        scanned([tmp_path])


def test_what_vanishes_during_the_walk_is_no_part_of_the_skill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "a", {"fleeting.tmp": b"x", "kept.txt": b"y"})
    write_skill(tmp_path / "b", {"gone.txt": b"x", "gone/y.txt": b"y"})
    _fail(monkeypatch, "open", "fleeting.tmp", errno.ENOENT)
    _fail(monkeypatch, "stat", "gone.txt", errno.ENOENT)
    _fail(monkeypatch, "open", "gone", errno.ENOENT)
    source = scanned([tmp_path])
    assert [paths_of(entry) for entry in source.snapshot.entries] == [["SKILL.md", "kept.txt"], ["SKILL.md"]]
    assert not source.problems()


def test_a_skill_md_that_vanishes_during_the_walk_leaves_out_its_skill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "a")
    _fail(monkeypatch, "open", "SKILL.md", errno.ENOENT)
    source = scanned([tmp_path])
    assert (uris(source), rules_of(source.problems())) == ([], ["unreadable"])


@pytest.mark.requirement("FMT-9")
def test_a_name_that_no_uri_can_have_leaves_out_only_its_skill(tmp_path: Path) -> None:
    write_skill(tmp_path / "good")
    write_skill(tmp_path / "bytes")
    write_skill(tmp_path / "slash", {"back\\slash.txt": b"x"})
    (tmp_path / "none").mkdir()
    for folder in ("bytes", "none"):
        write(tmp_path / folder / os.fsdecode(b"\xff\xfe.txt"), b"x")
    (tmp_path / os.fsdecode(b"\xff-dir")).mkdir()
    source = scanned([tmp_path])
    assert uris(source) == ["skill://good/SKILL.md"]
    assert rules_of(source.problems()) == ["file-name"] * 3
    assert all(str(problem).isprintable() for problem in source.problems())


def test_a_root_that_is_a_skill_of_an_impossible_name_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "back\\slash"
    write_skill(root)
    write_skill(tmp_path / "other/good")
    source = scanned([root, tmp_path / "other"])
    assert uris(source) == ["skill://good/SKILL.md"]
    assert rules_of(source.problems()) == ["file-name"]


@pytest.mark.requirement("FMT-9")
async def test_names_are_percent_encoded_and_can_be_read_back(tmp_path: Path) -> None:
    names = [
        "with space.md",
        "100%.md",
        "%41.md",
        "#1?.md",
        "naïve ünï.md",
        "日本.md",
        "a\nb.md",
        "\x1b[31m.md",
        "+&=@:;.md",
    ]
    write_skill(tmp_path / "a", {name: name.encode() for name in names})
    source = scanned([tmp_path])
    assert len(only(source)) == len(names) + 1
    # No rule forbids a control character, but hosts may refuse it.
    assert rules_of(source.problems()) == ["file-name", "file-name"]
    assert scanned([tmp_path], strict=True).snapshot.entries == ()
    for uri in source.snapshot.files:
        assert uri.isascii()
        assert uri.isprintable()
        assert " " not in uri
    children = await source.read_directory("skill://a")  # type: ignore[arg-type]
    assert {child.name for child in children} == {"SKILL.md", *names}
    for child in children:
        if child.name != "SKILL.md":
            assert (await source.read(SkillUri(child.uri))).data == child.name.encode()


def test_a_file_whose_uri_is_too_long_leaves_out_its_skill(tmp_path: Path) -> None:
    deep = "/".join(["ü" * 120] * 12)  # 1,452 characters on disk, 8,700 in a URI
    write_skill(tmp_path / "long", {f"{deep}/x.txt": b"x"})
    write_skill(tmp_path / "good")
    source = scanned([tmp_path])
    assert uris(source) == ["skill://good/SKILL.md"]
    assert rules_of(source.problems()) == ["file-name"]


def test_a_directory_that_is_too_deep_leaves_out_its_skill(tmp_path: Path) -> None:
    write_skill(tmp_path / "a", {"1/2/3/x.txt": b"x"})
    write_skill(tmp_path / "b", {"1/2/x.txt": b"x"})
    source = scanned([tmp_path], limits=Limits(directory_depth=3))
    assert uris(source) == ["skill://b/SKILL.md"]
    assert rules_of(source.problems()) == ["too-deep"]


@pytest.mark.requirement("ENT-6")
@pytest.mark.parametrize("kind", ["files", "bytes"])
def test_a_skill_too_large_is_reported_and_nothing_of_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    files = {f"{n:03}.txt": b"x" for n in range(512)} if kind == "files" else {"big.bin": b"x" * 5000}
    write_skill(tmp_path / "large", files)
    write_skill(tmp_path / "large/inner", {"small.txt": b"x"})
    limits = Limits() if kind == "files" else Limits(bytes_per_skill=5000)
    read: list[str] = []
    monkeypatch.setattr(builder, "hash_file", _recording(read))
    source = scanned([tmp_path], limits=limits)
    assert uris(source) == ["skill://large/inner/SKILL.md"]
    assert [Path(path).parent.name for path in read] == ["inner", "inner"]
    (issue,) = issues(source)
    assert issue.rule == "too-large"
    assert f"{limits.bytes_per_skill:,} bytes" in issue.message
    assert "--allow-oversize" in issue.fix
    assert len(scanned([tmp_path], limits=limits, allow_oversize=True).snapshot.entries) == 2


@pytest.mark.requirement("ENT-6")
def test_exactly_512_files_and_the_limit_of_bytes_are_served(tmp_path: Path) -> None:
    write_skill(tmp_path / "full", {f"{n:03}.txt": b"x" for n in range(511)})
    size = sum(file.stat().st_size for file in (tmp_path / "full").iterdir())
    assert uris(scanned([tmp_path], limits=Limits(bytes_per_skill=size)))
    assert not uris(scanned([tmp_path], limits=Limits(bytes_per_skill=size - 1)))


@pytest.mark.requirement("ENT-6")
def test_a_file_that_grows_while_it_is_read_is_cut_off_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "a", {"log.txt": b"small"})
    original = os.fstat

    def grow_then_stat(descriptor: int) -> os.stat_result:
        with (tmp_path / "a/log.txt").open("ab") as log:
            log.write(b"x" * 4_000_000)
        return original(descriptor)

    monkeypatch.setattr(os, "fstat", grow_then_stat)
    source = scanned([tmp_path], limits=Limits(bytes_per_skill=1000))
    assert rules_of(source.problems()) == ["too-large"]


def test_a_scan_holds_no_file_in_memory(tmp_path: Path) -> None:
    for number in range(20):
        write_skill(tmp_path / f"skill-{number}", {"big.bin": bytes(2_000_000)})
    tracemalloc.start()
    try:
        source = scanned([tmp_path])
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(source.snapshot.entries) == 20
    assert peak < 6_000_000  # of 40 MB on disk
    assert held < 1_000_000


def test_a_root_that_cannot_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fail(monkeypatch, "open", tmp_path.name, errno.EACCES)
    with pytest.raises(SourceError, match="cannot be read: Permission denied"):
        scanned([tmp_path])


def test_a_walk_that_hands_skills_over_judges_none(tmp_path: Path) -> None:
    write(tmp_path / "bad/SKILL.md", b"nothing")
    write_skill(tmp_path / "good", {"a.txt": b"a"})
    found: list[MeasuredSkill] = []
    walk = Walk(parse_root(tmp_path), limits=Limits(), on_skill=found.append).run()
    assert [(skill.uri, skill.skill_md) for skill in found] == [
        ("skill://bad/SKILL.md", b"nothing"),
        ("skill://good/SKILL.md", skill_md("good")),
    ]
    assert (walk.skills, walk.problems) == ([], [])


def _recording(read: list[str]):
    def record(path: str, **options: Any):
        read.append(path)
        return hash_file(path, **options)

    return record


def _fail(monkeypatch: pytest.MonkeyPatch, call: str, name: str, error: int) -> None:
    """Let one call of the system fail for one name. The tests may run as root, whom no mode stops."""
    original = getattr(os, call)

    def fail(path: object, *arguments: object, **options: object) -> object:
        if isinstance(path, str) and path.rpartition("/")[2] == name:
            raise OSError(error, os.strerror(error), path)
        return original(path, *arguments, **options)

    monkeypatch.setattr(os, call, fail)
