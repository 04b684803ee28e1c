"""The tables of a run, and RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.contestants import EVERYBODY
from benchmarks.machine import Machine
from benchmarks.samples import Samples
from benchmarks.targets import Beside, Verdict, beside_defaults


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> str:
    """A Markdown table that reads well as plain text too. `right` are columns of numbers."""
    numbers = set(right)
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(head))]

    def joined(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = ["-" * (width - 1) + (":" if column in numbers else "-") for column, width in enumerate(widths)]
    return "\n".join([joined(lines[0]), f"| {' | '.join(rule)} |", *map(joined, lines[1:])])


def target_table(verdicts: Iterable[Verdict]) -> str:
    rows = [
        (
            "**not met**" if verdict.word == "not met" else verdict.word,
            verdict.target.what,
            verdict.target.wanted,
            "" if verdict.ratio is None else figure(verdict.ratio),
            "" if verdict.cpu_ratio is None else figure(verdict.cpu_ratio),
        )
        for verdict in verdicts
    ]
    return table(("", "what", "target", "seen", "by CPU"), rows, right=[3, 4])


def summary(verdicts: Sequence[Verdict]) -> str:
    """How many targets were met, in a sentence, and which were not."""
    parts: list[str] = []
    for is_stretch, noun in ((False, "targets"), (True, "stretch targets")):
        some = [verdict for verdict in verdicts if verdict.target.is_stretch is is_stretch]
        counts = {
            word: sum(each.word == word for each in some) for word in ("met", "not met", "not measured")
        }
        said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        if some:
            parts.append(f"Of {len(some)} {noun}: {said}.")
    return " ".join(parts)


def beside_table(rows: Iterable[Beside]) -> str:
    return table(
        ("what", "skillwire", "by CPU", "plain, tuned", "by CPU"),
        [
            (
                row.what,
                *(
                    "" if value is None else f"{figure(value)} ×"
                    for value in (row.ours, row.ours_by_cpu, row.plain, row.plain_by_cpu)
                ),
            )
            for row in rows
        ],
        right=[1, 2, 3, 4],
    )


def median_table(samples: Samples) -> str:
    """The median of every series: a row a measure and size, a column a contestant, limits in the last."""
    rows: dict[tuple[str, int], dict[str, str]] = {}
    units: dict[str, str] = {}
    for series, values in samples.series().items():
        middle = samples.median(series)
        if middle is not None:
            rows.setdefault((series.measure, series.size), {})[series.contestant] = figure(middle)
            units[series.measure] = values[0].unit
    lines = [
        (
            measure,
            f"{size:,}",
            units[measure],
            *(cells.get(name, "") for name in EVERYBODY),
            ", ".join(f"{name} {value}" for name, value in cells.items() if name not in EVERYBODY),
        )
        for (measure, size), cells in sorted(rows.items())
    ]
    return table(
        ("measure", "skills", "unit", *EVERYBODY, "limits"), lines, right=[1, *range(3, 3 + len(EVERYBODY))]
    )


def figure(value: float) -> str:
    """Three significant digits: more would claim too much precision."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def page(
    samples: Samples, verdicts: Sequence[Verdict], machine: Machine, *, rounds: int, commands: Sequence[str]
) -> str:
    """RESULTS.md: the tables of the last full run."""
    notes = [f"- {note}" for note in samples.notes]
    beside = beside_defaults(samples)
    return "\n".join(
        [
            "# Results",
            "",
            f"Made by {', then '.join(f'`{command}`' for command in commands)} on {machine.date}.",
            f"Medians over {rounds} rounds, in which everybody takes turns.",
            "Ratios are taken within a round. How to read this: [README.md](README.md).",
            "",
            "## Targets",
            "",
            summary(verdicts),
            "",
            target_table(verdicts),
            "",
            *(
                [
                    "No target, for comparison: the same against `plain-defaults`, the plain server with what"
                    " installing the SDK brings.",
                    "",
                    beside_table(beside),
                    "",
                ]
                if beside
                else []
            ),
            *(["Of this run:", "", *notes, ""] if notes else []),
            "## Medians",
            "",
            median_table(samples),
            "",
            "## Machine",
            "",
            *(f"- {line}" for line in machine.lines()),
            "",
        ]
    )
