from __future__ import annotations

import pytest

from skillwire.documents import JsonValue
from skillwire.errors import FormatError
from skillwire.limits import Limits
from skillwire.sandbox import Grant, GrantKind, SandboxPlan, parse_grant, requested_grants
from skillwire.sandbox.plan import (
    forbidden_path,
    given,
    interpreter_for,
    newly_requested,
    program_path,
    stored,
)


@pytest.mark.parametrize(
    ("text", "grant"),
    [
        ("read:docs", "read:/work/docs"),
        ("read:./docs/../other", "read:/work/other"),
        ("write:/srv/out/", "write:/srv/out"),
        ("net:API.example.org", "net:api.example.org"),
        ("net:api.example.org:8443", "net:api.example.org:8443"),
        ("net:[2001:db8::1]:443", "net:[2001:db8::1]:443"),
        ("net:[2001:db8::1]", "net:[2001:db8::1]"),
        ("env:API_KEY", "env:API_KEY"),
        ("exec:pandoc", "exec:pandoc"),
    ],
)
def test_a_grant_is_read(text: str, grant: str) -> None:
    assert str(parse_grant(text, "/work")) == grant


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "read",
            "read:",
            "all:x",
            "READ:x",
            "read:a\nb",
            "net:*",
            "net:*.example.org",
            "net:https://example.org",
        ),
        *(
            "net:example.org/path",
            "net:example.org:0x50",
            "net:example.org:99999",
            "net:a..b",
            "net:user@example.org",
        ),
        *(
            "env:A-B",
            "env:LD_PRELOAD",
            "env:PATH",
            "env:PYTHONPATH",
            "env:HOME",
            "env:https_proxy",
            "env:BASH_ENV",
        ),
    ],
)
def test_anything_else_is_no_grant(text: str) -> None:
    with pytest.raises(FormatError, match="is not a grant"):
        parse_grant(text, "/work")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        *(
            ("/home/ann/project", ""),
            ("/home/ann/project/out", ""),
            ("/tmp/x", ""),
            ("/dev/shm/x", ""),
            ("/srv/data", ""),
            ("/work/project", ""),
            ("/packages/data", ""),
        ),
        *(("/home/ann", "a home"), ("/home", "a home"), ("/", "a home")),
        *(
            (path, "the system")
            for path in (
                "/etc",
                "/etc/ssl",
                "/proc/1",
                "/sys",
                "/dev",
                "/run/user/1000",
                "/tmp",
                "/dev/shm",
                "/boot",
            )
        ),
        *((path, "its own state") for path in ("/srv/state", "/srv/state/approvals.db", "/srv")),
    ],
)
def test_some_paths_are_never_granted(path: str, problem: str) -> None:
    found = forbidden_path(
        path, home="/home/ann", private=["/srv/state"] if "/srv" in path and path != "/srv/data" else []
    )
    assert problem in found
    assert bool(found) == bool(problem)


def frontmatter(value: JsonValue) -> dict[str, JsonValue]:
    return {"metadata": {"dev.skillwire/grants": value}}


def test_a_skill_asks_by_script() -> None:
    asked = frontmatter("scripts/a.py read:. net:api.example.org, scripts/b.sh write:out,")
    assert [str(one) for one in requested_grants(asked, "scripts/a.py", "/w")] == [
        "net:api.example.org",
        "read:/w",
    ]
    assert [str(one) for one in requested_grants(asked, "scripts/b.sh", "/w")] == ["write:/w/out"]
    assert requested_grants(asked, "scripts/c.sh", "/w") == ()
    assert requested_grants({}, "a", "/") == requested_grants({"metadata": None}, "a", "/") == ()
    with pytest.raises(FormatError, match="is not a text"):
        requested_grants(frontmatter(["a"]), "a", "/")
    with pytest.raises(FormatError, match="is not a grant"):
        requested_grants(frontmatter("a everything"), "a", "/")


def test_stored_grants_are_those_of_one_script() -> None:
    grants = [parse_grant("read:/a b", "/"), parse_grant("env:KEY", "/")]
    kept = stored("scripts/a.py", grants) | stored("scripts/b.py", [])
    assert given("scripts/a.py", kept) == frozenset(grants)
    assert given("scripts/b.py", kept) == frozenset()
    assert given("scripts/c.py", kept) is None
    # What a script was granted does not let another one run.
    assert given("a", {("a", "read:/x")}) is None
    new = parse_grant("net:api.example.org", "/")
    assert newly_requested([*grants, new], kept, "scripts/a.py") == (new,)


