"""A trial: one task through a model service, and the five things that are checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from scripted_model import ScriptedModel, serving
from simulator import agree, make_host
from skillwire import SkillServer
from skillwire.adapters.trial import TRIAL_SKILL, TRIAL_TASK, HttpService, Trial, run_trial, write_trial_skill
from skillwire.errors import SourceError

pytestmark = pytest.mark.anyio

Move = Callable[[list[str]], str | tuple[str, dict[str, Any]]]
LOAD = ("load_skill", {"name": TRIAL_SKILL})
READ = ("read_skill_file", {"name": TRIAL_SKILL, "path": "references/signal.md"})


def report(results: list[str]) -> str:
    return next(line for line in results[-1].splitlines() if "signal word" in line)


async def trial(
    tmp_path: Path, format: Literal["anthropic", "openai"], *script: Move, key: str = "secret-key"
) -> Trial:
    word = write_trial_skill(tmp_path / "skills")
    model = ScriptedModel(list(script))
    with serving(model):
        service = HttpService(format, model.url, key, "test-model")
        async with make_host(
            tmp_path, servers={"trial": SkillServer(tmp_path / "skills")}, ask=agree
        ) as host:
            made = await run_trial(host, service, skill=TRIAL_SKILL, task=TRIAL_TASK, expect=word)
    assert all(request["model"] == "test-model" for request in model.requests)
    return made


@pytest.mark.parametrize("format", ["anthropic", "openai"])
async def test_a_model_that_uses_the_skill_passes_all_five(tmp_path: Path, format: Any) -> None:
    made = await trial(tmp_path, format, lambda _: LOAD, lambda _: READ, report)
    assert [check.passed for check in made.checks] == [True] * 5, made
    assert made.passed
    assert [name for name, _ in made.calls] == ["load_skill", "read_skill_file"]


@pytest.mark.parametrize("format", ["anthropic", "openai"])
@pytest.mark.parametrize(
    ("script", "passed"),
    [
        ([lambda _: "Platform 4: all well."], [True, False, False, False, False]),
        ([lambda _: LOAD, lambda _: "Platform 4: all well."], [True, True, True, False, False]),
        ([lambda _: LOAD, lambda _: READ, lambda _: "All well."], [True, True, True, True, False]),
        ([lambda _: ("no_such_tool", {}), lambda _: "All well."], [True, False, False, False, False]),
        (
            [lambda _: ("load_skill", {"name": "other"}), lambda _: "Well."],
            [True, False, False, False, False],
        ),
    ],
    ids=["ignores the skill", "reads no file", "ignores the file", "calls no tool of ours", "wrong skill"],
)
async def test_what_a_model_leaves_out_fails_its_check(
    tmp_path: Path, format: Any, script: list[Move], passed: list[bool]
) -> None:
    made = await trial(tmp_path, format, *script)
    assert [check.passed for check in made.checks] == passed, made
    assert not made.passed


async def test_a_model_that_never_stops_calling_tools_is_stopped(tmp_path: Path) -> None:
    made = await trial(tmp_path, "anthropic", *[lambda _: LOAD] * 50)
    assert len(made.calls) == 12
    assert not made.passed


@pytest.mark.parametrize("format", ["anthropic", "openai"])
async def test_a_key_that_is_not_accepted_is_an_error_that_does_not_show_it(
    tmp_path: Path, format: Any
) -> None:
    with pytest.raises(SourceError, match="does not accept the key") as raised:
        await trial(tmp_path, format, report, key="wrong-key")
    assert "wrong-key" not in str(raised.value)
    assert "wrong-key" not in repr(HttpService(format, "http://x", "wrong-key", "m"))


async def test_a_service_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    write_trial_skill(tmp_path / "skills")
    service = HttpService("openai", "http://127.0.0.1:9", "k", "m")
    async with make_host(tmp_path, servers={"trial": SkillServer(tmp_path / "skills")}, ask=agree) as host:
        with pytest.raises(SourceError, match=r"127\.0\.0\.1:9 cannot be reached"):
            await run_trial(host, service, skill=TRIAL_SKILL, task=TRIAL_TASK, expect="x")
