"""Spans and metrics: to a collector in memory, and over OTLP to one on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from environments import environment

HERE = Path(__file__).parent
SECONDS = 120


@pytest.mark.process
@pytest.mark.peer
def test_spans_and_metrics_reach_a_collector_in_memory_and_over_otlp(tmp_path: Path) -> None:
    """In the environment that has the SDK of OpenTelemetry; Skillwire itself needs only its API."""
    done = subprocess.run(
        [environment("frameworks"), str(HERE / "telemetry_program.py"), str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE.parent.parent / "src"), str(HERE.parent)]),
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    spans = {span["name"]: span["attributes"] for span in told["spans"]}
    load = spans["load_skill refunds"]
    assert load["gen_ai.operation.name"] == "execute_tool"
    assert load["gen_ai.tool.name"] == "load_skill"
    assert load["gen_ai.skill.name"] == "refunds"
    assert load["gen_ai.skill.source.uri"] == "skill://refunds/SKILL.md"
    assert load["skillwire.set_digest"] == told["digest"]
    assert load["skillwire.origin"] == "shop"
    assert load["skillwire.dialect"] == "D6"
    assert load["skillwire.verdict"] == "ok"
    assert spans["read_skill_file refunds"]["skillwire.verdict"] == "ok"
    assert spans["load_skill liar"]["skillwire.verdict"] == "refused:SizeMismatch"
    assert spans["load_skill denied"]["skillwire.verdict"] == "not-approved:denied"
    assert spans["load_skill own"]["skillwire.origin"] == "local"
    listed = [span["attributes"] for span in told["spans"] if span["name"] == "skillwire.discover"]
    assert {(one["skillwire.origin"], one["skillwire.skills"]) for one in listed} == {
        ("shop", 3),
        ("local", 1),
    }
    asked = [span for span in told["spans"] if span["name"] == "skillwire.approve"]
    verdicts = [span["attributes"]["skillwire.verdict"] for span in asked]
    assert sorted(verdicts) == ["approved", "approved", "denied"]
    assert all(span["parent"].startswith("load_skill") for span in asked)
    counts = told["metrics"]
    assert counts["skillwire.load.count"] == 4
    assert counts["skillwire.read.count"] == 1
    assert counts["skillwire.refusals"] == 2
    assert counts["skillwire.load.duration"] == 4
    passed_on = dict(told["gateway"])
    assert passed_on["skillwire.gateway list"]["skillwire.skills"] == 1
    assert passed_on["skillwire.gateway refuse"]["skillwire.verdict"] == "refused"
    assert passed_on["skillwire.gateway load"]["skillwire.origin"] == "shop"
    assert passed_on["skillwire.gateway load"]["skillwire.set_digest"].startswith("sha256:")
    everything = json.dumps(told)
    for private in (str(tmp_path), "secret-folder", "receipt", "limits.md", "Mine alone"):
        assert private not in everything, private
    assert told["otlp"] == {"/v1/traces": True, "/v1/metrics": True}


@pytest.mark.process
def test_without_opentelemetry_nothing_of_it_is_imported() -> None:
    program = (
        "import sys, skillwire.telemetry as t\n"
        "with t.operation('load') as done: done.set('a', 1)\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
