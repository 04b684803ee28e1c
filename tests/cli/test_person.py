"""An approval is a person's act: in the environment of every known agent, no command approves anything."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Run, as_person, new_user, person
from folder_server import FolderServer
from skillwire.clients import clients
from skillwire.consent import require_person
from skillwire.consent.asking import open_terminal
from skillwire.errors import ApprovalRequired
from terminals import Terminal


def environment_of(sign: str) -> dict[str, str]:
    """The least environment in which a sign of the table holds."""
    parts = (part.partition("=") for part in sign.split())
    return {name: value.replace("*", "") or "1" for name, _, value in parts}


AGENTS = {
    f"{client.id}:{sign.partition('=')[0]}": environment_of(sign)
    for client in clients().values()
    for sign in client.inside
} | {"convention": {"AI_AGENT": "somebody-new"}, "older convention": {"AGENT": "1"}}

WAYS = {
    "approve": ("approve", "notes", "--dir", "team"),
    "approve all": ("approve", "--all", "--on", "shop"),
    "trust": ("trust",),
    "add": ("add", "./team", "--yes"),
    "add with grants": ("add", "./team", "--yes", "--allow-tools", "--allow-code"),
    "update": ("update", "--yes"),
    "rollback": ("rollback", "notes"),
    "sync": ("sync", "--yes"),
    "import": ("approvals", "import", "approvals.json"),
    "page": ("ui", "--no-open"),
    # Nobody can listen at this address (RFC 5737): a gateway that does not ask for a person ends here, too.
    "page of a gateway": ("gateway", "run", "--http", "192.0.2.1:9", "--unsafe-no-auth", "--ui"),
    "approval mode": (
        *("servers", "add", "other", "https://other.example/mcp", "--user", "--no-check"),
        *("--approval", "always"),
    ),
    "address of a server whose approval mode is always": (
        *("servers", "add", "docs", "https://other.example/mcp", "--user", "--no-check", "--replace"),
    ),
}


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = new_user(tmp_path, monkeypatch)
    plant("team/notes")
    return directory


Inside = Callable[[dict[str, str]], None]


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Inside:
    def enter(environment: dict[str, str]) -> None:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return enter


def plant(directory: str, fields: str = "", body: str = "Note.") -> None:
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {folder.name}\ndescription: Does {folder.name}. Use when asked.\n{fields}---\n{body}\n"
    )


ALLOWED = '[servers.docs]\nurl = "https://docs.example/mcp"\napproval = "always"\n'


def user_file() -> Path:
    return Path.home().parent / "xdg_config_home/skillwire/skillwire.toml"


def user_config(text: str) -> None:
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(text)


@pytest.fixture
def lock_of_others(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A lock that somebody else wrote, and an export of their approvals."""
    with monkeypatch.context() as patch:
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path / "other" / name.lower()))
        assert run("add", "./team", "--yes").code == 0
        Path("approvals.json").write_text(run("approvals", "export").out)
    shutil.rmtree(".agents")


