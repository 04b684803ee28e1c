"""Fixtures for tests of what a skill is."""

from __future__ import annotations

import pytest

from frontmatter_blocks import PARSERS
from skillwire.skill.yaml import core as yaml_core


@pytest.fixture(params=PARSERS)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test once with libyaml and once with PyYAML's own Python."""
    monkeypatch.setattr(yaml_core, "FastParser", PARSERS[request.param])
    return request.param
