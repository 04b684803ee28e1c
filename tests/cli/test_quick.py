"""The quick way to read `skillwire serve`: it says what typer says, or nothing at all."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillwire.cli import serve_command
from skillwire.cli.app import app_for
from skillwire.cli.quick import read_quickly
from skillwire.cli.serve_options import Row, ServeOptions, table

TAKEN = [
    "./skills",
    "/srv/skills",
    "skills more other",
    "acme=./skills ~/more-skills",
    "a=b=c",
    "--http 127.0.0.1:8000 ./skills",
    "./skills --http 127.0.0.1:8000",
    "./skills --http=127.0.0.1:8000",
    "./skills --http=a=b",
    "one --http :0 two",
    "s --http h:1 --allow-host a --allow-host=b",
    "s --http h:1 --token-file ./token",
    "s --http h:1 --token-file=/a//b/../token",
    "s --http h:1 --unsafe-no-auth --stateless",
    "s --unsafe-no-auth",
    "s --ttl 0",
    "s --ttl 60",
    "s --ttl 1.5",
    "s --ttl=0.25",
    "s --ttl 31536000",
    "s --cache-scope public",
    "s --cache-scope=private",
    "s --page-size 1",
    "s --page-size=1000",
    "s --page-size 007",
    "s --unlisted internal/* --unlisted *",
    "s --allow-oversize --strict",
    "s --watch --manifests --prompt-xml --prompts",
    "s --no-watch --no-manifests --no-prompt-xml --no-prompts",
    "s --index d2",
    "s --index off",
    "s --tools always",
    "s --tools=never",
    "Straße naïve=日本",
]
LEFT = [
    "",
    "--help",
    "-h",
    "s --help",
    "s -h",
    "s -",
    "s --",
    "-- s",
    "s -- --http",
    "-s",
    "s -x",
    "s -http h:1",
    "s --htt h:1",
    "s --HTTP h:1",
    "s --nope",
    "s --nope=1",
    "s --page-size",
    "s --page-size=",
    "s --page-size 0",
    "s --page-size 1001",
    "s --page-size -1",
    "s --page-size +5",
    "s --page-size 1_0",
    "s --page-size 1.0",
    "s --page-size ٣",
    "s --page-size x",
    "s --page-size 99999999999999999999",
    "s --page-size 5 --page-size 6",
    "s --ttl nan",
    "s --ttl inf",
    "s --ttl 1e3",
    "s --ttl .5",
    "s --ttl 5.",
    "s --ttl -1",
    "s --ttl 31536001",
    "s --ttl 1_0",
    "s --http",
    "s --http=",
    "s --http --stateless",
    "s --http a --http b",
    "s --http -",
    "--http h:1",
    "s --stateless",
    "s --allow-host x",
    "s --token-file t",
    "s --token-file t --stateless",
    "s --stateless=yes",
    "s --strict=",
    "s --strict --strict",
    "s --watch --no-watch",
    "s --no-watch=1",
    "s --no-strict",
    "s --no-http",
    "s --cache-scope Public",
    "s --cache-scope everyone",
    "s --cache-scope",
    "s --index d1",
    "s --index D2",
    "s --tools auto,always",
    "s --version",
    "--version",
]
ODD = [
    [],
    [""],
    ["--version"],
    ["--help"],
    ["lint", "s"],
    ["Serve", "s"],
    ["--", "serve", "s"],
    ["serve", ""],
    ["serve", "s", ""],
    ["serve", "s", "--http", ""],
    ["serve", "s", "--ttl", " 5"],
    ["serve", "s", "--page-size", "5\n"],
    ["serve", "s", "--tools", "auto "],
    ["serve", "bell\x07"],
    ["serve", "line\nbreak"],
    ["serve", "bytes\udcff"],
    ["serve", "s", "--http", "h:1", "--token-file", "\udcff"],
]


def read_by_typer(words: list[str]) -> ServeOptions:
    """The options that a command line comes to on the long way. Whatever typer refuses raises."""
    found: list[ServeOptions] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(serve_command, "serve", found.append)
        app_for(words)(words, standalone_mode=False)
    [options] = found
    return options


def spelled(row: Row) -> list[list[str]]:
    """An option in every way that it can be given, each with a value that it takes."""
    if row.kind is bool:
        return [[name] for name in row.option.names]
    parts = [part for kind in (row.kind, *get_args(row.kind)) for part in get_args(kind)]
    choices = [part for part in parts if isinstance(part, str)]
    return [[row.option.spelling, value] for value in choices or ["7"]]


@pytest.mark.parametrize("line", TAKEN)
def test_a_plain_line_is_read_as_typer_reads_it(line: str) -> None:
    words = ["serve", *line.split()]
    options = read_quickly(words)
    assert options is not None
    assert options == read_by_typer(words)


@pytest.mark.parametrize("words", [*(["serve", *line.split()] for line in LEFT), *ODD], ids=ascii)
def test_whatever_else_is_left_to_typer(words: list[str]) -> None:
    assert read_quickly(words) is None


@pytest.mark.parametrize(
    "words", [words for row in table() if row.option.spelling for words in spelled(row)], ids=" ".join
)
def test_every_option_of_the_table_is_read_quickly(words: list[str]) -> None:
    line = ["serve", "skills", *words, *([] if "--http" in words else ["--http", "h:1"])]
    options = read_quickly(line)
    assert options is not None
    assert options == read_by_typer(line)


NAMES = [name for row in table() for name in row.option.names]
VALUES = [
    "s",
    "a=b",
    "7",
    "0",
    "1.5",
    "d3",
    "auto",
    "private",
    "",
    "-1",
    "--",
    "-h",
    "nan",
    " ",
    "é",
    "\udc80",
]
WORDS = st.one_of(
    st.sampled_from([*NAMES, *VALUES]),
    st.builds("{}={}".format, st.sampled_from(NAMES), st.sampled_from(VALUES)),
    st.text(max_size=6),
)


@given(st.lists(WORDS, max_size=6))
@settings(max_examples=300, deadline=None)
def test_of_any_words_it_reads_what_typer_reads_or_nothing(words: list[str]) -> None:
    line = ["serve", "skills", *words]
    options = read_quickly(line)
    if options is not None:
        assert options == read_by_typer(line)
