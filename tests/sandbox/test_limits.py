"""Every limit ends a run with one line, and nothing is left behind: with a cgroup as root, with a monitor as
an unprivileged user."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandbox_world import Worker, World, processes
from waiting import until

pytestmark = pytest.mark.process

MIB = 1024 * 1024


def left_behind(worker: Worker, *others: int) -> list[str]:
    """What a run leaves if it is not cleaned up."""
    found = [str(path) for path in worker.temporary.glob("skillwire-run-*")]
    pids = {str(worker.process.pid), *map(str, others)}
    for folder in Path("/sys/fs/cgroup").glob("**/skillwire-*"):
        if folder.name.split("-")[1] in pids:
            found.append(str(folder))
    mounts = Path(f"/proc/{worker.process.pid}/mountinfo").read_text()
    return found + [line for line in mounts.splitlines() if "skillwire-run-" in line]


def mark(word: str) -> str:
    """A text for `processes` that no other run of these tests has at the same time."""
    return f"{word}-mark-{os.getpid()}-"


def wait_until(holds: Callable[[], object]) -> None:
    anyio.run(until, holds)


@pytest.mark.parametrize(
    ("code", "limits", "line"),
    [
        pytest.param(
            "import signal\nsignal.pause()",
            {"script_seconds": 0.5},
            "it took longer than 0.5 seconds",
            id="time",
        ),
        pytest.param(
            "import signal, time\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n"
            "  except (OSError, ValueError): pass\nwhile True: pass",
            {"script_seconds": 0.5},
            "it took longer than 0.5 seconds",
            id="time, with every signal ignored",
        ),
        pytest.param(
            "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
            {"script_seconds": 0.5},
            "it took longer than 0.5 seconds",
            id="time, stopped",
        ),
        pytest.param(
            "import os, signal\nfor _ in range(8):\n  if os.fork() == 0: break\n"
            "data = bytearray(24 << 20)\nfor at in range(0, len(data), 4096): data[at] = 1\nsignal.pause()",
            {"script_memory_bytes": 96 * MIB, "script_seconds": 60},
            "it needed more than 100,663,296 bytes of memory",
            id="memory of several processes",
        ),
        pytest.param(
            "while True: print('x' * 1000000)",
            {"script_output_bytes": 3 * MIB, "script_seconds": 60},
            "it printed more than 3,145,728 bytes",
            id="output",
        ),
        pytest.param(
            "import signal\nfor n in range(3000): open(f'/tmp/{n}', 'w').close()\nsignal.pause()",
            {"script_files": 1000, "script_seconds": 60},
            "it created more than 1,000 files",
            id="files in scratch",
        ),
    ],
)
def test_a_limit_ends_a_run(worker: Worker, code: str, limits: dict[str, Any], line: str) -> None:
    outcome = worker.run(code, limits=limits)
    assert (outcome.get("ended"), outcome.get("exit_code")) == (line, 137), outcome
    assert outcome["output_bytes"] <= limits.get("script_output_bytes", 0) + 2 * 65536
    assert left_behind(worker) == []


def test_a_fork_bomb_ends_and_leaves_no_process(worker: Worker) -> None:
    code = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    outcome = worker.run(code, arguments=[mark("bomb")], limits={"script_processes": 24, "script_seconds": 1})
    assert outcome["ended"] in ("it had more than 24 processes", "it took longer than 1 seconds"), outcome
    wait_until(lambda: not [one for one in processes(mark("bomb")) if int(one) != worker.process.pid])
    assert left_behind(worker) == []


def test_one_process_gets_no_more_memory_than_all(worker: Worker) -> None:
    code = "try: bytearray(200 << 20)\nexcept MemoryError: print('refused')"
    assert worker.run(code, limits={"script_memory_bytes": 96 * MIB})["stdout"] == "refused\n"


def test_scratch_has_a_size(worker: Worker) -> None:
    code = (
        "import errno\nfor folder in ('/tmp', '/dev/shm'):\n"
        "  try:\n    for n in range(40): open(f'{folder}/{n}', 'wb').write(bytes(1 << 20))\n"
        "  except OSError as error: print(folder, errno.errorcode[error.errno], n)"
    )
    outcome = worker.run(code, limits={"script_disk_bytes": 8 * MIB})
    assert outcome["stdout"] == "/tmp ENOSPC 8\n/dev/shm ENOSPC 8\n", outcome


def test_a_granted_folder_takes_no_more_than_the_limit(worker: Worker) -> None:
    out = worker.folder("out")
    code = (
        f"import signal\nfor n in range(64): open('{out}/%d' % n, 'wb').write(bytes(1 << 20))\nsignal.pause()"
    )
    outcome = worker.run(
        code, grants=[f"write:{out}"], limits={"script_disk_bytes": 8 * MIB, "script_seconds": 60}
    )
    assert outcome["ended"] == "it wrote more than 8,388,608 bytes", outcome
    many = f"import signal\nfor n in range(500): open('{out}/f%d' % n, 'w')\nsignal.pause()"
    outcome = worker.run(many, grants=[f"write:{out}"], limits={"script_files": 100, "script_seconds": 60})
    assert outcome["ended"] == "it created more than 100 files", outcome


def test_what_was_there_before_does_not_count(worker: Worker) -> None:
    out = worker.folder("out")
    for number in range(200):
        (out / f"{number}.bin").write_bytes(bytes(64 * 1024))
    outcome = worker.run(
        "print(1)", grants=[f"write:{out}"], limits={"script_files": 100, "script_disk_bytes": MIB}
    )
    assert (outcome.get("ended"), outcome.get("stdout")) == ("", "1\n"), outcome


def test_two_gigabytes_of_output_take_little_memory(worker: Worker) -> None:
    code = "import os\nblock = bytes(1 << 20)\nfor _ in range(2048): os.write(1, block)"
    outcome = worker.run(code, limits={"script_output_bytes": MIB, "script_seconds": 60})
    assert outcome["ended"] == "it printed more than 1,048,576 bytes", outcome
    peak = [
        line
        for line in Path(f"/proc/{worker.process.pid}/status").read_text().splitlines()
        if "VmHWM" in line
    ]
    assert int(peak[0].split()[1]) < 300 * 1024


def test_a_process_that_outlives_its_script_ends_with_it(worker: Worker) -> None:
    code = """
