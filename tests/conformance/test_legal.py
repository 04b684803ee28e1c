"""Servers that are unusual and legal give no finding at all."""

from __future__ import annotations

import pytest

import skillwire
from conformance.clean_server import CleanServer
from conformance.legal_oddities import ODDITIES
from conformance.legal_servers import LEGAL, make_legal

pytestmark = pytest.mark.anyio


@pytest.mark.slow
@pytest.mark.parametrize("name", LEGAL)
async def test_a_legal_server_has_no_finding(name: str) -> None:
    report = await skillwire.verify(make_legal(name))
    assert report.findings == (), list(map(str, report.findings))
    assert all(revision.checked >= 3 for revision in report.revisions)


@pytest.mark.slow
@pytest.mark.parametrize("name", ODDITIES)
async def test_an_oddity_that_is_legal_breaks_no_rule(name: str) -> None:
    """Advice may still be given: about fields that hosts ignore, for example, or line endings."""
    server = CleanServer()
    ODDITIES[name](server)
    report = await skillwire.verify(server)
    assert report.violations == (), list(map(str, report.violations))
    assert any(revision.checked >= 3 for revision in report.revisions)