@pytest.mark.parametrize(
    ("script", "data", "found"),
    [
        ("a.py", b"print()", ("python3",)),
        ("a.py", b"#!/usr/bin/env python3.12\n", ("python3",)),
        ("a", b"#!/usr/bin/env -S python3 -u\n", ("python3", "-u")),
        ("a", b"#!/usr/bin/env -S uv run --script\n", ("python3",)),
        ("a.sh", b"#!/bin/bash -e\r\n", ("bash", "-e")),
        ("a.sh", b"echo", ("sh",)),
        ("a.mjs", b"", ("node",)),
        ("a", b"#! /usr/bin/perl\n", ("perl",)),
        ("a.js", b"#!/usr/bin/env\n", ("node",)),
        ("a.sh", b"#!/usr/bin/env LD_PRELOAD=x sh\n", ("sh",)),
    ],
)
def test_an_interpreter_is_chosen(script: str, data: bytes, found: tuple[str, ...]) -> None:
    assert interpreter_for(script, data) == found
    assert interpreter_for(script, data, "/opt/lua") == ("/opt/lua",)


def test_a_script_without_interpreter_is_refused() -> None:
    with pytest.raises(FormatError, match="--interpreter"):
        interpreter_for("scripts/tool", b"\x7fELF")


def plan(*grants: str, folder: str = "/home/ann/w", packages: str = "", work: str = "") -> SandboxPlan:
    return SandboxPlan(
        script="scripts/a.py",
        interpreter=("/usr/bin/python3",),
        arguments=("--x", "1"),
        grants=tuple(parse_grant(text, folder) for text in grants),
        folder=folder,
        system=(("/usr", ""), ("/bin", "usr/bin")),
        limits=Limits(),
        packages=packages,
        work=work,
    )


def test_without_grants_there_is_the_skill_and_the_system() -> None:
    options = plan().options("/private", {})
    mounted = [options[at + 2] for at, word in enumerate(options) if word == "--ro-bind"]
    assert mounted == ["/usr", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/skill"]
    assert "--bind" not in options
    assert "--bind-fd" not in options
    assert "--share-net" not in options
    for needed in (
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--new-session",
        "--die-with-parent",
        "--clearenv",
    ):
        assert needed in options
    assert options[options.index("--cap-drop") + 1] == "ALL"
    assert [options[at + 1] for at, word in enumerate(options) if word == "--remount-ro"] == [
        "/proc",
        "/dev",
        "/",
    ]
    assert plan().command() == ["/usr/bin/python3", "/skill/scripts/a.py", "--x", "1"]
    assert set(plan().environment()) == {"PATH", "HOME", "TMPDIR", "LANG", "PYTHONDONTWRITEBYTECODE"}


def test_each_grant_adds_one_thing() -> None:
    one = plan("read:.", "write:out", "exec:/opt/tool", "net:api.example.org", packages="/cache/p")
    mounts = {grant: 10 + at for at, grant in enumerate(one.paths)}
    options = one.options("/private", mounts)
    text = " ".join(options)
    assert "--ro-bind-fd 10 /home/ann/w --bind-fd 11 /home/ann/w/out" in text
    assert "--ro-bind /opt/tool /run/programs/tool" in text
    assert "--ro-bind /cache/p /run/packages" in text
    assert one.environment()["PATH"].startswith("/run/programs:")
    assert one.environment()["HTTPS_PROXY"] == "http://127.0.0.1:3128"
    assert one.workdir == "/home/ann/w"
    assert plan().workdir == plan("write:/srv/x").workdir == "/tmp"
    assert plan("write:out").workdir == "/home/ann/w"
    assert plan(work="/private/w").workdir == "/run/work"
    assert "--bind /private/w /run/work" in " ".join(plan(work="/private/w").options("/p", {}))


def test_the_explanation_says_what_it_gets() -> None:
    rows = plan("read:.", "net:api.example.org", "env:KEY").explanation()
    assert ("reaches", "api.example.org (granted)") in rows
    assert ("reads", "/home/ann/w (granted)") in rows
    assert ("reaches", "no network") in plan().explanation()
    assert rows[0] == ("runs", "/usr/bin/python3 /skill/scripts/a.py --x 1")


def test_a_granted_program_can_be_the_interpreter() -> None:
    grants = [Grant(GrantKind.EXEC, "/opt/lua/bin/lua")]
    assert program_path("lua", "", grants) == "/run/programs/lua"
    assert program_path("python3", "/usr/bin/python3", grants) == "/usr/bin/python3"
    assert program_path("ruby", "", grants) == ""
