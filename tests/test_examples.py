"""Every example runs as a process of its own, and a client finds in it what it promises.

The process is asked in the protocol of 2026-07-28; the earlier one in this process.
"""

from __future__ import annotations

import hashlib
import os
import re
import runpy
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from clients import connected
from skillwire import SkillServer
from skillwire.wire import EXTENSION_ID

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parent.parent / "examples"
SAMPLES = (
    "code-review",
    "git-commit-review",
    "incident-report",
    "incident-report/five-whys",
    "team/release-notes",
)
SECONDS = 60


class SkillPage(types.PaginatedResult):
    skills: list[dict[str, Any]]


MODERN, LEGACY = "2026-07-28", "2025-11-25"


@asynccontextmanager
async def running(example: str, era: str) -> AsyncIterator[Client]:
    """A client of the example: in the era of today as `python examples/NAME.py` runs it, from a directory of
    no meaning; in the earlier one of the server that the module makes."""
    target: Any = StdioServerParameters(command=sys.executable, args=[str(EXAMPLES / example)], cwd="/")
    if era == LEGACY:
        module = runpy.run_path(str(EXAMPLES / example))
        target = module["server"] if "server" in module else SkillServer(module["skills"]).low_level
        # FastMCP holds one of the SDK, which the client knows.
        target = getattr(target, "_mcp_server", target)
    with anyio.fail_after(SECONDS):
        async with connected(target, era) as client:
            extensions = client.server_capabilities.extensions
            assert extensions is not None
            assert extensions[EXTENSION_ID] == {"directoryRead": True}
            yield client


async def list_skills(client: Client) -> dict[str, dict[str, Any]]:
    request = types.PaginatedRequest(method="skills/list", params=types.PaginatedRequestParams())
    page = await client.session.send_request(request, SkillPage)
    return {entry["uri"]: entry for entry in page.skills}


async def read(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    return content.text


@pytest.mark.requirement("CAP-1", "CAP-4")
@pytest.mark.parametrize("era", [pytest.param(MODERN, marks=pytest.mark.process), LEGACY])
@pytest.mark.parametrize("example", ["low_level_server.py", "mcp_server.py", "fastmcp_server.py"])
async def test_a_server_of_each_framework_serves_the_samples_beside_its_tools(example: str, era: str) -> None:
    async with running(example, era) as client:
        skills = await list_skills(client)
        assert list(skills) == [f"skill://{path}/SKILL.md" for path in SAMPLES]
        for file in skills["skill://team/release-notes/SKILL.md"]["resources"]:
            data = (await read(client, file["uri"])).encode()
            assert (len(data), f"sha256:{hashlib.sha256(data).hexdigest()}") == (file["size"], file["digest"])
        if example != "low_level_server.py":  # It has no tools.
            result = await client.call_tool("count_words", {"text": "one two three"})
            assert result.structured_content == {"result": 3}


@pytest.mark.requirement("ENT-2")
@pytest.mark.parametrize("era", [pytest.param(MODERN, marks=pytest.mark.process), LEGACY])
async def test_skills_made_by_functions_are_static_or_dynamic(era: str) -> None:
    async with running("function_skills.py", era) as client:
        skills = await list_skills(client)
        static, dynamic = skills.values()
        assert [file["uri"] for file in static["resources"]] == [
            "skill://house/price-list/SKILL.md",
            "skill://house/price-list/prices.csv",
        ]
        assert await read(client, "skill://house/price-list/prices.csv") == "drink,price\ntea,3\ncoffee,4\n"
        assert dynamic["resources"] == "dynamic"
        assert "soup of the day" in await read(client, dynamic["uri"])


@pytest.mark.process
@pytest.mark.requirement("SEC-6")
def test_the_demo_loads_a_skill_in_its_fence_and_notices_a_change() -> None:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    demo = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py")],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (demo.returncode, demo.stderr) == (0, ""), demo.stderr
    for path in SAMPLES:
        assert path.rpartition("/")[2] in demo.stdout
    fenced, changed = demo.stdout.split("<untrusted_skill_", 1)[1].split("</untrusted_skill_")
    _, _, body = (EXAMPLES / "skills/git-commit-review/SKILL.md").read_text("utf-8").split("---\n", 2)
    assert body.strip() in fenced
    assert 'server="samples"' in fenced
    assert "its approval is revoked" in changed
    assert "changed since you approved it: skill://git-commit-review/SKILL.md" in changed
    assert "it is not loaded" in changed


@pytest.mark.process
def test_the_script_of_a_sample_skill_lists_commits(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "Fix the first thing")
    git("tag", "v1")
    git("commit", "--allow-empty", "-m", "fix(api)!: close the socket")
    git("commit", "--allow-empty", "-m", "Add a door")
    git("commit", "--allow-empty", "-m", "Fix the lock")
    script = EXAMPLES / "skills/team/release-notes/scripts/list_changes.py"
    run = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    # A commit stands on a line as two spaces, its hash and its subject.
    lines = [re.sub(r"^  [0-9a-f]+ ", "", line) for line in run.stdout.splitlines()]
    assert lines == [
        "Changes from v1 to HEAD",
        "",
        "fix (2)",
        "Fix the lock",
        "fix(api)!: close the socket",
        "",
        "add (1)",
        "Add a door",
    ]
