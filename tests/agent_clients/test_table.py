"""The table of docs/clients.md is what the runs of the pinned clients saw."""

from __future__ import annotations

import json

import pytest
from tools.agents import COUNTS, PAGE, PINS, TITLES, recorded, with_table

from agent_clients.test_agents import CONTEXT_CHARS

REPORTS = {report["client"]: report for report in recorded()}


def test_the_page_has_the_table_that_the_record_gives() -> None:
    assert with_table(PAGE.read_text("utf-8")) == PAGE.read_text("utf-8"), (
        "run: python -m tools.agents --table"
    )


def test_the_record_is_of_the_pinned_versions() -> None:
    pins = {
        version.partition("-")[0] for version in json.loads(PINS.read_text("utf-8"))["dependencies"].values()
    }
    seen = {report["version"].partition("-")[0] for report in REPORTS.values()}
    assert set(REPORTS) <= set(TITLES)
    assert seen <= pins, "the clients were pinned anew: run python -m tools.agents"


@pytest.mark.parametrize("client", REPORTS)
def test_every_fact_of_the_record_holds(client: str) -> None:
    report = REPORTS[client]
    assert [fact for fact, holds in report["facts"].items() if not holds] == []
    assert report["waits"] is not False


def test_the_gateway_stayed_within_its_budget_of_context() -> None:
    measured = [report["context"] for report in REPORTS.values()]
    assert all(set(chars) == set(COUNTS) and max(chars.values()) <= CONTEXT_CHARS for chars in measured)
