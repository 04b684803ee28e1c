"""One catalog over several sources: what is listed, what is only served, and who owns a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire import FunctionSource, SkillNotFound
from skillwire.server import ServerOptions, SkillLibrary
from skillwire.skill import DYNAMIC, SkillUri
from trees import rules_of, scanned, skill_md, write_skill

pytestmark = pytest.mark.anyio


def made(*paths: str) -> FunctionSource:
    source = FunctionSource()
    for path in paths:
        name = path.rpartition("/")[2]
        source.static(path)(lambda name=name: {"SKILL.md": skill_md(name), "by.txt": "function"})
    return source


async def listed(library: SkillLibrary) -> list[str]:
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = await library.list_skills(cursor)
        names.extend(entry.uri.removeprefix("skill://").removesuffix("/SKILL.md") for entry in page.items)
        if (cursor := page.next_cursor) is None:
            return names


async def names_in(library: SkillLibrary, uri: str) -> list[str]:
    return [child.name for child in (await library.read_directory(SkillUri(uri), None)).items]


@pytest.mark.requirement("LST-1")
@pytest.mark.parametrize("size", range(1, 9))
async def test_skills_of_all_sources_come_in_one_order_on_pages_of_any_size(
    tmp_path: Path, size: int
) -> None:
    for name in ("b", "d/x", "f"):
        write_skill(tmp_path / name)
    library = SkillLibrary([scanned([tmp_path]), made("a", "c/y", "e", "g")], ServerOptions(page_size=size))
    assert await listed(library) == ["a", "b", "c/y", "d/x", "e", "f", "g"]


@pytest.mark.requirement("LST-1")
async def test_a_cursor_holds_while_the_directory_changes(tmp_path: Path) -> None:
    for name in ("b", "d", "f"):
        write_skill(tmp_path / name)
    source = scanned([tmp_path])
    library = SkillLibrary([source], ServerOptions(page_size=1))
    first = await library.list_skills(None)
    for name in ("a", "c"):
        write_skill(tmp_path / name)
    (tmp_path / "b").rename(tmp_path / ".git")
    await source.rescan()
    second = await library.list_skills(first.next_cursor)
    assert [entry.name for page in (first, second) for entry in page.items] == ["b", "c"]


@pytest.mark.requirement("LST-3", "GET-1")
async def test_unlisted_skills_are_served_anyway() -> None:
    library = SkillLibrary(
        [made("internal/one", "internal/deep/two", "public/three", "secret")],
        ServerOptions(
            unlisted=(
                "internal/*",
                "sec*",
            )
        ),
    )
    assert await listed(library) == ["public/three"]
    for path in ("internal/one", "internal/deep/two", "secret"):
        uri = SkillUri(f"skill://{path}/SKILL.md")
        assert (await library.get_skill(uri)).uri == uri
        assert (await library.read(uri)).data
    assert len(await library.entries()) == 4


@pytest.mark.requirement("ENT-5")
async def test_two_sources_at_one_place_are_reported_and_the_first_is_used(tmp_path: Path) -> None:
    write_skill(tmp_path / "same", {"by.txt": b"disk"})
    by = SkillUri("skill://same/by.txt")
    sources = [scanned([tmp_path]), made("same", "other")]
    for ordered, expected in ((sources, b"disk"), (sources[::-1], b"function")):
        library = SkillLibrary(ordered)
        assert await listed(library) == ["other", "same"]
        assert (await library.read(by)).data == expected
        assert rules_of(await library.problems()) == ["uri-taken"]


@pytest.mark.requirement("ENT-2", "FMT-8")
@pytest.mark.parametrize("flip", [False, True])
async def test_a_source_cannot_put_a_skill_inside_a_skill_of_another(tmp_path: Path, flip: bool) -> None:
    write_skill(tmp_path / "outer", {"inner/SKILL.md": b"plain", "x.txt": b"x"})
    sources = [scanned([tmp_path]), made("outer/inner", "team/a")]
    library = SkillLibrary(sources[::-1] if flip else sources)
    assert await listed(library) == ["outer", "team/a"]
    # What the outer skill lists is what is read there, and nothing else is there.
    assert (await library.read(SkillUri("skill://outer/inner/SKILL.md"))).data == b"plain"
    assert await names_in(library, "skill://outer/inner") == ["SKILL.md"]
    for asked in (library.get_skill, library.read):
        with pytest.raises(SkillNotFound):
            await asked(SkillUri("skill://outer/inner/by.txt"))
    with pytest.raises(SkillNotFound):
        await library.get_skill(SkillUri("skill://outer/inner/SKILL.md"))
    (problem,) = [p for p in await library.problems() if rules_of([p]) == ["uri-taken"]]
    assert "skill://outer/SKILL.md" in str(problem)


@pytest.mark.requirement("DIR-1", "DIR-2")
async def test_prefix_levels_are_merged_over_the_sources_and_paged(tmp_path: Path) -> None:
    for name in ("team/b", "team/d"):
        write_skill(tmp_path / name)
    library = SkillLibrary([scanned([tmp_path]), made("team/a", "team/c/deep")], ServerOptions(page_size=3))
    first = await library.read_directory(SkillUri("skill://team"), None)
    second = await library.read_directory(SkillUri("skill://team"), first.next_cursor)
    assert [child.name for page in (first, second) for child in page.items] == ["a", "b", "c", "d"]
    assert second.next_cursor is None


async def test_an_empty_directory_and_an_empty_library_are_no_errors(tmp_path: Path) -> None:
    (write_skill(tmp_path / "a") / "empty").mkdir()
    assert await names_in(SkillLibrary([scanned([tmp_path])]), "skill://a/empty") == []
    empty = SkillLibrary([])
    assert await listed(empty) == []
    assert await empty.problems() == []
    with pytest.raises(SkillNotFound):
        await empty.read(SkillUri("skill://a/SKILL.md"))


@pytest.mark.requirement("RD-1")
async def test_an_error_names_even_a_long_uri_whole(tmp_path: Path) -> None:
    write_skill(tmp_path / "a", {"/".join(["long"] * 60) + "/x.txt": b"x"})
    library = SkillLibrary([scanned([tmp_path])])
    directory = SkillUri("skill://a/" + "/".join(["long"] * 60))
    with pytest.raises(
        SkillNotFound, match=f"{directory} is a directory; list it with resources/directory/read"
    ):
        await library.read(directory)
    for asked in (library.get_skill, library.read):
        with pytest.raises(SkillNotFound, match=f"{directory}/none"):
            await asked(SkillUri(f"{directory}/none"))
    with pytest.raises(SkillNotFound, match=f"{directory}/none"):
        await library.read_directory(SkillUri(f"{directory}/none"), None)


async def test_a_dynamic_skill_stands_beside_static_ones() -> None:
    source = made("a")
    source.dynamic("b")(lambda: skill_md("b").decode())
    library = SkillLibrary([source])
    assert [entry.resources is DYNAMIC for entry in await library.entries()] == [False, True]


@pytest.mark.parametrize("size", [0, -1])
def test_a_page_must_hold_something(size: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SkillLibrary([], ServerOptions(page_size=size))
