"""`skillwire serve` of what has to be fetched: repositories, sites, a lock, packages; and as a site."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from command_line import Run
from folder_server import in_thread
from install.samples import skill_md
from install.workspaces import write_skill
from served import Served, serving_http, serving_stdio
from skillwire import SkillServer
from waiting import eventually

pytestmark = pytest.mark.process
WELL_KNOWN = "/.well-known/agent-skills/"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "user" / name.lower()))
    return tmp_path / "user"


def site_of(folder: Path) -> AbstractContextManager[str]:
    """What `--well-known` serves, from this process; its address."""
    return in_thread(SkillServer(folder).http_app(well_known=True))


class Repository:
    """A git repository with a folder of skills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> None:
        own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *own, *words], cwd=self.folder, check=True, capture_output=True)

    def commit(self, name: str, body: str) -> None:
        write_skill(self.folder / "skills", name, body=body)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", name)

    @property
    def reference(self) -> str:
        return f"git+file://{self.folder}#main:skills"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository")
    made.commit("notes", "one")
    return made


def listed(served: Served) -> dict[str, str]:
    """The digest of the SKILL.md of every skill, by URI."""
    skills = served.ask("skills/list")["result"]["skills"]
    return {skill["uri"]: skill["resources"][0]["digest"] for skill in skills}


def text_of(served: Served, uri: str) -> str:
    return served.ask("resources/read", uri=uri)["result"]["contents"][0]["text"]


def poll(served: Served, uri: str, text: str) -> None:
    """Ask until the server has it: what changed is fetched beside the answers."""
    eventually(lambda: text in text_of_ignoring_notices(served, uri))


def text_of_ignoring_notices(served: Served, uri: str) -> str:
    served.send({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}})
    answer: dict[str, Any] = {}
    while "id" not in answer:
        answer = served.receive()
    return answer.get("result", {"contents": [{"text": ""}]})["contents"][0]["text"]


def test_a_repository_is_served_beside_a_folder_and_fetched_again_on_a_signal(
    repository: Repository, tmp_path: Path
) -> None:
    write_skill(tmp_path / "local", "pdf")
    with serving_stdio(repository.reference, tmp_path / "local", "--refresh", "3600") as served:
        assert listed(served).keys() == {"skill://notes/SKILL.md", "skill://pdf/SKILL.md"}
        assert "one" in text_of(served, "skill://notes/SKILL.md")
        repository.commit("notes", "two")
        served.process.send_signal(signal.SIGHUP)
        poll(served, "skill://notes/SKILL.md", "two")
        # The repository is away: what was fetched last goes on to be served, and the log says so.
        repository.folder.rename(tmp_path / "moved")
        served.process.send_signal(signal.SIGHUP)
        served.wait_until_it_says("what was fetched last is served")
        assert "two" in text_of_ignoring_notices(served, "skill://notes/SKILL.md")
    # Also after a restart.
    with serving_stdio(repository.reference) as served:
        assert "two" in text_of(served, "skill://notes/SKILL.md")


def test_a_repository_is_fetched_again_on_an_interval(repository: Repository) -> None:
    with serving_stdio(repository.reference, "--refresh", "1") as served:
        assert "one" in text_of(served, "skill://notes/SKILL.md")
        repository.commit("notes", "two")
        poll(served, "skill://notes/SKILL.md", "two")


def test_a_place_that_was_never_reached_is_one_clear_line(run: Run, tmp_path: Path) -> None:
    ended = run("serve", f"git+file://{tmp_path}/none")
    assert (ended.code, len(ended.err.splitlines())) == (4, 1)


def test_the_skills_of_a_site_are_served_under_a_prefix(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "notes", {"a.md": "a"})
    with site_of(tmp_path / "skills") as site, serving_stdio(f"acme={site}") as served:
        assert list(listed(served)) == ["skill://acme/notes/SKILL.md"]
        assert text_of(served, "skill://acme/notes/a.md") == "a"


# A site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "skills"
    write_skill(folder, "notes", {"scripts/run.sh": "#!/bin/sh\n"})
    write_skill(folder, "pdf")
    with site_of(folder) as url:
        yield url, folder


