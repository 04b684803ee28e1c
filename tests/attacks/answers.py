"""What the answers of a hostile server cost: `python tests/attacks/answers.py host FOLDER`, or `verify`.

Prints as JSON, for each, how many bytes were sent and how many of memory that took, beyond what a server
takes that lists nothing. Each is asked in a fork of a process that has asked such a server.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import skillwire
from forks import cost_in_fork
from skillwire.errors import SkillwireError
from skillwire.host import ServerConfig, SkillHost

MIB = 1024 * 1024
# As many values as a host lets through are in an answer of this size; and nearly the longest that is read.
SIZE, LONGEST = 12 * MIB, 31 * MIB
# `verify` asks for a list of this size about forty times.
VERIFIED = MIB // 2
PROGRAM = Path(__file__).with_name("long_answers.py")
ENTRY = {
    "uri": "skill://refunds/SKILL.md",
    "frontmatter": {"name": "refunds", "description": "Pays back."},
    "resources": [{"uri": "skill://refunds/SKILL.md", "digest": "sha256:" + "0" * 64, "size": 1}],
}
UNITS: dict[str, object] = {
    "empty objects": {},
    "entries": ENTRY,
    # As many values as are let through: these are parsed.
    "long strings": "x" * 100_000,
    "objects": {"k": "x" * 210},
    "nested objects": {"k": {"k": {"k": "x" * 540}}},
    "resources": {"uri": "skill://a/b/" + "c" * 230, "digest": "sha256:" + "0" * 64, "size": 12},
    # Each one is looked at, and is a mistake of its own.
    "bad URIs": {"uri": "x", "k": "x" * 200},
}
ANSWERS = {
    "host": [*((name, SIZE) for name in UNITS), ("long strings", LONGEST), ("objects", LONGEST)],
    "verify": [
        *((name, VERIFIED) for name in ("entries", "objects", "bad URIs")),
        *((name, LONGEST) for name in ("empty objects", "long strings")),
    ],
}


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer took: `sent` is how many bytes of it were sent in all, `memory` is in bytes, too."""

    name: str
    sent: int
    memory: int


async def host(command: tuple[str, ...], folder: Path) -> None:
    servers = {"evil": ServerConfig(command=command, call_seconds=120, connect_seconds=120)}
    async with SkillHost(
        servers=servers,
        watch=False,
        cache_directory=folder / "cache",
        approvals_file=folder / "approvals.sqlite",
    ) as opened:
        print(opened.log.failures(), file=sys.stderr)


async def verify(command: tuple[str, ...], folder: Path) -> None:
    try:
        await skillwire.verify([*command])
    except SkillwireError as error:
        print(error, file=sys.stderr)


def costs(asked_by: str, folder: Path) -> Iterator[Answered]:
    ask = {"host": host, "verify": verify}[asked_by]
    unit, sent = folder / "unit", folder / "sent"

    def answered(size: int) -> int:
        sent.write_bytes(b"")
        words = (str(PROGRAM), str(unit), str(size), str(sent))
        asyncio.run(ask((sys.executable, "-S", "-E", *words), folder))
        return sent.stat().st_size * size

    unit.write_text("", "utf-8")
    answered(0)
    least = cost_in_fork(lambda: answered(0)).memory
    for name, size in ANSWERS[asked_by]:
        unit.write_text(json.dumps(UNITS[name]), "utf-8")
        cost = cost_in_fork(lambda size=size: answered(size))
        yield Answered(f"{name}, {size:,} bytes", cost.result, cost.memory - least)


if __name__ == "__main__":
    print(json.dumps([asdict(one) for one in costs(sys.argv[1], Path(sys.argv[2]))]))
