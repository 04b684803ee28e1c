"""Alembic runs this for every migration, with the connection that the store gives it."""

from __future__ import annotations

from alembic import context

from skillwire.registry.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
