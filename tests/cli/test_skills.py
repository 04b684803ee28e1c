"""The commands that list, show, load and approve skills: what they print and refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Run, approved, as_person, new_user, person
from folder_server import FolderServer
from skillwire.sources import scan_cache_directory
from terminals import Terminal
from trees import scanned

SKILLWIRE = str(Path(sys.executable).parent / "skillwire")
SECONDS = 60
Serving = Callable[..., str]
"""The value of `--server`, for a server of the skills in a folder."""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a working directory of no meaning."""
    return new_user(tmp_path, monkeypatch)


def plant(
    directory: str | Path,
    *,
    description: str = "Does one thing. Use when needed.",
    body: str = "Do it.\n",
    more: str = "",
    **files: str,
) -> Path:
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    head = f"---\nname: {folder.name}\ndescription: {json.dumps(description)}\n{more}---\n"
    (folder / "SKILL.md").write_text(head + body, "utf-8")
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, "utf-8")
    return folder


@pytest.fixture
def serving(folders: FolderServer) -> Serving:
    def option(folder: str = "served", name: str = "shop") -> str:
        return f"{name}={folders.at(folder)}"

    return option


def test_list_shows_name_origin_approval_and_description(run: Run, serving: Serving) -> None:
    plant("served/refunds", description="Pays back.")
    plant(Path.home() / ".agents/skills/tidy", description="Tidies up.")
    ended = run("list", "--server", serving())
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "NAME     FROM          APPROVAL      DESCRIPTION",
        "tidy     local · user  own files     Tidies up.",
        "refunds  MCP · shop    not approved  Pays back.",
    ]


def test_list_says_below_what_failed_and_what_collides(run: Run, serving: Serving) -> None:
    plant("served/refunds")
    plant("mine/refunds", body="Do it in another way.\n")
    ended = run(
        "list",
        "--server",
        serving(),
        "--server",
        "dead=http://127.0.0.1:9/mcp",
        "--dir",
        "mine",
        "--no-default-directories",
    )
    assert ended.code == 0
    table, _, problems = ended.out.partition("\n\n")
    assert "mine/refunds" in table
    assert "shop/refunds" in table
    assert "failure    MCP server dead cannot be reached: nothing listens there" in problems
    assert "collision  2 skills are called refunds" in problems


def test_copies_of_a_skill_are_listed_once_and_its_name_is_enough(run: Run, serving: Serving) -> None:
    plant("served/refunds")
    plant("mine/refunds")
    places = ("--server", serving(), "--dir", "mine", "--no-default-directories")
    ended = run("list", *places)
    assert "local · mine, also on shop" in ended.out
    assert ended.out.count("Does one thing.") == 1
    assert "collision" not in ended.out
    document = run("list", "--json", *places).document
    [skill] = document["skills"]
    assert (skill["also_on"], document["problems"]) == (["shop"], [])
    shown = run("show", "refunds", "--json", *places).document
    assert shown["origin"]["label"] == "mine"


@pytest.mark.process
def test_list_as_json_has_skills_servers_and_problems(run: Run, serving: Serving) -> None:
    plant("served/refunds", description="Pays back.")
    document = run("list", "--json", "--server", serving(), "--server", "dead=nosuchcommand").document
    [skill] = document["skills"]
    assert skill["handle"] == "refunds"
    assert skill["origin"] == {"kind": "mcp", "label": "shop"}
    assert skill["approval"]["state"] == "not approved"
    assert (skill["dialect"], skill["file_count"]) == ("D6", 1)
    assert [(server["label"], server["status"]) for server in document["servers"]] == [
        ("shop", "ready"),
        ("dead", "failed"),
    ]
    assert [problem["kind"] for problem in document["problems"]] == ["failure"]


