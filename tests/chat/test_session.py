"""A session: what reaches the model, what comes back, and what a turn leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from scanning import clean_machine, write_policy
from scripted_model import ScriptedModel, anthropic_model, serving, text_of, tool_names
from simulator import agree, make_host
from skillwire.chat import (
    ChatError,
    ChatEvent,
    ChatLimits,
    ChatSession,
    SessionCommands,
    demo_model,
    demo_skills,
    find_model,
)
from skillwire.chat.demo import Move, scripted_model
from skillwire.server import SkillServer

pytestmark = pytest.mark.anyio


def events_of(events: Sequence[ChatEvent], kind: str) -> list[ChatEvent]:
    return [event for event in events if event.type == kind]


def said(events: Sequence[ChatEvent]) -> str:
    return "".join(event.text for event in events_of(events, "text"))


async def send(session: ChatSession, message: str) -> list[ChatEvent]:
    return [event async for event in session.send(message)]


def demo_host(folder: Path, **options: Any) -> Any:
    return make_host(folder, servers={"demo": SkillServer(demo_skills(folder))}, ask=agree, **options)


async def test_the_demo_loads_a_skill_reads_a_file_and_answers(tmp_path: Path) -> None:
    async with demo_host(tmp_path) as host:
        session = ChatSession(host, demo_model(), folder=tmp_path)
        events = await send(session, "write release notes")
        assert [event.tool for event in events_of(events, "tool_call")] == ["load_skill", "read_skill_file"]
        assert "I read the skill" in said(events)
        assert events[-1].type == "done"
        assert events[-1].usage["requests"] == 3
        assert [skill.handle for skill in host.active()] == ["release-notes"]


def anthropic(service: ScriptedModel) -> Model:
    return anthropic_model(service.url, service.key)


def openai(service: ScriptedModel) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIChatModel("m", provider=OpenAIProvider(api_key=service.key, base_url=f"{service.url}/v1"))


@pytest.mark.parametrize("make_model", [anthropic, openai])
async def test_a_service_over_http_gets_catalog_tools_and_results(tmp_path: Path, make_model: Any) -> None:
    script = [lambda results: ("load_skill", {"name": "release-notes"}), lambda results: "Loaded."]
    with serving(ScriptedModel(script)) as service:
        async with demo_host(tmp_path) as host:
            session = ChatSession(host, make_model(service), folder=tmp_path)
            events = await send(session, "write release notes")
    assert said(events) == "Loaded."
    first, second = service.requests
    assert "Writes release notes from a list of changes" in text_of(first)
    assert "load_skill" in tool_names(first)
    assert "Sort the changes into Added" in text_of(second)
    assert service.key not in json.dumps([event.as_json() for event in events])


async def test_what_the_policy_denies_does_not_reach_the_model_whoever_approved_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_machine(tmp_path, monkeypatch)
    async with demo_host(tmp_path) as host:
        await host.load("release-notes")
    write_policy(tmp_path, '[sources]\ndeny = ["*/release-notes"]')
    script = [lambda results: ("load_skill", {"name": "release-notes"}), lambda results: "I cannot."]
    with serving(ScriptedModel(script)) as service:
        async with demo_host(tmp_path) as host:
            session = ChatSession(host, anthropic(service), folder=tmp_path)
            events = await send(session, "write release notes")
            assert host.active() == ()
    assert said(events) == "I cannot."
    first, second = service.requests
    assert "Writes release notes from a list of changes" not in text_of(first)
    assert "Sort the changes into Added" not in json.dumps(service.requests)
    assert "the policy acme refuses it by sources.deny" in text_of(second)


async def test_a_wrong_key_is_one_line_without_the_key_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-wrong-and-secret")
    with serving(ScriptedModel([lambda results: "hello"])) as service:
        async with demo_host(tmp_path) as host:
            model = anthropic_model(service.url, "sk-wrong-and-secret")
            session = ChatSession(host, model, folder=tmp_path)
            [event] = await send(session, "hello")
            assert event.type == "error"
            assert event.text.startswith("the model service failed: ")
            assert "sk-wrong-and-secret" not in event.text
            assert "\n" not in event.text
            assert session.messages == ()


@pytest.mark.parametrize("parts", [["the key is sk-w", "rong-and", "-secret, see"], ["it ends in sk-wro"]])
async def test_a_key_that_a_model_repeats_in_parts_is_not_in_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: list[str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-wrong-and-secret")

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for part in parts:
            yield part

    async with demo_host(tmp_path) as host:
        session = ChatSession(host, FunctionModel(stream_function=stream), folder=tmp_path)
        text = said(await send(session, "hello"))
    assert "secret" not in text
    assert text.startswith(("the key is ", "it ends in sk-wro"))
    assert text.endswith((", see", "sk-wro"))


SERVICE = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
server.listen()
while True:
    server.accept()
"""


