"""Where the policy of a machine comes from: its file, the organization's signed one, feeds and approvals."""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from publishers import new_key
from sample_entries import DEMO, checked
from scanning import change_policy, clean_machine
from simulator import Simulator, agree, opened
from skillwire.consent import Key, Record, exported, sign_approvals
from skillwire.consent.record import approved
from skillwire.errors import SkillwireError, SourceError
from skillwire.host import Event, EventKind, SkillHost, policies
from skillwire.host.policies import (
    SIGNED_POLICY,
    SIGNED_REVOCATIONS,
    LoadedPolicy,
    PolicyFiles,
    check_owner,
    policy_log,
    store_signed_approvals,
)
from skillwire.skill import digest_of
from skillwire.trust import ALL_GRANTS, approve, resource_set, sign_files
from skillwire.trust.policy import Subject

KEY, OTHER_KEY = new_key(), new_key()
ENTRY = checked(files={"a.md": b"a"})
SITE = "https://docs.example.org/mcp"
SUBJECT = Subject(entry=ENTRY, sources=(SITE,))
[FILE] = [digest for uri, digest in resource_set(ENTRY) if uri.endswith("a.md")]
root_only = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs root")


def pem(key: ec.EllipticCurvePrivateKey = KEY) -> str:
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return f'"""\n{public}"""'


@dataclass
class Site:
    """A site that answers with these bodies, or with a redirect."""

    url: str
    answers: dict[str, bytes | str] = field(default_factory=dict[str, bytes | str])
    asked: int = 0

    def put(self, path: str, data: bytes, name: str, key: ec.EllipticCurvePrivateKey = KEY) -> None:
        self.answers[path] = data
        self.answers[f"{path}.sig"] = sign_files({name: digest_of(data)}, name=name, key=key)

    def put_policy(
        self, rules: str, *, serial: int = 1, days: float = 30, key: ec.EllipticCurvePrivateKey = KEY
    ) -> None:
        expires = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
        head = f'[policy]\nformat = 1\nname = "org"\nserial = {serial}\nexpires = {expires}\n'
        self.put("/policy.toml", (head + rules).encode(), SIGNED_POLICY, key)

    def put_revoked(self, *digests: str, serial: int = 1, days: float = 30) -> None:
        expires = (datetime.now(UTC) + timedelta(days=days)).isoformat()
        document = {
            "skillwire_revoked": 1,
            "serial": serial,
            "expires": expires,
            "revoked": dict.fromkeys(digests, "leaks keys"),
        }
        self.put("/revoked.json", json.dumps(document).encode(), SIGNED_REVOCATIONS)


@pytest.fixture
def site() -> Generator[Site]:
    made: list[Site] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made[0].asked += 1
            answer = made[0].answers.get(self.path, b"")
            self.send_response(302 if isinstance(answer, str) else 200 if answer else 404)
            if isinstance(answer, str):
                self.send_header("Location", answer)
            body = answer if isinstance(answer, bytes) else b""
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.append(Site(f"http://127.0.0.1:{server.server_address[1]}"))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield made[0]
    server.shutdown()
    server.server_close()


Write = Callable[[str], LoadedPolicy]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the policy of the machine after its head, and loads it. Everything is fetched each time."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setattr(policies, "_FETCH_AFTER_SECONDS", 0)
    monkeypatch.setattr(policies, "_RETRY_AFTER_SECONDS", 0)
    monkeypatch.setattr(policies, "check_owner", lambda path: None)
    monkeypatch.setattr(policies, "MACHINE_FILE", tmp_path / "policy.toml")

    def load(rules: str) -> LoadedPolicy:
        text = f'[policy]\nformat = 1\nname = "acme"\ncontact = "security@example.org"\n{rules}'
        (tmp_path / "policy.toml").write_text(text)
        return PolicyFiles().load(tmp_path / "absent.toml")

    return load


def words(loaded: LoadedPolicy, subject: Subject = SUBJECT) -> str:
    refusal = loaded.policy.refusal(subject)
    return "" if refusal is None else refusal.message


# The file