def test_list_without_anything_says_what_to_do(run: Run) -> None:
    ended = run("list")
    assert (ended.code, "skillwire servers add NAME URL" in ended.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--server", "nosign"], "write NAME=URL or 'NAME=command args'"),
        (["--server", "a b=http://x"], "the label 'a b' has characters that are not allowed"),
        (["--server", "a=ftp://x"], "is not an http:// or https:// URL"),
        (["--server", "a=x", "--server", "A=y"], "there is a server called A already"),
        (["--dir", "nowhere"], "there is no directory nowhere"),
        (["--config", "nowhere.toml"], "there is no nowhere.toml"),
        (["--profile", "work"], "no profile is called work"),
    ],
)
def test_an_option_that_makes_no_sense_is_one_line(run: Run, arguments: list[str], complaint: str) -> None:
    ended = run("list", *arguments)
    assert ended.code in (2, 3, 4)
    assert (ended.out, ended.err.count("\n")) == ("", 1)
    assert complaint in ended.err


def test_skillwire_toml_says_where_skills_come_from(run: Run, folders: FolderServer) -> None:
    plant("served/refunds")
    plant("served/returns")
    Path("skillwire.toml").write_text(
        f'default_directories = false\n[servers.shop]\nurl = "{folders.at("served")}"\n'
        'exclude = ["RET*"]\n[profiles.none]\nservers = []',
        "utf-8",
    )
    as_person(run, "trust")
    assert [skill["handle"] for skill in run("list", "--json").document["skills"]] == ["refunds"]
    assert run("list", "--json", "--profile", "none").document["servers"] == []
    # An excluded skill is not to be had by its URI either.
    ended = run("load", "skill://returns/SKILL.md")
    assert (ended.code, "is excluded by the configuration" in ended.err) == (7, True)


def test_show_has_origin_uri_approval_frontmatter_and_files(run: Run, serving: Serving) -> None:
    plant("served/refunds", more="license: MIT\nallowed-tools: Bash(git:*)\n", guide="How.\n")
    ended = run("show", "refunds", "--server", serving())
    assert ended.code == 0
    for part in (
        "MCP · shop (",
        "skill://refunds/SKILL.md",
        "Skills extension (final)",
        "not approved",
        "Bash(git:*)",
        "Files 2 files",
        "guide.md",
        "sha256:",
        "skillwire approve refunds",
    ):
        assert part in ended.out
    document = run("show", "refunds", "--json", "--server", serving()).document
    assert document["frontmatter"]["license"] == "MIT"
    assert [file["path"] for file in document["files"]] == ["SKILL.md", "guide.md"]
    assert len(document["files"][0]["digest"]) == len("sha256:") + 64


@pytest.mark.requirement("SEC-7")
def test_show_text_does_not_load_and_prints_behind_a_bar(run: Run, tmp_path: Path, serving: Serving) -> None:
    plant("served/refunds", body="First line.\n──── not the end\n", guide="The guide.\n")
    ended = run("show", "refunds", "--text", "--server", serving())
    first, *quoted, last = ended.out.splitlines()
    assert first == "──── SKILL.md of refunds, from MCP · shop; not loaded"
    assert last == "────"
    assert all(line.startswith("│ ") for line in quoted)
    assert "│ First line." in quoted
    assert "│ The guide." in run("show", "refunds", "guide.md", "--server", serving()).out
    document = run("show", "refunds", "guide.md", "--json", "--server", serving()).document
    assert document["shown"]["text"] == "The guide.\n"
    assert document["approval"]["state"] == "not approved"
    assert run("config", "cache", "--help").code == 0
    assert run("config", "cache", "--json").document["files"] == []


@pytest.mark.requirement("SEC-11")
def test_text_of_a_server_never_controls_the_terminal(run: Run, serving: Serving) -> None:
    evil = "\x1b[31mred\x1b]0;title\x07 \u202etext [bold]styled[/bold]"
    plant("served/refunds", description=evil, body=f"{evil}\n", more=f"x-{{evil}}: {json.dumps(evil)}\n")
    for arguments in (["list"], ["show", "refunds"], ["show", "refunds", "--text"], ["list", "--json"]):
        ended = run(*arguments, "--server", serving())
        assert ended.code == 0
        for char in ("\x1b", "\x07", "\u202e"):
            assert char not in ended.out + ended.err
    assert "[bold]styled[/bold]" in run("list", "--server", serving()).out


