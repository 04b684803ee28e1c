"""The methods of the extension, called by the SDK's own client on both protocol revisions."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from clients import ERAS, both_eras, call, connected, refusal
from properties import examples
from skillwire import DirectorySource, FunctionSource, SkillEntry, SkillServer
from skillwire.server import ServerOptions
from skillwire.server.library import ALL_OFF
from skillwire.skill import SkillUri, digest_of
from skillwire.sources import DirectoryChild, Read, Source
from trees import skill_md, write, write_skill

pytestmark = pytest.mark.anyio

FRONTMATTER = b"""---
name: refunds
description: "Refund an order: check, approve, pay."
license: MIT
version: 1.10
tags: [a, 1, true, null]
metadata: {author: acme, io.modelcontextprotocol/undefined: x}
bad key!: left out of _meta
---
# Refunds
"""
REFUNDS = "skill://acme/refunds/SKILL.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "acme/refunds/SKILL.md", FRONTMATTER)
    write(tmp_path / "acme/refunds/docs/naïve 1.md", b"text")
    write(tmp_path / "acme/refunds/run.bin", b"\xff\x00")
    (tmp_path / "acme/refunds/empty").mkdir()
    write(tmp_path / "acme/refunds/broken/SKILL.md", b"no skill")
    for number in range(5):
        write_skill(tmp_path / f"team/skill-{number}")
    return tmp_path


def content(result: dict[str, Any]) -> bytes:
    (item,) = result["contents"]
    assert ("text" in item) != ("blob" in item)
    return item["text"].encode() if "text" in item else base64.b64decode(item["blob"], validate=True)


@pytest.mark.requirement("CAP-1", "CAP-2", "CAP-4")
@both_eras
async def test_the_extension_and_resources_are_declared(folder: Path, version: str) -> None:
    server = SkillServer(folder)
    async with connected(server.low_level, version) as client:
        assert client.server_capabilities.extensions == {
            "io.modelcontextprotocol/skills": {"directoryRead": True}
        }
        assert client.server_capabilities.resources is not None
        # A model can call tools and read resources, but no methods of the extension.
        assert "load_skill" in (client.instructions or "")
        assert "skills/" not in (client.instructions or "")
    bare = SkillServer(folder, options=ServerOptions(legacy_features=ALL_OFF))
    async with connected(bare.low_level, version) as client:
        assert "load_skill" not in (client.instructions or "")
        assert "SKILL.md" in (client.instructions or "")


@pytest.mark.requirement("ENT-1", "ENT-2", "LST-1", "LST-2", "GET-1", "GET-2")
@both_eras
async def test_skills_are_listed_page_by_page_and_each_can_be_fetched_alone(
    folder: Path, version: str
) -> None:
    is_modern = version == "2026-07-28"
    server = SkillServer(folder, options=ServerOptions(page_size=2, ttl_ms=1234, cache_scope="private"))
    advice = {"resultType": "complete", "ttlMs": 1234, "cacheScope": "private"} if is_modern else {}
    async with connected(server.low_level, version) as client:
        entries: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        while True:
            page = await call(client, "skills/list", **params)
            assert {
                key: value for key, value in page.items() if key in ("resultType", "ttlMs", "cacheScope")
            } == advice
            entries += page["skills"]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        assert [entry["uri"] for entry in entries] == [
            REFUNDS,
            *(f"skill://team/skill-{n}/SKILL.md" for n in range(5)),
        ]
        assert entries[0]["frontmatter"] == {
            "name": "refunds",
            "description": "Refund an order: check, approve, pay.",
            "license": "MIT",
            "version": 1.1,
            "tags": ["a", 1, True, None],
            "metadata": {"author": "acme", "io.modelcontextprotocol/undefined": "x"},
            "bad key!": "left out of _meta",
        }
        for entry in entries:
            alone = await call(client, "skills/get", uri=entry["uri"])
            assert alone["skill"] == entry
            assert set(alone) - {"_meta"} == {"skill", *advice}


@pytest.mark.requirement("RD-1", "RD-2", "ENT-3")
@both_eras
async def test_every_listed_file_is_read_with_the_digest_that_the_entry_says(
    folder: Path, version: str
) -> None:
    async with connected(SkillServer(folder).low_level, version) as client:
        listing = await call(client, "skills/list")
        for entry in listing["skills"]:
            for file in entry["resources"]:
                data = content(await call(client, "resources/read", uri=file["uri"]))
                assert (digest_of(data), len(data)) == (file["digest"], file["size"])


@pytest.mark.requirement("FMT-7")
@both_eras
async def test_each_skill_md_is_a_resource_named_by_its_frontmatter(folder: Path, version: str) -> None:
    async with connected(
        SkillServer(folder, options=ServerOptions(unlisted=("team/*",), legacy_features=ALL_OFF)).low_level,
        version,
    ) as client:
        (resource,) = (await call(client, "resources/list"))["resources"]
        prefix = "io.modelcontextprotocol.skills/"
        assert resource == {
            "uri": REFUNDS,
            "name": "refunds",
            "description": "Refund an order: check, approve, pay.",
            "mimeType": "text/markdown",
            "size": len(FRONTMATTER),
            "_meta": {
                prefix + "license": "MIT",
                prefix + "version": 1.1,
                prefix + "tags": ["a", 1, True, None],
                prefix + "metadata": {"author": "acme", "io.modelcontextprotocol/undefined": "x"},
            },
        }
        (template,) = (await call(client, "resources/templates/list"))["resourceTemplates"]
        assert template["uriTemplate"] == "skill://{+path}"
        assert (await client.read_resource(REFUNDS)).contents[0].mime_type == "text/markdown"


@pytest.mark.requirement("DIR-1", "DIR-2", "FMT-4", "FMT-7")
@both_eras
async def test_every_level_is_a_directory(folder: Path, version: str) -> None:
    is_modern = version == "2026-07-28"
    async with connected(SkillServer(folder).low_level, version) as client:

        async def children(uri: str) -> list[dict[str, Any]]:
            result = await call(client, "resources/directory/read", uri=uri)
            assert result.get("resultType") == ("complete" if is_modern else None)
            return result["resources"]

        assert await children("skill://acme") == [
            {"uri": "skill://acme/refunds", "name": "refunds", "mimeType": "inode/directory"}
        ]
        found = {child["uri"]: child for child in await children("skill://acme/refunds")}
        assert [child["mimeType"] for child in found.values()] == [
            "text/markdown",
            "inode/directory",
            "inode/directory",
            "inode/directory",
            "application/octet-stream",
        ]
        assert found[REFUNDS]["name"] == "refunds"
        assert found[REFUNDS]["description"].startswith("Refund")
        assert await children("skill://acme/refunds/empty") == []
        assert await children("skill://acme/refunds/docs") == [
            {
                "uri": "skill://acme/refunds/docs/na%C3%AFve%201.md",
                "name": "naïve 1.md",
                "mimeType": "text/markdown",
                "size": 4,
            }
        ]
        # A nested SKILL.md that is no skill is plain Markdown.
        (plain,) = await children("skill://acme/refunds/broken")
        assert (plain["name"], plain["mimeType"]) == ("SKILL.md", "text/markdown")


@pytest.mark.requirement("DIR-1", "LST-1")
async def test_a_directory_comes_in_pages_and_its_cursor_is_good_for_it_alone(folder: Path) -> None:
    async with connected(
        SkillServer(folder, options=ServerOptions(page_size=2)).low_level, "2026-07-28"
    ) as client:
        first = await call(client, "resources/directory/read", uri="skill://team")
        second = await call(
            client, "resources/directory/read", uri="skill://team", cursor=first["nextCursor"]
        )
        names = [child["name"] for page in (first, second) for child in page["resources"]]
        assert names == [f"skill-{number}" for number in range(4)]
        cursors = {
            "skills/list": (await call(client, "skills/list"))["nextCursor"],
            "resources/list": (await call(client, "resources/list"))["nextCursor"],
        }
        cursors["resources/directory/read"] = first["nextCursor"]
        for method in [*cursors, "resources/templates/list"]:
            for other, cursor in [*cursors.items(), ("nobody", "garbage")]:
                if method != other:
                    params = {"uri": "skill://acme"} if method == "resources/directory/read" else {}
                    error = await refusal(client, method, cursor=cursor, **params)
                    assert error.code == types.INVALID_PARAMS
                    assert "cursor" in error.message


@pytest.mark.requirement("GET-1", "DIR-3", "RD-1", "FMT-9")
@both_eras
@pytest.mark.parametrize("method", ["skills/get", "resources/read", "resources/directory/read"])
async def test_what_is_not_served_is_an_error_that_names_it(folder: Path, version: str, method: str) -> None:
    uris = [
        "skill://none/SKILL.md",
        "skill://acme/none",
        "other://acme/refunds/SKILL.md",
        "skill://acme/refunds/../refunds/SKILL.md",
        "skill://acme/refunds/%2e%2e/x",
        "skill://acme/refunds/a%2Fb",
        "skill://acme/refunds/%00",
        "file:///etc/passwd",
        "not a uri",
        "",
        "skill://" + "long/" * 100 + "x",
    ]
    async with connected(SkillServer(folder).low_level, version) as client:
        for uri in uris:
            error = await refusal(client, method, uri=uri)
            assert (error.code, error.data) == (types.INVALID_PARAMS, {"uri": uri})
            assert uri[:200] in error.message
        assert (await call(client, "skills/get", uri=REFUNDS))["skill"]["uri"] == REFUNDS


@pytest.mark.requirement("RD-1", "GET-1", "DIR-3", "FMT-4", "FMT-5")
async def test_a_file_is_no_directory_a_directory_no_file_and_a_file_no_skill(folder: Path) -> None:
    async with connected(SkillServer(folder).low_level, "2026-07-28") as client:
        for uri in ("skill://acme", "skill://acme/refunds", "skill://acme/refunds/empty"):
            error = await refusal(client, "resources/read", uri=uri)
            assert error.code == types.INVALID_PARAMS
            assert "resources/directory/read" in error.message
        assert (await refusal(client, "resources/directory/read", uri=REFUNDS)).code == types.INVALID_PARAMS
        for uri in (
            "skill://acme/refunds",
            "skill://acme/refunds/run.bin",
            "skill://acme/refunds/broken/SKILL.md",
        ):
            assert (await refusal(client, "skills/get", uri=uri)).code == types.INVALID_PARAMS


@both_eras
@pytest.mark.parametrize(
    "params", [{}, {"uri": 5}, {"uri": None}, {"uri": ["skill://a"]}, {"uri": REFUNDS, "cursor": 5}]
)
async def test_parameters_of_a_wrong_type_are_refused(
    folder: Path, version: str, params: dict[str, Any]
) -> None:
    async with connected(SkillServer(folder).low_level, version) as client:
        assert (await refusal(client, "resources/directory/read", **params)).code == types.INVALID_PARAMS
        assert (await refusal(client, "skills/list", cursor=["x"])).code == types.INVALID_PARAMS
        assert (await refusal(client, "skills/nothing")).code == types.METHOD_NOT_FOUND


@both_eras
async def test_a_uri_of_ten_megabytes_gets_a_short_answer(folder: Path, version: str) -> None:
    async with connected(SkillServer(folder).low_level, version) as client:
        error = await refusal(client, "skills/get", uri="skill://" + "a" * 10_000_000)
        assert error.code == types.INVALID_PARAMS
        assert len(error.model_dump_json()) < 1000


@pytest.mark.requirement("RD-2", "GET-2")
@both_eras
async def test_the_entry_after_a_read_is_that_of_the_bytes_read(folder: Path, version: str) -> None:
    uri = "skill://acme/refunds/run.bin"
    async with connected(SkillServer(folder).low_level, version) as client:
        write(folder / "acme/refunds/run.bin", b"changed")
        data = content(await call(client, "resources/read", uri=uri))
        entry = (await call(client, "skills/get", uri=REFUNDS))["skill"]
        assert data == b"changed"
        assert {file["uri"]: file["digest"] for file in entry["resources"]}[uri] == digest_of(data)


SAMPLES = [
    b"",
    b"\xef\xbb\xbfBOM",
    b"a\r\nb\rc\n",
    b"\xed\xa0\x80",
    b"\xed\xb2\x80",
    b"nul\x00",
    "\u2028\u2029\u0085\ufeff\ufffe\uffff\U0010ffff".encode(),
    b"\xc0\x80",
    b"\xff" * 70000,
    b'"\\/\b\f\n\r\t\x7f',
]


@pytest.mark.requirement("RD-2")
@pytest.mark.parametrize("data", SAMPLES, ids=[repr(sample[:12]) for sample in SAMPLES])
def test_bytes_that_a_careless_server_changes_arrive_as_they_are(data: bytes) -> None:
    _assert_round_trip(data)


@pytest.mark.requirement("RD-2", "ENT-3")
@examples(40)
@given(st.binary(max_size=64) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_arrive_as_they_are(data: bytes) -> None:
    _assert_round_trip(data)


def _assert_round_trip(data: bytes) -> None:
    source = FunctionSource()
    source.static("a")(lambda: {"SKILL.md": skill_md("a"), "file": data})

    async def read(version: str) -> None:
        async with connected(SkillServer(source).low_level, version) as client:
            entry = (await call(client, "skills/get", uri="skill://a/SKILL.md"))["skill"]
            file = entry["resources"][1]
            got = content(await call(client, "resources/read", uri=file["uri"]))
            assert got == data
            assert (digest_of(got), len(got)) == (file["digest"], file["size"])

    for version in ERAS:
        anyio.run(read, version)


class Unwell(Source):
    """A source that lists a skill whose manifest is odd, and fails in ways of its own at everything else."""

    async def list_entries(self) -> Sequence[SkillEntry]:
        return [SkillEntry(SkillUri("skill://a/SKILL.md"), {}, ())]

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        raise KeyError("/secret/path")

    async def read(self, uri: SkillUri) -> Read:
        raise OSError(5, "Input/output error", "/secret/path")

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        raise ZeroDivisionError("/secret/path")


@pytest.mark.requirement("RD-1")
@both_eras
@pytest.mark.parametrize("method", ["skills/get", "resources/read", "resources/directory/read"])
async def test_what_goes_wrong_inside_is_an_internal_error_that_tells_no_secrets(
    caplog: pytest.LogCaptureFixture, version: str, method: str
) -> None:
    async with connected(
        SkillServer(Unwell(), options=ServerOptions(legacy_features=ALL_OFF)).low_level, version
    ) as client:
        with caplog.at_level(logging.ERROR):
            error = await refusal(client, method, uri="skill://a/SKILL.md")
        assert (error.code, error.data) == (types.INTERNAL_ERROR, {"uri": "skill://a/SKILL.md"})
        assert "secret" not in error.model_dump_json()
        assert "/secret/path" in caplog.text
        (resource,) = (await call(client, "resources/list"))["resources"]
        assert "size" not in resource


@pytest.mark.requirement("RD-1")
async def test_a_file_that_keeps_changing_is_an_internal_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = DirectorySource([folder])
    monkeypatch.setattr("skillwire.sources.directory.source._READ_ATTEMPTS", 0)
    async with connected(SkillServer(source).low_level, "2026-07-28") as client:
        error = await refusal(client, "resources/read", uri=REFUNDS)
        assert error.code == types.INTERNAL_ERROR
        assert REFUNDS in error.message


async def test_a_source_that_cannot_be_listed_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    class Mute(Unwell):
        async def list_entries(self) -> Sequence[SkillEntry]:
            raise RuntimeError("/secret/path")

    async with connected(SkillServer(Mute()).low_level, "2025-11-25") as client:
        for method in ("skills/list", "resources/list"):
            error = await refusal(client, method)
            assert (error.code, error.data) == (types.INTERNAL_ERROR, None)
            assert "secret" not in error.message


async def test_many_clients_read_at_once(folder: Path) -> None:
    server = SkillServer(folder)
    got: list[bytes] = []

    async def read(client: Client) -> None:
        got.append(content(await call(client, "resources/read", uri=REFUNDS)))

    async with (
        connected(server.low_level, "2026-07-28") as one,
        connected(server.low_level, "2025-11-25") as two,
    ):
        write(folder / "acme/refunds/SKILL.md", FRONTMATTER + b"More.\n")
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(read, one)
                tasks.start_soon(read, two)
    assert got == [FRONTMATTER + b"More.\n"] * 20


def test_a_negative_time_to_live_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        ServerOptions(ttl_ms=-1)
