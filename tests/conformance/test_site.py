"""`skillwire verify https://site`: an index of skills, every digest in it, and what is behind them."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from command_line import Run
from folder_server import in_thread
from install.samples import skill_md
from install.workspaces import write_skill
from skillwire import SkillServer
from skillwire.conformance import Level, SiteReport, site_json, site_text, verify_site
from skillwire.errors import SourceError
from skillwire.net import ArchiveFile, write_tar_gz
from skillwire.skill import digest_of
from skillwire.sources.wellknown import SCHEMA

SITE = "https://example.org"
BASE = f"{SITE}/.well-known/agent-skills/"
PDF = write_tar_gz([ArchiveFile("SKILL.md", skill_md("pdf")), ArchiveFile("a.md", b"a")])
PLAIN = {"name": "pdf", "type": "archive", "description": "Does pdf.", "url": "pdf.tar.gz"}


def index(*rows: Mapping[str, object], **more: object) -> bytes:
    return json.dumps({"$schema": SCHEMA, "skills": rows, **more}).encode()


def entry(data: bytes = PDF, **changes: object) -> dict[str, object]:
    return {**PLAIN, "digest": digest_of(data), **changes}


async def check(pages: Mapping[str, bytes], url: str = SITE) -> SiteReport:
    def answer(request: httpx2.Request) -> httpx2.Response:
        page = pages.get(str(request.url))
        return httpx2.Response(404) if page is None else httpx2.Response(200, content=page)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        return await verify_site(url, client=client)


@pytest.mark.anyio
async def test_a_site_whose_artifacts_are_what_it_lists_has_no_findings() -> None:
    text = skill_md("notes")
    notes = entry(text, name="notes", type="skill-md", description="Does notes.", url="/notes/SKILL.md")
    report = await check(
        {
            f"{BASE}index.json": index(entry(), notes),
            f"{BASE}pdf.tar.gz": PDF,
            f"{SITE}/notes/SKILL.md": text,
        }
    )
    assert report.findings == ()
    assert (report.version, report.listed, report.checked) == ("0.2.0", 2, 2)
    assert "2 listed, 2 fetched and compared" in site_text(report)
    assert json.loads(site_json(report))["ok"] is True


def archive_with_a_link() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        link = tarfile.TarInfo("SKILL.md")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return made.getvalue()


OTHER = write_tar_gz([ArchiveFile("SKILL.md", skill_md("other"))])
BROKEN = write_tar_gz([ArchiveFile("SKILL.md", b"no frontmatter")])
EMPTY = write_tar_gz([ArchiveFile("README.md", b"x")])
LINK = archive_with_a_link()
HUGE = write_tar_gz([ArchiveFile("SKILL.md", skill_md("pdf")), ArchiveFile("a", bytes(26 * 1024 * 1024))])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("row", "artifact", "level", "said"),
    [
        (entry(b"something else"), PDF, Level.MUST, f"has the digest {digest_of(PDF)}"),
        (entry(), None, Level.MUST, "status 404"),
        (entry(OTHER), OTHER, Level.MUST, "has the name 'other'"),
        (entry(BROKEN), BROKEN, Level.MUST, "SKILL.md"),
        (entry(EMPTY), EMPTY, Level.MUST, "no SKILL.md at its root"),
        (entry(LINK), LINK, Level.MUST, "link"),
        (entry(HUGE), HUGE, Level.SHOULD, "bytes"),
        (entry(description="Something nicer."), PDF, Level.ADVICE, "description in the index"),
    ],
    ids=["digest", "gone", "name", "frontmatter", "no SKILL.md", "link", "too large", "description"],
)
async def test_what_is_wrong_with_a_skill_is_named_with_its_fix(
    row: dict[str, object], artifact: bytes | None, level: Level, said: str
) -> None:
    pages = {f"{BASE}index.json": index(row)}
    report = await check(pages if artifact is None else {**pages, f"{BASE}pdf.tar.gz": artifact})
    [finding] = report.findings
    assert (finding.skill, finding.level) == ("pdf", level)
    assert said in finding.message
    assert finding.fix
    assert bool(report.failures()) == (level is not Level.ADVICE)
    assert f"pdf: {finding.message}" in site_text(report)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"<html>", "not JSON"),
        (b"{}", "no list of skills"),
        (index(**{"$schema": "https://example.org/9.9"}), "not known"),
        (index(entry(), entry(name="Bad Name")), "skills[1] is left out"),
        (index(entry(), entry()), "there twice"),
        (index(entry(url="http://example.org/pdf.tar.gz")), "not one that is followed"),
        (index(entry(digest="sha256:00")), "skills[0] is left out"),
    ],
)
async def test_what_is_wrong_with_the_index_is_named(data: bytes, said: str) -> None:
    report = await check({f"{BASE}index.json": data, f"{BASE}pdf.tar.gz": PDF})
    [finding] = [one for one in report.findings if not one.skill]
    assert finding.level is Level.MUST
    assert said in finding.message


@pytest.mark.anyio
async def test_an_index_of_the_older_version_gets_advice() -> None:
    older = f"{SITE}/.well-known/skills/"
    listing = {"skills": [{"name": "pdf", "description": "Does pdf.", "files": ["SKILL.md"]}]}
    report = await check(
        {f"{older}index.json": json.dumps(listing).encode(), f"{older}pdf/SKILL.md": skill_md("pdf")}
    )
    assert report.version == "0.1.0"
    assert {finding.level for finding in report.findings} == {Level.ADVICE}
    assert len(report.findings) == 2


@pytest.mark.anyio
async def test_one_skill_of_a_site_can_be_checked_alone() -> None:
    pages = {f"{BASE}index.json": index(entry(), entry(name="gone", url="gone.tar.gz"))}
    report = await check({**pages, f"{BASE}pdf.tar.gz": PDF}, f"{SITE}#pdf")
    assert (report.findings, report.checked) == ((), 1)
    [missing] = (await check(pages, f"{SITE}#none")).findings
    assert missing.message == "it is not listed"


@pytest.mark.anyio
async def test_a_site_without_an_index_cannot_be_checked() -> None:
    with pytest.raises(SourceError, match="404"):
        await check({})


@pytest.mark.anyio
@pytest.mark.parametrize("url", ["https://u:SECRET@example.org", "https://example.org?token=SECRET", "./x"])
async def test_what_is_not_the_url_of_a_site_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(SourceError, match="https://SITE") as refused:
        await verify_site(url)
    assert "SECRET" not in str(refused.value)


def test_our_own_site_passes_and_a_token_reaches_it(tmp_path: Path, run: Run) -> None:
    write_skill(tmp_path / "skills", "notes", {"scripts/run.sh": "#!/bin/sh\n"})
    app = SkillServer(tmp_path / "skills").http_app(token="open-sesame", well_known=True)
    bearer = ["--header", "Authorization: Bearer open-sesame"]
    with in_thread(app) as site:
        done = run("verify", site, *bearer)
        assert done.code == 0, done.err
        assert "1 listed, 1 fetched and compared" in done.out
        document = run("verify", site, "--json", *bearer).document
        assert (document["ok"], document["discovery"], document["findings"]) == (True, "0.2.0", [])
        assert run("verify", f"{site}/mcp", *bearer).code == 0
        refused = run("verify", "--as", "site", site)
        assert refused.code == 2
        assert "401" in refused.err
        both = run("verify", site, "--only", "ENT-3", *bearer)
        assert both.code == 2
        assert "--only is for MCP servers" in both.err


def test_a_url_without_a_path_that_has_no_index_is_checked_as_a_server(tmp_path: Path, run: Run) -> None:
    write_skill(tmp_path / "skills", "notes")
    with in_thread(SkillServer(tmp_path / "skills").http_app()) as url:
        done = run("verify", url)
    assert done.code == 2
    assert "No index of skills was found" in done.err


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server of plain files, and the folder that it serves under `/.well-known/agent-skills/`."""
    folder = tmp_path / "www/.well-known/agent-skills"
    folder.mkdir(parents=True)
    (folder / "index.json").write_bytes(index(entry()))
    (folder / "pdf.tar.gz").write_bytes(PDF)

    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words, directory=str(tmp_path / "www"))

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the output is that of the command."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("name", "data", "code", "said"),
    [
        pytest.param("index.json", index(entry()), 0, "1 listed, 1 fetched and compared", id="good"),
        pytest.param(
            "index.json", index(entry(b"other")), 1, f"has the digest {digest_of(PDF)}", id="digest"
        ),
        pytest.param("pdf.tar.gz", None, 1, "answers with status 404", id="missing artifact"),
        pytest.param("pdf.tar.gz", PDF[:40], 1, "has the digest", id="half an artifact"),
        pytest.param("index.json", b"<html>", 1, "it is not JSON", id="index that is not JSON"),
        pytest.param(
            "index.json", b'{"skills": 3}', 1, "it has no list of skills", id="index without skills"
        ),
        pytest.param("index.json", None, 2, "answers with status 404", id="no index"),
    ],
)
def test_the_exit_code_says_whether_a_site_passes(
    site: tuple[str, Path],
    name: str,
    data: bytes | None,
    code: int,
    said: str,
    run: Run,
) -> None:
    url, folder = site
    (folder / name).unlink()
    if data is not None:
        (folder / name).write_bytes(data)
    ended = run("verify", "--as", "site", url)
    assert (ended.code, said in ended.out + ended.err) == (code, True), ended
    as_json = run("verify", "--as", "site", url, "--json")
    assert as_json.code == code
    if code != 2:
        document = json.loads(as_json.out)
        assert (document["ok"], bool(document["findings"])) == (code == 0, code == 1)


def test_nothing_that_listens_is_no_site_that_passes(run: Run) -> None:
    ended = run("verify", "--as", "site", "http://127.0.0.1:1")
    assert (ended.code, ended.out) == (2, "")
    assert "nothing listens there" in ended.err
