"""Selection: which skill a question finds, by the search engine of hosts and servers, without a model.

The report is a JSON object. Every number in it follows from its lists: `questions` has what each question
expects and finds, and the findings name their words. Labels are questions with the skills that answer them,
in the formats in which publishers keep them:

- `evals/evals.json` in a skill, as agentskills.io describes it: its prompts are questions for that skill.
- `trigger_eval.json`, in a skill or in its `evals`: queries that should trigger the skill, or should not.
- A list for many skills, as JSON Lines, JSON or CSV: in each row a question and the name of a skill, or none.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread

from skillwire.catalog import HostSkill, SkillKey
from skillwire.catalog.search import SearchIndex, SkillDocuments
from skillwire.catalog.tokenize import STOP_WORDS, count_terms, parse_query, plain_words, stem
from skillwire.documents import DocumentError, JsonObject, JsonValue, is_list, is_object, read_json
from skillwire.errors import FormatError, LimitExceeded, SkillwireError, SourceError
from skillwire.files import read_regular, unreadable
from skillwire.host import RenderContext, SkillHost, all_styles
from skillwire.host.semantic import SkillVectors
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import DYNAMIC, SkillEntry, skill_root
from skillwire.sources import DirectorySource
from skillwire.text import clean_line, safe_line
from skillwire.trust import Origin

BESIDE: Final = ("evals/evals.json", "evals/trigger_eval.json", "trigger_eval.json")
"""Where labels of one skill are, below its directory."""
_QUESTION: Final = ("question", "query", "prompt", "text")
_SKILL: Final = ("skill", "expected_skill", "expected", "skill_name")
_NONE: Final = frozenset({"", "none", "null", "-"})


@dataclass(frozen=True, slots=True)
class Label:
    """A question and the names of the skills of which any is right.

    Without `expected`, no skill is right, or with `unwanted` any but that one.
    """

    question: str
    expected: tuple[str, ...] = ()
    unwanted: str = ""
    source: str = ""


def labels_beside(directory: Path, name: str, *, limits: Limits = DEFAULT_LIMITS) -> list[Label]:
    """The labels in the directory of one skill, or a `FormatError`."""
    labels: list[Label] = []
    for path in BESIDE:
        if (directory / path).is_file():
            labels += read_labels(directory / path, skill=name, limits=limits)
    return labels


def read_labels(path: Path, *, skill: str = "", limits: Limits = DEFAULT_LIMITS) -> list[Label]:
    """The labels in a file, or a `FormatError`. `skill` is the one that the file is about, if it is one."""
    try:
        data = read_regular(path, limits.document_bytes + 1)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {unreadable(error)}") from None
    return parse_labels(data, path, skill=skill, limits=limits)


def parse_labels(data: bytes, path: Path, *, skill: str = "", limits: Limits = DEFAULT_LIMITS) -> list[Label]:
    """The labels in the bytes of a file; `path` is for messages, and its ending says the format."""
    if len(data) > limits.document_bytes:
        raise LimitExceeded(f"{path} is too large; the limit is {limits.document_bytes:,} bytes")
    try:
        rows = _rows(path, data, limits)
        labels = [_label(row, place, skill, path) for place, row in rows]
    except (DocumentError, UnicodeDecodeError, csv.Error) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise _bad(path, reason) from None
    if len(labels) > limits.evaluated_questions:
        raise LimitExceeded(
            f"{path} has {len(labels):,} questions; the limit is {limits.evaluated_questions:,}"
        )
    return labels


def _rows(path: Path, data: bytes, limits: Limits) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a file, each with its place for messages."""
    if path.suffix == ".csv":
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        for row in reader:
            yield f"line {reader.line_num}", row
        return
    if path.suffix == ".jsonl":
        for number, line in enumerate(data.splitlines(), 1):
            if line.strip():
                yield f"line {number}", _object(read_json(line, limits=limits), f"line {number}", path)
        return
    document = read_json(data, limits=limits)
    about = ""
    if is_object(document):
        about = str(document.get("skill_name") or document.get("skill") or "")
        listed = next((document[key] for key in ("evals", "queries", "questions") if key in document), None)
    else:
        listed = document
    if not is_list(listed):
        raise _bad(path, 'it is neither a list nor an object with a list "evals"')
    for number, item in enumerate(listed, 1):
        row = _object(item, f"item {number}", path)
        yield f"item {number}", {"skill_name": about, **row} if about else row


