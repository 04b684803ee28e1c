"""The user's file and that of the working directory are found, and no other."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from skillwire.errors import FormatError, LimitExceeded, SourceError
from skillwire.host import SkillHost, load_config, state_paths
from skillwire.host.config.file import config_above
from skillwire.limits import DEFAULT_LIMITS
from skillwire.trust import Origin


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    work = tmp_path / "above" / "work"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    return tmp_path


def user_file(home: Path, text: str) -> Path:
    file = home / "xdg_config_home" / "skillwire" / "skillwire.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def test_without_files_there_are_only_the_default_directories() -> None:
    config = load_config()
    assert (config.servers, config.files, config.default_directories) == ({}, (), True)


def test_the_users_file_and_that_of_the_working_directory_are_read(home: Path) -> None:
    user_file(home, '[servers.a]\ncommand = "a"')
    Path("skillwire.toml").write_text('[servers.b]\ncommand = "b"', "utf-8")
    assert list(load_config(unsafe_trust_project=True).servers) == ["a", "b"]
    assert list(load_config(home, unsafe_trust_project=True).servers) == ["a"]


def test_a_file_above_the_working_directory_is_not_read() -> None:
    Path("../skillwire.toml").write_text('[servers.b]\ncommand = "b"', "utf-8")
    assert load_config().servers == {}


def test_a_named_file_is_the_only_one_that_is_read(home: Path) -> None:
    user_file(home, '[servers.a]\ncommand = "a"')
    Path("other.toml").write_text('[servers.c]\ncommand = "c"', "utf-8")
    assert list(load_config(file=Path("other.toml")).servers) == ["c"]


@pytest.mark.parametrize("file", ["nowhere.toml", "."])
def test_a_named_file_that_cannot_be_read_is_an_error(file: str) -> None:
    with pytest.raises(SourceError, match=r"there is no|cannot be read"):
        load_config(file=Path(file))


def test_a_file_that_is_not_utf_8_is_an_error() -> None:
    Path("skillwire.toml").write_bytes(b"\xff")
    with pytest.raises(SourceError, match="not UTF-8"):
        load_config()


def test_an_oversized_file_is_refused_unread() -> None:
    with Path("skillwire.toml").open("wb") as stream:
        stream.truncate(DEFAULT_LIMITS.document_bytes + 1)
    with pytest.raises(SourceError, match="more than"):
        load_config()


@pytest.fixture
def configured(home: Path) -> None:
    """A directory with two skills, one of them disabled, and a server that is not wanted."""
    for name in ("kept", "left"):
        folder = home / "skills" / name
        folder.mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Does one thing.\n---\nDo it.\n"
        (folder / "SKILL.md").write_text(text, "utf-8")
    state_paths().config.parent.mkdir(parents=True)
    state_paths().config.write_text(
        f'directories = ["{home}/skills"]\ndefault_directories = false\ndisabled = ["left"]\n'
        '[servers.off]\ncommand = "nosuchcommand"\nskills = false',
        "utf-8",
    )


@pytest.mark.anyio
@pytest.mark.usefixtures("configured")
async def test_a_host_is_opened_as_the_configuration_says() -> None:
    async with SkillHost.from_config() as host:
        assert [skill.handle for skill in host.skills()] == ["kept"]
        assert host.places.servers() == ()


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 50_000 + " = 1",
        "[" + ".".join(["a"] * 50_000) + "]",
        "a = " + "[" * 20_000,
        "a = " + "{ a = " * 20_000,
        "a = " + "9" * 20_000,
    ],
    ids=["dotted key", "dotted table", "arrays", "inline tables", "integer"],
)
def test_a_file_that_is_written_to_do_harm_is_one_clear_error(text: str) -> None:
    Path("skillwire.toml").write_text(text, "utf-8")
    with pytest.raises((FormatError, LimitExceeded)) as refused:
        load_config()
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are POSIX")
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for() -> None:
    os.mkfifo("skillwire.toml")
    with pytest.raises(SourceError, match="it is not a regular file"):
        load_config()


def test_the_file_above_is_known_and_not_read(tmp_path: Path) -> None:
    Path("skillwire.toml").write_text("not = [TOML", "utf-8")
    below = Path.cwd() / "below" / "further"
    below.mkdir(parents=True)
    assert load_config(below).configured == ()
    assert config_above(below) == Path.cwd() / "skillwire.toml"


@pytest.mark.anyio
async def test_a_server_whose_variable_is_not_set_affects_only_itself(tmp_path: Path) -> None:
    await anyio.Path("skillwire.toml").write_text(
        '[servers.data]\nurl = "https://data.example/mcp"\ntoken_env = "DATA_TOKEN"\n'
        '[servers.other]\nurl = "http://127.0.0.1:9/mcp"\n',
        "utf-8",
    )
    async with SkillHost.from_config(unsafe_trust_project=True) as host:
        assert [server.label for server in host.places.servers()] == ["other"]
        [told] = [event.message for event in host.log.events_so_far() if event.origin == Origin.mcp("data")]
    assert "servers.data.token_env needs the variable 'DATA_TOKEN', which is not set" in told