import os, signal
started, starting = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(starting, b"x")
        while True: signal.pause()
    os._exit(0)
os.read(started, 1)
print("over")
"""
    outcome = worker.run(code, arguments=[mark("orphan")], limits={"script_seconds": 300})
    # It held the pipes open, too.
    assert (outcome["exit_code"], outcome["ended"], outcome["stdout"]) == (0, "", "over\n")
    assert not [one for one in processes(mark("orphan")) if int(one) != worker.process.pid]


def test_signals_reach_nobody_outside(worker: Worker) -> None:
    code = "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    code += "try: os.kill(-1, 15)\nexcept ProcessLookupError: print('nobody else')\n"
    code += "for pid in (0, 1): os.kill(pid, 15)\nos.kill(1, 9)\nprint('alive')"
    assert worker.run(code)["stdout"] == "nobody else\nalive\n"
    assert worker.process.poll() is None


def test_the_exit_code_and_clean_output_come_out(worker: Worker) -> None:
    code = "import sys\nprint('a\\x1b[31mb\\x07c')\nprint('\\u202eerr', file=sys.stderr)\nsys.exit(3)"
    outcome = worker.run(code, arguments=["x"])
    assert (outcome["exit_code"], outcome["stdout"], outcome["stderr"]) == (3, "abc\n", "err\n")


def test_standard_streams_can_be_reopened(worker: Worker) -> None:
    outcome = worker.run(
        "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin",
        script="scripts/run.sh",
        interpreter=["/bin/sh"],
    )
    assert (outcome["stdout"], outcome["stderr"]) == ("out\n", "err\n"), outcome


def test_grants_give_what_they_name_and_nothing_beside(worker: Worker) -> None:
    folder = worker.folder("work")
    for name in ("docs", "out", "other"):
        (folder / name).mkdir()
        os.chown(folder / name, worker.uid, worker.uid)
    (folder / "docs/a.txt").write_text("a text")
    code = "import os\nprint(open('docs/a.txt').read(), os.environ['API_KEY'], sorted(os.listdir('.')))\n"
    code += "open('out/b.txt', 'w').write('made')\nprint(os.getcwd())"
    grants = ["read:docs", "write:out", "env:API_KEY"]
    outcome = worker.run(code, grants=[*grants, "read:."], folder=str(folder), variables={"API_KEY": "k1"})
    assert outcome.get("stdout") == f"a text k1 ['docs', 'other', 'out']\n{folder}\n", outcome
    assert (folder / "out/b.txt").read_text() == "made"
    outcome = worker.run(
        "import os\nprint(sorted(os.listdir()), os.getcwd())", grants=grants, folder=str(folder)
    )
    assert outcome["stdout"] == f"['docs', 'out'] {folder}\n", outcome
    outcome = worker.run("import os\nprint(os.getcwd())", folder=str(folder))
    assert outcome["stdout"] == "/tmp\n", outcome


def test_a_link_that_appears_after_the_grant_is_not_followed(worker: Worker) -> None:
    folder = worker.folder("raced")
    (folder / "secret").mkdir()
    (folder / "out").symlink_to(folder / "secret")
    outcome = worker.run("pass", grants=[f"write:{folder}/out"])
    assert "leads elsewhere now" in outcome["error"], outcome
    outcome = worker.run("pass", grants=[f"read:{folder}/out/below"])
    assert "leads elsewhere now" in outcome["error"] or "cannot be opened" in outcome["error"], outcome


def test_a_granted_host_is_reached_through_the_proxy_alone(worker: Worker, world: World) -> None:
    port = world.facts["granted_port"]
    code = f"""
