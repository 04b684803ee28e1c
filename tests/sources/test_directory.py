"""What a read gives while the files change under it: always what the entry of that moment says."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from skillwire import DirectorySource, Limits, SkillNotFound, SourceError
from skillwire.skill import SkillEntry, SkillUri, digest_of
from skillwire.sources import Root
from skillwire.sources.directory import builder
from skillwire.sources.directory import source as directory
from skillwire.sources.directory.files import HashedFile, hash_file
from trees import assert_serves_what_it_lists, paths_of, rules_of, scanned, skill_md, write, write_skill

pytestmark = pytest.mark.anyio

A = SkillUri("skill://a/SKILL.md")
FILE = SkillUri("skill://a/x.txt")


@pytest.fixture
def source(tmp_path: Path) -> DirectorySource:
    write_skill(tmp_path / "a", {"x.txt": b"old", "y.txt": b"same"})
    write_skill(tmp_path / "b")
    return scanned([tmp_path])


@pytest.fixture
def read_in_walks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the files that walks have read."""
    read: list[str] = []

    def record(path: str, **options: Any) -> HashedFile:
        read.append(Path(path).name)
        return hash_file(path, **options)

    monkeypatch.setattr(builder, "hash_file", record)
    return iter([read])


def digests(entry: SkillEntry) -> dict[str, str]:
    return {file.uri: file.digest for file in entry.resources}  # type: ignore[union-attr]


@pytest.mark.requirement("RD-2", "ENT-3")
@pytest.mark.parametrize("given", [str, Path, lambda path: Root(path), lambda path: [path]])
async def test_one_directory_needs_no_list(tmp_path: Path, given: Callable[[Path], Any]) -> None:
    write_skill(tmp_path / "a")
    assert [entry.uri for entry in scanned(given(tmp_path)).snapshot.entries] == [A]


async def test_a_changed_file_is_published_before_it_is_read(tmp_path: Path, source: DirectorySource) -> None:
    before = await source.get_entry(A)
    write(tmp_path / "a/x.txt", b"new")
    assert (await source.read(FILE)).data == b"new"
    after = await source.get_entry(A)
    assert digests(after)[FILE] == digest_of(b"new") != digests(before)[FILE]
    assert after in await source.list_entries()


async def test_a_change_that_leaves_size_and_times_alike_is_seen(
    tmp_path: Path, source: DirectorySource
) -> None:
    path = tmp_path / "a/x.txt"
    times = path.stat()
    path.write_bytes(b"wen")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (await source.read(FILE)).data == b"wen"
    assert digests(await source.get_entry(A))[FILE] == digest_of(b"wen")


async def test_a_deleted_file_leaves_its_entry_and_the_rest_stays(
    tmp_path: Path, source: DirectorySource
) -> None:
    (tmp_path / "a/x.txt").unlink()
    with pytest.raises(SkillNotFound, match=FILE):
        await source.read(FILE)
    assert paths_of(await source.get_entry(A)) == ["SKILL.md", "y.txt"]


async def test_a_file_added_to_a_skill_is_published_when_it_is_asked_for(
    tmp_path: Path, source: DirectorySource
) -> None:
    write(tmp_path / "a/new/z.txt", b"z")
    write(tmp_path / "a/.git/config", b"no part of it")
    assert (await source.read(SkillUri("skill://a/new/z.txt"))).data == b"z"
    assert paths_of(await source.get_entry(A)) == ["SKILL.md", "new/z.txt", "x.txt", "y.txt"]
    with pytest.raises(SkillNotFound):
        await source.read(SkillUri("skill://a/.git/config"))


async def test_a_skill_added_inside_a_skill_is_had_by_its_uri(
    tmp_path: Path, source: DirectorySource
) -> None:
    write_skill(tmp_path / "a/inner")
    assert (await source.get_entry(SkillUri("skill://a/inner/SKILL.md"))).name == "inner"


async def test_asking_for_what_is_not_there_walks_nothing(
    source: DirectorySource, read_in_walks: Iterator[list[str]]
) -> None:
    snapshot = source.snapshot
    for path in ("skill://a/none.txt", "skill://c/SKILL.md", "skill://a/.git/config"):
        with pytest.raises(SkillNotFound):
            await source.read(SkillUri(path))
        with pytest.raises(SkillNotFound):
            await source.get_entry(SkillUri(path))
    assert source.snapshot is snapshot
    assert next(read_in_walks) == []


