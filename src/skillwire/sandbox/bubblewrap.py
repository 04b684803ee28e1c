"""Runs a plan in bubblewrap, or refuses: a script never runs in a bare process instead.

1. The files of the skill are hashed once more and written to a private folder, which is mounted read-only.
2. Granted paths are opened without following a link; what was opened is what is mounted.
3. bubblewrap makes the namespaces and waits. Meanwhile its process gets its limits, and with `net:` grants
   a proxy. Only then does the script start.
4. Output is read up to its limit, and usage is watched. Whatever exceeds a limit ends everything inside.
5. At the end, however it came, the process namespace is gone before the folder is.
"""

from __future__ import annotations

import fnmatch
import os
import platform
import re
import resource
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Final, cast

from skillwire.errors import DigestMismatch, LimitExceeded, SandboxUnavailable, SkillwireError, SourceError
from skillwire.limits import Limits
from skillwire.sandbox.cgroup import Cgroup, is_abandoned
from skillwire.sandbox.plan import (
    ETC,
    ETC_FILES,
    PATH,
    SCRATCH,
    SHARED_MEMORY,
    SYSTEM,
    Grant,
    GrantKind,
    RunResult,
    SandboxPlan,
    forbidden_path,
)
from skillwire.sandbox.proxy import Proxy, listen_inside
from skillwire.sandbox.seccomp import MACHINES, filter_bytes
from skillwire.skill import digest_of
from skillwire.text import safe_line, safe_text
from skillwire.trust import VerifiedFile
from skillwire.words import counted

_START_SECONDS: Final = 10
_END_SECONDS: Final = 10
_TICK: Final = 0.05
_CHUNK: Final = 64 * 1024
_WALK_ENTRIES: Final = 200_000
_WALK_SHARE: Final = 10  # Watching folders takes at most a tenth of the time.
_CHILD: Final = re.compile(rb'"child-pid": (\d+)')
_EXIT: Final = re.compile(rb'"exit-code": (\d+)')
_NO_NAMESPACES: Final = ("namespace", "Operation not permitted", "uid map", "Creating new")


def find_bubblewrap() -> str:
    """The program `bwrap`, or `SandboxUnavailable` with what is missing on this machine."""
    if sys.platform != "linux":
        raise SandboxUnavailable(f"scripts run in a sandbox on Linux alone, and this is {platform.system()}")
    if platform.machine() not in MACHINES:
        known = " and ".join(MACHINES)
        raise SandboxUnavailable(
            f"the sandbox knows the system calls of {known}, not of {platform.machine()}"
        )
    if not os.path.exists("/proc/self/task"):
        raise SandboxUnavailable("/proc is not mounted, which the sandbox needs")
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxUnavailable(
            "bubblewrap is not installed: install the package bubblewrap, which has bwrap"
        )
    return program


def system_folders() -> tuple[tuple[str, str], ...]:
    """The folders and files of the system that every sandbox has, each with its target if it is a link."""
    found = [
        (path, os.readlink(path) if os.path.islink(path) else "") for path in SYSTEM if os.path.isdir(path)
    ]
    return (*found, *((path, "") for path in ETC if os.path.exists(path)))


