"""What an agent client does with skills, in a network of its own that has nothing but loopback.

Run as a program below `unshare -rn`: the model service, the server of skills and the client are all started
here. It prints what the client did as one JSON document, which `test_agents.py` judges.

    unshare -rn python tests/agent_clients/scenario.py codex /tmp/home
    unshare -rn python tests/agent_clients/scenario.py codex /tmp/home context 300
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from agent_clients.programs import PROGRAMS, ROOT, AgentProgram, base_environment
from scripted_model import Move, ScriptedModel, serving, text_of, tool_names, tool_results
from terminals import Terminal

SKILLWIRE = str(ROOT / ".venv/bin/skillwire")
PORT = 8711
ABOUT = "Pays money back to customers of the shop."
FIRST, SECOND = "Count the coins first.", "Count the coins twice."
GUIDE = "The till is in the cellar."
INSTRUCTIONS = "This server publishes Agent Skills"
"""How the instructions of a gateway begin."""
WITH_GATEWAY = ("not approved", "approved", "changed", "server dead", "revoked")
PATIENT = "patient"
SKILLS = "skills: "
COUNTS = ("10", "50", "300")
Script = list[Callable[[list[str]], Move]]


def bring_up_loopback() -> None:
    """A new network has a loopback that is down. Refuse to go on where there is anything else."""
    names = {name for _, name in socket.if_nameindex()}
    if names != {"lo"}:
        raise SystemExit(f"this network has more than loopback, {sorted(names)}: run it below unshare -rn")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x8 | 0x40))  # SIOCSIFFLAGS, up


class Stage:
    """One client with its home, and the commands that its user types."""

    def __init__(self, program: AgentProgram, home: Path) -> None:
        self.program, self.home = program, home
        self.runs: dict[str, dict[str, Any]] = {}
        self.environment = base_environment(home)
        self.patience: Mapping[str, str] = {}
        """Variables with which the client waits for the gateway, from when it is told to."""

    def skillwire(self, *arguments: str) -> str:
        """Run a command of the user, who is asked nothing."""
        done = subprocess.run(
            [SKILLWIRE, *arguments],
            cwd=self.home / "work",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(
                f"skillwire {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done.stdout + done.stderr

    def approve(self, name: str) -> None:
        """Approve a skill on a terminal, as a person does."""
        terminal = Terminal("approve", name, program=SKILLWIRE, env=self.environment, cwd=self.home / "work")
        terminal.wait_for("?")
        terminal.type("y\r")
        code = terminal.end()
        if code != 0:
            raise SystemExit(f"approve: {code}\n{terminal.screen}")

    def ask(self, name: str, *script: Move) -> None:
        """Send the client a prompt, and record what its model got to see and what its tools returned."""
        moves: Script = [lambda results, move=move: move for move in (*script, "All done.")]
        model = ScriptedModel(moves, only_with_tools=True)
        with serving(model):
            self.program.set_model(self.home, model.url)
            started = time.monotonic()
            prompt = "Give Ada her money back."
            done = self.program.run(self.home, model.url, model.key, prompt, self.patience)
        first = model.requests[0] if model.requests else {}
        self.runs[name] = {
            "exit": done.returncode,
            "output": (done.stdout + done.stderr)[-2000:],
            "seconds": round(time.monotonic() - started, 2),
            "first_request_after": round(model.times[0] - started, 2) if model.times else None,
            "first": text_of(first),
            "last": text_of(model.requests[-1]) if model.requests else "",
            "tools": tool_names(first),
            "results": tool_results(model.requests[-1]) if model.requests else [],
        }


def has_gateway(run: Mapping[str, Any]) -> bool:
    """Whether the very first request of a run had the gateway's tools, or its instructions with the names."""
    return INSTRUCTIONS in run["first"] or any(name.endswith("load_skill") for name in run["tools"])


def write_skill(folder: Path, text: str) -> None:
    (folder / "refunds/references").mkdir(parents=True, exist_ok=True)
    skill = f"---\nname: refunds\ndescription: {ABOUT}\n---\n# Refunds\n\n{text}\nSee references/guide.md.\n"
    (folder / "refunds/SKILL.md").write_text(skill)
    (folder / "refunds/references/guide.md").write_text(f"{GUIDE}\n")


