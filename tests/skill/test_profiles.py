"""Profiles: what known consumers of skills take, in `lint` and `verify` alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire.conformance import RULES
from skillwire.limits import MIB
from skillwire.skill import PROFILES, unmet_demands
from skillwire.skill.lint import profile_named
from skillwire.sources.directory.authoring import lint_paths

CHATGPT = PROFILES["chatgpt"]
SMALL = {"SKILL.md": 1000}


@pytest.mark.parametrize(
    ("skills", "demands"),
    [
        ({"a": SMALL}, []),
        ({f"s{number}": SMALL for number in range(5)}, []),
        ({f"s{number}": SMALL for number in range(6)}, [("skills", "")]),
        ({"a": {**SMALL, **{f"{number}": 1 for number in range(10)}}}, []),
        ({"a": {**SMALL, **{f"{number}": 1 for number in range(11)}}}, [("files", "a")]),
        ({"a": {"SKILL.md": 257 * 1024}}, [("skill-md-bytes", "a")]),
        ({"a": {**SMALL, "x": MIB + 1}}, [("file-bytes", "a")]),
        ({"a": {**SMALL, **{f"{number}": MIB for number in range(5)}}}, [("skill-bytes", "a")]),
        (
            {"a": {f"{n}": MIB for n in range(4)}, "b": {f"{n}": MIB for n in range(4)}, "c": {"x": 1}},
            [("server-bytes", "")],
        ),
    ],
)
def test_what_chatgpt_takes(skills: dict[str, dict[str, int]], demands: list[tuple[str, str]]) -> None:
    assert [(demand.rule, demand.skill) for demand in unmet_demands(CHATGPT, skills)] == demands


def test_every_profile_says_where_and_when_its_limits_were_read() -> None:
    for name, profile in PROFILES.items():
        assert profile_named(name) is profile
        assert profile.title
        assert profile.source
        assert len(profile.date) == len("2026-08")


def test_every_demand_is_a_rule_of_verify() -> None:
    rules = {rule.id for rule in RULES}
    names = ("skills", "files", "skill-bytes", "skill-md-bytes", "file-bytes", "server-bytes")
    assert {f"PROFILE/{name}" for name in names} <= rules


def test_lint_reports_the_demands_as_errors_where_a_profile_is_given(tmp_path: Path) -> None:
    for number in range(6):
        directory = tmp_path / f"skill-{number}"
        directory.mkdir()
        (directory / "SKILL.md").write_text(
            f"---\nname: skill-{number}\ndescription: Do one thing: well. Use when asked.\n---\n# Steps\n"
        )
    rules = {issue.rule for one in lint_paths([tmp_path], profile=CHATGPT) for issue in one.issues}
    assert "profile-skills" in rules
