"""How much processor time `skillwire list` takes with 1,000, 4,000 and 8,000 local skills.

    python benchmarks/list_run.py [COUNT ...]

Writes generated skills into a temporary directory, and runs the command as a user would, with a home
directory of its own. Prints the processor time of a first run and of a second one.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

COUNTS = (1_000, 4_000, 8_000)


def write_skills(folder: Path, count: int) -> None:
    """So many skills in groups of a hundred, with two files each."""
    for number in range(count):
        skill = folder / f"group-{number // 100}" / f"skill-{number}"
        (skill / "references").mkdir(parents=True)
        description = f"Handles case {number} of the generated collection. Use when case {number} comes up."
        text = f"---\nname: skill-{number}\ndescription: {description}\n---\n# Skill {number}\n\nDo it.\n"
        (skill / "SKILL.md").write_text(text, "utf-8")
        (skill / "references/notes.md").write_text(f"# Notes {number}\n", "utf-8")


def run_list(folder: Path, home: Path) -> tuple[float, int]:
    """The processor seconds of one run, with its children, and the number of lines that it printed."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(
        [sys.executable, "-m", "skillwire", "list", "--no-default-directories", "--dir", str(folder)],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, len(run.stdout.splitlines())


def main() -> None:
    counts = [int(text) for text in sys.argv[1:]] or COUNTS
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            folder, home = Path(name) / "skills", Path(name) / "home"
            home.mkdir()
            write_skills(folder, count)
            first, lines = run_list(folder, home)
            second, _ = run_list(folder, home)
            print(
                f"{count:>6} skills: {first:5.2f} s of processor time, then {second:5.2f} s ({lines} lines)"
            )


if __name__ == "__main__":
    main()
