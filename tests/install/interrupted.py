"""Interrupts installing at every moment at which it changes a file, with a new process for each moment.

`python tests/install/interrupted.py` reads lines with a folder, a scenario and a fault. It answers each with
JSON: how many moments there were, and what was wrong after which. With the fault `kill`, the process is
killed before its first change, then before its second, and so on. With `full`, everything that needs space
fails from there on; with `denied`, one change does. Afterwards, another process does what a user does next:
the same command, or `sync`.

The processes are forked from one that has done everything once and so has it imported.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).parent.parent))

from forks import in_fork
from install.workspaces import Machine, tree_of, write_skill
from skillwire.errors import SkillwireError
from skillwire.install import InstallReport
from skillwire.install.apply import STAGING
from skillwire.skill import digest_of
from skillwire.trust import ALL_GRANTS

Act: TypeAlias = Callable[[Machine], Coroutine[Any, Any, InstallReport]]
Files: TypeAlias = Mapping[str, tuple[int, bytes | str]]
Versions: TypeAlias = Mapping[str, Mapping[str, Files]]

NAME = "notes"
AGENT, AGENT_FOLDER = "claude-code", ".claude/skills"
CHANGES = frozenset({"os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.symlink", "os.chmod", "os.utime"})
NEEDS_SPACE = frozenset({"os.mkdir", "os.symlink", "open"})
MOST_MOMENTS = 500


# What a user does


def write_version(machine: Machine, body: str, names: Iterable[str]) -> None:
    for name in names:
        write_skill(machine.team, name, {"docs/a.md": body}, body=body)


async def add(machine: Machine, *, links: bool = True) -> InstallReport:
    return await machine.add(targets=[AGENT], links=links)


async def add_another(machine: Machine) -> InstallReport:
    return await machine.add("other")


async def update(machine: Machine, *, links: bool = True) -> InstallReport:
    installer = machine.installer(links=links)
    proposal = await installer.propose_updates()
    grants = {candidate.name: ALL_GRANTS for candidate in proposal.candidates}
    return await installer.install(proposal.candidates, grants)


async def sync(machine: Machine, *, force: bool = False) -> InstallReport:
    return await machine.sync(force=[NAME] if force else ())


async def roll_back(machine: Machine) -> InstallReport:
    installer = machine.installer()
    first = installer.earlier(NAME, installer.versions(NAME)[0].digest)
    return await installer.install([first], {NAME: ALL_GRANTS}, going_back=True)


async def remove(machine: Machine) -> InstallReport:
    return machine.installer().remove([skill.name for skill in machine.lock().skills])


@dataclass(frozen=True)
class Scenario:
    """What was done before, what is interrupted, and which version is there in the end."""

    before: tuple[str, ...]
    act: Act
    end: str
    has_exchange: bool = True
    """Whether the system can exchange two folders in one step."""
    names: tuple[str, ...] = (NAME,)

    @property
    def has_edit(self) -> bool:
        return "edit" in self.before


SCENARIOS = {
    "add": Scenario((), add, "one"),
    "add-copies": Scenario((), partial(add, links=False), "one"),
    "update": Scenario(("add", "two"), update, "two"),
    "update-two": Scenario(("add", "two"), update, "two", names=(NAME, "others")),
    "update-copies": Scenario(("add-copies", "two"), partial(update, links=False), "two"),
    "update-without-exchange": Scenario(("add", "two"), update, "two", has_exchange=False),
    "sync": Scenario(("add", "delete"), sync, "one"),
    "force": Scenario(("add", "edit"), partial(sync, force=True), "one"),
    "force-without-exchange": Scenario(("add", "edit"), partial(sync, force=True), "one", has_exchange=False),
    "rollback": Scenario(("add", "two", "update"), roll_back, "one"),
    "remove": Scenario(("add",), remove, ""),
}


def prepare(machine: Machine, scenario: Scenario) -> str:
    write_version(machine, "one", scenario.names)
    for step in scenario.before:
        match step:
            case "two":
                write_version(machine, "two", scenario.names)
            case "delete":
                shutil.rmtree(machine.installed)
            case "edit":
                (machine.installed / NAME / "docs/a.md").write_text("mine")
            case _:
                if problem := problem_of(SCENARIOS[step].act, machine):
                    return problem
    return ""


def problem_of(act: Act, machine: Machine) -> str:
    """Why something was not done whole, as a command would say it; empty if it was."""
    try:
        report = asyncio.run(act(machine))
    except SkillwireError as error:
        return str(error)
    said = [str(failure.error) for failure in (*report.failures, *report.refused)]
    return "; ".join([*said, *(f"{step.name} is {step.act.words}" for step in report.stopped)])


# Interrupting


class Interruption:
    """Counts the changes to files below a folder, and interrupts one of them."""

    def __init__(self, below: Path, at: int, fault: str) -> None:
        self._below, self._at, self._fault = f"{below}/", at, fault
        self.count = 0
        sys.addaudithook(self)

    def __call__(self, event: str, values: tuple[Any, ...]) -> None:
        if not self._is_change(event, values):
            return
        self.count += 1
        if self.count < self._at:
            return
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fault == "full" and event in NEEDS_SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), values[0])
        if self._fault == "denied" and self.count == self._at:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), values[0])

    def _is_change(self, event: str, values: tuple[Any, ...]) -> bool:
        if event != "open" and event not in CHANGES:
            return False
        path = values[0]
        if event == "open":
            if isinstance(path, int) or not isinstance(values[2], int):
                return False
            is_read = not values[2] & (os.O_WRONLY | os.O_RDWR)
            return not is_read and os.fsdecode(path).startswith(self._below)
        # Relative to an open folder, as in `rmtree`, or an open file: both were opened below.
        return (
            isinstance(path, int)
            or not Path(os.fsdecode(path)).is_absolute()
            or (os.fsdecode(path).startswith(self._below))
        )


def interrupt(machine: Machine, scenario: Scenario, at: int, fault: str) -> dict[str, object]:
    counted = Interruption(machine.home.parent, at, fault)
    problem = problem_of(scenario.act, machine)
    return {"count": counted.count, "problem": problem}


# What must hold


def known_versions(folder: Path, names: Iterable[str]) -> Versions:
    """Every version that may be at a skill's place, by the name of the skill."""
    machine = Machine.make(folder / "versions")
    versions: dict[str, dict[str, Files]] = {name: {} for name in names}
    for body in ("two", "one"):
        write_version(machine, body, names)
        for name in names:
            versions[name][body] = tree_of(machine.team / name)
    for name in names:
        (machine.team / name / "docs/a.md").write_text("mine")
        versions[name]["mine"] = tree_of(machine.team / name)
    return versions


