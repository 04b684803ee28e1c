"""`skillwire verify` as a person and a CI job use it: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Generator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from command_line import Ended, Run, runner
from conformance.defective_server import make_server
from folder_server import FolderServer, acknowledge, in_thread
from interop.processes import SKILLWIRE
from skillwire import SkillServer
from skillwire.conformance import RULES
from skillwire.server import Receive, Scope, Send
from trees import write_skill

SKILLS = Path(__file__).parents[2] / "examples/skills"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    verify = runner(monkeypatch, capsys, "verify")

    def start(*arguments: str, **env: str) -> Ended:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return verify(*arguments)

    return start


Defective = Callable[[str], str]


@pytest.fixture
def defective() -> Generator[Defective]:
    """Serves the server of the conformance tests, with one defect or clean, and gives its URL."""
    with ExitStack() as stack:

        def serve(name: str) -> str:
            server = make_server(name)

            async def app(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] == "lifespan":
                    await acknowledge(receive, send)
                else:
                    await server(dict(scope), receive, send)

            return f"{stack.enter_context(in_thread(app))}/mcp"

        yield serve


def widest(text: str) -> int:
    """The longest line. A link stays whole, as it could not be followed otherwise."""
    return max(len(line) for line in text.splitlines() if not line.lstrip().startswith("https://"))


@pytest.mark.process
def test_a_conforming_server_passes(run: Run) -> None:
    done = run("--", *SKILLWIRE, "serve", str(SKILLS))
    assert (done.code, done.err) == (0, "")
    assert "2025-11-25: 5 skills, 8 files, 9 directories checked" in done.out
    assert done.out.endswith("No violations\n")


def test_violations_are_explained_within_eighty_columns_and_end_with_1(
    run: Run, defective: Defective
) -> None:
    done = run(defective("digest-wrong"))
    assert (done.code, done.err) == (1, "")
    for text in (
        "Must fix",
        "ENT-3/digest",
        "skill://atlas/logo.bin",
        "expected:",
        "seen:",
        "fix:",
        "clause:",
        "https://skills.extensions.modelcontextprotocol.io/",
    ):
        assert text in done.out
    assert "1 violation of MUST, 0 of SHOULD" in done.out
    assert widest(done.out) <= 80


def test_advice_alone_passes(run: Run, defective: Defective) -> None:
    done = run(defective("no-when"))
    assert done.code == 0
    assert "LINT/description-when" in done.out
    assert done.out.endswith("No violations, 1 piece of advice\n")


def test_json_is_one_document(run: Run, defective: Defective) -> None:
    done = run("--json", defective("digest-wrong"))
    document = json.loads(done.out)
    assert done.code == 1
    assert (document["version"], document["ok"]) == (2, False)
    assert document["summary"] == {"must": 1, "should": 0, "advice": 0}
    assert [finding["rule"] for finding in document["findings"]] == ["ENT-3/digest"]


def test_junit_is_written_beside_the_report(run: Run, tmp_path: Path, defective: Defective) -> None:
    done = run("--junit", str(tmp_path / "verify.xml"), defective("digest-wrong"))
    assert "ENT-3/digest" in done.out
    suites = ElementTree.parse(tmp_path / "verify.xml").getroot()
    cases = suites.findall("testsuite/testcase")
    rules = [rule for rule in RULES if rule.requirement != "PROFILE"]
    assert (suites.get("tests"), suites.get("failures")) == (str(len(rules)), "1")
    assert len(cases) == len(rules)
    [failed] = [case for case in cases if case.find("failure") is not None]
    assert (failed.get("name") or "").startswith("ENT-3/digest: ")
    assert "skill://atlas/logo.bin" in (failed.findtext("failure") or "")


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("no/such/verify.xml", "there is no directory {0}/no/such: create it, or choose another place"),
        ("", "it is a directory: add the name of a file"),
        ("file/verify.xml", "there is no directory {0}/file: create it, or choose another place"),
    ],
)
def test_a_junit_file_that_cannot_be_written_is_reported_before_the_server_starts(
    run: Run, tmp_path: Path, place: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    done = run("--junit", str(tmp_path / place), "--", "touch", str(tmp_path / "started"))
    file = str(tmp_path / place)
    expected = f"skillwire verify: --junit: cannot write {file}: {reason.format(tmp_path)} "
    expected += "(see: skillwire verify --help)\n"
    assert (done.code, done.out, done.err) == (2, "", expected)
    assert not (tmp_path / "started").exists()


def test_a_rule_can_be_ignored_and_an_unknown_one_not(run: Run, defective: Defective) -> None:
    assert run("--ignore", "ENT-3", defective("digest-wrong")).code == 0
    done = run("--ignore", "NO-1/such", defective("clean"))
    assert (done.code, done.out) == (2, "")
    assert "NO-1/such is not a rule" in done.err


def test_one_revision_can_be_requested(run: Run, defective: Defective) -> None:
    done = run("--protocol", "2025-11-25", "--json", defective("list-without-ttl"))
    assert done.code == 0
    assert [one["revision"] for one in json.loads(done.out)["revisions"]] == ["2025-11-25"]


def test_headers_and_tokens_are_sent_and_never_shown(run: Run, tmp_path: Path) -> None:
    server = SkillServer(write_skill(tmp_path / "served/refunds").parent)
    with in_thread(server.http_app(token="open-sesame")) as url:
        words = ("--quick", f"{url}/mcp")
        assert run("--token-env", "MY_TOKEN", *words, MY_TOKEN="open-sesame").code == 0
        assert run("--header", "Authorization: Bearer open-sesame", *words).code == 0
        refused = run("--header", "Authorization: Bearer hush-hush", *words)
    assert refused.code == 2
    assert "HTTP 401" in refused.err
    assert "hush" not in refused.out + refused.err


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "URL or COMMAND is missing"),
        (["http://127.0.0.1:9/mcp"], "nothing listens at 127.0.0.1:9"),
        (["--", sys.executable, "-c", "pass"], "the server exited with code 0"),
        (["example.org"], "write https://example.org"),
        (["localhost:8000/mcp"], "write http://localhost:8000/mcp"),
        (["--", "no-such-command-of-skillwire"], "is not installed"),
        (["ftp://example.org"], "not an http:// or https:// URL"),
        (["--header", "no colon", "http://127.0.0.1:9/"], "NAME: VALUE"),
        (["--token-env", "NO_SUCH_VARIABLE", "http://127.0.0.1:9/"], "NO_SUCH_VARIABLE is not set"),
        (["--no-such-option"], "there is no option --no-such-option"),
    ],
)
def test_what_cannot_run_says_why_on_one_line_and_ends_with_2(
    run: Run, arguments: list[str], message: str
) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_folder_is_not_taken_for_a_command(run: Run, tmp_path: Path) -> None:
    done = run(str(tmp_path))
    assert done.code == 2
    assert f"{tmp_path} is a folder, not a server: `skillwire lint {tmp_path}` checks its skills" in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:9?token=SECRET", "http://u:SECRET@127.0.0.1:9/mcp#SECRET"])
def test_a_secret_in_a_url_is_not_printed(run: Run, url: str) -> None:
    done = run(url)
    assert done.code == 2
    assert "http://127.0.0.1:9" in done.err
    assert "SECRET" not in done.out + done.err


def test_a_server_without_skills_does_not_pass(run: Run, tmp_path: Path, folders: FolderServer) -> None:
    done = run(folders.at(tmp_path))
    assert done.code == 2
    assert "the server has no skills to check" in done.err


def test_rules_are_listed_each_with_its_level(run: Run) -> None:
    done = run("--rules")
    assert done.code == 0
    for rule in RULES:
        assert f"  {rule.id} " in done.out
    assert " ".join(next(rule.debatable for rule in RULES if rule.debatable).split()[:4]) in done.out
    assert widest(done.out) <= 80


def test_rules_are_printed_as_json_each_with_its_source(run: Run) -> None:
    listed = json.loads(run("--rules", "--json").out)["rules"]
    assert [one["rule"] for one in listed] == [rule.id for rule in RULES]
    assert set(listed[0]) == {"rule", "level", "area", "expected", "fix", "clause", "link", "debatable"}


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_progress_shows_on_a_terminal_and_leaves_the_report_alone(defective: Defective) -> None:
    ours, theirs = os.openpty()
    command = [*SKILLWIRE, "verify", "--json", defective("clean")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    ) as run:
        os.close(theirs)
        seen = b""
        # Read while it runs: a terminal that nobody reads fills up.
        with suppress(OSError):
            while chunk := os.read(ours, 65536):
                seen += chunk
        assert run.stdout is not None
        document = json.loads(run.stdout.read())
    os.close(ours)
    assert document["ok"] is True
    assert b"connecting" in seen