async def test_a_skill_made_invalid_is_removed_and_comes_back_when_it_is_repaired(
    tmp_path: Path, source: DirectorySource
) -> None:
    write(tmp_path / "a/SKILL.md", b"half sav")
    with pytest.raises(SkillNotFound):
        await source.read(A)
    assert [entry.name for entry in await source.list_entries()] == ["b"]
    assert len(source.problems()) == 1
    with pytest.raises(SkillNotFound):
        await source.read(FILE)
    write(tmp_path / "a/SKILL.md", skill_md("a", "Saved whole."))
    assert (await source.read(FILE)).data == b"old"
    assert (await source.get_entry(A)).description == "Saved whole."
    assert not source.problems()


async def test_a_skill_whose_directory_is_gone_is_withdrawn_and_can_come_back(
    tmp_path: Path, source: DirectorySource
) -> None:
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    with pytest.raises(SkillNotFound):
        await source.read(FILE)
    assert [entry.name for entry in await source.list_entries()] == ["b"]
    (tmp_path / "elsewhere").rename(tmp_path / "a")
    assert (await source.get_entry(A)).name == "a"


@pytest.mark.parametrize("instead", ["directory", "pipe", "link"])
async def test_a_file_replaced_by_something_else_is_no_file_any_more(
    tmp_path: Path, source: DirectorySource, instead: str
) -> None:
    path = tmp_path / "a/x.txt"
    path.unlink()
    match instead:
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            write(tmp_path.parent / "secret.txt", b"secret")
            path.symlink_to(tmp_path.parent / "secret.txt")
    with pytest.raises(SkillNotFound):
        await source.read(FILE)
    assert paths_of(await source.get_entry(A)) == ["SKILL.md", "y.txt"]


