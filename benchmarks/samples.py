"""Samples: what was measured, round by round, and the medians and ratios of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One value: of a measure, for a contestant, on a tree of some size, in some round."""

    measure: str
    contestant: str
    size: int
    round: int
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Series:
    """The contestant, the measure and the size: the key of a row."""

    measure: str
    contestant: str
    size: int


class Samples:
    """All values of a run."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._samples = list(samples)
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    def note(self, text: str) -> None:
        """Something that a reader of the numbers must know. Each note is kept once."""
        if text not in self.notes:
            self.notes.append(text)

    def series(self) -> dict[Series, list[Sample]]:
        """The samples of each series, in the order in which the series came up."""
        found: dict[Series, list[Sample]] = {}
        for sample in self._samples:
            found.setdefault(Series(sample.measure, sample.contestant, sample.size), []).append(sample)
        return found

    def median(self, series: Series) -> float | None:
        values = list(self._by_round(series).values())
        return median(values) if values else None

    def ratio(self, over: Series, under: Series) -> float | None:
        """The median of the ratios within each round: what slows a whole round down cancels out.

        A series that was measured in no common round is compared by its medians.
        """
        first, second = self._by_round(over), self._by_round(under)
        ratios = [first[turn] / second[turn] for turn in first if second.get(turn)]
        if ratios:
            return median(ratios)
        one, other = self.median(over), self.median(under)
        return one / other if one is not None and other else None

    def take_in(self, kept: Mapping[str, Any]) -> str:
        """Add the saved values of another run, of measures that this one leaves out; returns the command that
        made them."""
        for sample in kept["samples"]:
            self.add(Sample(**sample))
        for note in kept["notes"]:
            self.note(note)
        return kept["command"]

    def as_json(self) -> list[dict[str, object]]:
        return [asdict(sample) for sample in self._samples]

    def _by_round(self, series: Series) -> dict[int, float]:
        return {
            sample.round: sample.value
            for sample in self._samples
            if Series(sample.measure, sample.contestant, sample.size) == series
        }
