"""Evaluation of skills: is the right one found, and does it help? `skillwire eval` and `eval run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.evals.behavior import Criterion as Criterion
    from skillwire.evals.behavior import Scenario as Scenario
    from skillwire.evals.behavior import Step as Step
    from skillwire.evals.behavior import as_junit as as_junit
    from skillwire.evals.behavior import as_page as as_page
    from skillwire.evals.behavior import read_scenario as read_scenario
    from skillwire.evals.behavior import run_scenario as run_scenario
    from skillwire.evals.selection import Counts as Counts
    from skillwire.evals.selection import EvaluatedSkill as EvaluatedSkill
    from skillwire.evals.selection import Label as Label
    from skillwire.evals.selection import Selection as Selection
    from skillwire.evals.selection import SelectionFigures as SelectionFigures
    from skillwire.evals.selection import collect_skills as collect_skills
    from skillwire.evals.selection import evaluate as evaluate
    from skillwire.evals.selection import labels_beside as labels_beside
    from skillwire.evals.selection import read_labels as read_labels
    from skillwire.evals.selection import selection_figures as selection_figures

export(
    __name__,
    {
        "behavior": "Criterion Scenario Step as_junit as_page read_scenario run_scenario",
        "selection": (
            "Counts EvaluatedSkill Label Selection SelectionFigures collect_skills evaluate labels_beside "
            "read_labels selection_figures"
        ),
    },
)
