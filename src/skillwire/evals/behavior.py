"""Behavior: what a model does in a scenario, with the skill and without it, several times.

Each run has a host, servers and state of its own, which are gone when it ends. The skills of the scenario
count as approved; a tool of a server is called only if the scenario allows it. The report is a JSON object;
every number in it follows from its list of runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from skillwire.chat import ChatLimits, ChatSession, Model
from skillwire.chat.session import SERVICE_FAILED
from skillwire.conformance import JUnitCase, junit_text
from skillwire.consent import ApprovalRequest
from skillwire.errors import SkillNotFound
from skillwire.evals.scenario import Scenario, Step
from skillwire.evals.selection import share
from skillwire.host import ReadRequest, SkillHost, SkillUse, ToolRequest
from skillwire.host.styles import DEFAULT
from skillwire.json_types import JsonObject, JsonValue
from skillwire.skill import SKILL_FILE
from skillwire.text import clean_text, escape_xml, safe_line

FORMAT: Final = "skillwire-eval-run/1"
ARMS: Final = ("with", "without")
"""With the skill, and without it."""
_ANSWER_CHARS: Final = 4000
_USAGE: Final = ("requests", "input_tokens", "output_tokens", "cost_usd")


@dataclass(slots=True)
class _Watch:
    """Records the steps of one run."""

    scenario: Scenario
    steps: list[Step] = field(default_factory=list[Step])

    def use(self, use: SkillUse) -> None:
        name = use.skill.entry.name
        verb, about = ("load", name) if use.path == SKILL_FILE else ("read", f"{name}/{use.path}")
        if use.kind == "refused":
            verb, about = "refused", f"{verb} {about}"
        if use.kind != "found":
            self.steps.append(Step.make(verb, about))

    async def approve(self, request: ApprovalRequest) -> bool:
        return True

    async def allow_read(self, request: ReadRequest) -> bool:
        return False

    async def allow_tool(self, request: ToolRequest) -> bool:
        name = request.qualified_name
        is_allowed = any(fnmatchcase(name, pattern) for pattern in self.scenario.allowed_tools)
        verb, about = ("call", name) if is_allowed else ("refused", f"call {name}")
        self.steps.append(Step.make(verb, about, request.arguments))
        return is_allowed


async def run_scenario(
    scenario: Scenario,
    model: Model,
    *,
    repeat: int = 1,
    control: bool = True,
    style: str = "",
    servers: Mapping[str, Any] | None = None,
    on_run: Callable[[JsonObject], None] = lambda run: None,
) -> JsonObject:
    """Run a scenario so many times with the skill and, for `control`, without it; give the report.

    `servers` are used in addition to those of the scenario: server objects of this process. `on_run` is
    called with each run that ended.
    """
    runs: list[JsonObject] = []
    for number in range(1, repeat + 1):
        for arm in ARMS if control else ARMS[:1]:
            run = await _run(scenario, model, style or scenario.settings.style or DEFAULT, arm, servers or {})
            runs.append({"number": number, "skill": arm, **run})
            on_run(runs[-1])
    return _report(scenario, f"{model.system}:{model.model_name}", style, repeat, runs)


async def _run(
    scenario: Scenario, model: Model, style: str, arm: str, servers: Mapping[str, Any]
) -> JsonObject:
    watch = _Watch(scenario)
    answer = error = ""
    with tempfile.TemporaryDirectory(prefix="skillwire-eval-") as name:
        state = Path(name)
        (state / "work").mkdir()
        host = SkillHost(
            servers={**scenario.settings.servers, **servers},
            directories=scenario.settings.local_directories,
            untrusted=scenario.settings.skipped,
            style=style,
            ask=watch.approve,
            ask_read=watch.allow_read,
            ask_tool=watch.allow_tool,
            on_use=watch.use,
            watch=False,
            cache_directory=state / "cache",
            approvals_file=state / "approvals.sqlite",
        )
        async with host:
            _switch_off(host, scenario, arm)
            limits = ChatLimits(turns=scenario.max_turns, tokens=scenario.max_tokens)
            session = ChatSession(host, model, limits=limits, folder=scenario.folder or state / "work")
            async for event in session.send(scenario.prompt):
                if event.type == "text":
                    answer += event.text
                elif event.type == "tool_call":
                    answer = ""
                elif event.type == "error":
                    error = event.text
            usage = session.usage_words() | ({"cost_usd": None} if error else {})
    met = [criterion.is_met(watch.steps, answer) for criterion in scenario.criteria]
    steps: list[JsonValue] = [step.to_json() for step in watch.steps]
    results: list[JsonValue] = [*met]
    return {
        "passed": all(met) and not error,
        "criteria": results,
        "steps": steps,
        "answer": clean_text(answer).text[:_ANSWER_CHARS],
        "error": error,
        # A run in which the model could not be asked says nothing about the skill.
        "counts": not error.startswith(SERVICE_FAILED),
        **{key: _number(usage[key]) for key in _USAGE},
    }


def _switch_off(host: SkillHost, scenario: Scenario, arm: str) -> None:
    """Turn off the skill in the control, or all of them; refuse a scenario whose skill is not there."""
    tested = [
        skill
        for skill in host.skills()
        if not scenario.skill or scenario.skill in (skill.handle, skill.entry.name)
    ]
    if not tested:
        failures = "; ".join(failure.message for failure in host.log.failures())
        what = f"no skill {safe_line(scenario.skill)}" if scenario.skill else "no skills"
        raise SkillNotFound(f"the scenario {scenario.name} has {what}{': ' if failures else ''}{failures}")
    for skill in tested if arm == "without" else ():
        host.admin.set_enabled(skill.handle, False)


def _report(
    scenario: Scenario, model: str, style: str, repeat: int, runs: Sequence[JsonObject]
) -> JsonObject:
    counted = {arm: [run for run in runs if run["skill"] == arm and run["counts"]] for arm in ARMS}
    criteria: list[JsonValue] = []
    for place, criterion in enumerate(scenario.criteria):
        row: JsonObject = {"name": criterion.name}
        for arm in ARMS:
            row[arm] = share(sum(_met(run)[place] for run in counted[arm]), len(counted[arm]))
        criteria.append(row)
    summary: JsonObject = {}
    for arm in ARMS:
        mine = [run for run in runs if run["skill"] == arm]
        usage: JsonObject = {key: _sum([run[key] for run in mine]) for key in _USAGE}
        passed = share(sum(run["passed"] is True for run in counted[arm]), len(counted[arm]))
        summary[arm] = {"passed": passed, "failedToRun": len(mine) - len(counted[arm]), **usage}
    listed: list[JsonValue] = [*runs]
    return {
        "format": FORMAT,
        "scenario": scenario.name,
        "prompt": clean_text(scenario.prompt).text,
        "model": safe_line(model),
        "style": style or scenario.settings.style or DEFAULT,
        "repeat": repeat,
        "summary": summary,
        "criteria": criteria,
        "runs": listed,
    }


def _met(run: JsonObject) -> list[bool]:
    results = run["criteria"]
    return [one is True for one in results] if isinstance(results, list) else []


def _number(value: object) -> JsonValue:
    return value if isinstance(value, int | float) else None


def _sum(values: Sequence[JsonValue]) -> JsonValue:
    """The sum; nothing if one is not known, such as the price of a model."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return round(sum(numbers), 6) if len(numbers) == len(values) else None


