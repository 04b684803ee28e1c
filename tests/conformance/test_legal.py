"""Servers that are unusual and legal give no finding at all."""

from __future__ import annotations

import pytest

import skillwire
from conformance.legal_servers import LEGAL, make_legal

pytestmark = pytest.mark.anyio


@pytest.mark.slow
@pytest.mark.parametrize("name", LEGAL)
async def test_a_legal_server_has_no_finding(name: str) -> None:
    report = await skillwire.verify(make_legal(name))
    assert report.findings == (), list(map(str, report.findings))
    assert all(revision.checked >= 3 for revision in report.revisions)
