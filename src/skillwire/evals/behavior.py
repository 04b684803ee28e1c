"""Behavior: what a model does in a scenario, with the skill and without it, several times.

Each run has a host, servers and state of its own, which are gone when it ends. The skills of the scenario
count as approved; a tool of a server is called only if the scenario allows it. The report is a JSON object;
every number in it follows from its list of runs.

A scenario is a TOML file, or a folder with a `scenario.toml`: a task, the servers, and criteria about what a
model did, as a sequence of steps, and about its answer. A step is a line: `load SKILL`, `read SKILL/PATH`,
`call SERVER/TOOL` or `refused ...` for one that was not allowed. In patterns `*` stands for any text.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from skillwire.chat import SERVICE_FAILED, ChatLimits, ChatSession, Model
from skillwire.consent import ApprovalRequest
from skillwire.documents import DocumentError, JsonObject, JsonValue, read_toml
from skillwire.errors import FormatError, Issue, SkillNotFound, SourceError
from skillwire.evals.selection import share
from skillwire.files import read_regular, unreadable
from skillwire.host import (
    ConfigTable,
    HostConfig,
    ReadRequest,
    SkillHost,
    SkillUse,
    ToolRequest,
    load_settings,
)
from skillwire.host.styles import DEFAULT
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.reports.junit import JUnitCase, junit_xml
from skillwire.skill import SKILL_FILE
from skillwire.text import clean_line, clean_text, escape_xml, safe_line

SCENARIO_FILE: Final = "scenario.toml"
_STEP_CHARS: Final = 300
_VERBS: Final = ("load", "read", "call", "refused", "*")


@dataclass(frozen=True, slots=True)
class Step:
    """Something that a model did. `arguments` are those of a call."""

    line: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])

    @classmethod
    def make(cls, verb: str, about: str, arguments: Mapping[str, object] | None = None) -> Step:
        """A step about a name that a model or a server wrote."""
        return cls(safe_line(f"{verb} {about}", limit=_STEP_CHARS), arguments or {})

    def matches(self, pattern: str, arguments: Mapping[str, str] | None = None) -> bool:
        """Whether the line fits a pattern, and each of these arguments too."""
        return fnmatchcase(self.line, pattern) and all(
            name in self.arguments and fnmatchcase(_text(self.arguments[name]), wanted)
            for name, wanted in (arguments or {}).items()
        )

    def to_json(self) -> JsonObject:
        """The step for a report: arguments as text."""
        if not self.arguments:
            return {"step": self.line}
        return {
            "step": self.line,
            "arguments": {clean_line(k).text: _text(v) for k, v in self.arguments.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One criterion. All that it says must hold."""

    name: str
    steps: tuple[str, ...] = ()
    """Steps that happen in this order, with or without others between them."""
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    """Patterns for the arguments of the last of these steps."""
    before: tuple[str, ...] = ()
    """The steps happen before the first step that fits one of these."""
    never: tuple[str, ...] = ()
    """Steps that do not happen, nor are attempted."""
    answer: str = ""
    """A pattern for the answer, whose case does not count."""

    def is_met(self, steps: Sequence[Step], answer: str) -> bool:
        """Whether what happened is what this asks for."""
        if any(step.matches(one) or step.matches(f"refused {one}") for one in self.never for step in steps):
            return False
        if self.answer and not fnmatchcase(answer.lower(), self.answer.lower()):
            return False
        place = 0
        first = next(
            (at for at, step in enumerate(steps) if any(step.matches(one) for one in self.before)), len(steps)
        )
        for number, pattern in enumerate(self.steps, 1):
            wanted = self.arguments if number == len(self.steps) else None
            while place < first and not steps[place].matches(pattern, wanted):
                place += 1
            if place == first:
                return False
            place += 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A task, what a model has for it, and what is asked of it."""

    name: str
    prompt: str
    criteria: tuple[Criterion, ...]
    settings: HostConfig
    skill: str = ""
    """The skill that is left out in the control; all skills if it is empty."""
    allowed_tools: tuple[str, ...] = ()
    """Patterns of the tools that a model may call, as `SERVER/TOOL`."""
    folder: Path | None = None
    """The folder that the model can read files from; an empty one by default."""
    max_turns: int = 30
    max_tokens: int | None = None


def read_scenario(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> Scenario:
    """The scenario in a file or a folder; a `FormatError` names every mistake in it."""
    file = (path / SCENARIO_FILE if path.is_dir() else path).absolute()
    try:
        values = read_toml(read_regular(file, limits.document_bytes + 1), what=str(file), limits=limits)
    except OSError as error:
        raise SourceError(f"{file} cannot be read: {unreadable(error)}") from None
    except DocumentError as error:
        fix = "see docs/evaluation.md for a scenario"
        raise FormatError.of(rule="scenario", file=str(file), message=str(error), fix=fix) from None
    issues: list[Issue] = []
    table = ConfigTable(values, file=str(file), issues=issues)
    settings = load_settings(table, file, issues)
    prompt, folder = table.string("prompt"), table.string("folder")
    if not prompt and "prompt" not in table:
        table.blame("prompt", "is missing", 'write prompt = "what the model is asked to do"')
    criteria = [_criterion(name, one) for name, one in table.tables("criteria").items()]
    if not criteria:
        table.blame("criteria", "is missing", 'write [criteria."the skill is read"] and steps = ["load *"]')
    scenario = Scenario(
        name=clean_line(table.string("name") or file.parent.name).text,
        prompt=prompt,
        criteria=tuple(criteria),
        settings=settings,
        skill=table.string("skill"),
        allowed_tools=table.strings("allowed_tools") or (),
        folder=file.parent / folder if folder else None,
        max_turns=table.integer("max_turns", most=1000) or Scenario.max_turns,
        max_tokens=table.integer("max_tokens", most=100_000_000),
    )
    if not settings.servers and not settings.directories and not issues:
        table.blame("servers", "is missing", "write [servers.NAME] and command or url, or directories")
    for tool in scenario.allowed_tools:
        if "/" not in tool:
            table.blame("allowed_tools", f"has {safe_line(tool)}", "write SERVER/TOOL")
    table.finish()
    if issues:
        raise FormatError(issues)
    return scenario


def _criterion(name: str, table: ConfigTable) -> Criterion:
    criterion = Criterion(
        name=clean_line(name).text,
        steps=table.strings("steps") or (),
        arguments=table.string_map("arguments"),
        before=table.strings("before") or (),
        never=table.strings("never") or (),
        answer=table.string("answer"),
    )
    if not (criterion.steps or criterion.never or criterion.answer):
        table.blame("", "asks for nothing", 'write steps = ["load *"], never or answer')
    for needed in ("arguments", "before"):
        if needed in table and not criterion.steps:
            table.blame(needed, "is about steps", 'write steps = ["call SERVER/TOOL"] beside it')
    for pattern in (*criterion.steps, *criterion.before, *criterion.never):
        verb, _, about = pattern.partition(" ")
        if verb not in _VERBS or (not about and verb != "*"):
            fix = "write load SKILL, read SKILL/PATH or call SERVER/TOOL"
            table.blame("", f"has the step {safe_line(pattern)}", fix)
    table.finish()
    return criterion


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clean_line(text, limit=_STEP_CHARS * 10).text


FORMAT: Final = "skillwire-eval-run/1"
ARMS: Final = ("with", "without")
"""With the skill, and without it."""
_ANSWER_CHARS: Final = 4000
_PATIENT: Final = replace(DEFAULT_LIMITS, connect_seconds=60)
"""A run takes minutes: that a server starts slowly on a busy machine says nothing about the skill."""
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
            limits=_PATIENT,
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
        host.decide.set_enabled(skill.handle, False)


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
    return junit_xml("skillwire eval run", suites)


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