@root_only
def test_only_a_file_that_nobody_but_root_can_write_counts(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    file = folder / "policy.toml"
    file.write_text("")
    file.chmod(0o644)
    check_owner(file)
    for mode in (0o664, 0o646):
        file.chmod(mode)
        with pytest.raises(SourceError, match="others than root can write"):
            check_owner(file)
    file.chmod(0o644)
    folder.chmod(0o777)
    with pytest.raises(SourceError, match="others than root can write"):
        check_owner(file)
    folder.chmod(0o755)
    os.chown(file, 65534, 65534)
    with pytest.raises(SourceError, match="belongs to another user than root"):
        check_owner(file)
    os.chown(file, 0, 0)
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    os.chown(theirs, 65534, 65534)
    (theirs / "policy.toml").write_text("")
    link = folder / "link.toml"
    link.symlink_to(theirs / "policy.toml")
    with pytest.raises(SourceError, match="belongs to another user than root"):
        check_owner(link)


def test_a_file_that_cannot_be_used_refuses_everything(machine: Write, tmp_path: Path) -> None:
    assert "cannot be used" in words(machine("nonsense"))
    (tmp_path / "policy.toml").write_bytes(b"\xff")
    assert "not UTF-8" in words(PolicyFiles().load(tmp_path / "absent.toml"))
    (tmp_path / "policy.toml").unlink()
    (tmp_path / "policy.toml").mkdir()
    assert "cannot be read" in words(PolicyFiles().load(tmp_path / "absent.toml"))
    (tmp_path / "policy.toml").rmdir()
    (tmp_path / "policy.toml").symlink_to(tmp_path / "nowhere")
    assert "cannot be read" in words(PolicyFiles().load(tmp_path / "absent.toml"))


def test_the_files_of_the_user_and_of_a_project_are_layers_too(machine: Write, tmp_path: Path) -> None:
    machine("")
    user = tmp_path / "xdg_config_home/skillwire/policy.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[policy]\nformat = 1\nname = "me"\n[sources]\ndeny = ["*/refunds"]')
    project = tmp_path / "skillwire-policy.toml"
    project.write_text('[policy]\nformat = 1\nname = "shop"\n[sources]\nallow = ["*"]')
    loaded = PolicyFiles().load(project)
    assert [layer.kind for layer in loaded.policy.layers] == ["machine", "user", "project"]
    assert "the policy me refuses it" in words(loaded)


# The organization's policy

DENY = '[sources]\ndeny = ["*/refunds"]\n'


def named(site: Site, more: str = "") -> str:
    return f'from = "{site.url}/policy.toml"\nkeys = [{pem()}]\n{more}'


def test_a_signed_policy_is_a_layer_and_its_last_version_outlives_its_server(
    machine: Write, site: Site
) -> None:
    site.put_policy(DENY)
    assert "the policy org refuses it by sources.deny" in words(machine(named(site)))
    site.answers.clear()
    loaded = machine(named(site))
    assert "the policy org refuses it by sources.deny" in words(loaded)
    assert "status 404" in loaded.remarks[0]
    site.put_policy("", serial=2)
    assert words(machine(named(site))) == ""


def test_a_policy_that_was_never_fetched_refuses_everything(machine: Write, site: Site) -> None:
    said = words(machine(named(site)))
    assert "was never fetched" in said
    assert "ask security@example.org" in said


@pytest.mark.parametrize(
    "lie", ["other key", "no signature", "changed", "not a policy", "for something else"]
)
def test_a_server_that_lies_is_not_believed(machine: Write, site: Site, lie: str) -> None:
    def tell() -> None:
        site.put_policy("", serial=9, key=OTHER_KEY if lie == "other key" else KEY)
        policy = site.answers["/policy.toml"]
        assert isinstance(policy, bytes)
        if lie == "no signature":
            site.answers["/policy.toml.sig"] = b""
        elif lie == "changed":
            site.answers["/policy.toml"] = policy + b"\n"
        elif lie == "not a policy":
            site.put("/policy.toml", b"nonsense", SIGNED_POLICY)
        elif lie == "for something else":
            site.put("/policy.toml", policy, SIGNED_REVOCATIONS)

    tell()
    assert "was never fetched" in words(machine(named(site)))
    site.put_policy(DENY)
    assert "sources.deny" in words(machine(named(site)))
    tell()
    assert "sources.deny" in words(machine(named(site))), "the last good version counts"


def test_an_older_version_never_replaces_a_newer_one(machine: Write, site: Site) -> None:
    site.put_policy(DENY, serial=3)
    assert "sources.deny" in words(machine(named(site)))
    for serial in (2, 3):
        site.put_policy("", serial=serial)
        loaded = machine(named(site))
        assert "sources.deny" in words(loaded)
        assert "it was rolled back" in loaded.remarks[0]
    assert "the machine asks for 7" in words(machine(named(site, "serial = 7\n")))


def test_a_redirect_to_another_host_is_not_followed(machine: Write, site: Site) -> None:
    site.answers["/policy.toml"] = "http://localhost:1/policy.toml"
    assert "was never fetched" in words(machine(named(site)))
    site.answers["/policy.toml"] = "/other.toml"
    site.put_policy(DENY)
    site.answers["/other.toml"] = site.answers["/policy.toml"]
    site.answers["/policy.toml"] = "/other.toml"
    assert "sources.deny" in words(machine(named(site))), "one on the same host is"


def test_an_expired_policy_counts_for_its_grace_time_and_then_refuses(machine: Write, site: Site) -> None:
    site.put_policy("", days=-3)
    loaded = machine(named(site))
    assert words(loaded) == ""
    assert "expired on" in loaded.remarks[0]
    assert "more than 2 days ago" in words(machine(named(site, "grace_days = 2\n")))
    site.put_policy("", serial=2, days=-8)
    assert "more than 7 days ago" in words(machine(named(site)))
    assert words(machine(named(site, 'mode = "report"\n'))) == "", "a layer that reports refuses nothing"


@pytest.mark.process
def test_a_server_that_is_stopped_costs_a_few_seconds_and_nothing_else(
    machine: Write, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "_FETCH_SECONDS", 1)
    site.put_policy(DENY)
    for path in ("policy.toml", "policy.toml.sig"):
        data = site.answers[f"/{path}"]
        assert isinstance(data, bytes)
        (tmp_path / path).write_bytes(data)
    program = (
        "import http.server as h; s = h.ThreadingHTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)"
    )
    program += "; print(s.server_address[1], flush=True); s.serve_forever()"
    served = tmp_path / "served"
    served.mkdir()
    for path in ("policy.toml", "policy.toml.sig"):
        (tmp_path / path).rename(served / path)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=served
    ) as process:
        try:
            assert process.stdout is not None
            stopped = Site(f"http://127.0.0.1:{int(process.stdout.readline())}")
            assert "sources.deny" in words(machine(named(stopped)))
            os.kill(process.pid, signal.SIGSTOP)
            loaded = machine(named(stopped))
            assert "sources.deny" in words(loaded)
            assert "did not answer within 1 seconds" in loaded.remarks[0]
        finally:
            process.kill()


