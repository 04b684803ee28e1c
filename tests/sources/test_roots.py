"""A root from what a person writes, or a line that says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire import SourceError
from skillwire.sources import Root
from skillwire.sources.directory.files import parse_root


@pytest.mark.parametrize(
    ("text", "folder", "prefix"),
    [
        ("skills", "skills", ()),
        ("acme=skills", "skills", ("acme",)),
        ("acme/eu=skills", "skills", ("acme", "eu")),
        ("a=b", "a=b", ()),
        ("x=a=b", "a=b", ("x",)),
    ],
)
def test_a_root_is_a_directory_and_perhaps_a_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, folder: str, prefix: tuple[str, ...]
) -> None:
    for name in ("skills", "a=b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    root = parse_root(text)
    assert root == Root(tmp_path.resolve() / folder, prefix)
    assert parse_root(root) is root


def test_a_path_object_has_no_prefix(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        parse_root(Path(f"acme={tmp_path}"))


def test_a_home_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_root("acme=~").path == tmp_path.resolve()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("none", "none does not exist"),
        ("acme=none", "none does not exist"),
        ("file.txt", "file.txt is not a directory"),
        ("file.txt/below", "file.txt/below cannot be opened: Not a directory"),
        ("", "the path is empty"),
        ("acme=", "the path is empty"),
        ("=.", "is not a prefix"),
        ("a/=.", "is not a prefix"),
        ("../up=.", "is not a prefix"),
        ("~no-such-user-here/x", "does not exist"),
        ("~no-such-user-here/x=~no-such-user-here/y", "does not exist"),
        ("x" * 5000, "cannot be opened: File name too long"),
        ("x" * 5000 + "=none", "none does not exist"),
        ("nul\0byte", "cannot be opened"),
        ("loop", "cannot be opened"),
        ("bell\a\x1b[31m", r"bell\u0007\u001b[31m does not exist"),
    ],
)
def test_what_is_wrong_is_reported_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, complaint: str
) -> None:
    (tmp_path / "file.txt").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError) as refused:
        parse_root(text)
    assert complaint in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400
