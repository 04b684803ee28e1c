"""Whatever is typed, `skillwire` answers on a line that says what to do, and never with a traceback."""

from __future__ import annotations

import sys

import pytest

from skillwire.cli import main


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["lnt", "."], "No such command 'lnt'. Did you mean 'lint'?"),
        (["serve", "--nope", "."], "No such option: --nope"),
        (["serve"], "Missing argument 'PATH...'"),
        (["serve", ".", "--page-size", "0"], "Invalid value for '--page-size'"),
        (["lint", ".", "--json=yes"], "Option '--json' does not take a value"),
    ],
)
def test_a_mistyped_command_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["skillwire", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"skillwire: {complaint}")


@pytest.mark.parametrize(
    ("arguments", "said"), [([], "Usage: "), (["--help"], "Usage: "), (["--version"], "0.")]
)
def test_help_and_version_are_said_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["skillwire", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert said in out
    assert err == ""
    assert ended.value.code == 0
