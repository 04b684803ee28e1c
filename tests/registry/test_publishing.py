"""Publishing at scale and over time: quotas, channels that move forward, deleted versions, damaged files."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import anyio.to_thread
import httpx2 as httpx
import pytest
import sqlalchemy as sa

from command_line import Run
from registry.conftest import Publish, both_databases, skill_md
from registry.test_app import folder, manifest, running, token
from scanning import BAD, HEAD, clean_machine, example, table, write_policy
from skillwire.errors import FormatError, LimitExceeded, PolicyRefused, SourceError, VersionConflict
from skillwire.host import policies
from skillwire.registry import (
    FileRow,
    Published,
    Publishing,
    Role,
    Store,
    View,
    publish_over_http,
    read_skill,
)
from skillwire.registry import upkeep as backups
from skillwire.registry.audit import first_broken, read_audit
from skillwire.registry.publications import publication_of
from skillwire.registry.queries import SkillQueries
from skillwire.registry.schema import blobs, namespace_files, namespaces
from skillwire.skill import digest_of, parse_uri
from waiting import PATIENCE


def listed_version(store: Store, name: str = "pdf") -> object:
    entry = SkillQueries(store, View()).entry(parse_uri(f"skill://acme/{name}/SKILL.md"))
    return entry.meta["dev.skillwire/version"]


def published_bytes(store: Store) -> int:
    with store.reading() as connection:
        return connection.execute(
            sa.select(namespaces.c.published_bytes).where(namespaces.c.name == "acme")
        ).scalar_one()


def counted_bytes(store: Store) -> int:
    """The same, counted file by file."""
    with store.reading() as connection:
        return connection.execute(
            sa.select(sa.func.coalesce(sa.func.sum(blobs.c.size), 0))
            .join(namespace_files, namespace_files.c.digest == blobs.c.digest)
            .where(namespace_files.c.namespace == "acme")
        ).scalar_one()


@both_databases
@pytest.mark.parametrize(
    ("releases", "listed"),
    [
        (["1.0.0", "2.0.0", "1.0.1"], "2.0.0"),
        (["1.0", "1.0.post1", "1.1a1"], "1.1a1"),
        (["9", "10"], "10"),
        (["blue", "amber"], "amber"),
        (["2.0.0", "blue", "1.0.0"], "1.0.0"),
    ],
    ids=" ".join,
)
def test_a_channel_moves_forward_by_itself(store: Store, publish: Publish, releases: list[str], listed: str):
    *_, done = [publish("pdf", release) for release in releases]
    assert listed_version(store) == done.listed == listed


@both_databases
def test_a_channel_moves_back_only_if_it_is_told_from_where(store: Store, publish: Publish):
    publish("pdf", "2.0.0")
    with pytest.raises(VersionConflict, match=r"in version 2\.0\.0, not in 1\.9"):
        publish("pdf", "1.9.1", expect="1.9")
    assert [row.version for row in Publishing(store).versions("acme", "pdf")] == ["2.0.0"]

    assert publish("pdf", "1.9.1", expect="2.0.0").listed == "1.9.1"
    assert publish("pdf", "3.0.0", promote=False).listed == "1.9.1"
    assert listed_version(store) == "1.9.1"


@both_databases
def test_what_a_namespace_published_is_counted_once_however_many_versions_share_it(
    store: Store, publish: Publish
):
    notice = {"LICENSE": b"x" * 1000}
    for release in ("1.0.0", "1.1.0", "1.2.0"):
        publish("pdf", release, files={**notice, "a.md": release.encode()})
    publish("docx", files=notice)
    before = published_bytes(store)
    assert before == counted_bytes(store)

    Publishing(store).prune(keep=1, by="test")

    assert published_bytes(store) == counted_bytes(store) == before - 2 * len("1.0.0")
    assert list(backups.damage(store)) == []


@both_databases
def test_a_quota_counts_what_is_published_and_what_the_same_publisher_sent(store: Store, publish: Publish):
    publishing = Publishing(store)
    publishing.set_namespace("acme", quota_bytes=3_000, by="test")
    publishing.upload("acme", [b"a" * 2_900], by="token:other")

    publish("pdf", files={"a.md": b"b" * 1_000})
    with pytest.raises(LimitExceeded, match="quota is 3,000"):
        publishing.upload("acme", [b"c" * 2_900], by="token:writer")
    with pytest.raises(LimitExceeded, match="quota is 3,000"):
        publish("docx", files={"a.md": b"d" * 2_500})

    assert published_bytes(store) == counted_bytes(store) < 3_000


@both_databases
def test_files_that_were_sent_and_not_published_are_listed_and_dropped(store: Store):
    publishing = Publishing(store)
    publishing.upload("acme", [b"one", b"two"], by="token:ci")

    [row] = publishing.waiting_uploads()
    assert (row.namespace, row.sent_by, row.files, row.size) == ("acme", "token:ci", 2, 6)
    assert publishing.drop_uploads("acme", "token:ci", by="test") == 2
    assert publishing.waiting_uploads() == []
    assert publishing.prune(keep=1, by="test") == (0, 2)


@both_databases
def test_what_one_publisher_sent_another_cannot_publish(store: Store):
    publishing = Publishing(store)
    data = skill_md("pdf", "Does one thing.")
    draft = publication_of("acme", "1.0.0", "stable", [FileRow("SKILL.md", digest_of(data), len(data))])
    publishing.upload("acme", [data], by="token:ci")

    assert publishing.missing(draft, by="token:other") == [digest_of(data)]
    assert publishing.publish(draft, by="token:ci").is_new
    assert publishing.missing(draft, by="token:other") == []


@both_databases
def test_a_deleted_version_comes_back_with_the_same_files_and_no_others(store: Store, publish: Publish):
    for release in ("1.0.0", "2.0.0"):
        publish("pdf", release, files={"a.md": release.encode()})
    assert Publishing(store).prune(keep=1, by="test")[0] == 1

    with pytest.raises(VersionConflict, match=r"1\.0\.0 existed with other files"):
        publish("pdf", "1.0.0", files={"a.md": b"something else"})
    assert publish("pdf", "1.0.0", files={"a.md": b"1.0.0"}).is_new
    assert listed_version(store) == "2.0.0"


@both_databases
def test_pruning_reports_as_it_goes_and_continues_after_an_interruption(
    store: Store, publish: Publish, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("skillwire.registry.upkeep._SKILLS_AT_ONCE", 2)
    for number in range(6):
        for release in ("1.0.0", "1.1.0", "1.2.0"):
            publish(f"skill-{number}", release, files={"a.md": f"{number} {release}".encode()})

    class Interrupted(Exception):
        pass

    def stop(versions: int, _files: int) -> None:
        if versions:
            raise Interrupted

    with pytest.raises(Interrupted):
        Publishing(store).prune(keep=1, by="test", progress=stop)
    counts: list[tuple[int, int]] = []
    deleted, _ = Publishing(store).prune(keep=1, by="test", progress=lambda *now: counts.append(now))

    assert deleted == 8
    assert counts == sorted(counts)
    assert counts[-1] == (8, 12)
    assert sum(line.action == "prune" for line in read_audit(store)) >= 3
    assert published_bytes(store) == counted_bytes(store)
    assert first_broken(store) is None


@both_databases
def test_a_damaged_file_is_an_error_and_never_an_answer(
    store: Store, publish: Publish, caplog: pytest.LogCaptureFixture
):
    publish("pdf", files={"a.md": b"as published"})
    with store.writing() as connection:
        connection.execute(
            blobs.update().where(blobs.c.digest == digest_of(b"as published")).values(data=b"as_published")
        )
    catalog = SkillQueries(store, View())
    caplog.set_level(logging.ERROR)

    with pytest.raises(SourceError, match="damaged"):
        catalog.read(parse_uri("skill://acme/pdf/a.md"))

    assert digest_of(b"as published") in caplog.text
    assert store.damaged == 1
    assert catalog.read(parse_uri("skill://acme/pdf/SKILL.md"))


@both_databases
def test_a_restored_registry_counts_files_as_before(
    store: Store, publish: Publish, tmp_path_factory: pytest.TempPathFactory
):
    for release in ("1.0.0", "2.0.0"):
        publish("pdf", release, files={"a.md": release.encode(), "LICENSE": b"shared"})
    Publishing(store).prune(keep=1, by="test")
    folder = tmp_path_factory.mktemp("restored")
    backups.backup(store, folder / "registry.backup")
    copy = Store(f"sqlite:///{folder / 'copy.db'}")
    copy.create()
    backups.restore(copy, folder / "registry.backup")

    assert published_bytes(copy) == counted_bytes(copy) == published_bytes(store)
    publishing = Publishing(copy)
    data = b"other"
    rows = [
        FileRow("SKILL.md", digest_of(skill_md("pdf", "x")), len(skill_md("pdf", "x"))),
        FileRow("a.md", digest_of(data), len(data)),
    ]
    publishing.upload("acme", [skill_md("pdf", "x"), data], by="test")
    with pytest.raises(VersionConflict, match="existed with other files"):
        publishing.publish(publication_of("acme", "1.0.0", "stable", rows), by="test")
    copy.close()


@both_databases
def test_a_file_cannot_lie_below_another_file(store: Store, publish: Publish):
    with pytest.raises(FormatError, match="lies below a file"):
        publish("pdf", files={"SKILL.md/x": b"one"})
    assert published_bytes(store) == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_the_files_of_a_registry_are_the_users_alone(tmp_path: Path):
    before = os.umask(0)
    try:
        store = Store(f"sqlite:///{tmp_path / 'registry.db'}")
        store.create()
        with store.writing():
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes == {"registry.db": 0o600, "registry.db-shm": 0o600, "registry.db-wal": 0o600}


@pytest.mark.process
def test_a_scanner_of_the_machines_policy_refuses_what_is_published(
    publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_machine(tmp_path, monkeypatch)
    write_policy(tmp_path, table(example(tmp_path), "error"))
    with pytest.raises(PolicyRefused, match=r"refuses it by scanners\.downloads: 1 error"):
        publish("pdf", files={"scripts/get.sh": BAD})
    assert publish("pdf", files={"scripts/get.sh": b"true\n"}).is_new


@pytest.mark.parametrize("layer", ["machine", "option"])
def test_what_the_policy_refuses_is_not_published(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: str
) -> None:
    clean_machine(tmp_path, monkeypatch)
    monkeypatch.setattr(policies, "check_owner", lambda path: None)
    place = ("--store", f"sqlite:///{tmp_path / 'registry.db'}")
    assert run("registry", "init", *place).code == 0
    assert run("registry", "namespace", "acme", *place).code == 0
    file = tmp_path / "etc/policy.toml" if layer == "machine" else tmp_path / "strict.toml"
    option = () if layer == "machine" else ("--policy", file)
    file.parent.mkdir(exist_ok=True)
    rules = '[sources]\ndeny = ["registry:local/acme/pdf"]'
    file.write_text(f'{HEAD}contact = "security@example.org"\n{rules}')
    pdf, letters = (folder(tmp_path / "skills", name, {}) for name in ("pdf", "letters"))
    refused = run("publish", pdf, "--namespace", "acme", *place, *option)
    assert refused.code == 15
    assert "the policy acme refuses it by sources.deny" in refused.err
    assert "ask security@example.org" in refused.err
    assert run("publish", letters, "--namespace", "acme", *place, *option).code == 0
    assert run("publish", pdf, "--to", "http://127.0.0.1:1", "--policy", file).code == 2
    file.write_text(f'{HEAD}mode = "report"\n{rules}')
    assert run("publish", pdf, "--namespace", "acme", *place, *option).code == 0
    lines = [json.loads(line) for line in policies.policy_log().read_text().splitlines()]
    assert [(line["act"], line["skill"], line["layer"], line["refused"]) for line in lines] == [
        ("publish", "acme/pdf", layer, True),
        ("publish", "acme/pdf", layer, False),
    ]


@pytest.mark.anyio
@pytest.mark.process
async def test_over_http_the_policy_of_the_registrys_machine_answers_with_403_and_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_machine(tmp_path, monkeypatch)
    store = Store(f"sqlite:///{tmp_path / 'registry.db'}")
    store.create()
    Publishing(store).set_namespace("acme", by="test")
    secret = token(store, "writer", "acme", Role.PUBLISH)
    write_policy(tmp_path, '[sources]\ndeny = ["*/pdf"]')
    skills = {name: read_skill(folder(tmp_path / "skills", name, {})) for name in ("pdf", "letters")}
    async with running(store) as url, httpx.AsyncClient(timeout=PATIENCE) as client:

        def send(name: str) -> Published:
            return publish_over_http(skills[name], url, namespace="acme", token=secret)

        with pytest.raises(PolicyRefused, match=r"the policy acme refuses it by sources\.deny"):
            await anyio.to_thread.run_sync(send, "pdf")
        assert (await anyio.to_thread.run_sync(send, "letters")).is_new
        sent = skills["pdf"].contents
        answer = await client.post(
            url.removesuffix("/mcp") + "/registry/v1/publish",
            files=[
                ("manifest", (None, manifest("1.0.0", sent))),
                *(("file", (digest_of(data), data)) for data in sent.values()),
            ],
            headers={"authorization": f"Bearer {secret}"},
        )
        assert (answer.status_code, answer.json()["refused_by"]) == (403, "policy")
    assert [entry.name for entry in SkillQueries(store, View()).page(None, 9)] == ["letters"]
    store.close()
