from __future__ import annotations

import pytest

from skillwire.errors import SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import Dialect, SkillEntry
from skillwire.sources.mcp import peeked, with_peeks
from skillwire.wire import LegacyListing, ListedResource
from skillwire.wire.legacy import parse_index, scanned_entry

pytestmark = pytest.mark.anyio

GOOD = b"---\nname: other\ndescription: In the file.\nmodel: fast\n---\nBody.\n"


def scanned(uri: str = "skill://refunds", dialect: Dialect = Dialect.BARE_SCAN) -> SkillEntry:
    return scanned_entry(ListedResource(uri, "Listed."), dialect)


class Reads:
    def __init__(self, **files: bytes) -> None:
        self.files = files
        self.asked: list[str] = []

    async def __call__(self, uri: str) -> bytes:
        self.asked.append(uri)
        name = uri.removeprefix("skill://")
        if name not in self.files:
            raise SourceError("it cannot be read")
        return self.files[name]


@pytest.mark.requirement("VER-5")
async def test_a_peek_keeps_the_frontmatter_and_the_directorys_name() -> None:
    reads = Reads(refunds=GOOD)
    found = await with_peeks(LegacyListing((scanned(),)), reads, limits=DEFAULT_LIMITS)
    (entry,) = found.entries
    assert entry.frontmatter == {"name": "refunds", "description": "In the file.", "model": "fast"}
    assert entry.carried_fields == frozenset({"description", "model"})
    assert entry.resources == scanned().resources
    assert reads.asked == ["skill://refunds"]


@pytest.mark.requirement("VER-5")
async def test_a_dialect_with_metadata_is_never_peeked_at() -> None:
    index = b'{"skills":[{"name":"a","description":"b","url":"skill://a/SKILL.md"}]}'
    listing = parse_index(index)
    reads = Reads()
    assert await with_peeks(listing, reads, limits=DEFAULT_LIMITS) == listing
    assert reads.asked == []


async def test_one_that_cannot_be_read_affects_only_itself() -> None:
    listing = LegacyListing((scanned(), scanned("skill://broken"), scanned("skill://gone")))
    reads = Reads(refunds=GOOD, broken=b"---\nname: [\n---\n")
    found = await with_peeks(listing, reads, limits=DEFAULT_LIMITS)
    assert [entry.name for entry in found.entries] == ["refunds"]
    assert sorted(issue.file for issue in found.issues) == [
        "skill://broken/SKILL.md",
        "skill://gone/SKILL.md",
    ]


@pytest.mark.requirement("SEC-9")
async def test_no_more_are_peeked_at_than_the_limit_and_that_is_reported() -> None:
    listing = LegacyListing(tuple(scanned(f"skill://s{number}") for number in range(5)))
    reads = Reads(**{f"s{number}": GOOD for number in range(5)})
    found = await with_peeks(listing, reads, limits=Limits(peeks=2))
    assert len(reads.asked) == 2
    assert len(found.entries) == 5
    assert "3 skills were not peeked at (peeks)" in str(found.issues[0])


@pytest.mark.parametrize(
    "data",
    [b"No frontmatter.\n", b"", b"---\ndescription: x\n---\n" + b"y" * 200],
    ids=["plain", "empty", "long"],
)
def test_what_has_nothing_to_tell_stays_as_it_was_listed(data: bytes) -> None:
    assert peeked(scanned(), data, limits=Limits(peek_bytes=100)) == scanned()


@pytest.mark.parametrize("description", [b"", b"description: 3\n", b'description: " "\n'])
def test_a_file_without_a_description_keeps_the_listed_one(description: bytes) -> None:
    entry = peeked(scanned(), b"---\nmodel: fast\n" + description + b"---\n", limits=DEFAULT_LIMITS)
    assert entry.description == "Listed."
    assert entry.carried_fields == frozenset({"model"})
