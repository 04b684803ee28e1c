"""A gateway serves the skills of many servers as one server, verified, and loads them only after a yes."""

from __future__ import annotations

import base64
from pathlib import Path

import anyio
import mcp_types as types
import pytest

from clients import both_eras, call, refusal
from gateways import User, joined, make_gateway, text_of
from simulator import Simulator
from skillwire.access import Caller
from skillwire.gateway import GatewayOptions
from skillwire.skill import digest_of
from waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def shop() -> Simulator:
    simulator = Simulator()
    simulator.skill("refunds", files={"references/a.md": b"hello\r\n", "logo.png": b"\x89PNG\xff"})
    simulator.skill("invoices", path="billing/invoices")
    return simulator


@both_eras
async def test_skills_are_listed_under_the_label_with_frontmatter_and_digests_untouched(
    tmp_path: Path, version: str
) -> None:
    upstream = shop()
    async with (
        make_gateway(tmp_path, Shop=upstream, docs=shop()) as gateway,
        joined(gateway, version) as client,
    ):
        listed = (await call(client, "skills/list"))["skills"]
    assert [entry["uri"] for entry in listed] == [
        "skill://docs/billing/invoices/SKILL.md",
        "skill://docs/refunds/SKILL.md",
        "skill://shop/billing/invoices/SKILL.md",
        "skill://shop/refunds/SKILL.md",
    ]
    theirs = upstream.skills["skill://refunds/SKILL.md"].entry()
    assert listed[3]["frontmatter"] == theirs["frontmatter"]
    assert [(file["digest"], file["size"]) for file in listed[3]["resources"]] == [
        (file["digest"], file["size"]) for file in theirs["resources"]
    ]
    assert all(file["uri"].startswith("skill://shop/refunds/") for file in listed[3]["resources"])
    assert listed[3]["_meta"] == {"dev.skillwire/approval": "required"}
    assert upstream.read_uris() == []


@both_eras
async def test_a_skill_loads_after_one_yes_and_its_files_with_it(tmp_path: Path, version: str) -> None:
    user, upstream = User(), shop()
    async with (
        make_gateway(tmp_path, shop=upstream) as gateway,
        joined(gateway, version, user=user) as client,
    ):
        skill = await client.read_resource("skill://shop/refunds/SKILL.md")
        file = await client.read_resource("skill://shop/refunds/references/a.md")
        binary = await client.read_resource("skill://shop/refunds/logo.png")
        listed = (await call(client, "skills/list"))["skills"]
    assert text_of(skill).encode() == upstream.skills["skill://refunds/SKILL.md"].files["SKILL.md"]
    assert text_of(file) == "hello\r\n"
    assert base64.b64decode(getattr(binary.contents[0], "blob", "")) == b"\x89PNG\xff"
    [question] = user.asked
    assert "refunds" in question.message
    assert "MCP server shop" in question.message
    assert [("_meta" in entry) for entry in listed] == [True, False]


