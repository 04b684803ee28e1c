"""`skillwire serve`: what it says to the person who starts it, and the code that it ends with."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from mcp import Client, StdioServerParameters

from clients import modern_request
from served import INITIALIZE, serving, serving_http, serving_stdio
from skillwire.cli import main
from skillwire.cli import serve as serve_module
from skillwire.errors import FormatError, SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from terminals import SKILLWIRE
from trees import skill_md, write, write_skill
from waiting import PATIENCE

Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command, which ends as soon as it serves; its exit code and the lines that it said."""
    monkeypatch.delenv("SKILLWIRE_TOKEN", raising=False)
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.root.level)

    def run_and_stop(
        task: Callable[[], Awaitable[None]], *, stop: Callable[[], None] | None = None, **_: object
    ) -> None:
        async def briefly() -> None:
            running = asyncio.ensure_future(task())
            assert stop is not None
            stop()
            await running

        if stop is not None:
            asyncio.run(briefly())

    monkeypatch.setattr(serve_module, "run_until_signal", run_and_stop)
    monkeypatch.setattr("skillwire.cli.running.run_until_signal", run_and_stop)

    def run(*arguments: object) -> tuple[int, list[str]]:
        monkeypatch.setattr(sys, "argv", ["skillwire", "serve", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert out == "", "standard output belongs to the client"
        assert "Traceback" not in err
        return int(str(ended.value.code)), err.splitlines()

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_skill(tmp_path / "skills/alpha", {"a.txt": b"x" * 2000})
    write_skill(tmp_path / "skills/alpha/nested")
    return tmp_path / "skills"


def test_a_summary_tells_skills_files_and_bytes_of_each_directory(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    write_skill(tmp_path / "more/beta")
    code, said = run(folder, f"acme={tmp_path}/more")
    assert code == 0
    assert said[0].split() == ["directory", "skills", "files", "bytes", "left", "out"]
    assert said[1].split()[-5:-2] == ["2", "3", "2.2"]
    assert said[2].split()[-5:-2] == ["1", "1", "85"]
    assert said[-1] == "Serving 3 skills over stdio"


def test_a_file_of_over_a_megabyte_is_named_and_served(run: Run, folder: Path) -> None:
    write(folder / "alpha/exact.bin", b"x" * 1_000_000)
    code, said = run(folder)
    assert (code, [line for line in said if " of over " in line]) == (0, [])
    write(folder / "alpha/large.bin", b"x" * 1_000_001)
    write(folder / "alpha/larger.bin", b"x" * 1_500_000)
    code, said = run(folder)
    assert code == 0
    assert [line for line in said if " of over " in line] == [
        "2 files of over 1.0 MB, which clients that read manifests may refuse; "
        "the largest is skill://alpha/larger.bin, 1.5 MB"
    ]
    assert said[-1] == "Serving 2 skills over stdio"


def test_an_empty_directory_is_reported(run: Run, tmp_path: Path) -> None:
    code, said = run(tmp_path)
    assert code == 0
    assert any(line.startswith("No skills in") and "SKILL.md" in line for line in said)
    assert said[-1] == "Serving 0 skills over stdio"


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("none", "does not exist"),
        ("file.txt", "is not a directory"),
        ("~no-such-user-here", "does not exist"),
        ("x" * 5000, "cannot be opened: File name too long"),
        ("../up=.", "is not a prefix"),
        ("bell\a", r"bell\u0007 does not exist"),
    ],
)
def test_a_path_that_cannot_be_served_is_one_line_and_an_exit_code(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, complaint: str
) -> None:
    write(tmp_path / "file.txt", b"")
    monkeypatch.chdir(tmp_path)
    code, said = run(path)
    assert (code, len(said)) == (SourceError.exit_code, 1)
    assert said[0].startswith("skillwire: ")
    assert complaint in said[0]


def test_problems_are_listed_and_the_good_skills_served(run: Run, folder: Path) -> None:
    write(folder / "bad/SKILL.md", b"nothing")
    code, said = run(folder)
    assert code == 0
    (line,) = [line for line in said if line.startswith("  left out: ")]
    assert f"{folder}/bad: SKILL.md:1: " in line
    assert said[-1] == "Serving 2 skills over stdio"


def test_strict_serves_nothing_when_anything_is_wrong(run: Run, folder: Path) -> None:
    assert run(folder, "--strict")[0] == 0
    write(folder / "bad/SKILL.md", b"nothing")
    code, said = run(folder, "--strict")
    assert code == FormatError.exit_code
    assert said[-1].startswith("skillwire: --strict: 1 problem, so nothing is served")
    assert not any(line.startswith("Serving") for line in said)


def test_many_problems_of_one_kind_share_a_line_and_no_directory_hides_another(
    run: Run, tmp_path: Path
) -> None:
    for number in range(25):
        write(tmp_path / f"one/bad-{number:02}/SKILL.md", b"nothing")
    write(tmp_path / "two/good/SKILL.md", skill_md("other"))
    write(tmp_path / "two/bad/SKILL.md", b"nothing")
    _, said = run(tmp_path / "one", tmp_path / "two")
    lines = [line for line in said if line.startswith("  ")]
    assert len(lines) == 3
    assert "[and 24 more with frontmatter-missing]" in lines[0]
    assert lines[1].startswith(f"  left out: {tmp_path}/two/bad")
    assert lines[2].startswith(f"  warning: {tmp_path}/two/good: SKILL.md:2: the name `other`")
    assert said[1].split()[-1] == "25"


@pytest.mark.requirement("ENT-6")
def test_a_skill_too_large_is_left_out_unless_it_is_allowed(run: Run, folder: Path) -> None:
    for number in range(513):
        write(folder / f"large/{number}", b"")
    write_skill(folder / "large")
    assert run(folder)[1][-1] == "Serving 2 skills over stdio"
    assert run(folder, "--allow-oversize")[1][-1] == "Serving 3 skills over stdio"


def test_names_cannot_control_the_terminal(run: Run, folder: Path) -> None:
    evil = "\x1b[2J\x07\u202e\u200bname\nSecond line"
    write(folder / evil / "SKILL.md", b"nothing")
    write(folder / "more" / os.fsdecode(b"\xff\x1b]0;title\x07") / "SKILL.md", b"nothing")
    (folder / "alpha" / f"{evil}.link").symlink_to("nowhere\x1b[31m")
    for arguments in ([folder], [folder, "--strict"], [folder / evil]):
        _, said = run(*arguments)
        assert all(line.isprintable() for line in said)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--token-file", "t"], "--token-file needs --http"),
        (["--allow-host", "x", "--stateless"], "--allow-host, --stateless needs --http"),
        (["--http", ""], "--http has an empty value"),
        (["--ttl", "nan"], "--ttl"),
        (["--ttl", "inf"], "--ttl"),
        (["--ttl", "-1"], "--ttl"),
        (["--ttl", "1e300"], "--ttl"),
        (["--page-size", "0"], "--page-size"),
        (["--cache-scope", "everyone"], "--cache-scope"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_options_that_make_no_sense_are_one_line_and_exit_code_2(
    run: Run, folder: Path, arguments: list[str], complaint: str
) -> None:
    code, said = run(folder, *arguments)
    assert (code, len(said)) == (2, 1)
    assert complaint in said[0]


@pytest.mark.parametrize("address", ["nowhere", "1.2.3.4:99999", "[::1]"])
def test_an_invalid_address_is_refused(run: Run, folder: Path, address: str) -> None:
    code, said = run(folder, "--http", address)
    assert (code, len(said)) == (SourceError.exit_code, 1)
    assert "is not an address" in said[0]


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "host.example:0"])
def test_a_public_address_needs_a_token_or_an_explicit_option(run: Run, folder: Path, address: str) -> None:
    code, said = run(folder, "--http", address)
    assert (code, len(said)) == (SourceError.exit_code, 1)
    assert "--unsafe-no-auth" in said[0]
    assert "SKILLWIRE_TOKEN" in said[0]


