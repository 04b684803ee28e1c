"""The peers are installed from their pins alone, completely or not at all."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from interop.peers import PINS, Node, install


def test_the_lock_file_pins_by_digest_and_names_no_registry() -> None:
    packages = json.loads((PINS / "package-lock.json").read_text())["packages"]
    installed = {name: package for name, package in packages.items() if name}
    assert installed
    assert [name for name, package in installed.items() if "integrity" not in package] == []
    assert [name for name, package in installed.items() if "resolved" in package] == []


def fake_npm(folder: Path, *, then: str) -> Node:
    script = folder / "npm.py"
    script.write_text(f"import pathlib, sys\npathlib.Path('node_modules').mkdir()\n{then}\n")
    return Node(sys.executable, (sys.executable, str(script)))


@pytest.mark.process
def test_a_failed_installation_says_why_and_leaves_nothing_to_mistake_for_a_whole_one(tmp_path: Path) -> None:
    into = tmp_path / ".node"
    broken = fake_npm(tmp_path, then="sys.exit('no such package')")
    with pytest.raises(RuntimeError, match="no such package"):
        install(broken, into=into)
    peers = install(fake_npm(tmp_path, then=""), into=into)
    assert (peers.root / "server.mjs").is_file()
    assert [path for path in into.iterdir() if path.is_dir()] == [peers.root]


@pytest.mark.process
def test_an_installation_is_used_again_until_a_pin_changes(tmp_path: Path) -> None:
    into, pins = tmp_path / ".node", tmp_path / "pins"
    pins.mkdir()
    (pins / "package.json").write_text("{}")
    first = install(fake_npm(tmp_path, then=""), pins=pins, into=into)
    assert install(fake_npm(tmp_path, then="sys.exit(1)"), pins=pins, into=into) == first
    (pins / "package.json").write_text('{"private": true}')
    assert install(fake_npm(tmp_path, then=""), pins=pins, into=into) != first
