"""A host that is opened in a directory connects to servers of that directory's file only if it is trusted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from command_line import new_user
from skillwire.errors import SourceError
from skillwire.host import EventKind, SkillHost, state_paths
from skillwire.host.config.server import SeenFile, TrustedFiles
from skillwire.skill import digest_of
from skillwire.trust import Origin

FILE = Path("skillwire.toml")
TEXT = '[servers.evil]\ncommand = "touch"\nargs = ["started"]\nconnect_seconds = 5\n'


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = new_user(tmp_path, monkeypatch)
    FILE.write_text(TEXT, "utf-8")
    return directory


def seen(path: Path, data: bytes = b"") -> SeenFile:
    return SeenFile(path, digest_of(data))


@pytest.mark.anyio
async def test_an_untrusted_server_is_a_failure_with_a_fix_and_affects_only_itself(
    work: Path,
) -> None:
    skill = work / ".agents/skills/notes/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: notes\ndescription: Takes notes.\n---\nDo it.\n", "utf-8")
    async with SkillHost.from_config(default_directories=True) as host:
        assert [skill.handle for skill in host.skills()] == ["notes"]
        assert host.places.servers() == ()
        [event] = [event for event in host.log.events_so_far() if event.kind is EventKind.FAILURE]
        assert event.origin == Origin.mcp("evil")
        assert event.message.startswith("MCP server evil is not trusted")
        assert "skillwire trust" in event.message
    assert not (work / "started").exists()


@pytest.mark.process
@pytest.mark.anyio
@pytest.mark.parametrize("how", ["trusted", "unsafe", "named"])
async def test_a_server_that_is_trusted_in_some_way_is_started(work: Path, how: str) -> None:
    if how == "trusted":
        TrustedFiles(state_paths().trusted).trust(seen(work / FILE, TEXT.encode()))
    host = SkillHost.from_config(file=FILE if how == "named" else None, unsafe_trust_project=how == "unsafe")
    async with host:
        assert [server.label for server in host.places.servers()] == ["evil"]
    assert (work / "started").exists()


@pytest.mark.process
@pytest.mark.anyio
async def test_a_directory_is_one_place_however_it_is_reached(work: Path) -> None:
    TrustedFiles(state_paths().trusted).trust(seen(work / FILE, TEXT.encode()))
    link = work.parent / "link"
    link.symlink_to(work)
    async with SkillHost.from_config(link) as host:
        assert [server.label for server in host.places.servers()] == ["evil"]


def test_concurrent_decisions_are_all_stored(tmp_path: Path) -> None:
    files = [seen(tmp_path / str(number)) for number in range(50)]

    def say(file: SeenFile) -> None:
        TrustedFiles(tmp_path / "trusted").trust(file)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(say, [*files, *files]))
    trusted = TrustedFiles(tmp_path / "trusted")
    assert all(trusted.trusts(file) for file in files)
    assert len(list((tmp_path / "trusted").iterdir())) == len(files)


def test_a_record_under_another_name_is_ignored(tmp_path: Path) -> None:
    trusted = TrustedFiles(tmp_path / "trusted")
    one, other = seen(tmp_path / "one"), seen(tmp_path / "other")
    trusted.trust(one)
    [record] = (tmp_path / "trusted").iterdir()
    data = record.read_bytes()
    trusted.trust(other)
    for file in (tmp_path / "trusted").iterdir():
        file.write_bytes(data)
    assert (trusted.trusts(one), trusted.trusts(other)) == (True, False)


def test_a_place_that_cannot_be_used_is_reported_and_trusts_nothing(tmp_path: Path) -> None:
    (tmp_path / "trusted").write_bytes(b"")
    trusted = TrustedFiles(tmp_path / "trusted")
    file = seen(tmp_path / "one")
    with pytest.raises(SourceError, match="cannot be written"):
        trusted.trust(file)
    assert (trusted.trusts(file), trusted.forget(file.path)) == (False, False)
