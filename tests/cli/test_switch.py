"""`skillwire config enable` and `disable`: kept in the configuration, and the same skill in every style."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Run, runner
from skillwire.host.styles import all_styles
from trees import write_skill

USER = Path("../config/skillwire/skillwire.toml")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_skill(tmp_path / "work/own/refunds")
    write_skill(tmp_path / "work/own/reports")
    monkeypatch.chdir(tmp_path / "work")

    return runner(monkeypatch, capsys, after=("--dir", "own"))


def names(run: Run, *options: str) -> set[str]:
    return {skill["name"] for skill in run("list", "--json", *options).document["skills"]}


def test_a_disabled_skill_is_left_out_in_every_style_until_it_is_enabled(run: Run) -> None:
    USER.parent.mkdir(parents=True)
    USER.write_text("# Mine.\ndefault_directories = false\n")
    ended = run("config", "disable", "REFUNDS")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("refunds from local · own is disabled in ")
    assert USER.read_text() == '# Mine.\ndefault_directories = false\ndisabled = ["own/refunds"]\n'
    for style in all_styles():
        assert names(run, "--style", style.name) == {"reports"}
    assert names(run, "--all") == {"refunds", "reports"}
    refused = run("load", "refunds")
    assert (refused.code, "is disabled" in refused.err) == (8, True)
    assert run("config", "disable", "refunds", "--json").document["disabled"] == ["own/refunds"]
    assert run("config", "enable", "own/refunds").code == 0
    assert USER.read_text() == "# Mine.\ndefault_directories = false\n"
    assert names(run) == {"refunds", "reports"}


def test_several_at_once_in_the_projects_file_and_what_is_not_disabled(run: Run) -> None:
    assert run("config", "disable", "refunds", "reports", "--project").code == 0
    assert Path("skillwire.toml").read_text() == 'disabled = ["own/refunds", "own/reports"]\n'
    assert names(run) == set()
    assert run("config", "enable", "refunds", "reports").code == 0
    again = run("config", "enable", "refunds")
    assert again.code == 8
    assert "refunds is not disabled by a configuration file" in again.err
    assert run("config", "disable", "nothing").code == 8
