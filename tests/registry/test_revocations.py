"""What a registry revokes: refused by every replica, marked in listings, and signed for hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2 as httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from clients import call, refusal
from command_line import Ended, Run, approved, new_user
from gateways import joined, make_gateway, text_of
from interop.processes import SKILLWIRE, listening
from publishers import new_key
from registry.conftest import Publish, both_databases, publish_to
from registry.test_app import folder, running, subscriber, token
from server.test_notifications import Heard, modern
from skillwire.errors import (
    FormatError,
    LimitExceeded,
    PolicyRefused,
    SkillNotFound,
    SourceError,
    VersionConflict,
)
from skillwire.host import ServerConfig, policies
from skillwire.host.policies import SIGNED_REVOCATIONS, parse_revocations, require_signature
from skillwire.registry import Access, Publishing, Role, Store, View
from skillwire.registry import upkeep as backups
from skillwire.registry.access import operator
from skillwire.registry.administration import Administration
from skillwire.registry.audit import first_broken, read_audit
from skillwire.registry.endpoints import FEED_PATH
from skillwire.registry.queries import SkillQueries
from skillwire.registry.revocations import Revocations, next_list
from skillwire.skill import digest_of, parse_uri
from skillwire.trust import ApprovalMode
from waiting import PATIENCE

KEY = new_key()
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
SKILL, PINNED = "skill://acme/pdf/SKILL.md", "skill://acme/@1.0.0/pdf/SKILL.md"


def sign(store: Store, **options: Any) -> dict[str, Any]:
    """Sign what is revoked, as an operator does."""
    administration = Administration(store)
    arguments, *_ = next_list(administration.run("revocations", {}, caller=operator("test")), KEY, **options)
    return administration.run("revocations-sign", arguments, caller=operator("test"))


def marks(store: Store) -> dict[str, object]:
    entries = SkillQueries(store, View()).page(None, 10)
    return {entry.name: entry.meta.get("dev.skillwire/revoked") for entry in entries}


# What is refused


@both_databases
@pytest.mark.anyio
@pytest.mark.process
async def test_a_revoked_version_is_listed_with_the_reason_and_served_in_no_way(
    store: Store, publish: Publish
) -> None:
    publish("pdf", files={"a.md": b"a"})
    publish("letters")
    Publishing(store).set_namespace("other", by="test")
    publish("pdf", namespace="other", files={"a.md": b"a", "b.md": b"b"})
    Access(store).grant("anyone", "*", Role.READ, by="test")
    secret = token(store, "reader", "*", Role.READ)
    why = "acme/pdf 1.0.0 is revoked: leaks keys"
    async with (
        running(store) as url,
        httpx.AsyncClient(timeout=PATIENCE) as http,
        subscriber(url, secret, "2026-07-28") as (client, heard),
    ):
        base = url.removesuffix("/mcp")
        manifest = await http.get(f"{base}/v2/acme/pdf/manifests/1.0.0")
        layer = f"{base}/v2/acme/pdf/blobs/{manifest.json()['layers'][0]['digest']}"
        assert (await http.get(layer)).status_code == 200
        assert text_of(await client.read_resource(SKILL))

        Revocations(store).revoke("acme/pdf@1.0.0", "leaks keys", by="test")
        await until_told(heard)

        assert marks_of(await call(client, "skills/list")) == {
            "acme/letters": None,
            "acme/pdf": "leaks keys",
            "other/pdf": None,
        }
        for uri in (SKILL, PINNED, "skill://acme/pdf/a.md", "skill://acme/@1.0.0/pdf/a.md"):
            assert (await refusal(client, "resources/read", uri=uri)).message == why, uri
        assert (await refusal(client, "skills/get", uri=PINNED)).message == why
        assert (await refusal(client, "resources/directory/read", uri="skill://acme/pdf")).message == why
        loaded = await client.call_tool("load_skill", {"name": "acme/pdf"})
        assert (loaded.is_error, text_of(loaded)) == (True, why)
        assert text_of(await client.read_resource("skill://other/pdf/a.md")) == "a"

        for path in ("/v2/acme/pdf/manifests/1.0.0", "/v2/acme/pdf/manifests/stable"):
            answer = await http.get(base + path)
            assert (answer.status_code, answer.json()["error"]) == (403, why)
        assert (await http.get(layer)).status_code == 404
        site = f"{base}/.well-known/agent-skills"
        answer = await http.get(f"{site}/acme/pdf@1.0.0.tar.gz")
        assert (answer.status_code, answer.json()["error"]) == (403, why)
        index = (await http.get(f"{site}/index.json")).json()["skills"]
        # Another skill of the same name takes its place.
        places = sorted((one["name"], one["url"].partition("/")[0]) for one in index)
        assert places == [("letters", "acme"), ("pdf", "other")]


async def until_told(heard: Heard) -> None:
    """Wait until a client was told that the listing changed."""
    async with asyncio.timeout(PATIENCE):
        while "resources/list_changed" not in heard.words:
            await heard.more()


def marks_of(page: dict[str, Any]) -> dict[str, object]:
    return {
        "/".join(one["uri"].split("/")[2:4]): one["_meta"].get("dev.skillwire/revoked")
        for one in page["skills"]
    }


def test_nothing_with_a_revoked_digest_is_published_or_promoted(store: Store, publish: Publish) -> None:
    bad = digest_of(b"bad")
    done = publish("pdf", files={"a.md": b"a"})
    publish("pdf", "1.1.0", files={"a.md": b"b"})
    revocations = Revocations(store)
    assert revocations.revoke(bad, "leaks keys", by="test") == ([bad], [])
    revocations.revoke(done.set_digest, "steals keys", by="test")

    with pytest.raises(PolicyRefused, match=f"{bad} is revoked: leaks keys"):
        publish("letters", files={"x.md": b"bad"})
    with pytest.raises(PolicyRefused, match="steals keys"):
        publish("pdf", "2.0.0", files={"a.md": b"a"})
    with pytest.raises(PolicyRefused, match="steals keys"):
        publish("pdf", files={"a.md": b"a"})
    with pytest.raises(PolicyRefused, match=r"acme/pdf 1\.0\.0 is revoked: steals keys"):
        Publishing(store).promote("acme", "pdf", "1.0.0", "beta", by="test")
    with pytest.raises(SkillNotFound):
        Publishing(store).versions("acme", "letters")
    assert Publishing(store).prune(keep=1, by="test")[0] == 0

    revocations.undo(bad, by="test")
    assert publish("letters", files={"x.md": b"bad"}).is_new


@both_databases
def test_a_file_revokes_every_version_that_has_it_and_each_reason_is_taken_back_alone(
    store: Store, publish: Publish
) -> None:
    shared = digest_of(b"shared")
    first = publish("pdf", files={"a.md": b"shared"})
    publish("letters", files={"b.md": b"shared"})
    publish("notes", files={"c.md": b"other"})
    revocations = Revocations(store)
    digests, affected = revocations.revoke(shared, "leaks keys", by="test")
    assert (digests, affected) == ([shared], ["acme/pdf@1.0.0", "acme/letters@1.0.0"])
    assert marks(store) == {"letters": "leaks keys", "notes": None, "pdf": "leaks keys"}

    revocations.revoke("acme/pdf", "old", by="test")
    revocations.undo(shared, by="test")
    assert marks(store) == {"letters": None, "notes": None, "pdf": "old"}
    [row] = revocations.listing()[0]
    assert (row.digest, row.what, row.reason) == (first.set_digest, "acme/pdf", "old")
    revocations.undo("acme/pdf@1.0.0", by="test")
    assert marks(store) == {"letters": None, "notes": None, "pdf": None}
    assert SkillQueries(store, View()).read(parse_uri(PINNED))
    with pytest.raises(SkillNotFound, match="acme/pdf is not revoked"):
        revocations.undo("acme/pdf", by="test")

    lines = [(line.action, line.what) for line in read_audit(store) if line.action.startswith("revoke")]
    assert lines == [
        ("revoke", shared),
        ("revoke", "acme/pdf"),
        ("revoke-undo", shared),
        ("revoke-undo", "acme/pdf@1.0.0"),
    ]
    assert first_broken(store) is None


def test_a_deleted_version_can_be_revoked_where_it_is_installed(store: Store, publish: Publish) -> None:
    old = publish("pdf", files={"a.md": b"a"})
    publish("pdf", "2.0.0", files={"a.md": b"b"})
    assert Publishing(store).prune(keep=1, by="test")[0] == 1
    assert Revocations(store).revoke("acme/pdf@1.0.0", "leaks keys", by="test") == ([old.set_digest], [])
    with pytest.raises(PolicyRefused):
        publish("pdf", files={"a.md": b"a"})
    assert marks(store) == {"pdf": None}


@pytest.mark.parametrize(
    ("error", "target"),
    [
        *((FormatError, target) for target in ("pdf", "acme/pdf@1/2", "sha256:12")),
        *((SkillNotFound, target) for target in ("acme/pdf@9", "acme/none")),
    ],
)
def test_what_cannot_be_revoked_is_named(
    store: Store, publish: Publish, error: type[Exception], target: str
) -> None:
    publish("pdf")
    with pytest.raises(error):
        Revocations(store).revoke(target, "x", by="test")
    with pytest.raises(FormatError):
        Revocations(store).revoke("acme/pdf@1.0.0", " ", by="test")
    assert Revocations(store).listing()[0] == []


# What is signed


def test_a_signed_list_has_everything_that_is_revoked_and_a_serial_that_rises(
    store: Store, publish: Publish
) -> None:
    done = publish("pdf")
    revocations = Revocations(store)
    assert sign(store)["serial"] == 1
    revocations.revoke("acme/pdf", "leaks \x1b[31mkeys " + "x" * 500, by="test")
    assert sign(store, days=3)["serial"] == 2
    signed = revocations.signed()
    assert require_signature(signed.data, signed.signature, [PUBLIC], SIGNED_REVOCATIONS) == signed.signer
    serial, _, revoked = parse_revocations(signed.data)
    assert (serial, list(revoked)) == (2, [done.set_digest])
    [[row], _] = [revocations.listing()[0], None]
    assert revoked[done.set_digest] == row.reason
    assert "\x1b" not in row.reason
    assert len(row.reason) <= 200


@pytest.mark.parametrize("lie", ["serial", "earlier serial", "expired", "key", "signature", "revoked"])
def test_a_signature_of_anything_else_than_the_current_list_is_refused(
    store: Store, publish: Publish, lie: str
) -> None:
    publish("pdf")
    administration = Administration(store)
    sign(store)
    listed = administration.run("revocations", {}, caller=operator("test"))
    # The signatures of the first three are right: what they are about is not the next list.
    last = {"serial": {"serial": 2}, "earlier serial": {"serial": 0}}.get(lie, {})
    arguments, *_ = next_list({**listed, **last}, KEY, days=-1 if lie == "expired" else 9)
    arguments |= {"key": {"key": "nonsense"}, "signature": {"signature": "AAAA"}}.get(lie, {})
    if lie == "revoked":  # Meanwhile.
        Revocations(store).revoke("acme/pdf", "leaks keys", by="test")
    with pytest.raises((VersionConflict, FormatError)):
        administration.run("revocations-sign", arguments, caller=operator("test"))
    assert Revocations(store).signed().serial == 1


def test_a_registry_that_forgets_a_revocation_gets_no_signature(store: Store, publish: Publish) -> None:
    publish("pdf")
    publish("letters")
    revocations = Revocations(store)
    [digest], _ = revocations.revoke("acme/pdf", "leaks keys", by="test")
    sign(store)
    revocations.undo("acme/pdf", by="test")
    revocations.revoke("acme/letters", "leaks keys", by="test")
    with pytest.raises(VersionConflict, match=digest):
        sign(store)
    with pytest.raises(VersionConflict, match=digest):
        sign(store, removed=["sha256:other"])
    assert revocations.signed().serial == 1
    assert sign(store, removed=[digest])["serial"] == 2


@pytest.mark.parametrize("answer", [{}, {"revoked": [1], "serial": 1}, {"revoked": [], "serial": "x"}])
def test_a_registry_that_does_not_say_what_is_revoked_gets_no_signature(answer: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="nothing was signed"):
        next_list({"document": "", "signature": "", **answer}, KEY)


def test_a_list_that_hosts_would_not_read_is_not_signed(
    store: Store, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillwire.registry import revocations

    publish("pdf")
    Revocations(store).revoke("acme/pdf", "leaks keys", by="test")
    monkeypatch.setattr(revocations, "DEFAULT_LIMITS", replace(revocations.DEFAULT_LIMITS, document_bytes=99))
    with pytest.raises(LimitExceeded):
        sign(store)


@both_databases
def test_a_restored_registry_refuses_the_same_and_serves_the_same_list(
    store: Store, publish: Publish, tmp_path: Path
) -> None:
    publish("pdf")
    Revocations(store).revoke("acme/pdf", "leaks keys", by="test")
    sign(store)
    backups.backup(store, tmp_path / "all.backup")
    other = Store(f"sqlite:///{tmp_path / 'other.db'}")
    other.create()
    backups.restore(other, tmp_path / "all.backup")
    assert marks(other) == {"pdf": "leaks keys"}
    assert Revocations(other).listing() == Revocations(store).listing()
    assert sign(other)["serial"] == 2
    other.close()


# Replicas and hosts


@pytest.fixture
def key_file(tmp_path: Path, run: Run) -> Path:
    assert run("sign", "--new-key", tmp_path / "security.pem").code == 0
    return tmp_path / "security.pem"


@pytest.mark.anyio
@pytest.mark.process
async def test_every_replica_refuses_at_once_what_one_was_told_to_revoke(
    postgres: Any, run: Run, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new()
    store = Store(url)
    Publishing(store).set_namespace("acme", by="test")
    publish_to(store)("pdf", files={"a.md": b"a"})
    secret, writer = token(store, "reader", "*", Role.READ), token(store, "writer", "*", Role.PUBLISH)
    admin = token(store, "admin", "*", Role.ADMIN)
    serve = [*SKILLWIRE, "serve", "--store", url, "--http", "127.0.0.1:0"]
    with ExitStack() as stack:
        one, other = (stack.enter_context(listening(serve)) for _ in range(2))
        to = one.removesuffix("/mcp")
        async with subscriber(other, secret, "2026-07-28", PINNED) as (client, heard):
            assert text_of(await client.read_resource(PINNED))
            assert text_of(await client.read_resource(PINNED))  # From the cache of the replica.
            words = ["registry", "revoke", "acme/pdf@1.0.0", "--reason", "leaks keys", "--to", to]
            monkeypatch.setenv("SKILLWIRE_REGISTRY_TOKEN", writer)
            refused = await asyncio.to_thread(run, *words)
            assert refused.code == 12
            assert "needs the role admin in every namespace" in refused.err
            monkeypatch.setenv("SKILLWIRE_REGISTRY_TOKEN", admin)
            revoked = await asyncio.to_thread(run, *words, "--sign", str(key_file))
            assert revoked.code == 0, revoked
            await until_told(heard)
            error = await refusal(client, "resources/read", uri=PINNED)
            assert error.message == "acme/pdf 1.0.0 is revoked: leaks keys"
            async with httpx.AsyncClient(timeout=PATIENCE) as http:
                lists: set[bytes] = set()
                async with asyncio.timeout(PATIENCE):
                    while len(lists) != 1 or b"leaks keys" not in next(iter(lists)):
                        answers = [await http.get(at.removesuffix("/mcp") + FEED_PATH) for at in (one, other)]
                        lists = {answer.content for answer in answers if answer.status_code == 200}
    assert [line.who for line in read_audit(store) if line.action.startswith("revoke")] == ["token:admin"] * 2
    store.close()


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A user of their own, with the time by which they fetch."""
    new_user(tmp_path, monkeypatch)
    monkeypatch.setattr(policies, "MACHINE_FILE", tmp_path / "etc/policy.toml")
    monkeypatch.setattr(policies, "check_owner", lambda path: None)
    at = SimpleNamespace(now=1_000_000.0)
    monkeypatch.setattr(policies, "time", SimpleNamespace(time=lambda: at.now))
    return at


