"""What an answer of a hostile server costs in memory: no more than four times its size (S6, SEC-9).

Each case runs in a process of its own, so that the peak is that of the answer. What the process needs without
the answer is measured in the same way, with a server that sends none.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import textwrap
from functools import cache
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.requirement("SEC-9")]

MIB = 1024 * 1024
SIZE = 31 * MIB
SERVER = """
    import json, sys
    sys.path.insert(0, {tests!r})
    from wild_stdio import CACHED, CAPABILITIES, ENTRY
    def say(request, result):
        head = json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": "@"}})
        sys.stdout.write(head.replace('"@"', result) + "\\n")
        sys.stdout.flush()
    def filled(unit):
        return ",".join([unit] * ({size} // (len(unit) + 1)))
    repeated = open({unit!r}).read()
    known = '"resultType": "complete", "ttlMs": 0, "cacheScope": "private"'
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        if request["method"] in ("server/discover", "initialize"):
            found = {{"supportedVersions": ["2026-07-28"], "protocolVersion": "2025-11-25",
                     "capabilities": CAPABILITIES, "serverInfo": {{"name": "w", "version": "1"}}, **CACHED}}
            say(request, json.dumps(found))
        elif request["method"] == "skills/list":
            say(request, '{{"skills": [' + filled(repeated) + '], ' + known + '}}')
        else:
            say(request, '{{"skills": [], ' + known + '}}')
"""
HOST = """
    import asyncio, resource, sys
    from pathlib import Path
    from skillwire.host.config.server import ServerConfig
    from skillwire.host.host import SkillHost
    async def main():
        servers = {"evil": ServerConfig(command=(sys.executable, sys.argv[1]), call_seconds=120,
                                        connect_seconds=120)}
        folder = Path(sys.argv[2])
        async with SkillHost(servers=servers, watch=False, cache_directory=folder / "cache",
                             approvals_file=folder / "approvals.sqlite") as host:
            print(host.log.failures(), file=sys.stderr)
    asyncio.run(main())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
VERIFY = """
    import asyncio, resource, sys
    import skillwire
    from skillwire.errors import SkillwireError
    async def main():
        try:
            await skillwire.verify([sys.executable, sys.argv[1]])
        except SkillwireError as error:
            print(error, file=sys.stderr)
    asyncio.run(main())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
ENTRY = json.dumps(
    {
        "uri": "skill://refunds/SKILL.md",
        "frontmatter": {"name": "refunds", "description": "Pays back."},
        "resources": [{"uri": "skill://refunds/SKILL.md", "digest": "sha256:" + "0" * 64, "size": 1}],
    }
)
UNITS = {
    "empty objects": "{}",
    "entries": ENTRY,
    # As many values as are let through: these are parsed.
    "long strings": json.dumps("x" * 100_000),
    "objects": json.dumps({"k": "x" * 210}),
    "nested objects": json.dumps({"k": {"k": {"k": "x" * 540}}}),
    "resources": json.dumps({"uri": "skill://a/b/" + "c" * 230, "digest": "sha256:" + "0" * 64, "size": 12}),
    # Each one is looked at, and is a mistake of its own.
    "bad URIs": json.dumps({"uri": "x", "k": "x" * 200}),
}


def peak(program: str, unit: str, size: int, folder: Path) -> int:
    """The most memory that a process takes, in bytes, which talks to a server with such an answer."""
    (folder / "unit").write_text(unit)
    server = folder / "server.py"
    tests = str(Path(__file__).parents[1])
    server.write_text(
        textwrap.dedent(SERVER).format(tests=tests, size=size, unit=str(folder / "unit")), "utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(server), str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1]) * 1024


VERIFIED = ("empty objects", "entries", "objects", "bad URIs")
"""The shapes that are sent to `verify`, which takes longer over them than a host."""


@cache
def _base(program: str) -> int:
    """What a process needs that is sent nothing."""
    with tempfile.TemporaryDirectory() as folder:
        return peak(program, "", 0, Path(folder))


@pytest.mark.parametrize(
    ("program", "name"),
    [*((HOST, name) for name in UNITS), *((VERIFY, name) for name in VERIFIED)],
    ids=[*(f"host-{name}" for name in UNITS), *(f"verify-{name}" for name in VERIFIED)],
)
def test_a_hostile_answer_costs_at_most_four_times_its_size(program: str, name: str, tmp_path: Path) -> None:
    cost = peak(program, UNITS[name], SIZE, tmp_path) - _base(program)
    assert cost <= 4 * SIZE, f"{cost / SIZE:.1f} times its size"
