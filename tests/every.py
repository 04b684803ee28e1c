"""Many cases of one fact in one test, which fails with the list of all that do not hold.

Where a failure needs a name of its own, use `pytest.mark.parametrize`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def every(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Calls the test with each case, which is a value for each of the names, separated by commas; with one
    name, it is the value. Fixtures are made once, for all cases."""
    fields = [name.strip() for name in names.split(",")]
    rows = [(case,) if len(fields) == 1 else tuple(case) for case in cases]
    assert rows, f"there are no cases of {names}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def test_all(**fixtures: Any) -> None:
            failed: list[str] = []
            for row in rows:
                try:
                    test(**dict(zip(fields, row, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(f"{', '.join(map(str, row))}: {type(error).__name__}: {error}")
            if failed:
                pytest.fail(f"{len(failed)} of {len(rows)} cases:\n" + "\n".join(failed), pytrace=False)

        shared = [one for one in inspect.signature(test).parameters.values() if one.name not in fields]
        # What pytest reads to find the fixtures.
        test_all.__signature__ = inspect.Signature(shared)  # pyright: ignore[reportAttributeAccessIssue]
        return test_all

    return decorate
