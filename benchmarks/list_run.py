"""How much processor time `skillwire list` takes, with skills of a directory and with those of one server.

    python -m benchmarks.list_run [COUNT ...]             1,000, 4,000 and 8,000 local skills
    python -m benchmarks.list_run --server [COUNT ...]    7,500 skills of one server over HTTP
    python -m benchmarks.list_run --policy [COUNT ...]    10,000 of one server, with and without 100 rules

Writes generated skills into a temporary directory, and runs the command as a user would, with a home
directory of its own. Prints the processor time of a first run and of a second one, in which a server's cached
listing is still current, the share that the second has of the first, and the time of a run without skills.
The lowest of three is taken of each: other programs only add to them.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.processes import Cores, ServerProcess

COUNTS = (1_000, 4_000, 8_000)
SERVED = (7_500,)
JUDGED = (10_000,)
ROUNDS = 3
_LIST = (sys.executable, "-m", "skillwire", "list", "--no-default-directories")


def write_skills(folder: Path, count: int) -> None:
    """So many skills in groups of a hundred, with two files each."""
    for number in range(count):
        skill = folder / f"group-{number // 100}" / f"skill-{number}"
        (skill / "references").mkdir(parents=True)
        description = f"Handles case {number} of the generated collection. Use when case {number} comes up."
        text = f"---\nname: skill-{number}\ndescription: {description}\n---\n# Skill {number}\n\nDo it.\n"
        (skill / "SKILL.md").write_text(text, "utf-8")
        (skill / "references/notes.md").write_text(f"# Notes {number}\n", "utf-8")


def run_list(home: Path, *options: str) -> tuple[float, int]:
    """The processor seconds of one run, with its children, and the number of lines that it printed."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(
        [*_LIST, *options], env=environment, cwd=home, capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, len(run.stdout.splitlines())


def measure(home: Path, count: int, *options: str, again: tuple[str, ...] = ()) -> None:
    """Print one line about so many skills; `again` are the options that make a run a first one again."""
    first: list[float] = []
    second: list[float] = []
    lines = 0
    for _ in range(ROUNDS):
        first.append(run_list(home, *options, *again)[0])
        seconds, lines = run_list(home, *options)
        second.append(seconds)
    nothing = min(run_list(home, "--no-config")[0] for _ in range(ROUNDS))
    share = min(second) / min(first)
    print(
        f"{count:>6} skills: {min(first):5.2f} s of processor time, then {min(second):5.2f} s "
        f"({share:.2f} of it; {nothing:.2f} s without skills; {lines} lines)"
    )


RULES = 100


def write_policy(home: Path) -> None:
    """A policy of the user whose rules no skill breaks: every one of them is compared with every skill."""
    allow = [f"https://team-{number}.example.org/*" for number in range(RULES // 2 - 1)]
    deny = [f"*/group-{number}/secret-*" for number in range(RULES // 2)]
    text = f'[policy]\nformat = 1\nname = "bench"\n[sources]\nallow = {[*allow, "*"]}\ndeny = {deny}\n'
    (home / ".config/skillwire").mkdir(parents=True, exist_ok=True)
    (home / ".config/skillwire/policy.toml").write_text(text, "utf-8")


def compare_policy(home: Path, count: int, *options: str) -> None:
    """Print the cost of a policy, of runs with and without it that alternate."""
    run_list(home, *options)
    plain: list[float] = []
    judged: list[float] = []
    file = home / ".config/skillwire/policy.toml"
    for _ in range(2 * ROUNDS):
        file.unlink(missing_ok=True)
        plain.append(run_list(home, *options)[0])
        write_policy(home)
        judged.append(run_list(home, *options)[0])
    print(
        f"{count:>6} skills: {min(plain):5.2f} s of processor time, {min(judged):5.2f} s with {RULES} rules "
        f"({min(judged) / min(plain):.3f} of it)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", action="store_true", help="skills of one server over HTTP")
    parser.add_argument(
        "--policy", action="store_true", help="skills of one server, with a policy of 100 rules"
    )
    parser.add_argument("counts", nargs="*", type=int)
    given = parser.parse_args()
    usual = JUDGED if given.policy else SERVED if given.server else COUNTS
    for count in given.counts or usual:
        with tempfile.TemporaryDirectory() as name:
            folder, home = Path(name) / "skills", Path(name) / "home"
            home.mkdir()
            write_skills(folder, count)
            if not (given.server or given.policy):
                measure(home, count, "--dir", str(folder))
                continue
            command = [sys.executable, "-m", "skillwire", "serve", str(folder), "--http", "127.0.0.1:0"]
            with ServerProcess(command, over_http=True, cores=Cores()) as server:
                server.await_url(120)
                of = ("--server", f"big={server.url}/mcp")
                if given.policy:
                    compare_policy(home, count, *of)
                else:
                    measure(home, count, *of, again=("--refresh",))


if __name__ == "__main__":
    main()