@pytest.mark.requirement("SEC-5")
def test_load_off_a_terminal_needs_an_approval_and_says_how(run: Run, serving: Serving) -> None:
    plant("served/refunds", body="Pay back.\n")
    refused = run("load", "refunds", "--server", serving())
    assert (refused.code, refused.out, refused.err.count("\n")) == (7, "", 1)
    assert "`skillwire show refunds --server shop=" in refused.err
    assert run("approve", "refunds", "--server", serving()).code == 7
    given = approved(run, "refunds", "--server", serving())
    assert given.out == "Approved refunds from MCP · shop as it is now, 1 file.\n"
    loaded = run("load", "refunds", "--server", serving())
    assert loaded.code == 0
    assert loaded.out.startswith("Skill refunds, from the MCP server shop.")
    assert "<untrusted_skill_" in loaded.out
    assert "Pay back." in loaded.out
    document = run("load", "refunds", "--json", "--server", serving()).document
    assert "Pay back." in document["text"]
    assert document["grants"] == {"allowed_tools": False, "execute_code": False}


def test_grants_are_given_by_name_and_shown(run: Run, serving: Serving) -> None:
    plant("served/refunds", more="allowed-tools: Read\n")
    assert "which are not granted: Read" in approved(run, "refunds", "--server", serving()).out
    document = approved(run, "refunds", "--allow-tools", "--json", "--server", serving()).document
    assert (document["approval"]["allowed_tools"], document["approval"]["execute_code"]) == (True, False)


def test_a_local_skill_needs_no_approval(run: Run) -> None:
    plant("mine/tidy", body="Tidy up.\n")
    assert "Tidy up." in run("load", "tidy", "--dir", "mine").out
    ended = as_person(run, "approve", "tidy", "--dir", "mine")
    assert (ended.code, "needs no approval" in ended.err) == (4, True)


@pytest.mark.requirement("SEC-6")
def test_show_has_a_diff_of_what_changed_since_approval_as_often_as_it_is_asked(
    run: Run, serving: Serving
) -> None:
    plant("served/refunds", body="Pay back in euros.\n", gone="Old.\n")
    approved(run, "refunds", "--server", serving())
    assert run("load", "refunds", "--server", serving()).code == 0
    plant("served/refunds", body="Pay back in dollars.\n", fresh="New.\n")
    Path("served/refunds/gone.md").unlink()
    assert "changed" in run("list", "--server", serving()).out.splitlines()[1]
    for _ in range(2):
        out = run("show", "refunds", "--server", serving()).out
        assert "changed (3 files): since you approved it" in out
        assert "│ -Pay back in euros." in out
        assert "│ +Pay back in dollars." in out
        assert "added  fresh.md" in out
        assert "removed  gone.md" in out
    ended = run("load", "refunds", "--server", serving())
    assert (ended.code, "(1 added, 1 changed, 1 removed)" in ended.err) == (7, True)
    assert "changed (3 files): since you approved it" in run("show", "refunds", "--server", serving()).out
    assert approved(run, "refunds", "--server", serving()).code == 0
    assert "Pay back in dollars." in run("load", "refunds", "--server", serving()).out


def test_without_the_approved_bytes_show_lists_the_files_that_changed(run: Run, serving: Serving) -> None:
    plant("served/refunds", body="Pay back in euros.\n")
    approved(run, "refunds", "--server", serving())
    run("config", "cache", "--clear")
    plant("served/refunds", body="Pay back in dollars.\n")
    out = run("show", "refunds", "--server", serving()).out
    assert "changed  SKILL.md" in out
    assert "not in the cache: no diff" in out


def test_read_gives_the_models_view_or_verified_bytes(run: Run, serving: Serving) -> None:
    folder = plant("served/refunds", guide="The guide.\n")
    data = bytes(range(256))
    (folder / "logo.png").write_bytes(data)
    server = ("--server", serving())
    approved(run, "refunds", *server)
    assert "<untrusted_skill_file_" in run("load", "refunds", "guide.md", *server).out
    assert run("load", "refunds", "guide.md", "--json", *server).document["path"] == "guide.md"
    ended = run("load", "refunds", "logo.png", "--raw", "-o", "logo.png", *server)
    assert (ended.code, Path("logo.png").read_bytes()) == (0, data)
    again = run("load", "refunds", "logo.png", "--raw", "-o", "logo.png", *server)
    assert (again.code, "already exists" in again.err) == (4, True)
    unlisted = run("load", "refunds", "../secret", *server)
    assert (unlisted.code, unlisted.out) == (8, "")


