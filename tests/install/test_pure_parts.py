"""The agents' folders, powers, names that some systems refuse, references, and lock files of others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import pytest

from frontmatter_blocks import only_issue
from install.samples import locked
from skillwire.clients import BaseDirectories, Scope, agents, detect_agents, find_agents, shares_canonical
from skillwire.errors import FormatError, LimitExceeded, SkillNotFound
from skillwire.install import InstallState, LockedSkill, Pin, Powers
from skillwire.install.foreign import ForeignSkill, is_foreign_lock, parse_foreign_lock
from skillwire.install.lock import is_script, requested_powers, starts_with_interpreter
from skillwire.skill import parse_set_digest
from skillwire.skill.files import clashes, portability_problems, windows_problem
from skillwire.sources import SourceKind, parse_reference
from skillwire.sources.reference import is_commit, repository_at
from skillwire.trust import ALL_GRANTS, NO_GRANTS, Grants

PLACES = BaseDirectories(Path("/p"), Path("/home/u"), {})


# Agents


def test_every_agent_has_an_id_a_name_and_folders_that_can_be_resolved() -> None:
    table = agents()
    assert len(table) >= 79
    for agent in table.values():
        assert agent.name
        project = PLACES.folder(agent, Scope.PROJECT)
        assert project is not None
        assert project.is_relative_to("/p")
        assert not {"..", "~"} & set(project.parts)
        home = PLACES.folder(agent, Scope.USER)
        assert home is None or home.is_relative_to("/home/u")
        assert all(PLACES.resolve(sign).is_absolute() for sign in agent.signs)


def test_known_agents_have_their_documented_folders() -> None:
    claude, cursor, goose, eve = find_agents(["claude-code", " Cursor ", "goose", "eve", "goose"])
    assert PLACES.folder(claude, Scope.PROJECT) == Path("/p/.claude/skills")
    assert PLACES.folder(goose, Scope.USER) == Path("/home/u/.config/goose/skills")
    assert PLACES.folder(eve, Scope.USER) is None
    assert shares_canonical(cursor, PLACES, Scope.PROJECT)
    assert not shares_canonical(cursor, PLACES, Scope.USER)
    moved = BaseDirectories(Path("/p"), Path("/home/u"), {"CLAUDE_CONFIG_DIR": "/c", "XDG_CONFIG_HOME": "/x"})
    assert moved.folder(claude, Scope.USER) == Path("/c/skills")
    assert moved.folder(goose, Scope.USER) == Path("/x/goose/skills")


def test_an_agent_that_is_not_in_the_table_is_an_error() -> None:
    with pytest.raises(SkillNotFound, match="skillwire config agents"):
        find_agents(["clade-code"])


def test_agents_are_detected_by_what_they_leave_behind() -> None:
    there = {Path("/home/u/.claude"), Path("/p/.goose"), Path("/home/u/.openclaw"), Path("/home/u/.cursor")}
    found = [agent.id for agent in detect_agents(PLACES, Scope.PROJECT, there.__contains__)]
    # OpenClaw reads `skills/`, which in a project is anybody's folder: it has to be named.
    assert found == ["claude-code", "cursor", "goose"]
    at_home = [agent.id for agent in detect_agents(PLACES, Scope.USER, there.__contains__)]
    assert at_home == ["claude-code", "cursor", "openclaw"]
    assert detect_agents(PLACES, Scope.PROJECT, lambda path: False) == ()


# Powers


@pytest.mark.parametrize(
    ("path", "data", "executable", "expected"),
    [
        ("references/a.md", b"text", False, False),
        ("assets/logo.png", b"\x89PNG", False, False),
        ("scripts/a.md", b"text", False, False),
        ("scripts/office/schema.xsd", b"<xs:schema/>", False, False),
        ("scripts/schema.xsd", b"#!/bin/sh", False, True),
        ("scripts/schema.xsd", b"", True, True),
        ("scripts/tag", b"echo", False, True),
        ("scripts/tag.awk", b"{}", False, True),
        ("hooks/before.json.j2", b"{}", False, True),
        ("run.PY", b"", False, True),
        ("tool", b"#!/bin/sh", False, True),
        ("tool", b"\x7fELF", False, True),
        ("tool", b"", True, True),
        ("data.json", b"{}", False, False),
    ],
)
def test_a_program_is_known_by_mode_name_or_first_bytes_and_in_a_folder_of_programs_by_not_being_data(
    path: str, data: bytes, executable: bool, expected: bool
) -> None:
    assert is_script(path, data, executable) is expected


def test_the_powers_that_a_skill_asks_for() -> None:
    powers = requested_powers(
        {"allowed-tools": "Read Bash(git:*) Read"},
        [("b.sh", b"", False), ("a.md", b"", True), ("c.md", b"", False)],
    )
    assert powers == Powers(("Bash(git:*)", "Read"), ("a.md", "b.sh"))
    assert powers
    assert not Powers()
    assert powers.missing(NO_GRANTS) == powers
    assert not powers.missing(ALL_GRANTS)
    assert powers.missing(Grants(execute_code=True)) == Powers(("Bash(git:*)", "Read"), ())
    assert powers.beyond(Powers(("Read",), ("b.sh",))) == Powers(("Bash(git:*)",), ("a.md",))
    assert starts_with_interpreter(b"#!/bin/sh")
    assert not starts_with_interpreter(b"echo")


# Names


@pytest.mark.parametrize(
    "path",
    [
        "a:b",
        "nul",
        "NUL.txt",
        "com1.md",
        "dir/aux",
        "x.",
        "dir /a",
        "a?b",
        'a"b',
        "a|b",
        "con .txt",
        "b" * 256,
    ],
)
def test_names_that_windows_refuses_are_named(path: str) -> None:
    assert windows_problem(path)
    assert portability_problems([path])


@pytest.mark.parametrize("path", ["a", "null.md", "console.log", ".hidden", "ü/日本.md", "com10"])
def test_other_names_are_fine(path: str) -> None:
    assert windows_problem(path) == ""


def test_names_that_are_one_without_case_or_accents_are_named() -> None:
    assert clashes(["README.md", "readme.md", "b"]) == (("README.md", "readme.md"),)
    assert clashes(["A/x", "a/y"]) == (("A", "a"),)
    assert clashes(["e\u0301", "é"]) == (("e\u0301", "é"),)
    assert clashes(["a/x", "a/y"]) == ()
    assert len(portability_problems(["A", "a", "nul"])) == 2


# References


@pytest.mark.parametrize(
    ("kind", "text", "parts"),
    [
        (SourceKind.MCP, "docs/release-notes", ("docs", "", "release-notes")),
        (SourceKind.MCP, "docs", ("docs", "", "")),
        (SourceKind.SITE, "https://example.org", ("https://example.org", "", "")),
        (SourceKind.SITE, "https://example.org/sub/#pdf", ("https://example.org/sub", "", "pdf")),
        (SourceKind.GIT, "git+https://h/r#v1.2:skills/pdf", ("https://h/r", "v1.2", "skills/pdf")),
        (SourceKind.GIT, "git+https://h/r", ("https://h/r", "", "")),
        (SourceKind.GIT, "git+ssh://git@h/r#:a", ("ssh://git@h/r", "", "a")),
        (SourceKind.GIT, "git+file:///r#main", ("file:///r", "main", "")),
        *((SourceKind.FOLDER, path, (path, "", "")) for path in ("./team", "~/team", "/team", "C:\\team")),
        (SourceKind.ARCHIVE, "./a.tar.gz", ("./a.tar.gz", "", "")),
    ],
)
def test_a_reference_is_parsed(kind: SourceKind, text: str, parts: tuple[str, str, str]) -> None:
    reference = parse_reference(text)
    assert (reference.kind, (reference.place, reference.ref, reference.path)) == (kind, parts)
    assert reference.text == text


@pytest.mark.parametrize("host", ["github.com", "git.example:8443"])
@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("acme/skills", ""),
        (" acme/skills.git ", ""),
        ("acme/skills/docs/pdf", "#:docs/pdf"),
        ("acme/skills/docs/pdf/SKILL.md", "#:docs/pdf"),
        ("acme/skills@v1.2", "#v1.2"),
        ("acme/skills/pdf@v1.2", "#v1.2:pdf"),
        ("acme/skills@feature/x", "#feature/x"),
    ],
)
def test_an_owner_and_a_name_are_a_repository_at_a_host(text: str, host: str, rest: str) -> None:
    expected = f"git+https://{host}/acme/skills{rest}"
    found = repository_at(text, host)
    assert found is not None
    assert found.text == expected
    assert found == parse_reference(expected)


@pytest.mark.parametrize(
    "text",
    ["acme", "acme/", "/acme/x", "-u/x", "a/..", "a b/c", "acme/x#v1", "user:pw@h/x", "a/x@", "a/x@a@b"],
)
def test_another_text_is_no_repository(text: str) -> None:
    assert repository_at(text) is None


def test_a_path_or_a_host_that_leaves_the_repository_is_refused() -> None:
    with pytest.raises(FormatError, match="leaves the repository"):
        repository_at("acme/skills/../../etc")
    with pytest.raises(FormatError, match="not a tag"):
        repository_at("acme/skills@--upload-pack=x")
    for host in ("", "-x", "a..b", "user@host", "host/path", "[::1]"):
        assert repository_at("acme/skills", host) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\nb",
        "ftp://x",
        "git+ext::sh -c x",
        "git+--upload-pack=x",
        "git+ssh://-oProxyCommand=x/r",
        "git+https://h/r#-x",
        "git+https://h/r#a..b",
        "git+https://h/r#v1:../x",
        "git+https://h/r#v1:a\\b",
        "https://h:bad/",
        "https://me@h/",
        "git+https://token@h/r",
        "git+ssh://me:secret@h/r",
        "https://",
        "https://h/?q=1",
        "-option",
    ],
)
def test_a_reference_that_could_mean_something_else_is_refused(text: str) -> None:
    only_issue(parse_reference, text)


def test_a_commit_is_a_full_id() -> None:
    assert is_commit("a" * 40)
    assert is_commit("0" * 64)
    assert not is_commit("a" * 39)
    assert not is_commit("main")


# Lock files of others


SKILLS_LOCK = """{"version": 1, "skills": {
  "pdf": {"source": "anthropics/skills", "sourceType": "github", "ref": "main",
          "skillPath": "skills/pdf/SKILL.md"},
  "docs": {"source": "example.org", "sourceType": "well-known",
           "sourceUrl": "https://example.org/.well-known/agent-skills/docs"},
  "mine": {"source": "./my-skills", "sourceType": "local", "skillPath": "mine/SKILL.md"},
  "lab": {"source": "g/lab", "sourceType": "gitlab"},
  "own": {"source": "own", "sourceType": "git", "sourceUrl": "https://git.example/own.git"},
  "pack": {"source": "left-pad", "sourceType": "node_modules"},
  "Bad Name": {"source": "a/b", "sourceType": "github"}
}}"""


def test_a_skills_lock_is_read() -> None:
    skills = {skill.name: skill for skill in parse_foreign_lock(SKILLS_LOCK, "skills-lock.json")}
    assert {name: skill.source for name, skill in skills.items() if skill.source} == {
        "pdf": "git+https://github.com/anthropics/skills#main:skills/pdf",
        "docs": "https://example.org#docs",
        "mine": "./my-skills/mine",
        "lab": "git+https://gitlab.com/g/lab",
        "own": "git+https://git.example/own.git",
    }
    assert "node_modules" in skills["pack"].problem
    assert "characters" in skills["Bad Name"].problem


TOOLHIVE_LOCK = f"""
version: 1
future: kept
skills:
  - name: pdf
    source: git://github.com/org/repo@main#skills/pdf
    resolvedReference: git://github.com/org/repo@main#skills/pdf
    digest: {"a" * 40}
    contentDigest: sha256:{"b" * 64}
    unsigned: true
  - name: oci
    source: ghcr.io/org/skill:v1
    digest: sha256:{"c" * 64}
