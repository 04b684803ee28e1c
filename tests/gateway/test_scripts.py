"""`gateway --run`: over HTTP what the callers file grants, over stdio what the user granted."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from clients import both_eras
from gateways import User, connected_to, joined, make_gateway, serving, text_of, write_callers
from scanning import clean_machine
from simulator import Simulator
from skillwire.access import Caller, CallerFile
from skillwire.access.callers import parse_callers
from skillwire.gateway import AuditLog, GatewayOptions
from skillwire.host import ScriptRequest, ScriptRunner, SkillHost

pytestmark = [pytest.mark.anyio, pytest.mark.process]

SCRIPT = (
    b"import os, sys\nprint(sys.argv[1:], sorted(os.listdir('.')))\nopen('made.txt', 'w').write('made')\n"
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    clean_machine(tmp_path, monkeypatch)
    return tmp_path


def docs() -> Simulator:
    simulator = Simulator()
    simulator.skill("pdf", files={"scripts/run.py": SCRIPT, "scripts/other.sh": b"echo other\n"})
    return simulator


async def run(client: Client, path: str = "scripts/run.py", **more: Any) -> tuple[str, bool]:
    result = await client.call_tool("run_skill_script", {"name": "pdf", "path": path, **more})
    return text_of(result), bool(result.is_error)


async def test_a_caller_runs_what_the_callers_file_grants(place: Path) -> None:
    path = place / "audit.jsonl"
    audit = AuditLog(path)
    gateway = make_gateway(place, GatewayOptions(run=True, audit=audit), docs=docs())
    alice = Caller(name="alice", run=("docs/pdf/scripts/run.py",))
    async with gateway, joined(gateway, user=User(), caller=alice) as client:
        assert "run_skill_script" in [tool.name for tool in (await client.list_tools()).tools]
        text, is_error = await run(client, arguments=["-v"], files={"in.txt": "given"})
        assert not is_error, text
        assert "['-v'] ['in.txt']" in text
        assert "made" in text
        assert "untrusted_skill_output_" in text
        text, is_error = await run(client, "scripts/other.sh")
        assert is_error
        assert "has not granted that" in text
    audit.close()
    [line] = [line for line in map(json.loads, path.read_text().splitlines()) if line["act"] == "run"]
    assert (line["script"], line["exit_code"], line["grants"]) == ("scripts/run.py", 0, [])
    assert line["set"].startswith("sha256:")
    assert "given" not in path.read_text()


@both_eras
async def test_over_http_a_token_runs_what_its_line_of_the_callers_file_names(
    place: Path, version: str
) -> None:
    file = place / "callers.toml"
    tokens = write_callers(file, alice={}, bob={})
    alice = "[callers.alice]\n"
    file.write_text(file.read_text().replace(alice, f'{alice}run = ["docs/pdf/scripts/run.py"]\n'))
    gateway = make_gateway(place, GatewayOptions(run=True, callers=CallerFile(file)), docs=docs())
    async with serving(gateway) as url:
        async with connected_to(url, tokens["alice"], version, user=User()) as client:
            text, is_error = await run(client, arguments=["--fast"], files={"in.txt": "x"})
            assert not is_error, text
            assert "['--fast'] ['in.txt']" in text
            assert "made" in text
            text, is_error = await run(client, "scripts/other.sh")
            assert is_error
            assert "has not granted that" in text
        async with connected_to(url, tokens["bob"], version, user=User()) as client:
            assert "run_skill_script" not in [tool.name for tool in (await client.list_tools()).tools]


async def test_a_caller_without_grants_has_no_such_tool(place: Path) -> None:
    gateway = make_gateway(place, GatewayOptions(run=True), docs=docs())
    async with gateway, joined(gateway, user=User(), caller=Caller(name="bob")) as client:
        assert "run_skill_script" not in [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(Exception, match="no tool called"):
            await run(client)
    without = make_gateway(place / "other", GatewayOptions(), docs=docs())
    alice = Caller(name="alice", run=("*",))
    async with without, joined(without, user=User(), caller=alice) as client:
        with pytest.raises(Exception, match="no tool called"):
            await run(client)


async def test_a_grant_does_not_replace_the_approval(place: Path) -> None:
    gateway = make_gateway(place, GatewayOptions(run=True), docs=docs())
    alice = Caller(name="alice", run=("docs/*",))
    async with gateway, joined(gateway, user=User("decline"), caller=alice) as client:
        text, is_error = await run(client)
        assert is_error
        assert "ended with exit code" not in text


def test_the_callers_file_names_scripts() -> None:
    digest = hashlib.sha256(b"x").hexdigest()
    text = f'[callers.alice]\ntoken = "sha256:{digest}"\nrun = ["docs/pdf/* net:api.example.org"]\n'
    [caller] = parse_callers(text, "callers.toml").values()
    assert caller.run == ("docs/pdf/* net:api.example.org",)


async def test_over_stdio_what_the_user_granted_runs(place: Path) -> None:
    skill = place / "home/.agents/skills/pdf"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: pdf\ndescription: Reads. Use when asked.\n---\nRun it.\n")
    (skill / "scripts/run.py").write_bytes(SCRIPT)
    (skill / "scripts/other.sh").write_text("echo other\n")

    async def agree(request: ScriptRequest) -> bool:
        return True

    folder = place / "work"
    runner = ScriptRunner(folder=folder, ask=agree)
    async with SkillHost(directories=[skill.parent], runner=runner, watch=False) as host:
        await host.scripts.run("pdf", "scripts/run.py", files={})
    import os

    parameters = StdioServerParameters(
        command=sys.executable,
        args=[
            "-m",
            "skillwire",
            "gateway",
            "run",
            "--run",
            "--no-default-directories",
            "--dir",
            str(skill.parent),
        ],
        env=dict(os.environ),
        cwd=str(folder),
    )
    async with Client(stdio_client(parameters)) as client:
        assert "run_skill_script" in [tool.name for tool in (await client.list_tools()).tools]
        text, is_error = await run(client, files={"in.txt": "x"})
        assert not is_error, text
        assert "['in.txt']" in text
        text, is_error = await run(client, "scripts/other.sh")
        assert is_error
        assert "has not granted that" in text
