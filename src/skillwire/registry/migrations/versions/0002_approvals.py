"""Approvals that several gateways share."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SORTED = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    skill = ("server", "uri")
    op.create_table(
        "approvals",
        *(sa.Column(name, _SORTED, primary_key=True) for name in skill),
        *_texts("label", "resources"),
        sa.Column("allowed_tools", sa.Integer, nullable=False),
        sa.Column("execute_code", sa.Integer, nullable=False),
        *_texts("entry"),
        sa.Column("is_current", sa.Integer, nullable=False),
        *_texts("approved_at", "approved_by", "approved_how"),
    )
    op.create_table(
        "signers", *(sa.Column(name, _SORTED, primary_key=True) for name in skill), *_texts("signer")
    )
    op.create_table(
        "decisions",
        sa.Column("number", _ID, primary_key=True),
        *(sa.Column(name, _SORTED, nullable=False) for name in skill),
        *_texts("decision", "digest", "grants", "decided_at", "decided_by", "decided_how"),
    )
    op.create_index("decisions_by_skill", "decisions", ["server", "uri"])
