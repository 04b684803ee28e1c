"""A scan cache makes the next start fast and changes nothing else, whatever happened to the files or to
it."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from properties import examples
from skillwire import DirectorySource
from skillwire.limits import Limits
from skillwire.skill import SkillUri, digest_of
from skillwire.sources.directory import builder, files
from skillwire.sources.directory import cache as cache_module
from skillwire.sources.directory.cache import decode_line, encode_line, scan_caches_in
from skillwire.sources.directory.files import HashedFile, hash_file
from trees import assert_serves_what_it_lists, scanned, skill_md, write, write_skill
from waiting import PATIENCE

A = SkillUri("skill://a/SKILL.md")
DAY = 24 * 3600


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written a moment ago counts as old: its times can be trusted."""
    later = time.time_ns
    monkeypatch.setattr(files.time, "time_ns", lambda: later() + 10**9)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that scans have read."""
    found: list[str] = []

    def record(path: str, **options: Any) -> HashedFile:
        found.append(Path(path).name)
        return hash_file(path, **options)

    monkeypatch.setattr(builder, "hash_file", record)
    return found


def plant(root: Path) -> Path:
    write_skill(root / "a", {"x.txt": b"old", "refs/deep/y.txt": b"y", "ünï cödé.txt": b"u"})
    (root / "a/empty").mkdir()
    write_skill(root / "a-b")
    write_skill(root / "outer", {"o.txt": b"o"})
    write_skill(root / "outer/inner", {"n.txt": b"n"})
    write_skill(root / "team/one", description="'It is: \"quoted\", – and more'")
    write_skill(root / "team/two", {"x.txt": b"x"})
    write(root / "store/shared.txt", b"shared")
    write_skill(root / "linked")
    (root / "linked/shared.txt").symlink_to("../store/shared.txt")
    (root / "linked/again.txt").symlink_to("SKILL.md")
    (root / "more").symlink_to("team")
    write(root / "broken/SKILL.md", b"not yet")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return plant(tmp_path / "skills")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def start(*roots: object, kept: Path, **options: Any) -> DirectorySource:
    """Start with what was kept, and keep what was found."""
    source = scanned(roots, cache_directory=kept, **options)  # type: ignore[arg-type]
    source.save_cache()
    return source


def told(source: DirectorySource) -> tuple[object, ...]:
    """All there is in a snapshot, for clients and for the next scan."""
    shot = source.snapshot
    paths = {uri: file.path for uri, file in shot.files.items()}
    return shot.entries, shot.skills, paths, shot.problems, shot.empty, shot.linked, shot.has_outer_links


def expect_a_scan_without(source: DirectorySource, **options: Any) -> None:
    assert told(source) == told(scanned(source.roots, **options))


def test_when_nothing_changed_no_file_is_read(root: Path, kept: Path, read: list[str]) -> None:
    write(root / "broken/SKILL.md", skill_md("broken"))
    start(root, kept=kept)
    assert "x.txt" in read
    read.clear()
    source = start(root, kept=kept)
    assert read == []
    expect_a_scan_without(source)


@pytest.mark.anyio
async def test_what_a_scan_cache_tells_can_be_read(root: Path, kept: Path) -> None:
    start(root, kept=kept)
    await assert_serves_what_it_lists(scanned([root], cache_directory=kept))


def test_without_a_scan_cache_nothing_is_kept(root: Path, kept: Path) -> None:
    source = scanned([root])
    source.save_cache()
    with source.saving_cache():
        pass
    assert not kept.exists()


Change = Callable[[Path], object]


def change_content(root: Path) -> None:
    write(root / "a/x.txt", b"new")


def touch(root: Path) -> None:
    os.utime(root / "a/x.txt", (1, 1))


def put_another_in_its_place(root: Path) -> None:
    old = (root / "a/x.txt").stat()
    write(root / "a/x.tmp", b"NEW")
    os.utime(root / "a/x.tmp", ns=(old.st_atime_ns, old.st_mtime_ns))
    (root / "a/x.tmp").rename(root / "a/x.txt")


def swap_two_files(root: Path) -> None:
    write(root / "a/z.txt", b"zzz")
    (root / "a/x.txt").rename(root / "a/w.txt")
    (root / "a/z.txt").rename(root / "a/x.txt")


def add_a_file(root: Path) -> None:
    write(root / "a/new.txt", b"n")


def remove_a_file(root: Path) -> None:
    (root / "a/x.txt").unlink()


def rename_a_directory(root: Path) -> None:
    (root / "a/refs").rename(root / "a/references")


def rename_a_skill(root: Path) -> None:
    (root / "a").rename(root / "b")


def rename_a_folder_of_skills(root: Path) -> None:
    (root / "team").rename(root / "crew")


def swap_two_skills(root: Path) -> None:
    (root / "team/one").rename(root / "team/three")
    (root / "team/two").rename(root / "team/one")
    (root / "team/three").rename(root / "team/two")


def retarget_a_link(root: Path) -> None:
    write(root / "store/other.txt", b"others")
    (root / "linked/shared.txt").unlink()
    (root / "linked/shared.txt").symlink_to("../store/other.txt")


def put_a_file_for_a_link(root: Path) -> None:
    (root / "linked/shared.txt").unlink()
    write(root / "linked/shared.txt", b"shared")


def put_a_link_for_a_file(root: Path) -> None:
    (root / "a/x.txt").rename(root / "a/really.txt")
    (root / "a/x.txt").symlink_to("really.txt")


def put_a_link_for_a_skill(root: Path) -> None:
    (root / "a").rename(root / "store/a")
    (root / "a").symlink_to("store/a")


def change_what_a_link_leads_to(root: Path) -> None:
    write(root / "store/shared.txt", b"SHARED")


def break_a_skill(root: Path) -> None:
    write(root / "a/SKILL.md", b"---\nname: other\ndescription: x\n---\n")


def mend_a_skill(root: Path) -> None:
    write(root / "broken/SKILL.md", skill_md("broken"))


def edit_metadata(root: Path) -> None:
    write(root / "a/SKILL.md", skill_md("a", "Something else."))


def fill_an_empty_directory(root: Path) -> None:
    write(root / "a/empty/now.txt", b"not")


def add_an_empty_directory(root: Path) -> None:
    (root / "a/hollow").mkdir()


def enclose_skills(root: Path) -> None:
    write(root / "team/SKILL.md", skill_md("team"))


def uncover_a_skill(root: Path) -> None:
    (root / "outer/SKILL.md").unlink()


def change_a_nested_file(root: Path) -> None:
    write(root / "outer/inner/n.txt", b"N")


def break_a_nested_skill(root: Path) -> None:
    write(root / "outer/inner/SKILL.md", b"")


def remove_everything(root: Path) -> None:
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def make_the_root_a_skill(root: Path) -> None:
    write(root / "SKILL.md", skill_md("skills"))


CHANGES: list[Change] = [
    value
    for value in list(globals().values())
    if callable(value) and getattr(value, "__annotations__", None) == {"root": "Path", "return": "None"}
]


@pytest.mark.requirement("ENT-2", "ENT-3")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_after_any_change_a_scan_cache_leaves_what_a_scan_without_it_finds(
    root: Path, kept: Path, change: Change
) -> None:
    start(root, kept=kept)
    change(root)
    for _ in range(2):
        expect_a_scan_without(start(root, kept=kept))


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 20))]
)
def test_after_many_changes_a_scan_cache_leaves_what_a_scan_without_it_finds(
    root: Path, kept: Path, seed: int
) -> None:
    chance = random.Random(seed)
    second = plant(root.parent / "second")
    served: list[tuple[object, ...]] = [(root,), (f"acme/x={root}",), (root, second), (second, root)]
    for roots in served:
        start(*roots, kept=kept)
    for _ in range(5):
        for change in chance.sample(CHANGES, chance.randrange(4)):
            with suppress(OSError):  # What it changes is gone already.
                change(chance.choice([root, second]))
        for roots in chance.sample(served, 2):
            expect_a_scan_without(start(*roots, kept=kept))


def test_one_changed_file_is_the_only_one_that_is_read(root: Path, kept: Path, read: list[str]) -> None:
    write(root / "broken/SKILL.md", skill_md("broken"))
    start(root, kept=kept)
    read.clear()
    write(root / "a/x.txt", b"new")
    start(root, kept=kept)
    assert read == ["x.txt"]
    read.clear()
    start(root, kept=kept)
    assert read == []


def test_a_file_that_was_written_a_moment_ago_is_read_again(
    root: Path, kept: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root / "broken/SKILL.md", skill_md("broken"))
    with monkeypatch.context() as patch:
        patch.setattr(files.time, "time_ns", lambda: (root / "a/x.txt").stat().st_mtime_ns)
        start(root, kept=kept)
    read.clear()
    start(root, kept=kept)
    assert "x.txt" in read
    read.clear()
    start(root, kept=kept)
    assert read == []


@pytest.mark.parametrize("was", [False, True])
def test_a_skill_that_may_be_large_is_asked_for_its_size_every_time(
    root: Path, kept: Path, was: bool
) -> None:
    limits = Limits(bytes_per_skill=150)
    start(root, kept=kept, limits=limits, allow_oversize=was)
    for allow in (not was, was):
        source = start(root, kept=kept, limits=limits, allow_oversize=allow)
        expect_a_scan_without(source, limits=limits, allow_oversize=allow)


def test_each_set_of_directories_and_prefixes_has_its_own_scan_cache(root: Path, kept: Path) -> None:
    second = plant(root.parent / "second")
    for roots in [(root,), (f"acme={root}",), (f"acme/x={root}",), (root, second), (second, root)]:
        start(*roots, kept=kept)
        expect_a_scan_without(start(*roots, kept=kept))
    assert len(list(kept.iterdir())) == 5


@pytest.mark.anyio
@pytest.mark.requirement("RD-2", "ENT-3")
async def test_a_wrong_digest_is_corrected_by_the_first_read(root: Path, kept: Path) -> None:
    source = start(root, kept=kept)
    skill = source.snapshot.skills[A]
    wrong = tuple(replace(file, digest=digest_of(b"wrong")) for file in skill.resources)
    lying = replace(skill, entry=replace(skill.entry, resources=wrong))
    source.snapshot.skills[A] = lying
    index = cache_module.ScanCache(kept, source.roots)
    index.close()
    index.save(source.snapshot)

    source = scanned([root], cache_directory=kept)
    file = source.snapshot.skills[A].resources[-1]
    assert file.digest == digest_of(b"wrong")
    data = (await source.read(file.uri)).data
    assert data == await anyio.Path(source.snapshot.files[file.uri].path).read_bytes()
    entry = await source.get_entry(A)
    assert {each.uri: each.digest for each in entry.resources}[file.uri] == digest_of(data)  # type: ignore[union-attr]


# When it is written.


def index_in(kept: Path) -> Path:
    (path,) = kept.iterdir()
    return path


def test_a_scan_cache_is_for_its_owner_alone_and_written_only_when_something_differs(
    root: Path, kept: Path
) -> None:
    start(root, kept=kept)
    path = index_in(kept)
    written = path.stat()
    assert written.st_mode & 0o777 == 0o600
    assert kept.stat().st_mode & 0o077 == 0
    start(root, kept=kept)
    assert path.stat().st_ino == written.st_ino
    assert path.stat().st_mtime_ns == written.st_mtime_ns
    write(root / "a/x.txt", b"new")
    start(root, kept=kept)
    assert path.stat().st_ino != written.st_ino


def test_skills_that_are_gone_leave_the_scan_cache(root: Path, kept: Path) -> None:
    start(root, kept=kept)
    shutil.rmtree(root / "a")
    start(root, kept=kept)
    assert b"skill://a/" not in index_in(kept).read_bytes()


def test_a_scan_cache_is_saved_at_the_end_of_a_block_and_not_before(root: Path, kept: Path) -> None:
    source = scanned([root], cache_directory=kept)
    with source.saving_cache(after=3600):
        assert not kept.exists()
    expect_a_scan_without(scanned([root], cache_directory=kept))
    assert index_in(kept)


def test_a_scan_cache_is_saved_while_a_block_lasts(
    root: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = threading.Event()
    save = cache_module.ScanCache.save

    def tell(*arguments: Any) -> None:
        save(*arguments)
        saved.set()

    monkeypatch.setattr(cache_module.ScanCache, "save", tell)
    with scanned([root], cache_directory=kept).saving_cache(after=0):
        assert saved.wait(PATIENCE)
        assert index_in(kept)


def test_the_end_of_a_block_waits_for_a_scan_cache_that_is_being_saved(
    root: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = threading.Event(), threading.Event()
    save = cache_module.ScanCache.save

    def slowly(*arguments: Any) -> None:
        began.set()
        may_end.wait(PATIENCE)
        save(*arguments)

    monkeypatch.setattr(cache_module.ScanCache, "save", slowly)
    with scanned([root], cache_directory=kept).saving_cache(after=0):
        assert began.wait(PATIENCE)
        threading.Timer(0.01, may_end.set).start()
    assert index_in(kept)


# What is no index of ours.


def expect_it_is_ignored_and_replaced(root: Path, kept: Path, read: list[str]) -> None:
    read.clear()
    source = start(root, kept=kept)
    assert "x.txt" in read
    expect_a_scan_without(source)
    read.clear()
    start(root, kept=kept)
    assert "x.txt" not in read


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n\n\n", id="empty lines"),
        pytest.param(b"\x80\x04\x95garbage\xff\xfe", id="garbage"),
        pytest.param(b"[" * 100_000, id="brackets"),
        pytest.param(b"\t00000000\t" + b"[" * 100_000 + b"\n", id="brackets in a line"),
        pytest.param(encode_line("", []), id="an empty claim"),
        pytest.param(encode_line("", [1, "0.1.0", []]), id="a claim to nothing"),
    ],
)
def test_a_file_that_is_no_scan_cache_is_ignored_and_replaced(
    root: Path, kept: Path, read: list[str], content: bytes
) -> None:
    start(root, kept=kept)
    index_in(kept).write_bytes(content)
    expect_it_is_ignored_and_replaced(root, kept, read)


def claim_of(path: Path) -> tuple[list[Any], bytes]:
    first, _, rest = path.read_bytes().partition(b"\n")
    claim = decode_line("", first + b"\n")
    assert claim is not None
    return claim, rest


@pytest.mark.parametrize(
    ("place", "value"),
    [
        pytest.param([0], 3, id="a later format"),
        pytest.param([0], 1, id="an earlier format"),
        pytest.param([1], "0.0.9", id="another version"),
        pytest.param([2, 0, 0], "/elsewhere", id="another directory"),
        pytest.param([2, 0, 1], ["acme"], id="another prefix"),
        pytest.param([2, 0, 2], 99_999, id="another device"),
        pytest.param([2, 0, 3], 99_999, id="another inode"),
    ],
)
def test_a_scan_cache_with_another_claim_is_ignored_and_replaced(
    root: Path, kept: Path, read: list[str], place: list[int], value: object
) -> None:
    start(root, kept=kept)
    path = index_in(kept)
    claim, rest = claim_of(path)
    inner: Any = claim
    for step in place[:-1]:
        inner = inner[step]
    assert inner[place[-1]] != value
    inner[place[-1]] = value
    path.write_bytes(encode_line("", claim) + rest)
    expect_it_is_ignored_and_replaced(root, kept, read)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_scan_cache_that_others_may_write_is_ignored_and_replaced(
    root: Path, kept: Path, read: list[str], mode: int
) -> None:
    start(root, kept=kept)
    index_in(kept).chmod(mode)
    expect_it_is_ignored_and_replaced(root, kept, read)
    assert index_in(kept).stat().st_mode & 0o777 == 0o600


def test_a_scan_cache_of_another_owner_is_ignored_and_replaced(
    root: Path, kept: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start(root, kept=kept)
    owner = index_in(kept).stat().st_uid
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: owner + 1)
        read.clear()
        start(root, kept=kept)
        assert "x.txt" in read


def test_a_link_in_the_place_of_a_scan_cache_is_ignored_and_replaced(
    root: Path, kept: Path, read: list[str]
) -> None:
    start(root, kept=kept)
    path = index_in(kept)
    elsewhere = path.rename(kept.parent / "elsewhere")
    path.symlink_to(elsewhere)
    expect_it_is_ignored_and_replaced(root, kept, read)
    assert not path.is_symlink()


def test_a_pipe_in_the_place_of_a_scan_cache_does_not_block(root: Path, kept: Path, read: list[str]) -> None:
    start(root, kept=kept)
    path = index_in(kept)
    path.unlink()
    os.mkfifo(path, 0o600)
    expect_it_is_ignored_and_replaced(root, kept, read)


def test_a_scan_cache_that_is_too_long_is_not_read(root: Path, kept: Path, read: list[str]) -> None:
    start(root, kept=kept)
    read.clear()
    start(root, kept=kept, limits=Limits(index_bytes=100))
    assert "x.txt" in read
    read.clear()
    start(root, kept=kept, limits=Limits(index_line_bytes=150))
    assert "x.txt" in read


def no_folder(kept: Path) -> None:
    kept.write_bytes(b"a file where the folder would be")


def no_file(kept: Path) -> None:
    start(kept.parent / "skills", kept=kept)
    path = index_in(kept)
    path.unlink()
    (path / "in the way").mkdir(parents=True)


@pytest.mark.parametrize("spoil", [no_folder, no_file])
def test_a_scan_cache_that_cannot_be_written_changes_nothing(
    root: Path, kept: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], None]
) -> None:
    spoil(kept)
    with caplog.at_level("DEBUG"):
        expect_a_scan_without(start(root, kept=kept))
    assert [record.levelname for record in caplog.records if "scan cache" in record.message] == ["DEBUG"]
    assert not list(kept.parent.rglob("*.unfinished"))


def test_a_scan_cache_that_cannot_be_read_further_is_ignored(
    root: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(root, kept=kept)

    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(cache_module.ScanCache, "_line", fail)
    expect_a_scan_without(start(root, kept=kept))


def test_a_scan_cache_is_never_put_among_what_is_served(root: Path) -> None:
    source = start(root, kept=root / "a/kept")
    assert not (root / "a/kept").exists()
    expect_a_scan_without(source)


class Indexed:
    """A tree and its index, for tests that damage the index and leave the tree."""

    def __init__(self, folder: Path) -> None:
        self.root = plant(folder / "skills")
        start(self.root, kept=folder / "kept")
        self.path = index_in(folder / "kept")
        self.whole = self.path.read_bytes()
        self._told = told(scanned([self.root]))

    def expect_no_harm(self, index: bytes) -> None:
        """With this index, a scan finds what one without an index finds."""
        self.path.write_bytes(index)
        assert told(scanned([self.root], cache_directory=self.path.parent)) == self._told


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    with pytest.MonkeyPatch.context() as patch:
        later = time.time_ns
        patch.setattr(files.time, "time_ns", lambda: later() + 10**9)
        return Indexed(tmp_path_factory.mktemp("indexed"))


Damage = Callable[[bytes], bytes]
PLACES = st.integers(0, 10_000)


def _at(place: int, data: bytes) -> int:
    return place % (len(data) + 1)


DAMAGES: st.SearchStrategy[Damage] = st.one_of(
    st.builds(lambda at: lambda data: data[: _at(at, data)], PLACES),
    st.builds(
        lambda at, byte: lambda data: data[: _at(at, data)] + byte + data[_at(at, data) + 1 :],
        PLACES,
        st.binary(min_size=1, max_size=1),
    ),
    st.builds(
        lambda at, more: lambda data: data[: _at(at, data)] + more + data[_at(at, data) :],
        PLACES,
        st.binary(max_size=20) | st.sampled_from([b"\n", b"\t", b"\n\n", b"0", b'"', b"[]"]),
    ),
    st.builds(
        lambda at, count: lambda data: data[: _at(at, data)] + data[_at(at, data) + count :],
        PLACES,
        st.integers(1, 500),
    ),
    st.builds(
        lambda seed: (
            lambda data: b"".join(random.Random(seed).sample(data.splitlines(True), data.count(b"\n")))
        ),
        PLACES,
    ),
    st.just(lambda data: data + data),
)


@pytest.mark.slow
@given(damages=st.lists(DAMAGES, min_size=1, max_size=3))
@settings(examples(250), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_to_a_scan_cache_changes_what_is_served(indexed: Indexed, damages: list[Damage]) -> None:
    data = indexed.whole
    for damage in damages:
        data = damage(data)
    indexed.expect_no_harm(data)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@given(field=st.integers(0, 10), value=VALUES, line=st.integers(0, 100))
@settings(examples(250), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_of_a_wrong_kind_changes_what_is_served(
    indexed: Indexed, field: int, value: object, line: int
) -> None:
    first, *lines = indexed.whole.splitlines(keepends=True)
    line %= len(lines)
    key = lines[line].partition(b"\t")[0].decode()
    values = decode_line(key, lines[line])
    assert values is not None
    assert len(values) == 10
    if isinstance(value, dict) and field == 8:
        value = [value]  # A frontmatter that JSON can hold is what the sum vouches for.
    changed = [*values[:field], value, *values[field + 1 :]] if field < 10 else [*values, value]
    lines[line] = encode_line(key, changed)
    indexed.expect_no_harm(first + b"".join(lines))


def test_values_of_a_wrong_kind_inside_a_list_change_nothing(indexed: Indexed) -> None:
    first, *lines = indexed.whole.splitlines(keepends=True)
    key = lines[0].partition(b"\t")[0].decode()
    values = decode_line(key, lines[0])
    assert values is not None
    for field in (2, 3):
        for wrong in (None, True, 1.0, float(values[3][0]), "1", [], {}):
            changed = json.loads(json.dumps(values))
            changed[field][0] = wrong
            indexed.expect_no_harm(first + encode_line(key, changed) + b"".join(lines[1:]))


# How many there are.


def age(path: Path, *, days: int) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def test_scan_caches_that_nobody_uses_are_removed(root: Path, kept: Path) -> None:
    ages = {
        "old.index": 91,
        "young.index": 89,
        "left.unfinished": 2,
        "current.unfinished": 0,
        "notes.txt": 500,
    }
    for name, days in ages.items():
        write(kept / name, b"")
        age(kept / name, days=days)
    start(root, kept=kept)
    (own,) = {path.name for path in kept.iterdir()} - ages.keys()
    assert {path.name for path in kept.iterdir()} == {own, "young.index", "current.unfinished", "notes.txt"}


def test_a_scan_cache_in_use_does_not_grow_old(root: Path, kept: Path) -> None:
    start(root, kept=kept)
    path = index_in(kept)
    age(path, days=80)
    start(root, kept=kept)
    assert path.stat().st_mtime > time.time() - DAY


def test_of_too_many_scan_caches_those_used_last_stay(root: Path, kept: Path) -> None:
    for number in range(5):
        write(kept / f"{number}.index", b"")
        age(kept / f"{number}.index", days=number + 1)
    start(root, kept=kept, limits=Limits(scan_caches=3))
    assert len(list(scan_caches_in(kept))) == 3
    assert {"0.index", "1.index"} < {path.name for path in kept.iterdir()}
