"""Every requirement has a test that shows it, and every test shows a requirement that exists."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from spec_requirements import REQUIREMENTS

TESTS = Path(__file__).parent
KNOWN = {requirement.id: requirement for requirement in REQUIREMENTS}


@dataclass(frozen=True, slots=True)
class Mark:
    """One requirement id, and the place of the mark that names it."""

    id: str
    place: str


def marks_in(source: str, place: str) -> Iterator[Mark]:
    """Find the ids of every `pytest.mark.requirement(...)` in a test file.

    The source is read rather than the collected session, so that a run of a few tests, or of one worker of
    many, sees the same marks as a run of all.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "requirement" and ast.unparse(node.func) == "pytest.mark.requirement":
            for argument in node.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise ValueError(
                        f"{place}:{node.lineno}: write the ids of a requirement mark as plain strings"
                    )
                yield Mark(argument.value, f"{place}:{node.lineno}")


@cache
def all_marks() -> list[Mark]:
    return [
        mark
        for file in sorted(TESTS.rglob("test_*.py"))
        if file != Path(__file__)
        if "mark.requirement" in (text := file.read_text("utf-8"))
        for mark in marks_in(text, str(file.relative_to(TESTS)))
    ]


def test_every_requirement_has_a_test() -> None:
    shown = {mark.id for mark in all_marks()}
    missing = [r for r in REQUIREMENTS if r.id not in shown]
    assert not missing, "no test shows: " + "; ".join(f"{r.id} ({r.text})" for r in missing)


def test_every_mark_names_a_requirement() -> None:
    assert [f"{mark.place}: {mark.id}" for mark in all_marks() if mark.id not in KNOWN] == []


def test_no_requirement_is_listed_twice() -> None:
    assert len(KNOWN) == len(REQUIREMENTS)


@pytest.mark.parametrize(
    ("source", "ids"),
    [
        pytest.param(
            '@pytest.mark.requirement("A-1", "B-2")\ndef test_x(): ...', ["A-1", "B-2"], id="decorator"
        ),
        pytest.param('pytestmark = [pytest.mark.requirement("A-1")]', ["A-1"], id="whole file"),
        pytest.param(
            'CASES = [pytest.param(1, marks=pytest.mark.requirement("A-1"))]', ["A-1"], id="one case"
        ),
        pytest.param('"""pytest.mark.requirement("A-1")"""', [], id="only words"),
        pytest.param('@pytest.mark.parametrize("x", ["A-1"])\ndef test_x(x): ...', [], id="another mark"),
    ],
)
def test_marks_are_found_wherever_pytest_takes_them(source: str, ids: list[str]) -> None:
    assert [mark.id for mark in marks_in(source, "test_x.py")] == ids


def test_a_mark_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match=r"test_x\.py:1: .*plain strings"):
        list(marks_in("pytestmark = pytest.mark.requirement(*IDS)", "test_x.py"))
