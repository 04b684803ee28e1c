"""Servers that lie, change or disappear affect only their own skills, and nothing unverified passes."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from clients import call, refusal
from gateways import User, joined, make_gateway, text_of
from served import Served
from served import serving as run_server
from server.test_notifications import modern
from simulator import Simulator
from skillwire import Limits, SkillServer
from skillwire.access import Caller
from skillwire.gateway import GatewayOptions, upstreams
from skillwire.host import ServerConfig
from skillwire.server import Address, HttpServer, ServerOptions
from skillwire.skill import digest_of
from skillwire.trust import ApprovalMode
from trees import write_skill
from waiting import PATIENCE, pass_time, until

pytestmark = pytest.mark.anyio


def honest(number: int) -> Simulator:
    simulator = Simulator()
    for name in ("one", "two"):
        simulator.skill(f"{name}-{number}", files={"a.md": f"{name} {number}".encode()})
    return simulator


async def test_a_gateway_ends_at_once_while_a_server_is_still_being_connected_to(tmp_path: Path) -> None:
    silent = mute()
    slow = ServerConfig(instance=silent.server, connect_seconds=600, call_seconds=600)
    with anyio.fail_after(PATIENCE):
        async with make_gateway(tmp_path, slow=slow, shop=honest(1)):
            await until(lambda: silent.asked("skills/list"))


async def test_a_server_that_stopped_answering_is_named_and_the_next_request_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upstreams, "_SLOW_SECONDS", 0.1)
    monkeypatch.setattr(upstreams, "_SILENT_SECONDS", 3600.0)
    shop = honest(1)
    config = ServerConfig(instance=shop.server, call_seconds=2, approval=ApprovalMode.ALWAYS)
    known, first, second = (f"skill://shop/{path}" for path in ("one-1/a.md", "two-1/a.md", "two-1/SKILL.md"))
    async with make_gateway(tmp_path, shop=config) as gateway, joined(gateway) as client:
        assert text_of(await client.read_resource(known)) == "one 1"
        shop.never_answer("resources/read")
        said = await refusal(client, "resources/read", uri=first)
        again = await refusal(client, "resources/read", uri=second)
        # The second one did not wait until the server's time was over.
        assert caplog.text.count("did not answer resources/read within 2 s") == 1
        for error in (said, again):
            assert error.code == -32603
            assert "The server shop is unavailable" in error.message
            assert "it is tried again in 3600 s" in error.message
        assert text_of(await client.read_resource(known)) == "one 1"  # It is in memory.
        # It cannot be asked whether there is such a skill.
        assert (await refusal(client, "resources/read", uri="skill://shop/none/SKILL.md")).code == -32603


async def test_a_known_directory_is_listed_while_its_server_does_not_answer(tmp_path: Path) -> None:
    shop = Simulator()
    shop.skill("one", files={"notes/a.md": b"one"})
    async with make_gateway(tmp_path, shop=shop) as gateway, joined(gateway) as client:
        assert await pages(client)
        shop.never_answer("skills/get")
        async with while_time_passes():
            listed = await call(client, "resources/directory/read", uri="skill://shop/one/notes")
            assert [child["uri"] for child in listed["resources"]] == ["skill://shop/one/notes/a.md"]
            # Of what is not listed, only the server knows whether it is there.
            error = await refusal(client, "resources/directory/read", uri="skill://shop/one/other")
            assert "The server shop is unavailable" in error.message


@pytest.mark.slow
async def test_twenty_servers_of_which_five_lie(tmp_path: Path) -> None:
    servers: dict[str, Any] = {f"good-{number}": honest(number) for number in range(15)}
    wrong = honest(100)
    wrong.skills["skill://one-100/SKILL.md"].swap_body("EVIL bytes\n")
    wrong.skills["skill://two-100/SKILL.md"].swap_file("a.md", b"EVIL file")
    endless = honest(101)
    endless.endless_pages()
    slow = ServerConfig(instance=mute().server, connect_seconds=1, call_seconds=1)
    dies = honest(103)
    changes = honest(104)
    servers |= {"wrong": wrong, "endless": endless, "slow": slow, "dies": dies, "changes": changes}
    read: dict[str, str] = {}
    user = User()
    async with make_gateway(tmp_path, **servers) as gateway, joined(gateway, user=user) as client:
        listed = [entry["uri"] for page in await pages(client) for entry in page]
        for number in range(15):
            for name in ("one", "two"):
                uri = f"skill://good-{number}/{name}-{number}"
                assert f"{uri}/SKILL.md" in listed
        # What was approved changes without a word: nothing of the new version passes before another yes.
        await client.read_resource("skill://changes/one-104/SKILL.md")
        changes.skills["skill://one-104/SKILL.md"].change_file("a.md", b"EVIL after approval")
        await gateway.host.cache.forget_server(gateway.host.places.servers()[0].origin)
        dies.refuse("resources/read", "I am dead")
        user._answers = ("accept", *["accept"] * 30, "decline")
        for uri in (
            "skill://wrong/one-100/SKILL.md",
            "skill://wrong/two-100/a.md",
            "skill://dies/one-103/SKILL.md",
        ):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            assert refused.value.error.code in (-32603, -32602)
        user._answers = ("decline",)
        with pytest.raises(MCPError):
            await client.read_resource("skill://changes/one-104/a.md")
        user._answers = ("accept",)

        async def read_whole(number: int) -> None:
            root = f"skill://good-{number}/one-{number}"
            for path in ("SKILL.md", "a.md"):
                read[f"{root}/{path}"] = text_of(await client.read_resource(f"{root}/{path}"))

        async with asyncio.TaskGroup() as tasks:
            for number in range(15):
                tasks.create_task(read_whole(number))
        after = [entry["uri"] for page in await pages(client) for entry in page]
        said = str(gateway.health())
    assert len(read) == 30
    assert all(read[f"skill://good-{number}/one-{number}/a.md"] == f"one {number}" for number in range(15))
    assert "EVIL" not in "".join(read.values())
    assert "skill://wrong/one-100/SKILL.md" not in after
    assert sum(uri.startswith("skill://good-") for uri in after) == 30
    for label in ("wrong", "endless", "slow"):
        assert label in said


@asynccontextmanager
async def while_time_passes() -> AsyncGenerator[None]:
    """As long as the block runs, requests soon give up on a server."""
    has_ended = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: until(lambda: has_ended, every=2 * Limits().upstream_seconds))
        yield
        has_ended = True


def edit(skill: Path, body: str) -> None:
    text = (skill / "SKILL.md").read_text()
    (skill / "SKILL.md").write_text(f"{text.rpartition('---')[0]}---\n{body}\n")


def mute() -> Simulator:
    simulator = honest(102)
    simulator.never_answer("skills/list")
    return simulator


async def pages(client: Any) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await call(client, "skills/list", **cursor)
        found.append(page["skills"])
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


@pytest.mark.parametrize("method", ["skills/get", "resources/read"])
@pytest.mark.slow
async def test_a_server_that_never_answers_ends_in_an_error_and_affects_nobody_else(
    tmp_path: Path, method: str
) -> None:
    slow = honest(1)
    slow.never_answer("resources/read")
    slow.never_answer("skills/get")
    config = ServerConfig(instance=slow.server, call_seconds=0.5)
    options = GatewayOptions(approval="listed")
    async with (
        make_gateway(tmp_path, options, slow=config, fast=honest(2)) as gateway,
        joined(gateway) as client,
    ):
        with anyio.fail_after(PATIENCE):
            error = await refusal(client, method, uri="skill://slow/nothing/SKILL.md")
            assert (error.code, error.data["server"]) == (-32603, "slow")
            assert "The server slow is unavailable; it is tried again" in error.message
            error = await refusal(client, "resources/read", uri="skill://slow/one-1/SKILL.md")
            assert error.code == -32603
            assert "Do it" in text_of(await client.read_resource("skill://fast/one-2/SKILL.md"))


@pytest.fixture
def upstream_folder(tmp_path: Path) -> Path:
    for name in ("alpha", "beta"):
        write_skill(tmp_path / "skills" / name, {"a.md": name.encode(), "b.md": b"more"})
    return tmp_path / "skills"


def url_of(served: Served) -> str:
    return served.wait_until_it_says(r"http://\S+/mcp")[0]


@pytest.mark.process
@pytest.mark.slow
async def test_a_stopped_server_is_unavailable_long_before_its_time_is_over_and_works_when_it_goes_on(
    tmp_path: Path, upstream_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    approved = GatewayOptions(approval="listed")
    with run_server("--http", "127.0.0.1:0", upstream_folder) as served:
        config = ServerConfig(url=url_of(served), call_seconds=3600, connect_seconds=60)
        async with (
            make_gateway(tmp_path, approved, docs=config, here=honest(1)) as gateway,
            joined(gateway) as client,
        ):
            assert text_of(await client.read_resource("skill://docs/alpha/a.md")) == "alpha"
            served.process.send_signal(signal.SIGSTOP)
            with anyio.fail_after(600):
                for method, path in (
                    ("resources/read", "alpha/b.md"),
                    ("resources/read", "beta/SKILL.md"),
                    ("resources/read", "beta/b.md"),
                    ("resources/read", "unlisted/SKILL.md"),
                    ("skills/get", "unlisted/SKILL.md"),
                ):
                    error = await refusal(client, method, uri=f"skill://docs/{path}")
                    assert (error.code, error.data["server"]) == (-32603, "docs")
                    assert "The server docs is unavailable; it is tried again" in error.message
                # Only the first request waited for it.
                assert caplog.text.count("no answer in 5 s") == 1
                assert text_of(await client.read_resource("skill://docs/alpha/a.md")) == "alpha"
                assert text_of(await client.read_resource("skill://here/one-1/a.md")) == "one 1"
            served.process.send_signal(signal.SIGCONT)
            with anyio.fail_after(600):
                while (await outcome(client, "skill://docs/beta/b.md")) != "more":
                    pass
                # On a busy machine the first answers can still come too late.
                while (await refusal(client, "skills/get", uri="skill://docs/no/SKILL.md")).code != -32602:
                    pass


@pytest.mark.process
@pytest.mark.slow
async def test_a_server_that_is_stopped_when_a_gateway_starts_is_unavailable_until_it_goes_on(
    tmp_path: Path, upstream_folder: Path
) -> None:
    with run_server("--http", "127.0.0.1:0", upstream_folder) as served:
        config = ServerConfig(url=url_of(served), call_seconds=3600, connect_seconds=7)
        served.process.send_signal(signal.SIGSTOP)
        limits = {"limits": Limits(upstream_seconds=1)}
        approved = GatewayOptions(approval="listed")
        async with (
            make_gateway(tmp_path, approved, None, limits, docs=config) as gateway,
            joined(gateway) as client,
        ):
            with anyio.fail_after(600):
                for method in ("skills/get", "resources/read", "resources/read"):
                    error = await refusal(client, method, uri="skill://docs/alpha/SKILL.md")
                    assert (error.code, error.data["server"]) == (-32603, "docs")
                # The gateway itself is not ready before the time for connecting is over.
                assert not gateway.health()["ready"]
            served.process.send_signal(signal.SIGCONT)
            with anyio.fail_after(600):
                while (await outcome(client, "skill://docs/beta/b.md")) != "more":
                    pass


@pytest.mark.process
@pytest.mark.slow
async def test_the_lists_of_a_gateway_that_starts_while_its_servers_are_stopped_wait_for_none_of_them(
    tmp_path: Path, upstream_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    approved = GatewayOptions(approval="listed")
    quick = {"limits": Limits(first_list_seconds=0.5)}
    with run_server("--http", "127.0.0.1:0", upstream_folder) as served:
        # Whoever waited for the server itself would wait for an hour.
        docs = ServerConfig(url=url_of(served), call_seconds=3600, connect_seconds=3600)
        served.process.send_signal(signal.SIGSTOP)
        with anyio.fail_after(600):
            async with (
                make_gateway(tmp_path, approved, None, quick, docs=docs) as gateway,
                joined(gateway) as client,
            ):
                # Nothing is known of it yet.
                assert await pages(client) == [[]]
                assert "docs has not answered yet" in caplog.text
                assert "Not connected now: docs" in (client.instructions or "")
                async with client.listen(tools_list_changed=True, resources_list_changed=True) as events:
                    served.process.send_signal(signal.SIGCONT)
                    await anext(aiter(events))
                assert "skill://docs/alpha/SKILL.md" in str(await pages(client))
            served.process.send_signal(signal.SIGSTOP)
            # Also where lists would wait for long if nothing was known.
            patient = {"limits": Limits(first_list_seconds=3600)}
            other = ServerConfig(instance=honest(1).server)
            async with (
                make_gateway(tmp_path, approved, None, patient, docs=docs, here=other) as gateway,
                joined(gateway) as client,
            ):
                listed = str(await pages(client))
                assert "skill://docs/alpha/SKILL.md" in listed
                assert "skill://here/one-1/SKILL.md" in listed
                assert not gateway.health()["ready"]
            served.process.send_signal(signal.SIGCONT)


async def test_an_answer_that_came_too_late_is_there_for_the_next_request(tmp_path: Path) -> None:
    shop = honest(1)
    arrives = anyio.Event()
    shop.hold("resources/read", arrives)
    approved = GatewayOptions(approval="listed")
    async with make_gateway(tmp_path, approved, shop=shop) as gateway, joined(gateway) as client:
        with anyio.fail_after(PATIENCE):
            async with while_time_passes():
                for _ in range(2):
                    error = await refusal(client, "resources/read", uri="skill://shop/one-1/a.md")
                    assert error.code == -32603
            arrives.set()
            await until(lambda: list(gateway.host.cache.files()))
            assert (await outcome(client, "skill://shop/one-1/a.md")) == "one 1"
    assert shop.read_uris().count("skill://one-1/a.md") <= 2


async def outcome(client: Any, uri: str) -> str:
    """The text of a file, or the message of the error."""
    try:
        return text_of(await client.read_resource(uri))
    except MCPError as error:
        return error.error.message


@pytest.mark.slow
async def test_one_edit_of_an_upstream_reaches_a_subscriber_long_before_a_listing_expires(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "skills"
    file = write_skill(folder / "alpha") / "SKILL.md"
    # Without a notification, nothing would be listed again for an hour.
    upstream = SkillServer(folder, options=ServerOptions(ttl_ms=3_600_000))
    options = GatewayOptions(approval="listed")
    uri = "skill://up/alpha/SKILL.md"
    async with (
        make_gateway(tmp_path, options, up=ServerConfig(instance=upstream.low_level)) as gateway,
        joined(gateway) as client,
        modern(gateway.server().low_level, uri) as heard,
    ):
        await client.read_resource(uri)
        with anyio.fail_after(PATIENCE):
            # The first edits may come before the gateway has subscribed and the server watches.
            while not heard.words:
                edit(folder / "alpha", f"Edit at {anyio.current_time()}.")
                with anyio.move_on_after(0.5):
                    await heard.more()

            async def until_listed(text: str) -> None:
                while True:
                    before = len(heard.words)
                    if text in json.dumps(await call(client, "skills/list")):
                        return
                    while len(heard.words) == before:
                        await heard.more()

            await until_listed(digest_of(file.read_bytes()))
            for body in ("First edit.", "Second edit."):
                edit(folder / "alpha", body)
                await until_listed(digest_of(file.read_bytes()))
            while f"updated {uri}" not in heard.words:
                await heard.more()
            write_skill(folder / "beta")
            await until_listed("skill://up/beta/SKILL.md")


async def test_what_was_approved_and_fetched_is_served_while_its_server_is_unreachable(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "skills"
    write_skill(folder / "alpha")
    write_skill(folder / "beta")
    alice, bob = Caller(name="alice"), Caller(name="bob")
    uri = "skill://docs/alpha/SKILL.md"
    server = HttpServer(SkillServer(folder).http_app(), Address("127.0.0.1", 0))
    task = asyncio.ensure_future(server.serve())
    config = ServerConfig(url=server.url)
    async with (
        make_gateway(tmp_path, docs=config) as gateway,
        joined(gateway, user=User(), caller=alice) as client,
    ):
        text = text_of(await client.read_resource(uri))
        server.stop()
        await task
        # It was there when the gateway started: what was read goes on.
        assert (await call(client, "resources/read", uri=uri))["contents"][0]["text"] == text
    async with make_gateway(tmp_path, docs=config, more=honest(1)) as gateway:
        async with joined(gateway, caller=alice) as client:
            listed = [entry["uri"] for entry in (await call(client, "skills/list"))["skills"]]
            assert listed == [uri, "skill://more/one-1/SKILL.md", "skill://more/two-1/SKILL.md"]
            assert text_of(await client.read_resource(uri)) == text
        async with joined(gateway, caller=bob) as client:
            assert len((await call(client, "skills/list"))["skills"]) == 2
            assert (await refusal(client, "resources/read", uri=uri)).code == -32603


async def test_ttls_are_passed_on_as_what_remains(tmp_path: Path) -> None:
    docs = Simulator(ttl_ms=30_000)
    docs.skill("intro")
    options = GatewayOptions(approval="listed")
    async with (
        make_gateway(tmp_path, options, ServerOptions(ttl_ms=600_000), docs=docs) as gateway,
        joined(gateway) as client,
    ):
        first = await call(client, "skills/list")
        await pass_time(1.2)
        later = await call(client, "skills/get", uri="skill://docs/intro/SKILL.md")
    # Whole seconds, and more of them may pass between the two.
    assert 1000 <= later["ttlMs"] < first["ttlMs"] <= 30_000
    assert (first["ttlMs"] - later["ttlMs"]) % 1000 == 0
    assert first["cacheScope"] == "private"


async def test_an_expired_listing_is_asked_for_again(tmp_path: Path) -> None:
    docs = Simulator(ttl_ms=600_000)
    docs.skill("intro")
    async with make_gateway(tmp_path, docs=docs) as gateway, joined(gateway) as client:
        await call(client, "skills/list")
        docs.skill("more")
        await pass_time(601)
        with anyio.fail_after(PATIENCE):
            while len((await call(client, "skills/list"))["skills"]) < 2:
                pass


async def test_a_server_that_is_unavailable_is_not_the_same_as_a_skill_that_is_not_there(
    tmp_path: Path,
) -> None:
    closed = ServerConfig(url="http://127.0.0.1:9/mcp")
    options = GatewayOptions(approval="listed")
    async with make_gateway(tmp_path, options, away=closed, here=honest(1)) as gateway:
        alice = Caller(name="alice", labels=frozenset({"here"}))
        async with joined(gateway) as client, joined(gateway, caller=alice) as restricted:
            for method in ("skills/get", "resources/read"):
                uri = "skill://away/some/SKILL.md"
                error = await refusal(client, method, uri=uri)
                assert (error.code, error.data["server"]) == (-32603, "away")
                assert "The server away is unavailable; it is tried again" in error.message
                assert (await refusal(client, method, uri="skill://here/some/SKILL.md")).code == -32602
                # Who may not see a server does not learn that it is unavailable.
                assert (await refusal(restricted, method, uri=uri)).code == -32602
