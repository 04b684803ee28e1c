"""The searched terms as a column of PostgreSQL's own type: they were parsed again for every row looked at."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("DROP INDEX channels_by_terms")
    op.execute(
        "ALTER TABLE channels ADD COLUMN search tsvector "
        "GENERATED ALWAYS AS (array_to_tsvector(string_to_array(terms, ' '))) STORED"
    )
    # Without a list of pending entries, which every search would have to read.
    op.execute("CREATE INDEX channels_by_search ON channels USING gin (search) WITH (fastupdate = off)")