def test_the_index_names_archives_that_depend_on_their_files_alone(site: tuple[str, Path]) -> None:
    url, folder = site
    index = httpx.get(f"{url}{WELL_KNOWN}index.json", timeout=60).json()
    assert index["$schema"].endswith("/0.2.0/schema.json")
    rows = {row["name"]: row for row in index["skills"]}
    assert rows.keys() == {"notes", "pdf"}
    data = httpx.get(f"{url}{WELL_KNOWN}{rows['notes']['url']}", timeout=60).content
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == rows["notes"]["digest"]
    for path in folder.rglob("*"):
        os.utime(path, (0, 0))
    with site_of(folder) as other:
        assert httpx.get(f"{other}{WELL_KNOWN}index.json", timeout=60).json() == index


def test_a_changed_skill_has_another_archive_and_the_old_one_is_gone(site: tuple[str, Path]) -> None:
    url, folder = site

    def row() -> dict[str, str]:
        rows = httpx.get(f"{url}{WELL_KNOWN}index.json", timeout=60).json()["skills"]
        return next(one for one in rows if one["name"] == "pdf")

    before = row()
    (folder / "pdf/SKILL.md").write_bytes(skill_md("pdf", "two"))
    eventually(lambda: row() != before)
    assert httpx.get(f"{url}{WELL_KNOWN}{row()['url']}", timeout=60).status_code == 200
    assert httpx.get(f"{url}{WELL_KNOWN}{before['url']}", timeout=60).status_code == 404


def test_a_site_takes_only_reads_and_needs_the_token_that_the_server_needs(run: Run, tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "notes")
    (tmp_path / "token").write_text("open-sesame")
    with serving_http(tmp_path / "skills", "--well-known", "--token-file", tmp_path / "token") as (url, _):
        index = f"{url.removesuffix('/mcp')}{WELL_KNOWN}index.json"
        bearer = {"Authorization": "Bearer open-sesame"}
        assert httpx.get(index, timeout=60).status_code == 401
        assert httpx.get(index, headers=bearer, timeout=60).status_code == 200
        assert httpx.post(index, headers=bearer, timeout=60).status_code == 405
        assert httpx.head(index, headers=bearer).status_code == 200
    ended = run("serve", tmp_path, "--well-known")
    assert (ended.code, "--well-known needs --http" in ended.err) == (2, True)


# Exactly what is pinned


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def add(run: Run, *words: object) -> None:
    assert run("add", *words, "--yes").code == 0


def test_a_lock_is_served_as_pinned_whatever_the_source_and_the_folders_have_now(
    run: Run, tmp_path: Path, project: Path
) -> None:
    team = tmp_path / "team"
    write_skill(team, "notes", body="one")
    add(run, team)
    write_skill(team, "notes", body="two")
    write_skill(team, "extra")
    (project / ".agents/skills/notes/SKILL.md").write_bytes(skill_md("notes", "edited"))
    with serving_stdio("--locked", project / "skillwire.lock") as served:
        assert list(listed(served)) == ["skill://notes/SKILL.md"]
        assert text_of(served, "skill://notes/SKILL.md").endswith("one")
        # The lock is read again on a signal.
        add(run, team, "--skill", "extra")
        served.process.send_signal(signal.SIGHUP)
        poll(served, "skill://extra/SKILL.md", "# extra")


def test_a_lock_whose_content_cannot_be_fetched_as_pinned_is_not_served(
    run: Run, tmp_path: Path, home: Path, project: Path
) -> None:
    team = tmp_path / "team"
    write_skill(team, "notes", body="one")
    add(run, team)
    shutil.rmtree(home)
    shutil.rmtree(project / ".agents")
    write_skill(team, "notes", body="two")
    ended = run("serve", "--locked", "skillwire.lock")
    assert (ended.code, "notes cannot be fetched as pinned" in ended.err) == (4, True)


# Installed packages


def test_skills_of_installed_packages_are_served_and_installed(
    run: Run, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    write_skill(packages / "weather/.agents/skills", "forecast")
    info = packages / "weather-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1.2\n")
    (info / "RECORD").write_text("weather/.agents/skills/forecast/SKILL.md,,\n")
    monkeypatch.setenv("PYTHONPATH", str(packages))
    with serving_stdio("--installed") as served:
        assert "skill://forecast/SKILL.md" in listed(served)
    monkeypatch.syspath_prepend(packages)
    add(run, "--installed", "--skill", "forecast")
    assert (project / ".agents/skills/forecast/SKILL.md").read_bytes() == skill_md("forecast")
    assert run("show", "forecast", "--json").document["installed"]["pin"] == {
        "kind": "package",
        "package": "weather",
        "version": "1.2",
    }
