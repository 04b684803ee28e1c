"""Run the agent clients of the tests, and write what was seen into the table of docs/clients.md.

    python -m tools.agents             the pinned versions; writes the table
    python -m tools.agents --newest    the newest versions, installed into a temporary folder; writes nothing

Every client runs in a network of its own that has nothing but loopback.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/clients.md"
PINS = ROOT / "tests/environments/agents/package.json"
BEGIN, END = "<!-- agents: written by tools/agents.py -->", "<!-- end of agents -->"
TITLES = {"claude-code": "Claude Code", "codex": "Codex", "gemini-cli": "gemini-cli", "opencode": "opencode"}

sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--newest", action="store_true", help="try the newest versions")
    parser.add_argument("clients", nargs="*", help="only these")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.newest:
            os.environ["AGENT_PACKAGES"] = str(_install_newest(Path(folder)))
        reports = [_play(name, Path(folder)) for name in given.clients or TITLES]
    table = _table(reports)
    print(table)
    if not given.newest and not given.clients:
        page = PAGE.read_text()
        PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", f"{BEGIN}\n\n{table}\n{END}", page, flags=re.DOTALL))
    if any(not all(report["facts"].values()) or not report["first"][0] for report in reports):
        raise SystemExit(1)


def _install_newest(folder: Path) -> Path:
    """Install the newest versions of the pinned packages, without running their scripts."""
    path = os.pathsep.join([str(ROOT / ".venv/bin"), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path}
    names: list[str] = []
    for package, pinned in json.loads(PINS.read_text())["dependencies"].items():
        view = ["npm", "view", package, "version", "--loglevel=error"]
        shown = subprocess.run(view, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        # Codex has its platforms in the version, the others in the name.
        platform = pinned.partition("-")[2]
        names.append(f"{package}@{shown.stdout.strip()}" + (f"-{platform}" if platform else ""))
    command = ["npm", "install", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error", *names]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return folder / "node_modules"


def _play(name: str, folder: Path) -> dict[str, Any]:
    """What one client did, with the answers to what the tests ask."""
    from agent_clients.judging import (  # pyright: ignore[reportMissingImports]
        context_chars,
        first_requests,
        folder_facts,
        gateway_facts,
    )

    home = folder / f"home-{name}"
    scenario = str(ROOT / "tests/agent_clients/scenario.py")
    command = ["unshare", "-rn", sys.executable, scenario, name, str(home)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    shutil.rmtree(home, ignore_errors=True)
    if done.returncode != 0:
        raise SystemExit(f"{name} did not get through the scenario")
    report = json.loads(done.stdout)
    runs = report["runs"]
    facts = folder_facts(runs) | gateway_facts(runs)
    return report | {"facts": facts, "first": first_requests(runs), "context": context_chars(runs)}


def _table(reports: list[dict[str, Any]]) -> str:
    names = [f"{TITLES[report['client']]} {report['version'].partition('-')[0]}" for report in reports]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for fact in reports[0]["facts"]:
        cells = ["yes" if report["facts"][fact] else "**no**" for report in reports]
        lines.append(f"| {fact} | {' | '.join(cells)} |")
    cells = [f"{shown} of {runs} runs" for shown, runs in (report["first"] for report in reports)]
    lines.append(f"| the first request to the model had the gateway's tools or names | {' | '.join(cells)} |")
    for count in reports[0]["context"]:
        cells = [f"{report['context'].get(count, 0):,}" for report in reports]
        lines.append(f"| characters that the gateway adds for {count} skills | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
