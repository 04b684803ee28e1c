"""The report on selection: what it says, and that its numbers follow from its lists."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from benchmarks.search import run as benchmark

from sample_entries import skill_md
from skillwire.evals import Label, Selection, collect_skills, evaluate, read_labels
from skillwire.evals.selection import compared
from trees import write

SKILLS = {
    "refunds": ("Pays money back to customers who return an order.", "Ask for the receipt.\n"),
    "returns": (
        "Accepts goods that customers return. Not for payments, money or refunds.",
        "Print a label.\n",
    ),
    "deploy": ("Ships a service to the cluster.", "Call kubectl apply.\n"),
}


def put(folder: Path, skills: dict[str, tuple[str, str]] | None = None) -> Path:
    for name, (description, body) in (SKILLS if skills is None else skills).items():
        write(folder / name / "SKILL.md", skill_md(name, description, body))
    return folder


def evaluated(folder: Path, labels: list[Label] | None = None, **options: Any) -> Selection:
    skills, _ = anyio.run(collect_skills, [folder])
    return evaluate(skills, labels or [], **options)


def recomputed(report: Any) -> Any:
    """The numbers of a report from its lists."""
    asked = [row for row in report["questions"] if set(row["expected"]) & set(report["skills"])]
    counts: Any = {
        f"top{n}": (sum(bool(set(r["expected"]) & set(r["found"][:n])) for r in asked), len(asked))
        for n in (1, 3, 5)
    }
    none = [row for row in report["questions"] if not row["expected"] and "unwanted" not in row]
    other = [row for row in report["questions"] if "unwanted" in row]
    counts["none"] = (sum(not row["found"] for row in none), len(none))
    counts["unwanted"] = (sum(row["found"][:1] != [row["unwanted"]] for row in other), len(other))
    pairs = Counter(
        (r["expected"][0], r["found"][0]) for r in asked if r["found"] and r["found"][0] not in r["expected"]
    )
    return (
        counts,
        pairs,
        sorted(set(report["skills"]) - {name for r in report["questions"] for name in r["found"]}),
    )


def wilson(right: int, count: int) -> tuple[float, float]:
    share, z = right / count if count else 0.5, 1.959964
    half = (
        z * math.sqrt(share * (1 - share) / count + z * z / 4 / count**2) / (1 + z * z / count)
        if count
        else 1
    )
    middle = (share + z * z / 2 / count) / (1 + z * z / count) if count else 0.5
    return (round(100 * (middle - half), 1), round(100 * (middle + half), 1)) if count else (0.0, 100.0)


def test_every_number_follows_from_the_lists_of_the_report() -> None:
    labels = read_labels(benchmark.FOLDER / "questions-held-out.jsonl")
    labels.append(Label("restore a dump", (), "postgres-backup"))
    report: Any = json.loads(json.dumps(evaluated(benchmark.FOLDER / "skills", labels).report))
    counts, pairs, unreached = recomputed(report)
    for key, (right, count) in counts.items():
        share = report["summary"][key]
        assert (share["right"], share["of"], share["low"], share["high"]) == (
            right,
            count,
            *wilson(right, count),
        )
        assert share["percent"] == round(100 * right / count, 1)
    assert sum(one["top1"]["right"] for one in report["perSkill"].values()) == counts["top1"][0]
    assert {(one["expected"], one["found"]): one["count"] for one in report["confusions"]} == pairs
    assert report["unreached"] == unreached
    for one in report["similar"]:
        assert one["percent"] == round(100 * len(one["shared"]) / one["words"], 1)


def test_the_same_input_gives_the_same_report() -> None:
    labels = read_labels(benchmark.FOLDER / "questions-tuning.jsonl")[:60]
    first, second = (evaluated(benchmark.FOLDER / "skills", labels).report for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


def test_a_confusion_names_the_words_and_what_to_change(tmp_path: Path) -> None:
    labels = [Label("the customer wants to return an order", ("returns",)), Label("kubectl", ("deploy",))]
    report: Any = evaluated(put(tmp_path), labels).report
    [confusion] = report["confusions"]
    assert (confusion["expected"], confusion["found"], confusion["count"]) == ("returns", "refunds", 1)
    assert confusion["words"][0] == "order"
    assert 'say in the description of returns that it is for "order"' in confusion["change"]
    assert report["summary"]["top1"]["right"] == 1
    by_description: Any = evaluated(tmp_path, labels, text=False).report
    assert by_description["summary"]["top1"]["right"] == 0
    assert by_description["unreached"] == ["deploy"]


def test_what_a_skill_is_not_for_does_not_make_it_similar(tmp_path: Path) -> None:
    about = "Checks invoices of suppliers against purchase orders and books payments"
    skills = {
        "one": (f"{about}.", "a\n"),
        "two": (f"{about} monthly.", "b\n"),
        "three": (f"Plans holidays. Not for tasks where somebody {about.lower()}.", "c\n"),
        "copy": (f"{about}.", "a\n"),
    }
    report: Any = evaluated(put(tmp_path, skills)).report
    assert {tuple(one["skills"]) for one in report["similar"]} == {
        ("copy", "two"),
        ("copy", "one"),
        ("one", "two"),
    }


def test_a_budget_names_what_each_style_cuts(tmp_path: Path) -> None:
    report: Any = evaluated(put(tmp_path), budget=300).report
    assert report["budget"]["chars"] == 300
    styles = report["budget"]["styles"]
    assert {"spec", "claude", "codex", "gemini", "goose", "wayland"} <= set(styles)
    assert any(cut["omitted"] or cut["shortened"] for cut in styles.values())
    whole: Any = evaluated(tmp_path).report
    assert not any(cut["omitted"] or cut["shortened"] for cut in whole["budget"]["styles"].values())


def test_a_baseline_tells_lost_and_gained_questions(tmp_path: Path) -> None:
    now = evaluated(put(tmp_path), [Label("kubectl", ("deploy",)), Label("receipt", ("deploy",))])
    assert compared(now, {"kubectl": False, "receipt": True, "gone": True}) == (["receipt"], ["kubectl"])
    assert (now.right, now.top1) == ((1, 2), 50.0)


def test_labels_beside_skills_are_found_and_unknown_skills_named(tmp_path: Path) -> None:
    put(tmp_path)
    write(tmp_path / "deploy/evals/evals.json", b'{"evals": [{"id": 1, "prompt": "call kubectl"}]}')
    report: Any = evaluated(tmp_path, [Label("anything", ("nobody",))]).report
    assert report["perSkill"]["deploy"]["top1"]["right"] == 1
    assert report["unknownSkills"] == ["nobody"]
    assert report["summary"]["top1"]["of"] == 1


@pytest.mark.parametrize("count", [400])
def test_many_skills_with_the_same_words_cost_what_the_limit_allows(tmp_path: Path, count: int) -> None:
    text = "Checks invoices of suppliers against purchase orders and books payments"
    skills = {f"skill-{number}": (f"{text} {number}.", f"{number}\n") for number in range(count)}
    report: Any = evaluated(put(tmp_path, skills)).report
    assert len(report["similar"]) == 200
