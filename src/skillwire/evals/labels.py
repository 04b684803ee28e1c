"""Labels: questions, and the skills that answer them, in the formats in which publishers keep them.

- `evals/evals.json` in a skill, as agentskills.io describes it: its prompts are questions for that skill.
- `trigger_eval.json`, in a skill or in its `evals`: queries that should trigger the skill, or should not.
- A list for many skills, as JSON Lines, JSON or CSV: in each row a question and the name of a skill, or none.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skillwire.documents import DocumentError, read_json
from skillwire.errors import FormatError, LimitExceeded, SourceError
from skillwire.files import read_regular, unreadable
from skillwire.json_types import is_list, is_object
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.text import clean_line

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
    expected = _names(next((row[key] for key in _SKILL if key in row), None))
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


def _names(value: object) -> tuple[str, ...]:
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
