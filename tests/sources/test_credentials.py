"""C1: credentials are no part of a skill: not for its manifest, a read, a listing or the watch."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire.errors import SkillNotFound
from skillwire.skill import SkillUri
from skillwire.sources.directory.files import parse_root
from skillwire.sources.directory.scan import concerns_skills
from trees import paths_of, scanned, write, write_skill

pytestmark = pytest.mark.anyio

KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"
SECRETS = {
    ".env": b"TOKEN=1",
    "conf/.env.local": b"TOKEN=1",
    ".npmrc": b"//registry/:_authToken=1",
    ".netrc": b"machine x",
    "keys/id_ed25519": KEY,
    "keys/server.pem": KEY,
    "keys/tls.key": KEY,
    "gcp.json": b'{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----"}',
}
PUBLIC = {".env.example": b"TOKEN=", "ca.pem": b"-----BEGIN CERTIFICATE-----\n", "data.json": b"{}"}


async def test_no_credential_is_served_and_each_is_named(tmp_path: Path) -> None:
    write_skill(tmp_path / "a", SECRETS | PUBLIC)
    source = scanned([tmp_path])
    (entry,) = await source.list_entries()
    assert paths_of(entry) == sorted(["SKILL.md", *PUBLIC])
    for name in SECRETS:
        with pytest.raises(SkillNotFound):
            await source.read(SkillUri(f"skill://a/{name}"))
    listed = {child.name for child in await source.read_directory(SkillUri("skill://a"))}
    assert not {".env", ".npmrc", ".netrc", "gcp.json"} & listed
    reported = {Path(problem.place).relative_to(tmp_path / "a").as_posix() for problem in source.problems()}
    assert reported == set(SECRETS)
    assert all(problem.is_left_out for problem in source.problems())


async def test_a_file_that_becomes_a_private_key_is_removed(tmp_path: Path) -> None:
    skill = write_skill(tmp_path / "a", {"tls.pem": b"-----BEGIN CERTIFICATE-----\n"})
    source = scanned([tmp_path])
    write(skill / "tls.pem", KEY)
    with pytest.raises(SkillNotFound):
        await source.read(SkillUri("skill://a/tls.pem"))
    assert await source.rescan() is False
    (entry,) = await source.list_entries()
    assert paths_of(entry) == ["SKILL.md"]


async def test_the_skills_around_a_credential_all_lose_it(tmp_path: Path) -> None:
    write_skill(tmp_path / "outer")
    write_skill(tmp_path / "outer/inner", {"tls.pem": KEY, ".env": b"x"})
    source = scanned([tmp_path])
    for entry in await source.list_entries():
        assert all(path.endswith("SKILL.md") for path in paths_of(entry))
    assert len(source.problems()) == 2


async def test_a_link_does_not_give_a_credential_another_name(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path / ".env", b"TOKEN=1")
    write(tmp_path / ".git/config", b"password")
    skill = write_skill(tmp_path / "skills/a")
    (skill / "notes.md").symlink_to("../../.env")
    (skill / "config.md").symlink_to("../../.git/config")
    source = scanned([tmp_path / "skills"])
    (entry,) = await source.list_entries()
    assert paths_of(entry) == ["SKILL.md"]
    assert {Path(problem.place).name for problem in source.problems()} == {"notes.md", "config.md"}


def test_a_change_of_a_credential_notifies_nobody(tmp_path: Path) -> None:
    root = parse_root(write_skill(tmp_path / "a").parent)
    assert not concerns_skills(str(tmp_path / "a/.env"), [root])
    assert concerns_skills(str(tmp_path / "a/.env.example"), [root])
