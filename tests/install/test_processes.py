"""Installing with real processes and real file systems: killed, out of space, without permission, and
concurrently."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from install.workspaces import Machine, tree_of, write_skill
from skillwire.errors import SourceError
from skillwire.trust import ALL_GRANTS

SKILLWIRE = str(Path(sys.executable).parent / "skillwire")
SECONDS = 120


class Home:
    """A user with a home, a project and a folder of skills, for commands in processes of their own."""

    def __init__(self, base: Path, project: Path | None = None) -> None:
        self.home = base / "home"
        self.project = project or base / "project"
        self.team = base / "team"
        for folder in (self.home, self.project, self.team):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        return {**kept, "HOME": str(self.home)}

    @property
    def installed(self) -> Path:
        return self.project / ".agents/skills"

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [SKILLWIRE, *words],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == code, (process.returncode, out, err)
        return out if code == 0 else f"{out}{err}"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def version(home: Home, body: str, count: int = 3) -> None:
    """Write the same version into every skill of the team."""
    for number in range(count):
        files = {f"part{part}.md": f"{body} {part}\n" * 50 for part in range(4)}
        write_skill(home.team, f"skill-{number}", files, body=body)


@pytest.mark.process
def test_a_command_that_is_killed_leaves_every_folder_old_or_new(home: Home) -> None:
    version(home, "one")
    home.run("add", "../team", "--yes")
    one = {path.name: tree_of(path) for path in home.installed.iterdir()}
    version(home, "two")
    two = {path.name: tree_of(path) for path in home.team.iterdir()}
    started = time.monotonic()
    home.run("update", "--yes")
    whole = time.monotonic() - started
    home.run("rollback", "skill-0")
    version(home, "one")
    home.run("update", "--yes")
    seen: set[str] = set()
    for attempt in range(4):
        version(home, "two" if attempt % 2 == 0 else "one")
        process = home.start("update", "--yes")
        # From when nothing is written yet to when all is: most of the time goes into starting.
        time.sleep(whole * (0.5 + attempt / 7))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=SECONDS)
        for path in sorted(home.installed.iterdir()):
            if path.name.startswith("."):
                continue
            tree = tree_of(path)
            assert tree in (one[path.name], two[path.name]), path
            seen.add("one" if tree == one[path.name] else "two")
    # Whatever was left behind, the next command puts everything right and clears up.
    version(home, "two")
    home.run("update", "--yes")
    home.run("sync", "--check")
    assert {path.name: tree_of(path) for path in home.installed.iterdir()} == two
    assert seen


@pytest.mark.process
def test_two_syncs_at_once_both_end_well(home: Home) -> None:
    version(home, "one", count=8)
    home.run("add", "../team", "--yes")
    for path in sorted(home.installed.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    processes = [home.start("sync", "--json") for _ in range(3)]
    reports: list[dict[str, list[str]]] = []
    for process in processes:
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, err
        reports.append(json.loads(out))
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
def test_a_full_disk_leaves_the_old_version_and_says_so(tmp_path: Path, small_disk: Path) -> None:
    home = Home(tmp_path, project=small_disk / "project")
    write_skill(home.team, "notes", {"a.md": "a" * 20_000})
    home.run("add", "../../team", "--yes")
    before = tree_of(small_disk / "project")
    write_skill(home.team, "notes", {"a.md": "b" * 20_000, "b.md": "b" * 240_000})
    said = home.run("update", "--yes", code=4)
    assert "No space left on device" in said
    assert "free some space" in said
    assert tree_of(small_disk / "project") == before
    home.run("sync", "--check")


@pytest.mark.process
def test_a_sync_whose_disk_gets_full_keeps_what_it_installed_and_the_next_one_continues(
    tmp_path: Path, small_disk: Path
) -> None:
    author = Home(tmp_path)
    for name in ("a", "b", "c"):
        write_skill(author.team, name, {"more.md": name * 100_000})
    author.run("add", "../team", "--yes")
    author.home = small_disk  # The stored versions do not fit.
    shutil.rmtree(author.installed)
    said = author.run("sync", "--yes", code=11)
    [rest] = {"a", "b", "c"} - {path.name for path in author.installed.iterdir()}
    assert "Installed 2 skills: " in said
    assert f"not installed  {rest}: {small_disk}" in said
    assert "No space left on device; free some space" in said
    assert "Traceback" not in said
    author.home = tmp_path / "roomy"
    assert f"Installed 1 skill: {rest}" in author.run("sync", "--yes")


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
    processes = [home.start("add", f"../team/skill-{number}", "--yes") for number in range(4)]
    for process in processes:
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, (out, err)
    assert tree_of(home.installed) == tree_of(home.team)
    assert len(json.loads(home.run("list", "--installed", "--json"))["skills"]) == 4
    home.run("sync", "--check")


@pytest.mark.process
def test_a_read_only_target_is_one_clear_line(tmp_path: Path, small_disk: Path) -> None:
    home = Home(tmp_path, project=small_disk / "project")
    write_skill(home.team, "notes")
    home.run("add", "../../team", "--yes")
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
            serving.wait(SECONDS)


@pytest.mark.process
def test_names_that_are_one_without_case_are_refused_there(tmp_path: Path, caseless_disk: Path) -> None:
    home = Home(tmp_path, project=caseless_disk / "project")
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
    tmp_path: Path, caseless_disk: Path
) -> None:
    home = Home(tmp_path, project=caseless_disk / "project")
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
