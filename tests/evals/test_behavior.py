"""Scenarios: how they are read, what the criteria say, and what a report has."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from chat.forge import SERVER, next_move
from scripted_model import ScriptedModel, anthropic_model, serving
from skillwire.chat import demo_skills
from skillwire.chat.demo import Move, scripted_model
from skillwire.errors import FormatError, SkillNotFound, SourceError
from skillwire.evals import Criterion, Scenario, Step, as_junit, as_page, read_scenario, run_scenario
from skillwire.host import HostConfig
from skillwire.server import SkillServer

pytestmark = pytest.mark.anyio

STEPS = [
    Step.make("load", "review"),
    Step.make("call", "forge/open", {"number": 7}),
    Step.make("refused", "call forge/delete", {"all": True}),
    Step.make("call", "forge/finish", {"verdict": "approve", "tags": ["a", "b"]}),
]


@pytest.mark.parametrize(
    ("criterion", "met"),
    [
        (Criterion(name="", steps=("load review",)), True),
        (Criterion(name="", steps=("load other",)), False),
        (Criterion(name="", steps=("load *", "call */finish")), True),
        (Criterion(name="", steps=("call forge/finish", "call forge/open")), False),
        (Criterion(name="", steps=("call forge/open", "call forge/open")), False),
        (Criterion(name="", steps=("load review",), before=("call forge/*",)), True),
        (Criterion(name="", steps=("call forge/finish",), before=("call forge/*",)), False),
        (Criterion(name="", steps=("load review",), before=("call none/*",)), True),
        (Criterion(name="", steps=("call forge/finish",), arguments={"verdict": "app*"}), True),
        (Criterion(name="", steps=("call forge/finish",), arguments={"verdict": "no"}), False),
        (Criterion(name="", steps=("call forge/finish",), arguments={"missing": "*"}), False),
        (Criterion(name="", steps=("call forge/finish",), arguments={"tags": '*"b"*'}), True),
        (Criterion(name="", steps=("call *", "call *"), arguments={"verdict": "*"}), True),
        (Criterion(name="", never=("call forge/post",)), True),
        (Criterion(name="", never=("call forge/open",)), False),
        (Criterion(name="", never=("call forge/delete",)), False),
        (Criterion(name="", steps=("call forge/delete",)), False),
        (Criterion(name="", steps=("refused call forge/delete",)), True),
        (Criterion(name="", answer="*Submitted*"), True),
        (Criterion(name="", answer="submitted"), False),
    ],
)
def test_a_criterion_is_about_the_order_the_arguments_and_the_answer(criterion: Criterion, met: bool) -> None:
    assert criterion.is_met(STEPS, "It was submitted.") is met


def test_a_step_has_neither_control_characters_nor_any_length() -> None:
    step = Step.make("call", "forge/\x1b[31m\u202ename" + "x" * 10_000, {"a": "\x1b" + "y" * 100_000})
    text = json.dumps(step.to_json())
    assert "\\u001b" not in text
    assert "\\u202e" not in text
    assert len(text) < 5000


def test_the_scenario_of_a_review_is_read_with_its_server(tmp_path: Path) -> None:
    scenario = read_scenario(SERVER.parent)
    assert scenario == read_scenario(SERVER.parent / "scenario.toml")
    assert (scenario.name, scenario.skill, len(scenario.criteria)) == ("pr-review", "pull-requests", 5)
    assert scenario.settings.servers["forge"].directory == str(SERVER.parent)
    with pytest.raises(SourceError, match="cannot be read"):
        read_scenario(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "prompt is missing"),
        ('prompt = "x"', "criteria is missing"),
        ('prompt = "x"\n[criteria.a]\nsteps = ["load x"]', "servers is missing"),
        ('prompt = "x"\ndirectories = ["."]\n[criteria.a]', "asks for nothing"),
        ('prompt = "x"\ndirectories = ["."]\n[criteria.a]\nsteps = ["open x"]', "has the step open x"),
        (
            'prompt = "x"\ndirectories = ["."]\n[criteria.a]\nnever = ["load x"]\nbefore = ["load x"]',
            "about st",
        ),
        (
            'prompt = "x"\ndirectories = ["."]\nmax_turns = 0\n[criteria.a]\nanswer = "*"',
            "whole number from 1",
        ),
        ('prompt = "x"\ndirectories = ["."]\nskil = "y"\n[criteria.a]\nanswer = "*"', "did you mean skill"),
        ('prompt = "x"\nallowed_tools = ["y"]\ndirectories = ["."]\n[criteria.a]\nanswer = "*"', "has y"),
        ('prompt = "x"\n[servers."a b"]\nurl = "ftp://x"\n[criteria.a]\nanswer = "*"', "http"),
        ("prompt = ", "not TOML"),
    ],
)
def test_a_mistake_in_a_scenario_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "scenario.toml").write_text(text)
    with pytest.raises(FormatError) as raised:
        read_scenario(tmp_path)
    assert message in str(raised.value)


CRITERIA = (
    Criterion(name="the skill <b>is</b> loaded", steps=("load release-notes",)),
    Criterion(name="it answers", answer="*done*"),
)


def scenario_of(**options: Any) -> Scenario:
    settings = {"name": "notes", "prompt": "Write <i>notes</i>.", "skill": "release-notes"}
    return Scenario(**{**settings, "criteria": CRITERIA, "settings": HostConfig(), **options})


def notes(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
    """Loads the skill if it is told of it."""
    if "release-notes" in told and not results:
        return [("load_skill", {"name": "release-notes"})]
    return ["Done <script>alert(1)</script>\x1b[31m"]


async def report_of(folder: Path, model: Any = None, **options: Any) -> Any:
    given = {key: options.pop(key) for key in ("repeat", "control") if key in options}
    server = SkillServer(demo_skills(folder))
    made = await run_scenario(
        scenario_of(**options), model or scripted_model(notes), servers={"demo": server}, **given
    )
    return json.loads(json.dumps(made))


def recomputed(report: Any) -> Any:
    """The numbers of a report from its runs."""
    arms = {
        arm: [r for r in report["runs"] if r["skill"] == arm and r["counts"]] for arm in ("with", "without")
    }
    passed = {arm: (sum(run["passed"] for run in runs), len(runs)) for arm, runs in arms.items()}
    met = [
        {arm: (sum(run["criteria"][n] for run in runs), len(runs)) for arm, runs in arms.items()}
        for n in range(len(report["criteria"]))
    ]
    tokens = {a: sum(r["input_tokens"] for r in report["runs"] if r["skill"] == a) for a in arms}
    return passed, met, tokens


def wilson(right: int, count: int) -> tuple[float, float]:
    share, z = right / count, 1.959964
    half = z * math.sqrt(share * (1 - share) / count + z * z / 4 / count**2) / (1 + z * z / count)
    middle = (share + z * z / 2 / count) / (1 + z * z / count)
    return round(100 * (middle - half), 1), round(100 * (middle + half), 1)


async def test_every_number_follows_from_the_runs(tmp_path: Path) -> None:
    report = await report_of(tmp_path, repeat=3)
    passed, met, tokens = recomputed(report)
    assert passed == {"with": (3, 3), "without": (0, 3)}
    for arm, (right, count) in passed.items():
        share = report["summary"][arm]["passed"]
        assert (share["right"], share["of"]) == (right, count)
        assert (share["low"], share["high"]) == wilson(right, count)
        assert share["percent"] == round(100 * right / count, 1)
        assert report["summary"][arm]["input_tokens"] == tokens[arm] > 0
    for row, shares in zip(report["criteria"], met, strict=True):
        assert {arm: (row[arm]["right"], row[arm]["of"]) for arm in shares} == shares
    assert [row["name"] for row in report["criteria"]] == [one.name for one in CRITERIA]
    assert report["runs"][0]["steps"] == [{"step": "load release-notes"}]
    assert report["runs"][1]["steps"] == []


async def test_without_a_control_or_a_named_skill(tmp_path: Path) -> None:
    report = await report_of(tmp_path, control=False)
    assert [run["skill"] for run in report["runs"]] == ["with"]
    assert report["summary"]["without"]["passed"]["of"] == 0
    assert (await report_of(tmp_path, skill=""))["summary"]["without"]["passed"]["right"] == 0
    with pytest.raises(SkillNotFound, match="no skill other"):
        await report_of(tmp_path, skill="other")


async def test_a_tool_that_is_not_allowed_is_not_called(tmp_path: Path) -> None:
    log: list[str] = []
    import runpy

    module: Any = runpy.run_path(str(SERVER))
    module["get_pull_request"].__globals__["log"] = lambda tool, **arguments: log.append(tool)

    def one(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
        return [next_move(told, tools, results)]

    scenario = replace(read_scenario(SERVER.parent), settings=HostConfig(), allowed_tools=("forge/open_*",))
    report: Any = await run_scenario(scenario, scripted_model(one), servers={"forge": module["server"]})
    first = [step["step"] for step in report["runs"][0]["steps"]]
    assert first[:3] == [
        "load pull-requests",
        "read pull-requests/references/GUIDE.md",
        "call forge/open_pending_review",
    ]
    assert first[3] == "refused call forge/attach_review_note"
    assert report["runs"][1]["steps"][0]["step"] == "refused call forge/post_review"
    assert "post_review" not in log
    assert "attach_review_note" not in log
    assert report["runs"][1]["criteria"][-1] is False


async def test_a_service_that_fails_is_not_counted_and_one_that_is_stopped_is(tmp_path: Path) -> None:
    with serving(ScriptedModel([lambda results: "hello"])) as service:
        report = await report_of(tmp_path, anthropic_model(service.url, "wrong"))
    assert [run["counts"] for run in report["runs"]] == [False, False]
    assert report["summary"]["with"]["failedToRun"] == 1
    assert report["summary"]["with"]["passed"]["of"] == 0
    root = ElementTree.fromstring(as_junit([report]))
    assert (root.attrib["errors"], root.attrib["failures"]) == ("2", "0")

    def forever(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
        return [("load_skill", {"name": "release-notes"})]

    report = await report_of(tmp_path, scripted_model(forever), max_turns=3, control=False)
    [run] = report["runs"]
    assert run["counts"]
    assert not run["passed"]
    assert run["requests"] == 3
    assert run["cost_usd"] is None
    assert run["error"].startswith("stopped: ")


async def test_junit_has_a_case_for_each_run_and_the_control_never_fails(tmp_path: Path) -> None:
    report = await report_of(
        tmp_path, criteria=(*CRITERIA, Criterion(name="a & <b>", steps=("load nothing",)))
    )
    root = ElementTree.fromstring(as_junit([report]))
    [suite] = root
    assert (suite.attrib["name"], suite.attrib["tests"], suite.attrib["failures"]) == ("notes", "2", "1")
    first, control = suite
    assert first[0].attrib["message"] == "not met: a & <b>"
    assert "load release-notes" in (first[0].text or "")
    assert control.find("failure") is None


class Page(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.places: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.places += [value or "" for name, value in attrs if name in ("src", "href", "action", "style")]


async def test_the_page_has_a_plot_and_shows_what_others_wrote_as_text(tmp_path: Path) -> None:
    hostile = Criterion(name="<b>criterion</b>", steps=("load *",))
    prompt = "Write <i>notes</i>"
    report = await report_of(tmp_path, name="notes <img src=x>", prompt=prompt, criteria=(*CRITERIA, hostile))
    assert all("\x1b" not in run["answer"] for run in report["runs"])
    page = as_page([report])
    parsed = Page(page)
    assert set(parsed.tags).isdisjoint({"script", "i", "b", "img", "link", "iframe"})
    assert parsed.places == []
    assert parsed.tags.count("circle") == 8
    assert page.count("&lt;b&gt;criterion") == 1 + 2 + 2
    assert "default-src 'none'" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\x1b" not in page
