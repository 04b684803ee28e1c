"""Installing from MCP servers: what is listed is fetched, verified and pinned; a bad skill affects only
itself."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from install.samples import locked, skill_md
from install.workspaces import Machine
from publishers import new_key
from simulator import Simulator
from skillwire.errors import AmbiguousName, ApprovalRequired, SkillNotFound, VerificationError
from skillwire.host import ServerConfig, state_paths
from skillwire.install import (
    Candidate,
    Check,
    Freshness,
    Installer,
    InstallReport,
    LockedSkill,
    Pin,
    SkillFetcher,
    Workspace,
)
from skillwire.limits import Limits
from skillwire.net import ArchiveFile
from skillwire.skill import digest_of
from skillwire.trust import ALL_GRANTS, NO_GRANTS, SIGNATURE_FILE, ApprovalMode, Grants, Publisher, sign_files
from waiting import until
from wild_http import Call, wild_http

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host that asks the servers keeps its state here."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "user" / name.lower()))
    return tmp_path / "user"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine.make(tmp_path)


@pytest.fixture
def docs() -> Simulator:
    made = Simulator()
    made.skill("notes", files={"references/a.md": b"a\n"})
    made.skill("pdf", path="office/pdf", files={"scripts/run.sh": b"#!/bin/sh\n", "logo.png": b"\x89PNG\xff"})
    return made


def from_servers(machine: Machine, servers: Mapping[str, Simulator], **config: object) -> Installer:
    configs = {
        label: replace(ServerConfig(instance=one.server), **config)  # pyright: ignore[reportArgumentType]
        for label, one in servers.items()
    }
    return Installer(machine.workspace(), SkillFetcher(machine.project, servers=configs))


async def add(tool: Installer, *sources: str, grants: Grants = ALL_GRANTS) -> tuple[str, ...]:
    proposal = await tool.propose(sources, targets=())
    assert not proposal.failures, proposal.failures
    report = await tool.install(proposal.candidates, {one.name: grants for one in proposal.candidates})
    assert report.is_whole, report
    return report.installed


async def test_every_skill_of_a_server_is_installed_as_listed_and_pinned_by_uri(
    machine: Machine, docs: Simulator
) -> None:
    assert await add(from_servers(machine, {"docs": docs}), "docs") == ("notes", "pdf")
    for skill in docs.skills.values():
        folder = machine.installed / str(skill.frontmatter["name"])
        assert {path: (folder / path).read_bytes() for path in skill.files} == skill.files
    assert (machine.installed / "pdf/scripts/run.sh").stat().st_mode & 0o111
    pdf = machine.lock().require("pdf")
    assert (pdf.pin.kind, pdf.pin.get("server"), pdf.pin.get("uri")) == (
        "mcp",
        "docs",
        "skill://office/pdf/SKILL.md",
    )
    assert pdf.powers.scripts == ("scripts/run.sh",)


@pytest.mark.parametrize("source", ["docs/pdf", "docs/office/pdf"])
async def test_one_skill_is_named_by_its_name_or_its_path(
    machine: Machine, docs: Simulator, source: str
) -> None:
    assert await add(from_servers(machine, {"docs": docs}), source) == ("pdf",)
    assert all("/pdf/" in uri for uri in docs.read_uris())


async def test_a_name_that_matches_two_skills_of_a_server_is_ambiguous(
    machine: Machine, docs: Simulator
) -> None:
    docs.skill("pdf", path="old/pdf")
    tool = from_servers(machine, {"docs": docs})
    [failure] = (await tool.propose(["docs/pdf"], targets=())).failures
    assert isinstance(failure.error, AmbiguousName)
    assert set(failure.error.candidates) == {"docs/office/pdf", "docs/old/pdf"}
    assert await add(tool, "docs/old/pdf") == ("pdf",)


async def test_a_server_or_a_skill_that_is_not_there_is_named(machine: Machine, docs: Simulator) -> None:
    tool = from_servers(machine, {"docs": docs})
    none, other = (await tool.propose(["docs/none", "other/x"], targets=())).failures
    assert isinstance(none.error, SkillNotFound)
    assert "`skillwire servers add other URL`" in str(other.error)


async def test_bytes_that_do_not_match_the_entry_affect_only_their_skill(
    machine: Machine, docs: Simulator
) -> None:
    docs.skill("notes").swap_file("references/a.md", b"b\n")
    tool = from_servers(machine, {"docs": docs})
    proposal = await tool.propose(["docs"], targets=())
    assert [one.name for one in proposal.candidates] == ["pdf"]
    [failure] = proposal.failures
    assert failure.what == "notes"
    assert isinstance(failure.error, VerificationError)


async def test_a_frontmatter_that_is_not_the_listed_one_is_refused(machine: Machine, docs: Simulator) -> None:
    docs.skill("notes").lie_frontmatter(description="Harmless.")
    [failure] = (await from_servers(machine, {"docs": docs}).propose(["docs/notes"], targets=())).failures
    assert isinstance(failure.error, VerificationError)


async def test_a_skill_that_is_generated_on_request_cannot_be_pinned(
    machine: Machine, docs: Simulator
) -> None:
    docs.skill("live", dynamic=True)
    [failure] = (await from_servers(machine, {"docs": docs}).propose(["docs/live"], targets=())).failures
    assert isinstance(failure.error, ApprovalRequired)
    assert "generated on request" in str(failure.error)


def april_server() -> Simulator:
    """A server of the April draft, whose index lists a skill without digests."""
    sim = Simulator()
    for method in ("skills/list", "skills/get", "resources/directory/read"):
        sim.refuse(method, "Method not found", -32601)
    entry = {"type": "skill-md", "name": "notes", "description": "Notes.", "url": "skill://notes/SKILL.md"}
    sim.resources = {
        "skill://index.json": json.dumps({"skills": [entry]}).encode(),
        "skill://notes/SKILL.md": b"---\nname: notes\ndescription: Notes.\n---\nBody.\n",
        "skill://notes/references/a.md": b"a\n",
    }
    return sim


async def test_a_skill_of_an_index_is_pinned_by_digests_that_are_computed_and_marked_so(
    machine: Machine,
) -> None:
    docs = april_server()
    tool = from_servers(machine, {"docs": docs})
    assert await add(tool, "docs/notes") == ("notes",)
    assert (machine.installed / "notes/references/a.md").read_bytes() == b"a\n"
    assert machine.lock().require("notes").pin.get("digests") == "computed"
    shutil.rmtree(machine.installed / "notes")
    assert (await tool.sync()).is_whole
    assert (machine.installed / "notes/SKILL.md").exists()
    assert [one.freshness for one in await tool.check()] == [Freshness.CURRENT]
    docs.resources["skill://notes/references/a.md"] = b"b\n"
    assert [one.freshness for one in await tool.check()] == [Freshness.OUTDATED]


async def test_a_server_whose_policy_is_never_is_not_even_asked(machine: Machine, docs: Simulator) -> None:
    tool = from_servers(machine, {"docs": docs}, approval=ApprovalMode.NEVER)
    [failure] = (await tool.propose(["docs"], targets=())).failures
    assert "never" in str(failure.error)
    assert docs.requests == []


async def test_a_server_that_fails_affects_only_its_own_skills(machine: Machine, docs: Simulator) -> None:
    broken = Simulator()
    broken.refuse("skills/list", "out of order")
    tool = from_servers(machine, {"docs": docs, "broken": broken})
    proposal = await tool.propose(["docs/notes", "broken"], targets=())
    assert [one.name for one in proposal.candidates] == ["notes"]
    assert [failure.what for failure in proposal.failures] == ["broken"]


async def test_tools_and_scripts_of_a_servers_skill_are_granted_separately(
    machine: Machine, docs: Simulator
) -> None:
    docs.skill("shell", fields={"allowed-tools": "Bash(ls:*)"})
    tool = from_servers(machine, {"docs": docs})
    proposal = await tool.propose(["docs"], targets=())
    report = await tool.install(proposal.candidates, {one.name: NO_GRANTS for one in proposal.candidates})
    assert report.installed == ("notes",)
    assert sorted(failure.what for failure in report.refused) == ["pdf", "shell"]


async def test_sync_fetches_exactly_what_is_pinned(machine: Machine, docs: Simulator, tmp_path: Path) -> None:
    await add(from_servers(machine, {"docs": docs}), "docs")
    other = Machine.make(tmp_path / "other")
    (other.project / "skillwire.lock").write_bytes(machine.workspace().lock_file.read_bytes())
    docs.skill("notes").change_body("another version\n")
    tool = from_servers(other, {"docs": docs})
    _, state, made = tool.compare()
    docs.requests.clear()
    report = await tool.sync(accept=tool.unaccepted(state, made))
    assert report.installed == ("pdf",)
    [failure] = report.failures
    assert failure.what == "notes"
    assert "`skillwire update notes`" in str(failure.error)
    assert not (other.installed / "notes").exists()
    assert all("/pdf/" in uri for uri in docs.read_uris())


async def test_outdated_compares_listings_and_reads_no_file(machine: Machine, docs: Simulator) -> None:
    tool = from_servers(machine, {"docs": docs})
    await add(tool, "docs")
    docs.skill("notes").change_body("another version\n")
    docs.requests.clear()
    assert {one.skill.name: one.freshness for one in await tool.check()} == {
        "notes": Freshness.OUTDATED,
        "pdf": Freshness.CURRENT,
    }
    assert docs.read_uris() == []
    del docs.skills["skill://office/pdf/SKILL.md"]
    assert [one.freshness for one in await tool.check(["pdf"])] == [Freshness.GONE]
    docs.refuse("skills/list")
    assert {one.freshness for one in await tool.check()} == {Freshness.UNKNOWN}


async def test_an_update_shows_what_is_pinned_and_what_it_newly_asks_for(
    machine: Machine, docs: Simulator
) -> None:
    tool = from_servers(machine, {"docs": docs})
    await add(tool, "docs/notes")
    docs.skill("notes").change_file("scripts/new.py", b"print()\n")
    proposal = await tool.propose_updates()
    [candidate] = proposal.candidates
    assert candidate.skill.powers.beyond(proposal.before["notes"].powers).scripts == ("scripts/new.py",)
    assert not (await tool.install([candidate], {"notes": NO_GRANTS})).updated
    assert (await tool.install([candidate], {"notes": Grants(execute_code=True)})).updated == ("notes",)


async def test_listing_and_comparing_install_and_cache_nothing(machine: Machine, docs: Simulator) -> None:
    tool = from_servers(machine, {"docs": docs})
    await tool.propose(["docs"], targets=())
    assert not machine.installed.exists()
    assert machine.workspace().read_lock() is None
    assert not [path for path in state_paths().cache.rglob("*") if path.is_file()]


async def test_what_a_required_publisher_did_not_sign_is_not_installed(
    machine: Machine, docs: Simulator
) -> None:
    key = new_key()
    notes = docs.skill("notes")
    listed = {path: digest_of(data) for path, data in notes.files.items()}
    notes.change_file(SIGNATURE_FILE, sign_files(listed, name="notes", key=key))
    tool = from_servers(machine, {"docs": docs}, require=("acme",))
    tool.upstream.publishers = [Publisher("acme", keys=[key.public_key()])]
    proposal = await tool.propose(["docs"], targets=())
    [notes_candidate] = proposal.candidates
    assert "acme" in notes_candidate.skill.signer
    [failure] = proposal.failures
    assert failure.what == "pdf"
    assert "acme" in str(failure.error)


async def test_files_are_asked_for_together(machine: Machine) -> None:
    docs = Simulator()
    for number in range(6):
        docs.skill(f"skill-{number}", files={"a.md": b"a"})
    answered = anyio.Event()
    docs.hold("resources/read", answered)
    tool = from_servers(machine, {"docs": docs})
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: add(tool, "docs"))
            # All of them, and none is answered yet.
            await until(lambda: len(docs.read_uris()) == 12)
            answered.set()
    assert len(machine.lock().skills) == 6


async def test_a_server_that_does_not_answer_does_not_hold_up_the_files_of_another(machine: Machine) -> None:
    slow, quick = Simulator(), Simulator()
    for number in range(40):
        slow.skill(f"slow-{number}")
    quick.skill("quick")
    answered = anyio.Event()
    slow.hold("resources/read", answered)
    tool = from_servers(machine, {"a-slow": slow, "quick": quick})
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: add(tool, "a-slow", "quick"))
            await until(quick.read_uris)
            answered.set()
    assert len(machine.lock().skills) == 41


async def sync_while_one_server_is_silent(
    machine: Machine, meanwhile: Callable[[anyio.Event, anyio.CancelScope], None]
) -> tuple[Installer, Simulator, list[InstallReport]]:
    """Sync a skill of a server that answers and one of a server that does not. `meanwhile` is called when the
    first one is installed."""
    quick, slow = Simulator(), Simulator()
    quick.skill("quick", files={"references/a.md": b"a"})
    slow.skill("slow")
    tool = from_servers(machine, {"a-slow": slow, "quick": quick})
    await add(tool, "a-slow", "quick")
    shutil.rmtree(machine.installed)
    shutil.rmtree(tool.workspace.versions.folder)
    (machine.home / "state").rename(machine.home / "state-before")
    quick.requests.clear()
    answered, written = anyio.Event(), anyio.Event()
    slow.hold("resources/read", answered)
    tool.on_step = lambda _: written.set()
    reports: list[InstallReport] = []

    async def sync() -> None:
        reports.append(await tool.sync(accept=machine.lock().skills))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sync)
            await written.wait()
            meanwhile(answered, tasks.cancel_scope)
    slow.behave("resources/read")
    return tool, quick, reports


async def test_a_skill_is_installed_while_another_one_has_not_arrived(machine: Machine) -> None:
    seen: list[bytes] = []

    def look(answered: anyio.Event, _: anyio.CancelScope) -> None:
        seen.append((machine.installed / "quick/references/a.md").read_bytes())
        assert not (machine.installed / "slow").exists()
        answered.set()

    _, _, [report] = await sync_while_one_server_is_silent(machine, look)
    assert seen == [b"a"]
    assert (report.installed, report.is_whole) == (("quick", "slow"), True)


async def test_what_arrived_before_a_sync_was_cancelled_is_recorded_and_not_fetched_again(
    machine: Machine,
) -> None:
    tool, quick, reports = await sync_while_one_server_is_silent(machine, lambda _, scope: scope.cancel())
    assert not reports
    assert not (machine.installed / "slow").exists()
    [version] = tool.versions("quick")
    assert version.digest == machine.lock().require("quick").digest
    assert tool.versions("slow") == ()
    quick.requests.clear()
    report = await tool.sync(accept=machine.lock().skills)
    assert (report.installed, report.current) == (("slow",), ("quick",))
    assert not quick.read_uris()


async def test_servers_are_asked_together_whether_something_changed(machine: Machine) -> None:
    servers = {f"s{number}": Simulator() for number in range(8)}
    for label, server in servers.items():
        server.skill(f"skill-{label}")
    tool = from_servers(machine, servers)
    await add(tool, *servers)
    answered = anyio.Event()
    for server in servers.values():
        server.requests.clear()
        server.hold("skills/list", answered)
    checks: list[Check] = []

    async def check() -> None:
        checks.extend(await tool.check())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(check)
            # Every server is asked while none has answered.
            await until(lambda: all(one.asked("skills/list") for one in servers.values()))
            answered.set()
    assert {one.freshness for one in checks} == {Freshness.CURRENT}


async def test_a_host_that_cannot_be_opened_is_the_reason_why_nothing_is_known(
    machine: Machine, docs: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = from_servers(machine, {"docs": docs})
    await add(tool, "docs")
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine.installed))
    assert [(one.freshness, "overlap" in one.detail) for one in await tool.check()] == [
        (Freshness.UNKNOWN, True),
        (Freshness.UNKNOWN, True),
    ]


@pytest.mark.slow
async def test_a_first_sync_does_not_hold_the_bytes_of_all_skills(machine: Machine, tmp_path: Path) -> None:
    docs = Simulator()
    each, count = 200_000, 120
    for number in range(count):
        docs.skill(f"skill-{number}", body=f"{number} " + "x" * each)
    await add(from_servers(machine, {"docs": docs}), "docs")
    other = Machine.make(tmp_path / "other", project=machine.project)
    shutil.rmtree(machine.installed)
    tool = from_servers(other, {"docs": docs})
    _, state, made = tool.compare()
    accepted = tool.unaccepted(state, made)
    tracemalloc.start()
    try:
        report = await tool.sync(accept=accepted)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(report.installed) == count
    assert most < each * count * 0.75, f"{most:,} bytes"


async def test_many_servers_share_the_requests_that_are_sent_at_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may need a connection, and a process may only open so many files."""
    monkeypatch.setattr("skillwire.host.files._REQUESTS", 8)
    answered = anyio.Event()
    servers = {label: Simulator() for label in ("a", "b", "c", "d")}
    for label, one in servers.items():
        one.skill(f"skill-{label}", files={f"{number}.md": b"x" for number in range(10)})
        one.hold("resources/read", answered)

    def sent() -> int:
        return sum(len(one.read_uris()) for one in servers.values())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(add, from_servers(machine, servers), *servers)
        await until(lambda: sent() >= 8)
        await anyio.wait_all_tasks_blocked()
        assert [len(one.read_uris()) for one in servers.values()] == [2, 2, 2, 2]
        answered.set()
    assert len(machine.lock().skills) == 4