# Files


def as_junit(reports: Sequence[Mapping[str, Any]]) -> str:
    """A suite for each scenario, a case for each run: those of the control never fail."""
    suites: dict[str, list[JUnitCase]] = {}
    for report in reports:
        names = [criterion["name"] for criterion in report["criteria"]]
        for run in report["runs"]:
            missed = [name for name, met in zip(names, run["criteria"], strict=True) if not met]
            lines = [step["step"] for step in run["steps"]] + [run["answer"]]
            failure = ""
            if run["skill"] == "with" and run["counts"] and not run["passed"]:
                failure = run["error"] or f"not met: {'; '.join(missed)}"
            case = JUnitCase(
                f"{run['skill']} the skill, run {run['number']}",
                failure,
                error="" if run["counts"] else run["error"],
                output="\n".join(lines),
            )
            suites.setdefault(report["scenario"], []).append(case)
    return junit_text("skillwire eval run", suites)


_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = """
:root { color-scheme: light dark; --with: #1a7f4b; --without: #b4541a; --line: #8885; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .5rem; }
svg { width: 100%; max-width: 32rem; height: auto; }
svg text { font: 14px system-ui, sans-serif; fill: currentColor; }
.with { stroke: var(--with); fill: var(--with); color: var(--with); }
.without { stroke: var(--without); fill: var(--without); color: var(--without); }
@media (prefers-color-scheme: dark) { :root { --with: #4cc38a; --without: #f0915a; } }
.axis { stroke: var(--line); } summary { cursor: pointer; }
"""


