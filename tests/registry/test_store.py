"""Versions, channels and files in a store: the same on PostgreSQL and on SQLite."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from benchmarks.search import run
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from publishers import new_key
from registry.conftest import Publish, both_databases, publish_to, skill_md
from skillwire.catalog import parse_query
from skillwire.catalog.search import SearchIndex
from skillwire.errors import (
    FormatError,
    LimitExceeded,
    RefusedByPolicy,
    SkillNotFound,
    SourceError,
    VersionConflict,
)
from skillwire.limits import DEFAULT_LIMITS
from skillwire.registry import FileRow, Publishing, RequiredSigner, Store, View
from skillwire.registry import upkeep as backups
from skillwire.registry.audit import first_broken, read_audit
from skillwire.registry.publications import parse_publication, publication_of
from skillwire.registry.queries import SkillQueries
from skillwire.registry.schema import audit, blobs
from skillwire.skill import digest_of, parse_uri
from skillwire.trust import SIGNATURE_FILE, sign_files


def catalog(store: Store, channel: str = "stable", *namespaces: str) -> SkillQueries:
    return SkillQueries(store, View(channel, frozenset(namespaces) if namespaces else None))


def listed(store: Store, channel: str = "stable", *namespaces: str) -> list[str]:
    return [entry.uri for entry in catalog(store, channel, *namespaces).page(None, 1000)]


def read(store: Store, uri: str, *namespaces: str) -> bytes:
    return catalog(store, "stable", *namespaces).read(parse_uri(uri))


@both_databases
def test_a_published_skill_is_listed_with_its_files_and_read_byte_for_byte(store: Store, publish: Publish):
    publish("pdf", files={"references/a b.md": b"\x00\xff", "run.sh": b"#!/bin/sh\n"})

    (entry,) = catalog(store).page(None, 10)

    assert entry.uri == "skill://acme/pdf/SKILL.md"
    assert [file.uri for file in entry.resources] == [  # pyright: ignore[reportGeneralTypeIssues]
        "skill://acme/pdf/SKILL.md",
        "skill://acme/pdf/references/a%20b.md",
        "skill://acme/pdf/run.sh",
    ]
    assert read(store, "skill://acme/pdf/references/a%20b.md") == b"\x00\xff"
    with pytest.raises(SkillNotFound):
        read(store, "skill://acme/pdf/references")


@both_databases
def test_the_listing_is_sorted_by_uri_and_pages_neither_skip_nor_repeat(store: Store, publish: Publish):
    names = ["a", "a-b", "ab", "b", "a-a"]
    for name in names:
        publish(name)
    everything = listed(store)
    paged: list[str] = []
    after = None
    while page := catalog(store).page(after, 2):
        paged += [entry.uri for entry in page]
        after = f"acme/{page[-1].name}/"

    assert everything == sorted(f"skill://acme/{name}/SKILL.md" for name in names)
    assert paged == everything


@both_databases
def test_a_new_version_moves_its_channel_and_the_old_one_stays_readable(store: Store, publish: Publish):
    publish("pdf", "1.0.0", files={"a.md": b"one"})
    publish("pdf", "1.1.0", files={"a.md": b"two"})

    assert read(store, "skill://acme/pdf/a.md") == b"two"
    assert read(store, "skill://acme/@1.0.0/pdf/a.md") == b"one"
    pinned = catalog(store).entry(parse_uri("skill://acme/@1.0.0/pdf/SKILL.md"))
    assert {file.uri for file in pinned.resources} == {  # pyright: ignore[reportGeneralTypeIssues]
        "skill://acme/@1.0.0/pdf/SKILL.md",
        "skill://acme/@1.0.0/pdf/a.md",
    }


@both_databases
def test_a_channel_lists_only_what_was_published_or_promoted_to_it(store: Store, publish: Publish):
    publish("pdf", "2.0.0-rc1", channel="beta")

    assert listed(store) == []
    assert listed(store, "beta") == ["skill://acme/pdf/SKILL.md"]

    Publishing(store).promote("acme", "pdf", "2.0.0-rc1", "stable", by="boss")
    assert listed(store) == ["skill://acme/pdf/SKILL.md"]


@both_databases
def test_publishing_the_same_again_changes_nothing(store: Store, publish: Publish):
    first = publish("pdf")
    change = catalog(store).last_change()
    again = publish("pdf")

    assert first.is_new
    assert not again.is_new
    assert again.set_digest == first.set_digest
    assert catalog(store).last_change() == change
    assert len([line for line in read_audit(store) if line.action == "publish"]) == 1


@both_databases
def test_other_files_under_the_same_version_are_a_conflict_and_nothing_changes(
    store: Store, publish: Publish
):
    publish("pdf", files={"a.md": b"one"})

    with pytest.raises(VersionConflict, match=r"acme/pdf 1\.0\.0 exists with other files"):
        publish("pdf", files={"a.md": b"two"})

    assert read(store, "skill://acme/pdf/a.md") == b"one"


@pytest.mark.process
def test_of_two_publishers_of_one_version_one_succeeds_and_one_gets_the_conflict(postgres: Any):
    stores = [Store(url) for url in [postgres.new()] * 2]
    Publishing(stores[0]).set_namespace("acme", by="test")
    start = threading.Barrier(2)
    outcomes: list[str] = []

    def run(store: Store, content: bytes) -> None:
        publish = publish_to(store)
        start.wait()
        try:
            publish("pdf", files={"a.md": content})
            outcomes.append("published")
        except VersionConflict:
            outcomes.append("conflict")

    threads = [
        threading.Thread(target=run, args=given) for given in zip(stores, (b"one", b"two"), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["conflict", "published"]
    assert first_broken(stores[0]) is None
    for store in stores:
        store.close()


@both_databases
def test_a_withdrawn_version_leaves_the_listing_and_says_why_to_who_pinned_it(store: Store, publish: Publish):
    publish("pdf", "1.0.0")
    publish("pdf", "1.1.0", files={"a.md": b"secret"})

    left = Publishing(store).yank("acme", "pdf", "1.1.0", "leaks a key", by="boss")

    assert left == ("stable",)
    assert listed(store) == []
    pinned = catalog(store).entry(parse_uri("skill://acme/@1.1.0/pdf/SKILL.md"))
    assert pinned.meta["dev.skillwire/yanked"] == "leaks a key"
    assert read(store, "skill://acme/@1.1.0/pdf/a.md") == b"secret"
    with pytest.raises(VersionConflict, match="withdrawn"):
        Publishing(store).promote("acme", "pdf", "1.1.0", "stable", by="boss")
    with pytest.raises(VersionConflict, match="withdrawn"):
        publish("pdf", "1.1.0", files={"a.md": b"secret"})


@both_databases
def test_what_a_view_does_not_have_is_not_found_in_any_way(store: Store, publish: Publish):
    Publishing(store).set_namespace("secret", by="test")
    publish("pdf", namespace="secret")
    other = catalog(store, "stable", "acme")

    assert listed(store, "stable", "acme") == []
    assert other.count() == 0
    assert other.find("pdf") == []
    assert other.search(parse_query("does one thing", limits=DEFAULT_LIMITS), 5) == []
    assert other.version_names("secret", "pdf") == {}
    assert other.site_page(None, 10) == []
    for uri in ("skill://secret/pdf/SKILL.md", "skill://secret/@1.0.0/pdf/SKILL.md"):
        with pytest.raises(SkillNotFound):
            other.entry(parse_uri(uri))
        with pytest.raises(SkillNotFound):
            other.read(parse_uri(uri))


@both_databases
def test_a_file_of_others_cannot_be_published_by_its_digest_alone(store: Store, publish: Publish):
    Publishing(store).set_namespace("secret", by="test")
    publish("pdf", namespace="secret", files={"key.md": b"the secret"})
    contents = {"SKILL.md": skill_md("copy", "Copies."), "key.md": b"the secret"}
    rows = [FileRow(path, digest_of(data), len(data)) for path, data in contents.items()]
    draft = publication_of("acme", "1.0.0", "stable", rows)
    publishing = Publishing(store)
    publishing.upload("acme", [contents["SKILL.md"]], by="thief")

    assert publishing.missing(draft, by="thief") == [digest_of(b"the secret")]
    with pytest.raises(FormatError, match="not sent"):
        publishing.publish(draft, by="thief")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"SKILL.md": b"no frontmatter"}, "frontmatter"),
        ({"SKILL.md": b"---\nname: Bad Name\ndescription: x\n---\n"}, "name"),
        ({"SKILL.md": b"---\nname: pdf\n---\n"}, "description"),
        ({"README.md": b"x"}, "SKILL.md"),
        ({"SKILL.md": skill_md("pdf", "x"), "../up.md": b"x"}, "path"),
        ({"SKILL.md": skill_md("pdf", "x"), "/etc/passwd": b"x"}, "path"),
    ],
)
def test_what_lint_refuses_is_not_published(store: Store, files: dict[str, bytes], reason: str):
    rows = [FileRow(path, digest_of(data), len(data)) for path, data in files.items()]

    def publish() -> None:
        draft = publication_of("acme", "1.0.0", "stable", rows)
        publishing = Publishing(store)
        publishing.upload("acme", files.values(), by="test")
        publishing.publish(draft, by="test")

    with pytest.raises(FormatError, match=reason):
        publish()
    assert listed(store) == []


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        [],
        {},
        {"namespace": "acme", "version": "1", "channel": "stable", "files": [1]},
        {"namespace": "acme", "version": "1", "channel": "stable", "files": [{"path": "a"}]},
        {
            "namespace": "acme",
            "version": "1",
            "channel": "stable",
            "files": [{"path": "a", "digest": "md5:0", "size": 1}],
        },
        {
            "namespace": "acme",
            "version": "1",
            "channel": "stable",
            "files": [{"path": "SKILL.md", "digest": digest_of(b"x"), "size": True}],
        },
        {"namespace": "../up", "version": "1", "channel": "stable", "files": []},
        {"namespace": "acme", "version": "a/b", "channel": "stable", "files": []},
    ],
)
def test_a_manifest_that_is_not_well_formed_is_refused(manifest: object):
    with pytest.raises(FormatError):
        parse_publication(manifest)


@pytest.mark.parametrize(("count", "size"), [(513, 1), (2, 9 << 20)])
def test_a_version_that_is_too_large_is_refused_by_its_manifest_alone(count: int, size: int):
    rows = [FileRow("SKILL.md", digest_of(b""), size)]
    rows += [FileRow(f"{number}.md", digest_of(b""), size) for number in range(1, count)]
    with pytest.raises(LimitExceeded, match="at most 512 files and 16,777,216 bytes can be published"):
        publication_of("acme", "1.0.0", "stable", rows)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("SKILL.md", "is listed twice"),
        ("SKILL.md/x", "lies below a file"),
        ("../x", "is not a plain path"),
        ("aux.md", "the name of a device"),
        ("skill.md", "are the same name"),
    ],
)
def test_a_version_that_not_everybody_could_install_is_refused(path: str, reason: str):
    rows = [FileRow(one, digest_of(b""), 0) for one in ("SKILL.md", path)]
    with pytest.raises(FormatError, match=reason):
        publication_of("acme", "1.0.0", "stable", rows)


@both_databases
def test_a_false_size_is_refused(store: Store):
    data = skill_md("pdf", "x")
    publishing = Publishing(store)
    publishing.upload("acme", [data], by="test")
    with pytest.raises(FormatError, match="bytes"):
        publishing.publish(
            publication_of("acme", "1.0.0", "stable", [FileRow("SKILL.md", digest_of(data), 1)]), by="test"
        )


@both_databases
def test_a_quota_refuses_what_is_too_much_and_keeps_nothing_of_it(store: Store, publish: Publish):
    publishing = Publishing(store)
    publishing.set_namespace("acme", quota_bytes=300, by="test")
    publish("pdf")

    with pytest.raises(LimitExceeded, match="quota is 300"):
        publish("docx", files={"big.bin": bytes(1000)})

    assert listed(store) == ["skill://acme/pdf/SKILL.md"]
    with store.reading() as connection:
        sizes = connection.execute(sa.select(blobs.c.size)).scalars().all()
    assert max(sizes) < 1000


@both_databases
def test_a_namespace_with_a_signer_takes_only_what_they_signed(store: Store, publish: Publish):
    key = new_key()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    Publishing(store).set_namespace("acme", signer=RequiredSigner("acme-team", public), by="test")
    description = "Does one thing well. Use when it has to be done."
    digests = {"SKILL.md": digest_of(skill_md("pdf", description))}
    signature = sign_files(digests, name="pdf", key=key)
    strange = sign_files(digests, name="pdf", key=new_key())

    with pytest.raises(RefusedByPolicy, match="not signed"):
        publish("pdf")
    with pytest.raises(RefusedByPolicy, match="unknown publisher"):
        publish("pdf", files={SIGNATURE_FILE: strange})
    with pytest.raises(RefusedByPolicy, match="differ"):
        publish("pdf", files={SIGNATURE_FILE: signature, "more.md": b"x"})
    assert publish("pdf", files={SIGNATURE_FILE: signature}).signer == "acme-team"


@both_databases
def test_prune_keeps_what_channels_point_to_and_what_was_withdrawn(store: Store, publish: Publish):
    publishing = Publishing(store)
    for number in range(5):
        publish("pdf", f"1.{number}.0", files={"a.md": f"{number}".encode()})
    publishing.promote("acme", "pdf", "1.0.0", "stable", by="test")
    publishing.yank("acme", "pdf", "1.1.0", "bad", by="test")

    assert publishing.prune(keep=1, by="test") == (2, 2)

    assert {row.version for row in publishing.versions("acme", "pdf")} == {"1.0.0", "1.1.0", "1.4.0"}
    assert read(store, "skill://acme/pdf/a.md") == b"0"
    assert list(backups.damage(store)) == []


@both_databases
def test_the_feed_numbers_every_change_and_names_the_changed_files(store: Store, publish: Publish):
    publish("pdf", "1.0.0", files={"a.md": b"one", "b.md": b"same"})
    publish("pdf", "1.1.0", files={"a.md": b"two", "b.md": b"same"})
    publish("pdf", "1.2.0", description="Says something else.", files={"a.md": b"two", "b.md": b"same"})

    rows = catalog(store).changes_after(0)

    assert [row.files for row in rows] == [None, ("a.md",), None]
    assert [row.number for row in rows] == sorted(row.number for row in rows)
    assert catalog(store).changes_after(rows[0].number)[0] == rows[1]


@both_databases
def test_the_audit_log_cannot_be_changed_and_a_forged_line_is_noticed(store: Store, publish: Publish):
    publish("pdf", by="token:writer")
    assert [(line.who, line.action, line.what) for line in read_audit(store)] == [
        ("test", "namespace", "acme"),
        ("token:writer", "publish", "acme/pdf@1.0.0"),
    ]
    with pytest.raises(SourceError, match="append-only"), store.writing() as connection:
        connection.execute(audit.update().values(who="nobody"))
    with pytest.raises(SourceError, match="append-only"), store.writing() as connection:
        connection.execute(audit.delete())
    assert first_broken(store) is None

    with store.writing() as connection:
        if store.is_postgresql:
            connection.execute(sa.text("ALTER TABLE audit DISABLE TRIGGER audit_is_append_only"))
        else:
            connection.execute(sa.text("DROP TRIGGER audit_no_update"))
        connection.execute(audit.update().where(audit.c.number == 2).values(who="somebody else"))
    assert first_broken(store) == ("registry", 2)


SHARED_SEARCHES = {
    "fill in a pdf form": "pdf-forms",
    "rotate kubernets secrets": "rotate-keys",
    "release notes from commits": "release-notes",
    "postgress slow query": "sql-tuning",
    "spreadsheat": "spreadsheets",
    "invoi": "invoices",
}
SEARCHED = {
    "pdf-forms": "Fill in PDF forms from structured data.",
    "rotate-keys": "Rotate Kubernetes secrets and certificates without downtime.",
    "release-notes": "Write release notes from a range of commits.",
    "sql-tuning": "Find out why a query on PostgreSQL is slow, and tune it.",
    "spreadsheets": "Read and write spreadsheets with formulas.",
    "invoices": "Check invoices against purchase orders.",
    "c++-style": "Review code written in C++ for style.",
}


@both_databases
def test_both_databases_find_the_same_skills(store: Store, publish: Publish):
    for name, description in SEARCHED.items():
        publish(name.replace("+", "p"), description=description)

    for question, name in SHARED_SEARCHES.items():
        found = catalog(store).search(parse_query(question, limits=DEFAULT_LIMITS), 5)
        assert [entry.name for entry in found][:1] == [name], question
    assert catalog(store).search(parse_query("zzzzqqq", limits=DEFAULT_LIMITS), 5) == []


@pytest.mark.process
@pytest.mark.slow
def test_both_databases_search_texts_as_an_index_in_memory_does(tmp_path: Path, postgres: Any):
    stores = [Store(f"sqlite:///{tmp_path / 'registry.db'}"), Store(postgres.empty())]
    documents = list(run.documents(text=True))
    for store in stores:
        store.create()
        Publishing(store).set_namespace("acme", by="test")
        publish = publish_to(store)
        for document in documents:
            about = f"---\nname: {document.name}\ndescription: {json.dumps(document.description)}\n---\n"
            publish(document.name, files={"SKILL.md": f"{about}{document.body}".encode()})
    memory = SearchIndex([replace(document, place=f"acme/{document.name}") for document in documents])
    same = 0
    labels = run.labels("held-out")
    for question, _ in labels:
        query = parse_query(question, limits=DEFAULT_LIMITS)
        first, second = ([entry.name for entry in catalog(store).search(query, 5)] for store in stores)
        assert first == second, question
        same += first[:1] == [match.key for match in memory.search(query, limit=1)]
    assert same >= len(labels) * 0.97
    for store in stores:
        store.close()


@both_databases
def test_words_of_a_text_are_not_corrected_to_and_leave_with_it(store: Store, publish: Publish):
    def names(words: str) -> list[str]:
        return [one.name for one in catalog(store).search(parse_query(words, limits=DEFAULT_LIMITS), 5)]

    text = b"---\nname: pdf\ndescription: Does one thing.\n---\nMeasure with a barometer.\n"
    publish("pdf", files={"SKILL.md": text})
    assert names("barometer") == ["pdf"]
    assert names("baromter") == []
    publish("pdf", "1.1.0")
    assert names("barometer") == []


@both_databases
def test_a_skill_named_for_a_word_is_found_among_many_that_mention_it(
    store: Store, publish: Publish, monkeypatch: pytest.MonkeyPatch
):
    for limit in ("_CANDIDATES", "_RANKED"):
        monkeypatch.setattr(f"skillwire.registry.queries.{limit}", 2)
    for number in range(6):
        publish(f"skill-{number}", description="Mentions invoices among other things.")
    publish("zz-invoices", description="Writes bills.")

    found = catalog(store).search(parse_query("invoices", limits=DEFAULT_LIMITS), 1)

    assert [entry.name for entry in found] == ["zz-invoices"]


@both_databases
def test_as_many_skills_are_found_as_were_asked_for(store: Store, publish: Publish):
    for number in range(40):
        publish(f"skill-{number}", description="Checks invoices.")
    assert len(catalog(store).search(parse_query("invoices", limits=DEFAULT_LIMITS), 35)) == 35


@both_databases
def test_no_query_is_an_operator_of_the_database(store: Store, publish: Publish):
    publish("pdf")
    for text in ("'", '"', "a & b | !c", "% _", "\\", "NEAR(a)", "a*", "(", "x" * 5000):
        catalog(store).search(parse_query(text, limits=DEFAULT_LIMITS), 5)
        assert catalog(store).find(text) == [], text


def test_a_store_without_tables_says_how_to_create_them(tmp_path: Path):
    store = Store(f"sqlite:///{tmp_path / 'new.db'}")
    with pytest.raises(SourceError, match="skillwire registry init"):
        catalog(store).page(None, 1)


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite://", "sqlite:///:memory:", "http://x"])
def test_what_is_no_store_is_refused_in_one_line(url: str):
    with pytest.raises(SourceError):
        Store(url)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://user:hunter2@db.example:5433/skills", "postgresql://user@db.example:5433/skills"),
        ("postgres://db.example/skills?password=hunter2", "postgresql://db.example/skills"),
        ("postgresql://postgres:@/skills?host=/run/postgresql", "postgresql://postgres@/skills"),
    ],
)
def test_a_place_is_shown_without_its_password(url: str, place: str):
    store = Store(url)
    assert store.place == place
    assert "hunter2" not in repr(store)


@both_databases
def test_creating_twice_keeps_everything(store: Store, publish: Publish):
    publish("pdf")
    store.create()
    assert json.dumps(listed(store)) == '["skill://acme/pdf/SKILL.md"]'


@pytest.mark.parametrize(
    ("url", "hosts", "ports"),
    [
        ("postgresql://db.example/skills", "db.example", None),
        ("postgresql://u:p@a.example:1,b.example:2/skills", "a.example,b.example", "1,2"),
        ("postgresql://a.example,b.example/s?target_session_attrs=read-write", "a.example,b.example", ","),
        ("postgresql://u@/skills?host=a.example:1&host=b.example:2", "a.example,b.example", "1,2"),
    ],
)
def test_several_servers_are_written_as_libpq_or_sqlalchemy_do(url: str, hosts: str, ports: str | None):
    settings = Store(url).connection_settings()
    assert settings["host"] == hosts
    assert settings.get("port") == ports


def test_an_unknown_value_of_a_store_setting_is_refused():
    with pytest.raises(SourceError, match="is not a store"):
        Store("postgresql://db.example/skills?listen=perhaps")


def test_looking_into_a_missing_file_creates_nothing(tmp_path: Path):
    store = Store(f"sqlite:///{tmp_path / 'nope.db'}")
    with pytest.raises(SourceError, match="skillwire registry init"):
        store.check_tables()
    assert list(tmp_path.iterdir()) == []


@both_databases
def test_a_search_shows_equal_skills_once(store: Store, publish: Publish):
    Publishing(store).set_namespace("other", by="test")
    for namespace in ("acme", "other"):
        publish("git-workflow", namespace=namespace, description="Commits and branches of git.")
    publish("git-hooks", description="Hooks of git.")
    found = SkillQueries(store, View()).search(parse_query("git", limits=DEFAULT_LIMITS), 10)
    assert [entry.uri for entry in found] == [
        "skill://acme/git-hooks/SKILL.md",
        "skill://acme/git-workflow/SKILL.md",
    ]
