"""`skillwire eval`: whether the right skill is found when it should be, and whether it helps a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillwire.cli.output import counted, info, printable, write
from skillwire.errors import FormatError, SourceError, UsageError

if TYPE_CHECKING:
    from skillwire.evals import Selection

_WORSE: Final = 1
_MOST_LINES: Final = 10
_HOW_TO_LABEL: Final = """\
There are no questions to ask. Write ten for each skill, as people would type them, into a file q.jsonl:
  {"question": "the parcel arrived broken, can I get my money back", "skill": "refunds"}
  {"question": "what is the capital of France", "skill": null}
Vary them: full sentences and single words, other words than the description has, and three that are close to
another skill. Then run: skillwire eval ./skills --questions q.jsonl"""


def run(
    *,
    paths: tuple[Path, ...],
    questions: tuple[Path, ...],
    budget: int | None,
    descriptions: bool,
    semantic: bool,
    min_top1: int | None,
    baseline: Path | None,
    save: bool,
    as_json: bool,
) -> int:
    """Measure selection with the labels beside the skills and in other files."""
    import anyio

    from skillwire.cli.output import show_json
    from skillwire.evals import collect_skills, evaluate, read_labels

    if save and baseline is None:
        raise UsageError("--save needs --baseline FILE: the file to write")
    labels = [label for path in questions for label in read_labels(path)]
    skills, left_out = anyio.run(collect_skills, paths or (Path(),))
    if not skills:
        where = ", ".join(str(path) for path in paths or (Path(),))
        raise SourceError(f"no skills in {where}: see what is wrong with skillwire lint")
    selection = evaluate(skills, labels, text=not descriptions, semantic=semantic, budget=budget)
    before = None if baseline is None or save else _read_baseline(baseline)
    failures = _failures(selection, min_top1, before)
    if as_json:
        show_json({**selection.report, "leftOut": left_out, "failures": failures})
    else:
        _show(selection.report, left_out)
        for line in failures:
            write(printable(line))
    if baseline is not None and save:
        _save(baseline, selection)
    return _WORSE if failures else 0


def _failures(selection: Selection, least: int | None, before: Mapping[str, bool] | None) -> list[str]:
    from skillwire.evals.selection import compared

    failures: list[str] = []
    right, count = selection.right
    if least is not None and (not count or selection.top1 < least):
        failures.append(f"FAILED: top-1 is {selection.top1:.1f} % ({right} of {count}), not {least} %")
    if before is not None:
        lost, gained = compared(selection, before)
        if len(lost) > len(gained):
            failures.append(
                f"FAILED: {counted(len(lost), 'question')} answered right in the baseline and not now, "
                f"{len(gained)} the other way. Accept this with --save. Lost: {'; '.join(lost[:_MOST_LINES])}"
            )
    return failures


def _show(report: Mapping[str, Any], left_out: list[str]) -> None:
    lines = [f"{counted(len(report['skills']), 'skill')}, searched by {report['searched']}"]
    if left_out:
        lines.append(f"{counted(len(left_out), 'skill')} left out: see skillwire lint")
    if not report["questions"]:
        lines.append(_HOW_TO_LABEL)
    else:
        lines.append("")
        names = {
            "top1": "first result right",
            "top3": "among the first three",
            "top5": "among the first five",
            "none": "none found, as expected",
            "unwanted": "another or none, as expected",
        }
        for key, name in names.items():
            share = report["summary"][key]
            if share["of"]:
                lines.append(
                    f"{name:<29} {share['percent']:5.1f} %  ({share['right']} of {share['of']}; "
                    f"95 % interval {share['low']:.1f} to {share['high']:.1f})"
                )
        weak = sorted(report["perSkill"].items(), key=lambda one: (one[1]["top1"]["percent"], one[0]))
        weak = [(name, tops) for name, tops in weak if tops["top1"]["percent"] < 100]
        lines += _section(
            "Skills with questions that find another first",
            [
                f"{name}: {tops['top1']['right']} of {tops['top1']['of']} first, {tops['top5']['right']} "
                "among five"
                for name, tops in weak
            ],
        )
        lines += _section(
            "Confusions",
            [
                f"{one['found']} takes {counted(one['count'], 'question')} of {one['expected']}: "
                f"{one['change']}"
                for one in report["confusions"]
            ],
        )
        lines += _section(
            "Skills that no question reaches: write questions for them, or look at their descriptions",
            report["unreached"],
        )
        lines += _section(
            "Questions name skills that are not here: correct the names", report["unknownSkills"]
        )
    lines += _section(
        "Similar descriptions",
        [
            f"{' and '.join(one['skills'])} share {one['percent']} % of their words: {one['change']}"
            for one in report["similar"]
        ],
    )
    chars = report["budget"]["chars"]
    cuts = [
        f"{name}: {counted(len(cut['omitted']), 'skill')} not named, {cut['shortened']} without their whole "
        f"description{_named(cut['omitted'])}"
        for name, cut in report["budget"]["styles"].items()
        if cut["omitted"] or cut["shortened"]
    ]
    lines += _section(f"A catalog of {chars:,} characters cuts: shorten descriptions, or raise it", cuts)
    for line in "\n".join(lines).splitlines():
        write(printable(line))


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_LINES
    return f" ({', '.join(names[:_MOST_LINES])}{f' and {more} more' if more > 0 else ''})" if names else ""


def _section(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = len(lines) - _MOST_LINES
    rest = [f"  ... and {more} more; --json has them all"] if more > 0 else []
    return ["", f"{title}:", *(f"  {line}" for line in lines[:_MOST_LINES]), *rest]


def _read_baseline(path: Path) -> dict[str, bool]:
    from skillwire.documents import DocumentError, read_json
    from skillwire.files import read_regular, unreadable
    from skillwire.limits import DEFAULT_LIMITS

    try:
        document = read_json(read_regular(path, DEFAULT_LIMITS.document_bytes + 1))
        return {str(question): right is True for question, right in document["right"].items()}
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {unreadable(error)}; write it with --save") from None
    except (DocumentError, KeyError, TypeError, AttributeError):
        raise FormatError.of(
            rule="baseline", message=f"{path} is not a baseline", fix="write it with --save"
        ) from None


def _save(path: Path, selection: Selection) -> None:
    document = {"format": selection.report["format"], "right": dict(sorted(selection.first))}
    _write(path, json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def run_scenarios(
    *,
    paths: tuple[Path, ...],
    model: str | None,
    repeat: int,
    control: bool,
    style: str | None,
    min_pass: int | None,
    junit: Path | None,
    html: Path | None,
    as_json: bool,
) -> int:
    """Run scenarios with a model, with the skill and without it."""
    import asyncio
    import logging

    from skillwire.cli.chat import chosen_model, require_chat
    from skillwire.cli.host_options import check_style
    from skillwire.cli.output import show_json
    from skillwire.cli.running import log_to_stderr

    require_chat("eval run")
    from skillwire.evals import as_junit, as_page, read_scenario, run_scenario

    check_style(style)
    scenarios = [read_scenario(path) for path in paths]
    for scenario in scenarios:
        check_style(None, scenario.settings)
    used = chosen_model(model)
    log_to_stderr()
    logging.getLogger("skillwire.host").setLevel(logging.ERROR)

    def tell(one: Mapping[str, Any]) -> None:
        verdict = "passed" if one["passed"] else one["error"] or "failed"
        info(printable(f"{one['skill']} the skill, run {one['number']} of {repeat}: {verdict}"))

    async def run_all() -> list[Mapping[str, Any]]:
        return [
            await run_scenario(one, used, repeat=repeat, control=control, style=style or "", on_run=tell)
            for one in scenarios
        ]

    reports = asyncio.run(run_all())
    for file, render in ((junit, as_junit), (html, as_page)):
        if file is not None:
            _write(file, render(reports))
    failures = _run_failures(reports, min_pass)
    if as_json:
        show_json({"reports": reports, "failures": failures})
    else:
        for line in (line for report in reports for line in _run_lines(report)):
            write(printable(line))
        for line in failures:
            write(printable(line))
    not_run = any(report["summary"][arm]["failedToRun"] for report in reports for arm in ("with", "without"))
    return SourceError.exit_code if not_run else _WORSE if failures else 0


def _run_failures(reports: list[Mapping[str, Any]], least: int | None) -> list[str]:
    failures: list[str] = []
    for report in reports:
        passed = report["summary"]["with"]["passed"]
        if least is not None and (not passed["of"] or passed["percent"] < least):
            said = f"{passed['right']} of {passed['of']} runs with the skill passed"
            failures.append(f"FAILED: {report['scenario']}: {said}, not {least} %")
    return failures


def _run_lines(report: Mapping[str, Any]) -> list[str]:
    from skillwire.evals.behavior import ARMS, share_words, usage_words

    arms = [arm for arm in ARMS if report["summary"][arm]["passed"]["of"]]
    rows = [
        ("all criteria", {arm: report["summary"][arm]["passed"] for arm in arms}),
        *((one["name"], one) for one in report["criteria"]),
    ]
    lines = [f"{report['scenario']}, {report['model']}, style {report['style']}", ""]
    width = max(len(name) for name, _ in rows)
    heads = "".join(f"  {arm + ' the skill':<26}" for arm in arms)
    lines.append(f"{'':<{width}}{heads}".rstrip())
    for name, shares in rows:
        cells = "".join(f"  {share_words(shares[arm]):<26}" for arm in arms)
        lines.append(f"{name:<{width}}{cells}".rstrip())
    lines.append("")
    for arm in ARMS:
        one = report["summary"][arm]
        if one["requests"]:
            lines.append(f"{arm} the skill: {usage_words(one)}")
        if one["failedToRun"]:
            missing = counted(one["failedToRun"], "run")
            lines.append(f"{arm} the skill: {missing} not counted, because the model did not answer")
    return lines


def _write(path: Path, text: str) -> None:
    from skillwire.files import unreadable, write_atomic

    try:
        write_atomic(path, text.encode(), mode=0o644)
    except OSError as error:
        raise SourceError(f"{path} cannot be written: {unreadable(error)}") from None