def test_read_refuses_options_that_do_not_go_together(run: Run) -> None:
    assert run("load", "a", "b", "-o", "c").code == 2
    assert run("load", "a", "b", "--raw", "--json").code == 2


def test_revoke_needs_no_server(run: Run, serving: Serving) -> None:
    plant("served/refunds")
    approved(run, "refunds", "--server", serving())
    assert run("revoke", "shop/refunds", "--json").document["revoked"][0]["server"] == "shop"
    ended = run("revoke", "refunds")
    assert (ended.code, "no skill called refunds is approved" in ended.err) == (8, True)
    assert run("load", "refunds", "--server", serving()).code == 7


def test_revoke_asks_which_one_when_several_fit(run: Run, serving: Serving) -> None:
    for name in ("one", "two"):
        plant(f"{name}/refunds")
        assert approved(run, "refunds", "--server", serving(name, name)).code == 0
    ended = run("revoke", "refunds")
    assert (ended.code, "one/refunds, two/refunds" in ended.err) == (8, True)
    assert run("revoke", "two/refunds").code == 0


@pytest.mark.process
def test_an_unknown_skill_is_reported_with_the_servers_that_could_not_be_asked(run: Run) -> None:
    ended = run("show", "refunds", "--server", "dead=nosuchcommand")
    assert ended.code == 8
    assert [line.partition(":")[0] for line in ended.err.splitlines()] == ["skillwire"]
    assert "nosuchcommand" in ended.err


def test_the_cache_is_listed_and_cleared_by_server(run: Run, tmp_path: Path, serving: Serving) -> None:
    plant("served/refunds")
    for name in ("one", "two"):
        approved(run, "refunds", "--server", serving(name=name))
        run("load", "refunds", "--server", serving(name=name))
    files = run("config", "cache", "--json").document["files"]
    assert [(file["server"], file["uri"]) for file in files] == [
        ("one", "skill://refunds/SKILL.md"),
        ("two", "skill://refunds/SKILL.md"),
    ]
    assert "one  1 file" in run("config", "cache").out
    assert run("config", "cache", "--clear", "--on", "three").code == 8
    assert run("config", "cache", "--clear", "--on", "one").out == "Removed 1 file.\n"
    assert run("config", "cache", "--clear", "--json").document["removed"] == {"two": 1}
    assert run("config", "cache").out == "The cache is empty.\n"
    place = run("config", "--json").document["paths"]["cache"]["path"]
    assert Path(place).is_relative_to(tmp_path)


def test_scan_caches_of_served_directories_are_counted_and_cleared_with_the_cache(
    run: Run, tmp_path: Path
) -> None:
    plant("served/refunds")
    source = scanned(["served"], cache_directory=scan_cache_directory())
    source.save_cache()
    [index] = run("config", "cache", "--json").document["scan_caches"]
    assert Path(index["path"]).stat().st_size == index["size"]
    assert Path(index["path"]).parent == Path(
        run("config", "paths", "--json").document["paths"]["scan_caches"]["path"]
    )
    assert "1 scan cache of served directories" in run("config", "cache").out
    assert run("config", "cache", "--clear").out == "Removed 0 files and 1 scan cache.\n"
    assert run("config", "cache", "--clear", "--json").document["scan_caches"] == 0
    assert run("config", "cache").out == "The cache is empty.\n"


def test_paths_has_the_place_of_every_file(run: Run, tmp_path: Path) -> None:
    paths = run("config", "paths", "--json").document["paths"]
    assert set(paths) == {
        "config",
        "project",
        "approvals",
        "trusted",
        "logins",
        "audit",
        "usage",
        "policy_log",
        "installs",
        "cache",
        "scan_caches",
    }
    assert all(Path(place["path"]).is_relative_to(tmp_path) for place in paths.values())
    assert "does not exist yet" in run("config", "paths").out
    assert "scan caches" in run("config", "paths").out


