"""Run the benchmark: `python -m benchmarks --only http-read --sizes 100 --rounds 3`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import measure_edit, measure_host, measure_load, measure_start
from benchmarks.bench import Bench, say
from benchmarks.contestants import EVERYBODY, find_contestants
from benchmarks.machine import look
from benchmarks.report import beside_table, median_table, page, summary, target_table
from benchmarks.targets import beside_defaults, evaluate
from benchmarks.tree import write_tree

MEASURES: Final = (
    "start",
    "start-cold",
    "enumerate",
    "http-read",
    "http-get",
    "http-first",
    "stdio-read",
    "stdio-get",
    "edit",
    "host",
)
RESULTS: Final = Path(__file__).parent / "RESULTS.md"


def main() -> None:
    options = _parse()
    load_before, started = os.getloadavg()[0], time.monotonic()
    contestants, notes = find_contestants(tuple(options.contestants))
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work:
        place = options.trees or Path(work) / "trees"
        place.mkdir(parents=True, exist_ok=True)
        say(f"writing trees of {', '.join(map(str, options.sizes))} skills ...")
        bench = Bench(
            trees={size: write_tree(place / str(size), size) for size in options.sizes},
            contestants=contestants,
            rounds=options.rounds,
            seconds=options.seconds,
            connections=options.connections,
            windows=options.windows,
            work=Path(work),
        )
        for note in notes:
            bench.samples.note(note)
        commands = [bench.samples.take_in(json.loads(part.read_text())) for part in options.add]
        bench.cores.pin_client()
        try:
            for name, run in _plan(bench, options):
                say(name)
                run()
        except KeyboardInterrupt:
            bench.samples.note("the run was cut short")
    minutes = (time.monotonic() - started) / 60
    machine = look(pinned=bench.cores.are_apart, load_before=load_before, minutes=minutes)
    command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
    verdicts = evaluate(bench.samples)
    seen = verdicts if options.all_targets else [each for each in verdicts if each.ratio is not None]
    print(f"\n{target_table(seen)}\n{summary(seen)}\n")
    if beside := beside_defaults(bench.samples):
        print(f"Against plain-defaults, no target:\n{beside_table(beside)}\n")
    print(f"{median_table(bench.samples)}\n")
    print("\n".join([*bench.samples.notes, *machine.lines()]))
    if options.json:
        kept = {
            "command": command,
            "machine": machine.lines(),
            "notes": bench.samples.notes,
            "samples": bench.samples.as_json(),
        }
        options.json.write_text(json.dumps(kept, indent=1) + "\n")
    if options.write:
        text = page(bench.samples, verdicts, machine, rounds=options.rounds, commands=[*commands, command])
        RESULTS.write_text(text)


def _plan(bench: Bench, options: argparse.Namespace) -> list[tuple[str, Callable[[], None]]]:
    only = set(options.only)

    def kinds(transport: str) -> list[str]:
        return [kind for kind in measure_load.KINDS if f"{transport}-{kind}" in only]

    steps: list[tuple[str, bool, Callable[[], None]]] = [
        ("start", "start" in only, lambda: measure_start.warm(bench)),
        ("start-cold", "start-cold" in only, lambda: measure_start.cold(bench)),
        ("enumerate", "enumerate" in only, lambda: measure_start.enumeration(bench)),
        ("http", bool(kinds("http")), lambda: measure_load.http(bench, kinds("http"))),
        ("http-first", "http-first" in only, lambda: measure_load.first_reads(bench)),
        ("stdio", bool(kinds("stdio")), lambda: measure_load.stdio(bench, kinds("stdio"))),
        ("edit", "edit" in only, lambda: measure_edit.edits(bench, options.quiet)),
        ("host", "host" in only, lambda: measure_host.host(bench)),
    ]
    return [(name, run) for name, is_wanted, run in steps if is_wanted]


def _parse() -> argparse.Namespace:
    def listed(kind: Callable[[str], object], choices: tuple[str, ...] = ()) -> Callable[[str], list[object]]:
        def parse(text: str) -> list[object]:
            words = [word for word in text.split(",") if word]
            if unknown := [word for word in words if choices and word not in choices]:
                raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(choices)}")
            return [kind(word) for word in words]

        return parse

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--only", type=listed(str, MEASURES), default=[*MEASURES], metavar="A,B", help=", ".join(MEASURES))
    add("--sizes", type=listed(int), default=[100, 1000, 10_000], metavar="N,M", help="skills in the trees")
    add("--rounds", type=int, default=5, help="rounds, in each of which every server is measured once")
    add("--seconds", type=float, default=0.8, help="seconds of load in one turn")
    add("--connections", type=listed(int), default=[1, 16, 64], metavar="N,M", help="HTTP connections")
    add("--windows", type=listed(int), default=[1, 16], metavar="N,M", help="requests in flight over stdio")
    add("--contestants", type=listed(str, EVERYBODY), default=[*EVERYBODY], metavar="A,B")
    add(
        "--quiet",
        type=float,
        default=0.1,
        metavar="SECONDS",
        help="how long the watcher waits until changes have stopped",
    )
    add("--trees", type=Path, metavar="FOLDER", help="keep the trees here, and reuse those that exist")
    add("--json", type=Path, metavar="FILE", help="save every value")
    add(
        "--add",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="the values that another run saved as JSON",
    )
    add("--write", action="store_true", help="write benchmarks/RESULTS.md")
    add("--all-targets", action="store_true", help="show targets that this run did not measure, too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
