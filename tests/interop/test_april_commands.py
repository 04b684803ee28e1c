"""Servers of the April draft on the command line: what is listed, shown, approved, completed and loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from command_line import Run, approved, as_person, new_user
from folder_server import in_thread
from interop.april_server import make_server, parse

Server = Callable[..., tuple[str, str]]
"""The option of commands for a server with these options of its own."""


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    new_user(tmp_path, monkeypatch)
    return run


@pytest.fixture
def server() -> Generator[Server]:
    with ExitStack() as stack:

        @cache
        def option(*options: str) -> tuple[str, str]:
            app = make_server(parse([*options])).streamable_http_app()
            return "--server", f"april={stack.enter_context(in_thread(app))}/mcp"

        yield option


def test_servers_show_has_declaration_dialect_and_reason_skills_files_and_problems(
    run: Run, server: Server
) -> None:
    ended = run("servers", "show", "april", *server("--index", "malformed"))
    assert ended.code == 0, ended.err
    for line in (
        "status    ready",
        "protocol  2026-07-28",
        "declares  the skills extension, under extensions",
        "dialect   skill index (April 2026 draft)",
        "because   it declares the extension but not skills/list, like servers of the April draft",
        "docs/{product}  MCP · april  product    How a product works.",
    ):
        assert line in ended.out
    assert "    references/limits.md\n    scripts/run.py\n" in ended.out
    assert "Problems  8" in ended.out
    assert "skills[4]: its type 'hologram' is not known" in ended.out


@pytest.mark.parametrize(
    ("options", "declared", "dialects", "explanation"),
    [
        (("--declare", "experimental"), "experimental", ["D2"], "but not skills/list"),
        (("--declare", "none"), None, ["D2"], "it does not declare the extension, but it has resources"),
        (
            ("--declare", "none", "--no-resources"),
            None,
            [],
            "it declares neither the extension nor resources",
        ),
    ],
)
def test_servers_show_as_json(
    run: Run,
    server: Server,
    options: tuple[str, ...],
    declared: str | None,
    dialects: list[str],
    explanation: str,
) -> None:
    shown = run("servers", "show", "APRIL", "--json", *server(*options)).document["server"]
    assert (shown["declared_in"], shown["dialects"]) == (declared, dialects)
    assert explanation in shown["explanation"]
    assert shown["revisions"]
    if dialects:
        assert [one["template"] for one in shown["templates"]] == ["skill://docs/{product}/SKILL.md"]
        (skill,) = shown["skills"]
        assert skill["supporting_files"] == ["references/limits.md", "scripts/run.py"]


def test_servers_show_of_a_server_that_fails_or_is_not_there(run: Run, server: Server) -> None:
    dead = run("servers", "show", "dead", "--server", "dead=no-such-command")
    assert dead.code == 4
    assert "status    failed: " in dead.out
    missing = run("servers", "show", "other", *server())
    assert (missing.code, missing.err) == (8, "skillwire: no server is called other; known: april\n")
    run("servers", "add", "--no-check", "off", "https://off.example/mcp")
    Path("skillwire.toml").write_text(Path("skillwire.toml").read_text() + "skills = false\n")
    off = run("servers", "show", "off")
    assert off.code == 4
    assert "off is not used: skills = false" in off.err


def test_an_index_skill_is_approved_ahead_as_show_says_and_loads_without_a_terminal(
    run: Run, server: Server
) -> None:
    refused = run("load", "refunds", *server())
    assert refused.code == 7
    assert "which prints the `skillwire approve` line to run" in refused.err
    shown = run("show", "refunds", *server())
    assert "references/limits.md" in shown.out
    assert "skillwire approve refunds --server" in shown.out
    approved_now = as_person(run, "approve", "--all", "--on", "april", *server())
    assert approved_now.out.startswith("Approved refunds from MCP · april as it is now, 3 files.")
    listed = run("list", "--json", *server()).document
    assert [skill["approval"]["state"] for skill in listed["skills"]] == ["approved"]
    assert "Read [the limits](references/limits.md) first." in run("load", "refunds", *server()).out
    assert "No refund over 500." in run("load", "refunds", "references/limits.md", *server()).out
    # What is approved is exported and imported with the files that were seen.
    document = run("approvals", "export").out
    Path("approvals.json").write_text(document)
    assert run("revoke", "refunds").code == 0
    assert run("load", "refunds", *server()).code == 7
    assert as_person(run, "approvals", "import", "approvals.json").code == 0
    assert run("load", "refunds", *server()).code == 0
    tampered = document.replace("references/limits.md", "references/others.md")
    Path("approvals.json").write_text(tampered)
    assert as_person(run, "approvals", "import", "approvals.json").code == 4


def test_a_question_names_and_shows_every_file_that_it_covers(run: Run, server: Server) -> None:
    ended = as_person(run, "load", "refunds", *server(), answers=("t", "y"))
    assert ended.code == 0, ended.err
    named, _, shown = ended.err.partition("Load it?")
    for path in ("SKILL.md", "references/limits.md", "scripts/run.py"):
        assert re.search(rf"{path} \(\d+ bytes, sha256:[0-9a-f]{{12}}…\)", named), named
    assert "unbindable" not in named
    for path in ("references/limits.md", "scripts/run.py"):
        assert f"──── {path} of refunds; shown, not loaded" in shown
    assert "</untrusted_skill" in ended.out
    assert run("load", "refunds", *server()).code == 0


def test_a_template_is_listed_completed_and_loaded_with_values(run: Run, server: Server) -> None:
    listed = run("list", *server())
    assert "docs/{product}  MCP · april  product    How a product works." in listed.out
    (template,) = run("list", "--json", *server()).document["templates"]
    assert template["arguments"] == ["product"]
    shown = run("show", "docs/{product}", *server())
    assert ["product", "widget, gadget"] in [line.split(maxsplit=1) for line in shown.out.splitlines()]
    assert "skillwire load 'docs/{product}' --value product=widget" in shown.out
    assert run("show", "docs/{product}", "--json", *server()).document["suggested"] == {
        "product": ["widget", "gadget"]
    }
    missing = run("load", "docs/{product}", *server())
    assert missing.code == 8
    assert "needs a value for product; product can be widget, gadget" in missing.err
    unapproved = run("load", "docs/{product}", "--value", "product=widget", *server())
    assert unapproved.code == 7
    assert "skillwire show skill://docs/widget/SKILL.md --on april" in unapproved.err
    assert approved(run, "skill://docs/widget/SKILL.md", "--on", "april", *server()).code == 0
    loaded = run("load", "docs/{product}", "--value", "product=widget", *server())
    assert "All about widget." in loaded.out
    nothing = run("load", "docs/{product}", "--value", "product=none", *server())
    assert (nothing.code, "has no skill for these values" in nothing.err) == (8, True)
    assert run("load", "docs/{product}", "--value", "product", *server()).code == 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            "not-json",
            "april lists something that cannot be used: skill://index.json: skill://index.json is not ",
        ),
        ("huge", "april lists something that cannot be used: skills[20000]: 40,000 more entries"),
    ],
)
def test_a_bad_index_is_one_line_that_names_the_server(
    run: Run, server: Server, kind: str, words: str
) -> None:
    ended = run("servers", "show", "april", *server("--index", kind))
    assert ended.code == 0
    assert sum(words in line for line in ended.out.splitlines()) == 1