def test_paths_delete_removes_all_state_and_no_configuration(run: Run, serving: Serving) -> None:
    plant("served/refunds")
    shop = ("--server", serving())
    approved(run, "refunds", *shop)
    run("servers", "add", "docs", "https://example.org/mcp")
    assert run("load", "refunds", *shop).code == 0
    places = {
        name: Path(one["path"]) for name, one in run("config", "paths", "--json").document["paths"].items()
    }
    before = {name for name, path in places.items() if path.exists()}
    settings = before & {"config", "project"}
    assert settings
    assert {"approvals", "cache"} <= before
    assert run("config", "paths", "--delete").code == 2
    assert as_person(run, "config", "paths", "--delete", answers=("n",)).code == 2
    assert {name for name, path in places.items() if path.exists()} == before
    ended = as_person(run, "config", "paths", "--delete")
    assert ended.out.startswith("Deleted ")
    assert {name for name, path in places.items() if path.exists()} == settings
    assert list(places["approvals"].parent.glob("approvals*")) == []
    assert run("load", "refunds", *shop).code == 7
    assert run("config", "paths", "--delete", "--yes", "--json").code == 0


@pytest.mark.process
@pytest.mark.requirement("SEC-5", "SEC-7")
def test_on_a_terminal_the_person_is_asked_and_can_see_the_text_first(run: Run, serving: Serving) -> None:
    plant("served/refunds", body="Pay back.\n", more="allowed-tools: Bash\n")
    terminal = Terminal("load", "refunds", "--server", serving())
    terminal.wait_for("Load it?")
    assert "refunds from MCP · shop is not approved." in terminal.screen
    assert "the tools Bash, which a yes does not grant" in terminal.screen
    assert "<untrusted_skill" not in terminal.screen
    terminal.type("t\n")
    terminal.answer("│ Pay back.\r\n────\r\nLoad it?", "y\n")
    terminal.wait_for("</untrusted_skill")
    assert terminal.end() == 0
    assert (
        run("list", "--json", "--server", serving()).document["skills"][0]["approval"]["state"] == "approved"
    )


@pytest.mark.parametrize("answer", ["n", "", "maybe", "\x04"])
def test_anything_but_a_yes_is_a_no(run: Run, answer: str, serving: Serving) -> None:
    plant("served/refunds")
    ended = as_person(run, "load", "refunds", "--server", serving(), answers=(answer,))
    assert (ended.code, ended.out, "[N]o" in ended.err) == (7, "", True)


def test_a_yes_that_was_typed_before_the_question_does_not_count(run: Run, serving: Serving) -> None:
    plant("served/refunds")
    with person("n") as somebody:
        somebody.type("y")
        ended = run("load", "refunds", "--server", serving())
    assert (ended.code, ended.err.count("[N]o")) == (7, 1)


@pytest.mark.process
def test_a_table_fits_eighty_columns(serving: Serving) -> None:
    plant("served/a-skill-with-a-long-name", description="Words and more words. " * 20)
    terminal = Terminal("list", "--server", serving())
    assert terminal.end() == 0
    # What a spinner wrote before is not a part of the table.
    table = terminal.screen[terminal.screen.index("NAME") :].splitlines()
    assert table[3].startswith("To read a skill and approve it: skillwire approve NAME --server shop=")
    assert max(map(len, table[:3])) <= 80


@pytest.mark.process
def test_list_fails_on_request_when_a_server_failed(run: Run) -> None:
    plant(".agents/skills/tidy")
    down = ("--server", "gone=nosuchcommand")
    assert run("list", *down).code == 0
    ended = run("list", *down, "--fail-on-error")
    assert (ended.code, "tidy" in ended.out, "nosuchcommand" in ended.out) == (4, True, True)
    assert run("list", "--fail-on-error").code == 0


@pytest.mark.process
def test_a_server_that_failed_is_named_by_every_command(run: Run) -> None:
    plant("mine/tidy")
    for command in (["show", "tidy"], ["load", "tidy"], ["list", "--for-model"], ["search", "thing"]):
        ended = run(*command, "--dir", "mine", "--server", "gone=nosuchcommand")
        assert (ended.code, ended.err.count("nosuchcommand")) == (0, 1), command