def _label(row: Mapping[str, Any], place: str, skill: str, path: Path) -> Label:
    question = next((row[key] for key in _QUESTION if row.get(key)), None)
    if not isinstance(question, str) or not question.strip():
        raise _bad(path, f"{place} has no question: write it as {_QUESTION[0]}, {_QUESTION[1]} or prompt")
    question = clean_line(question).text
    expected = _skill_names(next((row[key] for key in _SKILL if key in row), None))
    if skill:
        expected = (skill,)  # The directory decides: names in such files are copied and outdated.
    triggers = row.get("should_trigger", True)
    if isinstance(triggers, str):
        triggers = triggers.strip().lower() not in ("false", "no", "0")
    if triggers is False:
        return Label(question, (), expected[0] if expected else "", str(path))
    if not expected and not any(key in row for key in _SKILL):
        raise _bad(path, f"{place} has no skill: write the name, or null if none should be found")
    return Label(question, expected, source=str(path))


def _skill_names(value: object) -> tuple[str, ...]:
    values = value if is_list(value) else [value]
    return tuple(one.strip() for one in values if isinstance(one, str) and one.strip().lower() not in _NONE)


def _object(value: object, place: str, path: Path) -> Mapping[str, Any]:
    if not is_object(value):
        raise _bad(path, f"{place} is not an object")
    return value


def _bad(path: Path, message: str) -> FormatError:
    return FormatError.of(
        rule="labels",
        message=f"{path}: {message}",
        fix='write a line such as {"question": "how do I get my money back", "skill": "refunds"}',
    )


FORMAT: Final = "skillwire-eval/1"
_TOP: Final = 5
# Descriptions that share this part of their words are hard to tell apart.
_SIMILAR: Final = 0.5
_LEAST_SHARED: Final = 5
_MOST_PAIRS: Final = 500_000
_MOST_FINDINGS: Final = 200
# Clauses that say what a skill is not for name the words of others.
_NOT_FOR: Final = re.compile(
    r"(?:\bnot for\b|\b(?:do not|don't|never) use\b|\bnot (?:when|if|to)\b|\binstead of\b|\bunlike\b|"
    r"\bfor [^.;]{1,80}, use\b|\buse [^.;]{1,80} instead\b)[^.;]*",
    re.IGNORECASE,
)
_STOP_TERMS: Final = frozenset(stem(word) for word in STOP_WORDS)

Counts: TypeAlias = tuple[int, int]
"""How many questions found the right skill, and how many there were."""