def version_at(folder: Path, name: str, versions: Versions) -> str:
    """Which version of a skill is in a folder of skills; empty if none is."""
    if not os.path.lexists(folder / name):
        return ""
    tree = tree_of((folder / name).resolve())
    return next((body for body, files in versions[name].items() if files == tree), "a mix")


def pinned_version(machine: Machine, name: str, versions: Versions) -> str:
    """Which version of a skill the lock pins; empty if it pins none."""
    skill = machine.lock().get(name)
    digests = {file.path: file.digest for file in skill.files} if skill else {}
    return next(
        (
            body
            for body, files in versions[name].items()
            if {path: digest_of(row[1]) for path, row in files.items() if isinstance(row[1], bytes)}
            == digests
        ),
        "",
    )


def afterwards(machine: Machine, scenario: Scenario, fault: str, then: str, versions: Versions) -> list[str]:
    """What is wrong after the same command, or `sync`, and a command about something else."""
    expected = dict.fromkeys(scenario.names, scenario.end)
    if then == "again" or scenario.has_edit or not machine.workspace().lock_file.exists():
        problems = [problem_of(scenario.act, machine)]
    else:
        problems = [problem_of(sync, machine)]
        expected = {name: pinned_version(machine, name, versions) for name in scenario.names}
    write_skill(machine.team, "other")
    problems.append(problem_of(add_another, machine))
    for name, folder in product(scenario.names, (machine.installed, machine.project / AGENT_FOLDER)):
        actual = version_at(folder, name, versions)
        if actual != expected[name]:
            problems.append(f"{name} in {folder} is {actual or 'gone'}, not {expected[name] or 'gone'}")
    if fault != "denied":  # What may not be deleted stays.
        problems += [f"{path} is left behind" for path in machine.project.rglob(f"{STAGING}*")]
    if not machine.installer().compare()[2].is_done:
        problems.append("the folders differ from the lock")
    if scenario.has_edit:
        kept = [one.skill for one in machine.installer().versions(NAME)]
        if not any(b"mine" in machine.workspace().versions.content(skill).values() for skill in kept):
            problems.append("the edit is lost")
    return [problem for problem in problems if problem]


def rehearse(folder: Path, scenario: Scenario, versions: Versions) -> None:
    """Do everything once in this process: what is imported on demand is then there in every fork."""
    machine = Machine.make(folder)
    prepare(machine, scenario)
    problem_of(scenario.act, machine)
    afterwards(machine, scenario, "kill", "again", versions)
    gc.freeze()  # A fork then copies no memory only because it looks for garbage.


def run(folder: Path, name: str, fault: str) -> dict[str, object]:
    """Interrupt a scenario at every moment: how many those are, and what was wrong after which.

    In a process of its own: it changes what the system can do.
    """
    scenario = SCENARIOS[name]
    versions = known_versions(folder, scenario.names)
    rehearse(folder / "rehearsal", scenario, versions)
    # The state has absolute paths: every attempt is made in the same folder.
    base, prepared = folder / "machine", folder / "prepared"
    machine = Machine.make(base)
    if problem := prepare(machine, scenario):
        return {"moments": 0, "problems": [problem]}
    if not scenario.has_exchange:
        sys.modules["skillwire.install.apply"].exchange = lambda one, other: False  # type: ignore[attr-defined]
    allowed = {version_at(machine.installed, NAME, versions), scenario.end}
    # Without an exchange there is a moment with neither version, from which the next command recovers.
    allowed |= set() if scenario.has_exchange else {""}
    base.rename(prepared)
    problems: list[str] = []
    for at in range(1, MOST_MOMENTS):
        then = "again" if at % 2 else "sync"
        where = f"{fault} at change {at}, then {then}"
        shutil.copytree(prepared, base, symlinks=True)
        ended: Any = in_fork(partial(interrupt, machine, scenario, at, fault))
        if isinstance(ended, str):
            return {"moments": at, "problems": [*problems, f"{where}: {ended}"]}
        for name in scenario.names:
            if (actual := version_at(machine.installed, name, versions)) not in allowed:
                problems.append(f"{where}: {name} is {actual or 'gone'}")
        found = afterwards(machine, scenario, fault, then, versions)
        problems += [f"{where}: {problem}" for problem in found]
        shutil.rmtree(base)
        if isinstance(ended, dict) and ended["count"] < at:
            return {"moments": at - 1, "problems": problems}
    return {"moments": MOST_MOMENTS, "problems": [*problems, "it did not end"]}


if __name__ == "__main__":
    for line in sys.stdin:
        folder, scenario, fault = json.loads(line)
        print(json.dumps(in_fork(partial(run, Path(folder).resolve(), scenario, fault))), flush=True)
