"""Skills that functions make: static ones with digests, dynamic ones made anew, failing ones alone."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from skillwire import DYNAMIC, FormatError, FunctionSource, SkillNotFound, SourceError
from skillwire.skill import SkillUri
from trees import assert_serves_what_it_lists, skill_md

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("ENT-2", "ENT-3")
async def test_a_static_skill_is_made_once_and_listed_with_digests() -> None:
    source = FunctionSource()
    calls = 0

    @source.static("acme/tool")
    def tool() -> Any:
        nonlocal calls
        calls += 1
        return {"SKILL.md": skill_md("tool"), "notes/ü 1.txt": f"call {calls}", "raw.bin": bytearray(b"\xff")}

    await assert_serves_what_it_lists(source)
    (entry,) = await source.list_entries()
    assert entry.uri == "skill://acme/tool/SKILL.md"
    assert [file.uri for file in entry.resources] == [  # type: ignore[union-attr]
        "skill://acme/tool/SKILL.md",
        "skill://acme/tool/notes/%C3%BC%201.txt",
        "skill://acme/tool/raw.bin",
    ]
    assert await source.get_entry(entry.uri) is entry
    assert await source.list_entries() is await source.list_entries()
    assert calls == 1


async def test_a_static_skill_asked_for_by_many_at_once_is_still_made_once() -> None:
    source = FunctionSource()
    calls = 0

    @source.static("tool")
    async def tool() -> str:
        nonlocal calls
        calls += 1
        await anyio.lowlevel.checkpoint()
        return skill_md("tool", f"Made {calls}.").decode()

    read: list[bytes] = []

    async def reader() -> None:
        read.append((await source.read(SkillUri("skill://tool/SKILL.md"))).data)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(reader)
    assert set(read) == {skill_md("tool", "Made 1.")}


@pytest.mark.requirement("ENT-2")
async def test_a_dynamic_skill_is_listed_as_such_and_made_at_each_read() -> None:
    source = FunctionSource()
    calls = 0

    @source.dynamic("clock")
    async def clock() -> dict[str, str]:
        nonlocal calls
        calls += 1
        return {"SKILL.md": skill_md("clock").decode(), "now.txt": str(calls)}

    (entry,) = await source.list_entries()
    assert entry.resources is DYNAMIC
    first, second = [(await source.read(SkillUri("skill://clock/now.txt"))).data for _ in range(2)]
    assert first != second
    made = calls
    for _ in range(5):
        await source.list_entries()
    assert calls == made, "a page of a listing need not make every skill anew"


async def test_a_name_beyond_ascii_is_compared_with_its_own_path() -> None:
    source = FunctionSource()
    source.static("team/café")(lambda: skill_md("café").decode())
    (entry,) = await source.list_entries()
    assert (entry.name, source.problems()) == ("café", ())


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "it returned NoneType"),
        (b"bytes", "it returned bytes"),
        ({}, "SKILL.md is not among the listed files"),
        ({"SKILL.md": "nothing"}, "frontmatter"),
        ({"SKILL.md": skill_md("other")}, "is not the name of its directory"),
        ({"SKILL.md": skill_md("tool"), "n": 5}, "'n' is not a path with text or bytes"),
        ({"SKILL.md": skill_md("tool"), 5: "n"}, "5 is not a path with text or bytes"),
        ({"SKILL.md": skill_md("tool"), "../up": "x"}, "plain path segments"),
        ({"SKILL.md": skill_md("tool"), "/abs": "x"}, "plain path segments"),
        ({"SKILL.md": skill_md("tool"), "a": "x", "a/b": "y"}, "skill://tool/a/b lies below a file"),
        ({"SKILL.md": skill_md("tool"), "a\nb": "x"}, "control characters"),
        ({"SKILL.md": skill_md("tool"), "x": "\udc80"}, "surrogates not allowed"),
        (RuntimeError("password is hunter2"), "hunter2"),
    ],
)
async def test_a_failing_function_affects_only_itself_and_only_the_operator_is_told(
    caplog: pytest.LogCaptureFixture, returned: Any, reason: str
) -> None:
    source = FunctionSource()

    @source.static("tool")
    def tool() -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    source.static("team/good")(lambda: skill_md("good").decode())
    with caplog.at_level(logging.WARNING):
        assert [entry.name for entry in await source.list_entries()] == ["good"]
    (problem,) = source.problems()
    assert problem.place == "skill://tool"
    assert reason in str(problem)
    assert "skill://tool" in caplog.text
    for asked in (source.read, source.get_entry):
        with pytest.raises(SourceError) as failed:
            await asked(SkillUri("skill://tool/SKILL.md"))
        assert str(failed.value) == "the function behind skill://tool failed"
    assert [child.name for child in await source.read_directory(SkillUri("skill://team"))] == ["good"]


async def test_a_function_that_recovers_is_served() -> None:
    source = FunctionSource()
    answers = iter([RuntimeError("not yet"), skill_md("tool").decode()])

    @source.static("tool")
    def tool() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await source.list_entries() == ()
    assert [entry.name for entry in await source.list_entries()] == ["tool"]
    assert source.problems() == ()


@pytest.mark.requirement("FMT-8")
@pytest.mark.parametrize("second", ["a/b", "a", "a/b/c/d"])
def test_two_functions_cannot_share_a_directory(second: str) -> None:
    source = FunctionSource()
    source.static("a/b/c" if second == "a/b/c/d" else "a" if second == "a/b" else second)(lambda: "")
    with pytest.raises(ValueError, match="its own directory"):
        source.dynamic(second)(lambda: "")


def test_an_invalid_path_is_refused_at_once() -> None:
    with pytest.raises(FormatError):
        FunctionSource().static("a//b")


@pytest.mark.requirement("DIR-1", "DIR-2", "DIR-3")
async def test_made_files_are_listed_at_every_level() -> None:
    source = FunctionSource()
    source.static("acme/tool")(lambda: {"SKILL.md": skill_md("tool"), "a/b.txt": "b", "a/c/d.txt": "d"})

    async def names(uri: str) -> list[tuple[str, bool]]:
        return [(c.name, c.is_directory) for c in await source.read_directory(SkillUri(uri))]

    assert await names("skill://acme") == [("tool", True)]
    assert await names("skill://acme/tool") == [("SKILL.md", False), ("a", True)]
    assert await names("skill://acme/tool/a") == [("b.txt", False), ("c", True)]
    for none in ("skill://other", "skill://acme/tool/a/b.txt", "skill://acme/tool/none"):
        with pytest.raises(SkillNotFound, match=none):
            await source.read_directory(SkillUri(none))
    with pytest.raises(SkillNotFound):
        await source.read(SkillUri("skill://acme/tool/a"))
    with pytest.raises(SkillNotFound):
        await source.get_entry(SkillUri("skill://acme/SKILL.md"))
