"""The official suite, the Inspector and `skillwire verify` find nothing through a gateway to real peers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import skillwire
from gateways import make_gateway
from interop import fastmcp_peer
from interop.peers import Peers
from interop.processes import SKILLWIRE, listening
from interop.test_conformance import LEFT_OUT_ON_LEGACY, LEGACY, MODERN, not_passed, run_scenario
from interop.test_inspector import INSPECT_SECONDS
from interop.test_verify_peers import PATIENT, departures
from served import wait_until_ready
from skillwire.host import ServerConfig
from trees import write_skill

pytestmark = [pytest.mark.peer, pytest.mark.anyio]

APRIL = [sys.executable, str(Path(__file__).with_name("april_server.py"))]


@pytest.fixture(scope="module")
def servers(peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """A server of each kind: ours, the TypeScript SDK's, FastMCP's, and one of the April draft."""
    folders: dict[str, str] = {}
    for kind in ("ours", "typescript", "fastmcp"):
        folders[kind] = str(tmp_path_factory.mktemp(kind))
        for name in ("alpha", "beta"):
            write_skill(Path(folders[kind]) / f"{kind}-{name}", {"notes/a.md": b"Notes.\n"})
    return {
        "ours": [*SKILLWIRE, "serve", folders["ours"]],
        "typescript": [*peers.skills_server, folders["typescript"]],
        "fastmcp": [sys.executable, fastmcp_peer.__file__, folders["fastmcp"]],
        # The last one: the suite looks at the files of the first skill, and this one has none to show.
        "x-april": APRIL,
    }


@pytest.fixture(scope="module")
def gateway_command(servers: dict[str, list[str]]) -> list[str]:
    given = [f"--server={label}={' '.join(command)}" for label, command in servers.items()]
    return [*SKILLWIRE, "gateway", "--no-config", "--approval", "listed", "--timeout", "60", *given]


@pytest.fixture(scope="module")
def gateway_url(gateway_command: list[str]) -> Iterator[str]:
    """A gateway to which every server has answered."""
    with listening([*gateway_command, "--http", "127.0.0.1:0"]) as url:
        wait_until_ready(url)
        yield url


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize("scenario", ["enumeration", "manifest", "directory"])
def test_the_suite_passes_through_a_gateway(
    peers: Peers, gateway_url: str, scenario: str, era: str, tmp_path: Path
) -> None:
    statuses = run_scenario(peers, gateway_url, f"sep-2640-skills-{scenario}", era, tmp_path)
    left_out = LEFT_OUT_ON_LEGACY if era == LEGACY else set()
    assert not_passed(statuses) == {check: "SKIPPED" for check in left_out if check in statuses}


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_verifies_every_file_through_a_gateway(
    peers: Peers, gateway_url: str, era: str, tmp_path: Path
) -> None:
    import json
    import subprocess

    run = subprocess.run(
        [
            *peers.inspector,
            "--method",
            "skills/list",
            "--verify",
            "--protocol-era",
            era,
            "--server-url",
            gateway_url,
        ],
        env={"HOME": str(tmp_path), "PATH": str(Path(peers.node).parent)},
        capture_output=True,
        text=True,
        timeout=INSPECT_SECONDS,
        check=False,
    )
    reports = [json.loads(line) for line in run.stdout.splitlines()]
    remarks = [remark for report in reports for remark in report["conformance"] + report["frontmatter"]]
    statuses = {file["status"] for report in reports for file in report["files"]}
    # A server of the April draft gives no digests, so nobody can pass any on.
    assert [remark["code"] for remark in remarks] == ["dynamic-resources"], run.stdout
    assert run.returncode == 0, run.stderr
    assert statuses == {"verified"}
    labels = {report["uri"].split("/")[2] for report in reports}
    assert labels == {"ours", "typescript", "fastmcp", "x-april"}


async def test_skillwire_verify_finds_nothing_through_a_gateway_over_http(gateway_url: str) -> None:
    report = await skillwire.verify(gateway_url, limits=PATIENT)
    assert departures(report) == (set(), set())


async def test_skillwire_verify_finds_nothing_through_a_gateway_over_stdio(
    gateway_command: list[str], gateway_url: str
) -> None:
    """Each process begins with what the servers listed for the gateway over HTTP, however slow they are."""
    cache = {"XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]}
    report = await skillwire.verify(gateway_command, env=cache, limits=PATIENT)
    assert departures(report) == (set(), set())


async def test_skillwire_verify_finds_nothing_where_every_skill_is_approved(
    servers: dict[str, list[str]], tmp_path: Path
) -> None:
    configs = {
        label: ServerConfig(command=tuple(command), connect_seconds=60)
        for label, command in servers.items()
        if label != "x-april"  # Its skills are generated on request: they are approved when they are seen.
    }
    async with make_gateway(tmp_path, host_options={"servers": configs}) as gateway:
        server = gateway.server()
        await gateway.host.places.settled()
        for skill in gateway.host.skills():
            await gateway.host.decide.approve(skill)
        report = await skillwire.verify(server, limits=PATIENT)
    assert departures(report) == (set(), set())