@both_eras
async def test_a_client_that_cannot_ask_is_told_who_must_act_and_the_log_has_the_command(
    tmp_path: Path, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    upstream = shop()
    async with make_gateway(tmp_path, shop=upstream) as gateway, joined(gateway, version) as client:
        error = await refusal(client, "resources/read", uri="skill://shop/refunds/SKILL.md")
    assert error.code == -32010
    assert "Only the user can approve it: tell them" in error.message
    assert "skillwire approve skill://refunds/SKILL.md --on shop" in caplog.text
    assert upstream.read_uris() == []


@both_eras
async def test_clients_that_know_only_tools_search_list_load_and_read(tmp_path: Path, version: str) -> None:
    user = User()
    async with (
        make_gateway(tmp_path, shop=shop()) as gateway,
        joined(gateway, version, user=user, knows_skills=False) as client,
    ):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        found = await client.call_tool("search_skills", {"query": "refund money"})
        loaded = await client.call_tool("load_skill", {"name": "refunds"})
        files = await client.call_tool("list_skill_files", {"name": "refunds"})
        below = await client.call_tool("list_skill_files", {"name": "refunds", "path": "references/"})
        read = await client.call_tool("read_skill_file", {"name": "refunds", "path": "references/a.md"})
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        prompt = await client.get_prompt("refunds")
    assert set(tools) == {"load_skill", "read_skill_file", "search_skills", "list_skill_files"}
    assert "asks the user for approval first" in (tools["load_skill"].description or "")
    assert "refunds" in text_of(found)
    # SEC-1: what a server wrote stands in a fence that names it.
    assert 'server="shop"' in text_of(loaded)
    assert "<untrusted_skill_" in text_of(loaded)
    assert "references/a.md (7 bytes)" in text_of(files)
    assert "logo.png" not in text_of(below)
    assert "hello" in text_of(read)
    assert "<untrusted_skill_file_" in text_of(read)
    assert prompts == {"refunds", "invoices"}
    assert "<untrusted_skill_" in str(prompt.messages[0].content)
    assert len(user.asked) == 1


async def test_the_text_of_a_skill_is_searched_for_the_callers_who_may_load_it(tmp_path: Path) -> None:
    """SEC-1: what nobody approved is found by its description alone, and no search asks a server."""
    upstream = shop()
    upstream.skill("deploy", body="Call kubectl.\n")
    async with (
        make_gateway(tmp_path, shop=upstream) as gateway,
        joined(gateway, user=User(), knows_skills=False) as client,
        joined(gateway, knows_skills=False, caller=Caller(name="other")) as other,
    ):
        before = await client.call_tool("search_skills", {"query": "kubectl"})
        assert upstream.read_uris() == []
        await client.call_tool("load_skill", {"name": "deploy"})
        after = await client.call_tool("search_skills", {"query": "kubectl"})
        elsewhere = await other.call_tool("search_skills", {"query": "kubectl"})
    assert "No skill seems to fit" in text_of(before)
    assert "deploy" in text_of(after)
    assert "No skill seems to fit" in text_of(elsewhere)


@both_eras
async def test_a_tool_call_for_a_skill_that_nobody_approves_says_what_to_do(
    tmp_path: Path, version: str
) -> None:
    async with (
        make_gateway(tmp_path, shop=shop()) as gateway,
        joined(gateway, version, knows_skills=False) as client,
    ):
        loaded = await client.call_tool("load_skill", {"name": "refunds"})
    assert loaded.is_error
    assert "Only the user can approve it: tell them" in text_of(loaded)
    assert "skillwire approve" not in text_of(loaded)


@both_eras
async def test_an_approval_of_the_user_counts_at_once_and_so_does_its_end(
    tmp_path: Path, version: str
) -> None:
    async with make_gateway(tmp_path, shop=shop()) as gateway, joined(gateway, version) as client:
        host = gateway.host
        await call(client, "skills/list")
        await host.decide.approve(await host.find("refunds"))
        assert "Do it" in text_of(await client.read_resource("skill://shop/refunds/SKILL.md"))
        await host.decide.revoke("refunds")
        error = await refusal(client, "resources/read", uri="skill://shop/refunds/SKILL.md")
    assert error.code == -32010


async def test_in_the_mode_listed_nobody_is_asked_and_everything_is_verified(tmp_path: Path) -> None:
    upstream = shop()
    upstream.skill("liar").swap_body("Something else.")
    async with (
        make_gateway(tmp_path, GatewayOptions(approval="listed"), shop=upstream) as gateway,
        joined(gateway) as client,
    ):
        assert "Do it" in text_of(await client.read_resource("skill://shop/refunds/SKILL.md"))
        error = await refusal(client, "resources/read", uri="skill://shop/liar/SKILL.md")
        listed = [entry["uri"] for entry in (await call(client, "skills/list"))["skills"]]
        reasons = gateway.health()["not_served"]
    assert error.code == -32603
    assert "skill://shop/liar/SKILL.md" not in listed
    assert len(listed) == 2
    assert "digest" in str(reasons) or "bytes" in str(reasons)


@both_eras
async def test_what_is_not_there_is_not_found_with_its_uri(tmp_path: Path, version: str) -> None:
    async with make_gateway(tmp_path, shop=shop()) as gateway, joined(gateway, version) as client:
        for uri in (
            "skill://shop/nothing/SKILL.md",
            "skill://other/refunds/SKILL.md",
            "skill://refunds/SKILL.md",
            "skill://SHOP/refunds/SKILL.md",
        ):
            for method in ("skills/get", "resources/read"):
                error = await refusal(client, method, uri=uri)
                assert (error.code, uri in error.message) == (-32602, True)


async def test_directories_are_listed_from_the_label_down(tmp_path: Path) -> None:
    async with make_gateway(tmp_path, shop=shop()) as gateway, joined(gateway) as client:

        async def children(uri: str) -> list[str]:
            result = await call(client, "resources/directory/read", uri=uri)
            return [child["uri"].removeprefix(uri) for child in result["resources"]]

        assert await children("skill://shop") == ["/billing", "/refunds"]
        assert await children("skill://shop/billing") == ["/invoices"]
        assert await children("skill://shop/refunds") == ["/SKILL.md", "/logo.png", "/references"]
        error = await refusal(client, "resources/directory/read", uri="skill://shop/refunds/SKILL.md")
    assert error.code == -32602


async def test_a_skill_that_is_not_listed_is_found_by_its_uri(tmp_path: Path) -> None:
    upstream, user = shop(), User()
    upstream.skill("hidden").hide()
    async with make_gateway(tmp_path, shop=upstream) as gateway, joined(gateway, user=user) as client:
        got = await call(client, "skills/get", uri="skill://shop/hidden/SKILL.md")
        await client.read_resource("skill://shop/hidden/SKILL.md")
        listed = (await call(client, "skills/list"))["skills"]
    assert got["skill"]["frontmatter"]["name"] == "hidden"
    assert len(listed) == 2


async def test_instructions_name_what_there_is_within_a_budget(tmp_path: Path) -> None:
    many = Simulator(page_size=1000)
    for number in range(500):
        many.skill(f"skill-{number}")
    async with make_gateway(tmp_path, shop=shop(), many=many) as gateway:
        async with joined(gateway) as client:
            await call(client, "skills/list")
        async with joined(gateway) as client:
            text = client.instructions or ""
    assert "There are 502 skills here" in text
    assert "- shop (2): invoices, refunds" in text
    assert "- many (500): skill-0" in text
    assert len(text) <= 2000


async def test_a_dynamic_skill_is_approved_as_it_was_seen(tmp_path: Path) -> None:
    upstream, user = Simulator(), User()
    skill = upstream.skill("today", dynamic=True)
    async with make_gateway(tmp_path, shop=upstream) as gateway, joined(gateway, user=user) as client:
        await client.read_resource("skill://shop/today/SKILL.md")
        await client.read_resource("skill://shop/today/SKILL.md")
        assert len(user.asked) == 1
        skill.change_body("Another day.\n")
        assert "Another day" in text_of(await client.read_resource("skill://shop/today/SKILL.md"))
    assert len(user.asked) == 2


@pytest.mark.requirement("SEC-6")
async def test_a_file_of_a_dynamic_skill_is_asked_about_by_its_name(tmp_path: Path) -> None:
    upstream, user = Simulator(), User()
    upstream.skill("today", dynamic=True, files={"references/GUIDE.md": b"How to."})
    async with make_gateway(tmp_path, shop=upstream) as gateway, joined(gateway, user=user) as client:
        await client.read_resource("skill://shop/today/SKILL.md")
        await client.read_resource("skill://shop/today/references/GUIDE.md")
        await client.read_resource("skill://shop/today/SKILL.md")
    loaded, read = (str(one) for one in user.asked)
    assert "May the skill today of the MCP server shop be loaded?" in loaded
    assert "- SKILL.md (" in loaded
    assert "GUIDE.md" not in loaded
    assert "May references/GUIDE.md of the skill today of the MCP server shop be read?" in read
    assert f"- references/GUIDE.md (7 bytes, {digest_of(b'How to.')[:19]}…)" in read
    assert "- SKILL.md" not in read


async def test_approvals_of_one_caller_are_not_those_of_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alice, bob = Caller(name="alice"), Caller(name="bob")
    async with make_gateway(tmp_path, shop=shop()) as gateway:
        async with joined(gateway, user=User(), caller=alice) as client:
            await client.read_resource("skill://shop/refunds/SKILL.md")
        async with joined(gateway, caller=bob) as client:
            error = await refusal(client, "resources/read", uri="skill://shop/refunds/SKILL.md")
        async with joined(gateway) as client:
            assert (
                await refusal(client, "resources/read", uri="skill://shop/refunds/SKILL.md")
            ).code == -32010
        async with joined(gateway, caller=alice) as client:
            await client.read_resource("skill://shop/refunds/SKILL.md")
    assert error.code == -32010
    assert "--caller bob" in caplog.text


async def test_what_is_revoked_while_it_is_fetched_does_not_arrive(tmp_path: Path) -> None:
    upstream, arrives, answers = shop(), anyio.Event(), list[types.ErrorData]()
    async with make_gateway(tmp_path, shop=upstream) as gateway, joined(gateway, user=User()) as client:
        await client.read_resource("skill://shop/refunds/SKILL.md")
        upstream.hold("resources/read", arrives)

        async def read() -> None:
            uri = "skill://shop/refunds/references/a.md"
            async with joined(gateway) as other:
                answers.append(await refusal(other, "resources/read", uri=uri))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await until(lambda: len(upstream.read_uris()) == 2)
            assert await gateway.host.decide.revoke("refunds")
            arrives.set()
    assert [answer.code for answer in answers] == [-32010]
