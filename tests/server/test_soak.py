"""A tree that keeps changing, and clients that list, read and verify all the time.

Each version of each file is known here, in the order in which it was written. So an answer can be checked
from outside: an entry may never be older than bytes that went out before it was asked for.
"""

from __future__ import annotations

import base64
import os
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from clients import ERAS, call
from served import Served, serving_http
from skillwire import DirectorySource
from skillwire.skill import digest_of
from skillwire.wire import entry_to_wire
from trees import scanned, skill_md, write_skill
from waiting import until_answered

pytestmark = [pytest.mark.anyio, pytest.mark.soak]

SKILLS = 1000
EDITS = int(os.environ.get("SOAK_EDITS", "500"))
SEED = int(os.environ.get("SOAK_SEED", "7"))
STEPS_PER_EDIT = 2
STEPS_PER_LISTING = 60
FILES = ("SKILL.md", "data.txt", "refs/more.md")


class Tree:
    """A folder of skills, changed at random, with all that was ever in it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.versions: defaultdict[str, list[str]] = defaultdict(list)
        self.touched: set[str] = set()
        """Directories of skills that were at some time not there, or not valid."""
        self._chance = chance
        self._paths: list[str] = []
        self._broken: set[str] = set()
        self._count = 0
        for number in range(SKILLS):
            self._plant(f"group-{number % 20:02}/skill-{number:04}")

    def change(self) -> None:
        """Do one thing to one skill."""
        act = self._chance.choices(
            [self._edit, self._edit_metadata, self._move, self._delete, self._add, self._break, self._mend],
            weights=[50, 15, 10, 8, 8, 5, 4],
        )[0]
        act(self._chance.choice(self._paths))

    def _plant(self, path: str) -> None:
        place = self.folder / path
        write_skill(place, {"data.txt": b"0", "refs/more.md": path.encode()})
        self._paths.append(path)
        self._note(path)

    def _edit(self, path: str) -> None:
        self._save(path, self._chance.choice(FILES[1:]), b"%d %s" % (self._next(), b"x" * self._next()))

    def _edit_metadata(self, path: str) -> None:
        name = path.rpartition("/")[2]
        self._broken.discard(path)
        self._save(path, "SKILL.md", skill_md(name, f"Version {self._next()}."))

    def _move(self, path: str) -> None:
        name = path.rpartition("/")[2]
        group = f"group-{self._chance.randrange(30):02}"
        if f"{group}/{name}" in self._paths or path in self._broken:
            return
        (self.folder / group).mkdir(exist_ok=True)
        (self.folder / path).rename(self.folder / group / name)
        self._forget(path)
        self._paths.append(f"{group}/{name}")
        self._note(f"{group}/{name}")

    def _delete(self, path: str) -> None:
        if len(self._paths) > SKILLS // 2:
            self._forget(path)
            shutil.rmtree(self.folder / path)

    def _add(self, _path: str) -> None:
        path = f"group-{self._chance.randrange(30):02}/new-{self._next()}"
        self.touched.add(path)
        self._plant(path)

    def _break(self, path: str) -> None:
        self.touched.add(path)
        self._broken.add(path)
        self._save(path, "SKILL.md", b"---\nname: nobody\n---\n")

    def _mend(self, path: str) -> None:
        self._edit_metadata(min(self._broken, default=path))

    def _forget(self, path: str) -> None:
        self.touched.add(path)
        self._broken.discard(path)
        self._paths.remove(path)

    def _save(self, path: str, file: str, content: bytes) -> None:
        """Write as editors do: beside it, then in its place."""
        self._note(path, {file: content})
        place = self.folder / path / file
        spare = place.with_name(f"{place.name}~")
        spare.write_bytes(content)
        spare.replace(place)

    def _note(self, path: str, contents: Mapping[str, bytes] | None = None) -> None:
        """Remember versions before they can be read."""
        for file in FILES if contents is None else contents:
            content = (self.folder / path / file).read_bytes() if contents is None else contents[file]
            self.versions[f"skill://{path}/{file}"].append(digest_of(content))

    def _next(self) -> int:
        self._count += 1
        return self._count


class Reader:
    """A client that lists, reads and verifies until it is told to stop."""

    def __init__(self, client: Client, tree: Tree, chance: random.Random) -> None:
        self._client = client
        self._tree = tree
        self._chance = chance
        self._entries: list[Any] = []
        self.mismatches = 0
        self.cured = 0

    async def step(self, number: int) -> None:
        if number % STEPS_PER_LISTING == 0 or not self._entries:
            self._entries = await list_all(self._client)
        entry = self._chance.choice(self._entries)
        file = self._chance.choice(entry["resources"])
        data = await self._read(file["uri"])
        if data is None:
            return
        digest = digest_of(data)
        self._expect_known(file["uri"], digest)
        if digest == file["digest"]:
            return
        self.mismatches += 1
        # VER-6: one refresh. The entry is never older than the bytes that were served before it.
        fresh = await self._get(entry["uri"])
        if fresh is None:
            return
        told = {item["uri"]: item["digest"] for item in fresh["resources"]}.get(file["uri"])
        if told is None:
            assert self._is_touched(file["uri"]), f"{file['uri']} left its entry without a reason"
            return
        self.cured += told == digest
        versions = self._tree.versions[file["uri"]]
        assert last(versions, told) >= versions.index(digest), (
            f"{file['uri']}: the entry is older than the bytes"
        )

    async def _read(self, uri: str) -> bytes | None:
        answer = await self._ask("resources/read", uri)
        if answer is None:
            return None
        [content] = answer["contents"]
        return content["text"].encode() if "text" in content else base64.b64decode(content["blob"])

    async def _get(self, uri: str) -> Any:
        answer = await self._ask("skills/get", uri)
        return None if answer is None else answer["skill"]

    async def _ask(self, method: str, uri: str) -> dict[str, Any] | None:
        """The answer; `None` for what is not there any more, and no other error."""
        try:
            return await call(self._client, method, uri=uri)
        except MCPError as error:
            if error.error.code == types.INVALID_PARAMS and self._is_touched(uri):
                return None
            raise

    def _is_touched(self, uri: str) -> bool:
        path = uri.removeprefix("skill://").split("/")
        return "/".join(path[:2]) in self._tree.touched

    def _expect_known(self, uri: str, digest: str) -> None:
        assert digest in self._tree.versions[uri], f"{uri}: bytes that were never written"


def last(versions: list[str], digest: str) -> int:
    return len(versions) - 1 - versions[::-1].index(digest)


async def list_all(client: Client) -> list[Any]:
    """Every entry. No skill may be listed twice, whatever happens between two pages (LST-1)."""
    entries: list[Any] = []
    params: dict[str, Any] = {}
    while True:
        page = await call(client, "skills/list", **params)
        entries += page["skills"]
        if "nextCursor" not in page:
            break
        params["cursor"] = page["nextCursor"]
    uris = [entry["uri"] for entry in entries]
    assert uris == sorted(set(uris))
    return entries


class Weight:
    """What a process takes up."""

    def __init__(self, served: Served) -> None:
        process = Path(f"/proc/{served.process.pid}")
        self.descriptors = len(list((process / "fd").iterdir())) if process.exists() else 0
        status = (process / "status").read_text() if process.exists() else "VmRSS: 0"
        self.kilobytes = int(
            next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]
        )


@pytest.mark.requirement("LST-1", "GET-1", "RD-2", "ENT-3")
async def test_clients_see_only_consistent_states_while_everything_changes() -> None:
    chance = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder), chance)
        with serving_http(folder, "--ttl", "0", "--page-size", "200") as (url, served):
            mode_of: list[Any] = [*ERAS.values(), *ERAS.values()]
            readers: list[Reader] = []
            weights: list[Weight] = []
            steps = 0
            is_over = False
            stepped = anyio.Condition()

            async def read(mode: Any, seed: int) -> None:
                nonlocal steps
                async with Client(url, mode=mode) as client:
                    reader = Reader(client, tree, random.Random(seed))
                    readers.append(reader)
                    number = 0
                    while not is_over:
                        await reader.step(number)
                        number += 1
                        async with stepped:
                            steps += 1
                            stepped.notify_all()

            async def change() -> None:
                nonlocal is_over
                for number in range(EDITS):
                    async with stepped:
                        while steps < number * STEPS_PER_EDIT:
                            await stepped.wait()
                    tree.change()
                    if number in (EDITS // 5, EDITS - 1):
                        weights.append(Weight(served))
                is_over = True

            async with anyio.create_task_group() as tasks:
                for seed, mode in enumerate(mode_of):
                    tasks.start_soon(read, mode, seed)
                tasks.start_soon(change)

            # It went as it should, and there was something to see.
            mismatches, cured = sum(r.mismatches for r in readers), sum(r.cured for r in readers)
            assert mismatches > 0
            assert cured > mismatches * 0.9
            early, late = weights
            # A scan that is under way holds a few directories open; a leak would add one for each edit.
            assert late.descriptors <= early.descriptors + 16
            assert late.kilobytes <= early.kilobytes * 1.15 + 20_000
            async with Client(url, mode="legacy") as client:
                await expect_the_same(client, scanned([folder]))


async def expect_the_same(client: Client, fresh: DirectorySource) -> None:
    """Soon after the last change the server lists what a fresh scan finds."""
    expected = [entry_to_wire(entry) for entry in fresh.snapshot.entries]

    async def is_the_same() -> bool:
        return await list_all(client) == expected

    await until_answered(is_the_same)
