"""Counts what a call does, instead of timing it: lines of Python, and steps of regular expressions.

    assert count_steps(lambda: redact(text)) <= 50 * len(text)

A count is the same on every machine, however busy it is. Each regular expression of ours is replaced by one
that takes its steps in Python and answers what the real one answers; if the two ever disagree, that is an
error. What other functions in C do is not counted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from types import BuiltinMethodType, FrameType, ModuleType
from typing import Any, Final, TypeAlias
from unittest.mock import patch

Text: TypeAlias = "str | bytes | bytearray"

_OURS: Final = ("skillwire", "tomllib", "json")
_MOST: Final = 1 << 40
_COMPILE: Final = re._compile  # type: ignore[attr-defined]


class TooManySteps(BaseException):
    """A call takes more steps than it may. Nothing that is called handles this."""


def count_steps(act: Callable[[], object], *, most: int = _MOST) -> int:
    """The steps that a call takes. `TooManySteps` as soon as there are more than `most`."""
    steps = _Steps(most)
    with _counted_patterns(steps):
        before = sys.gettrace()
        sys.settrace(steps.trace)
        try:
            act()
        finally:
            sys.settrace(before)
    return steps.taken


class _Steps:
    def __init__(self, most: int) -> None:
        self.taken = 0
        self.most = most

    def take(self, number: int = 1) -> None:
        self.taken += number
        if self.taken > self.most:
            sys.settrace(None)
            raise TooManySteps(f"more than {self.most:,} steps")

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename == __file__:
            return None
        self.taken += 1
        if self.taken > self.most:
            self.take()
        return self.trace


@contextmanager
def _counted_patterns(steps: _Steps) -> Generator[None]:
    """Replace every regular expression that our modules have, and those that are made meanwhile."""
    counted: dict[re.Pattern[Any], _Counted] = {}

    def replaced(value: Any) -> Any:
        if isinstance(value, re.Pattern):
            if value not in counted:
                counted[value] = _Counted(value, steps)
            return counted[value]
        if isinstance(value, BuiltinMethodType) and isinstance(value.__self__, re.Pattern):
            return getattr(replaced(value.__self__), value.__name__)
        if isinstance(value, dict) and any(isinstance(one, re.Pattern) for one in value.values()):
            return {key: replaced(one) for key, one in value.items()}
        if type(value) is tuple and any(isinstance(one, re.Pattern) for one in value):
            return tuple(map(replaced, value))
        return value

    def compiled(pattern: Any, flags: int) -> Any:
        before = sys.gettrace()
        sys.settrace(None)  # It is done once, and then remembered.
        try:
            return replaced(_COMPILE(pattern, flags))
        finally:
            sys.settrace(before)

    changed: list[tuple[ModuleType, str, Any]] = []
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _OURS:
            for attribute, value in list(vars(module).items()):
                if (new := replaced(value)) is not value:
                    changed.append((module, attribute, value))
                    setattr(module, attribute, new)
    try:
        with patch.object(re, "_compile", compiled):
            yield
    finally:
        for module, attribute, value in changed:
            setattr(module, attribute, value)


class _Counted:
    """A compiled regular expression whose steps are counted, before the real one takes them."""

    def __init__(self, pattern: re.Pattern[Any], steps: _Steps) -> None:
        self._real = pattern
        self._steps = steps
        self._program = _program_of(pattern)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def match(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[Any] | None:
        end = self._end(text[:endpos], pos)
        return self._agreed(self._real.match(text, pos, endpos), pos, end)

    def fullmatch(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[Any] | None:
        end = self._end(text[:endpos], pos, whole=True)
        return self._agreed(self._real.fullmatch(text, pos, endpos), pos, end)

    def search(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[Any] | None:
        start, end = self._next(text[:endpos], pos)
        return self._agreed(self._real.search(text, pos, endpos), start, end)

    def finditer(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> Iterator[re.Match[Any]]:
        shown = text[:endpos]
        matches = self._real.finditer(text, pos, endpos)
        start, end = self._next(shown, pos)
        while True:
            found = self._agreed(next(matches, None), start, end)
            if found is None or end is None:
                return
            yield found
            start, end = self._next(shown, end, past=end if start == end else -1)

    def findall(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> list[Any]:
        self._read(text)
        return self._real.findall(text, pos, endpos)

    def sub(self, replacement: Any, text: Any, count: int = 0) -> Any:
        self._read(text)
        return self._real.sub(replacement, text, count)

    def subn(self, replacement: Any, text: Any, count: int = 0) -> Any:
        self._read(text)
        return self._real.subn(replacement, text, count)

    def split(self, text: Any, maxsplit: int = 0) -> list[Any]:
        self._read(text)
        return self._real.split(text, maxsplit)

    def _read(self, text: Any) -> None:
        for _ in self.finditer(text):
            pass

    def _next(self, text: Text, pos: int, *, past: int = -1) -> tuple[int, int | None]:
        """Where the next match starts and ends."""
        for start in range(pos, len(text) + 1):
            self._steps.take()
            if (end := self._end(text, start, past=past)) is not None:
                return start, end
        return len(text), None

    def _end(self, text: Text, at: int, *, whole: bool = False, past: int = -1) -> int | None:
        return _run(self._program, text, at, self._steps, whole=whole, past=past)

    def _agreed(self, found: re.Match[Any] | None, start: int, end: int | None) -> re.Match[Any] | None:
        counted = None if end is None else (start, end)
        if counted != (None if found is None else found.span()):
            raise AssertionError(f"the steps of {self._real!r} lead to {counted}, not to {found!r}")
        return found


# The steps of a regular expression, as a list: what is tried first, and where to go on if it fails.

_ONE, _REPEAT, _PLACE, _FORK, _GO, _START, _MOVED, _INSIDE, _AROUND, _END = range(10)
_Program: TypeAlias = list[tuple[Any, ...]]
_programs: dict[tuple[Any, int], _Program] = {}


def _program_of(pattern: re.Pattern[Any]) -> _Program:
    key = (pattern.pattern, pattern.flags)
    if key not in _programs:
        parsed = _parser.parse(pattern.pattern, pattern.flags)
        builder = _Builder(parsed.state)
        builder.add(parsed, parsed.state.flags)
        _programs[key] = [*builder.program, (_END,)]
    return _programs[key]


class _Builder:
    def __init__(self, state: Any) -> None:
        self.program: _Program = []
        self._state = state

    def add(self, items: Any, flags: int) -> None:
        for item in items:
            kind, value = item
            match str(kind):
                case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                    self.program.append((_ONE, self._test(item, flags)))
                case "AT":
                    self.program.append((_PLACE, self._compiled(item, flags).match))
                case "SUBPATTERN":
                    _, more, fewer, inner = value
                    self.add(inner, (flags | more) & ~fewer)
                case "BRANCH":
                    self._branch(value[1], flags)
                case "MAX_REPEAT" | "MIN_REPEAT":
                    least, most, inner = value
                    self._repeat(least, most, inner, flags, is_greedy=str(kind) == "MAX_REPEAT")
                case "POSSESSIVE_REPEAT":
                    least, most, inner = value
                    self._possessive(least, most, inner, flags)
                case "ATOMIC_GROUP":
                    self.program.append((_INSIDE, self._apart(value, flags), 1, 1))
                case "ASSERT" | "ASSERT_NOT":
                    direction, inner = value
                    back = inner.getwidth()[0] if direction < 0 else 0
                    self.program.append((_AROUND, self._apart(inner, flags), back, str(kind) == "ASSERT"))
                case _:
                    raise NotImplementedError(f"steps of {kind} in a regular expression")

    def _apart(self, items: Any, flags: int) -> _Program:
        builder = _Builder(self._state)
        builder.add(items, flags)
        return [*builder.program, (_END,)]

    def _compiled(self, item: Any, flags: int) -> re.Pattern[Any]:
        return _compiler.compile(_parser.SubPattern(self._state, [item]), flags)

    def _test(self, item: Any, flags: int) -> Callable[[Any], bool]:
        matches = self._compiled(item, flags).match
        known: dict[Any, bool] = {}

        def test(sign: Any) -> bool:
            if sign not in known:
                known[sign] = matches(sign) is not None
            return known[sign]

        return test

    def _branch(self, ways: list[Any], flags: int) -> None:
        ends: list[int] = []
        for number, way in enumerate(ways):
            is_last = number == len(ways) - 1
            fork = 0 if is_last else self._hole()
            self.add(way, flags)
            if not is_last:
                ends.append(self._hole())
                self.program[fork] = (_FORK, fork + 1, len(self.program))
        for end in ends:
            self.program[end] = (_GO, len(self.program))

    def _row(self, items: Any, flags: int) -> Callable[..., Any] | None:
        """What matches a row of characters, if the items match one character and nothing else."""
        if len(items) == 1 and str(items[0][0]) in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self._compiled(
                (_constants.POSSESSIVE_REPEAT, (0, _constants.MAXREPEAT, items)), flags
            ).match
        return None

    def _repeat(self, least: int, most: Any, items: Any, flags: int, *, is_greedy: bool) -> None:
        highest = None if most is _constants.MAXREPEAT else int(most)
        if is_greedy and (row := self._row(items, flags)):
            self.program.append((_REPEAT, row, least, highest, True))
            return
        for _ in range(least):
            self.add(items, flags)
        if highest is None:
            start, fork = self._hole(), self._hole()
            self.add(items, flags)
            self.program.append((_MOVED, start))
            self.program.append((_GO, start))
            self.program[start] = (_START, start)
            self._fork(fork, is_greedy)
            return
        forks: list[int] = []
        for _ in range(highest - least):
            forks.append(self._hole())
            self.add(items, flags)
        for fork in forks:
            self._fork(fork, is_greedy)

    def _possessive(self, least: int, most: Any, items: Any, flags: int) -> None:
        highest = None if most is _constants.MAXREPEAT else int(most)
        if row := self._row(items, flags):
            self.program.append((_REPEAT, row, least, highest, False))
        else:
            self.program.append((_INSIDE, self._apart(items, flags), least, highest))

    def _hole(self) -> int:
        self.program.append(())
        return len(self.program) - 1

    def _fork(self, at: int, is_greedy: bool) -> None:
        ways = (at + 1, len(self.program))
        self.program[at] = (_FORK, *(ways if is_greedy else reversed(ways)))


def _run(
    program: _Program, text: Any, at: int, steps: _Steps, *, whole: bool = False, past: int = -1
) -> int | None:
    """Where a match that starts there ends; `past` is where it may not. Each way that is tried is a step."""
    size, taken, left = len(text), 0, steps.most - steps.taken
    is_text = isinstance(text, str)
    # What else to try, last first: the place in the program and in the text, where loops began, and in how
    # many places before that one a repetition may end as well.
    others: list[tuple[int, int, tuple[tuple[int, int], ...], int]] = [(0, at, (), 0)]
    while others:
        step, at, loops, more = others.pop()
        if more:
            others.append((step, at - 1, loops, more - 1))
        while True:
            taken += 1
            if taken > left:
                steps.take(taken)
            parts = program[step]
            kind = parts[0]
            if kind == _ONE:
                if at >= size or not parts[1](text[at] if is_text else text[at : at + 1]):
                    break
                at += 1
            elif kind == _REPEAT:
                _, row, least, most, gives_back = parts
                start, at = at, row(text, at, size if most is None else at + most).end()
                taken += at - start
                if at - start < least:
                    break
                spare = at - start - least
                if spare and gives_back:
                    others.append((step + 1, at - 1, loops, spare - 1))
            elif kind == _PLACE:
                if parts[1](text, at) is None:
                    break
            elif kind == _FORK:
                others.append((parts[2], at, loops, 0))
                step = parts[1]
                continue
            elif kind == _GO:
                step = parts[1]
                continue
            elif kind == _START:
                loops = (*(loop for loop in loops if loop[0] != parts[1]), (parts[1], at))
            elif kind == _MOVED:
                if (parts[1], at) in loops:  # Nothing was matched: another time would not either.
                    step += 2
                    continue
            elif kind == _INSIDE:
                _, inner, least, most = parts
                times = 0
                while most is None or times < most:
                    steps.take(taken)
                    end = _run(inner, text, at, steps)
                    taken, left = 0, steps.most - steps.taken
                    if end is None or (end == at and times >= least):
                        break
                    at, times = end, times + 1
                if times < least:
                    break
            elif kind == _AROUND:
                _, inner, back, is_wanted = parts
                steps.take(taken)
                is_there = at >= back and _run(inner, text, at - back, steps) is not None
                taken, left = 0, steps.most - steps.taken
                if is_there is not is_wanted:
                    break
            elif at == past or (whole and at != size):
                break
            else:
                steps.take(taken)
                return at
            step += 1
    steps.take(taken)
    return None
