"""A server is added to a file or removed from it, and all else in the file stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire.errors import FormatError, SourceError
from skillwire.host import ServerAddress
from skillwire.host.config.text import ServerText, parse_config, with_server, without_server, write_config
from skillwire.trust import ApprovalMode

FILE = Path("skillwire.toml")
MINE = """# Mine.
default_directories = false   # Only what I name.

[servers.shop]
# The shop.
url = "https://shop.example/mcp"

[profiles.work]   # For work.
servers = ["shop"]
"""
FULL = ServerAddress(command=("npx", "-y", 'a "b"'), env={"KEY": "${KEY}", "b.c": "d"})


@pytest.mark.parametrize(
    "text", ["", MINE, "[servers]\na = { command = 'x' }\n", "servers.a.command = 'x'\n"]
)
@pytest.mark.parametrize(
    "place",
    [
        FULL,
        ServerAddress(url="https://x.example", headers={"X-Key": "v"}, token_env="T"),
        ServerAddress(command=("x",)),
    ],
)
def test_a_server_that_is_added_is_there_and_the_rest_stays(text: str, place: ServerAddress) -> None:
    edited = with_server(text, "new", ServerText(place=place, approval=ApprovalMode.PINNED), file=FILE)
    server = parse_config(edited, FILE).servers["new"]
    assert (server.place, server.approval) == (place, ApprovalMode.PINNED)
    for line in text.splitlines():
        assert line in edited.splitlines()
    again = parse_config(without_server(edited, "new", file=FILE), FILE)
    assert again == parse_config(text, FILE)


def test_removing_a_server_leaves_every_other_line() -> None:
    edited = without_server(MINE, "shop", file=FILE)
    assert "shop.example" not in edited
    assert edited.startswith("# Mine.\ndefault_directories = false   # Only what I name.\n")
    # A name that is no server any more would make the file unusable.
    assert "[profiles.work]   # For work.\nservers = []\n" in edited


def test_a_server_is_not_added_twice() -> None:
    with pytest.raises(SourceError, match="has a server called shop"):
        with_server(MINE, "shop", ServerText(place=FULL), file=FILE)


def test_a_file_with_mistakes_is_not_edited() -> None:
    with pytest.raises(FormatError):
        with_server("nonsense = 1", "new", ServerText(place=FULL), file=FILE)


def test_a_new_file_is_the_users_alone_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "skillwire.toml"
    write_config(file, "# one\n")
    assert (file.read_text("utf-8"), file.stat().st_mode & 0o777) == ("# one\n", 0o600)
    file.chmod(0o644)
    write_config(file, "# two\n")
    assert (file.read_text("utf-8"), file.stat().st_mode & 0o777) == ("# two\n", 0o644)
    assert list(file.parent.iterdir()) == [file]


def test_a_link_is_followed_not_replaced(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "skillwire.toml"
    real.write_text("# one\n", "utf-8")
    link.symlink_to(real)
    write_config(link, "# two\n")
    assert (link.is_symlink(), real.read_text("utf-8")) == (True, "# two\n")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(SourceError, match="cannot be written"):
        write_config(tmp_path / "file" / "skillwire.toml", "")
