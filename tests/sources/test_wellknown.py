"""Sites that list skills: indexes are read, artifacts verified, limits kept; and a source of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import anyio
import httpx2
import pytest

from install.samples import skill_md
from skillwire.errors import DigestMismatch, FormatError, LimitExceeded, SkillNotFound, SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.net import ArchiveFile, write_tar_gz
from skillwire.skill import digest_of, parse_uri
from skillwire.sources import Change, SourceReference, parse_reference
from skillwire.sources.remote import RemoteSource, remote_reference
from skillwire.sources.wellknown import (
    SCHEMA,
    Site,
    fetch_artifact,
    fetch_index,
    fetch_site,
    parse_site_index,
)

pytestmark = pytest.mark.anyio
URL = "https://example.org/.well-known/agent-skills/index.json"
SITE = parse_reference("https://example.org")
ARCHIVE = write_tar_gz(
    [ArchiveFile("SKILL.md", skill_md("pdf")), ArchiveFile("run", b"#!x", executable=True)]
)
TEXT = skill_md("notes")


def row(**changes: object) -> dict[str, object]:
    return {
        "name": "pdf",
        "type": "archive",
        "description": "Reads.",
        "url": "pdf.tar.gz",
        "digest": digest_of(ARCHIVE),
        **changes,
    }


def index(*rows: Mapping[str, object], **more: object) -> bytes:
    return json.dumps({"$schema": SCHEMA, "skills": rows, **more}).encode()


def site(pages: Mapping[str, bytes | Callable[[], httpx2.Response]]) -> httpx2.AsyncClient:
    def answer(request: httpx2.Request) -> httpx2.Response:
        page = pages.get(str(request.url))
        if page is None:
            return httpx2.Response(404)
        return httpx2.Response(200, content=page) if isinstance(page, bytes) else page()

    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))


BASE = "https://example.org/.well-known/agent-skills/"
NOTES = row(name="notes", type="skill-md", url="/notes/SKILL.md", digest=digest_of(TEXT))
PAGES: dict[str, Any] = {
    URL: index(row(), NOTES),
    BASE + "pdf.tar.gz": ARCHIVE,
    "https://example.org/notes/SKILL.md": TEXT,
}


async def test_archives_and_texts_are_fetched_and_verified() -> None:
    fetched = await fetch_site(SITE, client=site(PAGES))
    assert fetched.index_url == URL
    notes, pdf = fetched.skills
    assert [file.path for file in pdf.files] == ["SKILL.md", "run"]
    assert pdf.files[1].executable
    assert notes.files == (ArchiveFile("SKILL.md", TEXT),)
    one = await fetch_site(parse_reference("https://example.org#pdf"), client=site(PAGES))
    assert [skill.entry.name for skill in one.skills] == ["pdf"]
    assert await fetch_artifact(pdf.entry.url, pdf.digest, index=URL, client=site(PAGES)) == pdf.files
    assert await fetch_artifact(notes.entry.url, notes.digest, index=URL, client=site(PAGES)) == notes.files


async def test_a_digest_that_matches_no_file_affects_only_that_skill() -> None:
    pages = {**PAGES, URL: index(row(digest="sha256:" + "0" * 64), NOTES)}
    fetched = await fetch_site(SITE, client=site(pages))
    assert [skill.entry.name for skill in fetched.skills] == ["notes"]
    [(name, error)] = fetched.failures
    assert name == "pdf"
    assert isinstance(error, DigestMismatch)


async def test_the_older_path_and_the_older_version_are_read() -> None:
    older = json.dumps(
        {"skills": [{"name": "pdf", "description": "x", "files": ["SKILL.md", "a/b.md"]}]}
    ).encode()
    base = "https://example.org/.well-known/skills/"
    pages = {base + "index.json": older, base + "pdf/SKILL.md": skill_md("pdf"), base + "pdf/a/b.md": b"b"}
    [skill] = (await fetch_site(SITE, client=site(pages))).skills
    assert [file.path for file in skill.files] == ["SKILL.md", "a/b.md"]


def test_a_skill_of_the_older_version_with_too_many_files_costs_itself() -> None:
    small = replace(DEFAULT_LIMITS, files_per_skill=2)
    rows = [
        {"name": "pdf", "description": "x", "files": ["SKILL.md", "a.md", "b.md"]},
        {"name": "notes", "description": "x", "files": ["SKILL.md", "a.md"]},
    ]
    read = parse_site_index(json.dumps({"skills": rows}).encode(), URL, limits=small)
    assert [entry.name for entry in read.entries] == ["notes"]
    assert "lists more than 2 files" in read.issues[0].message


@pytest.mark.parametrize("url", ["https://10.0.0.1/x", "http://example.org/x", "file:///etc/passwd"])
async def test_a_pinned_artifact_is_fetched_only_from_where_its_index_may_lead(url: str) -> None:
    client = site({url: ARCHIVE})
    with pytest.raises(SourceError, match=r"private network|less secure|not the URL of a web site"):
        await fetch_artifact(url, digest_of(ARCHIVE), index=URL, client=client)
    elsewhere = "https://cdn.example.com/x"
    assert await fetch_artifact(elsewhere, digest_of(ARCHIVE), index=URL, client=site({elsewhere: ARCHIVE}))


@pytest.mark.parametrize("path", ["../evil.md", "/evil.md", "a\\evil.md", "a/../../evil.md"])
def test_a_file_of_the_older_version_that_leaves_its_folder_costs_its_skill(path: str) -> None:
    rows = [{"name": "pdf", "description": "x", "files": ["SKILL.md", path]}]
    read = parse_site_index(json.dumps({"skills": rows}).encode(), URL)
    assert read.entries == ()
    assert "is not plain" in read.issues[0].message


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (["a.md"], "SKILL.md is not among the listed files"),
        (["SKILL.md", "a.md", "./a.md"], "a.md is listed twice"),
        (["SKILL.md", "SKILL.md/x"], "SKILL.md/x lies below a file"),
    ],
)
def test_files_of_the_older_version_that_are_no_skill_cost_it_before_any_is_fetched(
    files: list[str], reason: str
) -> None:
    rows = [{"name": "pdf", "description": "x", "files": files}]
    read = parse_site_index(json.dumps({"skills": rows}).encode(), URL)
    assert read.entries == ()
    assert reason in read.issues[0].message


@pytest.mark.parametrize(
    "data",
    [
        b"not json",
        b"[]",
        b"{}",
        b"[" * 100_000,
        index(**{"$schema": "https://schemas.agentskills.io/discovery/9.9.9/schema.json"}),
    ],
)
def test_an_index_that_is_none_or_of_another_version_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_site_index(data, URL)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Bad Name"},
        {"name": "../x"},
        {"type": "exe"},
        {"description": ""},
        {"description": "x" * 1025},
        {"url": ""},
        {"url": "file:///etc/passwd"},
        {"url": "http://example.org/pdf.tar.gz"},
        {"url": "https://me:pass@example.org/x"},
        {"digest": "sha256:short"},
        {"digest": None},
    ],
)
def test_an_invalid_entry_affects_only_itself(changes: dict[str, object]) -> None:
    read = parse_site_index(index(row(**changes), NOTES, NOTES), URL)
    assert [entry.name for entry in read.entries] == ["notes"]
    assert len(read.issues) == 2


async def test_caps_act_while_an_answer_arrives() -> None:
    small = replace(DEFAULT_LIMITS, document_bytes=100)
    with pytest.raises(LimitExceeded):
        await fetch_index(SITE, limits=small, client=site(PAGES))
    small = replace(DEFAULT_LIMITS, archive_bytes=100)
    pages = {**PAGES, BASE + "pdf.tar.gz": b"x" * 101}
    [(name, error)] = (await fetch_site(SITE, names=["pdf"], limits=small, client=site(pages))).failures
    assert name == "pdf"
    assert isinstance(error, LimitExceeded)


async def test_an_index_is_cut_after_its_limit_with_one_remark() -> None:
    rows = [row(name=f"skill-{number}") for number in range(50)]
    limits = replace(DEFAULT_LIMITS, site_skills=10)
    read = parse_site_index(index(*rows), URL, limits=limits)
    assert [entry.name for entry in read.entries] == [f"skill-{number}" for number in range(10)]
    [remark] = read.issues
    assert "lists 50 skills, and only the first 10 are read" in remark.message
    named = parse_site_index(index(*rows), URL, wanted=["skill-49"], limits=limits)
    assert named.entries[-1].name == "skill-49"
    bad = parse_site_index(index(*[{}] * 50), URL, limits=limits)
    assert len(bad.issues) == 11


async def test_a_named_skill_is_found_behind_the_limit() -> None:
    rows = [row(name=f"skill-{number}") for number in range(3)] + [row()]
    pages = {**PAGES, URL: index(*rows)}
    limits = replace(DEFAULT_LIMITS, site_skills=1)
    [skill] = (
        await fetch_site(parse_reference("https://example.org#pdf"), limits=limits, client=site(pages))
    ).skills
    assert skill.entry.name == "pdf"


async def test_an_artifact_may_come_from_another_public_host_and_only_pinned() -> None:
    pages = {
        **PAGES,
        BASE + "pdf.tar.gz": moved("https://cdn.example.com/x"),
        "https://cdn.example.com/x": ARCHIVE,
    }
    [skill] = (await fetch_site(SITE, names=["pdf"], client=site(pages))).skills
    assert skill.digest == digest_of(ARCHIVE)
    pages[BASE + "pdf.tar.gz"] = moved("https://10.0.0.1/x")
    [(_, error)] = (await fetch_site(SITE, names=["pdf"], client=site(pages))).failures
    assert "private network" in str(error)


def moved(location: str) -> Callable[[], httpx2.Response]:
    return lambda: httpx2.Response(302, headers={"location": location})


async def test_redirects_are_followed_as_far_as_they_are_safe() -> None:
    pages = {
        **PAGES,
        URL: moved("https://example.org/index.json"),
        "https://example.org/index.json": PAGES[URL],
    }
    assert (await fetch_index(SITE, client=site(pages)))[1].entries
    for location in (
        "http://example.org/x",
        "file:///etc/passwd",
        "https://me:pass@example.org/x",
        "https://127.0.0.1/x",
        "https://other.example/index.json",
    ):
        with pytest.raises(SourceError, match="it is not followed"):
            await fetch_index(SITE, client=site({URL: moved(location)}))
    with pytest.raises(SourceError, match="redirects more than"):
        await fetch_index(SITE, client=site({URL: moved(URL)}))


async def test_a_site_without_an_index_says_so() -> None:
    with pytest.raises(SourceError, match="404"):
        await fetch_index(SITE, client=site({}))


# The source


class Place:
    """A place whose files change and that can be away."""

    def __init__(self) -> None:
        self.files = [
            ArchiveFile("skills/pdf/SKILL.md", skill_md("pdf")),
            ArchiveFile("skills/pdf/a.md", b"a"),
        ]
        self.away = False

    async def fetch(self) -> list[ArchiveFile]:
        if self.away:
            raise SourceError("the place is away")
        return list(self.files)

    def source(self, name: str = "place", **options: Any) -> RemoteSource:
        return RemoteSource(name, self.fetch, **options)


PDF = parse_uri("skill://skills/pdf/SKILL.md")


async def test_a_remote_source_serves_what_was_fetched() -> None:
    place = Place()
    source = place.source(keep=False)
    [entry] = await source.list_entries()
    assert entry.uri == PDF
    read = await source.read(PDF)
    assert read.data == skill_md("pdf")
    assert read.validator is not None
    assert read.validator.is_fresh()
    await source.refresh()
    assert await source.list_entries() is source.current_entries()
    assert (await source.list_entries())[0] is entry
    with pytest.raises(SkillNotFound):
        await source.read(parse_uri("skill://skills/pdf/b.md"))
    assert [child.name for child in await source.read_directory(parse_uri("skill://skills/pdf"))] == [
        "SKILL.md",
        "a.md",
    ]


async def test_a_change_is_seen_on_the_interval_and_on_request() -> None:
    place = Place()
    source = place.source(keep=False, interval=1000)
    await source.open()
    before = await source.read(PDF)
    place.files[1] = ArchiveFile("skills/pdf/a.md", b"changed")
    with anyio.fail_after(30):
        async with aclosing(source.changes()) as changes:
            source.request_refresh()
            assert await anext(changes) == Change(PDF)
    assert before.validator is not None
    assert not before.validator.is_fresh()
    fast = place.source(keep=False, interval=0.01)
    await fast.open()
    place.files.append(ArchiveFile("skills/notes/SKILL.md", skill_md("notes")))
    with anyio.fail_after(30):
        async with aclosing(fast.changes()) as changes:
            assert await anext(changes) == Change()


async def test_the_last_good_state_is_served_while_the_place_is_unreachable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = Place()
    source = place.source("a place of its own")
    await source.open()
    place.away = True
    await source.refresh()
    assert [entry.uri for entry in await source.list_entries()] == [PDF]
    # A server that starts while the place is away has it from the cache.
    again = place.source("a place of its own")
    await again.open()
    assert (await again.read(PDF)).data == skill_md("pdf")
    assert "away" in caplog.text
    with pytest.raises(SourceError, match="away"):
        await place.source("never fetched").open()


async def test_a_site_whose_archives_are_unreachable_keeps_serving_what_it_had(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The index is there, and the host of the archives is not."""
    pages = dict(PAGES)

    async def fetch(reference: SourceReference, *, limits: Limits) -> Site:
        return await fetch_site(reference, limits=limits, client=site(pages))

    monkeypatch.setattr("skillwire.sources.remote.fetch_site", fetch)
    source = RemoteSource.from_reference(SITE)
    names = [entry.name for entry in await source.list_entries()]
    assert names == ["notes", "pdf"]
    archive = pages.pop(BASE + "pdf.tar.gz")
    await source.refresh()
    assert [entry.name for entry in await source.list_entries()] == names
    assert "what was fetched last is served" in caplog.text
    # Other bytes than those of the index are not served, and the last ones are no longer listed.
    pages[BASE + "pdf.tar.gz"] = b"other"
    await source.refresh()
    assert [entry.name for entry in await source.list_entries()] == ["notes"]
    pages[BASE + "pdf.tar.gz"] = archive
    await source.refresh()
    assert [entry.name for entry in await source.list_entries()] == names
    # With nothing at all, the whole site counts as away, also for a server that starts now.
    for url in [url for url in pages if url != URL]:
        del pages[url]
    await source.refresh()
    assert [entry.name for entry in await source.list_entries()] == names
    assert [entry.name for entry in await RemoteSource.from_reference(SITE).list_entries()] == names


