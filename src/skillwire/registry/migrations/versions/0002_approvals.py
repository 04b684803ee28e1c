"""Approvals that several gateways share."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SORTED = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("server", _SORTED, primary_key=True),
        sa.Column("uri", _SORTED, primary_key=True),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("resources", sa.Text, nullable=False),
        sa.Column("allowed_tools", sa.Integer, nullable=False),
        sa.Column("execute_code", sa.Integer, nullable=False),
        sa.Column("entry", sa.Text, nullable=False),
        sa.Column("is_current", sa.Integer, nullable=False),
        sa.Column("approved_at", sa.Text, nullable=False),
        sa.Column("approved_by", sa.Text, nullable=False),
        sa.Column("approved_how", sa.Text, nullable=False),
    )
    op.create_table(
        "signers",
        sa.Column("server", _SORTED, primary_key=True),
        sa.Column("uri", _SORTED, primary_key=True),
        sa.Column("signer", sa.Text, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("number", _ID, primary_key=True),
        sa.Column("server", _SORTED, nullable=False),
        sa.Column("uri", _SORTED, nullable=False),
        sa.Column("decision", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("grants", sa.Text, nullable=False),
        sa.Column("decided_at", sa.Text, nullable=False),
        sa.Column("decided_by", sa.Text, nullable=False),
        sa.Column("decided_how", sa.Text, nullable=False),
    )
    op.create_index("decisions_by_skill", "decisions", ["server", "uri"])
