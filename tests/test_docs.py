"""What the pages say is so: their Python runs, their commands parse, their links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from skillwire.cli.app import app_for
from skillwire.errors import SkillwireError

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")

CLI = typer.main.get_command(app_for())
COMMANDS: dict[str, Any] = dict(CLI.commands)  # type: ignore[attr-defined]
GROUPS = {name: command.commands for name, command in COMMANDS.items() if hasattr(command, "commands")}
SINGLE = {name: command for name, command in COMMANDS.items() if name not in GROUPS}
HELP = {"--help"}
HOST_OPTIONS = "[host options](#host-options)"


def options(command: Any) -> set[str]:
    """The long options of a command, each by its first spelling."""
    return {
        name
        for option in command.params
        if option.param_type_name == "option"
        for name in option.opts
        if name.startswith("--")
    } - HELP


def usage(command: Any) -> str:
    """The arguments of a command as its help writes them."""
    return " ".join(argument.metavar for argument in command.params if argument.param_type_name == "argument")


# Commands that take in skills say where from by the same options, which the README describes once.
HOST_COMMANDS = {name for name, command in SINGLE.items() if {"--server", "--dir"} <= options(command)}
SHARED = set.intersection(*(options(SINGLE[name]) for name in HOST_COMMANDS))


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
    """The part of the README below this heading, to the next one."""
    _, found, rest = README.read_text("utf-8").partition(f"\n### {heading}\n")
    assert found, f"the README has no section {heading}"
    return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


def command_section(name: str) -> str:
    return section(f"`{' '.join(filter(None, ['skillwire', name, usage(COMMANDS[name])]))}`")


def described(text: str) -> dict[str, str]:
    """The options that a table has a row for, each with the first cell of its row."""
    cells = re.findall(r"^\| (`--.+?`) \| ", text, re.MULTILINE)
    return {OPTION.findall(cell)[0]: cell for cell in cells}


def anchors(page: Path) -> set[str]:
    """The fragments that headings of a page can be linked by."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_has_a_section_for_each_command_and_no_other() -> None:
    sections = re.findall(r"^### `skillwire ([a-z]+).*`$", README.read_text("utf-8"), re.MULTILINE)
    assert sorted(sections) == sorted(COMMANDS)


def test_the_readme_describes_once_the_options_that_host_commands_share() -> None:
    assert set(described(section("Host options"))) == SHARED
    assert {name for name in COMMANDS if HOST_OPTIONS in command_section(name)} == HOST_COMMANDS


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_the_readme_has_every_option_of_a_command_and_no_other(name: str) -> None:
    shared = SHARED if name in HOST_COMMANDS else set[str]()
    assert set(described(command_section(name))) == options(SINGLE[name]) - shared


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_the_readme_has_a_row_for_each_command_of_a_group_with_its_options(group: str) -> None:
    rows = {
        command: set(OPTION.findall(row))
        for command, row in re.findall(
            rf"^\| `{group} ([^`]+)` \| (.*)$", command_section(group), re.MULTILINE
        )
    }
    assert rows == {
        " ".join(filter(None, [name, usage(command)])).replace("|", "\\|"): options(command)
        for name, command in GROUPS[group].items()
    }


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_the_readme_writes_the_value_of_an_option_as_the_help_does(name: str) -> None:
    rows = described(section("Host options")) | described(command_section(name))
    for option in SINGLE[name].params:
        if option.param_type_name == "option" and option.metavar is not None:
            assert f"`{option.opts[0]} {option.metavar}`" in rows[option.opts[0]]


def test_the_readme_has_every_exit_code() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)}
    families = [SkillwireError, *SkillwireError.__subclasses__()]
    assert codes == {0, 2, 130} | {family.exit_code for family in families}


def test_the_readme_names_no_option_that_does_not_exist() -> None:
    known = {
        name
        for command in [CLI, *SINGLE.values(), *(one for group in GROUPS.values() for one in group.values())]
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
    }
    assert set(OPTION.findall(README.read_text("utf-8"))) <= known | HELP


@pytest.mark.parametrize("code", [*blocks("python")])
def test_python_in_the_pages_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples/skills", tmp_path / "skills")
    monkeypatch.chdir(tmp_path)
    # A home of its own, so that nothing is approved or kept for the person who runs this.
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
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


def test_every_guide_page_is_in_the_list_of_pages() -> None:
    listed = {link for link in LINK.findall((ROOT / "docs/README.md").read_text("utf-8")) if "/" not in link}
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}


def test_every_decision_is_in_the_list_of_decisions() -> None:
    listed = set(LINK.findall((ROOT / "docs/decisions/README.md").read_text("utf-8")))
    assert listed == {page.name for page in (ROOT / "docs/decisions").glob("*.md")} - {"README.md"}
