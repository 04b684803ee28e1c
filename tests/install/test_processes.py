"""Installing on real file systems: out of space, without permission, without case; and at the same time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import chdir, suppress
from pathlib import Path

import pytest

from command_line import Run
from install.workspaces import Machine, tree_of, write_skill
from skillwire.errors import SourceError
from skillwire.trust import ALL_GRANTS
from terminals import SKILLWIRE

SECONDS = 120


class Home:
    """A user with a home, a project and a folder of skills, and their commands."""

    def __init__(self, base: Path, run: Run, patch: pytest.MonkeyPatch) -> None:
        self.project, self.team = base / "project", base / "team"
        self._run = run
        self._patch = patch
        for folder in (self.project, self.team):
            folder.mkdir()
        self.live_in(base / "home")

    def live_in(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self._patch.setenv("HOME", str(home))

    def work_in(self, project: Path) -> None:
        project.mkdir()
        self.project = project

    @property
    def installed(self) -> Path:
        return self.project / ".agents/skills"

    def run(self, *words: str, code: int = 0) -> str:
        with chdir(self.project):  # Not for longer: its file system has to be unmounted.
            ended = self._run(*words)
        assert ended.code == code, ended
        return ended.out if code == 0 else f"{ended.out}{ended.err}"

    def at_once(self, *commands: tuple[str, ...]) -> list[str]:
        """What commands print that run at the same time, each in a process of its own."""
        started = [
            subprocess.Popen(
                [SKILLWIRE, *words],
                cwd=self.project,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for words in commands
        ]
        said: list[str] = []
        for process in started:
            out, err = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, (out, err)
            said.append(out)
        return said


@pytest.fixture
def home(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return Home(tmp_path, run, monkeypatch)


def version(home: Home, body: str, count: int = 3) -> None:
    """Write the same version into every skill of the team."""
    for number in range(count):
        files = {f"part{part}.md": f"{body} {part}\n" * 50 for part in range(4)}
        write_skill(home.team, f"skill-{number}", files, body=body)


@pytest.mark.process
def test_two_syncs_at_once_both_end_well(home: Home) -> None:
    version(home, "one", count=8)
    home.run("add", "../team", "--yes")
    for path in sorted(home.installed.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    reports = [json.loads(out) for out in home.at_once(*[("sync", "--json")] * 3)]
    assert sorted(name for report in reports for name in report["installed"]) == sorted(
        path.name for path in home.team.iterdir()
    )
    assert tree_of(home.installed) == tree_of(home.team)


def mount(place: Path, *options: str) -> bool:
    place.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(["mount", *options, str(place)], capture_output=True)
    return made.returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "disk"
    if not mount(place, "-t", "tmpfs", "-o", "size=256k", "tmpfs"):
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.process
def test_a_full_disk_leaves_the_old_version_and_says_so(home: Home, small_disk: Path) -> None:
    home.work_in(small_disk / "project")
    write_skill(home.team, "notes", {"a.md": "a" * 20_000})
    home.run("add", str(home.team), "--yes")
    before = tree_of(small_disk / "project")
    write_skill(home.team, "notes", {"a.md": "b" * 20_000, "b.md": "b" * 240_000})
    said = home.run("update", "--yes", code=4)
    assert "No space left on device" in said
    assert "free some space" in said
    assert tree_of(small_disk / "project") == before
    home.run("sync", "--check")


@pytest.mark.process
def test_a_sync_whose_disk_gets_full_keeps_what_it_installed_and_the_next_one_continues(
    home: Home, tmp_path: Path, small_disk: Path
) -> None:
    for name in ("a", "b", "c"):
        write_skill(home.team, name, {"more.md": name * 100_000})
    home.run("add", "../team", "--yes")
    home.live_in(small_disk)  # The stored versions do not fit.
    shutil.rmtree(home.installed)
    said = home.run("sync", "--yes", code=11)
    [rest] = {"a", "b", "c"} - {path.name for path in home.installed.iterdir()}
    assert "Installed 2 skills: " in said
    assert f"not installed  {rest}: {small_disk}" in said
    assert "No space left on device; free some space" in said
    home.live_in(tmp_path / "roomy")
    assert f"Installed 1 skill: {rest}" in home.run("sync", "--yes")


def fill(disk: Path, free: int) -> Path:
    """Fill a file system, but for some bytes."""
    file = disk / "fill"
    with suppress(OSError), file.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))
    os.truncate(file, max(0, file.stat().st_size - free))
    return file


@pytest.mark.process
@pytest.mark.anyio
@pytest.mark.parametrize("full", ["project", "home"])
async def test_with_any_amount_of_space_a_folder_is_old_or_new(
    tmp_path: Path, small_disk: Path, full: str
) -> None:
    """Every write in turn is the one for which there is no space, the lock file and the state among them."""
    places = {name: (small_disk if name == full else tmp_path) / name for name in ("home", "project")}
    machine = Machine(places["home"], places["project"], tmp_path / "team")
    for folder in (*places.values(), machine.team):
        folder.mkdir()
    bodies = ("one", "two")
    trees = {}
    for body in reversed(bodies):
        write_skill(machine.team, "notes", {f"{n}.md": f"{body} {n}\n" * 700 for n in range(3)}, body=body)
        trees[body] = tree_of(machine.team / "notes")
    await machine.add()
    ended: set[bool] = set()
    for number, free in enumerate(range(0, 72 * 1024, 4096)):
        body = bodies[(number + 1) % 2]
        write_skill(machine.team, "notes", {f"{n}.md": f"{body} {n}\n" * 700 for n in range(3)}, body=body)
        installer = machine.installer()
        proposal = await installer.propose_updates()
        filled = fill(small_disk, free)
        try:
            report = await installer.install(proposal.candidates, {"notes": ALL_GRANTS})
            problem = "; ".join(str(failure.error) for failure in report.failures)
        except SourceError as error:
            problem = str(error)
        ended.add(not problem)
        assert not problem or "No space left on device" in problem
        assert tree_of(machine.installed / "notes") in trees.values()
        filled.unlink()
        assert (await machine.sync()).is_whole
        proposal = await machine.installer().propose_updates()
        await machine.installer().install(proposal.candidates, {"notes": ALL_GRANTS})
        assert tree_of(machine.installed / "notes") == trees[body]
    assert ended == {True, False}


@pytest.mark.process
def test_two_adds_at_once_are_both_in_the_lock(home: Home) -> None:
    version(home, "one", count=4)
    home.at_once(*(("add", f"../team/skill-{number}", "--yes") for number in range(4)))
    assert tree_of(home.installed) == tree_of(home.team)
    assert len(json.loads(home.run("list", "--installed", "--json"))["skills"]) == 4
    home.run("sync", "--check")


@pytest.mark.process
def test_a_read_only_target_is_one_clear_line(home: Home, small_disk: Path) -> None:
    home.work_in(small_disk / "project")
    write_skill(home.team, "notes")
    home.run("add", str(home.team), "--yes")
    write_skill(home.team, "notes", body="two")
    assert mount(small_disk, "-o", "remount,ro")
    said = home.run("update", "--yes", code=4)
    assert "Read-only file system" in said
    assert "make the folder writable" in said
    assert mount(small_disk, "-o", "remount,rw")
    home.run("sync", "--check")
    home.run("update", "--yes")


@pytest.fixture
def caseless_disk(tmp_path: Path) -> Generator[Path]:
    """A file system that does not tell `A` from `a`."""
    place = tmp_path / "caseless"
    place.mkdir()
    program = Path(__file__).with_name("caseless_disk.py")
    with subprocess.Popen(
        [sys.executable, program, place], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        if serving.stdout.readline() != "ready\n":
            pytest.skip(f"no file system can be mounted here: {serving.communicate()[1]}")
        try:
            yield place
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
            try:
                serving.wait(SECONDS)
            finally:
                serving.kill()


@pytest.mark.process
def test_names_that_are_one_without_case_are_refused_there(home: Home, caseless_disk: Path) -> None:
    home.work_in(caseless_disk / "project")
    write_skill(home.team, "notes", {"README.md": "one", "readme.md": "two"})
    write_skill(home.team, "accents", {"caf\u00e9.md": "one", "cafe\u0301.md": "two"})
    write_skill(home.team, "folders", {"Docs/a.md": "one", "docs/b.md": "two"})
    write_skill(home.team, "good", {"Docs/A.md": "one"})
    said = home.run("add", str(home.team), "--yes", code=11)
    assert "README.md and readme.md are the same name" in said
    assert "Docs and docs are the same name" in said
    assert sorted(path.name for path in home.installed.iterdir()) == ["good"]
    assert '"good"' in (home.project / "skillwire.lock").read_text()
    assert '"notes"' not in (home.project / "skillwire.lock").read_text()
    home.run("sync", "--check")


@pytest.mark.process
def test_a_file_system_without_case_takes_updates_edits_and_a_rollback(
    home: Home, caseless_disk: Path
) -> None:
    home.work_in(caseless_disk / "project")
    write_skill(home.team, "notes", {"Guide.md": "one", "scripts/run.sh": "#!/bin/sh\n"})
    home.run("add", str(home.team), "--yes", "--allow-code", "--agent", "claude-code")
    one = tree_of(home.project / ".agents"), tree_of(home.project / ".claude")
    assert one[0] == {f"skills/{path}": row for path, row in tree_of(home.team).items()}
    # Upstream renames a file in its case alone: the folder has the new spelling, and no second file.
    (home.team / "notes/Guide.md").rename(home.team / "notes/GUIDE.md")
    home.run("update", "--yes", "--allow-code")
    assert tree_of(home.installed) == tree_of(home.team)
    home.run("sync", "--check")
    # Somebody else's folder in another spelling is the same folder there, and left alone.
    write_skill(home.team, "extra", body="ours")
    write_skill(home.installed, "EXTRA", body="theirs")
    before = tree_of(home.installed)
    assert "not installed by skillwire" in home.run("add", str(home.team), "--yes", "--allow-code", code=10)
    assert tree_of(home.installed) == before
    home.run("rollback", "notes")
    assert tree_of(home.installed / "notes") == {
        path.removeprefix("skills/notes/"): row for path, row in one[0].items()
    }


@pytest.mark.process
def test_a_folder_of_another_user_cannot_be_written_and_is_named(home: Home) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    write_skill(home.team, "notes")
    home.installed.mkdir(parents=True)
    subprocess.run(["chattr", "+i", str(home.installed)], check=False, capture_output=True)
    try:
        try:
            (home.installed / "probe").touch()
        except OSError:
            said = home.run("add", "../team", "--yes", code=4)
            assert "make the folder writable" in said
            assert list(home.installed.iterdir()) == []
        else:
            pytest.skip("this file system knows no immutable folders")
    finally:
        subprocess.run(["chattr", "-i", str(home.installed)], check=False, capture_output=True)
