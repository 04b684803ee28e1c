"""docs/verify.md has the JSON that is printed, and every rule its source."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import skillwire
from conformance.defective_server import make_server
from skillwire.conformance import RULES, as_json

PAGE = (Path(__file__).parents[2] / "docs/verify.md").read_text("utf-8")


def shape(value: Any) -> Any:
    """The keys and types of a JSON value; of a list, those of its first item."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value)


def test_every_rule_cites_a_sentence_and_links_to_it() -> None:
    for rule in RULES:
        assert rule.clause.says.endswith("."), rule.id
        assert rule.clause.link.startswith("https://"), rule.id
    own = [rule for rule in RULES if rule.id.split("-")[0] in ("CAP", "LST", "GET", "ENT", "DIR")]
    assert sum("modelcontextprotocol.io/" in rule.clause.link for rule in own) == len(own)


@pytest.mark.anyio
async def test_the_page_has_the_json_that_is_printed() -> None:
    [block] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    report = await skillwire.verify(make_server("size-wrong"), revisions=["2026-07-28"])
    printed = json.loads(as_json(report))
    assert shape(json.loads(block)) == shape(printed)
    assert list(json.loads(block)["findings"][0]) == list(printed["findings"][0])
