"""Where there is no sandbox, a script is refused with a sentence that says what is missing."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_world import ROOT
from skillwire.errors import SandboxUnavailable, SourceError
from skillwire.limits import Limits
from skillwire.sandbox import SandboxPlan, bubblewrap, parse_grant, run, try_sandbox
from skillwire.sandbox.bubblewrap import find_program, resolve_grant, system_folders
from skillwire.sandbox.cgroup import groups_for

pytestmark = pytest.mark.process

PLAN = SandboxPlan(script="", interpreter=("/bin/sh", "-c", "echo ran"), limits=Limits())


def test_another_system_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap.sys, "platform", "darwin")
    with pytest.raises(SandboxUnavailable, match="on Linux alone"):
        run(PLAN)


def test_another_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(SandboxUnavailable, match="x86_64 and aarch64, not of riscv64"):
        run(PLAN)


def test_a_machine_without_bubblewrap_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="install the package bubblewrap"):
        run(PLAN)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("bwrap: Unknown option --bind-fd", "it is too old; version 0.10"),
        ("bwrap: No permissions to create new namespace", "user namespaces are switched off for this user"),
        ("", "it ended with 1"),
    ],
)
def test_a_bubblewrap_that_cannot_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, sentence: str
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxUnavailable, match=sentence):
        run(PLAN)


def test_a_bubblewrap_that_never_answers_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\nkill -STOP $$\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(bubblewrap, "_START_SECONDS", 0.2)
    with pytest.raises(SandboxUnavailable, match="it ended with None"):
        run(PLAN)


def test_a_kernel_without_user_namespaces_is_refused(bwrap: Path) -> None:
    """A real one: inside a sandbox there are none."""
    code = (
        "from skillwire.limits import Limits\nfrom skillwire.sandbox import SandboxPlan, run\n"
        "run(SandboxPlan(script='', interpreter=('/bin/sh', '-c', 'echo ran'), limits=Limits()))"
    )
    done = subprocess.run(
        [
            *(
                str(bwrap),
                "--unshare-user",
                "--disable-userns",
                "--bind",
                "/",
                "/",
                "--dev",
                "/dev",
                "--proc",
                "/proc",
            ),
            *(
                "--setenv",
                "PATH",
                f"{bwrap.parent}:/usr/bin:/bin",
                "--setenv",
                "PYTHONPATH",
                str(ROOT / "src"),
            ),
            *(sys.executable, "-c", code),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "SandboxUnavailable: bubblewrap could not make the sandbox" in done.stderr, done
    assert "user namespaces are switched off" in done.stderr
    assert "ran" not in done.stdout


def test_the_sandbox_can_be_tried(monkeypatch: pytest.MonkeyPatch, bwrap: Path) -> None:
    monkeypatch.setenv("PATH", f"{bwrap.parent}:/usr/bin:/bin")
    assert try_sandbox(Limits()) in ("a cgroup", "a monitor of its processes")


def test_python_is_found_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch, bwrap: Path) -> None:
    monkeypatch.setattr(bubblewrap, "PATH", ("/nowhere",))
    program, trees = find_program("python3")
    assert trees == (sys.base_prefix,)
    assert find_program("perl") == ("", ())
    monkeypatch.setenv("PATH", f"{bwrap.parent}:/usr/bin:/bin")
    plan = SandboxPlan(
        script="",
        interpreter=(program, "-c", "import ssl, sys; print(sys.version_info[0])"),
        trees=trees,
        system=system_folders(),
        limits=Limits(),
    )
    assert run(plan).stdout == "3\n"


def test_a_grant_must_lead_somewhere(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    state = tmp_path / "state"
    state.mkdir()

    def resolved(text: str) -> str:
        return str(resolve_grant(parse_grant(text, str(tmp_path)), home=str(tmp_path), private=[str(state)]))

    assert resolved("read:link") == f"read:{tmp_path.resolve()}/real"
    assert resolved("net:example.org") == "net:example.org"
    assert resolved("exec:sh").startswith("exec:/")
    for text, problem in (
        ("read:.", "a home"),
        ("read:missing", "no such file"),
        ("write:state", "its own state"),
        ("exec:no-such-program", "no such program"),
        ("read:/proc/self", "the system"),
        ("read:/dev/null", "the system"),
    ):
        with pytest.raises(SourceError, match=problem):
            resolved(text)


def test_a_cgroup_is_made_where_both_can_be_limited() -> None:
    limits = Limits(script_memory_bytes=1000, script_processes=5)
    first = "8:pids:/\n4:memory:/own\n0::/\n"
    assert [(one.folder, dict(one.files)) for one in groups_for(first, limits, [], "run")] == [
        ("/sys/fs/cgroup/memory/own/run", {"memory.limit_in_bytes": 1000}),
        ("/sys/fs/cgroup/pids/run", {"pids.max": 6}),
    ]
    second = "0::/user.slice/app.slice/term.scope\n"
    [group] = groups_for(second, limits, ["cpu", "memory", "pids"], "run")
    assert group.folder == "/sys/fs/cgroup/user.slice/app.slice/run"
    assert group.files == {"memory.max": 1000, "memory.swap.max": 0, "memory.oom.group": 1, "pids.max": 6}
    assert (
        groups_for(second, limits, ["memory"], "run")
        == groups_for("0::/\n", limits, ["memory", "pids"], "r")
        == []
    )
