"""How long after an edit the new entry is served."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from benchmarks.bench import Bench
from benchmarks.calls import Call, get_call
from benchmarks.contestants import Contestant
from benchmarks.http_load import Connection
from benchmarks.processes import ServerFailed, ServerProcess
from benchmarks.samples import Series
from benchmarks.tree import Skill, SkillTree, digest

QUIET: Final = "quiet spell + 50 ms"
_PATIENCE_SECONDS: Final = 15
_PAUSE_SECONDS: Final = 0.001


def edits(bench: Bench, quiet_seconds: float) -> None:
    """Change one `SKILL.md`, and ask for its entry until it has the new digest."""
    runners: dict[Series, Callable[[int], None]] = {}
    for contestant, tree in bench.entrants("http"):
        if contestant.sees_edits:
            runners[Series("edit", contestant.name, tree.size)] = _editor(bench, contestant, tree)
    for size in bench.trees:

        def allowance(turn: int, size: int = size) -> None:
            bench.record("edit", QUIET, size, turn, quiet_seconds + 0.05, "s")

        runners[Series("edit", QUIET, size)] = allowance
    bench.take_turns(runners)


def _editor(bench: Bench, contestant: Contestant, tree: SkillTree) -> Callable[[int], None]:
    def run(turn: int) -> None:
        skill = tree.skill(tree.size // 2)
        file = tree.root / skill.path / "SKILL.md"
        before = skill.files["SKILL.md"]
        beside = file.with_suffix(".new")
        seconds = 0.0
        with bench.serving(contestant, tree) as server:
            try:
                # The first edit is not counted: a watch over thousands of directories takes seconds to begin.
                for edit in (0, 1):
                    after = before[:-20] + b"%018d.\n" % (2 * turn + edit)
                    beside.write_bytes(after)
                    start = time.perf_counter()
                    beside.replace(file)
                    seconds = _until_served(server, skill, digest(after), start)
            finally:
                file.write_bytes(before)
        bench.record("edit", contestant.name, tree.size, turn, seconds, "s")

    return run


def _until_served(server: ServerProcess, skill: Skill, wanted: str, start: float) -> float:
    host = server.url.removeprefix("http://")
    whole = get_call(skill)
    # Any answer is accepted until the new one arrives; it is checked here.
    call = Call(whole.head, whole.tail, ()).over_http(host)
    connection = Connection(server.address)
    try:
        while (now := time.perf_counter()) < start + _PATIENCE_SECONDS:
            if wanted.encode() in connection.ask(call):
                return time.perf_counter() - start
            time.sleep(max(0, _PAUSE_SECONDS - (time.perf_counter() - now)))
    finally:
        connection.close()
    raise ServerFailed(f"an edit was not seen within {_PATIENCE_SECONDS} seconds")
