"""Writes the files beside this one by running Skillwire 0.1 as its users did.

    mkdir /tmp/v01 && git archive 6ab2130 | tar -x -C /tmp/v01
    python3 -m venv /tmp/v01/.venv && /tmp/v01/.venv/bin/pip install /tmp/v01
    python tests/host/version-0.1/make.py /tmp/v01/.venv/bin/skillwire

`data` and `cache` are what version 0.1 left in the user's data and cache directories: three approvals of a
server called `docs`, one of them of a skill that changed later, the cached files of what was loaded, and
trust in a project's file. `served` is what the server has now, `skillwire.toml` the trusted file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PLACE = Path("/tmp/skillwire-0.1")
SKILL = "---\nname: {name}\ndescription: Does {name}. Use when asked to.\nallowed-tools: Read\n---\n{body}\n"
PROJECT = '[servers.tools]\ncommand = "touch"\nargs = ["started"]\n'


def plant(name: str, body: str) -> None:
    file = PLACE / "served" / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SKILL.format(name=name, body=body))


def main(skillwire: str) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    project = PLACE / "project"
    project.mkdir(parents=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(PLACE / "home"),
        "XDG_DATA_HOME": str(PLACE / "data"),
        "XDG_CACHE_HOME": str(PLACE / "cache"),
        "XDG_CONFIG_HOME": str(PLACE / "config"),
    }

    def run(*words: str, code: int = 0) -> None:
        done = subprocess.run(
            [skillwire, *words], cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != code:
            sys.exit(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")

    for name in ("refunds", "returns", "letters"):
        plant(name, f"How version one does {name}.")
    config = PLACE / "config/skillwire/skillwire.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[servers.docs]\ncommand = "{skillwire}"\nargs = ["serve", "{PLACE}/served"]\n')
    run("approve", "refunds", "--allow-tools")
    run("approve", "returns", "--allow-code")
    run("approve", "letters")
    for name in ("refunds", "letters"):
        run("load", name)
    plant("letters", "How version two does letters.")
    run("load", "letters", code=7)  # It changed: version 0.1 takes the approval back.
    (project / "skillwire.toml").write_text(PROJECT)
    run("servers", "trust", "--yes")
    for name in ("data", "cache", "served"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    shutil.copytree(PLACE / "data/skillwire", HERE / "data")
    shutil.copytree(PLACE / "cache/skillwire/files", HERE / "cache")
    shutil.copytree(PLACE / "served", HERE / "served")
    shutil.copy(project / "skillwire.toml", HERE / "skillwire.toml")
    shutil.rmtree(PLACE)


if __name__ == "__main__":
    main(sys.argv[1])
