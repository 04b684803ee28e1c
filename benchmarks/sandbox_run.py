"""How much longer a program takes in the sandbox: `python -m benchmarks.sandbox_run`. Needs bubblewrap.

The same program runs in turn as a bare process, in the sandbox, and there with the proxy of a granted host.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable

from skillwire.limits import DEFAULT_LIMITS
from skillwire.sandbox import SandboxPlan, parse_grant, run
from skillwire.sandbox.bubblewrap import system_folders

_PROGRAM = ("/usr/bin/python3", "-B", "-c", "pass")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sandbox_run")
    parser.add_argument("--rounds", type=int, default=30)
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:

        def bare() -> None:
            subprocess.run(_PROGRAM, cwd=folder, check=True)

        def inside(*grants: str) -> Callable[[], None]:
            plan = SandboxPlan(
                script="",
                interpreter=_PROGRAM,
                grants=tuple(parse_grant(grant, folder) for grant in grants),
                folder=folder,
                system=system_folders(),
                limits=DEFAULT_LIMITS,
            )

            def act() -> None:
                result = run(plan)
                assert result.exit_code == 0, result

            return act

        ways = {"bare": bare, "sandbox": inside(), "sandbox and proxy": inside("net:example.org")}
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, act in ways.items():
                started = time.perf_counter()
                act()
                times[name].append((time.perf_counter() - started) * 1000)
    base = statistics.median(times["bare"])
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:20} {median:7.1f} ms   added {median - base:6.1f} ms   least {min(values):6.1f} ms")


if __name__ == "__main__":
    main()
