"""The complexity budget: what a reader of the code meets, counted. `python -m tools.budget` prints it.

tests/complexity-budget.toml has the most that each number may be, beside its goal. tests/test_architecture.py
fails when a number is above it, and when it is so far below it that the record should be lowered.

    python -m tools.budget                          print the numbers of today
    python -m tools.budget --write                  lower what fell, in the record and in docs/architecture.md
    python -m tools.budget --write --reason "..."   also record what rose, with the reason
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from tools.imports import imports_of, is_inner, is_ours, package_of, read_package

ROOT: Final = Path(__file__).parent.parent
RECORD: Final = ROOT / "tests/complexity-budget.toml"
PAGE: Final = ROOT / "docs/architecture.md"
START, END = "<!-- budget: written by tools/budget.py -->", "<!-- end of budget -->"

REQUESTS: Final = {
    "HTTP read, first": "A client reads a file over HTTP",
    "HTTP read, cached": "A client reads a file over HTTP again",
    "stdio list": "A client lists the skills over stdio",
    "discovery": "A host finds the skills of a server",
    "load_skill": "A model loads a skill",
    "edit to revocation": "An edit on the server revokes an approval",
    "add": "`skillwire add` installs a skill",
    "sync": "`skillwire sync` restores it",
    "gateway read, first": "A client reads a file through a gateway",
    "gateway read, again": "A client reads it again",
    "publish": "`skillwire publish` publishes a skill",
    "seen on a replica": "A replica notifies its clients of that",
    "review page": "A person opens a skill on the review page",
    "verify URL": "`skillwire verify` checks a server",
}
STEPS: Final = {
    "lines": 500,
    "files": 5,
    "import edges per 1,000 lines": 0.5,
    "inner imports across packages": 10,
    "inner imports in tests": 10,
}
"""The numbers of the whole codebase, which many changes touch, are recorded in steps of this size."""
_SLACK: Final = 2
"""A number may be this many steps below its record before the record has to be lowered."""
_HEAD: Final = """\
# The complexity budget: what a reader of the code meets, as tools/budget.py counts it. A number may not be
# above `most`, and should reach `goal`. `python -m tools.budget --write` lowers what fell. A number that has
# to rise needs a `reason`: `python -m tools.budget --write --reason "..."`.
"""

Paths: TypeAlias = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Entry:
    """The record of one number. `lowest` is the lowest it has ever been recorded at."""

    most: float
    goal: float
    lowest: float
    reason: str = ""


Record: TypeAlias = dict[str, Entry]


def read_record(text: str) -> Record:
    return {name: Entry(**fields) for table in tomllib.loads(text).values() for name, fields in table.items()}


def format_record(record: Record) -> str:
    parts = [_HEAD]
    for title, names in (("files of a request", REQUESTS), ("codebase", STEPS)):
        parts.append(f"\n[{json.dumps(title)}]\n")
        for name in names:
            one = record[name]
            fields = f"most = {one.most:g}, goal = {one.goal:g}, lowest = {one.lowest:g}"
            if one.reason:
                fields += f", reason = {json.dumps(one.reason, ensure_ascii=False)}"
            parts.append(f"{json.dumps(name)} = {{ {fields} }}\n")
    return "".join(parts)


def problems(record: Record, counted: Mapping[str, float]) -> list[str]:
    """Why the numbers do not match their record, one line each."""
    lines: list[str] = []
    for name, number in counted.items():
        one, step = record[name], STEPS.get(name, 1)
        if number > one.most:
            lines.append(
                f"{name}: {number:g}, and at most {one.most:g} is allowed. Make it smaller, or say why not: "
                'python -m tools.budget --write --reason "..."'
            )
        elif number < one.most - _SLACK * step:
            lines.append(
                f"{name}: {number:g}, better than {one.most:g}. Record it: python -m tools.budget --write"
            )
    return lines


def unexplained(record: Record) -> list[str]:
    """The numbers that were recorded above their lowest, without a reason."""
    return [name for name, one in record.items() if one.most > one.lowest and not one.reason]


def updated(record: Record, counted: Mapping[str, float], reason: str) -> Record:
    """The record with the numbers of today. One that rose is only taken with a reason."""
    after = dict(record)
    for name, number in counted.items():
        one, step = record[name], STEPS.get(name, 1)
        most = math.ceil(number / step) * step
        if most < one.most:
            lowest = min(most, one.lowest)
            after[name] = replace(one, most=most, lowest=lowest, reason=one.reason if most > lowest else "")
        elif number > one.most and reason:
            after[name] = replace(one, most=most, reason=reason)
    return after


def count_code() -> dict[str, float]:
    """The numbers of the whole codebase."""
    modules = read_package()
    tests = {file.as_posix(): file.read_text("utf-8") for file in sorted((ROOT / "tests").rglob("*.py"))}
    every = [one for one in imports_of({**modules, **tests}) if is_ours(one.imported)]
    imports = [one for one in every if one.importer in modules]
    lines = sum(text.count("\n") for text in modules.values())
    edges = {(one.importer, one.imported) for one in imports if one.imported in modules}
    across = {
        one
        for one in imports
        if is_inner(one.imported) and package_of(one.importer) != package_of(one.imported)
    }
    in_tests = {one for one in every if one.importer in tests and is_inner(one.imported)}
    return {
        "lines": lines,
        "files": len(modules),
        "import edges per 1,000 lines": round(1000 * len(edges) / lines, 1),
        "inner imports across packages": len(across),
        "inner imports in tests": len(in_tests),
    }


def count_requests() -> tuple[dict[str, float], Paths]:
    """How many files each request touches, and the path that a reader follows."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.requests"], cwd=ROOT, capture_output=True, timeout=600, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    found = json.loads(done.stdout)
    return (
        {name: len(found[name]["files"]) for name in REQUESTS},
        {name: found[name]["path"] for name in REQUESTS if found[name]["path"]},
    )


def section(record: Record, paths: Paths) -> str:
    """The part of docs/architecture.md with the numbers and the paths."""
    rows = ["| Request | files touched | goal |", "|---|--:|--:|"]
    rows += [
        f"| {words} | {record[name].most:g} | {record[name].goal:g} |" for name, words in REQUESTS.items()
    ]
    rows += ["", "| The whole code, at most | now | goal |", "|---|--:|--:|"]
    rows += [f"| {name} | {record[name].most:,g} | {record[name].goal:,g} |" for name in STEPS]
    for name, path in paths.items():
        touched = f"The path to follow, {len(path)} of the {record[name].most:g} files that it touches:"
        rows += ["", f"### {REQUESTS[name]}", "", touched, ""]
        rows += [f"{number}. [`{file}`](../src/skillwire/{file})" for number, file in enumerate(path, 1)]
    return "\n".join([START, "", *rows, "", END])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.budget", description="The complexity budget.")
    parser.add_argument(
        "--write", action="store_true", help="record the numbers, and write docs/architecture.md"
    )
    parser.add_argument("--reason", default="", help="why a number has to rise")
    options = parser.parse_args()
    record = read_record(RECORD.read_text("utf-8"))
    counted, paths = count_requests()
    counted |= count_code()
    for name, number in counted.items():
        print(f"{name:32} {number:8,g}   at most {record[name].most:8,g}   goal {record[name].goal:8,g}")
    if options.write:
        record = updated(record, counted, options.reason)
        RECORD.write_text(format_record(record), "utf-8")
        before, _, rest = PAGE.read_text("utf-8").partition(START)
        PAGE.write_text(before + section(record, paths) + rest.partition(END)[2], "utf-8")
    wrong = problems(record, counted)
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
