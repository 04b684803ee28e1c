"""Real agent clients, headless, against a scripted model service, where nothing but loopback exists."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_clients.judging import context_chars, first_requests, folder_facts, gateway_facts
from agent_clients.programs import PROGRAMS
from agent_clients.scenario import PATIENT, has_gateway
from environments import node_environment

pytestmark = [pytest.mark.process, pytest.mark.peer, pytest.mark.slow]

SCENARIO = Path(__file__).parent / "scenario.py"
SECONDS = 900
CONTEXT_CHARS = 12_000
"""What docs/gateway.md promises, for instructions and tools together."""


def play(client: str, home: Path, *parts: str) -> dict[str, Any]:
    """What a client did in one part of the scenario, in a network of its own."""
    node_environment("agents")
    command = ["unshare", "-rn", sys.executable, str(SCENARIO), client, str(home), *parts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if "unshare" in done.stderr.partition(":")[0]:
        pytest.skip(f"no network of its own here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr[-3000:]
    runs: dict[str, Any] = json.loads(done.stdout)["runs"]
    assert {name: run["exit"] for name, run in runs.items() if run["exit"]} == {}
    return runs


@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_loads_what_was_installed_for_it_and_what_was_updated(client: str, tmp_path: Path) -> None:
    facts = folder_facts(play(client, tmp_path / "home", "folders"))
    assert [fact for fact, is_true in facts.items() if not is_true] == []


@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_gets_through_the_gateway_what_its_user_approved_and_nothing_else(
    client: str, tmp_path: Path
) -> None:
    runs = play(client, tmp_path / "home", "gateway")
    facts = gateway_facts(runs)
    assert [fact for fact, is_true in facts.items() if not is_true] == [], {
        name: run["results"] for name, run in runs.items()
    }
    # Told to wait, or waiting by what `gateway install` writes: this holds however busy the machine is.
    if PROGRAMS[client].patience:
        assert has_gateway(runs[PATIENT]), "it did not wait for the gateway"
    else:
        shown, all_runs = first_requests(runs)
        assert shown == all_runs, "a first request was without the gateway's tools"


@pytest.mark.parametrize("client", PROGRAMS)
def test_a_gateway_to_three_hundred_skills_stays_within_its_budget_of_context(
    client: str, tmp_path: Path
) -> None:
    chars = context_chars(play(client, tmp_path / "home", "context", "300"))
    assert 1_000 < chars[300] <= CONTEXT_CHARS
