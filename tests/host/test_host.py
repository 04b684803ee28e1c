"""SkillHost: everything that an agent's author calls, against a server and a directory."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from simulator import Simulator, agree, make_host, opened
from skillwire import SkillHost, SkillServer, looks_like_uri
from skillwire.consent import ApprovalRequest
from skillwire.errors import (
    AmbiguousName,
    ApprovalRequired,
    FormatError,
    SkillNotFound,
    SourceError,
    UnlistedFile,
)
from skillwire.host import ConnectionStatus, ServerConfig
from skillwire.server import ServerOptions
from skillwire.trust import ApprovalMode, Grants
from trees import write_skill

pytestmark = pytest.mark.anyio

ASKING = {"ask": agree}


def shop_with_refunds() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", files={"references/a.md": b"Text of a.", "data.bin": b"\x00\xff"})
    return sim


@pytest.mark.requirement("VER-5")
async def test_nothing_is_fetched_on_connection_listing_or_approval(tmp_path: Path) -> None:
    sim = shop_with_refunds()
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        host.skills()
        host.catalog()
        await host.decide.approve(await host.find("refunds"))
        await host.refresh()
        assert sim.read_uris() == []
        await host.load("refunds")
        assert sim.read_uris() == ["skill://refunds/SKILL.md"]


@pytest.mark.requirement("CAP-4", "LST-1", "ENT-1")
@pytest.mark.parametrize(
    ("era", "negotiated"),
    [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")],
)
async def test_skills_are_listed_to_the_last_page_loaded_and_read_on_both_revisions(
    tmp_path: Path, era: str, negotiated: str
) -> None:
    sim = Simulator(page_size=2)
    for number in range(5):
        sim.skill(f"skill-{number}", files={"a.md": b"text"})
    async with opened(tmp_path, shop=sim, config={"era": era}, host_options=ASKING) as host:
        (state,) = host.places.servers()
        assert (state.status, state.era, state.declares_skills) == (ConnectionStatus.READY, negotiated, True)
        assert [skill.handle for skill in host.skills()] == [f"skill-{number}" for number in range(5)]
        for number in range(5):
            assert "with care" in (await host.load(f"skill-{number}")).text
            assert "text" in await host.read(f"skill-{number}", "a.md")
    assert [params.get("cursor") for params in sim.asked("skills/list")] == [None, "2", "4"]


@pytest.mark.requirement("CAP-4")
@pytest.mark.parametrize("era", ["auto", "legacy", "2026-07-28"])
async def test_the_host_advertises_the_extension(tmp_path: Path, era: str) -> None:
    sim = shop_with_refunds()
    async with opened(tmp_path, shop=sim, config={"era": era}):
        assert "io.modelcontextprotocol/skills" in str(sim.client_capabilities[0])


async def test_a_catalog_shows_skills_with_their_origin_within_its_budget(tmp_path: Path) -> None:
    write_skill(tmp_path / "mine" / "notes")
    sim = shop_with_refunds()
    async with opened(tmp_path, shop=sim, host_options={"directories": [tmp_path / "mine"]}) as host:
        catalog = host.catalog()
        assert "<name>notes</name>" in catalog
        assert "<directory>mine</directory>" in catalog
        assert "<server>shop</server>" in catalog
        assert "<uri>skill://refunds/SKILL.md</uri>" in catalog
        small = host.catalog(budget=len(catalog) - 10)
        assert "search_skills finds skills by what they are for" in small
        assert "notes" in small
        assert "refunds" in small
        assert len(small) <= len(catalog) - 10


async def test_a_catalog_is_rendered_again_for_each_change_and_each_different_request(tmp_path: Path) -> None:
    sim = shop_with_refunds()
    async with opened(tmp_path, shop=sim) as host:
        first = host.catalog()
        assert host.catalog() is first
        assert host.catalog(budget=len(first) - 1) != first
        assert "search_skills" in {tool.name for tool in host.tools()}
        assert host.catalog() == first
        host.decide.set_enabled("refunds", False)
        assert host.catalog() == ""
        host.decide.set_enabled("refunds", True)
        sim.skill("orders")
        await host.refresh("shop")
        assert "orders" in host.catalog()


async def test_a_local_skill_needs_no_approval_and_says_where_it_is_from(tmp_path: Path) -> None:
    write_skill(tmp_path / "mine" / "notes", {"a.md": b"Mine."})
    async with opened(tmp_path, host_options={"directories": [tmp_path / "mine"]}) as host:
        loaded = await host.load("notes")
        assert "<local_skill_" in loaded.text
        assert "local directory mine" in loaded.text
        assert "Mine." in await host.read("notes", "a.md")
        assert host.may_execute("bash").allowed
        assert list(host.cache.files()) == []


@pytest.mark.requirement("FMT-10", "FMT-9")
async def test_files_are_read_by_the_path_from_the_skills_directory(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop_with_refunds(), host_options=ASKING) as host:
        with pytest.raises(SkillNotFound, match="load it first"):
            await host.read("refunds", "references/a.md")
        await host.load("refunds")
        for path in ("references/a.md", "./references/a.md", "skill://refunds/references/a.md"):
            assert "Text of a." in await host.read("refunds", path)
        for path in ("../refunds/references/a.md", "/references/a.md", "references%2f..%2f..%2fx", "nowhere"):
            with pytest.raises(UnlistedFile):
                await host.read("refunds", path)
        assert (await host.read_bytes("refunds", "data.bin")).data == b"\x00\xff"
        assert "binary" in await host.read("refunds", "data.bin")


@pytest.mark.requirement("DIR-1")
async def test_a_directory_is_listed_from_the_entry(tmp_path: Path) -> None:
    sim = shop_with_refunds()
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        await host.load("refunds")
        view = await host.list_directory("refunds")
        assert [(child.name, child.is_directory) for child in view.children] == [
            ("SKILL.md", False),
            ("data.bin", False),
            ("references", True),
        ]
        assert [child.name for child in (await host.list_directory("refunds", "references")).children] == [
            "a.md"
        ]
        with pytest.raises(UnlistedFile):
            await host.list_directory("refunds", "nowhere")
    assert sim.asked("resources/directory/read") == []


@pytest.mark.requirement("SEC-7")
async def test_a_preview_shows_verified_content_and_is_no_load(tmp_path: Path) -> None:
    sim = shop_with_refunds()
    async with opened(tmp_path, shop=sim) as host:
        assert "with care" in ((await host.files.preview("refunds")).text or "")
        assert (await host.files.preview("refunds", "references/a.md")).data == b"Text of a."
        assert host.active() == ()
        assert list(host.cache.files()) == []
        assert host.consent.approved() == []
        with pytest.raises(ApprovalRequired):
            await host.load("refunds")


@pytest.mark.requirement("SEC-7")
async def test_the_user_is_asked_with_the_origin_and_a_way_to_the_content(tmp_path: Path) -> None:
    questions: list[tuple[str, str, str, bytes]] = []

    async def look(request: ApprovalRequest) -> bool:
        skill = request.skill
        file = await request.preview("references/a.md")
        questions.append((str(skill.origin), skill.uri, request.reason, file.data))
        return True

    async with opened(tmp_path, shop=shop_with_refunds(), host_options={"ask": look}) as host:
        await host.load("refunds")
        await host.load("refunds")
    assert questions == [("MCP server shop", "skill://refunds/SKILL.md", "new", b"Text of a.")]


@pytest.mark.requirement("LST-3", "GET-1", "FMT-5")
async def test_a_skill_that_is_not_listed_is_loaded_by_its_uri(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("hidden").hide()
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        assert host.skills() == ()
        loaded = await host.load("skill://hidden/SKILL.md")
        assert loaded.skill.handle == "hidden"
        assert not loaded.skill.listed
        await host.refresh()
        assert [skill.handle for skill in host.skills()] == ["hidden"]
        with pytest.raises(SkillNotFound, match=r"shop has no skill at skill://nowhere/SKILL\.md"):
            await host.load("skill://nowhere/SKILL.md")
        with pytest.raises(SkillNotFound, match="no server is called bank"):
            await host.load("skill://nowhere/SKILL.md", server="bank")


@pytest.mark.requirement("LST-3", "GET-1")
async def test_the_same_uri_on_two_servers_is_loaded_from_the_one_that_is_named(tmp_path: Path) -> None:
    shop, bank = Simulator(), Simulator()
    shop.skill("refunds", body="Of the shop.\n")
    bank.skill("refunds", body="Of the bank.\n")
    async with opened(tmp_path, shop=shop, bank=bank, host_options=ASKING) as host:
        with pytest.raises(AmbiguousName) as caught:
            await host.load("skill://refunds/SKILL.md")
        assert caught.value.candidates == ("bank/refunds", "shop/refunds")
        assert "Of the bank." in (await host.load("skill://refunds/SKILL.md", server="bank")).text


@pytest.mark.requirement("VER-3")
async def test_a_held_skill_can_be_released_though_nobody_lists_it_any_more(tmp_path: Path) -> None:
    sim = shop_with_refunds()
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        await host.load("refunds")
        assert not host.may_execute("bash").allowed
        sim.skills.clear()
        await host.refresh()
        assert host.skills() == ()
        assert host.release("refunds")
        assert host.may_execute("bash").allowed
        assert host.active() == ()


async def test_releasing_what_is_not_held_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop_with_refunds(), host_options=ASKING) as host:
        assert not host.release("refunds")
        with pytest.raises(SkillNotFound, match="did you mean refunds"):
            host.release("refund")
        await host.load("refunds")
        assert host.release("skill://refunds/SKILL.md")


@pytest.mark.requirement("ENT-5")
async def test_a_disabled_skill_is_neither_shown_nor_loaded_nor_active(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop_with_refunds(), host_options=ASKING) as host:
        await host.load("refunds")
        host.decide.set_enabled("refunds", False)
        assert host.active() == ()
        assert host.catalog() == ""
        for name in ("refunds", "skill://refunds/SKILL.md"):
            with pytest.raises(SkillNotFound, match="disabled"):
                await host.load(name)
        with pytest.raises(SkillNotFound, match="disabled"):
            await host.read_resource("shop", "skill://refunds/SKILL.md")
        assert [skill.enabled for skill in host.skills(disabled=True)] == [False]
        host.decide.set_enabled("skill://refunds/SKILL.md", True)
        await host.load("refunds")
        with pytest.raises(SkillNotFound):
            host.decide.set_enabled("nobody", False)


async def test_a_disabled_uri_is_disabled_on_every_server(tmp_path: Path) -> None:
    shop, bank = shop_with_refunds(), shop_with_refunds()
    async with opened(tmp_path, shop=shop, bank=bank) as host:
        host.decide.set_enabled("skill://refunds/SKILL.md", False)
        assert host.skills() == ()


@pytest.mark.parametrize("name", ["refunds", "shop/refunds", "skill://refunds/SKILL.md"])
@pytest.mark.parametrize("collision", [False, True])
async def test_what_is_disabled_from_the_start_stays_off_through_a_collision(
    tmp_path: Path, name: str, collision: bool
) -> None:
    bank = Simulator()
    if collision:
        bank.skill("refunds", path="other/refunds")
    options = {"disabled": [name]}
    async with opened(tmp_path, shop=shop_with_refunds(), bank=bank, host_options=options) as host:
        assert "shop" not in [skill.origin.label for skill in host.skills()]


@pytest.mark.process
async def test_servers_are_reported_with_their_place_and_status(tmp_path: Path) -> None:
    plain = Simulator(declare=None)
    servers = {
        "shop": ServerConfig(instance=shop_with_refunds().server, approval=ApprovalMode.PINNED),
        "plain": plain.server,
        "gone": "skillwire-no-such-command --token sk-12345678",
        "off": ServerConfig(url="http://user:sk-12345678@127.0.0.1:9/mcp?key=sk-12345678"),
    }
    async with make_host(tmp_path, servers=servers) as host:
        states = {state.label: state for state in host.places.servers()}
    assert states["shop"].approval_mode is ApprovalMode.PINNED
    assert not states["plain"].declares_skills
    assert plain.asked("skills/list") == []
    assert "is not installed" in states["gone"].reason
    assert states["off"].reason.startswith("nothing listens there")
    assert "sk-12345678" not in repr(states)


@pytest.mark.requirement("CAP-3")
async def test_a_server_without_the_declaration_is_asked_for_no_skills(tmp_path: Path) -> None:
    sim = Simulator(declare=None)
    sim.skill("refunds")
    async with opened(tmp_path, plain=sim) as host:
        assert host.skills() == ()
        with pytest.raises(ApprovalRequired):  # Unconfirmed as it is, it is approved like any other.
            await host.load("skill://refunds/SKILL.md")
    assert [method for method in ("skills/list", "skills/get") if sim.asked(method)] == []


@pytest.mark.requirement("CAP-5")
@pytest.mark.parametrize("settings", [{}, {"config": {"directoryRead": True}}, {"directoryRead": True}])
async def test_a_declaration_is_understood_as_it_is_found_in_the_field(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    sim = Simulator(declare=settings)
    skill = sim.skill("weather", dynamic=True)
    sim.directories[skill.root] = [{"uri": skill.file_uri("today.md"), "name": "today.md"}]
    async with opened(tmp_path, shop=sim, host_options=ASKING) as host:
        await host.load("weather")
        if settings:
            view = await host.list_directory("weather")
            assert [child.name for child in view.children] == ["today.md"]
        else:
            with pytest.raises(SourceError):
                await host.list_directory("weather")


@pytest.mark.requirement("SEC-8")
async def test_forgetting_a_server_removes_its_files_its_approvals_and_what_is_held(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop_with_refunds(), host_options=ASKING) as host:
        await host.load("refunds")
        await host.read("refunds", "references/a.md")
        assert await host.decide.forget_server("shop") == (2, 1)
        assert host.active() == ()
        assert list(host.cache.files()) == []
        assert host.consent.approved() == []


async def test_events_tell_what_happened_from_the_start_until_the_host_is_closed(tmp_path: Path) -> None:
    sim = shop_with_refunds()
    heard: list[tuple[str, str]] = []

    async def listen(host: SkillHost) -> None:
        async for event in host.log.events():
            heard.append((event.kind, event.handle))

    async with anyio.create_task_group() as tasks, opened(tmp_path, shop=sim) as host:
        tasks.start_soon(listen, host)
        await host.decide.approve(await host.find("refunds"))
        sim.skill("refunds").change_body("New.\n")
        sim.skill("other")
        await host.refresh()
        sim.skills.pop("skill://other/SKILL.md")
        await host.refresh()
    assert heard == [
        ("added", "refunds"),
        ("revoked", "refunds"),
        ("added", "other"),
        ("changed", "refunds"),
        ("removed", "other"),
    ]


async def test_a_host_that_is_closed_answers_with_an_error_and_is_not_opened_again(tmp_path: Path) -> None:
    host = make_host(tmp_path, servers={"shop": shop_with_refunds().server}, ask=agree)
    async with host:
        pass
    with pytest.raises(SourceError, match="shop is not connected"):
        await host.load("refunds")
    assert [state.status for state in host.places.servers()] == [ConnectionStatus.CLOSED]
    await host.close()
    with pytest.raises(RuntimeError, match="opened once"):
        async with host:
            pass


async def test_two_servers_of_one_label_and_a_directory_of_a_servers_label(tmp_path: Path) -> None:
    write_skill(tmp_path / "shop" / "notes")
    options = {"directories": [tmp_path / "shop"]}
    async with opened(tmp_path, shop=shop_with_refunds(), host_options=options) as host:
        assert {str(skill.origin) for skill in host.skills()} == {"local directory shop-2", "MCP server shop"}
    host = make_host(tmp_path, servers={"shop": Simulator().server, "Shop": shop_with_refunds().server})
    with pytest.raises(FormatError, match="has the label of"):
        async with host:
            pass


@pytest.mark.requirement("SEC-3")
def test_a_host_can_tell_a_uri_from_a_path() -> None:
    uris = ["skill://a/SKILL.md", "file:/etc/passwd", "FILE:x", " fi\nle:///x", "x://y", "urn:a:b"]
    paths = ["notes.md", "/etc/passwd", "C:/notes.md", "c:\\notes.md", "./a:b", "a/b:c", "12:30.md", ""]
    assert [text for text in uris if not looks_like_uri(text)] == []
    assert [text for text in paths if looks_like_uri(text)] == []


async def test_grants_of_a_loaded_skill_are_shown(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop_with_refunds()) as host:
        await host.decide.approve(await host.find("refunds"), grants=Grants(execute_code=True))
        assert (await host.load("refunds")).grants == Grants(execute_code=True)
        assert host.may_execute("bash", {"command": "ls"}).allowed


async def test_a_skill_server_of_this_process_is_connected_to_as_it_is(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/notes")
    server = SkillServer(tmp_path / "skills", options=ServerOptions(watch=False))
    async with make_host(tmp_path, servers={"own": server}, ask=agree) as host:
        assert "# notes" in (await host.load("notes")).text
