"""Styles in general: where they are found, that none loosens a limit, and what the page tells of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tools.style_table import style_table

import skillwire
from simulator import make_host
from skillwire.errors import SourceError
from skillwire.host import SPEC_TOOLS, Style
from skillwire.host.styles import all_styles, find_style
from skillwire.limits import DEFAULT_LIMITS, Limits
from style_gallery import every_style

SOURCE = Path(skillwire.__file__).parent
PAGE = Path(__file__).parents[2] / "docs/styles.md"


def test_every_style_is_found_by_its_name_and_spec_comes_first() -> None:
    assert [style.name for style in all_styles()] == ["spec", "claude", "codex", "gemini", "goose", "wayland"]
    assert find_style("goose").name == "goose"
    with pytest.raises(SourceError, match="no style is called emacs: choose from spec, claude, codex"):
        find_style("emacs")


def test_a_custom_style_needs_no_file_here(tmp_path: Path) -> None:
    mine = Style(name="mine", summary="Mine.", tools=SPEC_TOOLS)
    assert make_host(tmp_path, style=mine).style is mine


@every_style
def test_no_style_loosens_a_limit(style: Style) -> None:
    tight = Limits(body_bytes=1, uri_bytes=1, description_chars=1, catalog_chars=1)
    assert style.limits(tight) == tight
    usual = style.limits(DEFAULT_LIMITS)
    for cap in Limits.__slots__:
        assert getattr(usual, cap) <= getattr(DEFAULT_LIMITS, cap)
    assert style.seconds(1) <= 1


@every_style
def test_a_tool_asks_for_nothing_that_it_does_not_describe(style: Style) -> None:
    assert len({tool.name for tool in style.tools}) == len(style.tools)
    for tool in style.tools:
        assert set(tool.required) <= {name for name, _ in tool.parameters}
        assert tool.description


def test_no_code_outside_of_the_styles_asks_which_style_it_is() -> None:
    """A style's name in a comparison, anywhere else, would be a habit that is not in its file."""
    known = {style.name for style in all_styles()}
    found = [
        f"{file.relative_to(SOURCE)}:{node.lineno}"
        for file in SOURCE.rglob("*.py")
        if "styles" not in file.parts
        and any(f'"{name}"' in (text := file.read_text("utf-8")) for name in known)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare | ast.MatchValue)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value in known - {"spec"}
    ]
    assert found == []


def test_the_page_has_the_table_that_the_styles_make() -> None:
    assert style_table(all_styles()) in PAGE.read_text("utf-8")


def test_every_behavior_on_the_page_names_tests_that_exist() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    behaviors = {row[0].removeprefix("| "): row for row in rows if re.fullmatch(r"\| [WGCOR]\d+", row[0])}
    counts = {"W": 8, "G": 10, "C": 8, "O": 8, "R": 8}
    assert set(behaviors) == {
        f"{row}{number}" for row, most in counts.items() for number in range(1, most + 1)
    }
    for behavior, (_, _, here, tests) in behaviors.items():
        assert here.startswith("works"), behavior
        assert "replaced" not in here or re.search(r"replaced (where|for) .+: .+|\([A-Z]{3}-\d+\)", here), (
            here
        )
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", tests)
        assert named, behavior
        for file, test in named:
            assert f"def {test}(" in (PAGE.parent.parent / "tests" / file).read_text("utf-8"), test
