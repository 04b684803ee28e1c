"""How well search finds skills, on three sets of labeled questions.

    python -m benchmarks.search.run [--semantic]

- `questions-tuning.jsonl` and `questions-held-out.jsonl`: questions over the skills in `skills/`, written
  for this project. The weights and the threshold of the engine were chosen with the first half; the second
  is only reported.
- 130 questions over a generated catalog of 2,000 skills (`catalog.py`), which have no text.

With `--semantic` also by meaning, which needs the extra `semantic`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks.search.catalog import questions, skills
from skillwire.catalog import parse_query
from skillwire.catalog.search import Document, Match, SearchIndex
from skillwire.host.semantic import SkillVectors
from skillwire.limits import DEFAULT_LIMITS

FOLDER = Path(__file__).parent
HALVES = ("tuning", "held-out")


def labels(half: str) -> list[tuple[str, str | None]]:
    """The questions of a half, each with the name of the skill that answers it, or none."""
    lines = (FOLDER / f"questions-{half}.jsonl").read_text("utf-8").splitlines()
    return [(row["question"], row["skill"]) for row in map(json.loads, lines)]


def documents(*, text: bool) -> Iterator[Document[str]]:
    """The skills in `skills/`, with or without their text."""
    for folder in sorted((FOLDER / "skills").iterdir()):
        _, frontmatter, body = (folder / "SKILL.md").read_text("utf-8").split("---\n", 2)
        description = frontmatter.partition("description: ")[2].strip().strip('"')
        yield Document(folder.name, folder.name, description, folder.name, body=body if text else "")


def ranks(half: str, *, text: bool, semantic: bool = False) -> list[tuple[str | None, list[str]]]:
    """For each question its answer and the first five results."""
    search = _searcher(documents(text=text), semantic=semantic)
    return [(answer, [match.key for match in search(asked)]) for asked, answer in labels(half)]


def _searcher(skills: Iterable[Document[str]], *, semantic: bool) -> Callable[[str], list[Match[str]]]:
    skills = list(skills)
    index = SearchIndex(skills)
    vectors: SkillVectors[str] = SkillVectors(DEFAULT_LIMITS)
    if semantic:
        vectors.update(skills)

    def search(asked: str) -> list[Match[str]]:
        similar = vectors.nearest(asked) if semantic else None
        return index.search(parse_query(asked, limits=DEFAULT_LIMITS), limit=5, similar=similar)

    return search


def generated(*, semantic: bool = False) -> dict[str, tuple[int, int, int, int]]:
    """For each kind of question: right first results, questions, answers found in the top 5, answers.

    A question has two answers in the catalog, or one and its copy, which is one result.
    """
    catalog = skills()
    search = _searcher(
        (
            Document(skill.name, skill.name, skill.description, f"team {skill.name}", digest=skill.digest)
            for skill in catalog
        ),
        semantic=semantic,
    )
    totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for question in questions(catalog):
        found = [{match.key, *match.copies} for match in search(question.text)]
        total = totals[question.kind]
        total[0] += bool(found) and not found[0].isdisjoint(question.answers)
        total[1] += 1
        total[2] += len(question.answers & {key for keys in found for key in keys})
        total[3] += len(question.answers)
    return {kind: (total[0], total[1], total[2], total[3]) for kind, total in totals.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--semantic", action="store_true", help="also search by meaning")
    semantic: bool = parser.parse_args().semantic
    start = time.process_time()
    for half in HALVES:
        for text in (False, True):
            rows = ranks(half, text=text, semantic=semantic)
            asked = [(answer, found) for answer, found in rows if answer is not None]
            first, three, five = (
                sum(answer in found[:most] for answer, found in asked) / len(asked) for most in (1, 3, 5)
            )
            none = [found for answer, found in rows if answer is None]
            what = "with text" if text else "descriptions"
            print(f"{half:>9}, {what}: {len(asked)} questions, ", end="")
            print(f"top 1 {first:.1%}, top 3 {three:.1%}, top 5 {five:.1%}; ", end="")
            print(f"none for {sum(not found for found in none)} of {len(none)} that expect none")
    for kind, (right, count, found, answers) in generated(semantic=semantic).items():
        print(f"generated {kind}: first result right {right} of {count}, ", end="")
        print(f"answers in the top five {found} of {answers}")
    print(f"{time.process_time() - start:.2f} s of processor time in all")


if __name__ == "__main__":
    main()
