"""docs/verify.md has every rule as it is, and the JSON that is printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import skillwire
from conformance.defective_server import make_server
from skillwire.conformance.report_json import as_json
from skillwire.conformance.rules import RULES

PAGE = (Path(__file__).parents[2] / "docs/verify.md").read_text("utf-8")


def shape(value: Any) -> Any:
    """The keys and types of a JSON value; of a list, those of its first item."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value)


def test_the_page_has_every_rule_as_it_is() -> None:
    rows = re.findall(r"^\| `(\S+)` \| (must|should|advice) \| (.+) \|$", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted((rule.id, rule.level.value, rule.expected) for rule in RULES)


@pytest.mark.anyio
async def test_the_page_has_the_json_that_is_printed() -> None:
    [block] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    report = await skillwire.verify(make_server("size-wrong"))
    printed = json.loads(as_json(report))
    assert shape(json.loads(block)) == shape(printed)
    assert list(json.loads(block)["findings"][0]) == list(printed["findings"][0])
