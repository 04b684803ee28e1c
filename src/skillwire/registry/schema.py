"""The tables of a registry, the same on PostgreSQL and SQLite. Migrations create them; see `migrations/`."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from skillwire.consent.record import DECISION_COLUMNS

metadata: Final = MetaData()

# SQLite gives ids by itself only to a primary key that is exactly INTEGER.
_ID: Final = BigInteger().with_variant(Integer(), "sqlite")
# Listings are sorted by bytes, as clients and cursors expect, whatever the language of the database.
_SORTED: Final = Text(collation="C").with_variant(Text(), "sqlite")


def _table(name: str, *parts: Column[Any] | UniqueConstraint | Index) -> Table:
    return Table(name, metadata, *parts)


def _number(name: str = "number") -> Column[int]:
    """The primary key of rows that are numbered one after the other."""
    return Column(name, _ID, primary_key=True)


def _keys(*names: str) -> list[Column[str]]:
    return [Column(name, _SORTED, primary_key=True) for name in names]


def _sorted(*names: str) -> list[Column[str]]:
    return [Column(name, _SORTED, nullable=False) for name in names]


def _foreign(name: str, target: Column[Any], *, primary_key: bool = False) -> Column[Any]:
    """A column that names a row of another table."""
    return Column(name, target.type, ForeignKey(target), primary_key=primary_key, nullable=False)


def _texts(*names: str) -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in names]


def _numbers(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=False) for name in names]


def _flags(*names: str) -> list[Column[int]]:
    return [Column(name, Integer, nullable=False) for name in names]


namespaces: Final = _table(
    "namespaces",
    *_keys("name"),
    Column("quota_bytes", BigInteger),
    # The size of its published files, each counted once. `namespace_files` has them.
    Column("published_bytes", BigInteger, nullable=False, server_default="0"),
    # The publisher who must have signed every version: a name, and its public key or root certificate in PEM.
    Column("signer_name", Text),
    Column("signer_key", Text),
    Column("signer_root", Text),
)

blobs: Final = _table(
    "blobs", *_keys("digest"), *_numbers("size"), Column("data", LargeBinary, nullable=False)
)

# Files of versions that are not published yet. Only whoever sent a file may publish it by its digest.
uploads: Final = _table(
    "uploads",
    _foreign("namespace", namespaces.c.name, primary_key=True),
    *_keys("sent_by"),
    _foreign("digest", blobs.c.digest, primary_key=True),
    *_numbers("at"),
    Index("uploads_by_digest", "digest"),
)

# The files that a namespace has published, and in how many versions: a publication looks at its own files
# alone, however many skills share them.
namespace_files: Final = _table(
    "namespace_files",
    _foreign("namespace", namespaces.c.name, primary_key=True),
    _foreign("digest", blobs.c.digest, primary_key=True),
    *_numbers("versions"),
    Index("namespace_files_by_digest", "digest"),
)

skills: Final = _table(
    "skills",
    _number("id"),
    _foreign("namespace", namespaces.c.name),
    *_sorted("name"),
    UniqueConstraint("namespace", "name"),
)

versions: Final = _table(
    "versions",
    _number("id"),
    _foreign("skill_id", skills.c.id),
    *_sorted("version"),
    # JSON: the frontmatter, and in the manifest a [path, digest, size] for each file.
    *_texts("set_digest", "frontmatter", "manifest"),
    # JSON: how often each term occurs in the text of its SKILL.md, first all together.
    Column("text_terms", Text, nullable=False, server_default="{}"),
    *_numbers("size"),
    # Of the `.tar.gz` that a site's index names.
    *_texts("archive_digest"),
    Column("signer", Text, nullable=False, server_default=""),
    *_texts("published_by"),
    *_numbers("published_at"),
    # Why it was withdrawn; null while it is not.
    Column("yanked", Text),
    # Why it, or one of its files, must not be used any more; null while it may. Derived from `revocations`.
    Column("revoked", Text),
    UniqueConstraint("skill_id", "version"),
    Index("versions_by_set_digest", "set_digest"),
)

# Versions that were deleted: the same files may be published again under such a version, others may not.
deleted_versions: Final = _table(
    "deleted_versions",
    _foreign("skill_id", skills.c.id, primary_key=True),
    *_keys("version"),
    *_texts("set_digest"),
)

files: Final = _table(
    "files",
    _foreign("version_id", versions.c.id, primary_key=True),
    *_keys("path"),
    _foreign("digest", blobs.c.digest),
    Index("files_by_digest", "digest"),
)

channels: Final = _table(
    "channels",
    _number("id"),
    # The path is the skill's, as in `acme/pdf/`: with the slash, it sorts as the URIs do.
    *_sorted("channel", "path", "namespace", "name"),
    _foreign("version_id", versions.c.id),
    # What is searched: the terms of name, place and description, and those that only the text has, separated
    # by spaces.
    *_texts("terms"),
    Column("text_terms", Text, nullable=False, server_default=""),
    UniqueConstraint("channel", "path"),
    Index("channels_by_name", "channel", "name"),
    Index("channels_by_version", "version_id"),
)

# Every term of a listed skill: how many skills have it in their name, place or description, and how many have
# it anywhere. Misspelled words are corrected with the former.
terms: Final = _table("terms", *_keys("term"), *_numbers("skills", "anywhere"))

# The parts of three letters that a term of a name, place or description has: a misspelled word shares most of
# them. Terms of texts are not here: there are too many of them.
term_trigrams: Final = _table(
    "term_trigrams",
    *_keys("trigram"),
    _foreign("term", terms.c.term, primary_key=True),
)

# The digests of skills and of files that must not be used any more.
revocations: Final = _table(
    "revocations",
    *_keys("digest"),
    # The skills that it was revoked for, as people read it.
    *_texts("what", "reason", "revoked_by"),
    *_numbers("revoked_at"),
)

# The list of them that was signed last, as it is served to hosts.
signed_revocations: Final = _table(
    "signed_revocations",
    Column("serial", BigInteger, primary_key=True, autoincrement=False),
    *_numbers("expires"),
    Column("data", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    *_texts("signer"),
)

# The change feed. Numbers follow the order of the commits: a reader that has read up to one has seen all
# before it.
changes: Final = _table(
    "changes",
    _number(),
    # `*` if every channel is concerned, empty if none is.
    *_texts("channel"),
    *_sorted("namespace", "name"),
    # JSON: the paths of the files that changed; null when the listing itself changed.
    Column("files", Text),
    *_numbers("at"),
)

tokens: Final = _table(
    "tokens",
    Column("name", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    *_texts("channel"),
    *_numbers("created_at"),
    Column("revoked_at", BigInteger),
)

# Who may do what: `token:NAME`, `user:SUBJECT`, `group:NAME` or `anyone`, in a namespace or in all (`*`).
grants: Final = _table(
    "grants",
    Column("subject", Text, primary_key=True),
    *_keys("namespace"),
    *_texts("role"),
)

# What people decided about skills, for gateways that share it: the columns are those of a host's own file.
consent: Final = _table(
    "consent",
    *_keys("server", "uri", "caller"),
    *_texts("label", "files", "entry"),
    *_flags("allowed_tools", "execute_code"),
    *_texts("scripts", "signer", *DECISION_COLUMNS),
)

consent_history: Final = _table(
    "consent_history",
    _number(),
    *_sorted("server", "uri", "caller"),
    *_texts(*DECISION_COLUMNS),
    Index("consent_history_by_skill", "server", "uri", "caller"),
)

# Each writer has a chain of its own: the registry, and every gateway that uses the store.
audit: Final = _table(
    "audit",
    *_keys("writer"),
    Column("number", _ID, primary_key=True, autoincrement=False),
    *_numbers("at"),
    *_texts("who", "action", "what", "details", "hash"),
    Index("audit_by_time", "at"),
)