@pytest.fixture
def stopped_service() -> Iterator[str]:
    """The address of a service whose process is stopped: it accepts connections and never answers."""
    process = subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        process.send_signal(signal.SIGSTOP)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.process
async def test_a_model_service_that_is_stopped_ends_the_message_with_an_error(
    tmp_path: Path, stopped_service: str
) -> None:
    model = anthropic_model(stopped_service, "secret-key", retries=0)
    async with demo_host(tmp_path) as host:
        limits = ChatLimits(model_seconds=0.5)
        session = ChatSession(host, model, limits=limits)
        [event] = await send(session, "hello")
        assert event.type == "error"
        assert "the model service failed" in event.text


async def test_a_task_stops_at_its_limit_of_requests(tmp_path: Path) -> None:
    def again(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
        return [("list_skill_files", {"name": "release-notes"})]

    async with demo_host(tmp_path) as host:
        session = ChatSession(host, scripted_model(again), limits=ChatLimits(turns=3))
        events = await send(session, "go")
        assert events[-1].type == "error"
        assert events[-1].text.startswith("stopped: ")
        assert len(events_of(events, "tool_call")) == 3


async def test_escape_sequences_of_models_and_tools_do_not_reach_the_events(tmp_path: Path) -> None:
    def hostile(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
        return ["\x1b]0;owned\x07\x1b[2Jtext \u202e"] if results else [("load_skill", {"name": "\x1b[31mx"})]

    async with demo_host(tmp_path) as host:
        events = await send(ChatSession(host, scripted_model(hostile)), "go")
    printed = json.dumps([event.as_json() for event in events], ensure_ascii=False)
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert "text" in said(events)


def reading(path: str) -> Any:
    def moves(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
        return [results[0]] if results else [("read_file", {"path": path})]

    return scripted_model(moves)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("notes.txt", "the notes"),
        ("sub/../notes.txt", "the notes"),
        ("../outside.txt", "only files of the working folder are read"),
        ("/etc/passwd", "only files of the working folder are read"),
        ("link.txt", "only files of the working folder are read"),
        ("missing.txt", "there is no file missing.txt in the working folder"),
        ("skill://release-notes/SKILL.md", "read_resource"),
    ],
)
async def test_read_file_reads_text_of_the_working_folder_and_nothing_else(
    tmp_path: Path, path: str, answer: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "sub").mkdir()
    (work / "notes.txt").write_text("the notes")
    (tmp_path / "outside.txt").write_text("secret")
    (work / "link.txt").symlink_to(tmp_path / "outside.txt")
    async with demo_host(tmp_path) as host:
        events = await send(ChatSession(host, reading(path), folder=work), "read it")
    assert answer in said(events)
    assert "secret" not in said(events)


async def test_a_long_file_is_cut(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("x" * 300_000)
    async with demo_host(tmp_path) as host:
        events = await send(ChatSession(host, reading("long.txt"), folder=tmp_path), "read it")
    assert said(events).endswith("(the file is longer; this is its beginning)")
    assert said(events).count("x") == 256 * 1024


async def test_compaction_keeps_a_summary_and_the_loaded_skill(tmp_path: Path) -> None:
    seen: list[str] = []

    def moves(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
        return ["a short summary"] if not tools else ["fine"]

    async with demo_host(tmp_path) as host:
        session = ChatSession(host, scripted_model(moves))
        with pytest.raises(ChatError, match="nothing to summarize"):
            await session.compact()
        await session.load("release-notes")
        await send(session, "first")
        assert await session.compact() == "a short summary"
        seen.append(str(session.messages))
    assert "a short summary" in seen[0]
    assert "Sort the changes into Added" in seen[0]
    assert "first" not in seen[0]


async def test_a_conversation_goes_on_with_a_host_of_another_style(tmp_path: Path) -> None:
    async with demo_host(tmp_path) as host:
        session = ChatSession(host, demo_model())
        await send(session, "write release notes")
        before = len(session.messages)
    async with demo_host(tmp_path / "again", style="codex") as other:
        session = await session.continued(other)
        assert len(session.messages) == before
        events = await send(session, "and again")
        assert [event.tool for event in events_of(events, "tool_call")] == ["read_mcp_resource"] * 2
        assert session.usage.requests == 6


async def test_what_was_loaded_and_disabled_stays_so_in_another_style(tmp_path: Path) -> None:
    async with demo_host(tmp_path) as host:
        session = ChatSession(host, demo_model())
        host.decide.set_enabled("commit-message", False)
        await send(session, "write release notes")
        assert not host.may_execute("shell").allowed
    async with demo_host(tmp_path, style="wayland") as other:
        session = await session.continued(other)
        assert [skill.handle for skill in other.active()] == ["demo:release-notes"]
        assert not other.may_execute("shell").allowed
        assert [skill.handle for skill in other.skills()] == ["demo:release-notes"]
        assert session.messages


async def test_a_conversation_whose_skill_cannot_be_loaded_again_starts_again(tmp_path: Path) -> None:
    async with demo_host(tmp_path) as host:
        session = ChatSession(host, demo_model())
        await send(session, "write release notes")
        await host.decide.revoke("release-notes")
        await send(session, "write release notes")

    async def no(request: object) -> bool:
        return False

    server = SkillServer(demo_skills(tmp_path))
    async with make_host(tmp_path / "new", servers={"demo": server}, ask=no, style="codex") as other:
        session = await session.continued(other)
        assert session.messages == ()
        assert session.usage.requests == 6


@pytest.mark.parametrize(
    ("style", "call"),
    [
        ("spec", 'load_skill(name="release-notes")'),
        ("claude", 'Skill(skill="demo:release-notes")'),
        ("codex", 'read_mcp_resource(server="demo", uri="skill://release-notes/SKILL.md")'),
        ("gemini", 'activate_skill(name="release-notes")'),
        ("goose", 'load_skill(name="release-notes")'),
        ("wayland", 'load_skill(name="demo:release-notes")'),
    ],
)
async def test_a_skill_that_a_message_names_is_sent_with_the_call_that_loads_it(
    tmp_path: Path, style: str, call: str
) -> None:
    def moves(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
        return ["fine"]

    async with demo_host(tmp_path, style=style) as host:
        session = ChatSession(host, scripted_model(moves))
        await send(session, "use $demo/release-notes, please")
        await send(session, "it costs $5 and $PATH")
    first, _, second, _ = session.messages
    assert call in str(first.parts[0])
    assert "The user named" not in str(second.parts[0])


async def printed_by(folder: Path, line: str) -> str:
    """What a command of a new session prints."""
    async with demo_host(folder) as host:
        name, _, rest = line.partition(" ")
        return "\n".join(await SessionCommands(ChatSession(host, demo_model())).run(name, rest))


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("skills", "release-notes  (MCP server demo; not approved)"),
        ("skills show release-notes", "# Release notes"),
        ("skills off release-notes", "release-notes is off for this session."),
        ("mcp", "  2 skills, 0 tools"),
        ("tools", "load_skill\n  Load"),
        ("load release-notes", "release-notes is loaded"),
        ("context", "  catalog"),
        ("context catalog", "Writes release notes"),
        ("model", "The model is function:demo."),
        ("help", "/compact"),
    ],
)
async def test_a_command_prints_what_it_is_for(tmp_path: Path, line: str, printed: str) -> None:
    assert printed in await printed_by(tmp_path, line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nope", "there is no command /nope: /help lists them"),
        ("load", "write /load NAME"),
        ("skills maybe", "write /skills, or /skills on NAME"),
        ("context nope", "there is no part nope"),
        ("model nope:nope", "the model nope:nope cannot be used"),
    ],
)
async def test_a_wrong_command_says_what_is_right(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ChatError, match=message):
        await printed_by(tmp_path, line)


async def test_a_skill_is_a_command_and_its_text_goes_with_the_message(tmp_path: Path) -> None:
    def moves(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
        return ["done"]

    async with demo_host(tmp_path) as host:
        session = ChatSession(host, scripted_model(moves))
        commands = SessionCommands(session)
        assert "/release-notes" in commands.names()
        handle = commands.skill_for("release-notes")
        assert handle == "release-notes"
        await send(session, await commands.invoked(handle, "for 2.0"))
        prompt = str(session.messages[0])
        assert "Sort the changes into Added" in prompt
        assert "with these arguments: for 2.0" in prompt


@pytest.mark.parametrize("name", ["nope", "anthropic", "unknown-provider:model"])
def test_a_model_that_cannot_be_used_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ChatError, match="cannot be used") as caught:
        find_model(name)
    assert "\n" not in str(caught.value)


def test_events_as_json_have_only_what_is_there() -> None:
    event = ChatEvent(type="tool_call", tool="load_skill", arguments="{}")
    assert event.as_json() == {"type": "tool_call", "tool": "load_skill", "arguments": "{}"}