# Revocations


def revoking(site: Site) -> str:
    return f'[publishers.team]\nkeys = [{pem()}]\n[revoked]\nfeed = "{site.url}/revoked.json"\nby = "team"\n'


def test_a_digest_of_a_signed_feed_is_refused_as_soon_as_the_feed_has_it(machine: Write, site: Site) -> None:
    assert "were never fetched" in words(machine(revoking(site)))
    site.put_revoked()
    assert words(machine(revoking(site))) == ""
    site.put_revoked(FILE, serial=2)
    assert f"{FILE} is revoked: leaks keys" in words(machine(revoking(site)))
    site.put_revoked(serial=1)
    assert "is revoked" in words(machine(revoking(site))), "an older feed does not take it back"
    site.answers.clear()
    assert "is revoked" in words(machine(revoking(site)))


def test_a_feed_that_expired_or_that_another_key_signed_does_not_count(machine: Write, site: Site) -> None:
    site.put_revoked(days=-8)
    assert "expired on" in words(machine(revoking(site)))
    site.put("/revoked.json", b"{}", SIGNED_REVOCATIONS)
    assert "expired on" in words(machine(revoking(site)))


# Approvals of a team


def team_export(key: ec.EllipticCurvePrivateKey = KEY, sources: tuple[str, ...] = (SITE,)) -> bytes:
    record = approved(
        Record(key=Key("url:1", ENTRY.uri)), approve(ENTRY, DEMO, grants=ALL_GRANTS), ENTRY, how="reviewed"
    )
    approvals = [{**exported(record), "sources": list(sources)}]
    document = {"skillwire_approvals": 1, "approvals": approvals}
    return json.dumps({**document, "signature": sign_approvals(approvals, key)}).encode()