def folders(stage: Stage) -> None:
    """Skills installed as folders: the client's own way to load them, an update, and removal."""
    source = stage.home / "source"
    write_skill(source, FIRST)
    own = stage.program.own_load(stage.home, "refunds")
    stage.skillwire("add", str(source / "refunds"), "--user", "--yes", "--agent", stage.program.name)
    stage.ask("installed", own)
    write_skill(source, SECOND)
    stage.skillwire("update", "--user", "--yes")
    stage.ask("updated", own)
    stage.skillwire("remove", "refunds", "--user")
    stage.ask("removed")


@contextmanager
def shop(folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A server of skills over HTTP."""
    command = [SKILLWIRE, "serve", str(folder), "--http", f"127.0.0.1:{PORT}"]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 300
        while True:
            try:
                socket.create_connection(("127.0.0.1", PORT), 1).close()
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        yield server
    finally:
        server.kill()
        server.wait()


def gateway(stage: Stage) -> None:
    """The same skill through the gateway, from a refusal to the removal of the gateway."""
    load: Move = ("*load_skill", {"name": "refunds"})
    read: Move = ("*read_skill_file", {"name": "refunds", "path": "references/guide.md"})
    served = stage.home / "served"
    write_skill(served, FIRST)
    stage.skillwire("servers", "add", "--no-check", "--user", "shop", f"http://127.0.0.1:{PORT}/mcp")
    stage.skillwire("gateway", "install", stage.program.name)
    with shop(served, stage.environment):
        stage.skillwire("list")  # The user has looked at what there is.
        stage.ask("not approved", load)
        stage.approve("shop/refunds")
        stage.ask("approved", load, read)
        if stage.program.patience:
            # It waits now, however busy the machine is.
            stage.patience = stage.program.patience
            stage.ask(PATIENT, load)
            stage.patience = {}
        write_skill(served, SECOND)
        stage.ask("changed", load)
        stage.approve("shop/refunds")
    stage.ask("server dead", load)
    stage.skillwire("revoke", "shop/refunds")
    stage.ask("revoked", load)
    stage.skillwire("gateway", "uninstall", stage.program.name, "--yes")
    stage.ask("uninstalled")
    stage.skillwire("servers", "remove", "shop", "--user")


def context(stage: Stage, counts: Iterable[str]) -> None:
    """What the gateway adds to the first request of a client, for so many skills behind it."""
    stage.ask("without")
    stage.skillwire("servers", "add", "--no-check", "--user", "shop", f"http://127.0.0.1:{PORT}/mcp")
    stage.skillwire("gateway", "install", stage.program.name)
    stage.patience = stage.program.patience
    for count in counts:
        folder = stage.home / f"skills-{count}"
        for number in range(int(count)):
            skill = folder / f"shop-task-{number}"
            skill.mkdir(parents=True)
            words = f"Does task {number} of the shop. ".ljust(119, "x") + "."
            (skill / "SKILL.md").write_text(f"---\nname: {skill.name}\ndescription: {words}\n---\nDo it.\n")
        with shop(folder, stage.environment):
            stage.skillwire("list", "--refresh")
            stage.ask(f"{SKILLS}{count}")


def main() -> None:
    name, home, *parts = sys.argv[1:]
    bring_up_loopback()
    os.environ.clear()
    stage = Stage(PROGRAMS[name], Path(home))
    (stage.home / "work").mkdir(parents=True)
    os.environ.update(stage.environment)
    stage.program.set_up(stage.home, "http://127.0.0.1:9", "secret-key")
    counts = [part for part in parts if part.isdigit()]
    for part in parts or ("folders", "gateway", "context"):
        if part == "context":
            context(stage, counts or COUNTS)
        elif part not in counts:
            {"folders": folders, "gateway": gateway}[part](stage)
    print(json.dumps({"client": name, "version": stage.program.version, "runs": stage.runs}))


if __name__ == "__main__":
    main()
