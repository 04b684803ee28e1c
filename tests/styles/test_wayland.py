"""W1 to W8: skills as the Wayland engine treats them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator import Simulator, make_host, opened
from skillwire.catalog import EVERYTHING
from skillwire.host import EventKind, Layer, LocalDirectory, SkillHost, load_config
from skillwire.host.styles import all_styles
from skillwire.host.styles.base import glob_matches, typed_fields
from skillwire.host.styles.wayland import STYLE, virtual_path
from skillwire.skill import Dialect
from skillwire.trust import ApprovalMode, Origin
from style_gallery import (
    BUNDLED,
    COMMANDS,
    DEMO,
    EXTRA,
    PROJECT,
    USER,
    context,
    entry,
    loaded,
    names,
    registry,
)
from trees import write_skill

pytestmark = pytest.mark.anyio

SKILL = (
    b"---\nname: other-name\ndescription: Moves a database.\nwhen-to-use: Before a release.\n---\n# Do it\n"
)


def bare(**resources: bytes) -> Simulator:
    """A server that declares nothing of skills and has resources."""
    sim = Simulator(declare=None)
    sim.resources.update({uri.replace("__", "/"): data for uri, data in resources.items()})
    return sim


def wayland(**options: object) -> dict[str, object]:
    async def ask(request: object) -> bool:
        return True

    return {"style": "wayland", "ask": ask, **options}


@pytest.mark.requirement("VER-5")
async def test_w1_resources_with_the_scheme_are_listed_and_peeked_at(tmp_path: Path) -> None:
    sim = bare()
    sim.resources = {"skill://db/migrate": SKILL, "https://x.example/y": b"no skill"}
    async with opened(tmp_path, host_options=wayland(), demo=sim) as host:
        (skill,) = host.skills()
        assert (skill.entry.dialect, skill.entry.draft and skill.entry.draft.confirmed) == (
            Dialect.BARE_SCAN,
            False,
        )
        assert skill.entry.description == "Moves a database."
        assert "Moves a database. Use when: Before a release." in host.catalog()
        # A peek is no load: nothing is held, cached or approved.
        assert host.active() == ()
        assert [*host.cache.files()] == []
        assert [*host.consent.approved(Origin.mcp("demo"))] == []
    assert sim.read_uris() == ["skill://index.json", "skill://db/migrate"]


@pytest.mark.requirement("VER-5")
async def test_w1_a_server_that_declares_the_extension_is_never_peeked_at(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, host_options=wayland(), demo=sim) as host:
        assert [skill.handle for skill in host.skills()] == ["demo:refunds"]
    assert sim.read_uris() == []


async def test_w1_the_default_style_takes_no_bare_resource_and_peeks_at_nothing(tmp_path: Path) -> None:
    sim = bare()
    sim.resources = {"skill://db/migrate": SKILL}
    async with opened(tmp_path, demo=sim) as host:
        assert host.skills() == ()
    assert sim.read_uris() == ["skill://index.json"]


async def test_w1_nothing_is_peeked_at_that_the_user_keeps_out(tmp_path: Path) -> None:
    for config in ({"approval": ApprovalMode.NEVER}, {"selection": EVERYTHING.narrowed(exclude=["migrate"])}):
        sim = bare()
        sim.resources = {"skill://db/migrate": SKILL}
        async with opened(tmp_path, host_options=wayland(), config=config, demo=sim):
            assert sim.read_uris() == ["skill://index.json"]


@pytest.mark.requirement("VER-2")
async def test_w1_what_was_peeked_at_is_what_a_load_must_find(tmp_path: Path) -> None:
    sim = bare()
    sim.resources = {"skill://db/migrate": SKILL}
    async with opened(tmp_path, host_options=wayland(), demo=sim) as host:
        assert "# Do it" in (await host.load("demo:db:migrate")).text
        # Without the approval of the text that was cached, the text is read again.
        assert await host.decide.revoke("demo:db:migrate")
        sim.resources["skill://db/migrate"] = SKILL.replace(b"Moves", b"Drops")
        # One refresh peeks again, and then the two agree: the user is asked about what was seen.
        assert "# Do it" in (await host.load("demo:db:migrate")).text
        assert host.skills()[0].entry.description == "Drops a database."


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("skill://db/migrate/SKILL.md", "demo:db:migrate"),
        ("skill://migrate/SKILL.md", "demo:migrate"),
        ("skill://a/b/c/SKILL.md", "demo:a:b:c"),
    ],
)
def test_w2_a_name_is_server_and_path(uri: str, name: str) -> None:
    made = entry(uri, name="something-else")
    assert names(STYLE, {DEMO: [made]}) == {"demo": name}


async def test_w2_auxiliary_resources_and_spellings_are_no_skills_of_their_own(tmp_path: Path) -> None:
    sim = bare()
    sim.resources = {
        "skill://db/migrate": SKILL,
        "skill://db/migrate/SKILL.md": SKILL,
        "skill://prompt-xml": b"<x/>",
        "skill://_manifest": b"{}",
    }
    async with opened(tmp_path, host_options=wayland(), demo=sim) as host:
        assert [skill.handle for skill in host.skills()] == ["demo:db:migrate"]


def test_w3_a_virtual_path_is_no_real_path() -> None:
    skill, local = registry(STYLE, {DEMO: [entry()], PROJECT: [entry()]}).skills()[::-1]
    assert virtual_path(skill) == "<mcp:demo:acme:refunds>"
    assert virtual_path(skill) in STYLE.catalog([skill], context(STYLE)).text
    assert virtual_path(local) == ""
    assert not Path(virtual_path(skill)).exists()


async def test_w4_a_resource_that_cannot_be_read_affects_only_itself(tmp_path: Path) -> None:
    sim, dead = bare(), bare()
    sim.resources = {
        "skill://good": SKILL,
        "skill://bad": b"---\nname: [\n---\n",
        "skill://plain": b"no front",
    }
    dead.refuse("resources/list")
    async with opened(tmp_path, host_options=wayland(), demo=sim, dead=dead) as host:
        assert [skill.handle for skill in host.skills()] == ["demo:good", "demo:plain"]
        told = [event.message for event in host.log.events_so_far() if event.kind is not EventKind.ADDED]
    assert any("skill://bad/SKILL.md" in message for message in told)
    assert any(message.startswith("MCP server dead gave no listing") for message in told)


@pytest.mark.requirement("SEC-4")
async def test_w5_known_fields_are_typed_and_grant_nothing(tmp_path: Path) -> None:
    sim = Simulator()
    fields = {"allowed-tools": "Bash(git:*) Read", "model": "fast", "effort": "high", "when-to-use": "Often."}
    sim.skill("refunds", fields=fields)
    async with opened(tmp_path, host_options=wayland(), demo=sim) as host:
        found = (await host.load("demo:refunds")).fields
        assert (found.allowed_tools, found.model, found.effort) == (("Bash(git:*)", "Read"), "fast", "high")
        assert found.when_to_use == "Often."
        assert host.granted_tools() == frozenset()
        assert not host.may_execute("Bash").allowed


def test_w5_fields_of_the_wrong_type_count_as_absent() -> None:
    found = typed_fields({"model": 3, "paths": {"a": 1}, "effort": None, "allowed-tools": 7})  # type: ignore[dict-item]
    assert (found.model, found.paths, found.effort, found.allowed_tools) == ("", (), "", ())
    switches = typed_fields({"disable-model-invocation": "true", "user-invocable": 0})
    assert (switches.disable_model_invocation, switches.user_invocable) == (False, True)


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("src/**/*.ts", ["src/a/b/c.ts", "src/c.ts"], ["lib/c.ts"]),
        ("*.md", ["docs/a.md"], []),
        ("docs/*.md", [], ["docs/deep/a.md"]),
        ("docs/?.md", ["docs/a.md"], []),
        ("**", ["any/thing"], []),
        ("**/x", ["x"], []),
        ("a/**", ["a/b/c"], []),
        ("*" * 99 + "b", [], ["a" * 5000]),
        ("a*b*c", ["aXbYc"], []),
    ],
)
def test_w5_globs_stay_within_segments(glob: str, matching: list[str], others: list[str]) -> None:
    assert [path for path in (*matching, *others) if glob_matches(glob, path)] == matching


def test_w5_a_skill_with_paths_is_hidden_until_one_is_worked_on() -> None:
    skills = registry(STYLE, {DEMO: [entry(paths=["src/**/*.ts"]), entry("skill://b/SKILL.md")]}).skills()
    assert [skill.handle for skill in STYLE.visible(skills, ())] == ["demo:b"]
    assert [skill.handle for skill in STYLE.visible(skills, ["src/x/y.ts"])] == [
        "demo:acme:refunds",
        "demo:b",
    ]


@pytest.mark.requirement("SEC-2")
def test_w6_no_line_is_expanded_or_run() -> None:
    body = "!`touch /tmp/x`\nDo $ARGUMENTS with ${HOME} and @file\n"
    assert body in STYLE.skill_text(loaded(body), "demo:acme:refunds", context(STYLE))


@pytest.mark.requirement("ENT-5")
def test_w7_the_layers_have_their_order_and_losers_stay_loadable() -> None:
    one = [entry("skill://refunds/SKILL.md")]
    order = [BUNDLED, USER, PROJECT, EXTRA, COMMANDS]
    for number, winner in enumerate(order):
        given = dict.fromkeys(reversed(order[number:]), one)
        made = registry(STYLE, given)
        assert made.find("refunds").origin == winner
        for loser in order[number + 1 :]:
            assert made.find(f"{loser.label}/refunds").origin == loser


def test_w7_a_servers_skill_stands_above_a_command_file_of_its_name() -> None:
    command = entry("skill://demo/acme/refunds/SKILL.md")
    found = names(STYLE, {COMMANDS: [command], DEMO: [entry()]})
    assert found["demo"] == "demo:acme:refunds"
    assert found["project-commands"] == "project-commands/refunds"


async def test_w7_flat_command_files_are_local_skills_of_the_last_layer(tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    (commands / "db").mkdir(parents=True)
    (commands / "db/migrate.md").write_text("# Move it\nAll of !`it`.\n")
    (commands / "refunds.md").write_text("---\ndescription: Old way.\n---\nOld.\n")
    write_skill(tmp_path / "own/refunds")
    directories = [LocalDirectory(Origin.local("old"), commands, Layer.COMMANDS), tmp_path / "own"]
    async with make_host(tmp_path, style="wayland", directories=directories) as host:
        found = {skill.handle: skill.entry.description for skill in host.skills()}
        assert found["db:migrate"] == "Move it"
        assert found["old/refunds"] == "Old way."
        assert host.skills()[0].origin.is_local
        assert "All of !`it`." in (await host.load("db:migrate")).text
        (masked,) = [event for event in host.log.events_so_far() if event.kind is EventKind.COLLISION]
        assert masked.message.endswith("it can be loaded as old/refunds")


def test_w8_a_profile_decides_which_servers_are_connected(tmp_path: Path) -> None:
    file = tmp_path / "skillwire.toml"
    file.write_text(
        '[servers.a]\ncommand = "a"\n[servers.b]\ncommand = "b"\n[profiles.work]\nservers = ["b"]\n'
    )
    assert set(load_config(file=file, profile="work").servers) == {"b"}
    host = SkillHost.from_config(file=file, profile="work", style="wayland")
    assert [*host.places.configs] == [Origin.mcp("b")]  # pyright: ignore[reportPrivateUsage]


def test_w8_the_default_profile_holds_and_mcp_servers_says_the_same_as_servers(tmp_path: Path) -> None:
    file = tmp_path / "skillwire.toml"
    file.write_text(
        '[servers.a]\ncommand = "a"\n[servers.b]\ncommand = "b"\n'
        '[profiles.default]\nmcp_servers = ["b"]\n[profiles.all]\n'
    )
    assert set(load_config(file=file).servers) == {"b"}
    assert set(load_config(file=file, profile="all").servers) == {"a", "b"}


async def test_its_own_places_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    write_skill(home / "config/wayland-core/skills/mine")
    write_skill(work / ".wayland-core/skills/ours")
    (work / ".wayland-core/commands").mkdir(parents=True)
    (work / ".wayland-core/commands/tidy.md").write_text("Tidy up.\n")
    monkeypatch.chdir(work)
    async with make_host(tmp_path, default_directories=True) as host:
        assert host.skills() == ()
    async with make_host(tmp_path, style="wayland", default_directories=True) as host:
        layers = {skill.handle: skill.origin.is_own for skill in host.skills()}
    assert layers == {"mine": True, "ours": False, "tidy": False}


async def test_w5_who_may_invoke_a_skill_is_typed_and_has_its_effect_in_every_style(tmp_path: Path) -> None:
    write_skill(
        tmp_path / "own/release", description="Ships.\ndisable-model-invocation: true\nargument-hint: VERSION"
    )
    write_skill(tmp_path / "own/lore", description="Knows.\nuser-invocable: false")
    for style in all_styles():
        async with make_host(tmp_path, style=style, directories=[tmp_path / "own"]) as host:
            assert "release" not in host.catalog()
            assert "lore" in host.catalog()
            (command,) = host.commands()
            assert (command.name, command.argument_hint) == ("/release", "VERSION")
            assert (command.origin.label, command.session, command.is_loaded) == ("own", host.session, False)
            fields = (await host.load(command.handle)).fields
            assert (fields.disable_model_invocation, fields.user_invocable) == (True, True)
            assert fields.argument_hint == "VERSION"
            assert host.commands()[0].is_loaded
            assert not (await host.load("lore")).fields.user_invocable


async def test_the_name_among_the_fields_follows_the_handle(tmp_path: Path) -> None:
    sim = bare()
    sim.resources = {"skill://db/migrate": SKILL}
    async with opened(tmp_path, host_options=wayland(), demo=sim) as host:
        assert (await host.load("demo:db:migrate")).fields.name == "demo:db:migrate"


@pytest.mark.requirement("SEC-2")
async def test_w6_no_line_of_a_local_skill_is_run_either(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    folder = write_skill(tmp_path / "own/notes")
    with (folder / "SKILL.md").open("a") as file:
        file.write(f"!`touch {marker}`\nDo $ARGUMENTS\n")
    for style in all_styles():
        async with make_host(tmp_path, style=style, directories=[tmp_path / "own"]) as host:
            text = (await host.load("notes")).text
            assert "touch" in text
            assert "$ARGUMENTS" in text
    assert not marker.exists()
