"""Untrusted text on the page: escaped, with nothing hidden and nothing dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from html import unescape
from html.parser import HTMLParser
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexer import Lexer
from pygments.lexers.python import PythonLexer
from pygments.token import Keyword, _TokenType  # pyright: ignore[reportPrivateUsage]

from skillwire.text import clean_text, split_hidden
from skillwire.ui.code import PART_LINES, color, show_text
from skillwire.ui.diff import CodeLine, RowKind, TextDiff, diff_texts, unified
from skillwire.ui.rendering import render_markdown
from steps import count_steps

ALLOWED = {
    *(
        "a",
        "blockquote",
        "br",
        "code",
        "em",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "s",
        "span",
    ),
    *("strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "[a](javascript:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "[a](vbscript:x)",
    "![a](https://evil.example/a.png)",
    "![a](data:image/svg+xml;base64,PHN2Zz4=)",
    "[a]: javascript:alert(1)\n\n[a]",
    "<https://evil.example>",
    "<javascript:alert(1)>",
    '[a](https://evil.example "onmouseover=alert(1)")',
    '[a](https://evil.example/"onmouseover="alert(1))',
    "[a](\x01javascript:alert(1))",
    "[a](&#106;avascript:alert(1))",
    "[a](//evil.example)",
    "[a](/approve)",
    "[a](?q=1)",
    "[a](../../etc/passwd)",
    "`<b>`",
    '```html"><script>\n<b>\n```',
    "| <i>a</i> |\n|---|\n| <b>b</b> |",
    "# <h1>a",
    "- <li>a",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<!-- --><b>x</b>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<style>*{background:url(https://evil.example)}</style>",
    "<form action=https://evil.example><button>",
    "a\u202eb\u200bc",
]


# fmt: off
MARKS = [
    "[", "![", "*a ", "**a ", "`", "> ", "- ", "[a](", "<", "~", "&", "\\", "a\n", "#", "[a]: b\n", "_",
    "*_", "`a``", "|a", "|-",
]
# fmt: on


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def elements(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Elements()
    parser.feed(html)
    return parser.found


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_makes_no_element_but_those_of_the_list_and_no_link_that_leaves(text: str) -> None:
    html = render_markdown(text, files={"a.md"}, link=lambda path: f"/skill?file={path}")
    for tag, attributes in elements(html):
        assert tag in ALLOWED
        assert set(attributes) <= {"class", "start", "tabindex"} | ({"href"} if tag == "a" else set())
        if tag == "a":
            assert attributes["href"] == "/skill?file=a.md"
    assert not clean_text(html).removed


@given(st.text(alphabet="<>&\"'[]()!`*_~#|-:\\/ \n\u202eabjs", max_size=200))
def test_no_markdown_breaks_out(text: str) -> None:
    for tag, attributes in elements(render_markdown(text)):
        assert tag in ALLOWED - {"a"}
        assert set(attributes) <= {"class", "start", "tabindex"}


def test_markdown_shows_where_a_link_leads_and_follows_those_inside_the_skill() -> None:
    html = render_markdown(
        "[site](https://evil.example/x) [list](b.md#top) ![logo](https://evil.example/logo.png)",
        folder="references",
        files={"references/b.md"},
        link=lambda path: f"/skill?file={path}",
    )
    assert "‹https://evil.example/x›" in html
    assert "image: logo" in html
    assert [attributes["href"] for tag, attributes in elements(html) if tag == "a"] == [
        "/skill?file=references/b.md"
    ]


def test_markdown_is_markdown() -> None:
    html = render_markdown(
        "---\nname: a\n---\n# Title\n\n1. *one*\n2. **two** ~~three~~\n\n> `code`\n\n---\n"
    )
    assert html == (
        "<h3>Title</h3><ol><li><em>one</em></li><li><strong>two</strong> <s>three</s></li></ol>"
        "<blockquote><p><code>code</code></p></blockquote><hr>"
    )


@pytest.mark.parametrize("unit", MARKS)
def test_markdown_of_twice_the_length_takes_twice_the_steps(unit: str) -> None:
    assert growth(lambda size: unit * size, render_markdown) < 2.2


def test_a_markdown_table_of_twice_the_width_takes_twice_the_steps() -> None:
    assert growth(lambda size: "|" * size + "\n" + "|-" * (size // 2), render_markdown) < 2.2


def growth(make: Callable[[int], str], act: Callable[[str], object], size: int = 200) -> float:
    """How many times the steps a text of twice the size takes."""
    # The first call prepares what the others use: imports, regular expressions.
    _, one, two = (count_steps(partial(act, make(length))) for length in (size, size, 2 * size))
    return two / one


@given(st.text(max_size=300))
def test_hidden_characters_are_those_that_cleaning_removes(text: str) -> None:
    runs = list(split_hidden(text))
    assert "".join(run for run, _ in runs) == text
    assert all(run for run, _ in runs)
    hidden = "".join(run for run, is_hidden in runs if is_hidden)
    assert bool(hidden) >= bool(clean_text(text.replace("\r\n", "\n")).removed)


def test_raw_text_names_what_shows_nothing() -> None:
    part = show_text("a\u200bb\u202ec\x1b[31m\ufeff\r\nd\U000e0068\U000e0069\n")
    [first, second] = map(str, part.lines)
    assert [*re.findall(r">(U\+[0-9A-F]+)<", first)] == ["U+200B", "U+202E", "U+001B", "U+FEFF"]
    assert 'title="RIGHT-TO-LEFT OVERRIDE"' in first
    assert "hidden text “hi”" in second
    assert part.hidden == 6


@given(
    st.lists(st.text(alphabet="ab <&\u200b\t'\"#/*", max_size=20), max_size=30),
    st.sampled_from(["", "a.py", "b.js", "c.html", "d.json", "e.sh"]),
)
def test_raw_text_shows_every_character(lines: list[str], path: str) -> None:
    part = show_text("\n".join([*lines, ""]), path)
    shown = [re.sub(r"<[^>]*>", "", str(line)) for line in part.lines]
    plain = [
        line.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&#34;").replace("'", "&#39;")
        for line in lines
    ]
    assert [line.replace("U+200B", "\u200b") for line in shown] == plain


def test_a_long_text_comes_in_parts_and_a_long_line_is_cut_and_says_so() -> None:
    text = "".join(f"line {number}\n" for number in range(5000))
    first = show_text(text)
    assert (len(first.lines), first.next, first.previous) == (PART_LINES, PART_LINES + 1, None)
    last = show_text(text, first=4001)
    assert (last.lines[-1], last.next, last.previous) == ("line 4999", None, 2001)
    long = show_text("x" * 1_000_000)
    assert len(long.lines[0]) < 5000
    assert "996,000 more characters" in long.lines[0]
    further = show_text("x" * 999_999 + "y", line_from=998_000)
    assert "998,000 characters before" in further.lines[0]
    assert further.lines[0].endswith("y")


@pytest.mark.parametrize("path", ["a.py", "a.js", "a.html", "a.sql", "a.yaml", "a.rb", "Dockerfile"])
@pytest.mark.parametrize(
    "text",
    [
        '"' * 4000,
        "'''" * 1000,
        "/*" * 2000,
        "#" * 4000,
        "\\" * 4000,
        "1" * 4000,
        "<!--" * 1000,
        "u\\'" * 1000,
        "<script>?" * 400,
        "`%" * 2000,
    ],
)
def test_code_that_was_made_to_confuse_a_lexer_is_shown_as_it_is(path: str, text: str) -> None:
    lines = [text] * 5
    assert [seen(line) for line in show_text("\n".join(lines), path).lines] == lines


def seen(line: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", line))


@pytest.mark.parametrize(
    ("path", "text", "colored"),
    [
        ("a.py", "def f(): return 'a' # 1", [("k", "def"), ("k", "return"), ("s", "'a'"), ("c", "# 1")]),
        ("a.json", '{"a": [1, true]}', [("k", '"a"'), ("m", "1"), ("k", "true")]),
        ("a.sh", "if true; then # b", [("k", "if"), ("k", "then"), ("c", "# b")]),
        ("a.html", "<!-- a --><b>1</b>", [("c", "<!-- a -->"), ("k", "b"), ("k", "b")]),
        ("d/Dockerfile", "FROM a:1", [("k", "FROM"), ("s", "a:1")]),
        ("a.txt", "def f(): return 1", []),
        ("py", "def f(): return 1", []),
    ],
)
def test_code_has_colors_by_the_name_of_its_file(
    path: str, text: str, colored: list[tuple[str, str]]
) -> None:
    [line] = show_text(text, path).lines
    spans = re.findall(r'<span class="(.)">(.*?)</span>', line)
    assert [(name, unescape(inner)) for name, inner in spans] == colored


def test_a_string_of_several_lines_has_its_color_in_each() -> None:
    lines = show_text('a = """b\n\u200bc\n"""', "a.py").lines
    assert [str(line).count('class="s"') for line in lines] == [1, 1, 1]
    assert 'title="ZERO WIDTH SPACE"' in lines[1]


class OutOfOrder(Lexer):
    """Repeats, leaves out and invents."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        yield 2, Keyword, "XX"
        yield 0, Keyword, "ab"
        yield 3, Keyword, "de"
        yield 7, Keyword, "never in the text" * 9


