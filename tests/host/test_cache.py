"""The cache: private files whose paths say whose they are, hashed on every access."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from sample_entries import DEMO, LOCAL, OTHER, checked, file_uri, loaded, read
from simulator import Simulator, agree, make_host, opened, unreachable
from skillwire.errors import SourceError
from skillwire.host import SkillCache
from skillwire.limits import Limits
from skillwire.skill import digest_of, parse_uri
from skillwire.trust import Origin, verify_file

LONG = "skill://" + "/".join(["part" * 20] * 40) + "/SKILL.md"


@pytest.mark.requirement("ENT-4", "SEC-8")
@pytest.mark.parametrize(
    "uri", ["skill://acme/refunds/SKILL.md", "skill://a/%2B%3D/SKILL.md", "x-y://A:8/b/SKILL.md", LONG]
)
@pytest.mark.parametrize("label", ["demo", "Demo.2_x-y", "büro"])
def test_a_path_gives_the_server_and_the_uri_back(tmp_path: Path, label: str, uri: str) -> None:
    cache, origin, name = SkillCache(tmp_path), Origin.mcp(label), parse_uri(uri)
    path = cache.path_of(origin, name)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    assert [(file.origin, file.uri, file.path) for file in cache.files()] == [(origin, name, path)]
    assert all(len(part.encode()) <= 255 for part in path.parts)
    assert "SKILL.md" not in path.parts


@pytest.mark.requirement("SEC-8")
def test_bytes_come_back_only_with_the_digest_that_is_asked_for(tmp_path: Path) -> None:
    cache, file = SkillCache(tmp_path), read("a.md", b"honest")
    assert cache.put(file)
    assert cache.get(DEMO, file.uri, file.digest) == b"honest"
    assert cache.get(OTHER, file.uri, file.digest) is None
    assert cache.get(DEMO, file.uri, digest_of(b"other")) is None
    cache.path_of(DEMO, file.uri).write_bytes(b"damaged")
    assert cache.get(DEMO, file.uri, file.digest) is None


@pytest.mark.requirement("SEC-8", "SEC-9")
def test_a_file_that_grew_is_not_read_to_its_end(tmp_path: Path) -> None:
    cache, file = SkillCache(tmp_path, limits=Limits(bytes_per_skill=100)), read("a.md", b"honest")
    cache.put(file)
    path = cache.path_of(DEMO, file.uri)
    with path.open("r+b") as stream:
        stream.truncate(10**12)
    assert cache.get(DEMO, file.uri, file.digest) is None


@pytest.mark.requirement("SEC-8")
def test_local_and_dynamic_files_are_not_cached(tmp_path: Path) -> None:
    cache = SkillCache(tmp_path)
    entry = checked(dynamic=True)
    assert not cache.put(verify_file(entry, file_uri(entry.uri, "a.md"), b"x", DEMO))
    assert not cache.put(loaded(origin=LOCAL).file)
    assert list(cache.files()) == []


@pytest.mark.requirement("SEC-8")
@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_the_cache_is_the_users_alone(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    directory.mkdir(mode=0o755)
    cache, file = SkillCache(directory), read("a.md", b"honest")
    cache.put(file)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(cache.path_of(DEMO, file.uri).stat().st_mode) == 0o600


@pytest.mark.requirement("SEC-8")
def test_a_disk_that_cannot_be_written_costs_only_speed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache, file = SkillCache(tmp_path / "file"), read("a.md", b"honest")
    assert not cache.put(file)
    assert cache.get(DEMO, file.uri, file.digest) is None
    assert cache.remove_server(DEMO) == 0


@pytest.mark.requirement("SEC-8")
def test_the_files_of_a_server_are_removed_with_it(tmp_path: Path) -> None:
    cache = SkillCache(tmp_path)
    cache.put(read("a.md", b"one"))
    cache.put(read("b.md", b"two", origin=OTHER))
    assert cache.remove_server(DEMO) == 1
    assert [file.origin for file in cache.files()] == [OTHER]


@pytest.mark.requirement("SEC-8")
@pytest.mark.parametrize("place", ["mine", "mine/cache", ".agents/skills/x", ".claude/skills", "."])
def test_a_cache_inside_a_skills_folder_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(SourceError, match="where skills are looked for"):
        make_host(tmp_path, directories=[tmp_path / "mine"], cache_directory=tmp_path / place)


def test_a_stray_file_in_the_cache_belongs_to_no_server(tmp_path: Path) -> None:
    cache = SkillCache(tmp_path)
    cache.put(read("a.md", b"one"))
    (tmp_path / "stray.txt").write_text("x")
    (tmp_path / "demo" / ".new-abc").write_text("x")
    (tmp_path / "demo" / "no%2Furi=").write_text("x")
    assert len(list(cache.files())) == 1


@pytest.mark.requirement("SEC-8")
@pytest.mark.anyio
async def test_what_was_approved_and_verified_is_used_while_the_server_is_unreachable(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"Text of a.", "b.md": b"Never read."})
    sim.skill("never-approved")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        await host.read("refunds", "a.md")
    async with opened(tmp_path, shop=unreachable()) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        assert "with care" in (await host.load("refunds")).text
        assert "Text of a." in await host.read("refunds", "a.md")
        with pytest.raises(SourceError, match="shop is not connected"):
            await host.read("refunds", "b.md")


@pytest.mark.requirement("SEC-8", "SEC-6")
@pytest.mark.anyio
async def test_what_was_revoked_is_not_used_while_the_server_is_unreachable(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        await host.decide.revoke("refunds")
    async with opened(tmp_path, shop=unreachable()) as host:
        assert host.skills() == ()


@pytest.mark.requirement("VER-5", "SEC-8")
@pytest.mark.anyio
async def test_a_file_that_is_cached_is_not_fetched_again(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"text"})
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        for _ in range(3):
            await host.load("refunds")
            await host.read("refunds", "a.md")
    assert len(sim.read_uris()) == 2


@pytest.mark.anyio
async def test_a_file_that_came_from_the_cache_is_not_written_again(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"Text of a."})
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:

        async def use() -> list[int]:
            await host.load("refunds")
            await host.read("refunds", "a.md")
            host.release("refunds")
            return [file.path.stat().st_ino for file in host.cache.files()]

        first = await use()
        assert len(first) == 2
        assert await use() == first


@pytest.mark.requirement("SEC-8", "SEC-9")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in this file system")
@pytest.mark.parametrize("kind", ["pipe", "directory", "socket link", "endless device"])
@pytest.mark.anyio
async def test_what_is_no_file_in_the_cache_is_never_waited_for(tmp_path: Path, kind: str) -> None:
    """S14: a pipe that nobody writes to must not hold a host."""
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"text"})
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        await host.read("refunds", "a.md")
        cache = host.cache
        planted = [file.path for file in cache.files()]
        assert len(planted) == 2
    for path in planted:
        path.unlink()
        match kind:
            case "pipe":
                os.mkfifo(path)
            case "directory":
                path.mkdir()
            case "socket link":
                path.symlink_to(tmp_path / "nowhere")
            case _:
                path.symlink_to("/dev/zero")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        loaded = await host.load("refunds")
        assert "with care" in loaded.text
        assert "text" in await host.read("refunds", "a.md")
        assert (await host.search("refund"))[0].skill.handle == "refunds"
        assert await host.files.approved_text(loaded.skill, "skill://refunds/a.md") in (None, b"text")
        list(host.cache.files())
