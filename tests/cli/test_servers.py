"""`skillwire servers` writes only what it was told to, and prints no secret."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command_line import Run, approved, as_person, hiding, new_home
from folder_server import FolderServer
from skillwire.host import ServerAddress
from skillwire.host.config.text import parse_config
from terminals import Terminal
from trees import write_skill

SKILLWIRE = str(Path(sys.executable).parent / "skillwire")
SECRET = "s3cr3t"
PROJECT = Path("skillwire.toml")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return new_home(tmp_path, monkeypatch)


@pytest.fixture
def run(run: Run) -> Run:
    return hiding(run, lambda: [SECRET])


def user_file(home: Path) -> Path:
    return home / ".config/skillwire/skillwire.toml"


def places(file: Path) -> dict[str, ServerAddress | None]:
    return {label: text.place for label, text in parse_config(file.read_text("utf-8"), file).servers.items()}


def test_a_url_and_a_command_are_added_to_the_project_or_the_users_file(run: Run, home: Path) -> None:
    assert (
        run(
            "servers",
            "add",
            "--no-check",
            "web",
            f"https://u:{SECRET}@w.example/{SECRET}",
            "--token-env",
            "T",
        ).code
        == 0
    )
    assert (
        run(
            "servers",
            "add",
            "--no-check",
            "tool",
            "--user",
            "--env",
            f"K={SECRET}",
            "--",
            "npx",
            "-y",
            SECRET,
        ).code
        == 0
    )
    assert places(PROJECT) == {
        "web": ServerAddress(url=f"https://u:{SECRET}@w.example/{SECRET}", token_env="T")
    }
    assert places(user_file(home)) == {
        "tool": ServerAddress(command=("npx", "-y", SECRET), env={"K": SECRET})
    }


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("include = []", "All 2 skills of shop are hidden by the include and exclude rules of your"),
        ('exclude = ["*"]', "All 2 skills of shop are hidden by the include and exclude rules of your"),
        ("[profiles.default]\ninclude = []", "All 2 skills of shop are hidden by the include and exclude"),
        ("skills = false", "shop are hidden by skills = false: `skillwire servers enable shop` changes that"),
        (
            "[profiles.default]\nservers = []",
            "shop are hidden by the profile, which does not name it: change that in",
        ),
    ],
)
def test_a_list_that_the_users_own_rules_emptied_says_which_rule_and_how_to_change_it(
    run: Run, home: Path, folders: FolderServer, rules: str, words: str
) -> None:
    for name in ("a", "b"):
        write_skill(f"served/{name}")
    user_file(home).parent.mkdir(parents=True)
    server = f'[servers.shop]\nurl = "{folders.at("served")}"'
    user_file(home).write_text(f"{server}\n{rules}\n", "utf-8")
    for arguments in (["list"], ["search", "thing"], ["show", "a"]):
        ended = run(*arguments, "--no-default-directories")
        said = " ".join((ended.out + ended.err).split())
        assert words in said
        assert "no skills yet" not in said
        if "enable" not in words:
            assert user_file(home).name in said


def test_what_others_wrote_into_the_file_stays(run: Run) -> None:
    PROJECT.write_text("# Mine.\ndefault_directories = false\n", "utf-8")
    added = run(
        "servers", "add", "--no-check", "web", "https://w.example", "--header", "X=a=b", "--json"
    ).document
    assert added["added"] == {
        "label": "web",
        "place": "https://w.example",
        "file": str(PROJECT.resolve()),
    }
    assert PROJECT.read_text("utf-8").startswith("# Mine.\ndefault_directories = false\n")
    assert places(PROJECT) == {"web": ServerAddress(url="https://w.example", headers={"X": "a=b"})}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["a b", "https://x"], "the label 'a b'"),
        (["local", "https://x"], "is reserved for local directories"),
        (["a"], "is missing: write skillwire servers add"),
        (["a", "ftp://x"], "not an http:// or https:// URL"),
        (["a", "https://x", "--env", "A=b"], "--env is for a command"),
        (["a", "--header", "A=b", "--", "x"], "--header is for a URL"),
        (["a", "https://x", "--header", "nosign"], "write NAME=VALUE"),
        (["a", "https://x", "--approval", "maybe"], "must be one of prompt, pinned, always, never"),
        (["a", "https://x", "--approval", "always"], "always is for your own file only"),
    ],
)
def test_what_makes_no_sense_is_refused_and_not_written(
    run: Run, arguments: list[str], complaint: str
) -> None:
    ended = run("servers", "add", "--no-check", *arguments)
    assert ended.code in (2, 3)
    assert complaint in ended.err
    assert not PROJECT.exists()


@pytest.mark.parametrize("where", [[], ["--user"]])
def test_a_name_is_taken_once_in_both_files_and_in_any_case(run: Run, where: list[str]) -> None:
    run("servers", "add", "--no-check", "web", "https://w.example")
    ended = run("servers", "add", "--no-check", "WEB", "https://v.example", *where)
    assert (ended.code, "has a server called web" in ended.err) == (4, True)


def test_a_file_with_mistakes_is_left_alone(run: Run) -> None:
    PROJECT.write_text("nonsense = 1\n", "utf-8")
    ended = run("servers", "add", "--no-check", "web", "https://w.example")
    assert (ended.code, "nonsense is not known here" in ended.err) == (3, True)
    assert PROJECT.read_text("utf-8") == "nonsense = 1\n"


def test_servers_are_listed_without_their_secrets_or_variables(run: Run, home: Path) -> None:
    user_file(home).parent.mkdir(parents=True)
    user_file(home).write_text(
        f'[servers.web]\nurl = "https://w.example/{SECRET}"\ntoken = "{SECRET}"\napproval = "pinned"\n'
        f'[servers.tool]\ncommand = "npx"\nargs = ["{SECRET}"]\nenv = {{ K = "${{NOT_SET}}" }}\n'
        '[servers.off]\ncommand = "x"\nskills = false\n[profiles.p]\nservers = ["web"]',
        "utf-8",
    )
    assert run("servers").out.splitlines() == [
        "NAME  WHERE                APPROVAL  STATUS",
        "web   https://w.example/…  pinned    not checked (--check connects)",
        "tool  npx                  prompt    not checked (--check connects)",
        "off   x                    prompt    off (skills = false)",
    ]
    assert "not in this profile" in run("servers", "list", "--profile", "p").out
    listed = run("servers", "list", "--json").document["servers"]
    assert [(server["label"], server["used"]) for server in listed] == [
        ("web", True),
        ("tool", True),
        ("off", False),
    ]
    ended = run("servers", "list", "--check")
    assert "servers.tool.env.K needs the variable 'NOT_SET'" in " ".join(ended.out.split())


@pytest.mark.process
def test_check_reports_the_status_of_each_server(run: Run, folders: FolderServer) -> None:
    write_skill("served/refunds")
    run("servers", "add", "--no-check", "shop", folders.at("served"))
    run("servers", "add", "--no-check", "dead", "--", "nosuchcommand")
    checked = run("servers", "list", "--check")
    out = checked.out
    assert checked.code == 4
    assert "ready, 1 skill, Skills extension (final), protocol 2026-07-28" in out
    assert "failed: the command nosuchcommand is not installed" in out
    listed = json.loads(run("servers", "list", "--check", "--json").out)["servers"]
    assert [(server["status"], server["skill_count"]) for server in listed] == [("ready", 1), ("failed", 0)]


def test_without_servers_the_output_says_what_to_do(run: Run) -> None:
    assert "skillwire servers add NAME URL" in run("servers", "list").out


@pytest.mark.requirement("SEC-8")
def test_removing_a_server_deletes_its_cache_and_approvals(run: Run, folders: FolderServer) -> None:
    write_skill("served/refunds")
    run("servers", "add", "--no-check", "shop", folders.at("served"))
    approved(run, "refunds")
    assert run("load", "refunds").code == 0
    assert len(run("config", "cache", "--json").document["files"]) == 1
    ended = run("servers", "remove", "shop")
    assert ended.out.splitlines()[1] == "Deleted with it: 1 cached file and 1 approval."
    assert run("config", "cache", "--json").document["files"] == []
    assert run("revoke", "refunds").code == 8
    assert run("servers", "list", "--json").document["servers"] == []
    run("servers", "add", "--no-check", "other", "https://other.example/mcp")
    assert len(run("servers", "remove", "other").out.splitlines()) == 1


def test_a_server_that_another_file_still_has_keeps_its_approvals(run: Run, folders: FolderServer) -> None:
    write_skill("served/refunds")
    run("servers", "add", "--no-check", "shop", "--user", folders.at("served"))
    PROJECT.write_text('[servers.shop]\napproval = "prompt"\n', "utf-8")
    approved(run, "refunds")
    assert "It is still in" in run("servers", "remove", "shop").out
    assert run("servers", "remove", "shop", "--json").document["removed"]["approvals"] == 1


def test_an_unknown_server_is_reported_with_the_known_ones(run: Run) -> None:
    run("servers", "add", "--no-check", "web", "https://w.example")
    ended = run("servers", "remove", "wbe")
    assert (ended.code, "known: web" in ended.err) == (8, True)


CLIENT = json.dumps(
    {
        "mcpServers": {
            "good": {"command": SKILLWIRE, "args": ["serve", "served"], "env": {"KEY": SECRET}},
            "wants": {"url": "https://w.example/mcp", "headers": {"X": "${NOT_SET}"}},
            "old": {"type": "sse", "url": "https://o.example/sse"},
        }
    }
)


def test_import_shows_what_it_would_write_and_writes_nothing(run: Run, home: Path) -> None:
    Path(".mcp.json").write_text(CLIENT, "utf-8")
    as_person(run, "trust")
    ended = run("servers", "import")
    assert ended.code == 0
    assert ", 2 arguments, env KEY" in ended.out
    assert "https://w.example/mcp, headers X" in ended.out
    assert "skip  old    it uses the deprecated SSE transport, which is not supported" in ended.out
    assert f"--write would add 2 servers to {user_file(home)}." in ended.out
    assert not user_file(home).exists()
    assert not PROJECT.exists()


def test_import_writes_on_request_and_only_what_is_new(run: Run, home: Path) -> None:
    Path(".mcp.json").write_text(CLIENT, "utf-8")
    as_person(run, "trust")
    document = run("servers", "import", "--write", "--only", "good", "--json").document
    assert (document["written"], [server["label"] for server in document["servers"]]) == (True, ["good"])
    assert places(user_file(home)) == {
        "good": ServerAddress(
            command=(SKILLWIRE, "serve", "served"), env={"KEY": SECRET}, directory=str(Path.cwd())
        )
    }
    assert user_file(home).stat().st_mode & 0o777 == 0o600
    assert "known good" in run("servers", "import").out
    assert "Wrote 1 server" in run("servers", "import", "--write", "--project").out
    assert list(places(PROJECT)) == ["wants"]
    assert "There is nothing to add." in run("servers", "import", "--write").out


def test_import_of_a_name_that_was_not_found_is_refused(run: Run) -> None:
    ended = run("servers", "import", "--only", "nobody")
    assert (ended.code, "no client has a server called nobody" in ended.err) == (2, True)
    assert "No servers were found" in run("servers", "import").out


@pytest.mark.process
def test_list_from_clients_asks_them_all_and_writes_nothing(run: Run, home: Path) -> None:
    write_skill("served/refunds")
    Path(".mcp.json").write_text(CLIENT, "utf-8")
    as_person(run, "trust")
    before = sorted(str(path) for path in Path().rglob("*"))
    ended = run("list", "--from-clients")
    assert "refunds  MCP · good  not approved" in ended.out
    assert "old (Claude Code): it uses the deprecated SSE transport" in ended.out
    assert "servers.wants.headers.X needs the variable 'NOT_SET'" in ended.out
    document = run("list", "--from-clients", "--json").document
    assert [server["label"] for server in document["servers"]] == ["good"]
    assert len(document["skipped"]) == 2
    assert sorted(str(path) for path in Path().rglob("*")) == before
    assert not user_file(home).exists()


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("localhost:8000/mcp", "localhost:8000/mcp is not a URL: write http://localhost:8000/mcp"),
        ("127.0.0.1:9", "write http://127.0.0.1:9"),
        ("docs.example.org/mcp", "write https://docs.example.org/mcp"),
        ("example.org", "write https://example.org"),
        ("notaurl", "notaurl is neither a URL nor a program on the PATH"),
    ],
)
def test_a_mistyped_url_is_not_taken_for_a_command(run: Run, word: str, complaint: str) -> None:
    ended = run("servers", "add", "--no-check", "x", word)
    assert (ended.code, complaint in ended.err) == (2, True), ended.err
    assert not PROJECT.exists()
    assert run("servers", "add", "--no-check", "x", "--", word).code == 0
    assert places(PROJECT) == {"x": ServerAddress(command=(word,))}


def test_a_program_that_is_there_needs_no_dashes(run: Run) -> None:
    assert run("servers", "add", "--no-check", "x", "sh").code == 0
    assert places(PROJECT) == {"x": ServerAddress(command=("sh",))}


def test_a_server_is_disabled_and_enabled_and_the_rest_of_the_file_stays(run: Run, home: Path) -> None:
    run("servers", "add", "--no-check", "web", "https://w.example", "--user")
    before = user_file(home).read_text("utf-8")
    assert run("servers", "disable", "WEB").out == f"web is disabled in {user_file(home)}.\n"
    assert "off (skills = false)" in run("servers", "list").out
    assert run("servers", "disable", "web").out == "web is disabled already.\n"
    assert run("servers", "enable", "web").out == f"web is enabled in {user_file(home)}.\n"
    assert user_file(home).read_text("utf-8") == before
    assert run("servers", "enable", "web").out == "web is enabled already.\n"


def test_a_server_of_the_user_can_be_disabled_in_one_project(run: Run, home: Path) -> None:
    run("servers", "add", "--no-check", "web", "https://w.example", "--user")
    document = run("servers", "disable", "web", "--project", "--json").document
    assert document["server"] == {"label": "web", "enabled": False, "files": [str(PROJECT.resolve())]}
    assert run("servers", "list", "--json").document["servers"][0]["skills"] is False
    assert "skills" not in user_file(home).read_text("utf-8")
    assert run("servers", "enable", "web").code == 0
    assert run("servers", "list", "--json").document["servers"][0]["skills"] is True
    assert PROJECT.read_text("utf-8").strip() == ""


def test_only_a_server_that_is_there_can_be_disabled(run: Run) -> None:
    run("servers", "add", "--no-check", "web", "https://w.example")
    for command in ("disable", "enable"):
        ended = run("servers", command, "wbe")
        assert (ended.code, "no server is called wbe in your files; known: web" in ended.err) == (8, True)


def test_import_keeps_every_switch_and_says_so(run: Run, home: Path) -> None:
    (home / ".gemini").mkdir(parents=True)
    (home / ".gemini/settings.json").write_text(
        json.dumps(
            {
                "skills": {"disabled": ["noisy"]},
                "mcpServers": {
                    "some": {"command": "s", "includeSkills": ["a"]},
                    "none": {"command": "n", "includeSkills": []},
                    "mute": {"command": "m", "skillsEnabled": False},
                    "signed": {"httpUrl": "https://s.example", "oauth": {"enabled": True}},
                },
            }
        ),
        "utf-8",
    )
    ended = run("servers", "import", "--write")
    shown = " ".join(ended.out.split())
    for words in (
        "as in that client: only the skills a",
        "as in that client: no skill",
        "as in that client: its skills stay disabled",
        "as in that client: not the skills noisy",
        "it requires a login: skillwire servers login signed",
    ):
        assert words in shown
    texts = parse_config(user_file(home).read_text("utf-8"), user_file(home)).servers
    assert {label: (text.skills, text.include, text.exclude) for label, text in texts.items()} == {
        "some": (None, ("a",), ("noisy",)),
        "none": (None, (), ("noisy",)),
        "mute": (False, None, ("noisy",)),
        "signed": (None, None, ("noisy",)),
    }


def test_import_of_a_server_that_is_here_under_another_name_adds_nothing(run: Run, home: Path) -> None:
    run("servers", "add", "--no-check", "docs", "https://d.example/mcp", "--token-env", "T", "--user")
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text(
        '{"mcpServers": {"other": {"url": "https://d.example/mcp",'
        ' "headers": {"Authorization": "Bearer ${env:T}"}}}}',
        "utf-8",
    )
    ended = run("servers", "import", "--write")
    assert "known other  https://d.example/mcp, here as docs" in ended.out
    assert "There is nothing to add." in ended.out


def test_import_that_finds_nothing_says_where_it_looked(run: Run, home: Path) -> None:
    ended = run("servers", "import")
    words = ended.out.replace(",", "").split()
    for client, path in (
        ("Claude Code", "~/.claude.json"),
        ("Windsurf", "~/.codeium/windsurf/mcp_config.json"),
        ("Zed", "~/.config/zed/settings.json"),
        ("GitHub Copilot", "~/.copilot/mcp-config.json"),
        ("OpenCode", "~/.config/opencode/opencode.json"),
        ("Wayland", ".wayland-core.toml"),
    ):
        assert client in ended.out
        assert path in words
    searched = run("servers", "import", "--json").document["searched"]
    assert {one["client"] for one in searched} >= {"Cursor", "VS Code", "Codex", "Gemini CLI", "Goose"}


def test_a_plain_text_secret_is_warned_about_and_offered_as_a_variable(run: Run) -> None:
    header = f"Authorization=Bearer {SECRET}"
    ended = run("servers", "add", "--no-check", "docs", "https://d.example/mcp", "--header", header)
    assert ended.code == 0
    assert "docs: the header Authorization looks like a secret, and would be plain text in " in ended.err
    assert "--use-variables" in ended.err
    assert SECRET in PROJECT.read_text()
    run("servers", "remove", "docs")
    ended = run(
        "servers", "add", "--no-check", "docs", "https://d.example/mcp", "--header", header, "--use-variables"
    )
    assert "the value of the header Authorization into the environment variable DOCS_TOKEN." in ended.err
    assert SECRET not in PROJECT.read_text()
    assert places(PROJECT) == {"docs": ServerAddress(url="https://d.example/mcp", token_env="DOCS_TOKEN")}
    # What is a variable already needs no warning.
    ended = run(
        "servers", "add", "--no-check", "two", "https://t.example/mcp", "--header", "X-Key=${TWO_KEY}"
    )
    assert ended.err == ""


def test_secrets_of_imported_servers_are_warned_about_and_can_become_variables(run: Run, home: Path) -> None:
    (home / ".cursor").mkdir(parents=True)
    entry = {"command": "npx", "args": ["-y", "x"], "env": {"API_KEY": SECRET}}
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"tools": entry}}))
    assert "tools: the variable API_KEY looks like a secret" in run("servers", "import").err
    ended = run("servers", "import", "--write", "--use-variables")
    assert "into the environment variable API_KEY." in ended.err
    assert SECRET not in user_file(home).read_text()
    assert 'API_KEY = "${API_KEY}"' in user_file(home).read_text()


@pytest.mark.process
@pytest.mark.parametrize(("answer", "in_clear"), [("\n", False), ("y\n", False), ("n\n", True)])
def test_on_a_terminal_the_person_decides_about_a_secret(answer: str, in_clear: bool) -> None:
    terminal = Terminal(
        "servers", "add", "--no-check", "docs", "https://d.example/mcp", "--header", f"X-Api-Key={SECRET}"
    )
    terminal.wait_for("[Y/n]")
    assert "DOCS_X_API_KEY of your environment" in terminal.screen
    terminal.type(answer)
    assert terminal.end() == 0
    assert (SECRET in PROJECT.read_text()) is in_clear
    assert SECRET not in terminal.screen


def test_a_server_is_asked_once_when_it_is_added(run: Run, folders: FolderServer) -> None:
    write_skill("served/refunds")
    added = run("servers", "add", "shop", folders.at("served"))
    assert added.code == 0
    assert "It answers, with 1 skill." in added.out
    assert "in this project alone" in added.out
    wrong = run("servers", "add", "--user", "other", "http://127.0.0.1:9/mcp")
    assert wrong.code == 0
    assert "It does not answer: nothing listens there" in wrong.out
    assert "--replace" in wrong.out
    assert "for all your projects" in wrong.out


def test_an_entry_is_replaced_and_keeps_what_else_it_says(run: Run) -> None:
    file = Path("skillwire.toml")
    assert run("servers", "add", "--no-check", "shop", "http://127.0.0.1:9/mcp").code == 0
    file.write_text(file.read_text() + 'include = ["a-*"]\n\n[profiles.work]\nservers = ["shop"]\n')
    taken = run("servers", "add", "--no-check", "shop", "http://127.0.0.1:10/mcp")
    assert taken.code == 4
    assert "--replace" in taken.err
    words = ("servers", "add", "--no-check", "--replace")
    assert run(*words, "shop", "http://127.0.0.1:10/mcp", "--token-env", "SHOP").code == 0
    text = file.read_text()
    assert "127.0.0.1:9/" not in text
    for part in ("http://127.0.0.1:10/mcp", 'token_env = "SHOP"', 'include = ["a-*"]', 'servers = ["shop"]'):
        assert part in text
    missing = run(*words, "--user", "shop", "http://127.0.0.1:10/mcp")
    assert missing.code == 8
    assert "leave out --user" in missing.err
