"""Labels in the formats in which publishers keep them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillwire.errors import FormatError, LimitExceeded, SourceError
from skillwire.evals import Label, labels_beside, read_labels
from skillwire.limits import Limits


def test_prompts_of_evals_json_are_questions_for_the_skill_that_has_the_file(tmp_path: Path) -> None:
    cases = [{"id": 1, "prompt": "Clean this CSV", "expected_output": "A clean file", "files": []}]
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/evals.json").write_text(json.dumps({"skill_name": "outdated", "evals": cases}))
    [label] = labels_beside(tmp_path, "csv-cleaner")
    assert (label.question, label.expected, label.unwanted) == ("Clean this CSV", ("csv-cleaner",), "")


@pytest.mark.parametrize("place", ["trigger_eval.json", "evals/trigger_eval.json"])
@pytest.mark.parametrize("wrap", [False, True])
def test_queries_that_should_not_trigger_expect_another_skill_or_none(
    tmp_path: Path, place: str, wrap: bool
) -> None:
    rows = [
        {"query": "clean my file", "should_trigger": True},
        {"query": "tell a joke", "should_trigger": False},
    ]
    (tmp_path / "evals").mkdir()
    (tmp_path / place).write_text(json.dumps({"evals": rows} if wrap else rows))
    source = str(tmp_path / place)
    assert labels_beside(tmp_path, "csv") == [
        Label("clean my file", ("csv",), source=source),
        Label("tell a joke", (), "csv", source),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.jsonl", '{"question": "a b", "skill": "x"}\n\n{"query": "c", "skill": null}\n'),
        ("q.csv", "\ufeffquestion,skill\na b,x\nc,\n"),
        ("q.json", '[{"prompt": "a b", "expected": ["x"]}, {"text": "c", "expected_skill": "none"}]'),
    ],
)
def test_lists_for_many_skills_are_read_in_three_formats(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = [(label.question, label.expected) for label in read_labels(tmp_path / name)]
    assert found == [("a b", ("x",)), ("c", ())]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.jsonl", "[1]\n", "line 1 is not an object"),
        ("q.jsonl", '{"skill": "x"}\n', "line 1 has no question"),
        ("q.jsonl", '{"question": "x"}\n', "line 1 has no skill"),
        ("q.jsonl", "{\n", "it is not JSON"),
        ("q.json", "{}", "neither a list nor"),
        ("q.csv", 'question,skill\n"a\n', "unexpected end of data"),
    ],
)
def test_a_file_that_is_no_list_of_labels_is_refused_with_its_place(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FormatError, match=message):
        read_labels(tmp_path / name)


def test_hidden_characters_are_removed_and_size_is_limited(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps({"question": "a\u202e\x1b[31m b", "skill": "x"}) + "\n")
    [label] = read_labels(file)
    assert "\x1b" not in label.question
    assert "\u202e" not in label.question
    file.write_text('{"question": "a", "skill": "x"}\n' * 3)
    with pytest.raises(LimitExceeded, match="3 questions; the limit is 2"):
        read_labels(file, limits=Limits(evaluated_questions=2))
    (tmp_path / "long.csv").write_text("question,skill\n" + "a,x\n" * 3)
    for path in (file, tmp_path / "long.csv"):
        with pytest.raises(LimitExceeded, match="is too large; the limit is 20 bytes"):
            read_labels(path, limits=Limits(document_bytes=20))
    (tmp_path / "bad.csv").write_bytes(b"question,skill\n\xff,x\n")
    with pytest.raises(FormatError, match="UTF-8"):
        read_labels(tmp_path / "bad.csv")
    with pytest.raises(SourceError, match="cannot be read"):
        read_labels(tmp_path / "none.jsonl")
