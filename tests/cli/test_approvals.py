"""Approving on the command line: several skills, the question with its answers, shared approvals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command_line import Ended, Run, approved
from folder_server import FolderServer
from skillwire.cli import main
from terminals import Terminal

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: FolderServer) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    directory = tmp_path / "work"
    directory.mkdir()
    monkeypatch.chdir(directory)
    for name in ("refunds", "returns", "letters"):
        plant(f"served/{name}", f"How to do {name}.")
    config = tmp_path / "xdg_config_home/skillwire/skillwire.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[servers.shop]\nurl = "{folders.at("served")}"\n')
    return directory


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def start(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["skillwire", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Ended(ended.value.code, out, err)

    return start


def plant(directory: str, body: str) -> None:
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {folder.name}\ndescription: Does {folder.name}. Use when asked.\n---\n{body}\n"
    )


def states(run: Run) -> dict[str, str]:
    return {one["handle"]: one["approval"]["state"] for one in run("list", "--json").document["skills"]}


def test_a_pattern_asks_about_each_skill_that_matches_and_about_no_other(run: Run) -> None:
    terminal = Terminal("approve", "shop/re*")
    for name in ("refunds", "returns"):
        terminal.wait_for(f"{name} from MCP · shop is not approved.")
        terminal.wait_for("[N]o", after=f"{name} from MCP")
        terminal.type("y\n")
        terminal.wait_for(f"Approved {name} from MCP · shop as it is now, 1 file.")
    assert terminal.end() == 0
    assert states(run) == {"letters": "new", "refunds": "approved", "returns": "approved"}


def test_a_pattern_needs_digests_without_a_terminal(run: Run) -> None:
    digests = [run("show", name, "--json").document["digest"] for name in ("refunds", "returns")]
    assert run("approve", "shop/re*").code == 7
    # One digest too few: what it does not name is not approved.
    assert run("approve", "shop/re*", "--digest", digests[0]).code == 7
    assert states(run)["returns"] == "new"
    given = run("approve", "shop/re*", "--digest", digests[0], "--digest", digests[1], "--json")
    assert [one["name"] for one in given.document["approved"]] == ["refunds", "returns"]
    ended = run("approve", "nothing*")
    assert (ended.code, "no skill matches nothing*" in ended.err) == (8, True)


def test_all_skills_of_a_server_are_asked_about_until_a_no(run: Run) -> None:
    approved(run, "letters")
    terminal = Terminal("approve", "--all", "--on", "shop")
    terminal.wait_for("refunds from MCP · shop")
    terminal.wait_for("[N]o")
    assert "letters from MCP" not in terminal.screen
    terminal.type("y\n")
    terminal.wait_for("[N]o", after="returns from MCP · shop is not approved.")
    terminal.type("n\n")
    assert terminal.end() == 7
    assert states(run) == {"letters": "approved", "refunds": "approved", "returns": "new"}
    approved(run, "returns")
    ended = run("approve", "--all", "--on", "shop")
    assert (ended.code, "has no skill that needs approval" in ended.err) == (8, True)


@pytest.mark.parametrize("words", [["--all"], ["--all", "--on", "shop", "refunds"], []])
def test_an_incomplete_or_contradictory_request_is_refused(run: Run, words: list[str]) -> None:
    assert run("approve", *words).code == 2


def test_the_question_about_a_changed_skill_shows_the_difference(run: Run) -> None:
    approved(run, "refunds")
    plant("served/refunds", "How to do it in dollars.")
    terminal = Terminal("load", "refunds")
    terminal.wait_for("refunds from MCP · shop changed since you approved it.")
    terminal.wait_for("show the [d]iff")
    terminal.type("d\n")
    terminal.wait_for("[N]o", after="+How to do it in dollars.")
    assert "-How to do refunds." in terminal.screen
    assert "signature    not signed" in terminal.screen
    terminal.type("y\n")
    terminal.wait_for("</untrusted_skill")
    assert terminal.end() == 0
    assert states(run)["refunds"] == "approved"


def test_a_yes_for_once_loads_and_leaves_nothing_behind(run: Run) -> None:
    terminal = Terminal("load", "refunds")
    terminal.wait_for("[o]nce")
    terminal.type("o\n")
    terminal.wait_for("</untrusted_skill")
    assert terminal.end() == 0
    assert states(run)["refunds"] == "new"
    assert run("approvals").out == "Nothing is approved.\n"
    assert run("cache", "list", "--json").document["files"] == []


def test_a_no_to_a_changed_skill_leaves_it_changed(run: Run) -> None:
    approved(run, "refunds")
    plant("served/refunds", "Other.")
    terminal = Terminal("approve", "refunds")
    terminal.wait_for("[N]o")
    assert "[o]nce" not in terminal.screen
    terminal.type("o\n")
    assert terminal.end() == 7
    assert states(run)["refunds"] == "changed"


def test_a_declined_skill_is_listed_for_people_and_not_in_the_catalog_for_models(run: Run) -> None:
    assert run("decline", "refunds").code == 0
    assert states(run) == {"letters": "new", "refunds": "declined", "returns": "new"}
    ended = run("catalog")
    assert ("refunds" in ended.out, "returns" in ended.out) == (False, True)
    assert ended.err == "1 skill is not shown to models: `skillwire list` shows it\n"
    assert "refunds" in run("search", "refunds").out
    assert run("revoke", "refunds").code == 0
    assert "refunds" in run("catalog").out


def test_approvals_are_listed_with_who_gave_them_when_and_how(run: Run) -> None:
    approved(run, "refunds", "--allow-code")
    out = run("approvals").out
    for part in ("skill://refunds/SKILL.md  shop", "digest    sha256:", "execute_code", "approved by digest"):
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
    assert set(states(run).values()) == {"new"}
    ended = run("approvals", "import", "approvals.json")
    assert (ended.code, "skill://refunds/SKILL.md" in ended.err, "add --yes" in ended.err) == (7, True, True)
    terminal = Terminal("approvals", "import", "approvals.json")
    terminal.wait_for("[y/N]")
    terminal.type("n\n")
    assert terminal.end() == 7
    assert set(states(run).values()) == {"new"}
    assert run("approvals", "import", "approvals.json", "--yes", "--json").document["imported"] == 2
    assert states(run) == {"letters": "new", "refunds": "approved", "returns": "approved"}
    listed = run("approvals", "list", "--json").document["approvals"]
    assert all("imported; approved by " in one["approved_how"] for one in listed)
    assert [one["allowed_tools"] for one in listed if "returns" in one["uri"]] == [True]


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: "[]",
        lambda document: "{",
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
    ended = run("approvals", "import", "approvals.json", "--yes")
    assert (ended.code, ended.err.count("\n")) == (4, 1)
    assert set(states(run).values()) == {"new"}
    assert run("approvals", "import", "nowhere.json", "--yes").code == 4