def find_program(name: str) -> tuple[str, tuple[str, ...]]:
    """An interpreter inside the sandbox, and the folders that must be mounted for it; empty if there is none.

    Programs of the system are preferred. Where Python is none of these, it is the one that runs Skillwire.
    """
    if found := shutil.which(os.path.basename(name), path=":".join(PATH)):
        return found, ()
    if name == "python3" and os.path.isdir(sys.base_prefix):
        program = os.path.join(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
        return (program, (sys.base_prefix,)) if os.path.exists(program) else ("", ())
    return "", ()


def resolve_grant(grant: Grant, *, home: str, private: Sequence[str]) -> Grant:
    """A grant as it is stored: a path without links that exists and may be granted, a program by its path."""
    if grant.kind is GrantKind.EXEC:
        program = shutil.which(grant.value)
        if program is None:
            raise SourceError(f"{safe_line(str(grant))} cannot be granted: there is no such program")
        return Grant(grant.kind, os.path.realpath(program))
    if not grant.kind.is_path:
        return grant
    path = os.path.realpath(grant.value)
    if problem := forbidden_path(
        path, home=os.path.realpath(home), private=[os.path.realpath(one) for one in private]
    ):
        raise SourceError(f"{safe_line(str(grant))} cannot be granted: {problem}")
    if not os.path.isfile(path) and not os.path.isdir(path):
        raise SourceError(f"{safe_line(str(grant))} cannot be granted: there is no such file or folder")
    return Grant(grant.kind, path)


def run(
    plan: SandboxPlan,
    files: Sequence[VerifiedFile] = (),
    *,
    stopped: threading.Event | None = None,
    any_address: bool = False,
    started: Callable[[Sequence[str]], None] | None = None,
    program: str = "",
) -> RunResult:
    """Run a plan to its end; blocks. `stopped` ends it early. `started` is told the command. `program` is a
    `bwrap` that was found before.
    """
    program = program or find_bubblewrap()
    with ExitStack() as stack:
        # A private folder, which nobody else can write to.
        stage = make_private("run")
        stack.callback(shutil.rmtree, stage, ignore_errors=True)
        _write_stage(Path(stage), files)
        return _Run(plan, program, stage, stack, stopped or threading.Event(), any_address, started).run()


def unsafe_run_bare(plan: SandboxPlan, files: Sequence[VerifiedFile]) -> int:
    """Run a script as a process of this user, without any sandbox; gives its exit code."""
    stage = make_private("run")
    try:
        _write_stage(Path(stage), files)
        command = [*plan.interpreter, f"{stage}/skill/{plan.script}", *plan.arguments]
        return subprocess.run(command, check=False, cwd=plan.folder).returncode  # noqa: S603 - as its name says
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def make_private(what: str) -> str:
    """A new temporary folder of this process. Those of processes that were killed are removed first."""
    parent = tempfile.gettempdir()
    for name in fnmatch.filter(os.listdir(parent), f"skillwire-{what}-*"):
        path = os.path.join(parent, name)
        with suppress(OSError):
            if os.lstat(path).st_uid == os.getuid() and is_abandoned(name):
                shutil.rmtree(path, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"skillwire-{what}-{os.getpid()}-")


def try_sandbox(limits: Limits) -> str:
    """Run a program that does nothing in a sandbox, and say how limits hold here; raises what is wrong."""
    plan = SandboxPlan(
        script="", interpreter=("/bin/sh", "-c", "exit 42"), system=system_folders(), limits=limits
    )
    outcome = run(plan)
    if outcome.exit_code != 42:
        raise SandboxUnavailable(f"a program in the sandbox ended with {outcome.exit_code}: {outcome.stderr}")
    with Cgroup.make(limits) as cgroup:
        return "a cgroup" if cgroup is not None else "a monitor of its processes"


class _Run:
    """One run, from start to end."""

    def __init__(
        self,
        plan: SandboxPlan,
        program: str,
        stage: str,
        stack: ExitStack,
        stopped: threading.Event,
        any_address: bool,
        started: Callable[[Sequence[str]], None] | None,
    ) -> None:
        self.plan, self.limits, self.program, self.stage = plan, plan.limits, program, stage
        self.stack, self.stopped, self.any_address, self.started = stack, stopped, any_address, started
        self.output: dict[str, bytearray] = {
            "stdout": bytearray(),
            "stderr": bytearray(),
            "status": bytearray(),
        }
        self.ended = ""
        self._descriptors: set[int] = set()
        stack.callback(self._close_all)
        self.proxy: Proxy | None = None
        self.cgroup: Cgroup | None = None
        self.walk_at = 0.0
        folders = [grant.value for grant in plan.paths if grant.kind is GrantKind.WRITE]
        self.folders = {folder: _usage(folder) for folder in [*folders, *([plan.work] if plan.work else [])]}

    def run(self) -> RunResult:
        mounts = {grant: self._opened(_open_path(grant.value)) for grant in self.plan.paths}
        read_filter = self._pipe_with(filter_bytes(MACHINES[platform.machine()]))
        read_status, write_status = self._pipe()
        read_block, write_block = self._pipe()
        passed = [*mounts.values(), read_filter, write_status, read_block]
        command = [
            *(self.program, *self.plan.options(self.stage, mounts), "--seccomp", str(read_filter)),
            *(
                "--json-status-fd",
                str(write_status),
                "--block-fd",
                str(read_block),
                "--",
                *self.plan.command(),
            ),
        ]
        if self.started is not None:
            self.started(command)
        # In this thread, which stays to the end: bubblewrap dies with it.
        process = subprocess.Popen(  # noqa: S603 - a script of others, where it can do nothing
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=passed,
            env={},
            start_new_session=True,
        )
        self.stack.callback(_end_process, process)
        for descriptor in passed:
            self._close(descriptor)
        selector = self.stack.enter_context(selectors.DefaultSelector())
        out, err = cast("tuple[IO[bytes], IO[bytes]]", (process.stdout, process.stderr))
        for name, file in (
            ("stdout", out.fileno()),
            ("stderr", err.fileno()),
            ("status", read_status),
        ):
            os.set_blocking(file, False)
            selector.register(file, selectors.EVENT_READ, name)

        # 3. It waits: limits and proxy come first.
        pid = self._wait_for_child(selector, process)
        try:
            inside = self._opened(os.pidfd_open(pid))
        except OSError:  # It is gone already.
            raise self._unavailable(process) from None
        self.stack.callback(_end_child, inside)
        self._limit(pid)
        if self.plan.hosts:
            self.proxy = Proxy(listen_inside(pid), self.plan.hosts, any_address=self.any_address)
            self.stack.callback(self.proxy.close)
            self.proxy.start()
        started = time.monotonic()
        with suppress(BrokenPipeError):
            os.write(write_block, b"+")

        # 4. Until every pipe is closed.
        deadline = started + self.limits.script_seconds
        ticked = 0.0
        while selector.get_map():
            self._read(selector, _TICK)
            now = time.monotonic()
            if not self.ended and now - ticked >= _TICK:
                ticked = now
                self.ended = self._exceeded(pid, now, deadline)
                if self.ended:
                    _end_child(inside)
                    deadline = now + _END_SECONDS
            if process.poll() is not None and not self.ended:
                # The script is over; who holds its pipes open ends with its namespace.
                _end_child(inside)
            if self.ended and now > deadline:
                break
        seconds = time.monotonic() - started
        with suppress(subprocess.TimeoutExpired):  # It was stopped itself: it is killed below.
            process.wait(_END_SECONDS)
        found = _EXIT.search(self.output["status"])
        if not self.ended and self.cgroup is not None and self.cgroup.ran_out_of_memory():
            self.ended = self._memory_sentence()
        if found is None and not self.ended:
            raise self._unavailable(process)
        return RunResult(
            exit_code=int(found[1]) if found is not None else 128 + signal.SIGKILL,
            stdout=self._text("stdout"),
            stderr=self._text("stderr"),
            ended=self.ended,
            seconds=seconds,
            output_bytes=len(self.output["stdout"]) + len(self.output["stderr"]),
            network_bytes=self.proxy.bytes if self.proxy is not None else 0,
            refused_hosts=tuple(sorted(self.proxy.refused)) if self.proxy is not None else (),
            command=tuple(command),
        )

    def _wait_for_child(self, selector: selectors.BaseSelector, process: subprocess.Popen[bytes]) -> int:
        deadline = time.monotonic() + _START_SECONDS
        while (found := _CHILD.search(self.output["status"])) is None:
            self._read(selector, _TICK)
            if process.poll() is not None or time.monotonic() > deadline:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_TICK)
                self._read(selector, 0)
                raise self._unavailable(process)
        return int(found[1])

    def _limit(self, pid: int) -> None:
        """Limits that the kernel enforces: of each process, and of all where a cgroup can be made."""
        limits = self.limits
        for kind, most in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_DATA, limits.script_memory_bytes),
            (resource.RLIMIT_FSIZE, limits.script_disk_bytes),
            (resource.RLIMIT_NOFILE, limits.script_open_files),
            (resource.RLIMIT_NPROC, limits.script_processes + 1),  # And the init of the namespace.
            (resource.RLIMIT_MEMLOCK, 64 * 1024),
            (resource.RLIMIT_MSGQUEUE, 0),
        ):
            most = min(
                most, *(one for one in resource.prlimit(pid, kind) if one != resource.RLIM_INFINITY), most
            )
            resource.prlimit(pid, kind, (most, most))
        self.cgroup = self.stack.enter_context(Cgroup.make(limits))
        if self.cgroup is not None:
            self.cgroup.add(pid)

    def _exceeded(self, pid: int, now: float, deadline: float) -> str:
        """The limit that is exceeded now, in a sentence; empty if none is."""
        limits = self.limits
        if self.stopped.is_set():
            return "it was stopped"
        if now > deadline:
            return f"it took longer than {limits.script_seconds:g} seconds"
        if len(self.output["stdout"]) + len(self.output["stderr"]) > limits.script_output_bytes:
            return f"it printed more than {limits.script_output_bytes:,} bytes"
        processes, memory = _processes(pid, limits.script_processes + 2)
        if processes > limits.script_processes + 1:
            return f"it had more than {counted(limits.script_processes, 'process')}"
        if memory > limits.script_memory_bytes or (
            self.cgroup is not None and self.cgroup.ran_out_of_memory()
        ):
            return self._memory_sentence()
        if now >= self.walk_at:
            return self._too_much_written(pid)
        return ""

    def _too_much_written(self, pid: int) -> str:
        limits = self.limits
        started = time.monotonic()
        files = written = 0
        root = f"/proc/{pid}/root"
        with suppress(OSError):
            if not os.path.samefile(root, "/"):  # Its mounts are made.
                for folder in (f"{root}{SCRATCH}", f"{root}{SHARED_MEMORY}"):
                    found = os.statvfs(folder)
                    files += found.f_files - found.f_ffree
        for folder, (files_before, bytes_before) in self.folders.items():
            files_now, bytes_now = _usage(folder, files_before + limits.script_files)
            files += files_now - files_before
            written += bytes_now - bytes_before
        self.walk_at = time.monotonic() + _WALK_SHARE * (time.monotonic() - started)
        if written > limits.script_disk_bytes:
            return f"it wrote more than {limits.script_disk_bytes:,} bytes"
        return (
            f"it created more than {counted(limits.script_files, 'file')}"
            if files > limits.script_files
            else ""
        )

    def _memory_sentence(self) -> str:
        return f"it needed more than {self.limits.script_memory_bytes:,} bytes of memory"

    def _read(self, selector: selectors.BaseSelector, seconds: float) -> None:
        for key, _ in selector.select(seconds):
            data = os.read(key.fd, _CHUNK)
            if not data:
                selector.unregister(key.fd)
            # What comes after the limit is read, so that the end is seen, and dropped.
            elif len(self.output[key.data]) <= self.limits.script_output_bytes:
                self.output[key.data] += data

    def _text(self, name: str) -> str:
        return safe_text(self.output[name][: self.limits.script_output_bytes].decode("utf-8", "replace"))

    def _unavailable(self, process: subprocess.Popen[bytes]) -> SandboxUnavailable:
        said = safe_line(self.output["stderr"].decode("utf-8", "replace").removeprefix("bwrap: "), limit=300)
        said = said or f"it ended with {process.poll()}"
        if "nknown option" in said:
            said = f"{said}: it is too old; version 0.10, or 0.8 with --bind-fd as Debian has it, is needed"
        elif any(word in said for word in _NO_NAMESPACES):
            said = f"{said}: user namespaces are switched off for this user (see docs/running-scripts.md)"
        return SandboxUnavailable(f"bubblewrap could not make the sandbox: {said}")

    def _pipe(self) -> tuple[int, int]:
        read, write = os.pipe()
        return self._opened(read), self._opened(write)

    def _pipe_with(self, data: bytes) -> int:
        read, write = self._pipe()
        os.write(write, data)
        self._close(write)
        return read

    def _opened(self, descriptor: int) -> int:
        self._descriptors.add(descriptor)
        return descriptor

    def _close(self, descriptor: int) -> None:
        if descriptor in self._descriptors:
            self._descriptors.discard(descriptor)
            os.close(descriptor)

    def _close_all(self) -> None:
        for descriptor in list(self._descriptors):
            self._close(descriptor)