@pytest.mark.usefixtures("lock_of_others")
@pytest.mark.parametrize("environment", AGENTS.values(), ids=AGENTS)
def test_nothing_approves_inside_an_agent(
    run: Run, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    user_config(ALLOWED)
    for way, words in WAYS.items():
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            # A terminal changes nothing: an agent can have one.
            ended = as_person(run, *words)
        assert ended.code == 7, (way, ended.err)
        assert "up to a person" in ended.err, way
        # What a model reads of it names no command.
        assert ended.err.count("skillwire") == 1, way
    assert run("approvals", "list", "--json").document["approvals"] == []
    assert run("trust", "--list", "--json").document["files"] == []
    assert not Path(".agents").exists()
    assert user_file().read_text() == ALLOWED


@pytest.mark.process
def test_a_terminal_that_an_agent_allocates_approves_nothing(run: Run, folders: FolderServer) -> None:
    """In a process; every agent and every command are in the test above."""
    user_config(f'[servers.shop]\nurl = "{folders.at("team")}"\n')
    terminal = Terminal("approve", "notes", env={"CLAUDECODE": "1"})
    terminal.type("y\n")
    assert terminal.end() == 7, terminal.screen
    assert "[N]o" not in terminal.screen
    assert run("approvals", "list", "--json").document["approvals"] == []


def test_loading_asks_nobody_inside_an_agent(
    run: Run, monkeypatch: pytest.MonkeyPatch, folders: FolderServer
) -> None:
    user_config(f'[servers.shop]\nurl = "{folders.at("team")}"\n')
    for agent in ("claude-code", "codex", "opencode"):
        [sign, *_] = clients()[agent].inside
        with monkeypatch.context() as patch:
            for name, value in environment_of(sign).items():
                patch.setenv(name, value)
            ended = as_person(run, "load", "notes")
        assert (ended.code, ended.out, "[N]o" in ended.err) == (7, "", False), agent
    assert as_person(run, "load", "notes").code == 0


def test_what_an_agent_takes_back_or_reads_is_not_refused(run: Run, inside: Inside) -> None:
    assert run("add", "./team", "--yes").code == 0
    inside({"CLAUDECODE": "1"})
    assert run("list").code == 0
    assert run("sync").code == 0
    assert run("revoke", "notes").code == 0


def test_what_an_agent_adds_to_a_projects_file_is_not_trusted(run: Run, inside: Inside) -> None:
    inside({"CLAUDECODE": "1"})
    assert run("servers", "add", "--no-check", "docs", "https://docs.example/mcp").code == 0
    assert "docs" in Path("skillwire.toml").read_text()
    assert run("trust", "--list", "--json").document["files"] == []


# What the user allows


@pytest.mark.usefixtures("lock_of_others")
def test_a_user_can_let_agents_install_but_not_grant_or_approve(run: Run, inside: Inside) -> None:
    plant("team/deploy", "allowed-tools: Bash\n")
    user_config("agents_may_install = true\n")
    inside({"CLAUDECODE": "1"})
    ended = run("add", "./team/notes", "--yes")
    assert ended.code == 0, ended.err
    assert "Your configuration lets agents install skills" in ended.err
    assert run("add", "./team/deploy", "--yes").code == 12
    # Neither an option nor an answer on a terminal of its own grants tools.
    assert run("add", "./team/deploy", "--yes", "--allow-tools").code == 7
    assert as_person(run, "add", "./team/deploy").code == 12
    for words in ("approve notes", "trust", "ui --no-open", "approvals import approvals.json"):
        assert as_person(run, *words.split()).code == 7, words
    assert not Path(".agents/skills/deploy").exists()


def test_a_lock_that_grants_tools_needs_a_person(
    run: Run, inside: Inside, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant("team/deploy", "allowed-tools: Bash\n")
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        patch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
        assert run("add", "./team/deploy", "--yes", "--allow-tools").code == 0
    shutil.rmtree(".agents")
    user_config("agents_may_install = true\n")
    inside({"CODEX_SANDBOX": "seatbelt"})
    assert run("sync", "--yes").code == 7


def test_an_earlier_version_with_tools_and_an_edited_skill_with_tools_need_a_person(
    run: Run, inside: Inside
) -> None:
    plant("team/deploy", "allowed-tools: Bash\n")
    assert run("add", "./team/deploy", "--yes", "--allow-tools").code == 0
    plant("team/deploy", "allowed-tools: Bash\n", "Other.")
    assert run("update", "--yes").code == 0
    user_config("agents_may_install = true\n")
    inside({"CLAUDECODE": "1"})
    assert run("rollback", "deploy").code == 7
    with Path(".agents/skills/deploy/SKILL.md").open("a") as file:
        file.write("Edited.\n")
    assert run("sync", "--adopt", "--yes").code == 7


@pytest.mark.process
def test_a_command_in_the_background_asks_nobody(folders: FolderServer) -> None:
    user_config(f'[servers.shop]\nurl = "{folders.at("team")}"\n')
    script = f"set -m; {sys.executable} -m skillwire approve notes & wait $!"
    terminal = Terminal("-c", script, program="/bin/sh")
    assert terminal.end() == 7, terminal.screen
    assert "there is no terminal to ask on" in " ".join(terminal.screen.split())


@pytest.mark.parametrize("file", ["skillwire.toml", "other.toml"])
def test_no_file_of_a_project_lets_agents_install(run: Run, inside: Inside, file: str) -> None:
    Path(file).write_text("agents_may_install = true\n")
    inside({"GEMINI_CLI": "1"})
    assert run("add", "./team", "--yes", "--config", file).code == 7
    assert run("add", "./team", "--yes").code == 7


@pytest.mark.parametrize("line", ["agents_may_install = true", 'approvers = ["team"]'])
def test_a_project_that_says_who_may_approve_is_refused(run: Run, line: str) -> None:
    Path("skillwire.toml").write_text(f"{line}\n")
    ended = run("list")
    assert (ended.code, "a project cannot say this for its user" in ended.err) == (3, True)


@pytest.mark.parametrize(
    ("text", "level", "words"),
    [
        ("", "ok", "agents may not install skills"),
        ("agents_may_install = true\n", "note", "agents may install skills"),
    ],
)
def test_doctor_says_whether_agents_may_install(run: Run, text: str, level: str, words: str) -> None:
    user_config(text)
    document = json.loads(run("doctor", "--no-servers", "--json").out)
    [finding] = [one for one in document["findings"] if one["area"] == "agents"]
    assert (finding["level"], words in finding["message"]) == (level, True)


def test_doctor_says_that_it_is_inside_an_agent(run: Run, inside: Inside) -> None:
    inside({"CLAUDECODE": "1"})
    document = json.loads(run("doctor", "--no-servers", "--json").out)
    [finding] = [one for one in document["findings"] if "inside" in one["message"]]
    assert "Claude Code" in finding["message"]


# Automation


def test_a_script_in_ci_installs_with_yes(run: Run, inside: Inside) -> None:
    inside({"CI": "true", "GITHUB_ACTIONS": "true", "AGENT_NAME": "runner 3", "AGENT_OS": "Linux"})
    assert run("add", "./team", "--yes").code == 0
    assert run("sync", "--frozen", "--yes").code == 0


@pytest.fixture
def keys(run: Run) -> None:
    for name in ("team", "eve"):
        assert run("sign", "--new-key", f"{name}.pem").code == 0


APPROVERS = (
    'approvers = ["team"]\n[publishers.team]\nkey = "{}/team.pub"\n[publishers.eve]\nkey = "{}/eve.pub"\n'
)


@pytest.mark.usefixtures("keys")
def test_approvals_that_a_configured_key_signed_are_imported_without_a_terminal(run: Run, work: Path) -> None:
    run("add", "./team", "--yes")
    exports = {
        "unsigned": run("approvals", "export").out,
        "of another": run("approvals", "export", "--sign", "eve.pem").out,
        "signed": run("approvals", "export", "--sign", "team.pem").out,
    }
    changed = json.loads(exports["signed"])
    changed["approvals"][0]["execute_code"] = True
    exports["changed"] = json.dumps(changed)
    run("revoke", "notes")
    for name, text in exports.items():
        Path(f"{name}.json").write_text(text)
    # Nobody is configured: no signature counts.
    assert run("approvals", "import", "signed.json").code == 7
    user_config(APPROVERS.format(work, work))
    for name in ("unsigned", "of another", "changed"):
        ended = run("approvals", "import", f"{name}.json")
        assert (ended.code, "is not signed by a publisher that `approvers`" in ended.err) == (7, True), name
        assert run("approvals", "list", "--json").document["approvals"] == []
    assert run("approvals", "import", "signed.json").out == "Imported 1 approval, signed by team.\n"
    assert len(run("approvals", "list", "--json").document["approvals"]) == 1


@pytest.mark.usefixtures("keys")
def test_a_signed_export_is_not_imported_inside_an_agent(run: Run, work: Path, inside: Inside) -> None:
    run("add", "./team", "--yes")
    Path("signed.json").write_text(run("approvals", "export", "--sign", "team.pem").out)
    run("revoke", "notes")
    user_config(APPROVERS.format(work, work))
    inside({"CURSOR_AGENT": "1"})
    assert run("approvals", "import", "signed.json").code == 7


def test_an_approver_is_a_publisher_that_is_configured(run: Run) -> None:
    user_config('approvers = ["taem"]\n[publishers.team]\nkey = "team.pub"\n')
    ended = run("list")
    assert (ended.code, "did you mean team?" in ended.err) == (3, True)


# The function and the terminal


@pytest.mark.parametrize(
    ("page", "words"), [(True, "or on the review page"), (False, "outside of any agent")]
)
def test_the_refusal_says_who_must_act_and_where(page: bool, words: str) -> None:
    with pytest.raises(ApprovalRequired, match=words) as refused:
        require_person("approving a skill", page=page, environment={"CLAUDECODE": "1"})
    assert "Claude Code" in str(refused.value)
    assert "`" not in str(refused.value)
    require_person("approving a skill", environment={"TERM": "xterm"})


def test_without_a_controlling_terminal_there_is_nobody_to_ask() -> None:
    assert open_terminal() is None
    assert open_terminal("win32") is None


@pytest.mark.process
def test_an_answer_is_read_from_the_terminal_and_not_from_standard_input(
    run: Run, folders: FolderServer, tmp_path: Path
) -> None:
    user_config(f'[servers.shop]\nurl = "{folders.at("team")}"\n')
    (tmp_path / "yes").write_text("y\n" * 9)
    script = f"{sys.executable} -m skillwire approve notes < {tmp_path}/yes 2> {tmp_path}/errors"
    terminal = Terminal("-c", script, program="/bin/sh")
    # The question is shown where it is answered, wherever standard error goes.
    terminal.answer("[N]o", "n\n")
    assert terminal.end() == 7, terminal.screen
    assert run("approvals", "list", "--json").document["approvals"] == []


@pytest.mark.process
def test_what_was_typed_before_the_question_is_no_answer(run: Run, folders: FolderServer) -> None:
    user_config(f'[servers.shop]\nurl = "{folders.at("team")}"\n')
    terminal = Terminal("approve", "notes")
    terminal.type("y\n")
    terminal.answer("[N]o", "n\n")
    assert terminal.end() == 7
    assert run("approvals", "list", "--json").document["approvals"] == []


def test_a_person_is_asked_about_an_export_that_is_not_signed(run: Run) -> None:
    run("add", "./team", "--yes")
    Path("approvals.json").write_text(run("approvals", "export").out)
    run("revoke", "notes")
    with person("n"):
        assert run("approvals", "import", "approvals.json").code == 7
    assert as_person(run, "approvals", "import", "approvals.json").code == 0
