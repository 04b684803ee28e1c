"""What a model is told names no command: with a shell it would run it, and it is the user who decides."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clients import both_eras, call, refusal
from gateways import joined, make_gateway
from simulator import Simulator, make_host, opened, unreachable
from skillwire import ServerConfig
from skillwire.adapters import CallQuestion
from skillwire.adapters.calls import refused
from skillwire.cli.commands import SECTIONS
from skillwire.text import for_model
from skillwire.trust import ApprovalMode

STYLES = ["spec", "claude", "codex", "gemini", "goose", "wayland"]
SOURCE = Path(__file__).parent.parent / "src/skillwire"
NAMES = {name.split()[0] for names in SECTIONS.values() for name in names}
COMMAND = re.compile(rf"skillwire (?:{'|'.join(NAMES)})\b|`skillwire|--on |--yes|--config")

# Every module with texts that a model can get: styles and tools of a host, what decides about a skill and
# says why not, the catalog, the adapters, and what a server or a gateway answers.
MODULES = (
    *sorted((SOURCE / "host/styles").glob("*.py")),
    *sorted((SOURCE / "catalog").glob("*.py")),
    *(SOURCE / name for name in ("host/model.py", "host/state.py", "host/load.py")),
    *(SOURCE / name for name in ("host/search.py", "host/decide.py", "adapters/calls.py", "errors.py")),
    *(SOURCE / name for name in ("trust/admission.py", "trust/approval.py", "trust/fence.py")),
    *(SOURCE / name for name in ("trust/decision.py", "consent/states.py", "host/places.py")),
    *(SOURCE / name for name in ("host/resolve.py", "host/files.py", "host/held.py")),
    *(SOURCE / name for name in ("gateway/elicitation.py", "gateway/records.py", "gateway/view.py")),
    *(
        SOURCE / name
        for name in ("gateway/server.py", "server/results.py", "server/tools.py", "consent/question.py")
    ),
)
FOR_THE_LOG = {"approve_command"}


def texts_in(module: Path) -> Iterator[str]:
    """Every text of a module that is no docstring and not for the log."""
    tree = ast.parse(module.read_text("utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in FOR_THE_LOG:
            skipped |= set(ast.walk(node))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
    for node in ast.walk(tree):
        if node not in skipped and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(SOURCE)))
def test_no_text_for_a_model_is_written_with_a_command(module: Path) -> None:
    assert [text for text in texts_in(module) if COMMAND.search(text)] == []


def shop() -> Simulator:
    sim = Simulator()
    for name in ("fresh", "changed", "declined"):
        sim.skill(name, description=f"How {name} is handled.")
    return sim


def arguments_of(schema: dict[str, Any], value: str, server: str) -> dict[str, str]:
    """The arguments that a tool needs, with this value for each but the name of a server."""
    return {key: server if key in ("server", "authority") else value for key in schema["required"]}


@pytest.mark.anyio
@pytest.mark.parametrize("style", STYLES)
async def test_what_a_model_is_told_names_no_command(tmp_path: Path, style: str) -> None:
    sim, never = shop(), shop()
    blocked = ServerConfig(instance=never.server, approval=ApprovalMode.NEVER)
    servers = {"dead": unreachable(), "blocked": blocked}
    async with opened(tmp_path, shop=sim, **servers, host_options={"style": style}) as host:
        of_shop = {one.entry.name: one for one in host.skills() if one.origin.label == "shop"}
        await host.decide.approve(of_shop["changed"])
        await host.decide.decline(of_shop["declined"])
        sim.skill("changed", description="How changed is handled.", body="Other.")
        await host.refresh()
        said = [host.catalog()]
        for tool in host.tools(search=True):
            said += [tool.description, str(tool.input_schema)]
            for skill in host.skills():
                for value in (skill.handle, skill.uri, "nothing", "skill://dead/x/SKILL.md"):
                    given = arguments_of(tool.input_schema, value, skill.origin.label)
                    result = await tool.handler(given)
                    said.append(result.text)
    assert any("Only the user can do that: tell them" in text for text in said), said
    assert [text for text in said if COMMAND.search(text)] == []


@pytest.mark.anyio
@both_eras
async def test_what_a_gateway_tells_a_model_names_no_command(tmp_path: Path, version: str) -> None:
    gateway = make_gateway(tmp_path, shop=shop(), dead=unreachable())
    async with gateway, joined(gateway, version) as client:
        said = [str(await call(client, "tools/list")), str(await call(client, "prompts/list"))]
        said.append(str(getattr(client, "instructions", "")))
        for uri in ("skill://shop/fresh/SKILL.md", "skill://dead/x/SKILL.md"):
            for method in ("resources/read", "skills/get"):
                try:
                    said.append(str(await call(client, method, uri=uri)))
                except Exception as error:
                    said.append(str(error))
            result = await client.call_tool("load_skill", {"name": uri})
            said.append(str(result))
        error = await refusal(client, "resources/read", uri="skill://shop/fresh/SKILL.md")
        said.append(error.message)
    assert any("Only the user can approve it" in text for text in said)
    assert [text for text in said if COMMAND.search(text)] == []


def test_an_adapter_that_was_refused_says_who_must_act() -> None:
    text = refused(CallQuestion(text="May it?", digest="", skill="refunds", server="shop")).text
    assert "Only the user can do that: tell them" in text
    assert COMMAND.search(text) is None


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "docs is not trusted: it comes from /p/skillwire.toml; to trust it, run `skillwire trust` there",
            "docs is not trusted: it comes from /p/skillwire.toml. Only the user can act on that: tell them",
        ),
        (
            "your login there has expired (HTTP 401): run `skillwire servers login docs`",
            "your login there has expired (HTTP 401). Only the user can act on that: tell them",
        ),
        ("skill://x/SKILL.md is not approved", "skill://x/SKILL.md is not approved"),
    ],
)
def test_a_command_in_a_message_becomes_a_word_on_who_must_act(message: str, shown: str) -> None:
    assert for_model(message) == shown


@pytest.mark.anyio
async def test_an_error_of_a_server_that_names_a_login_does_not_tell_a_model_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillwire.errors import SourceError

    async def signed_out(*_: object, **__: object) -> object:
        raise SourceError("shop cannot be used: your login has expired: run `skillwire servers login shop`")

    async with make_host(tmp_path, servers={"shop": ServerConfig(instance=shop().server)}) as host:
        monkeypatch.setattr(host, "load", signed_out)
        monkeypatch.setattr(host, "load_for_model", signed_out, raising=False)
        [tool] = [tool for tool in host.tools() if tool.name == "load_skill"]
        result = await tool.handler({"name": "fresh"})
    assert result.is_error
    assert COMMAND.search(result.text) is None