def _write_stage(stage: Path, files: Sequence[VerifiedFile]) -> None:
    for folder in ("skill", "etc"):
        (stage / folder).mkdir(mode=0o755)
    for name, text in ETC_FILES.items():
        (stage / "etc" / name).write_text(text, encoding="utf-8")
    for file in files:
        # Once more: these are the bytes that are written.
        if (actual := digest_of(file.data)) != file.digest:
            raise DigestMismatch(uri=file.uri, expected=file.digest, actual=actual)
        path = stage / "skill" / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as stream:
            stream.write(file.data)
        path.chmod(0o555 if file.data.startswith((b"#!", b"\x7fELF")) else 0o444)


def _open_path(path: str) -> int:
    """A granted path, opened part by part, so that a link that appeared since it was granted is noticed."""
    descriptor = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        for part in path.strip("/").split("/"):
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
            mode = os.fstat(descriptor).st_mode
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise SourceError(f"{safe_line(path)} was granted and leads elsewhere now: grant it again")
    except OSError as error:
        os.close(descriptor)
        raise SourceError(f"{safe_line(path)} was granted and cannot be opened: {error.strerror}") from None
    except SkillwireError:
        os.close(descriptor)
        raise
    return descriptor


def _processes(pid: int, most: int) -> tuple[int, int]:
    """How many processes are in the namespace of this one, and their own memory in bytes; stops at `most`."""
    page = resource.getpagesize()
    count = memory = 0
    waiting = [str(pid)]
    while waiting and count < most:
        process = waiting.pop()
        with suppress(OSError, ValueError, IndexError):
            for task in os.listdir(f"/proc/{process}/task"):
                waiting += _read_text(f"/proc/{process}/task/{task}/children").split()
            _, resident, shared, *_ = _read_text(f"/proc/{process}/statm").split()
            memory += (int(resident) - int(shared)) * page
            count += 1
    return count, memory


def _read_text(path: str) -> str:
    with open(path, encoding="ascii") as stream:
        return stream.read()


def _usage(path: str, most: int = _WALK_ENTRIES) -> tuple[int, int]:
    """The number of files at a path and the bytes that they take; stops after `most` files."""
    files = size = 0
    waiting = [path]
    while waiting and files <= most:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    files, size = files + 1, size + found.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                if files > most:
                    break
    if most == _WALK_ENTRIES and files > most:
        raise LimitExceeded(f"{safe_line(path)} has more than {most:,} files: grant a smaller folder")
    return files, size


def _end_child(inside: int) -> None:
    """Kill the first process of the namespace, with which all others end, and wait until it is gone."""
    with suppress(OSError):
        signal.pidfd_send_signal(inside, signal.SIGKILL)
    with selectors.DefaultSelector() as selector:
        selector.register(inside, selectors.EVENT_READ)
        selector.select(_END_SECONDS)


def _end_process(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