@pytest.mark.anyio
@pytest.mark.process
async def test_what_a_registry_revokes_a_host_refuses_within_a_minute_wherever_it_is(
    clock: SimpleNamespace, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(f"sqlite:///{tmp_path / 'registry.db'}")
    store.create()
    Publishing(store).set_namespace("acme", by="test")
    Access(store).grant("anyone", "*", Role.READ, by="test")
    publish = publish_to(store)
    publish("pdf", files={"a.md": b"a"})
    publish("letters")
    assert (await asyncio.to_thread(run, "sign", "--new-key", tmp_path / "security.pem")).code == 0
    key = (tmp_path / "security.pub").read_text()

    async def cli(*words: str | Path) -> Ended:
        return await asyncio.to_thread(run, *words)

    async def ask(act: Callable[[Run], Ended]) -> Ended:
        return await asyncio.to_thread(act, run)

    async def revoke(serial: int, *words: str) -> None:
        """Revoke and sign, until the registry serves the list with this serial."""
        key = ("--sign", tmp_path / "security.pem", "--store", f"{store.url}")
        assert (await cli("registry", "revoke", *words, *key)).code == 0
        async with asyncio.timeout(PATIENCE):
            while b'"serial":%d' % serial not in (await http.get(feed)).content:
                pass

    async with running(store) as url, httpx.AsyncClient(timeout=PATIENCE) as http:
        feed = url.removesuffix("/mcp") + FEED_PATH
        config = tmp_path / "xdg_config_home/skillwire/skillwire.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'[servers.acme]\nurl = "{url}"\n')
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/policy.toml").write_text(
            f'[policy]\nformat = 1\nname = "acme"\n[publishers.security]\nkeys = ["""\n{key}"""]\n'
            f'[revoked]\nfeed = "{feed}"\nby = "security"\n'
        )
        never = await cli("load", "letters")
        assert never.code == 15
        assert "were never fetched" in never.err
        await revoke(1)
        clock.now += 41  # A server that had no list is asked less often.

        assert (await ask(lambda run: approved(run, "pdf"))).code == 0
        assert (await cli("load", "pdf")).code == 0
        assert (await cli("add", "acme/pdf", "--yes")).code == 0
        assert (await cli("sync", "--check")).code == 0
        gateway = make_gateway(tmp_path / "gateway", acme=ServerConfig(url=url, approval=ApprovalMode.ALWAYS))
        async with (
            gateway,
            joined(gateway) as client,
            modern(gateway.server().low_level) as heard,
        ):
            assert text_of(await client.read_resource("skill://acme/acme/pdf/SKILL.md"))

            await revoke(2, "acme/pdf@1.0.0", "--reason", "leaks keys")
            assert text_of(await client.read_resource("skill://acme/acme/letters/SKILL.md"))
            clock.now += 21
            await until_told(heard)
            assert len((await call(client, "skills/list"))["skills"]) == 1
            refused = await refusal(client, "resources/read", uri="skill://acme/acme/pdf/SKILL.md")
            assert "is revoked: leaks keys. Tell the user" in refused.message
            assert text_of(await client.read_resource("skill://acme/acme/letters/SKILL.md"))

        for words in (
            ("load", "pdf", "--on", "project"),
            ("load", "pdf", "--on", "acme"),
            ("sync", "--check"),
            ("sync",),
        ):
            ended = await cli(*words)
            assert ended.code == 15, (words, ended)
            assert "leaks keys" in ended.out + ended.err, words
        assert (await ask(lambda run: approved(run, "letters"))).code == 0
        assert (await cli("load", "letters")).code == 0

        await revoke(3, "acme/pdf@1.0.0", "--undo")
        clock.now += 21
        assert (await cli("load", "pdf", "--on", "acme")).code == 0
        assert (await cli("sync", "--check")).code == 0
    store.close()


