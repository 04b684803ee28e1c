"""Scripts that try to leave the sandbox, as root and as an unprivileged user: none succeeds."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sandbox_attempts import ATTEMPTS, DRIVER, PRELUDE, Attempt
from sandbox_world import Worker, World

pytestmark = pytest.mark.process

_BARE = [attempt for attempt in ATTEMPTS if attempt.bare]


@pytest.fixture(scope="module")
def results(worker: Worker, world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every attempt said, all made in one sandbox; once for all processes that run tests."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    with (shared / f"escapes-{worker.user}.json").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (text := file.read()):
            text = json.dumps(_attempted(worker, world))
            file.write(text)
    return json.loads(text)


def _attempted(worker: Worker, world: World) -> dict[str, Any]:
    files = {f"scripts/{one.name}.py": PRELUDE + one.code for one in ATTEMPTS}
    names = ",".join(one.name for one in ATTEMPTS)
    facts = f"{world.folder}/docs/world.json"
    outcome = worker.run(
        DRIVER,
        script="scripts/driver.py",
        files=files,
        arguments=[facts, "/skill/scripts", names],
        grants=world.grants,
        limits={"script_seconds": 300},
    )
    assert outcome.get("exit_code") == 0, outcome
    # Nothing that was tried left a trace outside.
    assert (world.folder / "docs/text.txt").read_text() == "text"
    assert not (Path("/dev/shm") / world.facts["mark"]).exists()
    assert not any(path.stat().st_mode & 0o6000 for path in (world.folder / "out").iterdir())
    assert not list(worker.temporary.glob("skillwire-run-*"))
    return json.loads(outcome["stdout"])


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda one: one.name)
def test_an_attempt_fails(results: dict[str, Any], attempt: Attempt, secret: str) -> None:
    code, said = results[attempt.name]
    assert "ESCAPED" not in said
    assert secret not in said
    # It was made, and refused: a mistake in the script is not a refusal, nor is a script that never ends.
    mistakes = ("NameError", "SyntaxError", "TypeError", "KeyError", "AttributeError", "IndexError")
    assert not any(word in said for word in mistakes), said
    assert code != -signal.SIGALRM


def test_the_attempts_succeed_without_a_sandbox(worker: Worker, world: World, secret: str) -> None:
    """The control: what is refused above is refused by the sandbox."""
    folder = worker.folder("bare")
    for one in _BARE:
        (folder / f"{one.name}.py").write_text(PRELUDE + one.code)
    (folder / "driver.py").write_text(DRIVER)
    done = subprocess.run(
        [
            *(
                "/usr/bin/python3",
                "-B",
                str(folder / "driver.py"),
                f"{world.folder}/docs/world.json",
                str(folder),
            ),
            ",".join(one.name for one in _BARE),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={"SECRET_TOKEN": secret, "PATH": os.environ["PATH"]},
        timeout=120,
        cwd="/",
        **(
            {"user": worker.uid, "group": worker.uid, "extra_groups": []} if os.getuid() != worker.uid else {}
        ),
    )
    found = json.loads(done.stdout)
    assert {name: result for name, result in found.items() if "ESCAPED" not in result[1]} == {}
