"""Round trips with `npx skills`, the installer that most people have: each sees what the other installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from install.workspaces import tree_of, write_skill
from interop.peers import PINS, NodeMissing, find_node, install
from served import serving_http
from skillwire.clients import agents
from terminals import SKILLWIRE

pytestmark = pytest.mark.peer
SECONDS = 300


@dataclass
class Desk:
    """A user with a home, a project and both tools; nothing leaves the machine."""

    base: Path
    skills_cli: list[str]

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def installed(self) -> Path:
        return self.project / ".agents/skills"

    @property
    def environment(self) -> Mapping[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("XDG_", "SKILLWIRE_")) and "proxy" not in name.lower()
        }
        return {
            **kept,
            "HOME": str(self.base / "home"),
            "DISABLE_TELEMETRY": "1",
            "DO_NOT_TRACK": "1",
            "CI": "1",
        }

    def npx_skills(self, *words: str) -> str:
        return self._run([*self.skills_cli, *words])

    def skillwire(self, *words: str) -> Any:
        """Run a command with --json."""
        return json.loads(self._run([SKILLWIRE, *words, "--json"]))

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def skills_cli() -> list[str]:
    """The installed npm package; without Node a skip on a desk, a failure in CI."""
    try:
        peers = install(find_node(), pins=PINS.with_name("node_skills"))
    except NodeMissing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    return [peers.node, str(peers.root / "node_modules/skills/bin/cli.mjs")]


@pytest.fixture
def desk(tmp_path: Path, skills_cli: list[str]) -> Desk:
    made = Desk(tmp_path, skills_cli)
    made.project.mkdir()
    (tmp_path / "home/.claude").mkdir(parents=True)
    return made


@pytest.fixture
def team(tmp_path: Path) -> Path:
    folder = tmp_path / "team"
    write_skill(folder, "notes", {"references/ä.md": "ä\n"})
    write_skill(folder, "pdf", {"scripts/run.sh": "#!/bin/sh\necho hi\n", "logo.bin": b"\x89\xff\x00"})
    return folder


def test_npx_skills_lists_what_we_installed(desk: Desk, team: Path) -> None:
    desk.skillwire("add", str(team), "--yes", "--allow-code", "--agent", "claude-code")
    listed = {row["name"]: row for row in json.loads(desk.npx_skills("list", "--json"))}
    assert listed.keys() == {"notes", "pdf"}
    for name, row in listed.items():
        assert Path(row["path"]) == desk.installed / name
        assert "Claude Code" in row["agents"]


def test_what_npx_skills_installed_from_a_folder_is_adopted_as_it_is(desk: Desk, team: Path) -> None:
    desk.npx_skills("add", str(team), "--yes", "--agent", "claude-code", "codex")
    before = tree_of(desk.project / ".claude"), tree_of(desk.installed)
    inodes = {path.name: path.stat().st_ino for path in desk.installed.iterdir()}
    report = desk.skillwire("add", "./skills-lock.json", "--yes", "--allow-code", "--agent", "claude-code")
    assert report["current"] == ["notes", "pdf"]
    assert not report["failed"]
    assert (tree_of(desk.project / ".claude"), tree_of(desk.installed)) == before
    assert {path.name: path.stat().st_ino for path in desk.installed.iterdir()} == inodes
    assert desk.skillwire("sync", "--check")["in_sync"] is True
    # From now on it is ours to update, to roll back and to remove.
    write_skill(team, "notes", body="two")
    assert desk.skillwire("update", "--yes")["updated"] == ["notes"]
    assert desk.skillwire("rollback", "notes")["updated"] == ["notes"]
    assert desk.skillwire("remove", "notes", "pdf")["removed"] == ["notes", "pdf"]
    assert json.loads(desk.npx_skills("list", "--json")) == []


def test_npx_skills_installs_from_a_server_and_we_adopt_that_too(desk: Desk, team: Path) -> None:
    with serving_http(team, "--well-known") as (url, _):
        site = url.removesuffix("/mcp")
        desk.npx_skills("add", site, "--yes", "--agent", "claude-code", "codex")
        for name in ("notes", "pdf"):
            there = {path: data for path, (_, data) in tree_of(desk.installed / name).items()}
            assert there == {path: data for path, (_, data) in tree_of(team / name).items()}
        report = desk.skillwire(
            "add", "./skills-lock.json", "--yes", "--allow-code", "--agent", "claude-code"
        )
        assert not report["failed"]
        assert sorted(report["current"] + report["updated"]) == ["notes", "pdf"]
        lock = (desk.project / "skillwire.lock").read_text()
        assert f'index = "{site}/.well-known/agent-skills/index.json"' in lock
        # That tool keeps no modes: a script is made one that can be run again.
        assert tree_of(desk.installed) == tree_of(team)
        assert {row["state"] for row in desk.skillwire("update", "--check")["skills"]} == {"current"}
    desk.skillwire("sync", "--check")


def test_both_tools_mean_the_same_folder_by_the_id_of_an_agent(skills_cli: list[str]) -> None:
    page = Path(skills_cli[1]).parents[1] / "docs/agents.md"
    documented: dict[str, str] = {}
    for line in page.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[2].startswith("`"):
            documented |= dict.fromkeys(
                re.findall(r"`([a-z0-9-]+)`", cells[1]), cells[2].strip("`").rstrip("/")
            )
    assert documented == {agent.id: agent.project for agent in agents().values()}
