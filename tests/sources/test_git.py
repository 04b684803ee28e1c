"""Skills of git repositories: read at a commit, with nothing of the repository run."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import threading
from base64 import b64encode
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from install.workspaces import write_skill
from skillwire.errors import FormatError, LimitExceeded, SourceError
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import DYNAMIC
from skillwire.sources import SourceKind, SourceReference, parse_reference
from skillwire.sources.git import fetch_tree, git_environment, resolve_commit
from skillwire.sources.remote import RemoteSource


class Repository:
    """A repository on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
            cwd=self.folder,
            env={**os.environ, **git_environment(os.environ)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit(self, *tags: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "x")
        for tag in tags:
            self.git("tag", "--annotate", "--message", tag, tag)
        return self.git("rev-parse", "HEAD")

    def reference(self, fragment: str = "") -> SourceReference:
        return parse_reference(f"git+file://{self.folder}{fragment}")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository")
    write_skill(made.folder / "skills", "pdf", {"scripts/run.sh": "#!/bin/sh\n", "a b/é.md": "x"})
    write_skill(made.folder / "other", "notes")
    (made.folder / "README.md").write_text("not part of a skill")
    return made


@pytest.mark.process
def test_skills_are_read_at_a_tag_a_branch_and_a_commit(repository: Repository) -> None:
    first = repository.commit("v1")
    write_skill(repository.folder / "skills", "pdf", body="two")
    second = repository.commit()
    for fragment, commit in (("#v1", first), ("#main", second), ("", second), (f"#{first}", first)):
        assert resolve_commit(repository.reference(fragment)) == commit
        tree = fetch_tree(repository.reference(fragment))
        assert tree.commit == commit
        [text] = [file.data for file in tree.files if file.path == "skills/pdf/SKILL.md"]
        assert text.endswith(b"two") is (commit == second)
    paths = {file.path: file.executable for file in fetch_tree(repository.reference("#v1:skills")).files}
    assert paths == {"pdf/SKILL.md": False, "pdf/scripts/run.sh": True, "pdf/a b/é.md": False}
    assert "README.md" not in {file.path for file in fetch_tree(repository.reference()).files}


@pytest.mark.process
@pytest.mark.parametrize("fragment", ["#nothing", "#v9", f"#{'0' * 40}", "#main:missing"])
def test_what_is_not_there_is_named(repository: Repository, fragment: str) -> None:
    repository.commit()
    with pytest.raises(SourceError):
        fetch_tree(repository.reference(fragment))


@pytest.mark.process
def test_nothing_of_the_repository_or_the_user_runs(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    command = f"touch {marker}"
    (repository.folder / ".gitattributes").write_text("* filter=evil diff=evil\n")
    repository.commit()
    for hook in ("post-checkout", "post-merge", "reference-transaction", "pre-receive"):
        file = repository.folder / ".git/hooks" / hook
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{command}\n")
        file.chmod(0o755)
    config = tmp_path / "config"
    config.write_text(
        f'[filter "evil"]\n\tsmudge = {command}\n\tclean = {command}\n'
        f"[core]\n\tfsmonitor = {command}\n\tsshCommand = {command}\n"
        f"\thooksPath = {repository.folder}/.git/hooks\n"
        f"[credential]\n\thelper = !{command}\n[uploadpack]\n\tpackObjectsHook = {command}\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_SSH_COMMAND", command)
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", command)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(repository.folder / ".git"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    tree = fetch_tree(repository.reference())
    assert {file.path.partition("/")[0] for file in tree.files} == {"skills", "other"}
    assert not marker.exists()


@pytest.mark.process
def test_links_and_submodules_are_not_read(repository: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path / "submodule")
    write_skill(other.folder, "hidden")
    other.commit()
    (repository.folder / "skills/pdf/link").symlink_to("/etc/passwd")
    repository.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.folder), "sub"
    )
    repository.commit()
    tree = fetch_tree(repository.reference())
    assert tree.skipped == ("skills/pdf/link",)
    assert not any(file.path.startswith("sub") for file in tree.files)


