"""`skillwire search` finds skills by words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run, runner
from sample_entries import skill_md
from trees import write


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run `skillwire search` over the directories `mine` and `team`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))
    for place, description in (
        ("mine/refunds", "Pays\u202e money back."),
        ("mine/orders", "Looks up an order."),
        ("team/orders", "Cancels an order and makes a refund."),
    ):
        folder = tmp_path / place
        write(folder / "SKILL.md", skill_md(folder.name, description, "Call kubectl.\n"))

    places = ("--no-default-directories", "--dir", "mine", "--dir", "team")
    return runner(monkeypatch, capsys, "search", after=places)


@pytest.mark.requirement("SEC-11")
def test_skills_are_shown_best_first_with_origin_and_passage(search: Run) -> None:
    assert search("refund") == (
        0,
        "refunds  local · mine\n"
        "    Pays money back.\n"
        "team/orders  local · team\n"
        "    Cancels an order and makes a refund.\n",
        "",
    )


def test_partial_matches_are_listed_separately(search: Run) -> None:
    code, out, _ = search("refund", "order")
    assert code == 0
    whole, _, some = out.partition("Match only some of the words:\n")
    assert whole.startswith("team/orders")
    assert "mine/orders  local · mine" in some
    assert "refunds  local · mine" in some


def test_one_origin_or_a_number_of_skills_can_be_asked_for(search: Run) -> None:
    assert search("refund", "--on", "team")[1].startswith("team/orders")
    assert search("order", "--limit", "1")[1].count("local") == 1


def test_names_are_those_of_a_style(search: Run) -> None:
    code, output, _ = search("refund", "--style", "goose", "--on", "team")
    assert (code, output.splitlines()[0]) == (0, "team__orders  local · team")


def test_json_has_the_skills_in_order(search: Run) -> None:
    document = json.loads(search("refund", "--json")[1])
    found = [(skill["handle"], skill["snippet"], skill["partial"]) for skill in document["skills"]]
    assert found == [
        ("refunds", "Pays money back.", False),
        ("team/orders", "Cancels an order and makes a refund.", False),
    ]
    assert [problem["kind"] for problem in document["problems"]] == ["collision"]


def test_no_match_is_reported_and_is_not_an_error(search: Run) -> None:
    assert search("zebra") == (0, "No skill seems to fit. Try other words, or fewer.\n", "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["***"], 2, "WORDS has no letters or digits", id="no word"),
        pytest.param(["refund", "--on", "nobody"], 8, "known: mine, team", id="unknown origin"),
        pytest.param(["refund", "--limit", "0"], 2, "--limit", id="no skills wanted"),
    ],
)
def test_a_mistake_is_one_line(search: Run, arguments: list[str], code: int, said: str) -> None:
    ended, out, err = search(*arguments)
    assert (ended, out) == (code, "")
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.process
def test_a_server_that_could_not_be_asked_is_named(search: Run) -> None:
    code, out, err = search("refund", "--server", "gone=/nonexistent/program")
    assert code == 0
    assert out.startswith("refunds")
    assert "gone cannot be reached" in err