@pytest.mark.process
def test_where_nothing_could_be_listed_a_search_does_not_say_that_there_is_nothing(run: Run) -> None:
    ended = run("search", "thing", "--server", "gone=nosuchcommand")
    assert ended.out == "There is nothing to search: see what failed.\n"
    assert "nosuchcommand" in ended.err


@pytest.mark.process
def test_one_server_or_directory_is_listed_and_no_other_is_connected(run: Run, serving: Serving) -> None:
    plant("served/refunds")
    plant("mine/tidy")
    given = ("--server", serving(), "--server", "gone=nosuchcommand", "--dir", "mine")
    shop = run("list", *given, "--on", "Shop")
    assert (shop.code, "refunds" in shop.out, "tidy" in shop.out) == (0, True, False)
    assert "gone" not in shop.out
    mine = run("list", *given, "--on", "mine", "--json").document
    assert [skill["name"] for skill in mine["skills"]] == ["tidy"]
    nobody = run("list", *given, "--on", "nobody")
    assert nobody.code == 8
    assert "no server or directory is called nobody; known: gone, mine, shop" in nobody.err


def test_a_server_without_skills_is_said_to_have_none(run: Run, serving: Serving) -> None:
    Path("served").mkdir()
    plant("mine/tidy")
    given = ("--server", serving(), "--dir", "mine", "--on", "shop")
    listed = run("list", *given)
    assert (listed.code, listed.out) == (0, "shop has no skills.\n")
    assert run("search", "thing", *given).out == "shop has no skills.\n"


def test_a_directory_whose_skills_are_all_disabled_is_said_to_have_no_enabled_ones(run: Run) -> None:
    plant("mine/tidy")
    assert run("config", "disable", "tidy", "--dir", "mine").code == 0
    listed = run("list", "--dir", "mine", "--on", "mine")
    assert listed.out == "mine has no enabled skills: `skillwire list --all` shows the others.\n"


def test_a_listing_that_is_still_fresh_is_made_again_on_request(run: Run, folders: FolderServer) -> None:
    plant("served/refunds")
    server = ("--server", f"shop={folders.at('served', ttl_ms=600_000)}")
    assert "one thing" in run("list", *server).out
    plant("served/refunds", description="Does another thing. Use when needed.")
    assert "one thing" in run("list", *server).out
    for command in (["list"], ["list", "--for-model"], ["search", "thing"]):
        assert "another thing" in run(*command, *server, "--refresh").out
    assert "another thing" in run("list", *server).out


@pytest.mark.parametrize("words", [["shop/refunds"], ["refunds", "--on", "shop"], ["shop:refunds"]])
def test_a_name_with_its_server_connects_to_no_other(run: Run, words: list[str], serving: Serving) -> None:
    plant("served/refunds")
    ended = run("show", *words, "--server", serving(), "--server", "gone=nosuchcommand")
    assert ended.err == ""
    assert ended.code == 0


def test_a_file_that_a_skill_does_not_have_is_answered_with_those_it_has(run: Run) -> None:
    plant(Path.home() / ".agents/skills/tidy", guide="Read this.")
    for command in (["show"], ["load"]):
        ended = run(*command, "tidy", "nofile")
        assert (ended.code, ended.err) == (
            8,
            "skillwire: tidy has no file nofile: it has SKILL.md, guide.md\n",
        )
    assert (
        run("show", "tidy", "guid.md").err == "skillwire: tidy has no file guid.md: did you mean guide.md?\n"
    )


@pytest.mark.parametrize("words", [["show", "x"], ["search", "x"], ["load", "x"]])
def test_without_any_skills_a_command_says_how_to_get_some(run: Run, words: list[str]) -> None:
    ended = run(*words)
    assert "skillwire servers add NAME URL" in ended.out + ended.err


def test_a_directory_has_the_name_that_it_was_given(run: Run) -> None:
    plant("mine/tidy")
    assert "local · team" in run("list", "--dir", "team=mine").out
    assert "local · mine" in run("list", "--dir", "mine").out
    assert run("list", "--dir", "a b=mine").code == 2


def test_no_config_reads_no_configuration(run: Run) -> None:
    Path("skillwire.toml").write_text("nonsense = 1\n", "utf-8")
    assert run("list").code == 3
    assert run("list", "--no-config").code == 0
    assert run("list", "--no-config", "--profile", "x").code == 2


