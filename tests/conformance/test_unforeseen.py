"""Defects and oddities that no rule was written for: the former are found, the latter give no finding."""

from __future__ import annotations

import pytest

import skillwire
from conformance.clean_server import CleanServer
from conformance.unforeseen import DEFECTIVE, UNUSUAL
from skillwire.errors import SourceError

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

UNREADABLE = ("json-as-plain-text", "byte-order-mark-before-json")
"""Nothing of them can be read, so nothing is verified: that is no pass either."""


@pytest.mark.parametrize("name", DEFECTIVE)
async def test_a_defect_that_no_rule_was_written_for_is_found(name: str) -> None:
    server = CleanServer()
    DEFECTIVE[name](server)
    if name in UNREADABLE:
        with pytest.raises(SourceError):
            await skillwire.verify(server)
    else:
        assert (await skillwire.verify(server)).violations


@pytest.mark.parametrize("name", UNUSUAL)
async def test_an_oddity_that_no_rule_was_written_for_is_legal(name: str) -> None:
    server = CleanServer()
    UNUSUAL[name](server)
    report = await skillwire.verify(server)
    assert report.violations == (), list(map(str, report.violations))
    assert all(revision.checked >= 3 for revision in report.revisions)
