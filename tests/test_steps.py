"""`count_steps` tells what grows with its input from what grows faster, and gives up what would never end."""

from __future__ import annotations

import re

import pytest

from steps import TooManySteps, count_steps


def lines(size: int) -> None:
    for _ in range(size):
        pass


def pairs(size: int) -> None:
    for _ in range(size):
        lines(size)


def test_twice_the_work_takes_twice_the_steps_and_its_square_four_times() -> None:
    assert count_steps(lambda: lines(2_000)) / count_steps(lambda: lines(1_000)) == pytest.approx(2, abs=0.1)
    assert count_steps(lambda: pairs(200)) / count_steps(lambda: pairs(100)) == pytest.approx(4, abs=0.2)


@pytest.mark.parametrize(
    ("pattern", "unit", "growth"),
    [
        ("[a-c]+d", "abc", 4),
        (r"\w*@", "abc", 4),
        (r'"(?:[^"\\]|\\.)*?"', '\\"', 4),
        ("(?:a|b)*c", "ab", 4),
        ("(?=a*b)a", "a", 4),
        ("[a-c]++d", "abcd", 2),
        (r"(?<!\w)\w+@", "abc", 2),
        ("(?>a*)", "a", 2),
        ("a{0,30}b", "a", 2),
        ("x?y*|(?:ab){2}", "ab", 2),
    ],
)
def test_the_steps_of_a_pattern_grow_as_its_time_does(pattern: str, unit: str, growth: int) -> None:
    def steps(size: int) -> int:
        return count_steps(lambda: re.findall(pattern, unit * size))

    assert steps(200) / steps(100) == pytest.approx(growth, abs=0.3)


def test_a_pattern_that_would_take_for_ever_is_given_up() -> None:
    with pytest.raises(TooManySteps):
        count_steps(lambda: re.search("(?:a+)+b", "a" * 60), most=100_000)


def test_a_counted_pattern_answers_what_the_real_one_does() -> None:
    pattern = re.compile(r"(?P<name>[a-z]+)(?:-(?P<number>\d{1,3}))?|\s*?(?=\d)|$", re.MULTILINE)
    text = "one-1 two-22\nthree-3333 4\n"
    answers: list[object] = []

    def ask() -> None:
        counted = re.compile(pattern.pattern, pattern.flags)
        assert counted is not pattern
        answers.extend([counted.findall(text), counted.sub("<\\g<name>>", text), counted.split(text)])
        answers.append([match.groupdict() for match in counted.finditer(text)])
        answers.append([counted.search(text, 5), counted.match(text, 4), counted.fullmatch("four-4")])

    count_steps(ask)
    found = [match and match.group() for match in answers.pop()]  # type: ignore[attr-defined]
    assert found == ["two-22", "", "four-4"]
    assert answers == [
        pattern.findall(text),
        pattern.sub("<\\g<name>>", text),
        pattern.split(text),
        [match.groupdict() for match in pattern.finditer(text)],
    ]
    assert type(re.compile("a")) is re.Pattern
