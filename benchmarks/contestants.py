"""Contestants: the servers that are compared, and how each is started."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
# The npm peers are pinned, installed and started by what the interop tests use.
sys.path.append(str(_HERE.parent / "tests"))

from interop.peers import NodeMissing, Peers, find_node, install  # noqa: E402 # pyright: ignore[reportMissingImports]

SKILLWIRE: Final = "skillwire"
PLAIN: Final = "plain"
PLAIN_DEFAULTS: Final = "plain-defaults"
FASTMCP: Final = "fastmcp"
TYPESCRIPT: Final = "typescript"
EVERYBODY: Final = (SKILLWIRE, PLAIN, PLAIN_DEFAULTS, FASTMCP, TYPESCRIPT)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A server of skills. `stdio` and `http` give its command for a folder."""

    name: str
    stdio: Callable[[Path], list[str]]
    http: Callable[[Path], list[str]]
    sees_edits: bool = False
    """Whether it is meant to notice that a file was changed while it runs."""
    keeps_index: bool = False
    """Whether it keeps a cache from one start to the next."""
    only_http_load: bool = False
    """Whether it differs from another one only in how it answers over HTTP."""


def find_contestants(names: tuple[str, ...] = EVERYBODY) -> tuple[list[Contestant], list[str]]:
    """Those of the named contestants that can run here, and a note on each that cannot."""
    ours = (_skillwire(), _plain(), _plain_defaults(), _fastmcp())
    found = [each for each in ours if each.name in names]
    notes: list[str] = []
    if TYPESCRIPT in names:
        try:
            found.append(_typescript(install(find_node())))
        except NodeMissing as missing:
            notes.append(f"{TYPESCRIPT} did not take part: {missing}")
    return found, notes


def script(name: str, *arguments: object, isolated: bool = False) -> list[str]:
    """The command that runs a program of the benchmark; `isolated` one starts quickly, with no packages."""
    options = ["-I", "-S"] if isolated else []
    return [sys.executable, *options, str(_HERE / f"{name}.py"), *map(str, arguments)]


def _skillwire() -> Contestant:
    program = str(Path(sys.executable).parent / "skillwire")
    return Contestant(
        SKILLWIRE,
        lambda folder: [program, "serve", str(folder)],
        lambda folder: [program, "serve", str(folder), "--http", "127.0.0.1:0"],
        sees_edits=True,
        keeps_index=True,
    )


def _plain() -> Contestant:
    return Contestant(
        PLAIN,
        lambda folder: script("plain_server", folder),
        lambda folder: script("plain_server", folder, "--http", 0),
    )


def _plain_defaults() -> Contestant:
    return Contestant(
        PLAIN_DEFAULTS,
        lambda folder: script("plain_server", folder),
        lambda folder: script("plain_server", folder, "--http", 0, "--defaults"),
        only_http_load=True,
    )


def _fastmcp() -> Contestant:
    return Contestant(
        FASTMCP,
        lambda folder: script("fastmcp_server", folder),
        lambda folder: script("fastmcp_server", folder, "--http", 0),
        sees_edits=True,
    )


def _typescript(peers: Peers) -> Contestant:
    return Contestant(
        TYPESCRIPT,
        lambda folder: [*peers.skills_server, str(folder)],
        lambda folder: [*peers.skills_server, str(folder), "--http"],
    )
