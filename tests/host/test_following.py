"""What is shown is true: a host knows of changed skills, decisions and settings without being asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from folder_server import FolderServer
from simulator import Simulator, agree, make_host, opened
from skillwire.consent import State
from skillwire.host import EventKind, ServerConfig, SkillHost, state_paths
from skillwire.host.config.server import SeenFile, TrustedFiles, seen_digest
from skillwire.host.following import few_directories
from skillwire.limits import Limits
from skillwire.skill import SkillUri
from trees import write, write_skill
from waiting import pass_time, until

pytestmark = pytest.mark.anyio


def state(host: SkillHost, name: str) -> State:
    [skill] = [skill for skill in host.skills() if skill.handle == name]
    return host.decide.status(skill).state


async def test_an_approved_skill_that_is_not_in_use_is_changed_as_soon_as_its_body_is(
    notes_server: ServerConfig, tmp_path: Path
) -> None:
    async with make_host(tmp_path, servers={"shop": notes_server}) as host:
        await host.decide.approve(await host.find("notes"))
        await until(lambda: [one.notifies for one in host.places.servers()] == [True])
        path = tmp_path / "skills/notes/SKILL.md"
        write(path, path.read_bytes() + b"\nMore.\n")
        await until(lambda: state(host, "notes") is State.CHANGED)


async def test_a_change_that_one_process_heard_of_is_shown_by_the_next_one_too(
    notes_server: ServerConfig, tmp_path: Path
) -> None:
    servers = {"shop": notes_server}
    async with make_host(tmp_path, servers=servers, cache_listings=True) as host:
        await host.decide.approve(await host.find("notes"))
        await until(lambda: [one.notifies for one in host.places.servers()] == [True])
        path = tmp_path / "skills/notes/SKILL.md"
        write(path, path.read_bytes() + b"\nMore.\n")
        await until(lambda: state(host, "notes") is State.CHANGED)
        with anyio.fail_after(300):
            while True:
                async with make_host(tmp_path, servers=servers, cache_listings=True, watch=False) as other:
                    if state(other, "notes") is State.CHANGED:
                        break


async def test_a_skill_that_is_shown_is_followed_before_anybody_decides(
    notes_server: ServerConfig, tmp_path: Path
) -> None:
    async with make_host(tmp_path, servers={"shop": notes_server}) as host:
        skill = await host.find("notes")
        host.following.show(skill)
        await until(lambda: [one.notifies for one in host.places.servers()] == [True])
        write(tmp_path / "skills/notes/references/a.md", b"# Another\n")
        await until(lambda: host.skills()[0].entry != skill.entry)


@pytest.mark.parametrize("ttl_ms", [None, 100])
async def test_a_server_that_sends_no_notification_is_listed_again_when_its_listing_expires(
    tmp_path: Path, ttl_ms: int | None
) -> None:
    sim = Simulator(ttl_ms=ttl_ms or 0)
    sim.skill("refunds")
    limits = replace(Limits(), min_ttl_seconds=0.05, listing_ttl_seconds=0.1)
    async with opened(tmp_path, host_options={"limits": limits}, shop=sim) as host:
        await host.decide.approve(await host.find("refunds"))
        [before] = host.places.servers()
        assert before.listed_at is not None
        assert before.list_seconds == 0.1
        sim.skill("refunds").change_body("# Other\n")
        await until(lambda: state(host, "refunds") is State.CHANGED)
        [after] = host.places.servers()
        assert after.listed_at is not None
        assert after.listed_at > before.listed_at


async def test_many_approved_skills_cost_one_subscription_and_no_request_for_each(tmp_path: Path) -> None:
    sim = Simulator()
    for number in range(60):
        sim.skill(f"s{number}")
    listened: list[list[str]] = []
    heard = anyio.Event()

    async def listen(context: Any, params: Any) -> Any:
        listened.append(list(params.notifications.resource_subscriptions or ()))
        if len(listened[-1]) == 60:
            heard.set()
        await context.session.send_notification(
            types.SubscriptionsAcknowledgedNotification(
                params=types.SubscriptionsAcknowledgedNotificationParams(notifications=params.notifications)
            )
        )
        await anyio.sleep_forever()

    async def declare(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method == "server/discover":
            result["capabilities"].setdefault("resources", {})["subscribe"] = True
        return result

    sim.server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, listen)
    sim.server.middleware.insert(0, declare)
    async with opened(tmp_path, shop=sim) as host:
        for skill in host.skills():
            await host.decide.approve(skill)
    sim.requests.clear()
    listened.clear()
    async with opened(tmp_path, shop=sim):
        with anyio.fail_after(30):
            await heard.wait()
        assert len(listened[-1]) == 60
        assert sim.asked("skills/get") == []


@pytest.mark.parametrize(
    ("roots", "most", "found"),
    [
        (["skill://a", "skill://b"], 2, ["skill://a", "skill://b"]),
        (["skill://x/a", "skill://x/b", "skill://y/c"], 2, ["skill://x", "skill://y/c"]),
        (["skill://x/a/1", "skill://x/a/2", "skill://x/b/3"], 1, ["skill://x"]),
        (["skill://a", "skill://b", "skill://c"], 2, ["skill://a", "skill://b"]),
        ([], 2, []),
    ],
)
def test_many_directories_are_covered_by_few(roots: list[str], most: int, found: list[str]) -> None:
    assert list(few_directories([SkillUri(root) for root in roots], most)) == found


# What other processes do


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which the user works, with state of its own."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    write_skill(tmp_path / "docs/notes")
    write_skill(tmp_path / "shop/refunds")
    return project


def configure(file: Path, *lines: str, **servers: str) -> None:
    """Write a configuration with these servers."""
    text = "".join(f"{line}\n" for line in lines)
    for label, url in servers.items():
        text += f'[servers.{label}]\nurl = "{url}"\nconnect_seconds = 60\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    replaced = file.with_suffix(".new")
    replaced.write_text(text, "utf-8")
    replaced.replace(file)


def trust(file: Path) -> None:
    digest = seen_digest(file)
    assert digest is not None
    TrustedFiles(state_paths().trusted).trust(SeenFile(file, digest))


def handles(host: SkillHost) -> set[str]:
    return {skill.handle for skill in host.skills()}


async def test_an_edited_configuration_reaches_an_open_host(work: Path, folders: FolderServer) -> None:
    mine = state_paths().config
    docs, shop = folders.at(work.parent / "docs"), folders.at(work.parent / "shop")
    configure(mine, docs=docs)
    async with SkillHost.from_config() as host:
        assert handles(host) == {"notes"}
        configure(mine, 'disabled = ["docs/notes"]', docs=docs)
        await until(lambda: handles(host) == set(), every=0.5)
        assert [skill.handle for skill in host.skills(disabled=True)] == ["notes"]
        configure(mine, docs=docs, shop=shop)
        await until(lambda: handles(host) == {"notes", "refunds"}, every=0.5)
        configure(mine, shop=shop)
        await until(lambda: handles(host) == {"refunds"}, every=0.5)
        assert [server.label for server in host.places.servers()] == ["shop"]
        messages = [event.message for event in host.log.events_so_far() if event.kind is EventKind.REMARK]
        assert "MCP server docs is closed: it is not configured any more" in messages
        mine.write_text("[servers.\n", "utf-8")
        await until(host.log.failures, every=0.5)
        assert "the configuration was changed and cannot be used" in host.log.failures()[0].message
        assert handles(host) == {"refunds"}, "what was read before stays in use"
        configure(mine, shop=shop)
        await until(lambda: not host.log.failures(), every=0.5)


@pytest.mark.parametrize("is_readable", [True, False])
async def test_an_edited_project_file_ends_its_trust_and_closes_its_servers_with_one_line(
    work: Path, folders: FolderServer, is_readable: bool
) -> None:
    file = work / "skillwire.toml"
    servers = {label: folders.at(work.parent / label) for label in ("docs", "shop")}
    configure(state_paths().config)
    configure(file, **servers)
    trust(file)
    async with SkillHost.from_config() as host:
        assert handles(host) == {"notes", "refunds"}
        configure(file, "# A comment" if is_readable else "[servers.", **servers)
        await until(lambda: not host.places.servers(), every=0.5)
        assert handles(host) == set()
        closed = [one.message for one in host.log.failures() if "closed" in one.message]
        assert closed == [
            f"{file} was changed, and you have not trusted it as it is now: docs, shop are closed; "
            "to review it and trust it, run `skillwire trust` in that project"
        ]
        configure(file, "# A comment", **servers)
        trust(file)
        await until(lambda: handles(host) == {"notes", "refunds"}, every=0.5)
        assert host.log.failures() == ()


async def test_what_another_process_approves_is_known_and_shown(tmp_path: Path) -> None:
    sim, other_sim = Simulator(), Simulator()
    for one in (sim, other_sim):
        one.skill("refunds")
    told = 0

    def count() -> None:
        nonlocal told
        told += 1

    async with opened(tmp_path, shop=sim) as host, opened(tmp_path, shop=other_sim) as other:
        host.log.on_change(count)
        before = told
        await other.decide.approve(await other.find("refunds"))
        await until(lambda: state(host, "refunds") is State.APPROVED, every=0.5)
        await until(lambda: told > before, every=0.5)
        await other.decide.revoke("refunds")
        await until(lambda: state(host, "refunds") is State.NOT_APPROVED, every=0.5)


async def test_without_watching_nothing_is_followed(tmp_path: Path) -> None:
    sim = Simulator(ttl_ms=50)
    sim.skill("refunds")
    options = {"watch": False, "ask": agree}
    async with opened(tmp_path, host_options=options, shop=sim) as host:
        await host.load("refunds")
        await pass_time(24 * 3600)
        assert len(sim.asked("skills/list")) == 1