BY_TEAM = f'[publishers.team]\nkeys = [{pem()}]\n[approvals]\nby = ["team"]\n'


def test_an_imported_approval_counts_for_its_files_and_its_source_alone(machine: Write) -> None:
    assert "needs an approval signed by team" in words(machine(BY_TEAM))
    store_signed_approvals(team_export())
    loaded = machine(BY_TEAM)
    [given] = loaded.team(ENTRY, (SITE,))
    assert given.grants == ALL_GRANTS
    assert not loaded.team(ENTRY, ("https://evil.example/mcp",))
    assert not loaded.team(checked(files={"a.md": b"b"}), (SITE,))


@pytest.mark.parametrize("edit", ["key", "digest", "grants", "sources"])
def test_an_edited_approval_counts_for_nothing(machine: Write, edit: str) -> None:
    data = team_export(OTHER_KEY) if edit == "key" else team_export()
    document = json.loads(data)
    [one] = document["approvals"]
    if edit == "grants":
        one["execute_code"] = False
    elif edit == "sources":
        one["sources"] = ["https://evil.example/mcp"]
    elif edit == "digest":
        one["digest"] = "sha256:" + "0" * 64
    store_signed_approvals(json.dumps(document).encode())
    loaded = machine(BY_TEAM)
    assert not loaded.team(ENTRY, (SITE,))
    assert not loaded.team(ENTRY, ("https://evil.example/mcp",))


def test_approvals_come_from_a_feed_too(machine: Write, site: Site) -> None:
    rules = BY_TEAM + f'feed = "{site.url}/approvals.json"\n'
    site.answers["/approvals.json"] = team_export(OTHER_KEY)
    loaded = machine(rules)
    assert not loaded.team(ENTRY, (SITE,))
    assert "not signed by a publisher of the policy" in loaded.remarks[0]
    site.answers["/approvals.json"] = team_export()
    assert machine(rules).team(ENTRY, (SITE,))
    site.answers.clear()
    assert machine(rules).team(ENTRY, (SITE,)), "the last good feed counts"


# A skill in use


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        ('[sources]\ndeny = ["*/refunds"]', "sources.deny"),
        (f'[revoked]\n"{digest_of(b"a")}" = "leaks keys"', "revoked"),
        (f'[publishers.team]\nkeys = [{pem()}]\nrequire = ["*/refunds"]', "publishers.team"),
        (f'[publishers.team]\nkeys = [{pem()}]\n[approvals]\nby = ["team"]', "approvals.by"),
    ],
    ids=["denied", "revoked", "not signed", "not approved"],
)
async def test_a_loaded_skill_is_released_when_the_policy_changes_to_refuse_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str, rule: str
) -> None:
    clean_machine(tmp_path, monkeypatch)
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"a"})
    sim.skill("letters")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        await host.load("letters")
        await change_policy(tmp_path, host, rules)
        with anyio.fail_after(60):
            said = [event.message async for event in policy_events(host)]
        assert f"is refused: the policy acme refuses it by {rule}" in said[0]
        assert said[-1] == "refunds from MCP server shop is refused by the policy now: it is released"
        assert "refunds" not in [one.handle for one in host.active()]
        assert rule == "approvals.by" or [one.handle for one in host.active()] == ["letters"]
        with pytest.raises(SkillwireError):
            await host.read("refunds", "a.md")
        assert not any(uri.endswith("refunds/a.md") for uri in sim.read_uris())
    lines = [json.loads(line) for line in policy_log().read_text().splitlines()]
    assert {(line["rule"], line["refused"]) for line in lines} == {(rule, True)}


async def policy_events(host: SkillHost) -> AsyncGenerator[Event]:
    """The events about the policy, until a skill is released."""
    async for event in host.log.events():
        if event.kind is EventKind.POLICY:
            yield event
            if event.message.startswith("refunds") and event.message.endswith("it is released"):
                return
