"""`skillwire doctor` names what does not work, says what to do, and ends with a code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Ended, Run, as_person, runner
from folder_server import FolderServer


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
        (tmp_path / name.lower()).mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys, "doctor")


def findings(ended: Ended, level: str) -> list[dict[str, str]]:
    return [one for one in json.loads(ended.out)["findings"] if one["level"] == level]


def test_a_new_installation_has_no_problem(run: Run) -> None:
    ended = run("--no-servers")
    assert ended.code == 0
    assert "0 problems" in ended.out


@pytest.mark.process
def test_a_package_that_is_missing_is_a_problem_and_the_rest_is_checked(home: Path) -> None:
    (home / "sitecustomize.py").write_text("import sys\nsys.modules['mcp_types'] = None\n", "utf-8")
    for servers in ("", '[servers.shop]\nurl = "http://127.0.0.1:9/mcp"\n'):
        config = home / "xdg_config_home/skillwire/skillwire.toml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(servers, "utf-8")
        ended = subprocess.run(
            [sys.executable, "-m", "skillwire", "doctor", "--json"],
            env={**os.environ, "PYTHONPATH": str(home)},
            capture_output=True,
            check=False,
            text=True,
        )
        assert (ended.returncode, ended.stderr) == (4, "")
        found = json.loads(ended.stdout)["findings"]
        problems = [one for one in found if one["level"] == "problem"]
        assert any("the package mcp_types cannot be imported" in one["message"] for one in problems)
        assert all("reinstall Skillwire" in one["advice"] for one in problems)
        assert {one["area"] for one in problems} == {"installation", *(["servers"] if servers else [])}
        assert "approvals" in {one["area"] for one in found}


@pytest.mark.process
def test_a_server_that_fails_is_a_problem_with_advice(run: Run, home: Path) -> None:
    config = home / "xdg_config_home/skillwire/skillwire.toml"
    config.parent.mkdir()
    config.write_text('[servers.gone]\ncommand = "no-such-command-of-skillwire"\n', "utf-8")
    ended = run("--json", "--timeout", "5")
    assert ended.code == 4
    [problem] = findings(ended, "problem")
    assert (problem["area"], "no-such-command-of-skillwire" in problem["message"]) == ("servers", True)
    assert problem["advice"]
    assert run("--no-servers").code == 0


def test_a_file_with_a_mistake_is_a_problem_and_the_rest_is_checked(run: Run) -> None:
    Path("skillwire.toml").write_text("nonsense = 1\n", "utf-8")
    ended = run("--json")
    assert ended.code == 4
    assert [one["area"] for one in findings(ended, "problem")] == ["configuration"]
    assert {"clients", "approvals"} <= {one["area"] for one in findings(ended, "ok")}


def test_a_project_that_is_not_trusted_is_a_note(run: Run) -> None:
    Path("skillwire.toml").write_text('[servers.shop]\nurl = "https://shop.example/mcp"\n', "utf-8")
    ended = run("--json")
    assert ended.code == 0
    assert any("skillwire trust" in one["advice"] for one in findings(ended, "note"))


def test_a_file_that_others_can_change_is_a_problem(run: Run, home: Path) -> None:
    config = home / "xdg_config_home/skillwire/skillwire.toml"
    config.parent.mkdir()
    config.write_text("", "utf-8")
    config.chmod(0o666)
    ended = run("--json")
    assert ended.code == 4
    [problem] = findings(ended, "problem")
    assert "chmod go-w" in problem["advice"]


TEXT = b"---\nname: refunds\ndescription: Refund an order.\n---\nDo it.\n"


def test_approvals_are_counted_and_each_server_is_named_with_its_protocol(
    run: Run,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folders: FolderServer,
) -> None:
    skill = home / "skills/refunds/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_bytes(TEXT)
    config = home / "xdg_config_home/skillwire/skillwire.toml"
    config.parent.mkdir()
    config.write_text(
        f'[servers.shop]\nurl = "{folders.at(home / "skills")}"\n'
        '[servers.data]\nurl = "http://127.0.0.1:9/mcp"\ntoken_env = "NO_SUCH_VARIABLE"\n',
        "utf-8",
    )
    for words in (["list"], ["approve", "shop/refunds"]):  # The first fills the cache.
        assert as_person(runner(monkeypatch, capsys), *words).code == 0
    run("--no-servers")
    ended = run("--json", "--timeout", "20")
    said = {one["message"] for one in findings(ended, "ok")}
    assert {"1 approved skill", "shop: 1 skill, protocol 2026-07-28"} <= said
    [problem] = findings(ended, "problem")
    assert "NO_SUCH_VARIABLE" in problem["message"]
    assert "skillwire servers disable data" in problem["advice"]