async def two_servers(machine: Machine, tmp_path: Path) -> tuple[Installer, Simulator, list[str]]:
    """Skills of two servers, pinned but not installed; the second server; and what will be recorded."""
    first, second = Simulator(), Simulator()
    first.skill("first")
    second.skill("second")
    servers = {"a": first, "b": second}
    await add(from_servers(machine, servers), "a", "b")
    shutil.rmtree(machine.installed)
    tool = from_servers(Machine.make(tmp_path / "other", project=machine.project), servers)
    recorded: list[str] = []

    async def record(_: Workspace, installed: Sequence[tuple[Candidate, Grants]]) -> None:
        recorded.extend(one.name for one, _ in installed)

    tool.record = record
    return tool, second, recorded


def asked_about(tool: Installer) -> tuple[LockedSkill, ...]:
    _, state, made = tool.compare()
    return tool.unaccepted(state, made)


async def test_what_could_not_be_fetched_is_asked_about_again_and_approved_when_it_is_installed(
    machine: Machine, tmp_path: Path
) -> None:
    tool, second, recorded = await two_servers(machine, tmp_path)
    second.refuse("resources/read")
    report = await tool.sync(accept=asked_about(tool))
    assert (report.installed, recorded) == (("first",), ["first"])
    second.behave("resources/read")
    assert [skill.name for skill in asked_about(tool)] == ["second"]
    report = await tool.sync(accept=asked_about(tool))
    assert (report.installed, recorded) == (("second",), ["first", "second"])
    assert asked_about(tool) == ()


