"""Evaluation of skills: is the right one found when it should be? `skillwire eval`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.evals.labels import Label as Label
    from skillwire.evals.labels import labels_beside as labels_beside
    from skillwire.evals.labels import read_labels as read_labels
    from skillwire.evals.selection import Counts as Counts
    from skillwire.evals.selection import EvaluatedSkill as EvaluatedSkill
    from skillwire.evals.selection import Selection as Selection
    from skillwire.evals.selection import collect_skills as collect_skills
    from skillwire.evals.selection import evaluate as evaluate

export(
    __name__,
    {
        "labels": "Label labels_beside read_labels",
        "selection": "Counts EvaluatedSkill Selection collect_skills evaluate",
    },
)
