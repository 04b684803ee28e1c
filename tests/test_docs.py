"""What the pages say is so: their Python runs, their commands parse, their links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from skillwire.cli.app import app

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")

CLI = typer.main.get_command(app)
COMMANDS: dict[str, Any] = dict(CLI.commands)  # type: ignore[attr-defined]
HELP = {"--help"}


def blocks(language: str) -> Iterator[Any]:
    """Every block of code in a language, each as a parameter named by its page and line."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in BLOCK.finditer(text):
            if block[1] == language:
                line = text.count("\n", 0, block.start()) + 1
                yield pytest.param(block[2], id=f"{page.relative_to(ROOT).as_posix()}:{line}")


def command_lines() -> Iterator[Any]:
    for parameter in blocks("sh"):
        for line in str(parameter.values[0]).splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0].rpartition("/")[2] in ("skillwire", "make"):
                yield pytest.param(words, id=f"{parameter.id} {' '.join(words)}")


def section(heading: str) -> str:
    """The part of the README from a heading that starts so to the next heading."""
    text = README.read_text("utf-8")
    start = re.search(rf"^### `{re.escape(heading)}\b.*$", text, re.MULTILINE)
    assert start is not None, f"the README has no section for {heading}"
    return re.split(r"^#", text[start.end() :], maxsplit=1, flags=re.MULTILINE)[0]


def anchors(page: Path) -> set[str]:
    """The fragments that headings of a page can be linked by."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_has_a_section_for_each_command_and_no_other() -> None:
    described = re.findall(
        r"^### `skillwire ([\w -]+?)(?: [^a-z].*)?`$", README.read_text("utf-8"), re.MULTILINE
    )
    assert sorted(described) == sorted(COMMANDS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_readme_has_every_option_of_a_command_and_no_other(command: str) -> None:
    options = {name for option in COMMANDS[command].params for name in option.opts if name.startswith("--")}
    rows = [line for line in section(f"skillwire {command}").splitlines() if line.startswith("| `--")]
    described = {found[0] for row in rows if (found := OPTION.findall(row))}
    assert described == options - HELP


def test_the_readme_names_no_option_that_does_not_exist() -> None:
    known = {
        name
        for command in [CLI, *COMMANDS.values()]
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
    }
    assert set(OPTION.findall(README.read_text("utf-8"))) <= known | HELP


@pytest.mark.parametrize("code", [*blocks("python")])
def test_python_in_the_pages_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples/skills", tmp_path / "skills")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "page", "exec"), {"__name__": "page"})


@pytest.mark.parametrize("words", [*command_lines()])
def test_commands_in_the_pages_are_understood(words: list[str]) -> None:
    program, *arguments = words
    if program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        assert set(arguments) <= set(targets)
    else:
        name, *rest = arguments
        command = COMMANDS[name]
        while hasattr(command, "commands"):
            name, *rest = rest
            command = command.commands[name]
        # Parsed, not run: an unknown option or a missing argument raises.
        assert command.make_context(name, rest).params


@pytest.mark.parametrize("text", [*blocks("json")])
def test_json_in_the_pages_is_json(text: str) -> None:
    assert json.loads(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_the_pages_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(BLOCK.sub("", page.read_text("utf-8"))):
        if "://" in link:
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not fragment or fragment in anchors(target), link


def test_every_decision_is_in_the_list_of_decisions() -> None:
    listed = set(LINK.findall((ROOT / "docs/decisions/README.md").read_text("utf-8")))
    assert listed == {page.name for page in (ROOT / "docs/decisions").glob("*.md")} - {"README.md"}
