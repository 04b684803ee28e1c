"""Calls of skill tools by adapters: the question that comes back, and what a yes is for."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from simulator import Simulator, agree, make_host, opened
from skillwire import ServerConfig
from skillwire.adapters import CallQuestion
from skillwire.adapters.calls import ShownQuestions, ask_or_call, may_ask
from skillwire.host import SkillHost, ToolResult, open_in_thread, run_sync
from skillwire.trust import shown_digest
from skillwire.version import pip_command

pytestmark = pytest.mark.anyio

REFUNDS = {"name": "refunds"}


def shop(**options: Any) -> Simulator:
    sim = Simulator()
    sim.skill("refunds", body="# Refunds\nAsk for the receipt.\n", files={"a.md": b"first"}, **options)
    return sim


async def call(
    host: SkillHost, name: str, arguments: Mapping[str, Any], yes: str = ""
) -> ToolResult | CallQuestion:
    tool = next(tool for tool in host.tools() if tool.name == name)
    return await ask_or_call(host, tool, arguments, yes=yes)


async def asked(host: SkillHost, name: str, arguments: Mapping[str, Any], yes: str = "") -> CallQuestion:
    outcome = await call(host, name, arguments, yes)
    assert isinstance(outcome, CallQuestion), outcome
    return outcome


async def answered(host: SkillHost, name: str, arguments: Mapping[str, Any], yes: str = "") -> ToolResult:
    outcome = await call(host, name, arguments, yes)
    assert isinstance(outcome, ToolResult), outcome
    return outcome


@pytest.mark.requirement("SEC-5", "SEC-6")
async def test_a_yes_is_for_the_digest_of_the_question_alone(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim) as host:
        question = await asked(host, "load_skill", REFUNDS)
        assert question.digest == shown_digest((await host.find("refunds")).entry)
        assert (question.skill, question.server) == ("refunds", "shop")
        for yes in ("", "yes", "true", question.digest[:-1], question.digest.upper()):
            await asked(host, "load_skill", REFUNDS, yes)
        assert "refunds" not in {one.handle for one in host.active()}
        assert sim.read_uris() == []
        assert "receipt" in (await answered(host, "load_skill", REFUNDS, question.digest)).text


@pytest.mark.requirement("SEC-6")
async def test_an_old_yes_does_not_cover_a_new_version(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim) as host:
        old = await asked(host, "load_skill", REFUNDS)
        sim.skill("refunds").change_body("# Refunds\nPay at once.\n")
        await host.refresh()
        new = await asked(host, "load_skill", REFUNDS, old.digest)
        assert new.digest != old.digest
        assert "Pay at once." in (await answered(host, "load_skill", REFUNDS, new.digest)).text


@pytest.mark.requirement("SEC-6")
async def test_a_dynamic_skill_is_asked_about_as_it_was_seen(tmp_path: Path) -> None:
    sim = shop(dynamic=True)
    async with opened(tmp_path, shop=sim) as host:
        question = await asked(host, "load_skill", REFUNDS)
        sim.skill("refunds").change_body("# Refunds\nPay at once.\n")
        other = await asked(host, "load_skill", REFUNDS, question.digest)
        assert other.digest != question.digest
        assert not (await answered(host, "load_skill", REFUNDS, other.digest)).is_error
        file = await asked(host, "read_skill_file", {**REFUNDS, "path": "a.md"})
        assert (
            "first"
            in (await answered(host, "read_skill_file", {**REFUNDS, "path": "a.md"}, file.digest)).text
        )


@pytest.mark.requirement("SEC-3")
async def test_a_read_from_another_server_is_asked_about_by_itself(tmp_path: Path) -> None:
    other = Simulator()
    other.resources["data://prices"] = b"Ten euros."
    async with opened(tmp_path, shop=shop(), other=other) as host:
        question = await asked(host, "load_skill", REFUNDS)
        await answered(host, "load_skill", REFUNDS, question.digest)
        read = {"server": "other", "uri": "data://prices"}
        about = await asked(host, "read_resource", read)
        assert about.text == (
            "Read data://prices from MCP server other, while a skill from MCP server shop is in use?"
        )
        await asked(host, "read_resource", read, question.digest)
        assert other.read_uris() == []  # Nothing goes out before the yes.
        assert "Ten euros." in (await answered(host, "read_resource", read, about.digest)).text
        await asked(host, "read_resource", {**read, "uri": "data://costs"}, about.digest)


@pytest.mark.requirement("SEC-3", "SEC-5")
async def test_a_call_that_needs_two_answers_gets_them_one_after_the_other(tmp_path: Path) -> None:
    other = Simulator()
    other.skill("prices", body="# Prices\nTen euros.\n")
    async with opened(tmp_path, shop=shop(), other=other) as host:
        await answered(host, "load_skill", REFUNDS, (await asked(host, "load_skill", REFUNDS)).digest)
        read = {"server": "other", "uri": "skill://prices/SKILL.md"}
        first = await asked(host, "read_resource", read)
        second = await asked(host, "read_resource", read, first.digest)
        assert (first.skill, second.skill) == ("", "prices")
        assert "Ten euros." in (await answered(host, "read_resource", read, second.digest)).text


async def test_an_adapter_never_answers_for_a_host_with_ask(tmp_path: Path) -> None:
    async def no(request: object) -> bool:
        return False

    async with opened(tmp_path, shop=shop(), host_options={"ask": no}) as host:
        digest = shown_digest((await host.find("refunds")).entry)
        assert (await answered(host, "load_skill", REFUNDS, str(digest))).is_error
        assert "refunds" not in {one.handle for one in host.active()}


async def test_an_allowed_call_counts_once_and_only_after_its_question(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop()) as host:
        shown = ShownQuestions()
        load = next(tool for tool in host.tools() if tool.name == "load_skill")
        assert (await shown.call(host, load, REFUNDS)).is_error
        question = await shown.show(host, "load_skill", REFUNDS)
        assert question is not None
        other = await shown.call(host, load, {"name": "skill://refunds/SKILL.md"})
        assert other.is_error
        assert not (await shown.call(host, load, REFUNDS)).is_error
        assert await shown.show(host, "load_skill", REFUNDS) is None  # Approved now.
        await host.decide.revoke("refunds")
        assert (await shown.call(host, load, REFUNDS)).is_error
        assert await shown.show(host, "no_such_tool", {}) is None


async def test_only_tools_that_load_can_lead_to_a_question(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop()) as host:
        assert [tool.name for tool in host.tools(search=True) if may_ask(tool)] == [
            "load_skill",
            "read_resource",
        ]


async def test_one_task_asks_its_own_user(tmp_path: Path) -> None:
    sim = Simulator()
    for name in ("one", "two"):
        sim.skill(name)
    heard: dict[str, list[str]] = {"ann": [], "bob": []}

    async def load(user: str, name: str) -> bool:
        async def ask(request: Any) -> bool:
            heard[user].append(request.skill.handle)
            await asyncio.sleep(0)
            return user == "ann"

        with host.asking(ask):
            result = await answered(host, "load_skill", {"name": name})
        return not result.is_error

    async with opened(tmp_path, shop=sim) as host:
        assert await asyncio.gather(load("ann", "one"), load("bob", "two")) == [True, False]
        assert not host.decide.can_ask
    assert heard == {"ann": ["one"], "bob": ["two"]}


def test_a_host_in_a_thread_is_used_from_other_threads_and_loops(tmp_path: Path) -> None:
    options: dict[str, Any] = {"servers": {"shop": ServerConfig(instance=shop().server)}, "ask": agree}
    with open_in_thread(make_host(tmp_path, **options)) as host:
        assert "refunds" in host.catalog()
        assert "receipt" in run_sync(host, host.load, "refunds").text
        texts: list[str] = []

        def other_loop() -> None:
            texts.append(asyncio.run(answered(host, "load_skill", REFUNDS)).text)

        threads = [threading.Thread(target=other_loop) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(texts) == 4
        assert all("receipt" in text for text in texts)


async def test_a_host_on_this_event_loop_refuses_blocking_calls(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop(), host_options={"ask": agree}) as host:
        with pytest.raises(RuntimeError, match="open it with open_in_thread"):
            run_sync(host, host.load, "refunds")


@pytest.mark.parametrize(
    ("adapter", "package"),
    [
        ("agent_framework", "agent_framework"),
        ("agno", "agno"),
        ("fastmcp", "fastmcp"),
        ("google_adk", "google.adk"),
        ("langchain", "langchain"),
        ("openai_agents", "agents"),
        ("pydantic_ai", "pydantic_ai"),
    ],
)
def test_an_adapter_without_its_framework_says_what_to_install(
    adapter: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"skillwire.adapters.{adapter}", raising=False)
    with pytest.raises(ModuleNotFoundError) as missing:
        import_module(f"skillwire.adapters.{adapter}")
    assert str(missing.value).endswith(f". To install it: {pip_command(adapter.replace('_', '-'))}")
    assert missing.value.__suppress_context__
