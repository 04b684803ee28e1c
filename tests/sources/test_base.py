"""What a custom class needs to be a source, and what it gets for free."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from skillwire import (
    Change,
    DirectorySource,
    Read,
    SkillEntry,
    SkillNotFound,
    SkillResource,
    SkillServer,
    SkillUri,
    Source,
    SourceError,
    digest_of,
)
from skillwire.sources.base import changes_between
from skillwire.sources.directory import source as directory_module
from trees import assert_serves_what_it_lists, skill_md, write, write_skill
from waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

FILES = {
    SkillUri("skill://shop/refunds/SKILL.md"): skill_md("refunds"),
    SkillUri("skill://shop/refunds/a/b.txt"): b"b",
}
(URI, FILE) = FILES


class Shop(Source):
    """The two methods that every source needs."""

    async def list_entries(self) -> Sequence[SkillEntry]:
        resources = tuple(SkillResource(uri, digest_of(data), len(data)) for uri, data in FILES.items())
        return [SkillEntry(URI, {"name": "refunds", "description": "Refunds."}, resources)]

    async def read(self, uri: SkillUri) -> Read:
        if uri not in FILES:
            raise SkillNotFound(f"no file is at {uri}", uri=uri)
        return Read(FILES[uri])


async def test_two_methods_make_a_source() -> None:
    source = Shop()
    await assert_serves_what_it_lists(source)
    assert (await source.get_entry(URI)).name == "refunds"
    with pytest.raises(SkillNotFound):
        await source.get_entry(SkillUri("skill://shop/other/SKILL.md"))
    shown = {
        directory: [
            (child.name, child.is_directory, child.size) for child in await source.read_directory(directory)
        ]
        for directory in map(SkillUri, ("skill://shop", "skill://shop/refunds", "skill://shop/refunds/a"))
    }
    assert shown == {
        "skill://shop": [("refunds", True, None)],
        "skill://shop/refunds": [("SKILL.md", False, len(FILES[URI])), ("a", True, None)],
        "skill://shop/refunds/a": [("b.txt", False, 1)],
    }
    with pytest.raises(SkillNotFound):
        await source.read_directory(SkillUri("skill://nowhere"))
    assert [change async for change in source.changes()] == []
    assert not source.problems()
    assert source.current_entries() is None
    assert source.local_path(URI) is None


async def test_a_source_without_its_two_methods_cannot_be_made() -> None:
    class Nothing(Source):
        pass

    with pytest.raises(TypeError, match="list_entries"):
        Nothing()  # type: ignore[abstract]


async def test_a_custom_source_is_served_beside_a_directory(tmp_path: Path) -> None:
    write_skill(tmp_path / "tool")
    server = SkillServer(tmp_path, Shop())
    assert [entry.uri for entry in await server.library.entries()] == [URI, "skill://tool/SKILL.md"]
    assert (await server.library.read(FILE)).data == b"b"


def entry(name: str, data: bytes, description: str = "x") -> SkillEntry:
    uri = SkillUri(f"skill://{name}/SKILL.md")
    resources = (SkillResource(uri, digest_of(data), len(data)),)
    return SkillEntry(uri, {"name": name, "description": description}, resources)


async def test_changes_name_the_skill_or_the_listing() -> None:
    before = [entry("a", b"1"), entry("b", b"1")]
    assert changes_between(before, [entry("a", b"1"), entry("b", b"2")]) == (
        Change(SkillUri("skill://b/SKILL.md")),
    )
    assert changes_between(before, before[:1]) == (Change(),)
    assert changes_between(before, [before[0], entry("c", b"1")]) == (Change(),)
    assert changes_between(before, [before[0], entry("b", b"1", "other")]) == (Change(),)
    assert changes_between(before, before) == (Change(),)
    many = [entry(f"n{number:03}", b"1") for number in range(200)]
    assert changes_between(many, [entry(f"n{number:03}", b"2") for number in range(200)]) == (Change(),)


async def test_an_edit_on_disk_is_a_change_of_that_skill(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_skill(tmp_path / name, {"x.txt": b"old"})
    source = DirectorySource([tmp_path])
    await source.open()
    write(tmp_path / "b/x.txt", b"new")
    with anyio.fail_after(30):
        async with aclosing(source.changes()) as changes:
            assert await anext(changes) == Change(SkillUri("skill://b/SKILL.md"))


async def test_constructors_read_nothing(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    source = DirectorySource([missing])
    server = SkillServer(missing)
    with pytest.raises(SourceError, match="missing"):
        await source.open()
    with pytest.raises(SourceError, match="missing"):
        await server.library.open()
    write_skill(missing / "late")
    await server.library.open()
    assert [found.name for found in await server.library.entries()] == ["late"]


async def test_a_scan_does_not_hold_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_skill(tmp_path / "a")
    scan = directory_module.scan

    began, may_end = threading.Event(), threading.Event()
    ended: list[bool] = []

    def slow(*args: object, **options: object) -> object:
        began.set()
        ended.append(may_end.wait(PATIENCE))
        return scan(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(directory_module, "scan", slow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(SkillServer(tmp_path).library.open)
        await until(began.is_set)
        may_end.set()
    assert ended == [True]


async def test_a_source_opened_again_finds_what_changed_meanwhile(tmp_path: Path) -> None:
    write_skill(tmp_path / "a")
    source = DirectorySource([tmp_path])
    first = await source.list_entries()
    assert source.current_entries() is first
    await source.aclose()
    assert source.current_entries() is None
    write(tmp_path / "a/new.txt", b"new")
    assert await source.list_entries() != first
