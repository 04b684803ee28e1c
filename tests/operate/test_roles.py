"""What the roles of docs/operate may do in the database."""

from __future__ import annotations

import pytest

from operate.conftest import Database
from skillwire.errors import SourceError
from skillwire.registry.audit import first_broken


@pytest.mark.process
def test_the_role_that_serves_cannot_change_tables_and_the_one_for_backups_cannot_write(
    database: Database,
):
    serving, reading = database.store(), database.store("skillwire_backup")
    for store, statement in (
        (serving, "ALTER TABLE audit DISABLE TRIGGER ALL"),
        (serving, "CREATE TABLE extra (id int)"),
        (serving, "DROP TABLE audit"),
        (serving, "TRUNCATE audit"),
        (reading, "DELETE FROM namespaces"),
    ):
        with (
            pytest.raises(SourceError, match=r"permission denied|must be owner"),
            store.writing() as connection,
        ):
            connection.exec_driver_sql(statement)
    assert first_broken(reading) is None
    for store in (serving, reading):
        store.close()