"""


def test_a_toolhive_lock_is_read_at_its_commit() -> None:
    pdf, oci = parse_foreign_lock(TOOLHIVE_LOCK, "toolhive.lock.yaml")
    assert pdf == ForeignSkill(
        "pdf",
        f"git+https://github.com/org/repo#{'a' * 40}:skills/pdf",
        parse_set_digest("sha256:" + "b" * 64),
    )
    assert "OCI" in oci.problem


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[]", "skills-lock.json"),
        ("{", "skills-lock.json"),
        ('{"version": 9, "skills": {}}', "skills-lock.json"),
        ('{"version": 1}', "skills-lock.json"),
        ("version: 2", "toolhive.lock.yaml"),
        ("version: 1\nskills: 3", "toolhive.lock.yaml"),
        ("a: [", "toolhive.lock.yaml"),
        ("1: 2", "toolhive.lock.yaml"),
    ],
)
def test_a_lock_of_another_version_or_shape_is_refused(text: str, name: str) -> None:
    with pytest.raises(FormatError):
        parse_foreign_lock(text, name)


def test_a_small_lock_of_another_tool_cannot_become_a_large_message() -> None:
    """Aliases that double at each line: written out, the version would be thousands of megabytes."""
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
    with pytest.raises(LimitExceeded) as refused:
        parse_foreign_lock("\n".join([*lines, "version: *a39", "skills: []"]), "toolhive.lock.yaml")
    assert len(str(refused.value)) < 500


def test_lock_files_of_others_are_known_by_name() -> None:
    assert is_foreign_lock(PurePath("x/skills-lock.json"))
    assert is_foreign_lock(PurePath("toolhive.lock.yaml"))
    assert not is_foreign_lock(PurePath("skillwire.lock"))


# What an approval is bound to


def _changed(**changes: Any) -> LockedSkill:
    return replace(locked(files={"a.md": b"a"}), **changes)


@pytest.mark.parametrize(
    "skill",
    [
        _changed(name="other"),
        _changed(
            pin=Pin.make("mcp", server="docs", uri="skill://x/SKILL.md", url="https://docs.example/mcp")
        ),
        _changed(
            pin=Pin.make("mcp", server="docs", uri="skill://pdf/SKILL.md", url="https://evil.example/mcp")
        ),
        _changed(digest="sha256:" + "0" * 64),
        _changed(powers=Powers(("Bash",), ())),
        _changed(powers=Powers((), ("run.sh",))),
        _changed(files=tuple(file._replace(executable=True) for file in _changed().files)),
        _changed(signer="acme key:" + "0" * 64),
    ],
)
def test_a_yes_is_for_the_name_the_source_the_bytes_the_powers_and_the_signer(skill: LockedSkill) -> None:
    approved = InstallState().accept([_changed()])
    assert approved.has_accepted(_changed())
    assert approved.has_accepted(_changed(targets=("claude-code",), source="docs"))
    assert not approved.has_accepted(skill)


@pytest.mark.parametrize(
    ("address", "place", "ref", "path"),
    [
        ("https://github.com/acme/skills", "https://github.com/acme/skills", "", ""),
        ("https://www.github.com/acme/skills.git", "https://github.com/acme/skills", "", ""),
        (
            "https://gitlab.com/acme/team/tools/skills/-/tree/main/pdf",
            "https://gitlab.com/acme/team/tools/skills",
            "main",
            "pdf",
        ),
        ("https://gitlab.com/acme/team/skills", "https://gitlab.com/acme/team/skills", "", ""),
        (
            "https://github.com/acme/skills/tree/v1.2/docs/pdf",
            "https://github.com/acme/skills",
            "v1.2",
            "docs/pdf",
        ),
        (
            "https://github.com/acme/skills/blob/main/pdf/SKILL.md",
            "https://github.com/acme/skills",
            "main",
            "pdf",
        ),
        ("https://gitlab.com/acme/skills/-/tree/main/pdf", "https://gitlab.com/acme/skills", "main", "pdf"),
        ("https://codeberg.org/acme/skills/src/tag/v1/pdf", "https://codeberg.org/acme/skills", "v1", "pdf"),
        (
            "https://bitbucket.org/acme/skills/src/main/pdf",
            "https://bitbucket.org/acme/skills",
            "main",
            "pdf",
        ),
    ],
)
def test_an_address_of_a_hosting_service_is_its_repository(
    address: str, place: str, ref: str, path: str
) -> None:
    found = parse_reference(address)
    assert (found.kind, found.place, found.ref, found.path) == (SourceKind.GIT, place, ref, path)
    assert found.text == address


def test_another_page_of_a_hosting_service_is_no_source_and_the_message_names_the_form() -> None:
    with pytest.raises(FormatError, match=r"write git\+https://github.com/acme/skills#REF:PATH"):
        parse_reference("https://github.com/acme/skills/issues/3")