@dataclass(frozen=True, slots=True)
class EvaluatedSkill:
    """A skill of a collection, its `SKILL.md`, and the labels beside it."""

    entry: SkillEntry
    data: bytes
    labels: tuple[Label, ...] = ()

    @property
    def name(self) -> str:
        return self.entry.name


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of an evaluation: `report` is the JSON object."""

    report: JsonObject
    right: Counts
    """The questions whose first result is right, and those that expect a skill."""
    first: tuple[tuple[str, bool], ...] = ()

    @property
    def top1(self) -> float:
        """The share of questions whose first result is right, in percent."""
        right, count = self.right
        return 100 * right / count if count else 0.0

    @property
    def first_results(self) -> dict[str, bool]:
        """For each question that expects a skill, whether its first result is right."""
        return dict(self.first)


async def collect_skills(
    paths: Sequence[Path], *, limits: Limits = DEFAULT_LIMITS
) -> tuple[list[EvaluatedSkill], list[str]]:
    """The skills below these directories as a server would serve them, with their labels; and the places that
    were left out.
    """
    source = DirectorySource([str(path) for path in paths], limits=limits)
    await source.open()
    try:
        skills: list[EvaluatedSkill] = []
        for entry in await source.list_entries():
            data = (await source.read(entry.uri)).data
            path = source.local_path(entry.uri)
            labels = () if path is None else labels_beside(Path(path).parent, entry.name, limits=limits)
            skills.append(EvaluatedSkill(entry, data, tuple(labels)))
        return skills, [str(problem) for problem in source.problems() if problem.is_left_out]
    finally:
        await source.aclose()


def evaluate(
    skills: Sequence[EvaluatedSkill],
    labels: Iterable[Label] = (),
    *,
    text: bool = True,
    semantic: bool = False,
    budget: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Selection:
    """Ask every question, and report what is found. Without `text`, as a host that has loaded nothing yet;
    with `semantic`, as one that also searches by meaning.
    """
    names = _names(skills)
    labels = [*(label for skill in skills for label in skill.labels), *labels]
    known = set(names)
    documents: SkillDocuments[str] = SkillDocuments(replace(limits, search_text_bytes=limits.message_bytes))
    made = (
        documents.make(name, skill.entry, skill.data if text else None)
        for name, skill in zip(names, skills, strict=True)
    )
    vectors: SkillVectors[str] | None = None
    if semantic:
        made = list(made)
        vectors = SkillVectors(limits)
        vectors.update(made)
    index = SearchIndex(made, snippets=False)
    rows = [_ask(index, vectors, label, limits) for label in labels]
    unknown = sorted({name for label in labels for name in (*label.expected, label.unwanted) if name} - known)
    asked = [row for row in rows if row.label.expected and not set(row.label.expected).isdisjoint(known)]
    summary: JsonObject = {
        f"top{most}": share(sum(row.is_in(most) for row in asked), len(asked)) for most in (1, 3, _TOP)
    }
    none = [row for row in rows if not row.label.expected and not row.label.unwanted]
    others = [row for row in rows if row.label.unwanted]
    summary["none"] = share(sum(not row.found for row in none), len(none))
    summary["unwanted"] = share(sum(row.found[:1] != [row.label.unwanted] for row in others), len(others))
    reached = {name for row in rows for name in row.found}
    questions: list[JsonValue] = [row.to_json() for row in rows]
    listed: list[JsonValue] = [*names]
    missing: list[JsonValue] = [*unknown]
    unreached: list[JsonValue] = [name for name in names if name not in reached] if rows else []
    report: JsonObject = {
        "format": FORMAT,
        "searched": ("names, descriptions and texts" if text else "names and descriptions")
        + (", and by meaning" if semantic else ""),
        "skills": listed,
        "summary": summary,
        "perSkill": _per_skill(asked),
        "confusions": _confusions(asked, index, limits),
        "similar": _similar(names, skills),
        "unreached": unreached,
        "unknownSkills": missing,
        "budget": _budget(names, skills, limits.catalog_chars if budget is None else budget, limits),
        "questions": questions,
    }
    first = tuple((row.label.question, row.is_in(1)) for row in asked)
    return Selection(report, (sum(right for _, right in first), len(first)), first)


@dataclass(frozen=True, slots=True)
class _Row:
    label: Label
    found: list[str]

    def is_in(self, most: int) -> bool:
        return not set(self.label.expected).isdisjoint(self.found[:most])

    def to_json(self) -> JsonObject:
        label = self.label
        if label.expected:
            right = self.is_in(1)
        else:
            right = self.found[:1] != [label.unwanted] if label.unwanted else not self.found
        expected: list[JsonValue] = [*label.expected]
        found: list[JsonValue] = [*self.found]
        row: JsonObject = {"question": label.question, "expected": expected, "found": found, "right": right}
        if label.unwanted:
            row["unwanted"] = label.unwanted
        return row


def _names(skills: Sequence[EvaluatedSkill]) -> list[str]:
    """The name of each skill, or its path if another has the same name."""
    count = Counter(skill.name for skill in skills)
    return [
        clean_line(
            skill.name
            if count[skill.name] == 1
            else skill.entry.uri.partition("://")[2].removesuffix("/SKILL.md")
        ).text
        for skill in skills
    ]


def _ask(index: SearchIndex[str], vectors: SkillVectors[str] | None, label: Label, limits: Limits) -> _Row:
    similar = None if vectors is None else vectors.nearest(label.question)
    matches = index.search(parse_query(label.question, limits=limits), limit=_TOP, similar=similar)
    found: list[str] = []
    for match in matches:
        # Of equal skills the one that was meant stands for all.
        meant = next((name for name in (match.key, *match.copies) if name in label.expected), match.key)
        found.append(meant)
    return _Row(label, found)


def interval(right: int, count: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share (Wilson), in percent."""
    if not count:
        return 0.0, 100.0
    z = 1.959964
    share = right / count
    middle = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return round(100 * (middle - spread) / scale, 1), round(100 * (middle + spread) / scale, 1)


