from __future__ import annotations

from pathlib import Path

import pytest

from skillwire.errors import SkillNotFound, SourceError
from skillwire.limits import Limits
from skillwire.skill import parse_uri
from skillwire.sources.command_files import CommandFiles
from trees import assert_serves_what_it_lists, write

pytestmark = pytest.mark.anyio

MIGRATE = parse_uri("skill://db/migrate/SKILL.md")


async def test_each_markdown_file_is_a_skill_named_by_its_path(tmp_path: Path) -> None:
    write(tmp_path / "db/migrate.md", b"\n# Move it\nText.\n")
    write(tmp_path / "tidy.md", b"---\nname: other\ndescription: Tidies up.\n---\nText.\n")
    write(tmp_path / "notes.txt", b"no command")
    source = CommandFiles(tmp_path)
    found = {entry.uri: (entry.name, entry.description) for entry in await source.list_entries()}
    assert found == {
        MIGRATE: ("migrate", "Move it"),
        "skill://tidy/SKILL.md": ("tidy", "Tidies up."),
    }
    assert source.local_path(MIGRATE) == str((tmp_path / "db/migrate.md").resolve())
    assert source.local_path(parse_uri("skill://x/SKILL.md")) is None
    await assert_serves_what_it_lists(source)


async def test_a_file_that_cannot_be_used_is_left_out_and_reported(tmp_path: Path) -> None:
    write(tmp_path / "folder/broken.md", b"---\nname: [\n---\n")
    write(tmp_path / "folder/large.md", b"x" * 100)
    write(tmp_path / "outside.md", b"secret")
    write(tmp_path / "folder/empty.md", b"")
    (tmp_path / "folder/link.md").symlink_to(tmp_path / "outside.md")
    source = CommandFiles(tmp_path / "folder", limits=Limits(bytes_per_skill=50))
    assert [entry.name for entry in await source.list_entries()] == ["empty"]
    assert sorted(Path(problem.place).name for problem in source.problems()) == [
        "broken.md",
        "large.md",
        "link.md",
    ]


async def test_a_changed_file_is_found_when_looked_for_again(tmp_path: Path) -> None:
    write(tmp_path / "db/migrate.md", b"# One\n")
    source = CommandFiles(tmp_path)
    before = await source.get_entry(MIGRATE)
    listed = await source.list_entries()
    await source.refresh()
    assert await source.list_entries() is listed
    write(tmp_path / "db/migrate.md", b"# Two\n")
    assert (await source.get_entry(MIGRATE)).resources != before.resources
    (tmp_path / "db/migrate.md").unlink()
    await source.refresh()
    assert not await source.list_entries()
    with pytest.raises(SkillNotFound):
        await source.read(MIGRATE)


async def test_a_command_has_a_directory_of_one_file_and_a_folder_must_be_one(tmp_path: Path) -> None:
    write(tmp_path / "db/migrate.md", b"# One\n")
    source = CommandFiles(tmp_path)
    (child,) = await source.read_directory(parse_uri("skill://db/migrate"))
    assert child.uri == MIGRATE
    with pytest.raises(SkillNotFound):
        await source.read_directory(parse_uri("skill://dc"))
    with pytest.raises(SourceError, match="not a directory"):
        await CommandFiles(tmp_path / "db/migrate.md").open()
