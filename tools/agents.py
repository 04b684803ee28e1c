"""Run the agent clients of the tests, record what was seen, and make the table of docs/clients.md from it.

    python -m tools.agents                 the pinned versions; writes the record and the table
    python -m tools.agents codex           one of them; the others stay as they were seen before
    python -m tools.agents --newest        the newest versions, in a temporary folder; writes nothing
    python -m tools.agents --table         runs nothing, and makes the table from the record

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
RECORD = ROOT / "tests/agent_clients/seen.json"
"""What the runs of the pinned versions saw."""
BEGIN, END = "<!-- agents: written by tools/agents.py -->", "<!-- end of agents -->"
COUNTS = ("10", "50", "300")
TITLES = {"claude-code": "Claude Code", "codex": "Codex", "gemini-cli": "gemini-cli", "opencode": "opencode"}

sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--newest", action="store_true", help="try the newest versions")
    parser.add_argument("clients", nargs="*", help="only these")
    parser.add_argument("--table", action="store_true", help="run nothing; write the table from the record")
    given = parser.parse_args()
    if given.table:
        PAGE.write_text(with_table(PAGE.read_text()))
        return
    with tempfile.TemporaryDirectory() as folder:
        if given.newest:
            os.environ["AGENT_PACKAGES"] = str(_install_newest(Path(folder)))
        reports = [_play(name, Path(folder)) for name in given.clients or TITLES]
    print(_table(reports))
    complete = [report for report in reports if all(report["facts"].values())]
    if not given.newest:
        known = {report["client"]: report for report in (*recorded(), *complete)}
        record = [known[name] for name in TITLES if name in known]
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
        PAGE.write_text(with_table(PAGE.read_text()))
    if len(complete) < len(reports):
        raise SystemExit(1)


def recorded() -> list[dict[str, Any]]:
    """What the last run of each client saw."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else []


def with_table(page: str) -> str:
    """The page with the table that the record gives, and the clients that the record does not have."""
    reports = recorded()
    missing = [title for name, title in TITLES.items() if name not in {one["client"] for one in reports}]
    told = f"\nNo complete run is recorded of {' and '.join(missing)}.\n" if missing else ""
    return re.sub(f"{BEGIN}.*?{END}", f"{BEGIN}\n\n{_table(reports)}{told}\n{END}", page, flags=re.DOTALL)


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
        waits_when_told,
    )

    before = os.getloadavg()[0]
    home = folder / f"home-{name}"
    scenario = str(ROOT / "tests/agent_clients/scenario.py")
    command = ["unshare", "-rn", sys.executable, scenario, name, str(home)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    shutil.rmtree(home, ignore_errors=True)
    if done.returncode != 0:
        raise SystemExit(f"{name} did not get through the scenario")
    report = json.loads(done.stdout)
    runs = report["runs"]
    return {
        "client": name,
        "version": report["version"],
        "facts": folder_facts(runs) | gateway_facts(runs),
        "first": list(first_requests(runs)),
        "waits": waits_when_told(runs),
        "load": round(max(before, os.getloadavg()[0]) / (os.cpu_count() or 1), 1),
        "context": {str(count): chars for count, chars in context_chars(runs).items()},
    }


def _table(reports: list[dict[str, Any]]) -> str:
    names = [f"{TITLES[report['client']]} {report['version'].partition('-')[0]}" for report in reports]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for fact in reports[0]["facts"]:
        cells = ["yes" if report["facts"][fact] else "**no**" for report in reports]
        lines.append(f"| {fact} | {' | '.join(cells)} |")
    cells = ["{} of {} runs".format(*report["first"]) for report in reports]
    lines.append(f"| the first request to the model had the gateway's tools or names | {' | '.join(cells)} |")
    cells = [{True: "yes", False: "**no**", None: "always waits"}[report["waits"]] for report in reports]
    lines.append(f"| the same when it was told to wait longer | {' | '.join(cells)} |")
    cells = [f"{report['load']}" if "load" in report else "not recorded" for report in reports]
    lines.append(f"| processes that wanted a core meanwhile, for each core | {' | '.join(cells)} |")
    for count in COUNTS:
        cells = [
            f"{report['context'][count]:,}" if count in report["context"] else "not seen"
            for report in reports
        ]
        lines.append(f"| characters that the gateway adds for {count} skills | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
