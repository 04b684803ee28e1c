"""The lock file: what is written is read back, for people to review."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from install.samples import locked
from properties import examples
from skillwire.errors import FormatError, SkillNotFound
from skillwire.install import Lock, LockedFile, LockedSkill, Pin, Powers, format_lock, parse_lock
from skillwire.skill import Digest, digest_of, parse_name, set_digest

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_SEGMENT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=8
).filter(lambda text: text not in (".", ".."))
_KEY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).map(lambda key: f"x-{key}")
_SCALARS = st.booleans() | st.integers(-(2**62), 2**62) | _TEXT | st.floats(allow_nan=False)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2)
)
_EXTRA = st.dictionaries(_KEY, _VALUES, max_size=2).map(lambda table: tuple(sorted(table.items())))


@st.composite
def locked_skills(draw: st.DrawFn, name: str) -> LockedSkill:
    names = draw(st.lists(_SEGMENT, unique=True, max_size=3))
    paths = {"SKILL.md", *(f"in/{segment}" for segment in names)}
    rows = tuple(
        LockedFile(
            path, digest_of(path.encode()), draw(st.integers(0, 2**40)), draw(st.booleans()), draw(_EXTRA)
        )
        for path in sorted(paths)
    )
    return LockedSkill(
        name=parse_name(name),
        source=draw(_TEXT),
        pin=Pin.make("git", repository=draw(_TEXT), commit="a" * 40, path=draw(st.just("") | _TEXT)),
        digest=set_digest((row.path, row.digest) for row in rows),
        files=rows,
        powers=Powers(
            tuple(sorted(draw(st.lists(_TEXT, max_size=2, unique=True)))),
            tuple(sorted(draw(st.lists(_TEXT, max_size=2, unique=True)))),
        ),
        signer=draw(st.just("unsigned") | _TEXT),
        targets=tuple(sorted(draw(st.sets(st.sampled_from(["claude-code", "goose"]))))),
        extra=draw(_EXTRA),
    )


@examples(50)
@given(st.data())
def test_a_lock_that_was_written_is_read_back(data: st.DataObject) -> None:
    skills = [
        data.draw(locked_skills(name)) for name in data.draw(st.lists(st.sampled_from("abc"), unique=True))
    ]
    lock = Lock(tuple(sorted(skills, key=lambda skill: skill.name)), data.draw(_EXTRA))
    text = format_lock(lock)
    assert parse_lock(text) == lock
    assert format_lock(parse_lock(text)) == text
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_lock_looks_like_this() -> None:
    skill = locked("pdf", {"scripts/run.sh": b"#!/bin/sh\n"}, targets=("goose", "claude-code"))
    assert format_lock(Lock((skill,))).split("\n")[1:14] == [
        "version = 1",
        "",
        "[[skill]]",
        'name = "pdf"',
        'source = "docs/pdf"',
        'pin = { kind = "mcp", server = "docs", uri = "skill://pdf/SKILL.md", '
        'url = "https://docs.example/mcp" }',
        f'digest = "{skill.digest}"',
        'signer = "unsigned"',
        'scripts = ["scripts/run.sh"]',
        'targets = ["claude-code", "goose"]',
        "files = [",
        f'    {{ path = "SKILL.md", size = {skill.files[0].size}, digest = "{skill.files[0].digest}" }},',
        f'    {{ path = "scripts/run.sh", size = 10, digest = "{skill.files[1].digest}" }},',
    ]


def test_the_order_of_skills_does_not_matter_to_the_text() -> None:
    one, two = locked("a"), locked("b")
    assert format_lock(Lock((two, one))) == format_lock(Lock((one, two)))
    assert [skill.name for skill in Lock((two,)).put(one).skills] == ["a", "b"]


def test_keys_that_are_not_known_survive() -> None:
    text = format_lock(Lock((locked(),)))
    text = text.replace("version = 1\n", "version = 1\nreviewed = 2026-11-16\n")
    text = text.replace('signer = "unsigned"\n', 'signer = "unsigned"\nnote = { by = ["me", 1.5] }\n')
    text = text.replace('url = "https://docs.example/mcp"', 'url = "https://docs.example/mcp", tier = 2')
    text = text.replace(" },\n]", ", license = true },\n]")
    again = format_lock(parse_lock(text).put(locked("other")).without(["other"]))
    for kept in ("reviewed = 2026-11-16", 'note = { by = ["me", 1.5] }', "tier = 2", "license = true"):
        assert kept in again
    assert again == text


def _broken(**changes: Any) -> str:
    skill = locked()
    return format_lock(Lock((replace(skill, **changes),)))


def _with_path(path: str) -> str:
    text = format_lock(Lock((locked(files={"a": b""}),)))
    return text.replace('path = "a"', f'path = "{path}"')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("version = 2\n", "version is 2", id="another version"),
        pytest.param("", "has no version", id="no version"),
        pytest.param("version = true\n", "version is True", id="true is not 1"),
        pytest.param("version = 1\nskill = 3\n", "not a table", id="no list"),
        pytest.param("version = ", "not TOML", id="not TOML"),
        pytest.param(_broken(name="Bad Name"), "characters", id="a name that is none"),
        pytest.param(_broken(name="../evil"), "characters", id="a name that leaves the folder"),
        pytest.param(_broken(digest="sha256:" + "0" * 64), "its files give", id="a digest of other files"),
        pytest.param(_broken(source=""), "source is not text", id="no source"),
        pytest.param(_broken(pin=Pin("carrier-pigeon")), "is not known here", id="a kind of the future"),
        pytest.param(_broken(pin=Pin.make("git", repository="x")), "commit", id="a pin without its commit"),
        pytest.param(_with_path("../a"), "not a plain path", id="a path that leaves"),
        pytest.param(_with_path("/a"), "not a plain path", id="an absolute path"),
        pytest.param(_with_path("a\\\\b"), "not a plain path", id="a backslash"),
        pytest.param(_with_path("SKILL.md"), "listed twice", id="a file twice"),
        pytest.param(
            _with_path("a").replace("signer =", 'signer = "acme"\nsigner ='), "not TOML", id="a key twice"
        ),
    ],
)
def test_a_lock_that_cannot_be_trusted_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_lock(text)
    assert said in str(caught.value)
    assert "skillwire.lock" in str(caught.value)
    assert caught.value.issues[0].fix


def test_a_skill_needs_its_skill_md_and_no_file_below_a_file() -> None:
    file = LockedFile("a", digest_of(b""), 0)
    for files, said in (((file,), "SKILL.md"), ((file, file._replace(path="a/b")), "below a file")):
        rows = files if said == "SKILL.md" else (*files, file._replace(path="SKILL.md"))
        skill = replace(locked(), files=rows, digest=set_digest((row.path, row.digest) for row in rows))
        with pytest.raises(FormatError, match=said):
            parse_lock(format_lock(Lock((skill,))))


def test_every_mistake_is_named_at_once() -> None:
    text = format_lock(Lock((locked("a"), locked("b")))).replace('kind = "mcp"', 'kind = "x"')
    with pytest.raises(FormatError) as caught:
        parse_lock(text)
    assert [issue.message.split(":")[0] for issue in caught.value.issues] == ["skill a", "skill b"]


def test_a_skill_that_is_there_twice_is_refused() -> None:
    text = format_lock(Lock((locked("a"), locked("b")))).replace('name = "b"', 'name = "a"')
    with pytest.raises(FormatError, match="twice"):
        parse_lock(text)


def test_a_skill_that_is_not_there_is_named() -> None:
    lock = Lock((locked("a"),))
    assert lock.require("a").name == "a"
    with pytest.raises(SkillNotFound, match="no skill called b"):
        lock.require("b")


def test_a_pin_is_the_same_source_at_another_version() -> None:
    old = Pin.make("git", repository="r", path="p", commit="a" * 40)
    new = Pin.make("git", repository="r", path="p", commit="b" * 40)
    assert old.identity == new.identity != Pin.make("git", repository="r", commit="a" * 40).identity
    assert old.get("commit") == "a" * 40
    assert old.get("missing") == ""


def test_four_hundred_skills_are_read_by_the_fast_path_as_well() -> None:
    digest = Digest("sha256:" + "a" * 64)
    rows = tuple(LockedFile(path, digest, 1) for path in ("SKILL.md", "a", "b", "c", "d"))
    whole = set_digest((row.path, row.digest) for row in rows)
    skills = tuple(replace(locked(f"s{n:03}"), files=rows, digest=whole) for n in range(400))
    assert parse_lock(format_lock(Lock(skills))).skills == skills
