"""A cgroup for one run, where this process may make one: the kernel then holds memory and processes exactly.

With cgroup version 2 it is made beside the own one, where the controllers are passed on to it, as in the
session of a systemd user; with version 1 below the own one, which only root may do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from skillwire.limits import Limits

ROOT: Final = "/sys/fs/cgroup"
_REMOVE_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """One folder to make, the files to write in it, and the file that counts processes without memory."""

    folder: str
    files: Mapping[str, int]
    events: str


def groups_for(own: str, limits: Limits, controllers: Sequence[str], name: str) -> list[ControlGroup]:
    """The folders for a run, from `/proc/self/cgroup` and what is passed on to a sibling. Pure.

    Empty if not all of memory and processes can be limited.
    """
    lines = [line.split(":", 2) for line in own.splitlines() if line.count(":") >= 2]
    paths = {controller: path for _, names, path in lines for controller in names.split(",")}
    memory, processes = limits.script_memory_bytes, limits.script_processes + 1
    if "memory" in paths and "pids" in paths:
        folders = {kind: f"{ROOT}/{kind}{paths[kind].rstrip('/')}/{name}" for kind in ("memory", "pids")}
        return [
            ControlGroup(folders["memory"], {"memory.limit_in_bytes": memory}, "memory.oom_control"),
            ControlGroup(folders["pids"], {"pids.max": processes}, ""),
        ]
    if {"memory", "pids"} <= set(controllers) and paths.get("", "/") != "/":
        folder = f"{ROOT}{os.path.dirname(paths['']).rstrip('/')}/{name}"
        files = {"memory.max": memory, "memory.swap.max": 0, "memory.oom.group": 1, "pids.max": processes}
        return [ControlGroup(folder, files, "memory.events")]
    return []


class Cgroup:
    """The folders of one run, until the block of `make` ends."""

    def __init__(self, groups: Sequence[ControlGroup]) -> None:
        self._groups = groups

    @staticmethod
    @contextmanager
    def make(limits: Limits) -> Generator[Cgroup | None]:
        """A cgroup with these limits; `None` where none can be made."""
        name = f"skillwire-{os.getpid()}-{os.urandom(4).hex()}"
        made: list[ControlGroup] = []
        try:
            try:
                groups = groups_for(_read("/proc/self/cgroup"), limits, _passed_on(), name)
                for group in groups:
                    _remove_abandoned(os.path.dirname(group.folder))
                    os.mkdir(group.folder)
                    made.append(group)
                    for file, value in group.files.items():
                        with suppress(FileNotFoundError):  # Not every kernel counts swap.
                            _write(f"{group.folder}/{file}", value)
                if made:  # It may be made and still not be enterable.
                    os.stat(f"{made[0].folder}/cgroup.procs")
            except OSError:
                groups = []
            yield Cgroup(groups) if groups else None
        finally:
            for group in made:
                _remove(group.folder)

    def add(self, pid: int) -> None:
        """Move a process into it; those that it starts are in it too."""
        for group in self._groups:
            _write(f"{group.folder}/cgroup.procs", pid)

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel ended a process because of the limit."""
        for group in self._groups:
            with suppress(OSError, ValueError):
                for line in _read(f"{group.folder}/{group.events}").splitlines() if group.events else ():
                    name, _, value = line.partition(" ")
                    if name == "oom_kill" and int(value):
                        return True
        return False


def is_abandoned(name: str) -> bool:
    """Whether something of a run, named `skillwire-…PID-…`, belongs to a process that is gone."""
    words = [word for word in name.split("-") if word.isdigit()]
    return bool(words) and not os.path.exists(f"/proc/{words[0]}")


def _remove_abandoned(folder: str) -> None:
    """Remove the cgroups of processes that were killed; what runs in them ended with those."""
    for name in os.listdir(folder):
        if name.startswith("skillwire-") and is_abandoned(name):
            with suppress(OSError):
                os.rmdir(os.path.join(folder, name))


def _passed_on() -> list[str]:
    """The controllers that a sibling of the own cgroup gets, with version 2."""
    with suppress(OSError):
        for line in _read("/proc/self/cgroup").splitlines():
            if line.startswith("0::") and line != "0::/":
                return _read(f"{ROOT}{os.path.dirname(line[3:])}/cgroup.subtree_control").split()
    return []


def _remove(folder: str) -> None:
    """Remove a cgroup whose processes are about to be gone."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while time.monotonic() < deadline:
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.005)
        else:
            return


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def _write(path: str, value: int) -> None:
    with open(path, "w", encoding="ascii") as stream:
        stream.write(str(value))
