"""JSON, TOML and YAML of others: refused by size, values, nesting and digits before anything is built."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from skillwire.documents import DocumentError, check_json, read_json, read_toml, read_yaml
from skillwire.errors import LimitExceeded
from skillwire.limits import DEFAULT_LIMITS

SMALL = replace(DEFAULT_LIMITS, document_bytes=1_000)


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("unit", [b"{},", b"[],", b'"",', b'{"a":{}},', b"1,"])
def test_json_of_nothing_but_structure_is_refused_unparsed(unit: bytes) -> None:
    with pytest.raises(LimitExceeded, match="values: it is refused"):
        check_json(b"[" + unit * (4_000_000 // len(unit)) + b"1]")


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "data",
    [
        b'{"text": "' + b"1,2,3,[]{}" * 400_000 + b'"}',
        b'{"text": "' + b'\\\\\\",[' * 400_000 + b'"}',
        b'["' + b"[" * 3_000_000,
        b"[" + b'{"uri":"skill://a/b.md","digest":"sha256:' + b"0" * 64 + b'","size":12},' * 50_000 + b"1]",
    ],
)
def test_structure_inside_strings_and_real_listings_pass(data: bytes) -> None:
    check_json(data)


@pytest.mark.parametrize("read", [read_json, read_toml, read_yaml])
def test_a_text_beyond_the_size_is_refused_unparsed(read: Callable[..., Any]) -> None:
    with pytest.raises(LimitExceeded, match="the index has 1,001 bytes, at most 1,000 are read"):
        read(b"[" * 1_001, what="the index", limits=SMALL)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": [1, 2.5, "x", null, true]}', {"a": [1, 2.5, "x", None, True]}),
        (b"\xef\xbb\xbf[]", []),
        (b'"' + b"1" * 5_000 + b'"', "1" * 5_000),
        (b"[" + b"9" * 400 + b"]", [int("9" * 400)]),
        (b'["[[["' + b', "{"' * 100 + b"]", ["[[[", *["{"] * 100]),
    ],
)
def test_plain_json_is_read(data: bytes, value: object) -> None:
    assert read_json(data) == value
    assert read_json(data.decode()) == value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"{]", "not JSON"),
        (b"[NaN]", "NaN is not a number"),
        (b"[-Infinity]", "-Infinity is not a number"),
        (b"\xff\xfe[\x00]\x00", "not UTF-8"),
        (b'["\xff"]', "not UTF-8"),
        (b"[" * 65 + b"]" * 65, "nested too deeply"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested too deeply"),
        (b"[" + b"9" * 401 + b"]", "too many digits"),
        (b"[" + b"9" * 401 + b".5]", "too many digits"),
        (b"[1." + b"9" * 401 + b"]", "too many digits"),
    ],
)
def test_json_that_is_not_plain_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read_json(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a": 1, "a": 2}', "names a field twice"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        ('"\ufeff"'.encode("utf-16"), "not UTF-8"),
    ],
)
def test_strict_json_has_each_key_once_and_no_byte_order_mark(data: bytes, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read_json(data, strict=True)


def test_brackets_that_are_closed_do_not_count_as_nesting() -> None:
    rows = [{"a": [n]} for n in range(2_000)]
    assert read_json(json.dumps(rows)) == rows


TOML = """
# a.b.c, and "quotes' that never close
version = 1
[[skill]]
name = "a.b.c.d" # = , [
files = [
  { path = "SKILL.md", digest = 'sha256:00', size = 1_000 },
]
text = \"\"\"
a.a.a.a = [ "
\"\"\"
"quoted.key".x = 1979-05-27
"""


def test_plain_toml_is_read() -> None:
    table = read_toml(TOML.encode())
    assert table["skill"][0]["files"] == [{"path": "SKILL.md", "digest": "sha256:00", "size": 1_000}]
    assert table["skill"][0]["text"].startswith("a.a.a.a")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = ", "not TOML"),
        ("a." * 40 + "a = 1", "more than 32 parts"),
        ('"a" . ' * 40 + "a = 1", "more than 32 parts"),
        ("[" + "a." * 40 + "a]", "more than 32 parts"),
        ("x = {" + "'b'." * 40 + "a = 1}", "more than 32 parts"),
        ("a = " + "1" * 401, "too many digits"),
        ("a = 0x" + "f" * 400, "too many digits"),
        ("a = " + "1_" * 300 + "1", "too many digits"),
        ("a = " + "[" * 5_000, "nested too deeply"),
        ("a = 2020-13-01", "not TOML|out of range"),
    ],
)
def test_toml_that_is_not_plain_is_refused(text: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read_toml(text)


@pytest.mark.parametrize("unit", ["[a{}]\n", "[[a]]\n", "a=[{}]\n"])
def test_toml_of_nothing_but_structure_is_refused_unparsed(unit: str) -> None:
    with pytest.raises(LimitExceeded, match=r"more than [0-9,]+ values: shorten it"):
        read_toml("".join(unit.format(number) for number in range(400_000)))


def test_a_lock_of_four_thousand_skills_has_few_enough_values() -> None:
    files = '  { path = "references/guide.md", digest = "sha256:' + "0" * 64 + '", size = 1234 },\n'
    skill = '[[skill]]\nname = "a"\nsource = "docs/a"\nfiles = [\n' + files * 10 + "]\n"
    read_toml(skill * 4_000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: off\nb: [1, 2]\nc: {d: ~}", {"a": "off", "b": ["1", "2"], "c": {"d": "~"}}),
        ("a: &x [1]\nb: *x", {"a": ["1"], "b": ["1"]}),
    ],
)
def test_plain_yaml_is_read_as_text(text: str, value: object) -> None:
    assert read_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [", "not YAML in line"),
        ("--- 1\n--- 2", "more than one document"),
        ("[" * 65 + "]" * 65, "nested too deeply"),
        ("? [a]\n: b", "a key is not a text"),
        ("a: &x [*x]", "not complete"),
        ("a: *nothing", "not complete|not YAML"),
    ],
)
def test_yaml_that_is_not_plain_is_refused(text: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read_yaml(text)


def test_aliases_count_as_what_they_stand_for() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(LimitExceeded, match="more than 600,000 values"):
        read_yaml("\n".join(lines))


def test_yaml_of_nothing_but_structure_is_refused_while_it_is_read() -> None:
    with pytest.raises(LimitExceeded, match="more than 600,000 values"):
        read_yaml("- {}\n" * 300_000)
