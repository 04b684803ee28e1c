"""Command lines of Windows and of everybody else, read on any system."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from skillwire.sources.process import (
    absolute_entries,
    anchored_program,
    batch_line,
    resolve_program,
    server_environment,
    split_command,
    withheld_variables,
)


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
def test_a_line_is_split_as_the_shell_of_the_system_would(words: tuple[str, ...], windows: bool) -> None:
    line = subprocess.list2cmdline(words) if windows else shlex.join(words)
    assert split_command(line, windows=windows) == words


@pytest.mark.parametrize(
    ("found", "command"),
    [
        (r"C:\nodejs\npx.cmd", r"C:\nodejs\npx.cmd -y"),
        (r"C:\Program Files\nodejs\NPX.BAT", r'"C:\Program Files\nodejs\NPX.BAT" -y'),
        (r"C:\bin\npx.exe", (r"C:\bin\npx.exe", "-y")),
        (None, ("npx", "-y")),
    ],
)
def test_a_shim_is_found_and_run_by_the_command_interpreter(
    found: str | None, command: tuple[str, ...] | str
) -> None:
    assert resolve_program(["npx", "-y"], lambda _: found, windows=True) == command
    assert resolve_program(["npx", "-y"], lambda _: found, windows=False) == ("npx", "-y")


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("plain", "plain"),
        ("@scope/pkg@1.2", "@scope/pkg@1.2"),
        (r"C:\a\b", r"C:\a\b"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a&calc", '"a&calc"'),
        ("a|b>c<d^e", '"a|b>c<d^e"'),
        ("a=b,c;d", '"a=b,c;d"'),
        ("%PATH%", '"%%cd:~,%PATH%%cd:~,%"'),
        ('say "hi"', '"say ""hi"""'),
        ('a\\"b', '"a\\\\""b"'),
        ("with space\\", '"with space\\\\"'),
        ("(x)", '"(x)"'),
        ("ünï", '"ünï"'),
    ],
)
def test_an_argument_for_a_batch_file_is_only_text(word: str, written: str) -> None:
    assert batch_line([r"C:\x.cmd", word]) == rf"C:\x.cmd {written}"
    # Outside of quotes, nothing is left that the command interpreter acts on.
    outside = "".join(batch_line(["x", word]).split('"')[::2])
    assert not set(outside) & set("&|<>^%()")


@pytest.mark.parametrize("word", ["a\nb", "a\rb", "a\0b"])
def test_a_line_break_cannot_be_given_to_a_batch_file(word: str) -> None:
    with pytest.raises(ValueError, match="cannot be given to a batch file"):
        resolve_program(["npx", word], lambda _: r"C:\npx.cmd", windows=True)


@pytest.mark.parametrize(
    ("path", "windows", "kept"),
    [
        (r"C:\Windows;.;node_modules\.bin;D:\x", True, r"C:\Windows;D:\x"),
        (r"\Windows;C:tools;\\srv\share\bin", True, r"\\srv\share\bin"),
        ("", True, ""),
        ("/usr/bin:.:bin::/bin", False, "/usr/bin:/bin"),
    ],
)
def test_only_absolute_entries_stay_on_the_path(path: str, windows: bool, kept: str) -> None:
    assert absolute_entries(path, windows=windows) == kept


@pytest.mark.parametrize(
    ("word", "folder", "windows", "program"),
    [
        ("npx", r"C:\work", True, "npx"),
        (r".\run.cmd", r"C:\work", True, r"C:\work\run.cmd"),
        ("tools/run.exe", r"C:\work", True, r"C:\work\tools\run.exe"),
        (r"C:\bin\x.exe", r"D:\work", True, r"C:\bin\x.exe"),
        (r"\\srv\share\x.exe", r"D:\work", True, r"\\srv\share\x.exe"),
        ("./run.sh", "/work", False, "/work/run.sh"),
        ("/bin/sh", "/work", False, "/bin/sh"),
        (r"odd\name", "/work", False, r"odd\name"),
    ],
)
def test_a_relative_program_starts_at_the_folder_of_its_file(
    word: str, folder: str, windows: bool, program: str
) -> None:
    assert anchored_program(word, folder, windows=windows) == program


def test_a_server_sees_what_any_program_needs_and_what_it_is_given() -> None:
    ours = {
        "PATH": "/bin:.",
        "HOME": "/home/me",
        "SECRET_KEY": "s3cr3t",
        "HTTPS_PROXY": "http://proxy:3128",
        "HTTP_PROXY": "http://me:s3cr3t@proxy:3128",
        "no_proxy": "localhost",
        "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
    }
    assert server_environment(ours, {"KEY": "v"}, windows=False) == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "HTTPS_PROXY": "http://proxy:3128",
        "no_proxy": "localhost",
        "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
        "KEY": "v",
    }
    windows = {"PATH": r"C:\Windows;.", "SYSTEMROOT": r"C:\Windows", "PATHEXT": ".EXE", "HOME": "x"}
    assert server_environment(windows, {}, windows=True) == {
        "PATH": r"C:\Windows",
        "SYSTEMROOT": r"C:\Windows",
        "PATHEXT": ".EXE",
    }


def test_a_variable_that_a_server_misses_and_we_have_is_named() -> None:
    ours = {"GITHUB_TOKEN": "t", "PATH": "/bin", "OTHER_KEY": "k"}
    output = ["Error: GITHUB_TOKEN is not set (see PATH)", "set MY_OWN too"]
    assert withheld_variables(output, ours, {"PATH": "/bin"}) == ("GITHUB_TOKEN",)
