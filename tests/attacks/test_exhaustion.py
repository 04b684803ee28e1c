"""A server that sends too much, or nothing, ends in a clear error and affects nobody else."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from simulator import Simulator, agree, opened
from skillwire.errors import LimitExceeded, SourceError
from skillwire.host import ServerConfig
from skillwire.limits import Limits
from skillwire.sources.listing import mentioned_skills
from skillwire.trust import Origin
from steps import count_steps
from waiting import pass_time

pytestmark = pytest.mark.anyio

ASKING = {"ask": agree}


def honest() -> Simulator:
    shop = Simulator()
    shop.skill("refunds")
    return shop


def failures(host: Any) -> list[str]:
    return [event.message for event in host.log.events_so_far() if event.kind == "failure"]


@pytest.mark.requirement("SEC-9", "LST-1")
async def test_endless_pages_are_cut_off_and_the_other_servers_skills_are_there(tmp_path: Path) -> None:
    evil = Simulator()
    evil.endless_pages()
    limits = Limits(pages=5)
    async with opened(tmp_path, evil=evil, shop=honest(), host_options={"limits": limits}) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        assert failures(host) == [
            "MCP server evil gave no listing: the listing of evil has more than 5 pages: it is cut off"
        ]
    assert len(evil.asked("skills/list")) == 5


@pytest.mark.requirement("SEC-9", "LST-1")
async def test_a_listing_that_loops_is_noticed_at_once(tmp_path: Path) -> None:
    evil = Simulator()
    evil.skill("round-and-round")
    evil.looping_pages()
    async with opened(tmp_path, evil=evil, shop=honest()) as host:
        # What came before the loop is there, and the loop is a failure that stays in sight.
        assert [skill.handle for skill in host.skills()] == ["round-and-round", "refunds"]
        assert "the listing stopped after 1 skills" in failures(host)[0]
        assert "repeats itself" in host.log.failures()[0].message
    assert len(evil.asked("skills/list")) == 2


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(entries_per_server=10), "more than 10 entries"),
        (Limits(listing_chars=2000), "more than 2,000 characters"),
    ],
)
async def test_a_listing_of_too_many_or_too_long_entries_is_cut_off(
    tmp_path: Path, limits: Limits, reason: str
) -> None:
    evil = Simulator(page_size=4)
    for number in range(12):
        evil.skill(f"skill-{number}")
    async with opened(tmp_path, evil=evil, shop=honest(), host_options={"limits": limits}) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        assert reason in failures(host)[0]


@pytest.mark.requirement("SEC-9")
async def test_a_page_of_very_many_bad_entries_is_refused_unread(tmp_path: Path) -> None:
    evil = Simulator()
    evil.answer("skills/list", {"skills": [{}] * 100_000})
    async with opened(tmp_path, evil=evil, shop=honest()) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        assert "entries" in failures(host)[0]


@pytest.mark.requirement("SEC-9")
async def test_a_flood_of_bad_entries_does_not_push_other_events_out_of_the_log(tmp_path: Path) -> None:
    evil = honest()
    evil.answer("skills/list", {"skills": [{"uri": f"skill://{number}/SKILL.md"} for number in range(5000)]})
    async with opened(tmp_path, evil=evil, shop=honest()) as host:
        remarks = [event.message for event in host.log.events_so_far() if event.kind == "remark"]
        assert 0 < len(remarks) < 50
        assert "more problems" in remarks[-1]
        assert len(host.log.left_out()) >= 5000


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "change",
    [
        {"frontmatter": {"name": "x", "description": "y" * 3_000_000}},
        {"resources": [0] * 200_000},
        {"resources": [{"uri": "skill://x/SKILL.md", "digest": "sha256:" + "0" * 64, "size": 10**5000}]},
    ],
)
async def test_an_impossible_entry_affects_only_itself(tmp_path: Path, change: dict[str, Any]) -> None:
    evil = Simulator()
    good = evil.skill("good").entry()
    evil.answer("skills/list", {"skills": [{**good, "uri": "skill://x/SKILL.md", **change}, good]})
    async with opened(tmp_path, evil=evil) as host:
        assert [skill.handle for skill in host.skills()] == ["good"]


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("ttl", [10**400, -1, True, "soon", None, 1.5])
async def test_an_invalid_time_to_live_does_no_harm(tmp_path: Path, ttl: object) -> None:
    evil = Simulator()
    evil.answer("skills/list", {"skills": [evil.skill("good").entry()], "ttlMs": ttl})
    async with opened(tmp_path, evil=evil) as host:
        assert [skill.handle for skill in host.skills()] == ["good"]


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("method", ["server/discover", "skills/list"])
async def test_a_server_that_never_answers_delays_nobody_beyond_its_own_deadline(
    tmp_path: Path, method: str
) -> None:
    evil = honest()
    evil.never_answer(method)
    # Only the silent one has a short deadline.
    silent = ServerConfig(instance=evil.server, connect_seconds=0.3, call_seconds=0.3)
    async with opened(tmp_path, evil=silent, shop=honest()) as host:
        assert [str(skill.origin) for skill in host.skills()] == ["MCP server shop"]
        assert "within 0.3 s" in failures(host)[0]


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("method", ["resources/read", "skills/get"])
async def test_a_call_that_is_never_answered_ends_in_a_clear_error(tmp_path: Path, method: str) -> None:
    evil = Simulator()
    evil.skill("refunds")
    evil.never_answer(method)
    name = "refunds" if method == "resources/read" else "skill://unlisted/SKILL.md"
    async with opened(tmp_path, evil=evil, host_options=ASKING) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(pass_time, Limits().call_seconds, once=lambda: evil.asked(method)))
            with pytest.raises(SourceError, match=f"evil did not answer {method} within 30 s"):
                await host.load(name)
        evil.behave(method)
        assert "with care" in (await host.load("refunds")).text


@pytest.mark.requirement("SEC-9")
async def test_a_server_is_cut_off_after_a_total_number_of_bytes(tmp_path: Path) -> None:
    evil = Simulator()
    for number in range(4):
        evil.resources[f"data://all/{number}"] = b"x" * 1000
    limits = Limits(bytes_per_server=2500)
    async with opened(tmp_path, evil=evil, host_options={"limits": limits}) as host:
        await host.read_resource("evil", "data://all/0")
        await host.read_resource("evil", "data://all/1")
        with pytest.raises(LimitExceeded, match="bytes_per_server"):
            await host.read_resource("evil", "data://all/2")


@pytest.mark.requirement("SEC-9", "DIR-1")
async def test_an_endless_directory_is_cut_off(tmp_path: Path) -> None:
    evil = Simulator(declare={"directoryRead": True})
    skill = evil.skill("weather", dynamic=True)
    pages = iter(range(10**9))

    async def page(params: Any) -> Any:
        number = next(pages)
        return {"resources": [{"uri": f"{skill.root}/{number}.md", "name": "x"}], "nextCursor": str(number)}

    evil._answers["resources/directory/read"] = page
    limits = Limits(pages=5)
    async with opened(tmp_path, evil=evil, host_options={"limits": limits, **ASKING}) as host:
        await host.load("weather")
        with pytest.raises(LimitExceeded, match="more than 5 pages"):
            await host.list_directory("weather")


@pytest.mark.requirement("SEC-9", "LST-3")
@pytest.mark.parametrize(
    "text", ["a" * 2_000_000, "a://" * 500_000, "x://y/SKILL.md " * 5000, "\u2028" * 10**6]
)
async def test_of_long_instructions_few_names_are_looked_up(tmp_path: Path, text: str) -> None:
    evil = Simulator(instructions=text)
    async with opened(tmp_path, evil=evil) as host:
        assert host.skills() == ()
    assert len(evil.asked("skills/get")) <= Limits().linked_skills


@pytest.mark.requirement("SEC-9", "LST-3")
@pytest.mark.parametrize("unit", ["a", "a://", "x://y/SKILL.md ", "x://y/SKILL.md", "\u2028", ". "])
def test_searching_instructions_takes_steps_in_proportion_to_their_length(unit: str) -> None:
    limits = Limits(instructions_chars=8_000)

    def steps(length: int) -> int:
        text = unit * (length // len(unit))
        return count_steps(lambda: mentioned_skills(text, limits), most=1_000_000)

    assert steps(8_000) <= 2.3 * steps(4_000)
    assert steps(32_000) == steps(16_000)


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "x",
        7,
        {"skills": None},
        {"skills": {}},
        {"skills": [None, 1, "x"]},
        {"skills": [], "nextCursor": 7},
    ],
)
async def test_an_answer_that_is_not_a_listing_is_only_reported(tmp_path: Path, answer: Any) -> None:
    evil = Simulator()
    evil.answer("skills/list", answer)
    async with opened(tmp_path, evil=evil, shop=honest()) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        told = [event for event in host.log.events_so_far() if event.origin == Origin.mcp("evil")]
        assert told
