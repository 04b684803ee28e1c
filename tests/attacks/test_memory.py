"""What an answer of a hostile server costs in memory: no more than four times its size (S6, SEC-9)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from attacks.answers import ANSWERS, Answered

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.requirement("SEC-9")]

PROGRAM = Path(__file__).with_name("answers.py")


@pytest.mark.parametrize("asked_by", ["host", "verify"])
def test_a_hostile_answer_costs_at_most_four_times_its_size(asked_by: str, tmp_path: Path) -> None:
    """`verify` asks for a list many times and keeps the answers: there, the size is that of all of them."""
    words = [sys.executable, PROGRAM, asked_by, tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=570, check=False)
    assert done.returncode == 0, done.stderr
    answers = [Answered(**row) for row in json.loads(done.stdout)]
    assert len(answers) == len(ANSWERS[asked_by])
    assert [answer for answer in answers if not 0 < answer.memory <= 4 * answer.sent] == []
    if asked_by == "host":
        assert [answer.sent for answer in answers] == [size for _, size in ANSWERS[asked_by]]