def as_page(reports: Sequence[Mapping[str, Any]]) -> str:
    """A page with a plot for each scenario, which loads nothing and runs nothing."""
    body = "\n".join(_section(report) for report in reports)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>Results of skillwire eval run</title><style>{_STYLE}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def _section(report: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th class="{arm}">{arm} the skill</th>'
        f"<td>{share_words(one['passed'])}</td>"
        f"<td>{escape_xml(usage_words(one))}</td></tr>"
        for arm, one in report["summary"].items()
        if one["passed"]["of"] or one["failedToRun"]
    )
    names = [criterion["name"] for criterion in report["criteria"]]
    runs = "".join(_run_details(run, names) for run in report["runs"])
    return (
        f"<h1>{escape_xml(report['scenario'])}</h1>\n<p>{escape_xml(report['model'])}, style "
        f"{escape_xml(report['style'])}, {report['repeat']} of each. Bars are 95 % intervals.</p>\n"
        f"<pre>{escape_xml(report['prompt'])}</pre>\n<table>{rows}</table>\n{_plot(report)}\n"
        f"<h2>Runs</h2>\n{runs}"
    )


def _plot(report: Mapping[str, Any]) -> str:
    """The share of runs that met each criterion, with its interval, with the skill and without it."""
    rows = [
        ("all criteria", {arm: report["summary"][arm]["passed"] for arm in ARMS}),
        *((criterion["name"], criterion) for criterion in report["criteria"]),
    ]
    left, width, step = 22, 430, 54
    height = step * len(rows) + 30
    parts = [f'<svg viewBox="0 0 {left + width + 28} {height}" role="img" aria-label="pass rates">']
    for percent in (0, 25, 50, 75, 100):
        x = left + width * percent / 100
        parts.append(f'<line class="axis" x1="{x}" y1="5" x2="{x}" y2="{height - 24}"/>')
        parts.append(f'<text x="{x}" y="{height - 6}" text-anchor="middle">{percent} %</text>')
    for number, (name, shares) in enumerate(rows):
        y = step * number + 30
        parts.append(f'<text x="0" y="{y - 12}">{escape_xml(safe_line(name, limit=52))}</text>')
        for arm, at in (("with", y), ("without", y + 12)):
            one = shares[arm]
            if one["of"]:
                low, middle, high = (left + width * one[key] / 100 for key in ("low", "percent", "high"))
                said = escape_xml(f"{name}, {arm} the skill: {share_words(one)}")
                parts.append(
                    f'<g class="{arm}"><title>{said}</title><line x1="{low:.1f}" y1="{at}" x2="{high:.1f}" '
                    f'y2="{at}" stroke-width="2"/><circle cx="{middle:.1f}" cy="{at}" r="4"/></g>'
                )
    return "".join([*parts, "</svg>"])


def _run_details(run: Mapping[str, Any], names: Sequence[str]) -> str:
    verdict = "passed" if run["passed"] else "not counted" if not run["counts"] else "failed"
    marks = "".join(
        f"<li>{'met' if met else 'not met'}: {escape_xml(name)}</li>"
        for name, met in zip(names, run["criteria"], strict=True)
    )
    lines = [
        " ".join([step["step"], *(f"{key}={value}" for key, value in step.get("arguments", {}).items())])
        for step in run["steps"]
    ]
    said = "\n".join([*lines, "", run["answer"], *([run["error"]] if run["error"] else [])])
    return (
        f"<details><summary>{run['skill']} the skill, run {run['number']}: {verdict}</summary>"
        f"<ul>{marks}</ul><pre>{escape_xml(said)}</pre></details>\n"
    )


def share_words(one: Mapping[str, Any]) -> str:
    """A share and its interval, in whole percent."""
    if not one["of"]:
        return "not run"
    return f"{one['percent']:.0f} % ({one['right']} of {one['of']}; {one['low']:.0f} to {one['high']:.0f})"


def usage_words(one: Mapping[str, Any]) -> str:
    """Return the cost of runs in words: requests, tokens and US dollars."""
    dollars = "price not known" if one["cost_usd"] is None else f"${one['cost_usd']:.4f}"
    return f"{one['requests']} requests, {one['input_tokens']} + {one['output_tokens']} tokens, {dollars}"