async def test_what_was_installed_before_an_interruption_is_approved_and_the_rest_is_asked_about_again(
    machine: Machine, tmp_path: Path
) -> None:
    tool, second, recorded = await two_servers(machine, tmp_path)
    second.never_answer("resources/read")
    with anyio.CancelScope() as run:
        tool.on_step = lambda _: run.cancel()
        await tool.sync(accept=asked_about(tool))
    assert run.cancelled_caught
    assert (machine.installed / "first/SKILL.md").exists()
    assert recorded == ["first"]
    assert [skill.name for skill in asked_about(tool)] == ["second"]
    second.behave("resources/read")
    assert (await tool.sync(accept=asked_about(tool))).installed == ("second",)
    assert recorded == ["first", "second"]


async def test_artifacts_of_sites_are_fetched_a_few_at_a_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching = most = 0

    async def fetch(
        url: str, digest: str, *, index: str, token: str, limits: Limits
    ) -> tuple[ArchiveFile, ...]:
        nonlocal fetching, most
        fetching += 1
        most = max(most, fetching)
        await anyio.wait_all_tasks_blocked()
        fetching -= 1
        return (ArchiveFile("SKILL.md", skill_md(url.rpartition("/")[2])),)

    monkeypatch.setattr("skillwire.install.sources.fetch_artifact", fetch)
    skills = [
        replace(locked(name), pin=Pin.make("site", artifact=f"https://acme.example/{name}", digest="x"))
        for name in (f"skill-{number}" for number in range(40))
    ]
    fetched: list[Candidate] = []
    assert await SkillFetcher(machine.project).fetch_pinned(skills, fetched.append) == ()
    assert len(fetched) == 40
    assert most == 16


async def test_a_secret_in_the_url_of_a_server_does_not_get_into_the_lock(machine: Machine) -> None:
    async def honest(request: Call) -> None:
        await request.behave()

    async with wild_http(honest) as (url, _):
        secret = url.replace("http://", "http://ann:hush-hush@") + "?key=sk-12345678"
        servers = {"shop": ServerConfig(url=secret)}
        tool = Installer(machine.workspace(), SkillFetcher(machine.project, servers=servers))
        assert await add(tool, "shop") == ("refunds",)
    [skill] = machine.lock().skills
    assert skill.pin.get("url") == f"{url}?…"
    text = (machine.project / "skillwire.lock").read_text("utf-8")
    assert "hush" not in text
    assert "sk-" not in text
