"""Lines on a terminal: broken between words, and styled only by us."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from command_line import Run
from skillwire.cli.output import Screen, wrap


@pytest.mark.parametrize(
    ("line", "width", "pieces"),
    [
        ("", 5, [""]),
        ("   ", 5, [""]),
        ("worst first things are here", 10, ["worst", "first", "things are", "here"]),
        ("exactly ten", 11, ["exactly ten"]),
        ("    code that is indented", 14, ["    code that", "    is", "    indented"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
        ("see https://example.org/a/long/path now", 20, ["see", "https://example.org/", "a/long/path now"]),
        ("日本語日本語", 5, ["日本", "語日", "本語"]),
    ],
)
def test_a_line_is_broken_between_words(line: str, width: int, pieces: list[str]) -> None:
    assert list(wrap(line, width)) == pieces


@given(st.text(alphabet=st.sampled_from("ab cde  日é-"), max_size=80), st.integers(8, 30))
@settings(deadline=None)
def test_wrapping_fits_loses_nothing_and_breaks_no_word_that_fits(line: str, width: int) -> None:
    pieces = list(wrap(line, width))
    assert all(cell_len(piece) <= width for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(line.split())
    whole = {word for word in line.split() if cell_len(word) <= width // 2}
    assert whole <= {word for piece in pieces for word in piece.split()}


def test_text_of_others_cannot_style_itself(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.line("[bold]not bold[/bold] ", ("styled", "red"))
    assert capsys.readouterr().out == "[bold]not bold[/bold] styled\n"
    screen.quoted("\x1b[31mred\x1b[0m")
    assert capsys.readouterr().out == "│ red\n"


class WithoutEncoding(io.StringIO):
    """A stream in memory, as programs that run a command in their own process give it."""

    encoding = None  # type: ignore[assignment]


class Writer:
    """The least that a program can put in place of standard output."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...


COMMANDS = ("config", "list", "list --json", "doctor --no-servers", "add ./skills --yes", "help")


@pytest.fixture
def skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    project = tmp_path / "project"
    for folder in ("skills", ".agents/skills"):
        text = "---\nname: size\ndescription: Pr\u00fcft die Gr\u00f6\u00dfe.\n---\n# Size\n"
        (project / folder / "size").mkdir(parents=True)
        (project / folder / "size/SKILL.md").write_text(text, encoding="utf-8")
    monkeypatch.chdir(project)


@pytest.mark.usefixtures("skills")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", [WithoutEncoding, Writer])
def test_output_goes_to_a_stream_without_an_encoding(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, kind: type[WithoutEncoding | Writer]
) -> None:
    out, errors = kind(), kind()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", errors)
        code = run(*command.split()).code
    texts = [one.text if isinstance(one, Writer) else one.getvalue() for one in (out, errors)]
    assert "Traceback" not in texts[1]
    assert texts[0] if code == 0 else texts[1]
    assert command != "list" or "Gr\u00f6\u00dfe" in texts[0]


@pytest.mark.usefixtures("skills")
@pytest.mark.parametrize("command", [*COMMANDS, "load size SKILL.md --raw"])
def test_a_command_whose_streams_are_closed_does_its_work(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    expected = run(*command.split()).code
    with monkeypatch.context() as patched:
        for name in ("stdin", "stdout", "stderr"):
            patched.setattr(sys, name, None)
        assert run(*command.split()).code == expected