import socket, urllib.request
print(urllib.request.urlopen("http://localhost:{port}/").read().decode().strip())
request = urllib.request.Request("http://localhost:{port}/echo", data=b"x" * 200_000)
print(len(urllib.request.urlopen(request).read()))
try: socket.create_connection(("localhost", {port}), 2)
except OSError as error: print("direct:", error)
"""
    outcome = worker.run(code, grants=[f"net:localhost:{port}"])
    assert outcome.get("stdout", "").startswith(f"localhost:{port}\n200000\ndirect: "), outcome
    assert outcome["network_bytes"] >= 300_000
    code = "import urllib.request\ntry: urllib.request.urlopen('http://other.example.org/')\n"
    code += "except OSError as error: print(error)"
    outcome = worker.run(code, grants=[f"net:localhost:{port}"])
    assert (outcome["stdout"], outcome["refused_hosts"]) == (
        "HTTP Error 403: Forbidden\n",
        ["other.example.org"],
    )


def test_killing_skillwire_ends_what_runs_inside(sandbox_folder: Path, bwrap: Path, worker: Worker) -> None:
    other = Worker(worker.user, worker.temporary, "", bwrap)
    other.start(
        script="scripts/run.py",
        files={"scripts/run.py": "import signal\nsignal.pause()"},
        arguments=[mark("killed")],
    )
    wait_until(lambda: len(processes(mark("killed"))) >= 3)
    other.process.send_signal(signal.SIGKILL)
    other.process.wait()
    wait_until(lambda: not processes(mark("killed")))
    for stream in (other.process.stdin, other.process.stdout):
        assert stream is not None
        stream.close()
    # What it could not remove itself, the next run does.
    assert worker.run("print(1)")["stdout"] == "1\n"
    assert left_behind(worker, other.process.pid) == []


@pytest.mark.slow
def test_a_hundred_runs_at_once_leave_nothing(worker: Worker) -> None:
    assert worker.run("pass").get("exit_code") == 0
    descriptors = len(list(Path(f"/proc/{worker.process.pid}/fd").iterdir()))
    for number in range(100):
        worker.start(
            script="scripts/run.sh",
            interpreter=["/bin/sh"],
            files={"scripts/run.sh": f"echo {number}"},
            arguments=[mark("hundred")],
            limits={"script_seconds": 300},
        )
    answers = worker.answers(100)
    assert {one.get("stdout") for one in answers} == {f"{number}\n" for number in range(100)}, answers
    assert not processes(mark("hundred"))
    assert left_behind(worker) == []
    wait_until(lambda: len(list(Path(f"/proc/{worker.process.pid}/fd").iterdir())) <= descriptors)
