"""The tables of version 0.1.0, with full-text search in the database's own way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SORTED = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "namespaces",
        sa.Column("name", _SORTED, primary_key=True),
        sa.Column("quota_bytes", sa.BigInteger),
        sa.Column("published_bytes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("signer_name", sa.Text),
        sa.Column("signer_key", sa.Text),
        sa.Column("signer_root", sa.Text),
    )
    op.create_table(
        "blobs",
        sa.Column("digest", _SORTED, primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "uploads",
        sa.Column("namespace", _SORTED, sa.ForeignKey("namespaces.name"), primary_key=True),
        sa.Column("sent_by", _SORTED, primary_key=True),
        sa.Column("digest", _SORTED, sa.ForeignKey("blobs.digest"), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("uploads_by_digest", "uploads", ["digest"])
    op.create_table(
        "namespace_files",
        sa.Column("namespace", _SORTED, sa.ForeignKey("namespaces.name"), primary_key=True),
        sa.Column("digest", _SORTED, sa.ForeignKey("blobs.digest"), primary_key=True),
        sa.Column("versions", sa.BigInteger, nullable=False),
    )
    op.create_index("namespace_files_by_digest", "namespace_files", ["digest"])
    op.create_table(
        "skills",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("namespace", _SORTED, sa.ForeignKey("namespaces.name"), nullable=False),
        sa.Column("name", _SORTED, nullable=False),
        sa.UniqueConstraint("namespace", "name"),
    )
    op.create_table(
        "versions",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("skill_id", _ID, sa.ForeignKey("skills.id"), nullable=False),
        sa.Column("version", _SORTED, nullable=False),
        sa.Column("set_digest", sa.Text, nullable=False),
        sa.Column("frontmatter", sa.Text, nullable=False),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.Column("text_terms", sa.Text, nullable=False, server_default="{}"),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("archive_digest", sa.Text, nullable=False),
        sa.Column("signer", sa.Text, nullable=False, server_default=""),
        sa.Column("published_by", sa.Text, nullable=False),
        sa.Column("published_at", sa.BigInteger, nullable=False),
        sa.Column("yanked", sa.Text),
        sa.Column("revoked", sa.Text),
        sa.UniqueConstraint("skill_id", "version"),
    )
    op.create_index("versions_by_set_digest", "versions", ["set_digest"])
    op.create_table(
        "deleted_versions",
        sa.Column("skill_id", _ID, sa.ForeignKey("skills.id"), primary_key=True),
        sa.Column("version", _SORTED, primary_key=True),
        sa.Column("set_digest", sa.Text, nullable=False),
    )
    op.create_table(
        "files",
        sa.Column("version_id", _ID, sa.ForeignKey("versions.id"), primary_key=True),
        sa.Column("path", _SORTED, primary_key=True),
        sa.Column("digest", _SORTED, sa.ForeignKey("blobs.digest"), nullable=False),
    )
    op.create_index("files_by_digest", "files", ["digest"])
    op.create_table(
        "channels",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("channel", _SORTED, nullable=False),
        sa.Column("path", _SORTED, nullable=False),
        sa.Column("namespace", _SORTED, nullable=False),
        sa.Column("name", _SORTED, nullable=False),
        sa.Column("version_id", _ID, sa.ForeignKey("versions.id"), nullable=False),
        sa.Column("terms", sa.Text, nullable=False),
        sa.Column("text_terms", sa.Text, nullable=False, server_default=""),
        sa.UniqueConstraint("channel", "path"),
    )
    op.create_index("channels_by_name", "channels", ["channel", "name"])
    op.create_index("channels_by_version", "channels", ["version_id"])
    op.create_table(
        "terms",
        sa.Column("term", _SORTED, primary_key=True),
        sa.Column("skills", sa.BigInteger, nullable=False),
        sa.Column("anywhere", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "term_trigrams",
        sa.Column("trigram", _SORTED, primary_key=True),
        sa.Column("term", _SORTED, sa.ForeignKey("terms.term"), primary_key=True),
    )
    op.create_table(
        "revocations",
        sa.Column("digest", _SORTED, primary_key=True),
        *_texts("what", "reason", "revoked_by"),
        sa.Column("revoked_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "signed_revocations",
        sa.Column("serial", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        *_texts("signer"),
    )
    op.create_table(
        "changes",
        sa.Column("number", _ID, primary_key=True),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("namespace", _SORTED, nullable=False),
        sa.Column("name", _SORTED, nullable=False),
        sa.Column("files", sa.Text),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
    )
    op.create_table(
        "grants",
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("namespace", _SORTED, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("writer", _SORTED, primary_key=True),
        sa.Column("number", _ID, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_index("audit_by_time", "audit", ["at"])
    key = ("server", "uri", "caller")
    decision = ("decision", "digest", "grants", "decided_at", "decided_by", "decided_how")
    op.create_table(
        "consent",
        *(sa.Column(name, _SORTED, primary_key=True) for name in key),
        *_texts("label", "files", "entry"),
        sa.Column("allowed_tools", sa.Integer, nullable=False),
        sa.Column("execute_code", sa.Integer, nullable=False),
        *_texts("scripts", "signer", *decision),
    )
    op.create_table(
        "consent_history",
        sa.Column("number", _ID, primary_key=True),
        *(sa.Column(name, _SORTED, nullable=False) for name in key),
        *_texts(*decision),
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