def share(right: int, count: int) -> JsonObject:
    """A share with its 95 % confidence interval."""
    low, high = interval(right, count)
    percent = round(100 * right / count, 1) if count else None
    return {"right": right, "of": count, "percent": percent, "low": low, "high": high}


def _per_skill(asked: Sequence[_Row]) -> JsonObject:
    rows: defaultdict[str, list[_Row]] = defaultdict(list)
    for row in asked:
        rows[row.label.expected[0]].append(row)
    return {
        name: {f"top{most}": share(sum(row.is_in(most) for row in mine), len(mine)) for most in (1, 3, _TOP)}
        for name, mine in sorted(rows.items())
    }


def _confusions(asked: Sequence[_Row], index: SearchIndex[str], limits: Limits) -> list[JsonValue]:
    """Which skill takes whose questions, and the words that do it."""
    pairs: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in asked:
        if row.found and not row.is_in(1):
            pairs[row.label.expected[0], row.found[0]].append(row.label.question)
    found: list[JsonValue] = []
    ordered = sorted(pairs.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    for (expected, taker), questions in ordered[:_MOST_FINDINGS]:
        gains: defaultdict[str, float] = defaultdict(float)
        for question in questions:
            query = parse_query(question, limits=limits)
            theirs = index.worth(query, taker)
            ours = index.worth(query, expected)
            typed = {
                term: question[start:end] for start, end, terms in plain_words(question) for term in terms
            }
            for term, worth in theirs.items():
                if worth > ours.get(term, 0.0):
                    gains[typed.get(term, term).lower()] += round(worth - ours.get(term, 0.0), 6)
        words = [word for word, _ in sorted(gains.items(), key=lambda pair: (-pair[1], pair[0]))[:3]]
        listed: list[JsonValue] = [*words]
        texts: list[JsonValue] = [*questions]
        found.append(
            {
                "expected": expected,
                "found": taker,
                "count": len(questions),
                "words": listed,
                "questions": texts,
                "change": f"say in the description of {expected} that it is for {_either(words)}, "
                f"or in that of {taker} that it is not",
            }
        )
    return found


def _similar(names: Sequence[str], skills: Sequence[EvaluatedSkill]) -> list[JsonValue]:
    """Pairs of skills whose descriptions share most of their words; what they are not for does not count.

    Only pairs that share one of the rarest words of both can be that similar, so few are compared.
    """
    sets = [_described(skill.entry.description) for skill in skills]
    having: Counter[str] = Counter(term for terms in sets for term in terms)
    postings: defaultdict[str, list[int]] = defaultdict(list)
    pairs: dict[tuple[int, int], float] = {}
    compared = 0
    for place, terms in enumerate(sets):
        rare = sorted(terms, key=lambda term: (having[term], term))
        prefix = rare[: len(rare) - math.ceil(_SIMILAR * len(rare)) + 1] if rare else []
        others = {other for term in prefix for other in postings[term]}
        compared += len(others)
        for other in others if compared <= _MOST_PAIRS else ():
            likeness = len(terms & sets[other]) / len(terms | sets[other])
            # Copies are one result of a search.
            is_copy = skills[place].data == skills[other].data
            if likeness >= _SIMILAR and len(terms & sets[other]) >= _LEAST_SHARED and not is_copy:
                pairs[other, place] = likeness
        for term in prefix:
            postings[term].append(place)
    found: list[JsonValue] = []
    for one, other in sorted(pairs, key=lambda pair: (-pairs[pair], names[pair[0]], names[pair[1]])):
        shared: list[JsonValue] = [*sorted(sets[one] & sets[other])]
        found.append(
            {
                "skills": [names[one], names[other]],
                "shared": shared,
                "words": len(sets[one] | sets[other]),
                "percent": round(100 * pairs[one, other], 1),
                "change": f"say in each description what only {names[one]} or only {names[other]} does, "
                "or merge the two",
            }
        )
    return found[:_MOST_FINDINGS]


def _described(description: str) -> frozenset[str]:
    plain = _NOT_FOR.sub(" ", clean_line(description).text)
    return frozenset(count_terms(plain)) - _STOP_TERMS


def _budget(names: Sequence[str], skills: Sequence[EvaluatedSkill], chars: int, limits: Limits) -> JsonObject:
    """Return what each style of catalog leaves out if it may have so many characters."""
    origin = Origin.local()
    registered = [HostSkill(origin, skill.entry, name) for name, skill in zip(names, skills, strict=True)]
    context = RenderContext(limits=replace(limits, catalog_chars=chars))
    styles: JsonObject = {}
    for style in all_styles():
        made = style.catalog(style.visible(registered, ()), context)
        shown = set(made.shown)
        omitted: list[JsonValue] = [name for name in names if name not in shown] if made.omitted else []
        styles[style.name] = {
            "chars": len(made.text),
            "omitted": omitted,
            "shortened": made.shortened,
        }
    return {"chars": chars, "styles": styles}


def _either(words: Sequence[str]) -> str:
    return " or ".join(f'"{word}"' for word in words) or "these questions"


def compared(now: Selection, before: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """The questions that were answered right before and are not now, and the reverse."""
    current = now.first_results
    lost = [question for question, right in current.items() if not right and before.get(question)]
    gained = [question for question, right in current.items() if right and before.get(question) is False]
    return lost, gained


_MOST_ASKED: Final = 200
_FIGURE_SECONDS: Final = 3.0
_MOST_TAKEN: Final = 5


@dataclass(frozen=True, slots=True)
class SelectionFigures:
    """Search results for the labels of a skill, and of others on this machine, before it is approved."""

    right: int
    """How many of its own questions find it first."""
    own: int
    others: int
    """How many questions of other skills were asked."""
    taken: tuple[tuple[str, str], ...] = ()
    """Skills of this machine, each with a question that finds them now and would find this one first."""
    is_whole: bool = True
    """Whether all questions were asked, and not only as many as there was time for."""


async def selection_figures(
    host: SkillHost, skill: HostSkill, *, limits: Limits = DEFAULT_LIMITS
) -> SelectionFigures | None:
    """The figures of one skill among those of a host; `None` without labels.

    Its own labels are read from its verified files, those of others beside the local skills.
    """
    labels = [(skill.key, label) for label in await _own_labels(host, skill, limits)]
    own = len(labels)
    local = [one for one in host.skills() if one.key != skill.key and one.origin.is_local]
    places = [(one, Path(path)) for one in local if (path := host.places.local_path(one.origin, one.uri))]
    labels += await anyio.to_thread.run_sync(_local_labels, places, limits)
    right = asked = others = 0
    taken: list[tuple[str, str]] = []
    with anyio.move_on_after(_FIGURE_SECONDS):
        for key, label in labels[:_MOST_ASKED]:
            found = [one.skill.key for one in await host.search(label.question, limit=2)]
            asked += 1
            is_first = found[:1] == [skill.key]
            if key == skill.key:
                right += is_first
                continue
            others += 1
            # Without this skill, the second would be the first.
            if is_first and found[1:2] == [key]:
                taken.append((safe_line(label.expected[0]), label.question))
    if not asked:
        return None
    return SelectionFigures(right, min(own, asked), others, tuple(taken[:_MOST_TAKEN]), asked == len(labels))


async def _own_labels(host: SkillHost, skill: HostSkill, limits: Limits) -> list[Label]:
    labels: list[Label] = []
    resources = () if skill.entry.resources is DYNAMIC else skill.entry.resources
    for path in BESIDE:
        if any(one.uri == f"{skill_root(skill.uri)}/{path}" for one in resources):
            try:
                file = await host.files.preview(skill.uri, path, server=skill.origin.label)
                labels += parse_labels(file.data, Path(path), skill=skill.entry.name, limits=limits)
            except SkillwireError:
                continue  # Without labels there is no figure.
    return [label for label in labels if label.expected]


def _local_labels(places: Iterable[tuple[HostSkill, Path]], limits: Limits) -> list[tuple[SkillKey, Label]]:
    labels: list[tuple[SkillKey, Label]] = []
    for other, path in places:
        if len(labels) >= _MOST_ASKED:
            break
        try:
            found = labels_beside(path.parent, other.entry.name, limits=limits)
        except (SkillwireError, OSError):
            continue
        labels += [(other.key, label) for label in found if label.expected]
    return labels
