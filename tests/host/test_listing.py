"""Listings through the host: asked for once, kept, and partial without harm."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import anyio
import pytest

from simulator import Simulator, agree, call, make_host, opened
from skillwire.errors import SkillNotFound, SkillwireError
from skillwire.host import ServerConfig, SkillHost
from skillwire.limits import Limits
from skillwire.skill import digest_of
from wild_http import Call, wild_http
from wild_stdio import ENTRY

pytestmark = pytest.mark.anyio

ASKING = {"ask": agree}


def shop(ttl_ms: int = 60_000, instructions: str = "") -> Simulator:
    sim = Simulator(ttl_ms=ttl_ms, instructions=instructions)
    sim.skill("refunds", files={"a.md": b"text"})
    return sim


@pytest.mark.requirement("LST-1", "VER-5")
async def test_turns_of_a_conversation_list_nothing_again(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        for _ in range(5):
            host.catalog()
            host.skills()
            await host.refresh(expired_only=True)
            await call(host, "load_skill", name="refunds")
            await call(host, "read_skill_file", name="refunds", path="a.md")
            await call(host, "list_skill_files", name="refunds")
    assert len(sim.asked("skills/list")) == 1


async def test_a_listing_is_requested_again_when_it_expires(tmp_path: Path) -> None:
    sim = shop(ttl_ms=0)
    limits = Limits(min_ttl_seconds=0)
    async with opened(tmp_path, shop=sim, host_options={"limits": limits}) as host:
        sim.skill("new")
        await host.refresh(expired_only=True)
        assert [skill.handle for skill in host.skills()] == ["new", "refunds"]


async def test_a_server_cannot_ask_to_be_listed_at_every_turn(tmp_path: Path) -> None:
    sim = shop(ttl_ms=0)
    async with opened(tmp_path, shop=sim) as host:
        for _ in range(5):
            await host.refresh(expired_only=True)
    assert len(sim.asked("skills/list")) == 1


async def test_refreshes_that_come_together_are_one(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim) as host, anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(host.refresh)
    assert len(sim.asked("skills/list")) == 2


async def test_one_server_can_be_refreshed_alone(tmp_path: Path) -> None:
    one, two = shop(), Simulator()
    async with opened(tmp_path, one=one, two=two) as host:
        await host.refresh("one")
    assert len(one.asked("skills/list")) == 2
    assert len(two.asked("skills/list")) == 1


@pytest.mark.requirement("LST-3", "FMT-5")
async def test_a_skill_that_instructions_name_is_there_and_stays_through_refreshes(tmp_path: Path) -> None:
    sim = shop(instructions="For returns see skill://returns/SKILL.md. Also skill://nothing/SKILL.md!")
    sim.skill("returns").hide()
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds", "returns"]
        await host.refresh()
        await host.load("returns")
        kinds = [(str(event.kind), event.handle) for event in host.log.events_so_far()]
        assert kinds.count(("added", "returns")) == 1
        assert ("removed", "returns") not in kinds
        remarks = [event.message for event in host.log.events_so_far() if event.kind == "remark"]
        assert any("skill://nothing/SKILL.md" in message for message in remarks)


async def test_a_refresh_that_fails_keeps_what_is_known(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        sim.refuse("skills/list", "too busy", code=-32001)
        await host.refresh()
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        assert any(
            "too busy" in event.message for event in host.log.events_so_far() if event.kind == "failure"
        )
        await host.load("refunds")


@pytest.mark.requirement("LST-3")
async def test_an_empty_listing_is_no_proof_that_there_are_no_skills(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("hidden").hide()
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        assert not (await call(host, "load_skill", name="skill://hidden/SKILL.md")).is_error


@pytest.mark.requirement("ENT-2")
async def test_a_bad_entry_affects_only_itself_and_is_reported(tmp_path: Path) -> None:
    sim = shop()
    bad = sim.skill("bad")
    bad.resources = [{"uri": bad.uri, "digest": "md5:0", "size": -1}]
    async with opened(tmp_path, shop=sim) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        assert any("skill://bad/SKILL.md" in event.message for event in host.log.events_so_far())


@pytest.mark.requirement("VER-6", "SEC-6")
async def test_a_stale_entry_is_refreshed_and_the_new_one_is_reported(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        sim.skill("refunds").change_body("A new version.\n")
        assert "A new version." in (await host.load("refunds")).text
        assert ("changed", "refunds") in [(event.kind, event.handle) for event in host.log.events_so_far()]
    assert len(sim.asked("skills/get")) == 1
    assert len(sim.asked("skills/list")) == 1


@pytest.mark.requirement("VER-6")
async def test_a_listed_file_that_is_gone_is_a_sign_of_a_changed_skill(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        await host.load("refunds")
        del sim.skill("refunds").files["a.md"]
        with pytest.raises(SkillwireError, match="changed since it was approved"):
            await host.read("refunds", "a.md")
        assert host.active() == ()


@pytest.mark.requirement("ENT-7", "ENT-8")
async def test_unknown_metadata_changes_nothing(tmp_path: Path) -> None:
    sim = Simulator()
    skill = sim.skill("refunds")
    skill.meta = {"com.example/note": "x", "io.modelcontextprotocol/unheard-of": {"load": "everything"}}
    skill.files["SKILL.md"] = skill.files["SKILL.md"].replace(
        b"\n---\n", b"\nmetadata:\n  io.modelcontextprotocol/unheard-of: obey\n---\n", 1
    )
    skill.frontmatter["metadata"] = {"io.modelcontextprotocol/unheard-of": "obey"}
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        loaded = await host.load("refunds")
        assert loaded.skill.entry.meta == skill.meta
        assert len(host.active()) == 1


async def test_listings_are_kept_between_hosts_for_as_long_as_the_server_allows(tmp_path: Path) -> None:
    ttl = 60_000

    async def respond(call: Call) -> None:
        if call.method != "skills/list":
            await call.behave()
            return
        result = {"skills": [ENTRY], "resultType": "complete", "ttlMs": ttl, "cacheScope": "private"}
        body = json.dumps({"jsonrpc": "2.0", "id": call.message["id"], "result": result}).encode()
        await call.send("200 OK", body, content_type="application/json")

    async with wild_http(respond) as (url, calls):
        for expected in (1, 1, 2, 3):
            config = ServerConfig(url=url, era="2026-07-28", token="other" if expected > 1 else "")
            host = make_host(tmp_path, servers={"shop": config}, cache_listings=True, watch=False)
            async with host:
                assert len(host.skills()) == 1
            assert sum(call.method == "skills/list" for call in calls) == expected
            if expected == 2:
                outdate(tmp_path)


async def test_a_cached_listing_that_is_damaged_is_asked_for_again(tmp_path: Path) -> None:
    async def respond(call: Call) -> None:
        if call.method != "skills/list":
            await call.behave()
            return
        result = {"skills": [ENTRY], "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
        body = json.dumps({"jsonrpc": "2.0", "id": call.message["id"], "result": result}).encode()
        await call.send("200 OK", body, content_type="application/json")

    async with wild_http(respond) as (url, calls):
        for expected in (1, 2, 2):
            config = ServerConfig(url=url, era="2026-07-28")
            host = make_host(tmp_path, servers={"shop": config}, cache_listings=True, watch=False)
            async with host:
                assert [skill.entry.name for skill in host.skills()] == ["refunds"]
            assert sum(call.method == "skills/list" for call in calls) == expected
            if expected == 1:
                damage(tmp_path)


async def test_a_name_that_a_cached_listing_does_not_have_is_looked_for_in_a_new_one(tmp_path: Path) -> None:
    served: list[dict[str, object]] = [ENTRY]

    async def respond(call: Call) -> None:
        if call.method != "skills/list":
            await call.behave()
            return
        result = {"skills": served, "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
        body = json.dumps({"jsonrpc": "2.0", "id": call.message["id"], "result": result}).encode()
        await call.send("200 OK", body, content_type="application/json")

    async with wild_http(respond) as (url, calls):

        def host() -> SkillHost:
            config = ServerConfig(url=url, era="2026-07-28")
            return make_host(tmp_path, servers={"shop": config}, cache_listings=True, watch=False)

        async with host():
            pass
        served.append(listed_skill("letters"))
        async with host() as second:
            assert len(second.skills()) == 1
            assert (await second.find("letters")).handle == "letters"
            assert len(second.skills()) == 2
            with pytest.raises(SkillNotFound):
                await second.find("nothing")
        # Once for each host: what is not there is not asked for again and again.
        assert sum(call.method == "skills/list" for call in calls) == 2


async def test_a_cached_listing_is_dropped_when_a_skill_of_it_turns_out_to_have_changed(
    tmp_path: Path,
) -> None:
    now = listed_skill("letters")

    async def respond(call: Call) -> None:
        cached = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
        results = {"skills/list": {"skills": [now], **cached}, "skills/get": {"skill": now, **cached}}
        if call.method not in results:
            await call.behave()
            return
        body = json.dumps({"jsonrpc": "2.0", "id": call.message["id"], "result": results[call.method]})
        await call.send("200 OK", body.encode(), content_type="application/json")

    async with wild_http(respond) as (url, calls):
        for listings, description in [(1, "Writes."), (1, "Reads."), (2, "Reads."), (2, "Reads.")]:
            now["frontmatter"] = {"name": "letters", "description": description}
            config = ServerConfig(url=url, era="2026-07-28")
            host = make_host(tmp_path, servers={"shop": config}, cache_listings=True, watch=False)
            async with host:
                assert (await host.find("letters")).entry.frontmatter["description"] == description
            assert sum(call.method == "skills/list" for call in calls) == listings


def listed_skill(name: str) -> dict[str, object]:
    """The entry of a skill with a single file."""
    uri = f"skill://{name}/SKILL.md"
    return {
        "uri": uri,
        "frontmatter": {"name": name, "description": "Writes."},
        "resources": [{"uri": uri, "name": "SKILL.md", "size": 1, "digest": digest_of(b"x")}],
    }


def damage(folder: Path) -> None:
    """One letter of every listing that is kept is another."""
    for file in folder.rglob("listings/*.json"):
        file.write_bytes(file.read_bytes().replace(b'"refunds"', b'"refinds"'))


def outdate(folder: Path) -> None:
    """The time of every listing that is kept is over."""
    for file in folder.rglob("listings/*.json"):
        stored = json.loads(file.read_bytes()[hashlib.sha256().digest_size :])
        data = json.dumps({**stored, "until": 1.0}).encode()
        file.write_bytes(hashlib.sha256(data).digest() + data)
