"""How well search finds skills: 130 labeled questions over a generated catalog of 2,000.

    python benchmarks/search/run.py

A question has two answers in the catalog, or one and its copy, which is one result. Counted are the questions
whose first result is an answer, and the share of answers among as many results as there are answers.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from catalog import Skill, questions, skills
from skillwire.catalog.search import Document, SearchIndex
from skillwire.catalog.tokenize import parse_query
from skillwire.limits import DEFAULT_LIMITS


def measure() -> dict[str, tuple[int, int, int, int]]:
    """For each kind of question: right first results, questions, answers found in the top 5, answers."""
    catalog = skills()
    index = SearchIndex(_document(skill) for skill in catalog)
    totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for question in questions(catalog):
        matches = index.search(parse_query(question.text, limits=DEFAULT_LIMITS), limit=5)
        found = [{match.key, *match.copies} for match in matches]
        total = totals[question.kind]
        total[0] += bool(found) and not found[0].isdisjoint(question.answers)
        total[1] += 1
        total[2] += len(question.answers & {key for keys in found for key in keys})
        total[3] += len(question.answers)
    return {kind: (total[0], total[1], total[2], total[3]) for kind, total in totals.items()}


def _document(skill: Skill) -> Document[str]:
    return Document(skill.name, skill.name, skill.description, f"team {skill.name}", digest=skill.digest)


def main() -> None:
    start = time.process_time()
    for kind, (first, count, found, answers) in measure().items():
        print(
            f"{kind:>10}: first result right {first} of {count}, answers in the top five {found} of {answers}"
        )
    print(f"{time.process_time() - start:.2f} s of processor time in all")


if __name__ == "__main__":
    main()