async def test_a_skill_that_is_not_sound_is_left_out_with_its_reason() -> None:
    place = Place()
    place.files += [
        ArchiveFile("skills/other/SKILL.md", skill_md("another-name")),
        ArchiveFile("bad/SKILL.md", b"no frontmatter"),
    ]
    source = place.source(keep=False)
    assert [entry.name for entry in await source.list_entries()] == ["pdf"]
    assert {problem.place for problem in source.problems()} == {"skills/other", "bad"}


async def test_a_skill_at_the_root_is_named_by_itself_and_a_prefix_comes_first() -> None:
    place = Place()
    place.files = [ArchiveFile("SKILL.md", skill_md("root"))]
    source = place.source(keep=False, prefix=["acme"])
    assert [entry.uri for entry in await source.list_entries()] == ["skill://acme/root/SKILL.md"]


def test_places_that_have_to_be_fetched_are_distinguished_from_folders() -> None:
    assert remote_reference("./skills") is None
    assert remote_reference("acme=./skills") is None
    found = remote_reference("acme=git+https://h/r#v1:skills")
    assert found is not None
    assert (found[0], found[1].ref, found[1].path) == (("acme",), "v1", "skills")
    found = remote_reference("https://example.org")
    assert found is not None
    assert found[0] == ()
    with pytest.raises(FormatError):
        remote_reference("..=https://example.org")