async def test_a_link_turned_outwards_after_the_scan_leads_nowhere(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_skill(root / "store/tool", {"x.txt": b"inside"})
    write_skill(tmp_path / "outside/tool", {"x.txt": b"secret"})
    (root / "link").symlink_to("store")
    source = scanned([root])
    (root / "link").unlink()
    (root / "link").symlink_to(tmp_path / "outside")
    write(root / "store/tool/x.txt", b"changed")
    with pytest.raises(SkillNotFound):
        await source.read(SkillUri("skill://link/tool/x.txt"))
    assert [entry.uri for entry in await source.list_entries()] == ["skill://store/tool/SKILL.md"]


async def test_a_skill_of_a_narrow_root_is_walked_again_within_that_root(tmp_path: Path) -> None:
    # The wide root comes first and holds the narrow one too.
    skill = write_skill(tmp_path / "wide/narrow/a", {"x.txt": b"old"})
    (skill / "out.txt").symlink_to(tmp_path / "private.txt")
    write(tmp_path / "private.txt", b"private")
    source = scanned([f"wide={tmp_path}/wide", f"narrow={tmp_path}/wide/narrow"])
    narrow = SkillUri("skill://narrow/a/SKILL.md")
    assert paths_of(await source.get_entry(narrow)) == ["SKILL.md", "x.txt"]
    write(skill / "x.txt", b"new")
    assert (await source.read(SkillUri("skill://narrow/a/x.txt"))).data == b"new"
    assert paths_of(await source.get_entry(narrow)) == ["SKILL.md", "x.txt"]


async def test_a_change_in_a_nested_skill_updates_both_entries(tmp_path: Path) -> None:
    write_skill(tmp_path / "outer/inner", {"x.txt": b"old"})
    write_skill(tmp_path / "outer")
    source = scanned([tmp_path])
    write(tmp_path / "outer/inner/x.txt", b"new")
    uri = SkillUri("skill://outer/inner/x.txt")
    assert (await source.read(uri)).data == b"new"
    outer, inner = await source.list_entries()
    assert digests(outer)[uri] == digests(inner)[uri] == digest_of(b"new")


async def test_a_walk_of_one_skill_replaces_its_problems_and_keeps_the_others(tmp_path: Path) -> None:
    # A path of this length is shortened where it is shown; it must still be recognized.
    folder = tmp_path / ("long-" * 30) / ("deep-" * 20)
    skill = write_skill(folder / "a", {"x.txt": b"1"})
    (skill / "gone.txt").symlink_to("nowhere")
    (tmp_path / "other").symlink_to("nowhere")
    source = scanned([tmp_path])
    assert rules_of(source.problems()) == ["link-dangling", "link-dangling"]
    (uri,) = [uri for uri in source.snapshot.files if uri.endswith("x.txt")]
    write(skill / "x.txt", b"2")
    await source.read(uri)
    assert rules_of(source.problems()) == ["link-dangling", "link-dangling"]
    (skill / "gone.txt").unlink()
    write(skill / "x.txt", b"3")
    await source.read(uri)
    assert [Path(problem.place).name for problem in source.problems()] == ["other"]


@pytest.mark.requirement("RD-1")
async def test_a_file_that_changes_on_every_read_is_given_up(
    source: DirectorySource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reads = 0

    def change_then_hash(path: str, **options: Any) -> HashedFile:
        nonlocal reads
        reads += 1
        write(tmp_path / "a/x.txt", b"version %d" % reads)
        return hash_file(path, **options)

    monkeypatch.setattr(directory, "hash_file", change_then_hash)
    with pytest.raises(SourceError, match="changes faster"):
        await source.read(FILE)
    assert reads == 3


async def test_readers_of_one_changed_file_cause_one_walk(
    tmp_path: Path, source: DirectorySource, read_in_walks: Iterator[list[str]]
) -> None:
    write(tmp_path / "a/x.txt", b"new")
    got: list[bytes] = []

    async def read() -> None:
        got.append((await source.read(FILE)).data)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(read)
    assert got == [b"new"] * 20
    assert next(read_in_walks).count("x.txt") == 1


@pytest.mark.parametrize("call", ["open", "scandir"])
async def test_a_lack_of_descriptors_fails_the_read_and_removes_no_skill(
    tmp_path: Path, source: DirectorySource, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    write(tmp_path / "a/x.txt", b"new")
    original = getattr(os, call)

    def fail(path: object, *arguments: object, **options: object) -> object:
        if call == "scandir" or str(path).endswith("x.txt"):
            raise OSError(errno.EMFILE, "Too many open files")
        return original(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(SourceError, match="cannot be read now"):
            await source.read(FILE)
    assert [entry.name for entry in await source.list_entries()] == ["a", "b"]
    assert (await source.read(FILE)).data == b"new"


async def test_a_large_file_is_read_whole_and_only_as_far_as_it_was_listed(tmp_path: Path) -> None:
    big = bytes(range(256)) * 8192  # 2 MiB
    write_skill(tmp_path / "a", {"x.txt": big})
    source = scanned([tmp_path], limits=Limits(bytes_per_skill=len(big) + 1000))
    assert (await source.read(FILE)).data == big
    with (tmp_path / "a/x.txt").open("ab") as file:
        file.write(big)
    with pytest.raises(SkillNotFound):  # It has outgrown the limit.
        await source.read(FILE)
    assert rules_of(source.problems()) == ["too-large"]


async def test_a_rescan_that_finds_nothing_new_holds_nothing_twice(
    tmp_path: Path, read_in_walks: Iterator[list[str]]
) -> None:
    read = next(read_in_walks)
    write_skill(tmp_path / "outer/inner", {"deep.txt": b"1"})
    write_skill(tmp_path / "outer")
    write_skill(tmp_path / "linked")
    (tmp_path / "linked/deep.txt").symlink_to("../outer/inner/deep.txt")
    source = scanned([tmp_path])
    with anyio.fail_after(30):
        while True:  # Until the times of files written a moment ago can be trusted.
            read.clear()
            before = source.snapshot
            await source.rescan()
            if not read:
                break
    after = source.snapshot
    assert after.skills is before.skills
    assert after.entries is before.entries
    assert after.files is before.files


async def test_a_skill_that_did_not_change_stays_the_same_object_beside_one_that_did(tmp_path: Path) -> None:
    write_skill(tmp_path / "a")
    write_skill(tmp_path / "b")
    source = scanned([tmp_path])
    before = source.snapshot
    write(tmp_path / "b/new.txt", b"new")
    assert await source.rescan() is True
    assert source.snapshot.entries[0] is before.entries[0]
    assert source.snapshot.entries[1] is not before.entries[1]


async def test_a_rescan_reads_only_what_changed(tmp_path: Path, read_in_walks: Iterator[list[str]]) -> None:
    read = next(read_in_walks)
    write_skill(tmp_path / "outer/inner", {"deep.txt": b"1"})
    write_skill(tmp_path / "outer", {"x.txt": b"1"})
    (tmp_path / "outer/link.txt").symlink_to("x.txt")
    (tmp_path / "again").mkdir()
    (tmp_path / "again/outer").symlink_to("../outer")
    source = scanned([tmp_path])
    # A file that was hashed right after a change is read once more; then its times can be trusted.
    with anyio.fail_after(30):
        while read:
            read.clear()
            assert await source.rescan() is False
    entries = source.snapshot.entries
    write(tmp_path / "outer/inner/deep.txt", b"2")
    assert await source.rescan() is True
    assert read == ["deep.txt", "deep.txt"]  # once for each way that leads to it
    assert source.snapshot.entries != entries
    await assert_serves_what_it_lists(source)


async def test_a_rescan_that_finds_nothing_new_keeps_the_very_listing(
    tmp_path: Path, source: DirectorySource
) -> None:
    entries = await source.list_entries()
    (tmp_path / "a/x.txt").touch()
    assert await source.rescan() is False
    assert await source.list_entries() is entries


async def test_a_rescan_sees_skills_come_and_go_and_empty_directories_too(
    tmp_path: Path, source: DirectorySource
) -> None:
    write_skill(tmp_path / "c")
    assert await source.rescan() is True
    assert [entry.name for entry in await source.list_entries()] == ["a", "b", "c"]
    (tmp_path / "c/drafts").mkdir()
    assert await source.rescan() is True
    assert [child.name for child in await source.read_directory(SkillUri("skill://c"))] == [
        "SKILL.md",
        "drafts",
    ]


async def test_a_root_that_is_gone_holds_nothing_until_it_is_back(
    tmp_path: Path, source: DirectorySource
) -> None:
    moved = Path.rename(tmp_path, tmp_path.with_name("moved"))
    assert await source.rescan() is True
    assert (await source.list_entries(), rules_of(source.problems())) == ((), ["root-gone"])
    Path.rename(moved, tmp_path)
    assert await source.rescan() is True
    assert [entry.name for entry in await source.list_entries()] == ["a", "b"]


@pytest.mark.requirement("DIR-1", "DIR-2", "DIR-3")
async def test_every_level_can_be_listed_from_the_prefixes_down(tmp_path: Path) -> None:
    write_skill(tmp_path / "team/tool", {"a.txt": b"1", "a/b.txt": b"22", "a-b/c.txt": b"3"})
    (tmp_path / "team/tool/empty/er").mkdir(parents=True)
    (tmp_path / "team/tool/only-litter/.git").mkdir(parents=True)
    (tmp_path / "team/nothing").mkdir()
    source = scanned([f"acme={tmp_path}"])

    async def names(uri: str) -> list[str]:
        children = await source.read_directory(SkillUri(uri))
        return sorted(child.name + ("/" if child.is_directory else "") for child in children)

    assert await names("skill://acme") == ["team/"]
    assert await names("skill://acme/team") == ["tool/"]
    assert await names("skill://acme/team/tool") == [
        "SKILL.md",
        "a-b/",
        "a.txt",
        "a/",
        "empty/",
        "only-litter/",
    ]
    assert await names("skill://acme/team/tool/a") == ["b.txt"]
    assert await names("skill://acme/team/tool/empty") == ["er/"]
    assert await names("skill://acme/team/tool/empty/er") == []
    sizes = {c.name: c.size for c in await source.read_directory(SkillUri("skill://acme/team/tool/a"))}
    assert sizes == {"b.txt": 2}
    for none in (
        "skill://acme/team/tool/a.txt",
        "skill://acme/tea",
        "skill://other",
        "skill://acme/team/nothing",
    ):
        with pytest.raises(SkillNotFound, match=none):
            await source.read_directory(SkillUri(none))
