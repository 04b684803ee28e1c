"""Work that can wait starts when the process is idle, or after a few seconds."""

from __future__ import annotations

import pytest

from skillwire.sources.directory import watch as module
from skillwire.sources.directory.watch import wait_until_idle

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("used", "spells"),
    [
        pytest.param([0.0], 1, id="idle"),
        pytest.param([0.1, 0.1, 0.0], 3, id="busy at first"),
        pytest.param([0.1, 0.019], 2, id="next to nothing to do"),
        pytest.param([0.1] * 31, 30, id="always busy"),
    ],
)
async def test_idle_is_the_first_interval_in_which_little_processor_time_was_used(
    monkeypatch: pytest.MonkeyPatch, used: list[float], spells: int
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(module.time, "process_time", lambda: sum(used[: len(waited)]))
    await wait_until_idle(sleep)
    assert waited == [0.1] * spells
