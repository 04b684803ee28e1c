"""`skillwire chat` as a person and as a program use it: on a pseudo-terminal, and with -p.

What is said and asked only on a terminal, and the pipes of a program, need a process. The rest is asserted in
this one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chat.forge import SERVER, serving_forge
from command_line import Run, new_user
from environments import bubblewrap
from scripted_model import ScriptedModel, serving, text_of, tool_names
from terminals import SKILLWIRE, Terminal


@pytest.mark.process
def test_a_person_tries_the_demo(tmp_path: Path) -> None:
    terminal = Terminal("chat", "--demo", env={"HOME": str(tmp_path)}, cwd=tmp_path)
    terminal.wait_for("Try: write release notes")
    terminal.type("/skills\r")
    terminal.wait_for("release-notes  (MCP server demo; not approved)")
    terminal.type("write release notes\r")
    terminal.wait_for("Load it? ")
    assert "SKILL.md (319 bytes, sha256:" in terminal.screen
    terminal.type("y\r")
    terminal.wait_for("I read the skill")
    terminal.wait_for("3 requests")
    terminal.type("/nope\r")
    terminal.wait_for("there is no command /nope")
    terminal.type("/quit\r")
    assert terminal.end() == 0


@pytest.mark.process
def test_a_no_is_told_to_the_model_and_ctrl_d_ends_the_session(tmp_path: Path) -> None:
    terminal = Terminal("chat", "--demo", "--plain", env={"HOME": str(tmp_path)}, cwd=tmp_path)
    terminal.wait_for("Type a message, or /help.")
    terminal.type("write release notes\r")
    terminal.wait_for("Load it? ")
    terminal.type("n\r")
    terminal.wait_for("The skill was not approved")
    terminal.wait_for(">", after="2 requests")
    terminal.type("\x04")
    assert terminal.end() == 0


@pytest.mark.process
def test_a_tool_is_asked_about_and_ctrl_c_stops_only_the_answer(tmp_path: Path) -> None:
    script = [
        lambda results: ("forge__get_pull_request", {"number": 7}),
        lambda results: ("forge__get_pull_request", {"number": 8}),
        lambda results: "Read both.",
    ]
    with serving(ScriptedModel(script)) as service:
        env = {
            "HOME": str(tmp_path),
            "ANTHROPIC_API_KEY": service.key,
            "ANTHROPIC_BASE_URL": service.url,
        }
        terminal = Terminal(
            "chat",
            "--model",
            "anthropic:m",
            "--no-config",
            "--server",
            f"forge={sys.executable} {SERVER}",
            env=env,
            cwd=tmp_path,
        )
        terminal.wait_for("Type a message, or /help.")
        terminal.type("read 7 and 8\r")
        terminal.wait_for("Call it? ")
        terminal.type("\x03")
        terminal.wait_for("Stopped; the conversation is as it was before this message.")
        terminal.type("read 7 and 8\r")
        terminal.wait_for("Call it? ", count=2)
        assert "forge/get_pull_request with {'number': 7}" in terminal.screen
        terminal.type("a\r")
        terminal.wait_for("Read both.")
        terminal.type("/quit\r")
        assert terminal.end() == 0
        assert terminal.screen.count("Call it? ") == 2
        assert service.key not in terminal.screen
    [history] = tmp_path.rglob("chat-history")
    assert history.stat().st_mode & 0o777 == 0o600
    assert "read 7 and 8" in history.read_text()


WILD = Path(__file__).parents[1] / "wild_stdio.py"
KINDS = {
    "first": "honest tools",
    "second": "honest tools",
    "third": "honest tools",
    "flapping": "flapping tools",
    "hostile": "hostile tools",
}
TURNS = 200


@pytest.mark.process
def test_two_hundred_turns_with_a_flapping_and_a_hostile_server_leave_the_terminal_clean_and_memory_flat(
    tmp_path: Path,
) -> None:
    servers = [
        word
        for name, kind in KINDS.items()
        for word in ("--server", f"{name}={sys.executable} {WILD} '{kind}'")
    ]
    tools = {7: "hostile__flood", 3: "flapping__ping", 5: "first__ping"}

    def move(results: list[str]) -> Any:
        request = service.requests[-1]
        if "summary now" in str(request["messages"][-1]):
            return "A summary."
        said = re.findall(r"turn number (\d+)\.", text_of(request))
        number = int(said[-1])
        is_new = "tool_result" not in str(request["messages"][-1])
        if is_new and (tool := tools.get(number % 40)) in tool_names(request):
            return tool, {}
        return f"\x1b]0;owned\x07\x1b[2JTurn {number} is answered, {service.key}."

    with serving(ScriptedModel([move], key="sk-of-this-test-1234")) as service:
        env = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": service.key, "ANTHROPIC_BASE_URL": service.url}
        allowed = [
            word
            for name in ("hostile/flood", "flapping/ping", "first/ping")
            for word in ("--allow-tool", name)
        ]
        options = ("chat", "--model", "anthropic:m", "--no-config", *servers, *allowed)
        terminal = Terminal(*options, env=env, cwd=tmp_path)
        terminal.wait_for("Type a message, or /help.")
        warm = 0
        for number in range(TURNS):
            terminal.type(f"turn number {number}.\r")
            terminal.wait_for(f"Turn {number} is answered")
            if number % 40 == 39:
                terminal.type("/compact\r")
                terminal.wait_for("The conversation is now this summary", count=number // 40 + 1)
            warm = terminal.memory if number == TURNS // 4 else warm
        grown = terminal.memory - warm
        assert grown < 48 * 1024 * 1024
        assert service.key not in terminal.raw
        terminal.type(f"/mcp {service.key}\r")
        terminal.wait_for("1 skill, 21 tools")
        # The words of others are there, and nothing of them acts on the terminal.
        assert terminal.screen.count("✓ hostile__flood: ") == 5
        assert "flapping went away during tools/call" in terminal.screen
        assert "MCP server flapping is connected" in terminal.screen
        for sequence in ("\x1b]", "\x07", "\x1b[2J", "\x1b[31m", "\x9b", "\u202e"):
            assert sequence not in terminal.raw, sequence
        # An approval that was given is there after a kill.
        terminal.type("/load first/refunds\r")
        terminal.wait_for("Load it? ")
        terminal.type("y\r")
        terminal.wait_for("is loaded and goes to the model")
        terminal.kill()
        [history] = tmp_path.rglob("chat-history")
        kept = history.read_text()
        assert history.stat().st_mode & 0o777 == 0o600
        assert "turn number 199." in kept
        assert service.key not in kept
        again = Terminal(*options, "--no-history", env=env, cwd=tmp_path)
        again.wait_for("Type a message, or /help.")
        again.type("/load first/refunds\r")
        again.wait_for("is loaded and goes to the model")
        again.type("/quit\r")
        assert again.end() == 0
        assert "Load it? " not in again.screen
        assert history.read_text() == kept


def use(service: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the commands of this test use this model service."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", service.key)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", service.url)


def run_command(*arguments: str, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SKILLWIRE, "chat", *arguments],
        env={"PATH": "/usr/bin:/bin", **env, "HOME": str(home)},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.process
def test_one_task_prints_a_json_line_for_each_event_and_asks_nobody(tmp_path: Path) -> None:
    done = run_command("--demo", "-p", "write release notes", "--output-format", "stream-json", home=tmp_path)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 7, done.stderr
    assert {
        "type": "person_needed",
        "text": "the skill release-notes from MCP server demo needs an approval",
    } in events
    assert events[-1]["type"] == "done"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("allowed", "code", "said"), [(True, 0, "Read."), (False, 7, "allow it with --allow-tool")]
)
def test_a_tool_runs_in_a_task_only_if_it_was_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, allowed: bool, code: int, said: str
) -> None:
    script = [lambda results: ("forge__get_pull_request", {"number": 7}), lambda results: "Read."]
    log = tmp_path / "log"
    new_user(tmp_path, monkeypatch)
    with serving(ScriptedModel(script)) as service, serving_forge(log, monkeypatch) as url:
        use(service, monkeypatch)
        options = ["--allow-tool", "forge/get_pull_request"] if allowed else []
        task = ("--model", "anthropic:m", "--no-config", "-p", "read it")
        done = run("chat", *task, "--server", f"forge={url}", *options)
    assert done.code == code, done.err
    assert said in done.out + done.err
    assert log.exists() is allowed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "a session needs a terminal"),
        (("-p", "x"), "no model is chosen: give --model"),
        (("--demo", "--model", "openai:x"), "--demo has a model of its own"),
        (("--demo", "--output-format", "stream-json"), "is for one task"),
        (("--demo", "-p", "x", "--allow-tool", "comment"), "write SERVER/NAME"),
        (("--model", "nope:x", "-p", "x"), "the model nope:x cannot be used"),
        (("--demo", "-p", "x", "--style", "nope"), "--style"),
    ],
)
def test_a_wrong_call_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, arguments: tuple[str, ...], message: str
) -> None:
    new_user(tmp_path, monkeypatch)
    done = run("chat", *(arguments or ("--demo",)))
    assert done.code != 0
    assert message in done.err
    assert done.err.count("\n") == 1


@pytest.mark.process
def test_a_script_runs_in_the_sandbox_after_a_yes_and_not_without_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    work = new_user(tmp_path, monkeypatch)
    scripts = tmp_path / "home/.agents/skills/count/scripts"
    scripts.mkdir(parents=True)
    skill = "---\nname: count\ndescription: Counts. Use when asked.\n---\nRun scripts/count.py.\n"
    (scripts.parent / "SKILL.md").write_text(skill)
    (scripts / "count.py").write_text("print('counted', 6 * 7)\n")
    script = [
        lambda results: ("load_skill", {"name": "count"}),
        lambda results: ("run_skill_script", {"name": "count", "path": "scripts/count.py"}),
        lambda results: f"It says {results[1]}",
    ]
    with serving(ScriptedModel(script)) as service:
        use(service, monkeypatch)
        monkeypatch.setenv("PATH", f"{bubblewrap().parent}:/usr/bin:/bin")
        task = ("chat", "--model", "anthropic:m", "--no-config", "-p", "count")
        alone = run(*task)
        assert alone.code == 7, alone.err
        assert "the script scripts/count.py of count needs a grant" in alone.err
        assert "counted 42" not in alone.out
        terminal = Terminal("chat", "--model", "anthropic:m", "--no-config", cwd=work)
        terminal.wait_for("Type a message, or /help.")
        terminal.type("count\r")
        terminal.wait_for("Allow it? ")
        terminal.type("y\r")
        terminal.wait_for("counted 42")
        terminal.wait_for("requests")
        terminal.type("/quit\r")
        assert terminal.end() == 0
        granted = run(*task)
        assert granted.code == 0, granted.err
        assert "counted 42" in granted.out


@pytest.mark.process
def test_the_recording_of_the_readme_shows_what_the_demo_prints() -> None:
    pytest.importorskip("pyte")
    from tools.pictures import TARGET, animation, recording

    drawn = animation(recording())
    assert drawn == (TARGET / "chat.svg").read_text("utf-8"), "run python -m tools.pictures"


@pytest.mark.process
@pytest.mark.parametrize("package", ["pydantic_ai", "prompt_toolkit"])
def test_without_the_extra_one_line_says_how_to_install_it(tmp_path: Path, package: str) -> None:
    hide = (
        "import importlib.util as util",
        "find = util.find_spec",
        f"util.find_spec = lambda name, *rest: None if name == {package!r} else find(name, *rest)",
    )
    (tmp_path / "sitecustomize.py").write_text("\n".join(hide))
    done = run_command("--demo", "-p", "x", home=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 4
    assert done.stderr == f"skillwire: skillwire chat needs the package {package}: pip install '.[chat]'\n"
