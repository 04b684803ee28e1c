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

import pytest
import yaml
from tools.commands import EXIT_CODES

from every import every
from skillwire.cli.command import GLOBAL_OPTIONS, read_words
from skillwire.cli.commands import all_commands
from skillwire.cli.line import parse_line
from skillwire.errors import SkillwireError
from skillwire.version import pip_command

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
OTHERS = {"--scope"}  # Options of other programs that share a line with ours.
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")

KNOWN_OPTIONS = {"--version"} | {
    name
    for command in all_commands()
    for option in (*command.all_options, *GLOBAL_OPTIONS)
    for name in (*option.names, option.off)
}


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Every block of code in a language, each after its page and line."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in BLOCK.finditer(text):
            if block[1] == language:
                line = text.count("\n", 0, block.start()) + 1
                yield f"{page.relative_to(ROOT).as_posix()}:{line}", block[2]


def command_lines() -> Iterator[tuple[str, list[str]]]:
    for place, block in blocks("sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0].rpartition("/")[2] in ("skillwire", "make"):
                yield place, words


def anchors(page: Path) -> set[str]:
    """The fragments that headings of a page can be linked by."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_exit_codes_of_the_command_reference_are_those_of_the_errors() -> None:
    families = [SkillwireError]
    for family in families:  # It grows: those of a family, and theirs.
        families += family.__subclasses__()
    assert set(EXIT_CODES) == {0, 2, 130, 141} | {family.exit_code for family in families}


@every("page", PAGES)
def test_a_page_names_no_option_of_skillwire_that_does_not_exist(page: Path) -> None:
    if page.name in ("CHANGELOG.md", "CONTRIBUTING.md") or page.parent.name == "decisions":
        return  # They speak of what was, and of other programs.
    lines = [line for line in page.read_text("utf-8").splitlines() if "skillwire " in line]
    assert {option for line in lines for option in OPTION.findall(line)} <= KNOWN_OPTIONS | OTHERS


# The guides of frameworks run in an environment that has these: tests/adapters/test_guides.py.
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=place)
        for place, code in blocks("python")
        if not place.startswith("docs/frameworks/")
    ],
)
def test_python_in_the_pages_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples/skills", tmp_path / "skills")
    monkeypatch.chdir(tmp_path)
    # A home of its own, so that nothing is approved or kept for the person who runs this.
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    exec(compile(code, "page", "exec"), {"__name__": "page"})


@every("place, words", command_lines())
def test_commands_in_the_pages_are_understood(place: str, words: list[str]) -> None:
    program, *arguments = words
    if program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        assert set(arguments) <= set(targets)
    else:
        line = parse_line(arguments[: arguments.index(">")] if ">" in arguments else arguments)
        # Parsed, not run: an unknown option or a missing argument raises.
        assert line.command is None or read_words(line.command, line.words)


@every("place, text", blocks("yaml"))
def test_yaml_in_the_pages_is_yaml(place: str, text: str) -> None:
    assert yaml.safe_load(text)


@every("place, text", blocks("json"))
def test_json_in_the_pages_is_json(place: str, text: str) -> None:
    assert json.loads(text)


@every("page", PAGES)
def test_links_of_the_pages_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(BLOCK.sub("", page.read_text("utf-8"))):
        if "://" in link:
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not fragment or fragment in anchors(target), link


def test_every_page_is_in_the_list_of_pages() -> None:
    links = set(LINK.findall((ROOT / "docs/README.md").read_text("utf-8")))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").glob("*.md")}
    guides = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs/guides").glob("*.md")}
    assert {link for link in links if "/" not in link} == pages - {"README.md"}
    assert {link for link in links if link.startswith("guides/")} == guides


def test_every_package_is_described_in_the_architecture() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    packages = {file.parent.name for file in (ROOT / "src/skillwire").glob("*/__init__.py")}
    assert set(re.findall(r"^\| \[`(\w+)/`\]", text, re.MULTILINE)) == packages


def test_every_decision_is_in_the_list_of_decisions() -> None:
    listed = set(LINK.findall((ROOT / "docs/decisions/README.md").read_text("utf-8")))
    assert listed == {page.name for page in (ROOT / "docs/decisions").glob("*.md")} - {"README.md"}


def test_the_readme_has_its_parts_in_order() -> None:
    text = README.read_text("utf-8")
    parts = [
        "**Publish [Agent Skills](https://agentskills.io)",
        "docs/images/chat.svg",
        "`make demo`",
        "`pipx install .` or\n`uv tool install .`",
        "skillwire lint examples/skills",
        "skillwire list --server",
        "skillwire load code-review --server",
        "## What do you want to do?",
        "## Works with",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert len(text.split()) < 700  # It is read in a minute or two; the pages have the rest.


GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))


@every("page", GUIDES)
def test_each_of_seven_readers_has_a_guide_of_one_page_that_the_readme_links(page: Path) -> None:
    assert len(GUIDES) == 7
    text = page.read_text("utf-8")
    assert f"](docs/guides/{page.name})" in README.read_text("utf-8")
    assert text.startswith("# For ")
    assert len(text.splitlines()) < 90


@every("page", sorted((ROOT / "docs").glob("*.md")))
def test_a_page_says_at_its_top_whom_it_is_for(page: Path) -> None:
    if page.name not in ("README.md", "commands.md"):
        assert re.search(r"(This page is f|F)or \w+", page.read_text("utf-8")[:500])


def test_the_workflow_runs_on_three_systems_what_there_is() -> None:
    workflow = yaml.safe_load((ROOT / "docs/ci/three-systems.yml").read_text("utf-8"))
    job = workflow["jobs"]["test"]
    assert job["strategy"]["matrix"]["system"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    for step in job["steps"]:
        words = shlex.split(step.get("run", ""))
        if words[:1] == ["skillwire"]:
            line = parse_line(words[1:])
            assert line.command is not None
            read_words(line.command, line.words)


@every("page", PAGES)
def test_nothing_is_installed_from_an_index_that_does_not_have_it(page: Path) -> None:
    text = page.read_text("utf-8")
    for found in re.finditer(r"(?:pip|pipx|uv tool) install [^`&\n]*skillwire[^`\n]*", text):
        assert re.search(r"in a checkout|\./skillwire|--force", found[0]), found[0]


@every("file", sorted((ROOT / "src").rglob("*.py")))
def test_no_message_installs_an_extra_by_the_name_of_a_published_package(file: Path) -> None:
    assert not re.search(r"\bskillwire\[", file.read_text("utf-8"))


def test_what_a_command_says_to_install_is_where_it_says() -> None:
    assert pip_command("ui") == "pip install '.[ui]'"


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/home/me/.local/share/pipx/venvs/skillwire", "pipx install --force"),
        ("C:\\Users\\me\\pipx\\venvs\\skillwire", "pipx install --force"),
        ("/home/me/.local/share/uv/tools/skillwire", "uv tool install --force"),
        ("/home/me/pipx/.venv", "pip install"),
        ("/", "pip install"),
    ],
)
def test_more_packages_are_installed_by_what_installed_skillwire(
    prefix: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    assert pip_command("ui").startswith(f"{command} '.[ui]'")


@every("file", [*PAGES, *sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "src").rglob("*.html"))])
def test_every_command_that_is_named_has_these_words_and_options(file: Path) -> None:
    """In messages and pages alike: a command in backticks can be typed as it stands."""
    joined = re.sub(r'"\s*\n\s*f?"', "", file.read_text("utf-8"))  # Messages that take several lines.
    for found in re.finditer(r"`skillwire ([a-z][^`\n]*)`", joined):
        words = re.sub(r"\{[^}]*\}", " ", found[1]).split()  # What a message fills in.
        if words[0] == "help":
            continue
        line = parse_line(words)
        if line.command is None:
            continue
        known = {name for one in line.command.all_options for name in (*one.names, one.off)}
        options = {re.split(r"[^a-z-]", word)[0] for word in words[: [*words, "--"].index("--")]}
        assert {word for word in options if word.startswith("--")} <= {*known, "--help"}, found[0]


def test_every_test_that_the_security_page_names_is_there() -> None:
    page = (ROOT / "docs/security.md").read_text("utf-8")
    there = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))
    }
    assert set(re.findall(r"`(test_\w+)`", page)) <= there
    assert all((ROOT / path).exists() for path in re.findall(r"\btests/[\w/.]*\w", page))
    rows = {row.split(" ")[1]: row for row in page.splitlines() if row.startswith("| T")}
    threats = [f"T{number}" for number in range(1, 10)]
    assert [name for name in rows if name in threats] == threats
    assert all(rows[name].count("`test_") >= 2 for name in threats)
