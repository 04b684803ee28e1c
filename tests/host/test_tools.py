"""The tools: definitions for any framework, and answers that a model can act on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator import Simulator, agree, call, opened

pytestmark = pytest.mark.anyio

NAMES = ["load_skill", "read_skill_file", "list_skill_files", "read_resource"]


def shop() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", files={"references/a.md": b"Text of a."})
    sim.resources["shop://orders/1"] = b"An order."
    sim.resources["shop://photo/1"] = b"\xff\x00"
    return sim


async def test_each_tool_has_a_schema_and_comes_in_the_shapes_of_two_services(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop()) as host:
        tools = host.tools()
    assert [tool.name for tool in tools][:4] == NAMES
    for tool in tools:
        schema = tool.input_schema
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])
        assert all(part["type"] == "string" and part["description"] for part in schema["properties"].values())
        assert tool.for_anthropic() == {
            "name": tool.name,
            "description": tool.description,
            "input_schema": schema,
        }
        function = {"name": tool.name, "description": tool.description, "parameters": schema}
        assert tool.for_openai() == {"type": "function", "function": function}


@pytest.mark.requirement("SEC-12")
async def test_the_tools_take_a_model_from_the_catalog_to_every_file(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop(), host_options={"ask": agree}) as host:
        loaded = await call(host, "load_skill", name="refunds")
        assert not loaded.is_error
        assert 'read_skill_file("refunds", "references/a.md")' in loaded.text
        listed = await call(host, "list_skill_files", name="refunds", path="references")
        assert "a.md (10 bytes)" in listed.text
        assert (
            "Text of a." in (await call(host, "read_skill_file", name="refunds", path="references/a.md")).text
        )
        order = await call(host, "read_resource", server="shop", uri="shop://orders/1")
        assert "An order." in order.text
        assert "untrusted" in order.text
        photo = await call(host, "read_resource", server="shop", uri="shop://photo/1")
        assert "binary: 2 bytes" in photo.text


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("load_skill", {}, "say name"),
        ("load_skill", {"name": ""}, "say name"),
        ("load_skill", {"name": 7}, "must be a string"),
        ("load_skill", {"name": ["refunds"]}, "must be a string"),
        ("load_skill", {"name": "refund"}, "did you mean refunds?"),
        ("load_skill", {"name": "x" * 100_000}, "no skill is called"),
        ("load_skill", {"name": "\ud800\x1b[2J"}, "no skill is called"),
        ("load_skill", {"name": "skill://\ud800/SKILL.md"}, "not well formed"),
        ("load_skill", {"name": "skill://../SKILL.md"}, "not well formed"),
        ("load_skill", {"name": "skill://no/SKILL.md", "server": "nobody"}, "no server is called nobody"),
        ("read_skill_file", {"name": "refunds"}, "say path"),
        ("read_skill_file", {"name": "refunds", "path": "nowhere"}, "is not a file of"),
        ("read_skill_file", {"name": "refunds", "path": "\ud800"}, "is not a file of"),
        ("read_skill_file", {"name": "refunds", "path": "../../etc/passwd"}, "is not a file of"),
        ("list_skill_files", {"name": "refunds", "path": "nowhere"}, "is not a file of"),
        ("read_resource", {"server": "shop"}, "say uri"),
        ("read_resource", {"server": "nobody", "uri": "x://y"}, "known: shop"),
        ("read_resource", {"server": "shop", "uri": "shop://nothing/1"}, "shop has no file at"),
        ("read_resource", {"server": "shop", "uri": "no uri"}, "not well formed"),
    ],
)
async def test_a_wrong_call_is_answered_with_what_to_do(
    tmp_path: Path, tool: str, arguments: dict[str, Any], words: str
) -> None:
    async with opened(tmp_path, shop=shop(), host_options={"ask": agree}) as host:
        await host.load("refunds")
        result = await call(host, tool, **arguments)
    assert result.is_error
    assert words in result.text
    assert len(result.text) < 1500
    assert "\x1b" not in result.text
    result.text.encode()


async def test_arguments_that_are_no_object_are_answered_too(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop()) as host:
        for tool in host.tools():
            result = await tool.handler(["refunds"])  # type: ignore[arg-type]
            assert result.is_error


@pytest.mark.requirement("SEC-5", "SEC-6")
async def test_a_model_is_told_that_only_the_user_can_approve(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim) as host:
        result = await call(host, "load_skill", name="refunds")
    assert result.is_error
    assert "is not approved" in result.text
    assert "Only the user can do that" in result.text
    assert sim.read_uris() == []


@pytest.mark.requirement("VER-4")
async def test_a_long_directory_of_a_dynamic_skill_is_counted_not_shown(tmp_path: Path) -> None:
    sim = Simulator(declare={"directoryRead": True})
    skill = sim.skill("weather", dynamic=True)
    sim.directories[skill.root] = [
        {"uri": skill.file_uri(f"{number}.md"), "name": "x"} for number in range(600)
    ]
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("weather")
        text = (await call(host, "list_skill_files", name="weather")).text
    assert "(88 more)" in text
