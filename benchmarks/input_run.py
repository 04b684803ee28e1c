"""How long hostile inputs take: `python -m benchmarks.input_run`, or with some ways in: `... lock client`.

Each way in reads the bombs that the tests have, each in a process of its own. Exits with 1 if one takes more
than two seconds of processor time plus two per MiB.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from attacks.bombs import MIB, WAYS  # pyright: ignore[reportMissingImports]
from attacks.cost import Read, reads_of  # pyright: ignore[reportMissingImports]
from benchmarks.report import table


def target(read: Read) -> float:
    """The seconds that an input may take."""
    return 2 + 2 * read.size / MIB


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.input_run")
    known = [*WAYS, "git"]
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(known))
    ways: list[str] = parser.parse_args().ways or known
    if unknown := set(ways) - {*known}:
        parser.error(f"no way in: {', '.join(unknown)}")
    rows: list[tuple[str, ...]] = []
    late = 0
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:
            reads = reads_of(way, Path(folder))
        worst = max(reads, key=lambda read: read.seconds / target(read))
        late += sum(read.seconds > target(read) for read in reads)
        rows.append(
            (
                way,
                str(len(reads)),
                worst.bomb,
                f"{worst.size / MIB:.1f} MiB",
                f"{worst.seconds:.2f} s",
                f"{target(worst):.1f} s",
                f"{max(read.memory / read.allowed for read in reads):.2f}",
            )
        )
    head = ("way in", "bombs", "dearest", "size", "takes", "target", "memory, of what is allowed")
    print(table(head, rows, right=[1, 3, 4, 5, 6]))
    sys.exit(bool(late))


if __name__ == "__main__":
    main()
