"""Clients of older dialects find the skills where they look, through clients that others wrote."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mcp_types as types
import pytest
from fastmcp import Client as FastMCPClient
from fastmcp.utilities.skills import download_skill, get_skill_manifest, list_skills, sync_skills

from clients import both_eras, call, connected, refusal
from folder_server import in_task
from skillwire import FunctionSource, LegacyFeatures, Limits, SkillServer
from skillwire.server import ServerOptions
from skillwire.server.library import ALL_OFF
from skillwire.skill import Dialect
from skillwire.wire.legacy import bind_to_manifest, parse_index, resource_page, scanned_entry, with_manifests
from trees import skill_md, write, write_skill

pytestmark = pytest.mark.anyio

BINARY = bytes(range(256))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    write_skill(folder / "code-review", {"refs/checklist.md": "naïve\r\n".encode(), "logo.png": BINARY})
    write_skill(folder / "git-commit-review")
    write_skill(folder / "team/release-notes")
    return folder


async def text_at(client: Any, uri: str) -> tuple[str | None, str]:
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    return content.mime_type, content.text


async def uris_of(client: Any) -> list[str]:
    return [str(resource.uri) for resource in (await client.list_resources()).resources]


@asynccontextmanager
async def fast_mcp(server: SkillServer) -> AsyncGenerator[FastMCPClient[Any]]:
    async with in_task(server.http_app()) as http, FastMCPClient(http.url) as client:
        yield client


async def test_fastmcps_own_utilities_list_and_download_skills(folder: Path, tmp_path: Path) -> None:
    async with fast_mcp(SkillServer(folder)) as client:
        assert [(skill.name, skill.uri) for skill in await list_skills(client)] == [
            ("code-review", "skill://code-review/SKILL.md"),
            ("git-commit-review", "skill://git-commit-review/SKILL.md"),
            ("team/release-notes", "skill://team/release-notes/SKILL.md"),
        ]
        manifest = await get_skill_manifest(client, "code-review")
        assert (manifest.name, [file.path for file in manifest.files]) == (
            "code-review",
            ["SKILL.md", "logo.png", "refs/checklist.md"],
        )
        place = await download_skill(client, "code-review", tmp_path / "got")
        for file in ("SKILL.md", "logo.png"):
            assert (place / file).read_bytes() == (folder / "code-review" / file).read_bytes()
        assert (place / "refs/checklist.md").read_text("utf-8").startswith("naïve")


async def test_fastmcp_can_sync_a_folder_with_nested_skills_and_prefixes(
    folder: Path, tmp_path: Path
) -> None:
    write_skill(tmp_path / "outer", {"big.bin": bytes(2**20 + 1)})
    write_skill(tmp_path / "outer/inner")
    got = tmp_path / "got"
    async with fast_mcp(SkillServer(folder, f"acme={tmp_path}/outer")) as client:
        places = [place.relative_to(got).as_posix() for place in await sync_skills(client, got)]
    # FastMCP takes the nested skill along with the outer one, and then finds its folder there.
    assert sorted(places) == ["acme/outer", "code-review", "git-commit-review", "team/release-notes"]
    for path in ("acme/outer/big.bin", "acme/outer/inner/SKILL.md", "team/release-notes/SKILL.md"):
        assert (got / path).is_file()
    assert (got / "code-review/logo.png").read_bytes() == (folder / "code-review/logo.png").read_bytes()


@both_eras
async def test_skills_and_manifests_are_listed_and_supporting_files_are_a_template(
    folder: Path, version: str
) -> None:
    async with connected(SkillServer(folder).low_level, version) as client:
        assert all(uri.endswith("/SKILL.md") for uri in await uris_of(client)), "no clutter in pickers"
    listed = ServerOptions(legacy_features=LegacyFeatures(list_legacy=True))
    async with connected(SkillServer(folder, options=listed).low_level, version) as client:
        answer = await call(client, "resources/list")
        media = {resource["uri"]: resource["mimeType"] for resource in answer["resources"]}
        assert media == {
            "skill://code-review/SKILL.md": "text/markdown",
            "skill://code-review/_manifest": "application/json",
            "skill://git-commit-review/SKILL.md": "text/markdown",
            "skill://git-commit-review/_manifest": "application/json",
            "skill://index.json": "application/json",
            "skill://prompt-xml": "application/xml",
            "skill://team/release-notes/SKILL.md": "text/markdown",
            "skill://team/release-notes/_manifest": "application/json",
        }
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == [
            "skill://{+path}",
            "skill://{name}/{+path}",
        ]
        # Our own reading of that dialect binds every file.
        found = with_manifests(resource_page(answer).resources)
        assert sorted(found) == [
            "skill://code-review/_manifest",
            "skill://git-commit-review/_manifest",
            "skill://team/release-notes/_manifest",
        ]
        for uri, resource in found.items():
            _, manifest = await text_at(client, uri)
            bound: Any = bind_to_manifest(scanned_entry(resource, Dialect.MANIFEST), manifest.encode())
            served = await call(client, "skills/get", uri=bound.uri)
            assert [{"uri": f.uri, "digest": f.digest, "size": f.size} for f in bound.resources] == served[
                "skill"
            ]["resources"]


@both_eras
@pytest.mark.parametrize("shape", ["april-2026", "early-june-2026", "june-2026"])
async def test_the_index_is_read_in_each_shape(folder: Path, version: str, shape: Any) -> None:
    server = SkillServer(
        folder, options=ServerOptions(legacy_features=LegacyFeatures(index=shape), unlisted=("git-*",))
    )
    async with connected(server.low_level, version) as client:
        media, index = await text_at(client, "skill://index.json")
        listing = parse_index(index.encode())
        assert (media, listing.issues) == ("application/json", ())
        drafts = {"april-2026": "D2", "early-june-2026": "D3", "june-2026": "D4"}
        assert {entry.dialect.value for entry in listing.entries} == {drafts[shape]}
        assert [entry.uri for entry in listing.entries] == [
            "skill://code-review/SKILL.md",
            "skill://team/release-notes/SKILL.md",
        ]
        assert ("$schema" in json.loads(index)) is (shape != "june-2026")


@both_eras
async def test_the_catalog_is_available_as_xml(folder: Path, version: str) -> None:
    async with connected(SkillServer(folder).low_level, version) as client:
        media, text = await text_at(client, "skill://prompt-xml")
        assert media == "application/xml"
        names = [skill.findtext("name") for skill in ElementTree.fromstring(text)]
        assert names == ["code-review", "git-commit-review", "release-notes"]


@both_eras
async def test_all_of_it_can_be_disabled(folder: Path, version: str) -> None:
    async with connected(
        SkillServer(folder, options=ServerOptions(legacy_features=ALL_OFF)).low_level, version
    ) as client:
        assert all(uri.endswith("/SKILL.md") for uri in await uris_of(client))
        for uri in ("skill://index.json", "skill://prompt-xml", "skill://code-review/_manifest"):
            assert (await refusal(client, "resources/read", uri=uri)).code == types.INVALID_PARAMS
        capabilities = client.server_capabilities
        assert (capabilities.tools, capabilities.prompts) == (None, None)
        assert len((await client.list_resource_templates()).resource_templates) == 1


async def test_what_is_really_there_has_its_uri_for_itself(tmp_path: Path) -> None:
    write_skill(tmp_path / "prompt-xml")
    write_skill(tmp_path / "index.json/tool")
    write_skill(tmp_path / "a", {"_manifest": b"mine"})
    write_skill(tmp_path / "b", {"_manifest/x": b"mine"})
    async with connected(SkillServer(tmp_path).low_level, "2026-07-28") as client:
        assert sorted(await uris_of(client)) == [
            "skill://a/SKILL.md",
            "skill://b/SKILL.md",
            "skill://index.json/tool/SKILL.md",
            "skill://prompt-xml/SKILL.md",
        ]
        assert json.loads((await text_at(client, "skill://prompt-xml/_manifest"))[1])["skill"] == "prompt-xml"
        assert (await text_at(client, "skill://a/_manifest"))[1] == "mine"
        for uri in ("skill://prompt-xml", "skill://index.json", "skill://b/_manifest"):
            error = await refusal(client, "resources/read", uri=uri)
            assert "is a directory" in error.message
            assert (await call(client, "resources/directory/read", uri=uri))["resources"]


async def test_the_catalog_for_a_prompt_is_bounded(tmp_path: Path) -> None:
    for number in range(50):
        write_skill(tmp_path / f"skill-{number:02}")
    options = ServerOptions(limits=Limits(prompt_xml_chars=2000))
    async with connected(SkillServer(tmp_path, options=options).low_level, "2026-07-28") as client:
        _, text = await text_at(client, "skill://prompt-xml")
    shown = text.count("<skill>")
    assert 5 < shown < 50
    assert len(text) < 2200
    assert f"<!-- {50 - shown} more skills are not shown -->" in text


async def test_a_skill_that_lists_no_files_is_in_the_index_and_has_no_manifest() -> None:
    made = FunctionSource()

    @made.dynamic("live")
    def live() -> str:
        return skill_md("live").decode()

    async with connected(SkillServer(made).low_level, "2026-07-28") as client:
        assert (
            await refusal(client, "resources/read", uri="skill://live/_manifest")
        ).code == types.INVALID_PARAMS
        [entry] = parse_index((await text_at(client, "skill://index.json"))[1].encode()).entries
        assert entry.uri == "skill://live/SKILL.md"


@both_eras
async def test_an_edit_is_in_all_of_it_at_the_next_read(folder: Path, version: str) -> None:
    async with connected(SkillServer(folder).low_level, version) as client:

        async def now(uri: str) -> str:
            # Asked for directly: the client itself may keep an answer for as long as the server allows.
            return (await call(client, "resources/read", uri=uri))["contents"][0]["text"]

        before = await now("skill://code-review/_manifest")
        write(folder / "code-review/SKILL.md", skill_md("code-review", "Quite another."))
        await now("skill://code-review/SKILL.md")
        for uri in ("skill://index.json", "skill://prompt-xml"):
            assert "Quite another." in await now(uri)
        assert await now("skill://code-review/_manifest") != before


async def test_pages_hold_skills_and_what_tells_of_them_alike(folder: Path) -> None:
    async with connected(
        SkillServer(
            folder, options=ServerOptions(page_size=2, legacy_features=LegacyFeatures(list_legacy=True))
        ).low_level,
        "2026-07-28",
    ) as client:
        uris: list[str] = []
        cursor: str | None = None
        while True:
            page = await client.list_resources(cursor=cursor)
            assert len(page.resources) <= 2
            uris += [str(resource.uri) for resource in page.resources]
            if (cursor := page.next_cursor) is None:
                break
        assert uris == sorted(set(uris))
        assert len(uris) == 8


@both_eras
async def test_the_arguments_of_our_templates_are_completed(folder: Path, version: str) -> None:
    server = SkillServer(folder, options=ServerOptions(unlisted=("git-*",)))
    async with connected(server.low_level, version) as client:
        assert client.server_capabilities.completions is not None
        by_name, by_path = "skill://{name}/{+path}", "skill://{+path}"

        async def values(uri: str, argument: str, value: str, **known: str) -> list[str]:
            ref = types.ResourceTemplateReference(uri=uri)
            result = await client.complete(ref, {"name": argument, "value": value}, known or None)
            return result.completion.values

        assert await values(by_name, "name", "") == ["code-review"]
        assert await values(by_name, "name", "x") == []
        assert await values(by_name, "path", "refs", name="code-review") == ["refs/checklist.md"]
        assert await values(by_name, "path", "", name="other") == []
        assert await values(by_path, "path", "team/") == ["team/release-notes/SKILL.md"]
        assert await values("skill://{other}", "other", "") == []


async def test_completion_leaves_the_servers_own_templates_to_it(folder: Path) -> None:
    from mcp.server.lowlevel import Server

    from skillwire import add_skills

    async def own(ctx: Any, params: Any) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=["mine"]))

    server = Server("own", on_completion=own)
    add_skills(server, folder)
    async with connected(server, "2026-07-28") as client:
        theirs = await client.complete(types.PromptReference(name="p"), {"name": "a", "value": ""})
        assert theirs.completion.values == ["mine"]
        ours = types.ResourceTemplateReference(uri="skill://{name}/{+path}")
        found = await client.complete(ours, {"name": "name", "value": "code"})
        assert found.completion.values == ["code-review"]


async def test_files_are_listed_as_resources_on_request_and_each_can_be_read(folder: Path) -> None:
    write_skill(folder / "code-review/nested", {"deep.md": b"x"})
    async with connected(SkillServer(folder).low_level, "2026-07-28") as client:
        assert not any(uri.endswith("checklist.md") for uri in await uris_of(client))
    options = ServerOptions(legacy_features=LegacyFeatures(list_files=True))
    async with connected(SkillServer(folder, options=options).low_level, "2026-07-28") as client:
        resources = (await client.list_resources()).resources
        found = {str(one.uri): (one.name, one.mime_type) for one in resources}
        assert found["skill://code-review/refs/checklist.md"] == (
            "code-review/refs/checklist.md",
            "text/markdown",
        )
        assert "skill://code-review/nested/deep.md" in found
        assert len(found) == len(resources)
        for uri in found:
            assert (await client.read_resource(uri)).contents
