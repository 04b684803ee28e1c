"""Evaluation of skills: is the right one found, and does it help? `skillwire eval` and `eval run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.evals.behavior import as_junit as as_junit
    from skillwire.evals.behavior import as_page as as_page
    from skillwire.evals.behavior import run_scenario as run_scenario
    from skillwire.evals.labels import Label as Label
    from skillwire.evals.labels import labels_beside as labels_beside
    from skillwire.evals.labels import read_labels as read_labels
    from skillwire.evals.scenario import Criterion as Criterion
    from skillwire.evals.scenario import Scenario as Scenario
    from skillwire.evals.scenario import Step as Step
    from skillwire.evals.scenario import read_scenario as read_scenario
    from skillwire.evals.selection import Counts as Counts
    from skillwire.evals.selection import EvaluatedSkill as EvaluatedSkill
    from skillwire.evals.selection import Selection as Selection
    from skillwire.evals.selection import SelectionFigures as SelectionFigures
    from skillwire.evals.selection import collect_skills as collect_skills
    from skillwire.evals.selection import evaluate as evaluate
    from skillwire.evals.selection import selection_figures as selection_figures

export(
    __name__,
    {
        "behavior": "as_junit as_page run_scenario",
        "labels": "Label labels_beside read_labels",
        "scenario": "Criterion Scenario Step read_scenario",
        "selection": (
            "Counts EvaluatedSkill Selection SelectionFigures collect_skills evaluate selection_figures"
        ),
    },
)
