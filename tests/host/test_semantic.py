"""Search by meaning, with the package that carries the vectors, from an environment of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.search import run

from command_line import new_user, runner
from environments import environment
from sample_entries import skill_md
from simulator import Simulator, make_host
from skillwire.catalog.search import Document
from skillwire.errors import SourceError
from skillwire.host import SkillHost, load_config
from skillwire.host.semantic import SkillVectors
from skillwire.limits import Limits
from trees import write

pytestmark = pytest.mark.anyio

SKILLS = {
    "refunds": "Returns money to customers.",
    "deploy": "Ships a service to production.",
    "photos": "Crops and resizes images.",
    "payroll": "Pays salaries of employees.",
}


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The packages of the extra `semantic` can be imported."""
    folder = next((environment("semantic").parent.parent / "lib").glob("python*")) / "site-packages"
    if folder.parent.name != f"python{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip("the packages are those of another Python")
    monkeypatch.syspath_prepend(folder)
    yield folder
    assert "wordllama" not in sys.modules, "its code was imported"


@asynccontextmanager
async def shop(tmp_path: Path, **options: Any) -> AsyncGenerator[SkillHost]:
    sim = Simulator()
    for name, description in SKILLS.items():
        sim.skill(name, description=description)
    async with make_host(tmp_path, servers={"shop": sim.server}, **options) as host:
        yield host


async def names(host: SkillHost, query: str, **options: Any) -> list[str]:
    return [found.skill.entry.name for found in await host.search(query, **options)]


async def test_a_skill_is_found_by_meaning_where_no_word_is_the_same(tmp_path: Path, packages: Path) -> None:
    async with shop(tmp_path, semantic=True) as host:
        found = await host.search("give the buyer their cash back")
        assert found[0].skill.entry.name == "refunds"
        assert found[0].partial
        assert not found[0].by_text
        assert found[0].snippet == SKILLS["refunds"]
        assert (await names(host, "crop", limit=1)) == ["photos"]
        assert await names(host, "give the buyer their cash back", server="shop", limit=1) == ["refunds"]
        # A skill that is turned off is not a result, however close it is.
        host.decide.set_enabled("refunds", False)
        assert "refunds" not in await names(host, "give the buyer their cash back")
    async with shop(tmp_path) as host:
        assert await names(host, "give the buyer their cash back") == []


async def test_nothing_is_found_by_meaning_that_is_not_close(tmp_path: Path, packages: Path) -> None:
    async with shop(tmp_path, semantic=True) as host:
        assert await names(host, "galaxies and black holes") == []


async def test_without_the_package_a_search_says_what_to_install(tmp_path: Path) -> None:
    async with shop(tmp_path, semantic=True) as host:
        with pytest.raises(SourceError, match=r"needs the package wordllama: .*'\.\[semantic\]'"):
            await host.search("money")
        assert [skill.entry.name for skill in host.skills()] == sorted(SKILLS)


def test_the_setting_has_no_effect_without_the_package_and_that_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "skillwire.toml"
    file.write_text("semantic = true\n")
    config = load_config(file=file)
    assert not config.semantic
    assert config.problems[0].startswith("semantic = true has no effect: search by meaning needs the package")


def test_the_setting_is_used_where_the_package_is(tmp_path: Path, packages: Path) -> None:
    file = tmp_path / "skillwire.toml"
    file.write_text("semantic = true\n")
    config = load_config(file=file)
    assert config.semantic
    assert not config.problems


def test_a_package_with_other_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packages: Path
) -> None:
    write(tmp_path / "wordllama/__init__.py", b"raise SystemExit('never imported')")
    write(tmp_path / "wordllama/weights/l2_supercat_256.safetensors", b"\xff" * 16)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SourceError, match=r"has no model that can be read here .*: install the version"):
        SkillVectors[str](Limits()).update([])


def test_the_order_depends_on_neither_the_order_of_skills_nor_on_earlier_changes(packages: Path) -> None:
    documents = list(run.documents(text=False))
    one: SkillVectors[str] = SkillVectors(Limits())
    one.update(documents)
    other: SkillVectors[str] = SkillVectors(Limits())
    other.update([Document("gone", "gone", "Was here."), *reversed(documents)])
    other.update(documents[:10], removed=["gone"])
    for question, _ in run.labels("tuning")[:40]:
        assert list(one.nearest(question).items()) == list(other.nearest(question).items())
        assert len(one.nearest(question)) <= 50


def test_vectors_are_bounded_and_it_is_said_when_the_limit_cuts(
    packages: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vectors: SkillVectors[str] = SkillVectors(Limits(search_vectors=2))
    for name, description in SKILLS.items():
        vectors.update([Document(name, name, description)])
    assert set(vectors.nearest("money, salaries, production, customers, images")) <= {"refunds", "deploy"}
    assert [record.message for record in caplog.records] == [
        "search by meaning covers 2 skills; others are found by their words alone"
    ]
    vectors.update([Document("photos", "photos", SKILLS["photos"])], removed=["refunds"])
    assert "photos" in vectors.nearest("resize an image")


@pytest.mark.parametrize("text", ["", "\x00\x1b[31m\u202e", "\ud800", "z" * 5000, "𝔘" * 400, "退款" * 500])
def test_any_text_has_a_vector(text: str, packages: Path) -> None:
    vectors: SkillVectors[str] = SkillVectors(Limits())
    vectors.update([Document("a", "a", text.encode("utf-8", "replace").decode())])
    assert set(vectors.nearest(text)) <= {"a"}


def test_meaning_finds_more_on_the_labeled_set(packages: Path) -> None:
    for half, least in (("tuning", 0.04), ("held-out", 0.04)):
        shares: list[float] = []
        for semantic in (False, True):
            rows = [row for row in run.ranks(half, text=False, semantic=semantic) if row[0] is not None]
            shares.append(sum(answer in found[:5] for answer, found in rows) / len(rows))
        assert shares[1] - shares[0] >= least


def test_the_commands_search_by_meaning_if_asked_to(
    tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = new_user(tmp_path, monkeypatch)
    for name, description in SKILLS.items():
        write(work / "skills" / name / "SKILL.md", skill_md(name, description))
    (work / "q.jsonl").write_text('{"question": "give the buyer their cash back", "skill": "refunds"}\n')
    run_command = runner(monkeypatch, capsys)
    ended = run_command("eval", "skills", "--questions", "q.jsonl", "--descriptions", "--semantic")
    assert "names and descriptions, and by meaning" in ended.out
    assert "first result right            100.0 %" in ended.out
    searched = run_command("search", "buyer", "cash", "--dir", "skills", "--semantic")
    assert "refunds" in searched.out
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(packages)])
    ended = run_command("search", "buyer", "--dir", "skills", "--semantic")
    assert (ended.code, ended.err.count("\n")) == (4, 1)
    assert "search by meaning needs the package wordllama: " in ended.err
    (work / "own.toml").write_text("semantic = true\n")
    ended = run_command("search", "money", "--dir", "skills", "--config", "own.toml")
    assert "refunds" in ended.out
    assert "semantic = true has no effect: search by meaning needs the package" in ended.err
