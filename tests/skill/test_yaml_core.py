"""YAML 1.2 by the core schema, and only as JSON values."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from frontmatter_blocks import document, read, refusal
from skillwire.limits import Limits
from skillwire.skill import parse_skill_md

# What the `yaml` package of JavaScript (2.9.1, version 1.2, core schema) reads.
SCALARS: list[tuple[str, Any]] = [
    ("", None),
    ("~", None),
    ("null", None),
    ("Null", None),
    ("NULL", None),
    ("nULL", "nULL"),
    ("true", True),
    ("True", True),
    ("TRUE", True),
    ("false", False),
    ("False", False),
    ("FALSE", False),
    ("tRUE", "tRUE"),
    ("yes", "yes"),
    ("No", "No"),
    ("on", "on"),
    ("off", "off"),
    ("y", "y"),
    ("2024-01-01", "2024-01-01"),
    ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
    ("12:30", "12:30"),
    ("1:30:45", "1:30:45"),
    ("1_000", "1_000"),
    ("1,000", "1,000"),
    ("0", 0),
    ("-0", 0),
    ("+12", 12),
    ("-12", -12),
    ("017", 17),
    ("0o17", 15),
    ("0o8", "0o8"),
    ("-0o17", "-0o17"),
    ("0x1F", 31),
    ("0xg", "0xg"),
    ("0X1F", "0X1F"),
    ("-0x1", "-0x1"),
    ("0b1", "0b1"),
    ("1.0", 1.0),
    ("1.5", 1.5),
    (".5", 0.5),
    ("5.", 5.0),
    ("+.5", 0.5),
    ("1e3", 1000.0),
    ("1.e3", 1000.0),
    ("-1.5E+3", -1500.0),
    ("1e-400", 0.0),
    (".", "."),
    ("+", "+"),
    ("1e", "1e"),
    (".e3", ".e3"),
    ("0x", "0x"),
    ("1.2.3", "1.2.3"),
    ("v1.0", "v1.0"),
    ("-.nan", "-.nan"),
    ("+.NaN", "+.NaN"),
    ("inf", "inf"),
    ("nan", "nan"),
    ("=", "="),
    ("<<", "<<"),
    ("'1'", "1"),
    ('"true"', "true"),
    ("''", ""),
    ("'it''s'", "it's"),
    ('"a\\tb\\u00e9\\x41\\/\\_\\e\\0"', "a\tbé\x41/\xa0\x1b\0"),
    ('"\\ud83d\\ude00"', "😀"),
    ('"\\\\ud83d\\n"', "\\ud83d\n"),
    ("\\ud83d\\ude00", "\\ud83d\\ude00"),
    ("'\\ud83d\\ude00'", "\\ud83d\\ude00"),
    ('"\\L\\P\\N"', "\u2028\u2029\x85"),
    ("a\u2028b", "a\u2028b"),
    ("\x85", "\x85"),
    ("'a\u2029 b'", "a\u2029 b"),
    ("a\ufeffb", "a\ufeffb"),
    ("a\ue000\u2028b", "a\ue000\u2028b"),
    ("http://example.org/a:b", "http://example.org/a:b"),
    ("a#b", "a#b"),
    ("a #b", "a"),
    ("# only a comment", None),
    (":a", ":a"),
    ("-a", "-a"),
    ("?a", "?a"),
    ("a, b", "a, b"),
    ("a ] b }", "a ] b }"),
    ("a\tb\t#c", "a\tb"),
    ("\ta", "a"),
    ("a\t", "a"),
    ("!!str 12", "12"),
    ("!!str", ""),
    ("! 12", "12"),
    ("!<tag:yaml.org,2002:str> 12", "12"),
    ("!!int '12'", 12),
    ("!!float 1.5", 1.5),
    ("!!bool 'true'", True),
    ("!!null ''", None),
    ("!!seq [a]", ["a"]),
    ("!!map {a: b}", {"a": "b"}),
    ("! [1]", [1]),
    ("[]", []),
    ("{}", {}),
    ("[a, 1, [b, {c: d}], ]", ["a", 1, ["b", {"c": "d"}]]),
    ("[a: b]", [{"a": "b"}]),
    ("[what? yes, why ? no]", ["what? yes", "why ? no"]),
    ('{"a":1, b: , c}', {"a": 1, "b": None, "c": None}),
    ("{a:b: c}", {"a:b": "c"}),
    ("[\n  a,\n  # comment\n  b\n]", ["a", "b"]),
    ("{\n  a: b\n}", {"a": "b"}),
    ("[a,\n# comment\n  b]", ["a", "b"]),
]


@pytest.mark.requirement("ENT-1")
@pytest.mark.parametrize(("written", "value"), SCALARS, ids=[repr(written) for written, _ in SCALARS])
def test_a_value_is_what_yaml_1_2_says(written: str, value: object) -> None:
    found = read(f"k: {written}\nz: end")
    assert found == {"k": value, "z": "end"}
    assert type(found["k"]) is type(value)


BLOCKS: list[tuple[str, dict[str, Any]]] = [
    ("k: |", {"k": ""}),
    ("k: |\n  a", {"k": "a\n"}),
    ("k: |\n  a\n  b\n", {"k": "a\nb\n"}),
    ("k: |\n  a\n\n\n", {"k": "a\n"}),
    ("k: |-\n  a\n\n", {"k": "a"}),
    ("k: |+\n  a\n\n", {"k": "a\n\n"}),
    ("k: |+\n  a\n\nz: 1", {"k": "a\n\n", "z": 1}),
    ("k: |\n\n  a", {"k": "\na\n"}),
    ("k: |\n  a\n    b\n  c", {"k": "a\n  b\nc\n"}),
    ("k: |\n  a\n    \nz: 1", {"k": "a\n  \n", "z": 1}),
    ("k: |2\n   a\n", {"k": " a\n"}),
    ("k: |2-\n   a\n", {"k": " a"}),
    ("k: >-1\n  a\n  b\n", {"k": " a\n b"}),
    ("k: | # comment\n  a # b\n", {"k": "a # b\n"}),
    ("k: |\t\n  a\n", {"k": "a\n"}),
    ("k: |\n  a\n  \tb\n", {"k": "a\n\tb\n"}),
    ("k: |\n  ---\n  ...\n", {"k": "---\n...\n"}),
    ("k: >\n  a\n  b\n\n  c\n", {"k": "a b\nc\n"}),
    ("k: >-\n  a\n    b\n  c", {"k": "a\n  b\nc"}),
    ("k: >\n  a\n\n\n   b\n\n  c\n", {"k": "a\n\n\n b\n\nc\n"}),
    ("k: >\n\n\n", {"k": ""}),
    ("k: |\n  a\u2028b\n", {"k": "a\u2028b\n"}),
    ("k: |\n  \\ud83d\\ude00\n", {"k": "\\ud83d\\ude00\n"}),
    ("k: a\n  b\n\n  c", {"k": "a b\nc"}),
    ("k:\n  a\n  # comment", {"k": "a"}),
    ("k: a\n  \t\n  b", {"k": "a\nb"}),
    ("k: a\n  - b", {"k": "a - b"}),
    ("k: 'a\n  b\n\n  c'", {"k": "a b\nc"}),
    ('k: "a\\\n  b\n  c"', {"k": "ab c"}),
    ('k: "a\n\n  b"\nz: 1', {"k": "a\nb", "z": 1}),
    ("k: 'a\n  b'\nz: 'c\n  d'", {"k": "a b", "z": "c d"}),
    ("k:\n- a\n- b: c\n  d: e\n-\n  - f", {"k": ["a", {"b": "c", "d": "e"}, ["f"]]}),
    ("k:\n  - 'a\n    b'", {"k": ["a b"]}),
    ("k:\n  m: [\n    a\n  ]", {"k": {"m": ["a"]}}),
    ("k:\n- [\n  a\n]", {"k": [["a"]]}),
    ("? k\n: v\n? w", {"k": "v", "w": None}),
    ("'k': a\n\"w\" : b", {"k": "a", "w": "b"}),
    ("? |\n  k\n: v", {"k\n": "v"}),
    ("<<: {a: b}\nc: d", {"<<": {"a": "b"}, "c": "d"}),
    ("a: &x {b: 1}\n<<: *x", {"a": {"b": 1}, "<<": {"b": 1}}),
    (
        "a: &x [1, 'b', {c: null}]\nb: *x\nc: [*x ]",
        {"a": [1, "b", {"c": None}]} | {"b": [1, "b", {"c": None}]} | {"c": [[1, "b", {"c": None}]]},
    ),
    ("a: &x k\n*x : v", {"a": "k", "k": "v"}),
    ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
    ("a: &x\nb: *x", {"a": None, "b": None}),
    ("{a: b,\n c: d}", {"a": "b", "c": "d"}),
    ("  a: b\n  c: d", {"a": "b", "c": "d"}),
    ("# comment\n\na: b # c\n", {"a": "b"}),
    ("a:\n\nb:", {"a": None, "b": None}),
    ("é: ü\n名: 前", {"é": "ü", "名": "前"}),
    ("a: b\n \nc: d", {"a": "b", "c": "d"}),
    ("__proto__: a\nconstructor: b", {"__proto__": "a", "constructor": "b"}),
]


@pytest.mark.requirement("ENT-1")
@pytest.mark.parametrize(("block", "value"), BLOCKS, ids=[repr(block) for block, _ in BLOCKS])
def test_a_layout_is_what_yaml_1_2_says(block: str, value: dict[str, Any]) -> None:
    assert read(block) == value


@pytest.mark.parametrize(("block", "value"), BLOCKS, ids=[repr(block) for block, _ in BLOCKS])
def test_windows_line_endings_change_no_value(block: str, value: dict[str, Any]) -> None:
    data = document(block).replace(b"\n", b"\r\n")
    assert parse_skill_md(data).frontmatter == value


REFUSED: list[tuple[str, list[tuple[str, int]]]] = [
    # not a mapping
    ("just text", [("frontmatter-not-mapping", 2)]),
    ("- a\n- b", [("frontmatter-not-mapping", 2)]),
    ("[a]", [("frontmatter-not-mapping", 2)]),
    ("~", [("frontmatter-not-mapping", 2)]),
    # keys
    ("a: 1\na: 2", [("yaml-duplicate-key", 3)]),
    ("a: 1\n'a': 2", [("yaml-duplicate-key", 3)]),
    ("a:\n  b: 1\n  b: 2", [("yaml-duplicate-key", 4)]),
    ("a: [{b: 1, b: 2}]", [("yaml-duplicate-key", 2)]),
    ("<<: {}\n<<: {}", [("yaml-duplicate-key", 3)]),
    ("1: x\ntrue: y\n~: z\n1.5: w", [("yaml-key", 2), ("yaml-key", 3), ("yaml-key", 4), ("yaml-key", 5)]),
    ("a: {2: x}", [("yaml-key", 2)]),
    ("? [a]\n: x", [("yaml-key", 2)]),
    ("? {a: b}\n: x", [("yaml-key", 2)]),
    ("a: {{name}}", [("yaml-key", 2)]),
    ("?\n: x", [("yaml-key", 2)]),
    (": x", [("yaml-key", 2)]),
    # tags
    ("a: !foo b", [("yaml-tag", 2)]),
    ("a: !!python/object:os.system b", [("yaml-tag", 2)]),
    ("a: !!python/name:os.system", [("yaml-tag", 2)]),
    ("a: !!timestamp 2024-01-01", [("yaml-tag", 2)]),
    ("a: !!binary aGk=", [("yaml-tag", 2)]),
    ("a: !!set {b}", [("yaml-tag", 2)]),
    ("a: !!omap [b: c]", [("yaml-tag", 2)]),
    ("a: !!int 1.5", [("yaml-tag", 2)]),
    ("a: !!float 1", [("yaml-tag", 2)]),
    ("a: !!bool yes", [("yaml-tag", 2)]),
    ("a: !!null x", [("yaml-tag", 2)]),
    ("a: !!map [b]", [("yaml-tag", 2)]),
    ("a: !!seq {b: c}", [("yaml-tag", 2)]),
    ("a: !<str> b", [("yaml-tag", 2)]),
    # numbers that JSON does not have
    ("a: .inf", [("yaml-not-finite", 2)]),
    ("a: -.INF\nb: .NaN\nc: +.Inf", [("yaml-not-finite", 2), ("yaml-not-finite", 3), ("yaml-not-finite", 4)]),
    ("a: 1e999", [("yaml-not-finite", 2)]),
    ("a: !!float .inf", [("yaml-not-finite", 2)]),
    (f"a: {'9' * 309}", [("yaml-not-finite", 2)]),
    (f"a: -{'9' * 5000}", [("yaml-not-finite", 2)]),
    (f"a: 0x{'f' * 5000}", [("yaml-not-finite", 2)]),
    (f"a: 0o{'7' * 400}", [("yaml-not-finite", 2)]),
    # anchors and aliases
    ("a: *b", [("yaml-alias", 2)]),
    ("a: &x [*x ]", [("yaml-alias", 2)]),
    ("a: &x {b: {c: *x }}", [("yaml-alias", 2)]),
    ("a: &xhttp://example.org", [("yaml-alias", 2)]),
    ("a: &x:y [b]", [("yaml-alias", 2)]),
    # characters
    ("a: b\nc: \x07", [("yaml-unprintable", 3)]),
    ("a: \x7f", [("yaml-unprintable", 2)]),
    ("a: \x80", [("yaml-unprintable", 2)]),
    ("a: \ufffe", [("yaml-unprintable", 2)]),
    ("a: b\rc: d", [("yaml-unprintable", 2)]),
    ("a: b\0", [("yaml-unprintable", 2)]),
    # documents and directives
    ("a: b\n--- c", [("yaml-documents", 3)]),
    ("--- a: b", [("yaml-documents", 2)]),
    ("a: b\n...", [("yaml-documents", 3)]),
    ("%YAML 1.2", [("yaml-directive", 2)]),
    ("%TAG ! tag:example.org,2024:\na: b", [("yaml-directive", 2)]),
    ("%x y\na: b", [("yaml-directive", 2)]),
    # quotes, colons and other signs
    ("a: Use when: b", [("yaml-unquoted-colon", 2)]),
    ("n: x\na: ends with:", [("yaml-unquoted-colon", 3)]),
    ("a: starts\n  Note: goes on", [("yaml-unquoted-colon", 3)]),
    ("a: starts\n  goes on\n\n  Note: more", [("yaml-unquoted-colon", 5)]),
    ("a: b\n c: d", [("yaml-unquoted-colon", 3)]),
    ("a: ::", [("yaml-unquoted-colon", 2)]),
    ("a:\n  - b: c: d", [("yaml-unquoted-colon", 3)]),
    ("a: 'it's'", [("yaml-quote", 2)]),
    ('a: "b" c', [("yaml-quote", 2)]),
    ("a: 'b", [("yaml-quote", 2)]),
    ('n: x\na: "b\nc: d', [("yaml-quote", 3)]),
    ("n: x\n\na: 'b\nc: 'd'", [("yaml-quote", 4)]),
    ("n: x\na: 'b\nm: y\nc: 'd'", [("yaml-quote", 3)]),
    ("k:\n- 'b\n  c: 'd'", [("yaml-quote", 4)]),
    ("n: x\na: 'b' 'c'", [("yaml-quote", 3)]),
    ("n: x\na: 'b' c: 'd'", [("yaml-quote", 3)]),
    ("'a: b", [("yaml-quote", 2)]),
    ("- 'b", [("yaml-quote", 2)]),
    ('a: "\\d"', [("yaml-escape", 2)]),
    ('a: "\\ud800"', [("yaml-escape", 2)]),
    ('a: "\\\\\\ud83d"', [("yaml-escape", 2)]),
    ('a: "\\U00110000"', [("yaml-escape", 2)]),
    ('a: "\\UFFFFFFFF"', [("yaml-escape", 2)]),
    ('a: "\\u12"', [("yaml-escape", 2)]),
    ('a: "b\\\n\n  c"', [("yaml-escape", 2)]),
    ("a: @b", [("yaml-special", 2)]),
    ("a: `b`", [("yaml-special", 2)]),
    ("a: %b", [("yaml-special", 2)]),
    ("a: **b** c", [("yaml-special", 2)]),
    ("a: * b", [("yaml-special", 2)]),
    ("a: & b", [("yaml-special", 2)]),
    ("a: ? b", [("yaml-special", 2)]),
    ("a: ] b", [("yaml-special", 2)]),
    ("a: [b] c", [("yaml-special", 2)]),
    ("a: [b, c", [("yaml-special", 2)]),
    ("a: {b} c", [("yaml-special", 2)]),
    ("a: [b, @c]", [("yaml-special", 2)]),
    ("a: > b", [("yaml-block", 2)]),
    ("a: |b", [("yaml-block", 2)]),
    ("a: >-b", [("yaml-block", 2)]),
    ("a: |1\n  b\n  \nc: d", [("yaml-block", 2)]),
    ("a: - b", [("yaml-list", 2)]),
    ("a: -\n", [("yaml-list", 2)]),
    # layout
    ("\ta: b", [("yaml-tab", 2)]),
    ("a:\n\tb: c", [("yaml-tab", 3)]),
    ("a: b\n\tc: d", [("yaml-tab", 3)]),
    ("a: |\n\tb", [("yaml-tab", 3)]),
    ("a: |\n  \tb", [("yaml-tab", 3)]),
    ("a:\n-\tb", [("yaml-tab", 3)]),
    ("a: b\n\t\nc: d", [("yaml-tab", 3)]),
    ("a:b\nc: d", [("yaml-no-colon", 2)]),
    ("a b\nc: d", [("yaml-no-colon", 2)]),
    ("a: b\nc", [("yaml-no-colon", 3)]),
    ("a: b\nc\nd: e", [("yaml-no-colon", 3)]),
    ("a: b\nc:d\n e: f", [("yaml-no-colon", 3)]),
    ("m:\n  a: b\n  c d\n  e: f", [("yaml-no-colon", 4)]),
    ("m:\n  a b\n  c: d", [("yaml-no-colon", 3)]),
    (" a b\nc: d", [("yaml-no-colon", 2)]),
    ("a b\n\n c d\ne: f", [("yaml-no-colon", 2)]),
    ("  a: b\nc: d", [("yaml-indentation", 3)]),
    ("  a: b\nc: 'd'", [("yaml-indentation", 3)]),
    ("  a: b\nc: [d]", [("yaml-indentation", 3)]),
    ("  a: b\nc: d: e", [("yaml-indentation", 3)]),
    ("a: b\n- c", [("yaml-indentation", 3)]),
    ("a: >\n  b\n c\nd: e", [("yaml-indentation", 4)]),
    ("a: 'b\nc'", [("yaml-indentation", 3)]),
    ('a: "b\n  c\n\nd"', [("yaml-indentation", 5)]),
    ("a:\n  b: 'c\n  d'", [("yaml-indentation", 4)]),
    ("a: [\nb]", [("yaml-indentation", 3)]),
    ("a:\n  b: [\n    c\n]", [("yaml-indentation", 5)]),
    ("a:\n|\n  b", [("yaml-indentation", 3)]),
    ("[a, b: c", [("yaml-syntax", 2)]),
]


@pytest.mark.parametrize(("block", "expected"), REFUSED, ids=[repr(block)[:60] for block, _ in REFUSED])
def test_bad_yaml_is_refused_by_rule_and_line(block: str, expected: list[tuple[str, int]]) -> None:
    assert refusal(block) == expected


def test_every_mistake_that_does_not_stop_the_reading_is_reported() -> None:
    assert refusal("a: .inf\na: 1\n2: x\nb: !foo c\nd: *e") == [
        ("yaml-not-finite", 2),
        ("yaml-duplicate-key", 3),
        ("yaml-key", 4),
        ("yaml-tag", 5),
        ("yaml-alias", 6),
    ]
    assert len(refusal("a: 1\n" * 200)) == Limits().issues_per_file


LAUGHS = "a: &a [lol]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before + ' '] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("block", "rule"),
    [
        (LAUGHS, "yaml-too-large"),
        ("a: &a {k: &b [1, 2.5, true, null]}\nb: [" + "*a , " * 9000 + "]", "yaml-too-large"),
        (f"a: &a {'x' * 30000}\nb: [*a , *a , *a ]", "yaml-too-large"),
        (f"a: &a {{{'x' * 900}: 1}}\nb: [{'*a , ' * 100}]", "yaml-too-large"),
        ("a: " + "x" * 70000, "yaml-too-large"),
        ("a: " + "[" * 60000, "yaml-too-deep"),
        ("a: " + "{a: " * 15000, "yaml-too-deep"),
        ("- " * 30000, "yaml-too-deep"),
        ("".join(" " * depth + "a:\n" for depth in range(40)), "yaml-too-deep"),
        ("a: &a " + "[" * 20 + "]" * 20 + "\nb: " + "[" * 20 + "*a " + "]" * 20, "yaml-too-deep"),
    ],
    ids=["laughs", "nodes", "text", "keys", "long", "flow", "flow map", "list", "block", "alias depth"],
)
def test_yaml_that_explodes_is_refused(block: str, rule: str) -> None:
    assert [found for found, _ in refusal(block)] == [rule]


def test_caps_come_from_limits() -> None:
    tight = Limits(frontmatter_bytes=100, frontmatter_depth=2, issues_per_file=1)
    assert parse_skill_md(document("a: [b]"), limits=tight).frontmatter == {"a": ["b"]}
    assert refusal("a: [[b]]", limits=tight) == [("yaml-too-deep", 2)]
    assert refusal("a: " + "b" * 100, limits=tight) == [("yaml-too-large", 2)]
    assert refusal("1: a\n2: b", limits=tight) == [("yaml-key", 2)]


def test_an_alias_is_a_copy() -> None:
    found = read("a: &x [1]\nb: *x")
    found["a"].append(2)
    assert found["b"] == [1]


def test_a_whole_number_keeps_its_digits_up_to_the_largest_double() -> None:
    largest = int(sys.float_info.max)
    assert read(f"a: 12345678901234567890\nb: -{largest}\nc: {'0' * 5000}7\nd: +{'0' * 500}") == {
        "a": 12345678901234567890,
        "b": -largest,
        "c": 7,
        "d": 0,
    }


@pytest.mark.process
def test_without_the_c_parser_one_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['yaml._yaml'] = None\n"
        "from skillwire.errors import SourceError\n"
        "from skillwire.skill.files import parse_skill_md\n"
        "parse_skill_md(b'---\\nname: plain\\n---\\n')\n"
        "try:\n"
        "    parse_skill_md(b'---\\nname: [a]\\n---\\n')\n"
        "except SourceError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "no C parser (libyaml)" in done.stdout
    assert "pip install" in done.stdout