def test_revoking_on_the_command_line(run: Run, tmp_path: Path, key_file: Path) -> None:
    place = ("--store", f"sqlite:///{tmp_path / 'registry.db'}")
    assert run("registry", "init", *place).code == 0
    assert run("registry", "namespace", "acme", *place).code == 0
    skill = folder(tmp_path / "1", "pdf", {"a.md": b"one"}, "1.0.0")
    assert run("publish", skill, "--namespace", "acme", *place).code == 0
    for words in (
        ["acme/pdf@1.0.0"],
        [],
        ["--reason", "x", "--sign", key_file],
        ["x", "--undo", "--reason", "y"],
    ):
        assert run("registry", "revoke", *words, *place).code == 2, words
    assert run("registry", "revoke", "acme/pdf", "--reason", "x", "--password-env", "X", *place).code == 2
    absent = run("registry", "revoke", "acme/pdf", "--reason", "x", "--sign", tmp_path / "absent", *place)
    assert absent.code != 0
    assert "told nothing yet" in run("registry", "list", "--revoked", *place).err

    revoked = run("registry", "revoke", "acme/pdf", "--reason", "leaks keys", *place)
    assert revoked.out == "Revoked acme/pdf\n  acme/pdf@1.0.0\n"
    assert "not told of it yet" in revoked.err
    heads, row = run("registry", "list", "--revoked", *place).out.splitlines()
    assert heads.split() == ["DIGEST", "SKILLS", "REASON", "BY", "SINCE"]
    assert "acme/pdf  leaks keys" in row
    assert run("registry", "list", "acme", *place).out.splitlines()[1].split() == [
        *("pdf", "1", "(1", "revoked)", "stable:", "1.0.0", "(revoked)")
    ]
    assert "revoked: leaks keys" in run("registry", "list", "acme/pdf", *place).out
    again = run("publish", skill, "--namespace", "acme", *place)
    assert again.code == 15
    assert "leaks keys" in again.err

    signed = run("registry", "revoke", "--sign", key_file, *place)
    assert signed.out.startswith("Signed list 1, valid until ")
    assert "  + sha256:" in signed.out
    listed = run("registry", "list", "--revoked", *place)
    assert "Hosts get list 1, signed by key:" in listed.err
    assert "differs" not in listed.err

    assert run("registry", "revoke", "acme/pdf", "--undo", *place).code == 0
    assert "It differs from the above" in run("registry", "list", "--revoked", *place).err
    assert run("registry", "revoke", "--sign", key_file, *place).code == 13
    undone = run("registry", "revoke", "--undo", "--sign", key_file, "--json", *place).document
    assert (undone["signed"]["serial"], len(undone["signed"]["removed"])) == (2, 1)
    assert run("registry", "list", "--revoked", "--json", *place).document["revoked"] == []
    assert run("registry", "list", "--revoked", "acme", *place).code == 2
