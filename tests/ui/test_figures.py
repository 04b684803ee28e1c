"""The selection figures of a skill on its page, before it is approved."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

import pytest

from sample_entries import skill_md
from simulator import Simulator
from skillwire.evals import selection_figures
from trees import write
from ui.visitor import visiting

pytestmark = pytest.mark.anyio

MINE = [{"query": "return a parcel <b>today</b>"}, {"query": "print a label"}]
THEIRS = [{"query": "pay money back"}, {"query": "unrelated words"}]


def machine(folder: Path, *, labels: bool) -> Path:
    write(folder / "skills/returns/SKILL.md", skill_md("returns", "Handles a parcel.", "Print a label.\n"))
    if labels:
        write(folder / "skills/returns/trigger_eval.json", json.dumps(MINE).encode())
    return folder / "skills"


def shop(*, labels: bool) -> Simulator:
    sim = Simulator()
    files = {"evals/trigger_eval.json": json.dumps(THEIRS).encode()} if labels else {}
    sim.skill("refunds", description="Pays money back. Return a parcel today.", files=files)
    return sim


async def page_of(folder: Path, sim: Simulator, skills: Path) -> str:
    options = {"figures": selection_figures}
    host_options = {"directories": [skills]}
    async with visiting(folder, app_options=options, host_options=host_options, shop=sim) as visitor:
        query = urlencode({"on": "shop", "uri": "skill://refunds/SKILL.md"})
        return await visitor.page(f"/skill?{query}")


async def test_the_page_says_whose_questions_a_skill_would_take(tmp_path: Path) -> None:
    page = await page_of(tmp_path, shop(labels=True), machine(tmp_path, labels=True))
    assert "1 of its 2 questions find it first." in page
    assert "It would take 1 of 2 questions of other skills on this machine:" in page
    assert "<strong>returns</strong>: return a parcel &lt;b&gt;today&lt;/b&gt;" in page


async def test_so_many_questions_that_not_all_are_asked_is_said(tmp_path: Path) -> None:
    skills = machine(tmp_path, labels=False)
    many = [{"query": f"question {number}"} for number in range(201)]
    write(skills / "returns/trigger_eval.json", json.dumps(many).encode())
    page = await page_of(tmp_path, shop(labels=False), skills)
    assert "Not all questions were asked: there are too many." in page
    assert "It would take none of 200 questions" in page


async def test_without_labels_there_is_no_figure(tmp_path: Path) -> None:
    page = await page_of(tmp_path, shop(labels=False), machine(tmp_path, labels=False))
    assert "refunds" in page
    assert 'id="selection"' not in page


async def test_broken_labels_of_either_side_are_no_figure_and_no_error(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds", files={"evals/evals.json": b"{nonsense"})
    skills = machine(tmp_path, labels=False)
    write(skills / "returns/trigger_eval.json", b"[1, 2")
    assert 'id="selection"' not in await page_of(tmp_path, sim, skills)
