"""Fixtures that every test may use, and the rule that a test which starts a process says so."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from command_line import Run, runner
from folder_server import FolderServer, folder_server
from properties import QUICK_EXAMPLES
from skillwire.clients import clients

# No deadlines: how long an example takes depends on what else the machine does. `tests/fuzz` runs for longer.
_ALWAYS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("skillwire", parent=_ALWAYS)
settings.register_profile("quick", parent=_ALWAYS, max_examples=QUICK_EXAMPLES)
settings.load_profile("quick" if os.environ.get("QUICK") else "skillwire")

_STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system"}
_running: list[pytest.Item] = []


def _on_audit_event(event: str, arguments: tuple[object, ...]) -> None:
    if event in _STARTS and _running and os.getpid() == _PID:
        item = _running[-1]
        if not any(item.get_closest_marker(mark) for mark in ("process", "peer", "soak")):
            raise RuntimeError(f"{item.nodeid} starts a process: mark it with @pytest.mark.process")


_PID = os.getpid()
if os.environ.get("QUICK"):  # set by `make quick`
    sys.addaudithook(_on_audit_event)


def pytest_configure(config: pytest.Config) -> None:
    """Leave the modules of Skillwire as they are. It has a plugin, so pytest would parse them all to rewrite
    assertions; some are imported in threads, and CPython 3.11 fails where two of them parse at once."""
    hook: Any = config.pluginmanager.rewrite_hook
    hook._must_rewrite.discard("skillwire")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests and all that they import stay until the end: no use in looking through them for
    garbage, again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.pop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if mark := item.get_closest_marker("quarantine"):
            item.user_properties.append(("quarantine", mark.args[0]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests in quarantine, each with its reason, so that none is forgotten there."""
    quarantined = {
        f"  {report.nodeid}: {value}"
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "quarantine"
    }
    terminalreporter.write_line(f"Quarantined tests: {len(quarantined)}")
    for line in sorted(quarantined):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Servers that tests start keep their caches here, and not in the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def run_by_nobody() -> Generator[None]:
    """Whoever runs the tests, the commands in them are those of a script: no agent, and no terminal to ask
    on, unless a test says otherwise."""
    with suppress(ImportError, OSError):
        import fcntl
        import termios

        device = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(device, termios.TIOCNOTTY)
        os.close(device)
    signs = [
        part.partition("=")[0]
        for client in clients().values()
        for sign in client.inside
        for part in sign.split()
    ]
    with pytest.MonkeyPatch.context() as patch:
        for name in (*signs, "AI_AGENT", "AGENT"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `skillwire` in this process."""
    return runner(monkeypatch, capsys)


@pytest.fixture(scope="session")
def folders() -> Generator[FolderServer]:
    """Skills of any folder over HTTP."""
    with folder_server() as server:
        yield server


@pytest.fixture(autouse=True)
def logging_of_its_own() -> Generator[None]:
    """A command sets up logging to standard error; a later test must not inherit that."""
    root = logging.getLogger()
    level, handlers = root.level, set(root.handlers)
    yield
    # Each call of setLevel empties the caches of all loggers, so only where something is to be undone.
    if root.level != level:
        root.setLevel(level)
    logging.getLogger("skillwire.access").disabled = False
    for name in ("skillwire.host", "skillwire.access", "skillwire.changes"):
        if (logger := logging.getLogger(name)).level != logging.NOTSET:
            logger.setLevel(logging.NOTSET)
    for handler in root.handlers[:]:
        # pytest adds and removes its own handlers around each phase of a test.
        if handler not in handlers and not type(handler).__module__.startswith("_pytest"):
            root.removeHandler(handler)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def small_disk() -> Generator[Path]:
    """A real file system of four megabytes."""
    # Not below pytest's folder: that is private to its user, and a database may run as another one.
    place = Path(tempfile.mkdtemp(prefix="skillwire-disk-")).resolve()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0777", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode:
        place.rmdir()
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)
    place.rmdir()
