"""O1 to O8: skills as Goose treats them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from simulator import Simulator, agree, make_host, opened, plain_server, unreachable
from skillwire.errors import FormatError, SkillNotFound
from skillwire.host import ServerConfig
from skillwire.host.styles import goose
from skillwire.host.styles.base import file_refusal
from skillwire.host.styles.goose import STYLE, LoadTarget, target
from skillwire.trust import Grants, looks_like_uri
from style_gallery import DEMO, EVIL, PROJECT, context, entry, gallery, loaded, names, registry
from trees import write_skill

pytestmark = pytest.mark.anyio


GOOSE = {"style": "goose", "ask": agree}


async def test_o1_every_server_is_asked_for_an_index_and_errors_do_no_harm(tmp_path: Path) -> None:
    plain, asked = plain_server()
    async with opened(tmp_path, host_options=GOOSE, plain=ServerConfig(instance=plain)) as host:
        assert host.skills() == ()
        assert [event.message for event in host.log.events_so_far()] == []
    assert "resources/read" in asked


@pytest.mark.slow
async def test_o1_a_listing_has_five_seconds(tmp_path: Path) -> None:
    assert STYLE.listing_seconds == 5
    sim, good = Simulator(), Simulator()
    sim.never_answer("skills/list")
    good.skill("refunds")
    # All of the five seconds: the good server has to answer within them, on a busy machine too.
    async with opened(tmp_path, host_options=GOOSE, demo=sim, good=good) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        assert any("listing_seconds" in event.message for event in host.log.events_so_far())


@pytest.mark.process
async def test_o1_what_was_found_goes_with_the_connection(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, host_options=GOOSE, demo=sim) as host:
        await host.load("refunds")
    async with opened(tmp_path, host_options=GOOSE, demo=unreachable()) as host:
        assert host.skills() == ()


def test_o2_a_section_with_a_sentence_and_bullets() -> None:
    lines = STYLE.catalog(gallery(STYLE), context(STYLE)).text.splitlines()
    assert lines[0] == "# Skills"
    assert "load_skill" in lines[1]
    assert "server__name" not in lines[1]
    section = lines.index("## Skills of MCP servers")
    assert [line.split(" ")[1] for line in lines[2:section]] == ["refunds"]
    assert "server__name" in lines[section + 1]
    assert "• reports (demo) - Writes reports." in lines
    assert sum(line.startswith("•") for line in lines) == 5


def test_o2_without_a_servers_skill_there_is_no_word_about_servers() -> None:
    text = STYLE.catalog(registry(STYLE, {PROJECT: [entry()]}).skills(), context(STYLE)).text
    assert "server" not in text
    assert "MCP" not in text


@pytest.mark.requirement("ENT-5")
def test_o3_local_keeps_its_name_and_servers_are_prefixed() -> None:
    one = [entry()]
    assert names(STYLE, {DEMO: one}) == {"demo": "refunds"}
    assert names(STYLE, {PROJECT: one, DEMO: one}) == {"project": "refunds", "demo": "demo__refunds"}
    assert names(STYLE, {EVIL: one, DEMO: one}) == {"demo": "demo__refunds", "evil": "evil__refunds"}


def test_o3_prefixes_that_collide_are_distinguished() -> None:
    from skillwire.trust import Origin

    a, ab = Origin.mcp("a"), Origin.mcp("a__b")
    made = registry(
        replace(STYLE, keeper=lambda ranks: lambda keys: None),
        {
            a: [entry("skill://b__c/SKILL.md")],
            ab: [entry("skill://c/SKILL.md")],
            DEMO: [entry("skill://c/SKILL.md")],
        },
    )
    assert len({skill.handle for skill in made.skills()}) == 3


KNOWN = {"refunds", "demo__refunds", "refunds/literal"}


@pytest.mark.requirement("FMT-9")
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("refunds", LoadTarget("refunds")),
        ("demo__refunds", LoadTarget("demo__refunds")),
        ("refunds/references/GUIDE.md", LoadTarget("refunds", "references/GUIDE.md")),
        ("demo__refunds/a.md", LoadTarget("demo__refunds", "a.md")),
        ("refunds/literal", LoadTarget("refunds/literal")),
        ("refunds/literal/a.md", LoadTarget("refunds/literal", "a.md")),
        ("unknown/a.md", LoadTarget("unknown/a.md")),
        ("skill://refunds/SKILL.md", "read_resource"),
        ("file:///etc/passwd", "read_resource"),
        (" ht\ntps://x", "read_resource"),
        ("refunds/../other", "not a path"),
        ("refunds/%2e%2e/other", "not a path"),
        ("refunds\\..\\other", "not a path"),
        ("..", "not a path"),
        ("/refunds", "not a path"),
        ("%2Frefunds", "not a path"),
    ],
)
def test_o4_names_paths_and_what_is_refused(name: str, wanted: LoadTarget | str) -> None:
    if isinstance(wanted, LoadTarget):
        assert target(name, KNOWN.__contains__) == wanted
        return
    with pytest.raises(FormatError, match=wanted):
        target(name, KNOWN.__contains__)


@pytest.mark.requirement("VER-3", "SEC-5")
async def test_o4_a_file_takes_the_same_yes_as_its_skill(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds", files={"references/GUIDE.md": b"Guide."})
    write_skill(tmp_path / "own/notes")
    own = {"style": "goose", "directories": [tmp_path / "own"]}
    async with opened(tmp_path, host_options=own, demo=sim) as host:
        load, resource = host.tools()
        assert resource.name == "read_resource"
        file = {"name": "refunds/references/GUIDE.md"}
        assert (await load.handler(file)).is_error
        assert sim.read_uris() == []
        await host.decide.approve(await host.find("refunds"))
        assert "Guide." in (await load.handler(file)).text
        assert (await load.handler({"name": "refunds/unlisted.md"})).is_error
        assert "<local_skill_" in (await load.handler({"name": "notes"})).text
        assert "read_resource" in (await load.handler({"name": "skill://refunds/SKILL.md"})).text


def test_o5_a_loaded_skill_ends_in_pointers_without_bodies() -> None:
    skill = loaded(files={"references/GUIDE.md": b"secret body"})
    text = STYLE.skill_text(skill, "refunds", context(STYLE))
    assert '## Supporting Files\n- load_skill(name: "refunds/references/GUIDE.md")\n</untrusted' in text
    assert "secret body" not in text
    assert "Supporting Files" not in STYLE.skill_text(loaded(), "refunds", context(STYLE))


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("skill://x/y", True),
        ("a+b.c-1://x", True),
        ("FILE:\\\\x", True),
        ("\tskill:/\n/x", True),
        ("src/a.py", False),
        ("C:\\x", False),
        ("1a://x", False),
        ("a:b", False),
        ("./http/x", False),
    ],
)
def test_o6_one_detector_says_what_is_a_uri(text: str, uri: bool) -> None:
    assert looks_like_uri(text) is uri
    assert (file_refusal(text, "read_resource") != "") is uri
    if uri:
        with pytest.raises(FormatError, match="read_resource"):
            target(text, KNOWN.__contains__)


async def test_o6_file_tools_are_told_to_refuse_uris(tmp_path: Path) -> None:
    async with make_host(tmp_path, style="goose") as host:
        assert host.refuse_path("skill://x/y").endswith("read it with read_resource")
        assert host.refuse_path("src/a.py") == ""


@pytest.mark.requirement("SEC-4")
async def test_o7_only_name_and_description_count(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds", fields={"allowed-tools": "Bash", "model": "big", "paths": "src/x.ts"})
    async with opened(tmp_path, host_options={"style": "goose"}, demo=sim) as host:
        assert "refunds" in host.catalog()
        await host.decide.approve(await host.find("refunds"), grants=Grants(allowed_tools=True))
        fields = (await host.load("refunds")).fields
        assert (fields.name, fields.allowed_tools, fields.model, fields.paths) == ("refunds", (), "", ())
        assert host.granted_tools() == frozenset()


def test_o8_the_origin_is_in_sight() -> None:
    tags = {skill.origin.label: goose.tag(skill) for skill in gallery(STYLE)}
    assert tags == {"project": "", "demo": "MCP · demo", "evil": "MCP · evil"}
    assert STYLE.skill_text(loaded(), "refunds", context(STYLE)).startswith("# refunds (MCP · demo)\n")


async def test_a_name_that_nobody_has_is_not_found(tmp_path: Path) -> None:
    async with make_host(tmp_path, style="goose") as host:
        with pytest.raises(SkillNotFound):
            await host.load("nothing")
    assert json.dumps([tool.name for tool in host.tools()]) == '["load_skill", "read_resource"]'