def test_whatever_a_lexer_says_each_character_is_shown_once() -> None:
    assert "".join(piece for piece, _ in color("abcdefgh", OutOfOrder())) == "abcdefgh"


def test_when_the_time_for_colors_is_used_up_the_rest_has_none() -> None:
    clock = count()
    text = "if " * 100
    pieces = list(color(text, PythonLexer(), clock=lambda: next(clock)))
    assert "".join(piece for piece, _ in pieces) == text
    assert pieces == [("if", "k"), (" if" * 99 + " ", "")]


def test_a_diff_shows_changed_lines_with_their_numbers_and_what_is_around() -> None:
    old = "".join(f"{number}\n" for number in range(1, 21))
    new = old.replace("10\n", "ten\n").replace("20\n", "")
    found = diff_texts(old, new)
    assert (found.added, found.removed) == (1, 2)
    kinds = [row.kind for row in found.rows]
    assert kinds[0] is RowKind.GAP
    assert found.rows[0].skipped == 6
    [changed] = [row for row in found.rows if row.kind is RowKind.CHANGED]
    assert (changed.old, changed.new) == (CodeLine(10, "10"), CodeLine(10, "ten"))
    lines = [(row.kind, row.old, row.new) for row in unified(found.rows)]
    removed, added = (RowKind.REMOVED, CodeLine(10, "10"), None), (RowKind.ADDED, None, CodeLine(10, "ten"))
    assert lines.index(removed) + 1 == lines.index(added)


@given(st.lists(st.sampled_from("abc"), max_size=20), st.lists(st.sampled_from("abc"), max_size=20))
def test_a_diff_has_every_line_of_both_sides(old: list[str], new: list[str]) -> None:
    found = diff_texts(
        "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new), context=100
    )
    if old == new:
        assert not [row for row in found.rows if row.kind is not RowKind.GAP]
        return
    for rows in (found.rows, tuple(unified(found.rows))):
        assert [row.old for row in rows if row.old is not None] == [*map(CodeLine, count(1), old)]
        assert [row.new for row in rows if row.new is not None] == [*map(CodeLine, count(1), new)]


def test_a_diff_of_twice_as_many_lines_takes_twice_the_steps() -> None:
    """Each line of one text is in many places of the other, which takes a matcher longest."""

    def compare(size: int) -> TextDiff:
        old, new = (
            "".join(f"{n * step % most}\n" for n in range(size)) for step, most in ((1, 150), (7, 151))
        )
        return diff_texts(old, new)

    assert compare(5_000).is_cut
    assert count_steps(lambda: compare(5_000)) / count_steps(lambda: compare(2_500)) < 2.2
