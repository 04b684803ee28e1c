"""The tables of version 0.1.0, with full-text search in the database's own way."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SORTED = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")


def _keys(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, _SORTED, primary_key=True) for name in names]


def _sorted(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, _SORTED, nullable=False) for name in names]


def _foreign(name: str, target: str, *, primary_key: bool = False) -> sa.Column[Any]:
    kind = _ID if target.endswith(".id") else _SORTED
    return sa.Column(name, kind, sa.ForeignKey(target), primary_key=primary_key, nullable=False)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def _bytes(*names: str) -> list[sa.Column[bytes]]:
    return [sa.Column(name, sa.LargeBinary, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "namespaces",
        *_keys("name"),
        sa.Column("quota_bytes", sa.BigInteger),
        sa.Column("published_bytes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("signer_name", sa.Text),
        sa.Column("signer_key", sa.Text),
        sa.Column("signer_root", sa.Text),
    )
    op.create_table("blobs", *_keys("digest"), *_numbers("size"), *_bytes("data"))
    op.create_table(
        "uploads",
        _foreign("namespace", "namespaces.name", primary_key=True),
        *_keys("sent_by"),
        _foreign("digest", "blobs.digest", primary_key=True),
        *_numbers("at"),
    )
    op.create_index("uploads_by_digest", "uploads", ["digest"])
    op.create_table(
        "namespace_files",
        _foreign("namespace", "namespaces.name", primary_key=True),
        _foreign("digest", "blobs.digest", primary_key=True),
        *_numbers("versions"),
    )
    op.create_index("namespace_files_by_digest", "namespace_files", ["digest"])
    op.create_table(
        "skills",
        sa.Column("id", _ID, primary_key=True),
        _foreign("namespace", "namespaces.name"),
        *_sorted("name"),
        sa.UniqueConstraint("namespace", "name"),
    )
    op.create_table(
        "versions",
        sa.Column("id", _ID, primary_key=True),
        _foreign("skill_id", "skills.id"),
        *_sorted("version"),
        *_texts("set_digest", "frontmatter", "manifest"),
        sa.Column("text_terms", sa.Text, nullable=False, server_default="{}"),
        *_numbers("size"),
        *_texts("archive_digest"),
        sa.Column("signer", sa.Text, nullable=False, server_default=""),
        *_texts("published_by"),
        *_numbers("published_at"),
        sa.Column("yanked", sa.Text),
        sa.Column("revoked", sa.Text),
        sa.UniqueConstraint("skill_id", "version"),
    )
    op.create_index("versions_by_set_digest", "versions", ["set_digest"])
    op.create_table(
        "deleted_versions",
        _foreign("skill_id", "skills.id", primary_key=True),
        *_keys("version"),
        *_texts("set_digest"),
    )
    op.create_table(
        "files",
        _foreign("version_id", "versions.id", primary_key=True),
        *_keys("path"),
        _foreign("digest", "blobs.digest"),
    )
    op.create_index("files_by_digest", "files", ["digest"])
    op.create_table(
        "channels",
        sa.Column("id", _ID, primary_key=True),
        *_sorted("channel", "path", "namespace", "name"),
        _foreign("version_id", "versions.id"),
        *_texts("terms"),
        sa.Column("text_terms", sa.Text, nullable=False, server_default=""),
        sa.UniqueConstraint("channel", "path"),
    )
    op.create_index("channels_by_name", "channels", ["channel", "name"])
    op.create_index("channels_by_version", "channels", ["version_id"])
    op.create_table("terms", *_keys("term"), *_numbers("skills", "anywhere"))
    op.create_table("term_trigrams", *_keys("trigram"), _foreign("term", "terms.term", primary_key=True))
    op.create_table(
        "revocations", *_keys("digest"), *_texts("what", "reason", "revoked_by"), *_numbers("revoked_at")
    )
    op.create_table(
        "signed_revocations",
        sa.Column("serial", sa.BigInteger, primary_key=True, autoincrement=False),
        *_numbers("expires"),
        *_bytes("data", "signature"),
        *_texts("signer"),
    )
    op.create_table(
        "changes",
        sa.Column("number", _ID, primary_key=True),
        *_texts("channel"),
        *_sorted("namespace", "name"),
        sa.Column("files", sa.Text),
        *_numbers("at"),
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        *_texts("channel"),
        *_numbers("created_at"),
        sa.Column("revoked_at", sa.BigInteger),
    )
    op.create_table(
        "grants", sa.Column("subject", sa.Text, primary_key=True), *_keys("namespace"), *_texts("role")
    )
    op.create_table(
        "audit",
        *_keys("writer"),
        sa.Column("number", _ID, primary_key=True, autoincrement=False),
        *_numbers("at"),
        *_texts("who", "action", "what", "details", "hash"),
    )
    op.create_index("audit_by_time", "audit", ["at"])
    key = ("server", "uri", "caller")
    decision = ("decision", "digest", "grants", "decided_at", "decided_by", "decided_how")
    op.create_table(
        "consent",
        *_keys(*key),
        *_texts("label", "files", "entry"),
        sa.Column("allowed_tools", sa.Integer, nullable=False),
        sa.Column("execute_code", sa.Integer, nullable=False),
        *_texts("scripts", "signer", *decision),
    )
    op.create_table(
        "consent_history", sa.Column("number", _ID, primary_key=True), *_sorted(*key), *_texts(*decision)
    )
    op.create_index("consent_history_by_skill", "consent_history", list(key))
    if op.get_bind().dialect.name == "postgresql":
        _postgresql()
    else:
        _sqlite()


def _postgresql() -> None:
    op.execute(
        "ALTER TABLE channels ADD COLUMN search tsvector "
        "GENERATED ALWAYS AS "
        "(array_to_tsvector(string_to_array(btrim(terms || ' ' || text_terms), ' '))) STORED"
    )
    # Without a list of pending entries, which every search would have to read.
    op.execute("CREATE INDEX channels_by_search ON channels USING gin (search) WITH (fastupdate = off)")
    # Nobody changes what was recorded, whatever the program does.
    op.execute(
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    )


def _sqlite() -> None:
    marks = "tokenize=\"unicode61 remove_diacritics 0 tokenchars '.+#_-@'\""
    op.execute(f"CREATE VIRTUAL TABLE channel_terms USING fts5(terms, {marks})")
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_no_{change.lower()} BEFORE {change} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
        )
