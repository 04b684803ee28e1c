"""Targets: what Skillwire should reach, each as a ratio within one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.contestants import PLAIN, PLAIN_DEFAULTS, TYPESCRIPT
from benchmarks.contestants import SKILLWIRE as _US
from benchmarks.measure_edit import QUIET
from benchmarks.measure_host import ALL, BARE, SERVERS, SKILLS, SLOWEST
from benchmarks.measure_load import BARE_HTTP
from benchmarks.measure_start import DUMPS
from benchmarks.samples import Samples, Series

_SMALL: Final = 100
_LARGE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the ratio of two series."""

    what: str
    over: Series
    under: Series
    bound: float
    at_least: bool
    is_stretch: bool = False

    @property
    def wanted(self) -> str:
        sense = "at least" if self.at_least else "at most"
        other = self.under.contestant
        if other == _US:
            other = f"N = {self.under.size:,}"
        return f"{'stretch: ' if self.is_stretch else ''}{sense} {self.bound:g} × {other}"

    @property
    def by_cpu(self) -> tuple[Series, Series]:
        """The processor time behind the two series, so that its ratio means what theirs does."""
        over, under = _cpu(self.over), _cpu(self.under)
        return (under, over) if self.at_least else (over, under)

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.bound if self.at_least else ratio <= self.bound


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target with what was seen; `None` when it was not measured in this run."""

    target: Target
    ratio: float | None
    cpu_ratio: float | None = None
    """The same by processor time, where that was taken: the steadier figure on a busy machine."""

    @property
    def word(self) -> str:
        if self.ratio is None:
            return "not measured"
        return "met" if self.target.is_met(self.ratio) else "not met"


def evaluate(samples: Samples, targets: Iterable[Target] | None = None) -> list[Verdict]:
    wanted = all_targets() if targets is None else targets
    return [
        Verdict(target, samples.ratio(target.over, target.under), samples.ratio(*target.by_cpu))
        for target in wanted
    ]


@dataclass(frozen=True, slots=True)
class Beside:
    """Skillwire and the tuned plain server beside the plain one with the SDK's defaults. No target."""

    what: str
    ours: float | None
    ours_by_cpu: float | None
    plain: float | None
    plain_by_cpu: float | None


def beside_defaults(samples: Samples) -> list[Beside]:
    """What the same comparison looks like against a server that sets nothing, where it took part."""
    found: list[Beside] = []
    for target in _serving():
        if target.under.contestant != PLAIN:
            continue
        defaults = _against(target.over, PLAIN_DEFAULTS)
        ratios = [
            ratio
            for one in (target.over, target.under)
            for ratio in (samples.ratio(one, defaults), samples.ratio(_cpu(defaults), _cpu(one)))
        ]
        if ratios[0] is not None:
            found.append(Beside(target.what, *ratios))
    return found


def all_targets() -> list[Target]:
    return [*_serving(), *_flatness(), *_stdio(), *_starting(), *_rest()]


def _serving() -> Iterator[Target]:
    for kind in ("read", "get"):
        what = f"HTTP {kind}, 16 connections"
        ours = Series(f"http-{kind} c16", _US, _SMALL)
        yield Target(what, ours, _against(ours, PLAIN_DEFAULTS), 9, at_least=True)
        yield Target(what, ours, _against(ours, PLAIN), 4.5, at_least=True)
        yield Target(what, ours, _against(ours, BARE_HTTP), 0.5, at_least=True)


def _flatness() -> Iterator[Target]:
    for kind in ("read", "get"):
        measure = f"http-{kind} c16 cpu"
        large, small = Series(measure, _US, _LARGE), Series(measure, _US, _SMALL)
        yield Target(f"CPU of an HTTP {kind}, N = 10,000", large, small, 1.1, at_least=False)


def _stdio() -> Iterator[Target]:
    for kind in ("read", "get"):
        for window in (1, 16):
            ours = Series(f"stdio-{kind} w{window}", _US, _SMALL)
            what = f"stdio {kind}, {window} in flight"
            yield Target(what, ours, _against(ours, PLAIN), 2, at_least=True)
            yield Target(what, ours, _against(ours, PLAIN), 3.3, at_least=True, is_stretch=True)


def _starting() -> Iterator[Target]:
    # What clients use today.
    ours = Series("start-2025 stdio", _US, _SMALL)
    what = "start to the lists of a client of 2025-06-18 over stdio, N = 100"
    yield Target(what, ours, _against(ours, TYPESCRIPT), 1.2, at_least=False)
    yield Target(what, ours, _against(ours, PLAIN), 0.5, at_least=False)
    for transport in ("stdio", "http"):
        ours = Series(f"start {transport}", _US, _SMALL)
        what = f"start to first page over {transport}, N = 100"
        yield Target(what, ours, _against(ours, PLAIN), 0.75, at_least=False)
        yield Target(what, ours, _against(ours, TYPESCRIPT), 1, at_least=False, is_stretch=True)
    first, again = Series("start stdio", _US, _LARGE), Series("start-again stdio", _US, _LARGE)
    scan = Series("start stdio", "imports + scan", _LARGE)
    stat = Series("start stdio", "imports + stat", _LARGE)
    yield Target("start, N = 10,000, warm", first, scan, 1.2, at_least=False)
    yield Target("second start, N = 10,000, nothing changed", again, stat, 1.5, at_least=False)


def _rest() -> Iterator[Target]:
    for transport in ("stdio", "http"):
        ours = Series(f"enumerate {transport}", _US, _LARGE)
        what = f"enumeration over {transport}, N = 10,000"
        yield Target(what, ours, _against(ours, PLAIN), 1, at_least=False)
        yield Target(what, ours, _against(ours, DUMPS), 5, at_least=False)
    for transport in ("stdio", "http"):
        ours = Series(f"memory {transport}", _US, _LARGE)
        what = f"peak memory over {transport}, N = 10,000"
        yield Target(what, ours, _against(ours, TYPESCRIPT), 0.2, at_least=False)
    ours = Series("edit", _US, _LARGE)
    yield Target("an edit visible, N = 10,000", ours, _against(ours, QUIET), 1, at_least=False)
    for kind, what, slowest in (
        ("http", "host: 20 servers over http, one late", SLOWEST),
        ("stdio", "host: 20 servers over stdio, one late", SLOWEST),
        ("start", "host: 20 servers started at once", BARE),
    ):
        every = Series(f"host-discovery {kind}", ALL, SERVERS * SKILLS)
        yield Target(what, every, _against(every, slowest), 1.1, at_least=False)


def _cpu(series: Series) -> Series:
    return Series(f"{series.measure} cpu", series.contestant, series.size)


def _against(ours: Series, contestant: str) -> Series:
    return Series(ours.measure, contestant, ours.size)
