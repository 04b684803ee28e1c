"""Command lines of Windows and of everybody else, read and written on any system."""

from __future__ import annotations

import pytest

from skillwire.sources.command_line import join_command, resolve_program, split_command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"C:\tools\skillwire.exe serve C:\my\skills", (r"C:\tools\skillwire.exe", "serve", r"C:\my\skills")),
        (r'"C:\Program Files\node\node.exe" server.mjs', (r"C:\Program Files\node\node.exe", "server.mjs")),
        (r"'C:\Program Files\x.exe' a", (r"C:\Program Files\x.exe", "a")),
        (r"\\server\share\x.exe", (r"\\server\share\x.exe",)),
        (r'x "say \"hi\""', ("x", 'say "hi"')),
        ('x ""', ("x", "")),
        ("  npx   -y  pkg ", ("npx", "-y", "pkg")),
        ("it's", ("it's",)),
        ("", ()),
    ],
)
def test_a_line_of_windows_keeps_its_backslashes(text: str, words: tuple[str, ...]) -> None:
    assert split_command(text, windows=True) == words


def test_a_quote_that_is_left_open_is_an_error_on_both() -> None:
    for windows in (True, False):
        with pytest.raises(ValueError, match="No closing quotation"):
            split_command('x "y', windows=windows)


@pytest.mark.parametrize("windows", [True, False])
@pytest.mark.parametrize("words", [("a", "b c"), ("x", "", 'q"q'), (r"C:\a b\c.exe", "--x=1")])
def test_joining_and_splitting_are_inverse(words: tuple[str, ...], windows: bool) -> None:
    assert split_command(join_command(words, windows=windows), windows=windows) == words


@pytest.mark.parametrize(
    ("found", "command"),
    [
        (r"C:\nodejs\npx.cmd", ("cmd", "/c", r"C:\nodejs\npx.cmd", "-y")),
        (r"C:\nodejs\NPX.BAT", ("cmd", "/c", r"C:\nodejs\NPX.BAT", "-y")),
        (r"C:\bin\npx.exe", (r"C:\bin\npx.exe", "-y")),
        (None, ("npx", "-y")),
    ],
)
def test_a_shim_is_found_and_run_by_cmd(found: str | None, command: tuple[str, ...]) -> None:
    assert resolve_program(["npx", "-y"], lambda _: found, windows=True) == command
    assert resolve_program(["npx", "-y"], lambda _: found, windows=False) == ("npx", "-y")
