from __future__ import annotations

import pytest

from sample_entries import DEMO, LOCAL, OTHER, make_entry
from skillwire.documents import JsonValue
from skillwire.trust import (
    ALL_GRANTS,
    NO_GRANTS,
    Grants,
    HeldSkill,
    Origin,
    check_entry,
    may_execute,
    requested_tools,
)
from skillwire.trust.approval import ReadScope, granted_tools, read_scope, uri_scheme

TOOLS = Grants(allowed_tools=True)
CODE = Grants(execute_code=True)


def held(origin: Origin = DEMO, grants: Grants = NO_GRANTS, tools: JsonValue = "Bash Read") -> HeldSkill:
    return HeldSkill(origin, check_entry(make_entry(fields={"allowed-tools": tools})), grants)


@pytest.mark.requirement("SEC-2")
@pytest.mark.parametrize(
    ("skills", "allowed"),
    [
        ([], True),
        ([held()], False),
        ([held(grants=TOOLS)], False),
        ([held(grants=CODE)], True),
        ([held(LOCAL)], True),
        ([held(LOCAL), held()], False),
        ([held(grants=CODE), held(OTHER)], False),
        ([held(grants=CODE), held(OTHER, CODE), held(LOCAL)], True),
    ],
)
def test_a_tool_that_may_run_code_needs_the_grant_of_every_held_skill(
    skills: list[HeldSkill], allowed: bool
) -> None:
    assert may_execute("shell", skills).allowed == allowed
    assert may_execute("shell", skills, safe_tools={"read_file"}).allowed == allowed
    assert may_execute("read_file", skills, safe_tools={"read_file"}).allowed


@pytest.mark.requirement("SEC-2")
def test_a_refused_tool_names_the_skills_and_their_servers() -> None:
    ruling = may_execute("shell", [held(), held(OTHER, CODE)])
    assert [skill.origin for skill in ruling.blocked_by] == [DEMO]
    assert "skill://acme/refunds/SKILL.md from MCP server demo" in str(ruling)
    assert str(may_execute("shell", [])) == "may be called"


@pytest.mark.requirement("SEC-4")
@pytest.mark.parametrize(
    ("skills", "tools"),
    [
        ([], set()),
        ([held()], set()),
        ([held(grants=CODE)], set()),
        ([held(grants=TOOLS)], {"Bash", "Read"}),
        ([held(LOCAL, ALL_GRANTS)], {"Bash", "Read"}),
        ([held(LOCAL, ALL_GRANTS), held(LOCAL, tools="Write")], {"Bash", "Read"}),
        ([held(LOCAL, ALL_GRANTS), held(LOCAL, TOOLS, tools="Write")], {"Bash", "Read", "Write"}),
        ([held(LOCAL)], set()),
        ([held(Origin.project(), ALL_GRANTS), held()], set()),
        ([held(LOCAL, ALL_GRANTS), held()], set()),
        ([held(LOCAL, ALL_GRANTS), held(grants=TOOLS, tools="Read")], {"Read"}),
        ([held(grants=TOOLS), held(OTHER, TOOLS, "Read Write")], {"Read"}),
        ([held(grants=TOOLS), held(OTHER)], set()),
    ],
)
def test_the_tools_of_one_skill_are_never_granted_to_another(
    skills: list[HeldSkill], tools: set[str]
) -> None:
    assert granted_tools(skills) == tools


@pytest.mark.parametrize(
    ("value", "tools"),
    [
        ("Bash(git add:*) Read", ("Bash(git add:*)", "Read")),
        ("Bash(git:*), Read,Write", ("Bash(git:*)", "Read", "Write")),
        (["Read", " Write ", "", 3], ("Read", "Write")),
        ("", ()),
        (None, ()),
        ({"Bash": True}, ()),
    ],
)
def test_requested_tools_are_read_in_each_spelling(value: JsonValue, tools: tuple[str, ...]) -> None:
    assert requested_tools(value) == tools


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("origins", "scope"),
    [
        ([], ReadScope.FREE),
        ([LOCAL], ReadScope.FREE),
        ([DEMO], ReadScope.SAME_ORIGIN),
        ([DEMO, DEMO, LOCAL], ReadScope.SAME_ORIGIN),
        ([OTHER], ReadScope.NEEDS_APPROVAL),
        ([DEMO, OTHER], ReadScope.NEEDS_APPROVAL),
    ],
)
def test_a_read_is_free_only_on_the_server_of_all_held_skills(
    origins: list[Origin], scope: ReadScope
) -> None:
    ruling = read_scope("docs://guide", DEMO, origins)
    assert ruling.scope is scope
    assert "MCP server demo" in str(ruling)


@pytest.mark.requirement("SEC-3")
def test_a_read_of_another_server_names_both() -> None:
    ruling = read_scope("docs://guide", DEMO, [OTHER, Origin.mcp("third"), DEMO])
    assert ruling.others == (OTHER, Origin.mcp("third"))
    assert str(ruling) == (
        "a skill from MCP server other, MCP server third is in use, "
        "and the read goes to MCP server demo: ask the user"
    )


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    "uri",
    [
        "file:etc/passwd",
        "file:/etc/passwd",
        "file://localhost/etc/passwd",
        "file:///etc/passwd",
        "FILE:////etc/passwd",
        "  file:/x",
        "\tfi\nle:/x",
        "\x00file:/x",
        "\u2028file:/x",
        "/etc/passwd",
        "%66ile:/x",
        "",
    ],
)
@pytest.mark.parametrize("origins", [[], [DEMO]])
def test_a_local_file_is_refused_by_scheme_whatever_is_held(uri: str, origins: list[Origin]) -> None:
    ruling = read_scope(uri, DEMO, origins)
    assert ruling.scope is ReadScope.REFUSED
    assert "never read" in str(ruling)


@pytest.mark.parametrize(
    ("text", "scheme"),
    [("skill://a", "skill"), ("Data:x", "data"), ("a+b.c-d:x", "a+b.c-d"), ("a/b:c", None), ("1a:x", None)],
)
def test_a_scheme_is_what_stands_before_the_first_colon(text: str, scheme: str | None) -> None:
    assert uri_scheme(text) == scheme
