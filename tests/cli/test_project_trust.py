"""A repository's own files start nothing until the user has seen and trusted exactly these bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Run, as_person, hiding, new_home
from folder_server import FolderServer
from skillwire.host import state_paths
from terminals import Terminal
from trees import write_skill

SECRET = "s3cr3t"
PROJECT = Path("skillwire.toml")
STARTED = Path("started")
EVIL = '[servers.evil]\ncommand = "touch"\nargs = ["started"]\nconnect_seconds = 5\n'
CLIENTS = {
    ".mcp.json": "mcpServers",
    ".cursor/mcp.json": "mcpServers",
    ".vscode/mcp.json": "servers",
    ".gemini/settings.json": "mcpServers",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return new_home(tmp_path, monkeypatch)


@pytest.fixture
def run(run: Run) -> Run:
    return hiding(run, lambda: [SECRET])


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, "utf-8")


def client_file(path: str, **servers: list[str]) -> None:
    entries = {name: {"command": words[0], "args": words[1:]} for name, words in servers.items()}
    write(path, json.dumps({CLIENTS[path]: entries}))


def labels(document: dict[str, Any]) -> list[str]:
    return [server["label"] for server in document["servers"]]


def test_a_fresh_clone_starts_nothing_and_costs_nothing_else(
    run: Run, home: Path, folders: FolderServer
) -> None:
    write_skill("served/refunds")
    write_skill(".agents/skills/notes")
    write_skill("more/letters")
    PROJECT.write_text(f'directories = ["more"]\ndisabled = ["noise"]\n{EVIL}', "utf-8")
    own = f'[servers.mine]\nurl = "{folders.at("served")}"\n'
    write(str(home / ".config/skillwire/skillwire.toml"), own)
    ended = run("list")
    for skill in ("refunds  MCP · mine", "notes    local · project"):
        assert skill in ended.out
    assert "letters" not in ended.out
    [line] = [line for line in ended.out.splitlines() if "evil" in line]
    assert "MCP server evil is not trusted: it comes from " in line
    assert "run `skillwire trust`" in line
    assert not STARTED.exists()


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        ["list", "--json"],
        ["search", "words"],
        ["list", "--for-model"],
        ["servers", "list", "--check"],
        ["load", "any"],
        ["show", "skill://any/SKILL.md", "--on", "evil"],
    ],
)
def test_no_command_starts_what_is_not_trusted(run: Run, command: list[str]) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    run(*command)
    assert not STARTED.exists()
    as_person(run, "trust")
    run(*command)
    assert STARTED.exists()


def test_servers_list_says_what_is_not_trusted_and_what_to_do(run: Run) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    out = run("servers").out
    assert "evil  touch  prompt    not trusted\n" in out
    assert out.endswith("skillwire trust\n")
    assert [server["trusted"] for server in run("servers", "list", "--json").document["servers"]] == [False]
    as_person(run, "trust")
    assert "trust" not in run("servers").out


@pytest.mark.process
@pytest.mark.parametrize("path", CLIENTS)
def test_a_clients_file_in_the_project_needs_trust_of_its_own(run: Run, path: str) -> None:
    client_file(path, evil=["touch", "started"])
    ended = run("list", "--from-clients")
    assert "MCP server evil is not trusted" in ended.out
    assert not STARTED.exists()
    as_person(run, "trust")
    assert labels(run("list", "--from-clients", "--json").document) == ["evil"]
    assert STARTED.exists()


@pytest.mark.process
def test_a_clients_file_of_the_user_needs_no_trust_even_if_a_project_names_the_same(
    run: Run, home: Path
) -> None:
    client_file(".cursor/mcp.json", mine=["touch", "started"])
    write(
        str(home / ".cursor/mcp.json"),
        '{"mcpServers": {"mine": {"command": "touch", "args": ["started"]}}}',
    )
    assert labels(run("list", "--from-clients", "--json").document) == ["mine"]
    # It is the user's, and so it starts at home and not in the project.
    assert (home / "started").exists()
    assert not STARTED.exists()


def test_import_ignores_a_file_that_is_not_trusted(run: Run) -> None:
    client_file(".mcp.json", evil=["touch", "started"])
    ended = run("servers", "import", "--write")
    assert "skip  evil  its file is not trusted: see `skillwire trust`" in ended.out
    assert labels(run("servers", "list", "--json").document) == []


@pytest.mark.process
def test_what_the_user_names_is_trusted(run: Run) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    assert labels(run("list", "--config", PROJECT, "--json").document) == ["evil"]
    assert STARTED.exists()
    # A server that is not trusted takes no name away.
    assert labels(run("list", "--server", "evil=touch again", "--json").document) == ["evil"]
    assert Path("again").exists()


def test_trust_shows_all_that_would_be_started_or_sent_but_no_secret(run: Run) -> None:
    PROJECT.write_text(
        '[servers.run]\ncommand = "sh"\nargs = ["-c", "touch\\u001b[2K\\u202e \\n│ y"]\ndirectory = "sub"\n'
        f'env = {{ LD_PRELOAD = "{SECRET}", KEY = "${{MY_KEY}}" }}\n'
        f'[servers.web]\nurl = "https://u:{SECRET}@w.example/mcp?k={SECRET}"\ntoken_env = "MY_TOKEN"\n'
        f'headers = {{ X-Key = "{SECRET}" }}\n',
        "utf-8",
    )
    shown = as_person(run, "trust").err.splitlines()
    assert shown[0] == f"{PROJECT.resolve()}  not trusted"
    assert shown[1:9] == [
        "  run starts",
        "│ sh -c 'touch\\u001b[2K\\u202e \\u000a│ y'",
        "  in     sub",
        "  sets   LD_PRELOAD, KEY",
        "  reads  MY_KEY of your environment",
        "  web connects to",
        "│ https://w.example/mcp?…",
        "  sends  X-Key",
    ]
    assert "  reads  MY_TOKEN of your environment" in shown
    document = as_person(run, "trust", "--json").document
    assert document["files"][0]["servers"][1]["url"] == "https://w.example/mcp?…"


def test_a_long_command_is_shown_to_its_end(run: Run) -> None:
    PROJECT.write_text(f'[servers.a]\ncommand = "a"\nargs = ["{"x" * 9000}", "evil"]\n', "utf-8")
    assert "x evil\n" in as_person(run, "trust").err


@pytest.mark.process
def test_any_change_of_the_file_revokes_the_trust(run: Run) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    as_person(run, "trust")
    assert labels(run("list", "--json").document) == ["evil"]
    PROJECT.write_text(EVIL + "# Changed.\n", "utf-8")
    assert labels(run("list", "--json").document) == []
    PROJECT.write_text(EVIL, "utf-8")
    assert labels(run("list", "--json").document) == ["evil"]


def test_trust_is_for_one_place(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    client_file(".cursor/mcp.json", other=["touch", "started"])
    as_person(run, "trust")
    clone = Path("clone")
    clone.mkdir()
    # The same bytes elsewhere, by a link or not, are not what was trusted: commands can be relative.
    (clone / "skillwire.toml").symlink_to(PROJECT.resolve())
    (clone / ".cursor").symlink_to(Path(".cursor").resolve())
    monkeypatch.chdir(clone)
    assert labels(run("list", "--from-clients", "--json").document) == []
    assert not STARTED.exists()


def test_forget_revokes_the_trust(run: Run) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    client_file(".mcp.json", other=["touch", "started"])
    as_person(run, "trust")
    forgotten = run("trust", "--revoke", "--json").document["forgotten"]
    assert forgotten == [str(PROJECT.resolve()), str(Path(".mcp.json").resolve())]
    assert labels(run("list", "--from-clients", "--json").document) == []
    assert run("trust", "--revoke").out == "Nothing of this project was trusted.\n"


def states(run: Run) -> dict[str, str]:
    return {one["handle"]: one["approval"]["state"] for one in run("list", "--json").document["skills"]}


def test_one_decision_covers_servers_directories_and_skills(run: Run) -> None:
    write_skill(".agents/skills/notes")
    write_skill("more/letters")
    PROJECT.write_text('directories = ["more"]\n[servers.docs]\nurl = "https://docs.example/mcp"\n', "utf-8")
    shown = run("trust")
    assert shown.code == 7
    for part in (
        "docs connects to",
        "│ https://docs.example/mcp",
        "│ more",
        "notes  not approved",
        "letters  not",
    ):
        assert part in shown.err
    document = as_person(run, "trust", "--json").document
    assert [file["trusted"] for file in document["files"]] == [True]
    assert {skill["handle"]: skill["state"] for skill in document["skills"]} == {
        "notes": "approved",
        "letters": "approved",
    }
    assert states(run) == {"notes": "approved", "letters": "approved"}
    assert "You trust all of this already." in run("trust").err


def test_directories_of_a_file_without_servers_can_be_trusted(run: Run) -> None:
    write_skill("more/letters")
    PROJECT.write_text('directories = ["more"]\n', "utf-8")
    ended = run("list")
    assert "letters" not in ended.out
    assert (
        "names directories of skills, which are not read until you run `skillwire trust` there" in ended.out
    )
    assert as_person(run, "trust").code == 0
    assert states(run) == {"letters": "approved"}
    # A server that the user adds does not make directories trusted that were not.
    run("trust", "--revoke")
    run("servers", "add", "--no-check", "mine", "https://mine.example/mcp")
    assert states(run) == {}


def test_trust_grants_no_tools_and_no_code(run: Run) -> None:
    write_skill(".agents/skills/notes")
    text = Path(".agents/skills/notes/SKILL.md")
    text.write_text(text.read_text().replace("description", "allowed-tools: Bash\ndescription"), "utf-8")
    assert "the tools Bash, which trust does not grant" in as_person(run, "trust").err
    approval = run("list", "--json").document["skills"][0]["approval"]
    assert (approval["state"], approval["allowed_tools"], approval["execute_code"]) == (
        "approved",
        False,
        False,
    )


def test_a_skill_that_changes_or_comes_is_not_trusted(run: Run) -> None:
    write_skill(".agents/skills/notes")
    as_person(run, "trust")
    Path(".agents/skills/notes/more.md").write_text("More.\n")
    write_skill(".agents/skills/late")
    assert states(run) == {"notes": "changed", "late": "not approved"}


def test_what_is_trusted_is_what_was_shown_and_nothing_later(run: Run) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    write_skill(".agents/skills/notes")
    assert as_person(run, "trust", answers=("n",)).code == 7
    assert states(run)["notes"] == "not approved"

    def meanwhile(_: str) -> str:
        write_skill(".agents/skills/late")
        PROJECT.write_text(EVIL + "# x\n", "utf-8")
        return "y"

    assert as_person(run, "trust", answers=(meanwhile,)).code == 0
    assert states(run) == {"notes": "approved", "late": "not approved"}
    assert run("servers", "list", "--json").document["servers"][0]["trusted"] is False


def test_trust_of_a_project_is_listed_and_revoked_from_anywhere(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    write_skill(".agents/skills/notes")
    as_person(run, "trust")
    project = Path.cwd()
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    assert run("trust", "--list").out.splitlines() == [
        f"{project / 'skillwire.toml'}  trusted",
        f"{project / '.agents/skills'}  1 skill approved",
    ]
    (project / "skillwire.toml").write_text("# Changed.\n", "utf-8")
    assert "changed since: not trusted now" in run("trust", "--list").out
    (project / "skillwire.toml").unlink()
    assert run("trust", "--list", "--json").document["files"][0]["state"] == "not there any more"
    ended = run("trust", project, "--revoke", "--json").document
    assert (ended["forgotten"], ended["revoked"]) == (
        [str(project / "skillwire.toml")],
        ["skill://notes/SKILL.md"],
    )
    assert run("trust", "--list").out == "No project is trusted.\n"
    assert run("trust", "--list", "--revoke").code == 2


def test_the_users_home_needs_no_trust(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    monkeypatch.chdir(home)
    write_skill(".agents/skills/mine")
    assert "nothing to trust" in run("trust").err
    assert states(run) == {"mine": "own files"}


@pytest.mark.parametrize("directory", ["../out", "${HOME}/out", "/", "~"])
def test_a_directory_outside_the_project_is_shown_and_never_read(run: Run, directory: str) -> None:
    write_skill("../out/letters")
    PROJECT.write_text(f'directories = ["{directory}"]\n', "utf-8")
    shown = as_person(run, "trust").err
    assert f"│ {directory}" in shown
    assert "outside the project: it is not read" in shown or "reads HOME of your environment" in shown
    assert "letters" not in shown
    assert states(run) == {}


def test_a_skill_that_changes_while_the_question_is_open_is_not_approved(run: Run) -> None:
    write_skill(".agents/skills/notes")

    def meanwhile(_: str) -> str:
        write_skill(".agents/skills/notes", body="Do something else.")
        return "y"

    as_person(run, "trust", answers=(meanwhile,))
    assert states(run)["notes"] != "approved"


def test_without_servers_there_is_nothing_to_trust(run: Run) -> None:
    PROJECT.write_text('default_directories = false\n[profiles.p]\ndisabled = ["a"]\n', "utf-8")
    ended = run("trust")
    assert (ended.code, "nothing to trust" in ended.err) == (0, True)


def test_where_nobody_can_be_asked_nothing_is_trusted(run: Run) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    ended = run("trust")
    assert (ended.code, "│ touch started" in ended.err, "there is no terminal" in ended.err) == (
        7,
        True,
        True,
    )
    assert json.loads(run("trust", "--json").out)["files"][0]["trusted"] is False
    assert labels(run("list", "--json").document) == []


@pytest.mark.parametrize(
    ("answer", "code", "trusted"), [("y", 0, True), ("n", 7, False), ("", 7, False), ("\x04", 7, False)]
)
def test_on_a_terminal_only_a_yes_is_a_yes(run: Run, answer: str, code: int, trusted: bool) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    ended = as_person(run, "trust", answers=(answer,))
    assert ended.code == code
    assert "│ touch started" in ended.err.partition("[y/N]")[0]
    assert run("servers", "list", "--json").document["servers"][0]["trusted"] is trusted


@pytest.mark.process
def test_a_file_that_changes_while_the_question_is_open_is_not_trusted(run: Run) -> None:
    """In a process, on a real terminal."""
    PROJECT.write_text('[servers.good]\ncommand = "good"\n', "utf-8")
    terminal = Terminal("trust")
    terminal.wait_for("[y/N]")
    PROJECT.write_text(EVIL, "utf-8")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert labels(run("list", "--json").document) == []


@pytest.mark.process
def test_what_the_user_adds_is_trusted_in_a_file_that_was(run: Run) -> None:
    PROJECT.write_text(
        "default_directories = false\n", "utf-8"
    )  # It names no server: nothing in it waits for trust.
    assert "skillwire list" in run("servers", "add", "--no-check", "one", "--", "touch", "started").out
    run("servers", "add", "--no-check", "two", "--", "touch", "started")
    assert labels(run("list", "--json").document) == ["one", "two"]
    run("servers", "remove", "one")
    assert labels(run("list", "--json").document) == ["two"]


def test_an_addition_does_not_make_the_rest_of_a_file_trusted(run: Run) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    assert "skillwire trust" in run("servers", "add", "--no-check", "mine", "--", "touch", "started").out
    run("servers", "remove", "mine")
    assert labels(run("list", "--json").document) == []
    assert not STARTED.exists()


@pytest.mark.process
@pytest.mark.parametrize("damage", ["", "null", "{}", '{"path": 1, "digest": 2}', "[" * 100_000, "\udcff"])
def test_a_damaged_record_trusts_nothing(run: Run, damage: str) -> None:
    PROJECT.write_text(EVIL, "utf-8")
    as_person(run, "trust")
    [record] = state_paths().trusted.iterdir()
    assert (record.stat().st_mode & 0o777, record.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    record.write_bytes(damage.encode("utf-8", "surrogateescape"))
    assert labels(run("list", "--json").document) == []
    as_person(run, "trust")
    assert labels(run("list", "--json").document) == ["evil"]
