"""JUnit XML, which CI systems read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from skillwire.text import escape_xml


@dataclass(frozen=True, slots=True)
class JUnitCase:
    """A test case: failed with a `failure`, did not run with an `error`. Each is a few words on one line."""

    name: str
    failure: str = ""
    kind: str = ""
    """The type of the failure."""
    error: str = ""
    output: str = ""


def junit_xml(name: str, suites: Mapping[str, Sequence[JUnitCase]]) -> str:
    """A JUnit document. Texts are escaped here; control characters must be gone from them."""
    cases = [case for suite in suites.values() for case in suite]
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuites name="{escape_xml(name)}" {_counts(cases)}>',
            *(line for suite, members in suites.items() for line in _suite(suite, members)),
            "</testsuites>",
            "",
        ]
    )


def _suite(name: str, cases: Sequence[JUnitCase]) -> Iterator[str]:
    name = escape_xml(name)
    yield f'  <testsuite name="{name}" {_counts(cases)} skipped="0">'
    for case in cases:
        opening = f'    <testcase classname="{name}" name="{escape_xml(case.name)}"'
        text = escape_xml(case.output)
        if not (case.failure or case.error or text):
            yield f"{opening}/>"
            continue
        yield f"{opening}>"
        if case.failure or case.error:
            word = "failure" if case.failure else "error"
            kind = f' type="{escape_xml(case.kind)}"' if case.kind else ""
            message = escape_xml(case.failure or case.error)
            yield f'      <{word}{kind} message="{message}">{text}</{word}>'
        else:
            yield f"      <system-out>{text}</system-out>"
        yield "    </testcase>"
    yield "  </testsuite>"


def _counts(cases: Sequence[JUnitCase]) -> str:
    failures = sum(bool(case.failure) for case in cases)
    errors = sum(bool(case.error) for case in cases)
    return f'tests="{len(cases)}" failures="{failures}" errors="{errors}"'