@pytest.mark.process
@pytest.mark.anyio
async def test_a_link_is_not_served_and_named_in_the_log(
    repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    (repository.folder / "skills/pdf/link").symlink_to("/etc/passwd")
    repository.commit()
    source = RemoteSource.from_reference(repository.reference())
    [pdf] = [entry for entry in await source.list_entries() if entry.name == "pdf"]
    assert pdf.resources is not DYNAMIC
    assert [one.uri for one in pdf.resources if one.uri.endswith(("link", "SKILL.md"))] == [pdf.uri]
    assert "skills/pdf/link is a link, and is not served" in caplog.text


@pytest.mark.process
def test_a_repository_that_is_too_large_or_too_slow_is_given_up(repository: Repository) -> None:
    repository.commit()
    with pytest.raises(LimitExceeded, match="name a folder"):
        fetch_tree(repository.reference(), limits=replace(DEFAULT_LIMITS, repository_bytes=10))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = parse_reference(f"git+http://127.0.0.1:{silent.getsockname()[1]}/nothing")
        with pytest.raises(LimitExceeded, match="seconds"):
            fetch_tree(slow, limits=replace(DEFAULT_LIMITS, git_seconds=0.3))


@pytest.mark.process
def test_a_transport_that_runs_a_command_is_not_used(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    place = f"ext::sh -c touch% {marker}"
    for ref in ("", "0" * 40):
        with pytest.raises(SourceError, match="is not the URL of a git repository"):
            fetch_tree(SourceReference(kind=SourceKind.GIT, text=place, place=place, ref=ref))
    assert not marker.exists()


def put_in_place_of_git(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "bin/git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.process
def test_a_fetch_that_grows_too_large_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `git` whose fetch receives 2,000 bytes, and goes on for ever."""
    fetch = 'mkdir -p "$dir"; head -c 2000 /dev/zero > "$dir/pack"; sleep 3600'
    arguments = 'test "$1" = init && exit; test "$1" = --git-dir && dir=$2; shift'
    put_in_place_of_git(tmp_path, monkeypatch, f'while test "$1" != fetch; do {arguments}; done\n{fetch}')
    limits = replace(DEFAULT_LIMITS, repository_fetch_bytes=1_000, git_seconds=60)
    with pytest.raises(LimitExceeded, match="sent more than 1,000 bytes"):
        fetch_tree(parse_reference(f"git+https://git.example/x#{'0' * 40}"), limits=limits)


@pytest.mark.process
def test_a_fetch_that_was_too_large_is_refused_however_fast_it_was(repository: Repository) -> None:
    (repository.folder / "skills/pdf/data.bin").write_bytes(os.urandom(100_000))
    repository.commit()
    with pytest.raises(LimitExceeded, match="sent more than 1,000 bytes"):
        fetch_tree(repository.reference(), limits=replace(DEFAULT_LIMITS, repository_fetch_bytes=1_000))


@pytest.mark.process
def test_a_path_that_could_leave_a_folder_is_refused(repository: Repository) -> None:
    """Git stores any bytes as a name: a backslash separates folders on Windows."""
    (repository.folder / "skills/pdf/..\\..\\evil.md").write_text("x")
    repository.commit()
    with pytest.raises(FormatError, match="is not plain"):
        fetch_tree(repository.reference())


@pytest.mark.process
@pytest.mark.parametrize(
    "setting",
    [
        "protocol.allow=never",
        "credential.helper=",
        "core.hooksPath=/dev/null",
        "fetch.fsckObjects=true",
        "http.followRedirects=false",
    ],
)
def test_every_call_of_git_has_the_settings_that_keep_it_from_running_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """A `git` that writes down how it was called."""
    called = tmp_path / "called"
    put_in_place_of_git(tmp_path, monkeypatch, f'echo "$@" >> {called}')
    with pytest.raises(SourceError):
        fetch_tree(parse_reference(f"git+https://git.example/x#{'0' * 40}"))
    calls = called.read_text().splitlines()
    assert len(calls) > 1
    assert all(f"-c {setting} " in call for call in calls)
    assert all("-c protocol.https.allow=always" in call for call in calls)


def test_the_environment_of_git_holds_nothing_of_git() -> None:
    given = {"PATH": "/bin", "HOME": "/h", "GIT_DIR": "x", "GIT_SSH": "x", "LD_PRELOAD": "x", "EDITOR": "x"}
    made = git_environment(given)
    assert made["PATH"] == "/bin"
    assert not {"GIT_DIR", "GIT_SSH", "LD_PRELOAD", "EDITOR"} & made.keys()
    assert made["GIT_CONFIG_GLOBAL"] == os.devnull
    assert made["GIT_TERMINAL_PROMPT"] == "0"


class GitOverHttp(BaseHTTPRequestHandler):
    """A repository over HTTP, for whoever has the password."""

    project_root: ClassVar[Path]
    asked: ClassVar[list[str]]

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != f"Basic {b64encode(b'me:open-sesame').decode()}":
            self.asked.append("without the password")
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="skills"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.asked.append("with the password")
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        answer = subprocess.run(
            ["git", "http-backend"],
            input=body,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.project_root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            },
            capture_output=True,
            check=True,
        ).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        self.send_response(200)
        for line in head.decode().split("\r\n"):
            self.send_header(*line.split(": ", 1))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the name that the server calls


@pytest.mark.process
def test_a_password_comes_from_netrc_and_is_asked_for_nowhere_else(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository.commit("v1")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(GitOverHttp, "project_root", tmp_path, raising=False)
    monkeypatch.setattr(GitOverHttp, "asked", [], raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), GitOverHttp) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            place = f"git+http://127.0.0.1:{server.server_port}/repository"
            reference = parse_reference(f"{place}#v1:skills")
            with pytest.raises(SourceError, match=r"put the name and the password into ~/\.netrc"):
                fetch_tree(reference)
            assert set(GitOverHttp.asked) == {"without the password"}
            netrc = home / ".netrc"
            netrc.write_text("machine 127.0.0.1 login me password wrong\n")
            netrc.chmod(0o600)
            with pytest.raises(SourceError, match="missing or not accepted") as refused:
                fetch_tree(reference)
            assert "wrong" not in str(refused.value)
            netrc.write_text("machine 127.0.0.1 login me password open-sesame\n")
            tree = fetch_tree(reference)
            assert tree.commit == commit == resolve_commit(reference)
            assert "pdf/SKILL.md" in {file.path for file in tree.files}
            with pytest.raises(FormatError, match=r"use \.netrc"):
                parse_reference("git+https://me:open-sesame@git.example/skills")
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.process
def test_objects_that_are_not_well_formed_are_refused_when_they_arrive(repository: Repository) -> None:
    """A commit without an author: `git fsck` refuses it, and nothing else would."""
    repository.commit()
    tree = repository.git("rev-parse", "HEAD^{tree}")
    file = repository.folder.parent / "commit"
    file.write_text(f"tree {tree}\ncommitter a <a@b.c> 1700000000 +0000\n\nx\n")
    bad = repository.git("hash-object", "-t", "commit", "--literally", "-w", str(file))
    repository.git("update-ref", "refs/heads/bad", bad)
    with pytest.raises(SourceError, match="git could not read"):
        fetch_tree(repository.reference("#bad"))


@pytest.mark.process
def test_a_tree_with_too_many_paths_is_cut_off(repository: Repository) -> None:
    repository.commit()
    limits = replace(DEFAULT_LIMITS, repository_paths=4)
    with pytest.raises(LimitExceeded, match="more than 4 paths"):
        fetch_tree(repository.reference(), limits=limits)
    # Only the folder that is named counts.
    assert len(fetch_tree(repository.reference("#main:other"), limits=limits).files) == 1
    with pytest.raises(LimitExceeded, match="at most 2 files"):
        fetch_tree(repository.reference(), limits=replace(DEFAULT_LIMITS, repository_files=2))


@pytest.mark.process
def test_content_that_unpacks_to_far_more_than_was_sent_is_not_read(repository: Repository) -> None:
    (repository.folder / "skills/pdf/zeros.bin").write_bytes(bytes(40_000_000))
    repository.commit()
    with pytest.raises(LimitExceeded, match="5 files and 40,0"):
        fetch_tree(repository.reference())


@pytest.mark.process
def test_the_same_content_is_read_once(repository: Repository) -> None:
    for number in range(20):
        write_skill(repository.folder / "many", f"skill-{number}", {"LICENSE": "the same"})
    repository.commit()
    tree = fetch_tree(repository.reference("#main:many"))
    assert len({id(file.data) for file in tree.files if file.path.endswith("LICENSE")}) == 1


class RedirectingGit(GitOverHttp):
    """A server that sends whoever asks for one path to another one."""

    moved: ClassVar[dict[str, str]]

    def do_GET(self) -> None:
        path, mark, query = self.path.partition("?")
        repository, _, rest = path.removeprefix("/").partition("/")
        self.asked.append(repository)
        if repository in self.moved:
            self.send_response(301)
            self.send_header("Location", f"{self.moved[repository]}/{rest}{mark}{query}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.headers["Authorization"] = f"Basic {b64encode(b'me:open-sesame').decode()}"
        self.path = self.path.replace("repository.git", "repository")
        super().do_GET()

    do_POST = do_GET  # noqa: N815 - the name that the server calls


@pytest.mark.process
def test_a_repository_is_found_by_the_name_with_git_and_no_redirect_is_followed(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit("v1")
    monkeypatch.setattr(GitOverHttp, "project_root", tmp_path, raising=False)
    monkeypatch.setattr(GitOverHttp, "asked", [], raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), RedirectingGit) as server:
        here = f"http://127.0.0.1:{server.server_port}"
        moved = {"repository": f"{here}/elsewhere", "other": f"{here}/repository.git"}
        moved["other.git"] = moved["other"]
        monkeypatch.setattr(RedirectingGit, "moved", moved, raising=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            tree = fetch_tree(parse_reference(f"git+{here}/repository#v1:skills"))
            assert "pdf/SKILL.md" in {file.path for file in tree.files}
            with pytest.raises(SourceError, match="redirects to another address, which is not followed"):
                fetch_tree(parse_reference(f"git+{here}/other#v1:skills"))
            assert "elsewhere" not in GitOverHttp.asked
        finally:
            server.shutdown()
            thread.join()