def test_a_public_address_is_bound_on_request(run: Run, folder: Path) -> None:
    code, said = run(folder, "--http", "0.0.0.0:0", "--unsafe-no-auth")
    assert code == 0
    assert said[-2].startswith("Serving 2 skills at http://0.0.0.0:")
    assert "--allow-host" in said[-1]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "there is no token in"),
        (b" \n# none\n", "there is no token in"),
        (b"one two three", "line 1: write NAME TOKEN"),
        (b"ada x\nada y\n", "line 2: the name ada is used twice"),
        ("naïve".encode(), "one word of printable ASCII"),
        (b"bell\x07", "one word of printable ASCII"),
        (b"\xff", "not UTF-8"),
        (None, "No such file"),
    ],
)
def test_a_token_file_that_holds_no_token_is_refused(
    run: Run, folder: Path, tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    if content is not None:
        write(tmp_path / "token", content)
    code, said = run(folder, "--http", "0", "--token-file", tmp_path / "token")
    assert (code, len(said)) == (SourceError.exit_code, 1)
    assert complaint in said[0]


@pytest.mark.parametrize("place", ["file", "environment"])
def test_a_token_is_taken_from_a_file_or_the_environment(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    options: list[object] = ["--http", "127.0.0.1:0"]
    if place == "file":
        write(tmp_path / "token", b"s3cret\n")
        options += ["--token-file", tmp_path / "token"]
    else:
        monkeypatch.setenv("SKILLWIRE_TOKEN", "s3cret")
    code, said = run(folder, *options)
    assert code == 0
    assert said[-1].endswith("(bearer token required)")
    assert "s3cret" not in "".join(said)


def test_an_empty_token_in_the_environment_is_no_token(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLWIRE_TOKEN", "")
    code, said = run(folder, "--http", "127.0.0.1:0")
    assert code == SourceError.exit_code
    assert "SKILLWIRE_TOKEN" in said[0]


@pytest.mark.process
@pytest.mark.requirement("LST-1", "LST-3", "LST-2")
def test_page_size_and_unlisted_reach_the_client(folder: Path) -> None:
    write_skill(folder / "internal/secret")
    write_skill(folder / "zeta")
    with serving_stdio(folder, "--page-size", "2", "--unlisted", "internal/*") as served:
        first = served.ask("skills/list")["result"]
        second = served.ask("skills/list", cursor=first["nextCursor"])["result"]
        names = [entry["frontmatter"]["name"] for page in (first, second) for entry in page["skills"]]
        assert names == ["alpha", "nested", "zeta"]
        hidden = served.ask("skills/get", uri="skill://internal/secret/SKILL.md")["result"]
        assert hidden["skill"]["frontmatter"]["name"] == "secret"


@pytest.mark.process
@pytest.mark.parametrize("options", [[], ["--every-tool"]])
def test_every_tool_is_offered_on_request(folder: Path, options: list[str]) -> None:
    with serving_stdio(folder, *options) as served:
        tools = {tool["name"] for tool in served.ask("tools/list")["result"]["tools"]}
    assert ({"search_skills", "list_skill_files"} <= tools) == bool(options)
    assert {"load_skill", "read_skill_file"} <= tools


@pytest.mark.process
def test_what_was_scanned_is_kept_for_the_next_start_however_short_this_one_was(folder: Path) -> None:
    kept = folder.parent / "cache"
    env = {"XDG_CACHE_HOME": str(kept)}
    with serving(folder, "--no-scan-cache", env=env) as served:
        assert served.process.communicate(timeout=PATIENCE)[0] == b""
    assert not kept.exists()
    with serving(folder, env=env) as served:
        served.listen()
        served.send(INITIALIZE)
        served.receive()
        assert served.process.stdin is not None
        served.process.stdin.close()
        assert served.process.wait(PATIENCE) == 0
    [index] = kept.rglob("*.index")
    index.unlink()
    with serving_http(folder, env=env) as (url, served):
        address = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
        address.request("GET", "/healthz")
        assert address.getresponse().status == 200
        address.close()
        assert served.end(signal.SIGTERM) == 0
    assert index.stat().st_size > 0


@pytest.mark.process
def test_an_interrupt_while_it_scans_ends_it_without_a_traceback(tmp_path: Path) -> None:
    # A pipe for a token holds the start up until somebody writes to it.
    os.mkfifo(tmp_path / "token")
    with serving(tmp_path, "--http", "127.0.0.1:0", "--token-file", tmp_path / "token") as served:
        descriptor = os.open(tmp_path / "token", os.O_WRONLY)  # Returns once the other side reads.
        try:
            assert served.end(signal.SIGINT) == 130
        finally:
            os.close(descriptor)
        assert "Traceback" not in "".join(served.said)
        assert served.process.wait(PATIENCE) == 130


LIMIT_OPTIONS = {
    "--max-connections": ("7", "http_connections", 7),
    "--max-connections-per-address": ("3", "http_connections_per_address", 3),
    "--max-body-bytes": ("1000", "http_body_bytes", 1000),
    "--max-sessions": ("5", "sessions", 5),
    "--session-timeout": ("1.5", "session_idle_seconds", 1.5),
    "--head-timeout": ("0.5", "http_head_seconds", 0.5),
    "--body-timeout": ("2.5", "http_body_seconds", 2.5),
    "--write-timeout": ("3.5", "http_write_seconds", 3.5),
    "--idle-timeout": ("4.5", "http_idle_seconds", 4.5),
}


def test_every_limit_of_the_http_server_has_an_option_that_sets_it(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Limits] = []

    class Recorded:
        url = "http://127.0.0.1"
        serve = stop = None

        def __init__(self, app: object, address: object, *, limits: Limits, **_: object) -> None:
            seen.append(limits)

    monkeypatch.setattr("skillwire.server.HttpServer", Recorded)
    monkeypatch.setattr("skillwire.cli.running.run_until_signal", lambda *_, **__: None)
    words = [word for name, (value, _, _) in LIMIT_OPTIONS.items() for word in (name, value)]
    assert run(folder, "--http", "127.0.0.1:0")[0] == 0
    assert run(folder, "--http", "127.0.0.1:0", *words)[0] == 0
    for name, (_, field, value) in LIMIT_OPTIONS.items():
        # The default of an option is that of the library.
        assert getattr(seen[0], field) == getattr(DEFAULT_LIMITS, field), name
        assert getattr(seen[1], field) == value, name


def test_every_limit_of_the_http_server_is_in_the_table_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs/serving.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    for name, (_, field, _) in LIMIT_OPTIONS.items():
        assert any(f"`{name}`, `{field}`" in row for row in rows), name


# A part of a folder


@pytest.mark.process
def test_only_the_skills_that_are_named_are_served(tmp_path: Path) -> None:
    for name in ("alpha", "beta", "gamma"):
        write_skill(tmp_path / f"skills/{name}")
    with serving_http(tmp_path / "skills", "--only", "alpha", "--only", "gamma", "--well-known") as (url, _):
        index = httpx2.get(url.replace("/mcp", "/.well-known/agent-skills/index.json"), timeout=60).json()
        assert [skill["name"] for skill in index["skills"]] == ["alpha", "gamma"]


def test_only_a_skill_that_is_there_can_be_named(run: Run, tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/alpha")
    code, said = run(tmp_path / "skills", "--only", "alfa")
    assert code == 4
    assert "no skill is called alfa; served:" in said[-1]


# For colleagues

STRONG = "skw_0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("token", "mode", "message"),
    [
        ("abc", 0o600, "can be guessed"),
        ("a" * 40, 0o600, "can be guessed"),
        (f"ada {STRONG}\ngrace short", 0o600, "can be guessed"),
        (STRONG, 0o644, "chmod 600"),
    ],
)
def test_a_token_that_others_can_guess_or_read_is_refused_where_others_reach_the_server(
    run: Run, tmp_path: Path, token: str, mode: int, message: str
) -> None:
    write_skill(tmp_path / "skills/alpha")
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(mode)
    code, said = run(tmp_path / "skills", "--http", "0.0.0.0:0", "--token-file", tmp_path / "token")
    assert code == 4
    assert message in said[-1]


def test_sharing_asks_before_the_token_is_sent_in_the_clear(run: Run, tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/alpha")
    code, said = run(tmp_path / "skills", "--share")
    assert code == 7
    assert "on the way can read the token" in said[0]


@pytest.mark.process
def test_a_shared_folder_says_what_colleagues_do_and_a_removed_token_is_refused_at_once(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path / "skills/alpha")
    home = {name: str(tmp_path / name) for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    words = (tmp_path / "skills", "--share", "--yes", "--allow-host", "127.0.0.1")
    with serving(*words, "--http", "0.0.0.0:0", env=home) as served:
        served.listen()
        url = served.wait_until_it_says(r"Everybody who reaches (http://127\.0\.0\.1:\d+/mcp)")[1]
        revoke = served.wait_until_it_says(r"remove it from (\S+): it is refused at once")
        file = Path(revoke[1])
        assert file.stat().st_mode & 0o777 == 0o600
        token = file.read_text().split()[1]
        said = ""
        while "codex" not in said:
            said += (served.lines.get(timeout=PATIENCE) or b"").decode()
        assert f"export SKILLWIRE_TOKEN='{token}'" in said
        assert f"skillwire servers add skills {url} --token-env SKILLWIRE_TOKEN" in said
        assert "claude mcp add --transport http skills" in said
        assert said.count(token) == 1
        assert status_for(url, token) == 200
        assert status_for(url, "another") == 401
        file.write_text("nobody skw_0123456789abcdefghijklmnopqrstuvwxyz\n")
        served.wait_until_it_says("the tokens changed: 1 in all, added: nobody, removed: ")
        assert status_for(url, token) == 401


@pytest.mark.process
def test_a_colleague_on_another_machine_does_what_the_output_says_and_has_the_skill(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/alpha")
    program = str(Path(__file__).parent / "second_machine.py")
    command = ["unshare", "-rn", sys.executable, program, str(tmp_path)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 10)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if ended.returncode != 0 and re.search("unshare: |'ip'|'nsenter'|RTNETLINK", ended.stderr):
        pytest.skip(f"no network of its own here: {ended.stderr[-200:]}")
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout)
    assert seen["lines"][0].startswith("skillwire servers add skills http://10.77.0.1:8711/mcp")
    assert seen["by_host"] == {"10.78.0.1": 401, "attacker.example": 421}
    assert seen["installed"]["guessed"] == []
    assert [Path(file).parent.name for file in seen["installed"]["shared"]][:1] == ["alpha"], seen["runs"]


@pytest.mark.process
def test_a_certificate_makes_it_https(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/alpha")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    files = ("--cert", tmp_path / "cert.pem", "--key", tmp_path / "key.pem")
    with serving(tmp_path / "skills", *files, "--http", "127.0.0.1:0") as served:
        port = served.wait_until_it_says(r"https://127\.0\.0\.1:(\d+)/mcp")[1]
        trust = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        connection = http.client.HTTPSConnection("localhost", int(port), context=trust, timeout=PATIENCE)
        with closing(connection):
            connection.request("GET", "/livez")
            assert connection.getresponse().read() is not None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--cert", "c", "--http", "0"], 2, "--cert and --key belong together"),
        (["--cert", "c", "--key", "k", "--http", "0"], 4, "no certificate and its key"),
        (["--yes"], 2, "--yes is for --share"),
        (["--url", "skills.example", "--http", "0"], 2, "--url is not"),
    ],
)
def test_options_for_sharing_that_mean_nothing_are_refused(
    run: Run, folder: Path, words: list[str], code: int, message: str
) -> None:
    ended, said = run(folder, *words)
    assert ended == code
    assert message in "\n".join(said)


def status_for(url: str, token: str) -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
    request = modern_request("skills/list")
    headers = {**request["headers"], "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", parts.path, body=json.dumps(request["json"]), headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.process
@pytest.mark.anyio
async def test_reference_lists_what_the_reference_server_lists(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/notes", {"a/b.md": b"b"})
    server = StdioServerParameters(
        command=SKILLWIRE, args=["serve", str(tmp_path / "skills"), "--reference", "--no-scan-cache"]
    )
    async with Client(server) as client:
        listed = (await client.list_resources()).resources
        assert {resource.uri: resource.mime_type for resource in listed} == {
            "skill://notes/SKILL.md": "text/markdown",
            "skill://notes/_manifest": "application/json",
            "skill://prompt-xml": "application/xml",
        }
