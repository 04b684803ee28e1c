"""`skillwire run`: asks once, runs inside, refuses elsewhere."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import shutil
import sys
import threading
import zipfile
from collections.abc import Generator
from pathlib import Path

import pytest

from command_line import Run, as_person
from environments import bubblewrap, environment
from skillwire.host.policies import policy_log

pytestmark = pytest.mark.process

SKILL_MD = """---
name: pdf
description: Reads files. Use when asked.
metadata:
  dev.skillwire/grants: scripts/count.py read:docs
---
Run scripts/count.py.
"""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("PATH", f"{bubblewrap().parent}:/usr/local/bin:/usr/bin:/bin")
    directory = tmp_path / "work"
    (directory / "docs").mkdir(parents=True)
    (directory / "docs/a.txt").write_text("three short words")
    scripts = tmp_path / "home/.agents/skills/pdf/scripts"
    scripts.mkdir(parents=True)
    (scripts.parent / "SKILL.md").write_text(SKILL_MD)
    (scripts / "count.py").write_text(
        "import sys\nprint(len(open('docs/a.txt').read().split()), sys.argv[1:])\n"
        "print('\\x1b[31mwarning', file=sys.stderr)\nsys.exit(3)\n"
    )
    (scripts / "quiet.sh").write_text("echo quiet; env | sort\n")
    (scripts / "loop.py").write_text("while True: pass\n")
    (scripts / "packed.py").write_text(
        "# /// script\n# dependencies = ['tinypkg>=1']\n# ///\nimport tinypkg\nprint(tinypkg.VALUE)\n"
    )
    monkeypatch.chdir(directory)
    return directory


def test_a_script_asks_once_and_runs(run: Run, work: Path) -> None:
    first = as_person(run, "run", "pdf/scripts/count.py", "x", "--", "--verbose")
    assert (first.code, first.out) == (3, "3 ['x', '--verbose']\n")
    assert "scripts/count.py of pdf" in first.err
    assert f"{work}/docs, to read" in " ".join(first.err.split())
    assert "warning" in first.err
    assert "\x1b" not in first.err
    again = run("run", "pdf/scripts/count.py")
    assert (again.code, again.out, again.err) == (3, "3 []\n", "warning\n")
    shown = run("show", "pdf")
    assert "scripts/count.py run" in " ".join(shown.out.split())
    document = run("show", "pdf", "--json").document
    assert f"scripts/count.py read:{work}/docs" in document["approval"]["scripts"]


def test_a_no_runs_nothing(run: Run) -> None:
    ended = as_person(run, "run", "pdf/scripts/count.py", answers=("n",))
    assert (ended.code, ended.out) == (7, "")
    assert "was not granted: it is not run" in ended.err
    without = run("run", "pdf/scripts/count.py")
    assert (without.code, without.out) == (7, "")
    assert "is not granted: it asks for read:" in without.err


def test_revoking_takes_grants_back(run: Run) -> None:
    assert as_person(run, "run", "pdf/scripts/quiet.sh").code == 0
    assert run("run", "pdf/scripts/quiet.sh").code == 0
    assert run("revoke", "pdf").code == 0
    assert run("run", "pdf/scripts/quiet.sh").code == 7


def test_explaining_runs_nothing(run: Run, work: Path) -> None:
    ended = run("run", "--explain", "pdf/scripts/count.py", "--grant", "net:api.example.org")
    text = " ".join(ended.out.split())
    assert ended.code == 0
    assert f"{work}/docs (granted)" in text
    assert "api.example.org (granted)" in text
    assert "120 s" in text
    document = run("run", "--explain", "pdf/scripts/quiet.sh", "--json").document
    assert document["grants"] == []
    assert run("run", "pdf/scripts/count.py").code == 7  # Nothing was granted by it.


def test_the_environment_is_empty(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "k-1")
    monkeypatch.setenv("OTHER_KEY", "k-2")
    ended = as_person(run, "run", "pdf/scripts/quiet.sh", "--grant", "env:API_KEY")
    names = {line.partition("=")[0] for line in ended.out.splitlines()[1:]}
    assert names == {"API_KEY", "HOME", "LANG", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE", "TMPDIR"}
    assert "k-2" not in ended.out
    monkeypatch.delenv("API_KEY")
    assert (
        "env:API_KEY, which is not set"
        in as_person(run, "run", "pdf/scripts/quiet.sh", "--grant", "env:API_KEY").err
    )


def test_json_and_verbose(run: Run) -> None:
    as_person(run, "run", "pdf/scripts/count.py")
    ended = run("run", "pdf/scripts/count.py", "--json", "--verbose")
    document = json.loads(ended.out)
    assert ended.code == 3
    assert (document["exit_code"], document["ended"]) == (3, None)
    assert (document["stdout"], document["stderr"]) == ("3 []\n", "warning\n")
    assert "bwrap --unshare-all" in ended.err


def test_an_audit_file_has_a_line_for_each_run_and_no_content(run: Run, work: Path) -> None:
    file = work / "audit.jsonl"
    assert as_person(run, "run", "pdf/scripts/count.py", "--audit", file).code == 3
    assert run("run", "pdf/scripts/count.py", "--audit", file, "--explain").code == 0
    [line] = [json.loads(line) for line in file.read_text().splitlines()]
    assert (line["act"], line["script"], line["exit_code"]) == ("run", "scripts/count.py", 3)
    assert line["grants"] == [f"read:{work}/docs"]
    assert line["set"].startswith("sha256:")
    assert line["bytes"] > 0
    assert "warning" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    refused = run("run", "pdf/scripts/count.py", "--audit", work / "docs")
    assert refused.code == 4
    assert refused.out == ""


def test_a_script_that_misses_the_network_is_told_how_to_ask_for_it(run: Run, work: Path) -> None:
    code = "import socket\nsocket.create_connection(('api.example.org', 443))\n"
    (work.parent / "home/.agents/skills/pdf/scripts/fetch.py").write_text(code)
    ended = as_person(run, "run", "pdf/scripts/fetch.py")
    assert ended.code == 1
    assert ended.err.splitlines()[-1] == "It has no network: --grant net:HOST asks for a host."


def test_a_limit_is_one_line_and_its_own_code(run: Run) -> None:
    ended = as_person(run, "run", "pdf/scripts/loop.py", "--max-seconds", "0.3")
    assert ended.code == 5
    assert (
        ended.err.splitlines()[-1]
        == "skillwire run: pdf/scripts/loop.py was ended: it took longer than 0.3 seconds"
    )


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("pdf",), 2, "name the script too"),
        (("none/scripts/x.py",), 8, "none"),
        (("pdf/scripts/none.py",), 8, "pdf has no scripts/none.py: it has scripts/count.py, scripts/loop.py"),
        (("pdf/scripts/count.py", "--grant", "everything"), 3, "is not a grant"),
        (("pdf/scripts/count.py", "--grant", "read:/"), 4, "contains a home"),
        (("pdf/scripts/count.py", "--grant", "read:missing"), 4, "no such file"),
        (("pdf/SKILL.md",), 3, "--interpreter"),
    ],
)
def test_bad_input_is_one_line(run: Run, words: tuple[str, ...], code: int, text: str) -> None:
    ended = as_person(run, "run", *words)
    assert ended.code == code, ended
    assert text in ended.err.splitlines()[-1]
    assert ended.out == ""


def test_without_bubblewrap_nothing_runs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ended = as_person(run, "run", "pdf/scripts/quiet.sh")
    assert (ended.code, ended.out) == (14, "")
    assert "install the package bubblewrap" in ended.err
    assert "scripts of skills cannot run here" in run("doctor", "--no-servers").out


def test_doctor_tries_the_sandbox(run: Run) -> None:
    findings = json.loads(run("doctor", "--no-servers", "--json").out)["findings"]
    [found] = [one for one in findings if one["area"] == "sandbox"]
    assert found["level"] == "ok"
    assert "holds their limits" in found["message"]


def test_without_a_sandbox_only_a_person_runs_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("run", "--unsafe-no-sandbox", "pdf/scripts/quiet.sh").code == 7
    assert (
        as_person(run, "run", "--unsafe-no-sandbox", "pdf/scripts/quiet.sh").code == 7
    )  # `y` is not enough.
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        ended = as_person(run, "run", "--unsafe-no-sandbox", "pdf/scripts/quiet.sh", answers=("unsafe",))
        assert ended.code == 7
        assert "is up to a person" in ended.err
    assert as_person(run, "run", "--unsafe-no-sandbox", "pdf/scripts/quiet.sh", answers=("unsafe",)).code == 0


def write_policy(tmp_path: Path, permission: str, mode: str = "enforce") -> None:
    folder = tmp_path / "xdg_config_home/skillwire"
    folder.mkdir(parents=True, exist_ok=True)
    head = f'[policy]\nformat = 1\nname = "acme"\ncontact = "security@example.org"\nmode = "{mode}"\n'
    (folder / "policy.toml").write_text(f'{head}[permissions.scripts]\n"*.sh" = "{permission}"\n')


@pytest.mark.parametrize(
    ("permission", "inside", "outside"),
    [("never", 15, 15), ("sandbox-only", 0, 15), ("ask", 0, 0)],
)
def test_a_policy_says_where_a_script_runs_whatever_was_granted_before(
    run: Run, tmp_path: Path, permission: str, inside: int, outside: int
) -> None:
    assert as_person(run, "run", "pdf/scripts/quiet.sh").code == 0
    write_policy(tmp_path, permission)
    ended = [run("run", "pdf/scripts/quiet.sh")]
    ended += [as_person(run, "run", "--unsafe-no-sandbox", "pdf/scripts/quiet.sh", answers=("unsafe",))]
    assert [one.code for one in ended] == [inside, outside]
    refused = [one for one in ended if one.code == 15]
    for one in refused:
        assert "the policy acme refuses it by permissions.scripts: scripts/quiet.sh of pdf runs " in one.err
        assert "ask security@example.org" in one.err
        assert "quiet" not in one.out
    lines = [json.loads(line) for line in policy_log().read_text().splitlines()] if refused else []
    assert [(line["act"], line["rule"], line["refused"]) for line in lines] == [
        ("run", "permissions.scripts", True)
    ] * len(refused)
    assert run("run", "--explain", "pdf/scripts/count.py").code == 0, "another script"


def test_a_policy_that_only_reports_runs_a_script_and_logs_that_it_would_not(
    run: Run, tmp_path: Path
) -> None:
    write_policy(tmp_path, "never", "report")
    assert as_person(run, "run", "pdf/scripts/quiet.sh").code == 0
    [line] = [json.loads(line) for line in policy_log().read_text().splitlines()]
    assert (line["act"], line["rule"], line["refused"]) == ("run", "permissions.scripts", False)


class _Index(http.server.BaseHTTPRequestHandler):
    """A package index with one package."""

    wheel = b""
    asked: list[str] = []  # noqa: RUF012 - of the class, for the test

    def do_GET(self) -> None:
        self.asked.append(self.path)
        digest = hashlib.sha256(self.wheel).hexdigest()
        name = "tinypkg-1.0-py3-none-any.whl"
        data, kind = b"", "text/html"
        if self.path == "/simple/tinypkg/":
            link = f'<a href="/files/{name}#sha256={digest}">{name}</a>'
            data = f"<!DOCTYPE html><html><body>{link}</body></html>".encode()
        elif self.path.startswith("/files/"):
            data, kind = self.wheel, "application/octet-stream"
        self.send_response(200 if data else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET  # noqa: N815 - a name of the server

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    _Index.wheel, _Index.asked = _wheel(), []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://localhost:{server.server_address[1]}/simple")
        yield _Index.asked
        server.shutdown()


def _wheel() -> bytes:
    files = {
        "tinypkg/__init__.py": b"VALUE = 'from the index'\n",
        "tinypkg-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tinypkg\nVersion: 1.0\n",
        "tinypkg-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}\n"
        for name, data in files.items()
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("tinypkg-1.0.dist-info/RECORD", record + "tinypkg-1.0.dist-info/RECORD,,\n")
    return stream.getvalue()


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_packages_are_a_step_of_their_own(
    run: Run, index: list[str], installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = environment("uv").parent
    folder = f"{programs}:" if installer == "uv" else ""
    monkeypatch.setenv("PATH", f"{folder}{bubblewrap().parent}:/usr/bin:/bin")
    # The environment of the tests may have no pip; the one that has uv does.
    monkeypatch.setattr(sys, "path", [*sys.path, *map(str, programs.parent.glob("lib/*/site-packages"))])
    assert (shutil.which("uv") is not None) is (installer == "uv")
    assert as_person(run, "run", "pdf/scripts/packed.py", "--explain").code == 0
    # Yes to the script, no to its packages.
    refused = as_person(run, "run", "pdf/scripts/packed.py", answers=("y", "n"))
    assert refused.code == 7
    assert "installs tinypkg>=1" in " ".join(refused.err.split())
    assert index == []  # Nothing was fetched before the answer.
    ended = as_person(run, "run", "pdf/scripts/packed.py")
    assert (ended.code, ended.out) == (0, "from the index\n"), ended
    fetched = len(index)
    assert fetched >= 2
    assert run("run", "pdf/scripts/packed.py").out == "from the index\n"
    assert len(index) == fetched
    assert "1 list of Python packages" in run("config", "cache").out
    assert "1 list of packages" in run("config", "cache", "--clear").out
    assert run("run", "pdf/scripts/packed.py").code == 7
