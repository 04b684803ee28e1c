"""Approving on the command line: several skills, the question with its answers, shared approvals."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from command_line import Run, approved, as_person, new_user
from folder_server import FolderServer
from trees import write_skill


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: FolderServer) -> Path:
    directory = new_user(tmp_path, monkeypatch)
    for name in ("refunds", "returns", "letters"):
        write_skill(f"served/{name}", body=f"How to do {name}.")
    config = tmp_path / "xdg_config_home/skillwire/skillwire.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[servers.shop]\nurl = "{folders.at("served")}"\n')
    return directory


def states(run: Run) -> dict[str, str]:
    return {one["handle"]: one["approval"]["state"] for one in run("list", "--json").document["skills"]}


def test_a_pattern_asks_once_about_the_skills_that_match_and_about_no_other(run: Run) -> None:
    ended = as_person(run, "approve", "shop/re*", answers=("t", "y"))
    assert ended.code == 0
    for name in ("refunds", "returns"):
        assert f"{name} from MCP · shop is not approved." in ended.err
    assert "letters from MCP" not in ended.err
    assert ended.err.count("Approve these 2 skills?") == 2
    assert "How to do returns." in ended.err.partition("Approve these 2 skills?")[2]
    assert "Approved returns from MCP · shop as it is now, 1 file." in ended.out
    assert states(run) == {"letters": "not approved", "refunds": "approved", "returns": "approved"}


@pytest.mark.parametrize("words", [["refunds"], ["refunds", "returns"]])
def test_what_changed_between_question_and_answer_is_asked_about_again(run: Run, words: list[str]) -> None:
    def after_a_change(screen: str) -> str:
        assert screen.count("[N]o") == 1
        write_skill("served/refunds", body="How to keep the money.")
        return "y"

    ended = as_person(run, "approve", *words, answers=(after_a_change, "t", "n"))
    assert ended.code == 7
    assert "refunds changed while you were asked, and was not approved." in ended.err
    assert ended.err.count("[N]o") == 3
    assert ended.err.count("refunds from MCP · shop is not approved.") == 2
    assert ended.err.count("returns from MCP · shop is not approved.") == len(words) - 1
    assert ended.err.rindex("How to keep the money.") > ended.err.rindex("changed while you were asked")
    assert states(run)["refunds"] == "not approved"
    assert approved(run, "refunds").code == 0
    assert states(run)["refunds"] == "approved"


def test_nothing_is_approved_without_a_terminal_whatever_standard_input_says(run: Run) -> None:
    refused = run("approve", "refunds")
    assert refused.code == 7
    assert refused.err == (
        "skillwire: nothing was approved: there is no terminal to ask on: run this in one, over SSH "
        "with `ssh -t`, or use the review page\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO("y\n"))
        assert run("approve", "refunds").code == 7
    assert set(states(run).values()) == {"not approved"}
    ended = as_person(run, "approve", "nothing*")
    assert (ended.code, "no skill matches nothing*" in ended.err) == (8, True)


def test_all_skills_of_a_server_that_wait_are_shown_and_asked_about_once(run: Run) -> None:
    approved(run, "letters")
    refused = as_person(run, "approve", "--all", "--on", "shop", answers=("n",))
    assert (refused.code, "the 2 skills were not approved" in refused.err) == (7, True)
    assert states(run) == {"letters": "approved", "refunds": "not approved", "returns": "not approved"}
    ended = as_person(run, "approve", "--all", "--on", "shop")
    assert ended.err.count("[N]o") == 1
    assert "letters from MCP" not in ended.err
    assert set(states(run).values()) == {"approved"}
    ended = as_person(run, "approve", "--all", "--on", "shop")
    assert (ended.code, "has no skill that needs approval" in ended.err) == (8, True)


@pytest.mark.parametrize("words", [["--all"], ["--all", "--on", "shop", "refunds"], []])
def test_an_incomplete_or_contradictory_request_is_refused(run: Run, words: list[str]) -> None:
    assert run("approve", *words).code == 2


def test_the_question_about_a_changed_skill_shows_the_difference(run: Run) -> None:
    approved(run, "refunds")
    write_skill("served/refunds", body="How to do it in dollars.")
    ended = as_person(run, "load", "refunds", answers=("d", "y"))
    assert ended.code == 0
    before, question, after = ended.err.partition("show the [d]iff")
    assert question
    assert "refunds from MCP · shop changed since you approved it." in before
    assert "signature    not signed" in before
    assert "-How to do refunds." in after
    assert "+How to do it in dollars." in after
    assert "</untrusted_skill" in ended.out
    assert states(run)["refunds"] == "approved"


def test_a_yes_for_once_loads_and_leaves_nothing_behind(run: Run) -> None:
    ended = as_person(run, "load", "refunds", answers=("o",))
    assert ended.code == 0
    assert "[o]nce" in ended.err
    assert "</untrusted_skill" in ended.out
    assert states(run)["refunds"] == "not approved"
    assert run("approvals").out == "Nothing is approved.\n"
    assert run("config", "cache", "--json").document["files"] == []


def test_a_no_to_a_changed_skill_leaves_it_changed(run: Run) -> None:
    approved(run, "refunds")
    write_skill("served/refunds", body="Other.")
    ended = as_person(run, "approve", "refunds", answers=("o",))
    assert (ended.code, "[N]o" in ended.err, "[o]nce" in ended.err) == (7, True, False)
    assert states(run)["refunds"] == "changed"


def test_a_declined_skill_is_listed_for_people_and_not_in_the_catalog_for_models(run: Run) -> None:
    assert run("approvals", "decline", "refunds").code == 0
    assert states(run) == {"letters": "not approved", "refunds": "declined", "returns": "not approved"}
    ended = run("list", "--for-model")
    assert ("refunds" in ended.out, "returns" in ended.out) == (False, True)
    assert ended.err == "1 skill is not shown to models: `skillwire list` shows it\n"
    assert "refunds" in run("search", "refunds").out
    assert run("revoke", "refunds").code == 0
    assert "refunds" in run("list", "--for-model").out


def test_approvals_are_listed_with_who_gave_them_when_and_how(run: Run) -> None:
    approved(run, "refunds", "--allow-code")
    out = run("approvals").out
    for part in (
        "skill://refunds/SKILL.md  shop",
        "digest    sha256:",
        "execute_code",
        "approved on a terminal",
    ):
        assert part in out
    [one] = run("approvals", "list", "--json").document["approvals"]
    assert (one["label"], one["execute_code"], one["allowed_tools"]) == ("shop", True, False)
    assert one["approved_at"]
    assert one["server"].startswith("url:")


def test_approvals_are_exported_and_imported_after_a_review(run: Run, tmp_path: Path, work: Path) -> None:
    approved(run, "refunds")
    approved(run, "returns", "--allow-tools")
    exported = run("approvals", "export").out
    Path("approvals.json").write_text(exported)
    for name in ("refunds", "returns"):
        run("revoke", name)
    assert set(states(run).values()) == {"not approved"}
    ended = run("approvals", "import", "approvals.json")
    assert (ended.code, "skill://refunds/SKILL.md" in ended.err, "no terminal" in ended.err) == (
        7,
        True,
        True,
    )
    refused = as_person(run, "approvals", "import", "approvals.json", answers=("n",))
    assert (refused.code, "[y/N]" in refused.err) == (7, True)
    assert set(states(run).values()) == {"not approved"}
    assert as_person(run, "approvals", "import", "approvals.json", "--json").document["imported"] == 2
    assert states(run) == {"letters": "not approved", "refunds": "approved", "returns": "approved"}
    listed = run("approvals", "list", "--json").document["approvals"]
    assert all("imported; approved by " in one["approved_how"] for one in listed)
    assert [one["allowed_tools"] for one in listed if "returns" in one["uri"]] == [True]


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: "[]",
        lambda document: "{",
        lambda document: "[" * 100_000,
        lambda document: json.dumps({"approvals": [{"uri": "skill://x/SKILL.md"}]}),
        # Files that somebody changed in the exported document are not those of the digest.
        lambda document: document.replace('"digest": "sha256:', '"digest": "sha256:0', 1)[:-1] + "}",
        lambda document: document.replace("skill://refunds", "skill://letters", 1),
    ],
)
def test_an_inconsistent_export_approves_nothing(run: Run, damage: object) -> None:
    approved(run, "refunds")
    document = run("approvals", "export").out
    run("revoke", "refunds")
    Path("approvals.json").write_text(damage(document))  # type: ignore[operator]
    ended = as_person(run, "approvals", "import", "approvals.json")
    assert (ended.code, ended.err.count("\n")) == (4, 1)
    assert set(states(run).values()) == {"not approved"}
    assert as_person(run, "approvals", "import", "nowhere.json").code == 4


def test_an_export_of_very_many_values_is_refused_before_it_is_parsed(run: Run) -> None:
    Path("approvals.json").write_text('{"approvals": [' + "{}," * 1_000_000 + "{}]}")
    ended = as_person(run, "approvals", "import", "approvals.json")
    assert (ended.code, ended.err.count("\n")) == (5, 1)
    assert "values" in ended.err


def test_revoke_takes_the_server_and_patterns_and_all(run: Run) -> None:
    as_person(run, "approve", "--all", "--on", "shop")
    assert run("revoke", "refunds", "--on", "elsewhere").code == 8
    assert run("revoke", "re*", "--on", "shop").code == 0
    assert states(run) == {"letters": "approved", "refunds": "not approved", "returns": "not approved"}
    assert run("approvals", "decline", "--all", "--on", "shop").code == 0
    assert states(run) == {"letters": "approved", "refunds": "declined", "returns": "declined"}
    assert run("revoke", "returns", "--on", "shop").code == 0
    assert states(run)["returns"] == "not approved"
    assert run("revoke", "--all", "--on", "shop").code == 0
    assert states(run)["letters"] == "not approved"


def test_an_installed_copy_of_a_skill_is_revoked_with_it(run: Run) -> None:
    approved(run, "refunds")
    assert run("add", "shop/refunds", "--yes").code == 0
    ended = run("revoke", "refunds")
    assert ended.code == 0, ended.err
    assert ended.out.count("\n") == 1
    assert "local · project" in ended.out
    assert "MCP · shop" in ended.out
    assert set(states(run).values()) == {"not approved"}


def test_the_commands_that_show_prints_can_be_run_as_they_are(run: Run, folders: FolderServer) -> None:
    words = ("--no-config", "--server", f"other={folders.at('served')}")
    shown = run("show", "other/refunds", *words).out
    [line] = [line for line in shown.splitlines() if "skillwire approve" in line]
    again = line.partition("skillwire ")[2].split()
    assert as_person(run, *again).code == 0
    assert "approved: as it is now" in run("show", "other/refunds", *words).out


def test_approvals_are_listed_of_one_server_alone(run: Run) -> None:
    approved(run, "refunds")
    listed = run("approvals", "--on", "shop", "--json").document["approvals"]
    assert [one["uri"] for one in listed] == ["skill://refunds/SKILL.md"]
    assert run("approvals", "--on", "other").out == "Nothing of other is approved.\n"