@pytest.mark.process
@pytest.mark.parametrize("command", ["list", "list --for-model", "show tidy", "load tidy SKILL.md --raw"])
def test_a_full_disk_is_one_line_and_exit_code_4(command: str) -> None:
    plant(Path.home() / ".agents/skills/tidy")
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [SKILLWIRE, *command.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 4
    [line] = ran.stderr.splitlines()
    assert line.startswith(
        "skillwire: the output cannot be written: No space left on device; free some space"
    )


@pytest.mark.process
def test_a_closed_pipe_ends_the_command_quietly() -> None:
    for number in range(300):
        plant(f".agents/skills/skill-{number}", description="x" * 900)
    with subprocess.Popen([SKILLWIRE, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(1)
        process.stdout.close()
        assert (process.wait(SECONDS), process.stderr.read()) == (141, b"")


def test_the_configured_style_applies_unless_an_option_overrides_it(run: Run) -> None:
    plant(Path.home() / ".agents/skills/tidy")
    file = Path("skillwire.toml")
    file.write_text('style = "codex"\n[profiles.g]\nstyle = "goose"\n', "utf-8")
    codex, goose = run("list", "--for-model").out, run("list", "--for-model", "--profile", "g").out
    assert codex == run("list", "--for-model", "--no-config", "--style", "codex").out
    assert goose == run("list", "--for-model", "--no-config", "--style", "goose").out
    assert run("list", "--for-model", "--style", "gemini").out not in (codex, goose)
    file.write_text('style = "emacs"\n', "utf-8")
    ended = run("list", "--for-model")
    assert (ended.code, "the key style of" in ended.err, "codex" in ended.err) == (4, True, True)


def test_unusable_parts_of_the_configuration_are_reported(run: Run) -> None:
    plant(Path.home() / ".agents/skills/tidy")
    user = Path(os.environ["XDG_CONFIG_HOME"]) / "skillwire/skillwire.toml"
    user.parent.mkdir(parents=True)
    user.write_text('directories = ["${NOT_SET_HERE}/skills"]\n', "utf-8")
    Path("skillwire.toml").write_text('directories = ["skills"]\n', "utf-8")
    ended = run("list")
    said = " ".join(ended.out.split())
    assert "tidy" in said
    assert "needs the variable 'NOT_SET_HERE', which is not set" in said
    assert "names directories of skills, which are not read until you run `skillwire trust`" in said
    assert run("doctor").code == 4


@pytest.mark.parametrize("words", [["list"], ["show", "x"], ["search", "x"], ["servers", "list"]])
def test_a_configuration_above_is_named_and_not_read(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    Path("skillwire.toml").write_text("nonsense = 1\n", "utf-8")
    above = Path("skillwire.toml").resolve()
    Path("deep/er").mkdir(parents=True)
    monkeypatch.chdir("deep/er")
    ended = run(*words)
    said = " ".join((ended.out + ended.err).replace("\n", " ").split())
    assert "is above you and not read, as it may be anybody's: run the command in its directory" in said
    assert str(above) in said.replace(" ", "") or str(above) in said


@pytest.mark.process
def test_a_silent_server_takes_no_longer_than_the_timeout(run: Run) -> None:
    ended = run("list", "--server", "mute=sleep infinity", "--timeout", "0.1", "--json")
    assert [server["reason"] for server in ended.document["servers"]] == ["no answer within 0.1 s"]


@pytest.mark.process
def test_a_variable_that_a_started_server_misses_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cr3t")
    Path("server.sh").write_text('[ "$SHOP_TOKEN" ] || { echo "SHOP_TOKEN is missing" >&2; exit 1; }\n')
    ended = run("list", "--server", "shop=sh server.sh")
    said = " ".join(ended.out.split())
    assert "SHOP_TOKEN is set here, but a server gets only what env names" in said
    assert 'env = { SHOP_TOKEN = "${SHOP_TOKEN}" }' in said
    assert "s3cr3t" not in said


@pytest.mark.process
def test_an_entry_without_sizes_is_shown_as_what_it_is(run: Run) -> None:
    wild = Path(__file__).parents[1] / "wild_stdio.py"
    option = f"shop={sys.executable} {wild} 'no sizes'"
    assert "draft" in run("list", "--server", option).out
    said = " ".join(run("show", "refunds", "--server", option).out.split())
    assert "its entry has no file sizes, as in drafts of the extension: only digests are checked" in said


def test_a_skill_that_is_left_out_is_answered_with_the_reason(run: Run) -> None:
    plant(Path.home() / ".agents/skills/tidy")
    broken = Path.home() / ".agents/skills/broken"
    broken.mkdir()
    (broken / "SKILL.md").write_text("no frontmatter\n", "utf-8")
    for name in ("broken", "user/broken"):
        ended = run("show", name)
        assert ended.code == 8
        assert ended.err.startswith("skillwire: broken is left out: ")
        assert "the file does not start with frontmatter (start it with ---" in ended.err
    assert "no skill is called roken" in run("show", "roken").err


def test_a_name_with_its_server_reports_no_other_unusable_servers(run: Run) -> None:
    Path(os.environ["XDG_CONFIG_HOME"], "skillwire").mkdir(parents=True)
    Path(os.environ["XDG_CONFIG_HOME"], "skillwire/skillwire.toml").write_text(
        '[servers.data]\nurl = "https://d.example"\ntoken_env = "NOT_SET_HERE"\n'
        '[servers.dead]\nurl = "http://127.0.0.1:9/mcp"\n',
        "utf-8",
    )
    assert "NOT_SET_HERE" in run("show", "x").err
    assert "NOT_SET_HERE" not in run("show", "dead/x").err
    assert run("servers", "list", "--check").code == 4


def test_without_skills_the_searched_folders_are_named(run: Run) -> None:
    said = " ".join(run("list").out.split())
    assert "Looked for skills in .agents/skills, .claude/skills, .codex/skills" in said


def turn_on_usage() -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "skillwire/skillwire.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("usage = true\n")


def test_usage_is_off_by_default_and_says_how_to_turn_it_on(run: Run) -> None:
    plant(Path.home() / ".agents/skills/tidy")
    assert run("load", "tidy").code == 0
    ended = run("list", "--usage")
    assert (ended.code, ended.out) == (0, "")
    assert "usage = true" in ended.err
    assert not list(Path(os.environ["XDG_DATA_HOME"]).rglob("usage*"))


def test_usage_shows_what_was_loaded_and_what_never_was(run: Run) -> None:
    turn_on_usage()
    plant(Path.home() / ".agents/skills/tidy", description="Tidies up.", notes="More.")
    plant(Path.home() / ".agents/skills/wash", description="Washes.")
    run("list", "--for-model")
    run("load", "tidy")
    run("load", "tidy", "notes.md")
    ended = run("list", "--usage")
    assert ended.code == 0, ended.err
    head, columns, row, never, one = ended.out.splitlines()
    assert head.startswith("1 turn; skills took ")
    assert columns.split() == ["offered", "found", "loaded", "read", "refused", "chars"]
    assert row.split()[:7] == ["tidy", "1", "0", "2", "1", "0", "14"]
    assert never == "Never loaded: 1 skill, 11 characters of names and descriptions"
    assert "wash  11 characters, offered 1 times" in one
    document = json.loads(run("list", "--usage", "--json").out)
    assert document["neverUsed"] == [row["uri"] for row in document["skills"] if not row["loaded"]]
    assert document["turns"] == 1
    assert run("list", "--usage", "--clear").code == 0
    assert json.loads(run("list", "--usage", "--json").out)["turns"] == 0


def test_usage_excludes_what_it_cannot_be_combined_with(run: Run) -> None:
    assert run("list", "--clear").code == 2
    assert run("list", "--usage", "--installed").code == 2
    assert run("list", "--usage", "--for-model").code == 2


def test_a_project_cannot_have_the_use_of_skills_counted(run: Run, work: Path) -> None:
    (work / "skillwire.toml").write_text("usage = true\n")
    ended = run("list", "--usage")
    assert ended.code != 0
    assert "usage: a project cannot say this for its user" in ended.err
