"""docs/operate.md from its first command to the last, its units, its metrics, its backup and its drill."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from operate.conftest import (
    BIN,
    FILES,
    PAGE,
    PATIENCE,
    ROLES,
    ROOT,
    Database,
    Nginx,
    libraries,
    program,
    replica,
    started,
)
from skillwire.cli.command import read_words
from skillwire.cli.line import parse_line

COMMANDS = re.compile(r"^(<!-- not run: [^\n]* -->\n)?```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SKILL = "code-review"


@pytest.fixture(scope="module")
def database(folder: Path) -> Iterator[Database]:
    """A PostgreSQL without the roles and tables of the page."""
    made = Database(folder)
    yield made
    made.server.remove()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.peer
def test_the_page_leads_from_an_empty_database_to_a_restored_backup(folder: Path, database: Database):
    """The commands of the page, in its order, with the paths and addresses of this test."""
    shims = folder / "bin"
    shims.mkdir()
    psql = database.server.server.bin_path / "psql"
    for name, line in {
        "sudo": 'shift 2; exec "$@"',  # sudo -u postgres
        "psql": f'exec {psql} "{database.server.uri("postgres")}" "$@"',
        "skillwire": f'exec {BIN}/skillwire "$@"',
    }.items():
        (shims / name).write_text(f"#!/bin/sh\n{line}\n")
        (shims / name).chmod(0o755)
    backups = folder / "backups"
    backups.mkdir()
    replicas = [replica(database), replica(database)]
    proxy = Nginx(folder)
    url = proxy.add(
        "nginx.conf",
        {f"127.0.0.1:{8001 + number}": f"127.0.0.1:{unit.port}" for number, unit in enumerate(replicas)},
    )
    changes = {
        "/etc/skillwire/pgpass": str(database.passwords),
        "/var/backups/skillwire": str(backups),
        "https://skills.example.org": url,
        **{
            f"postgresql://{role}@127.0.0.1/{name}": f"'{database.url(role, name)}'"
            for role in ROLES
            for name in ("skills", "restored")
        },
    }

    def run(text: str) -> str:
        for old, new in changes.items():
            text = text.replace(old, new)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SKILLWIRE_")}
        environment |= {"PATH": f"{shims}:{environment['PATH']}", "SSL_CERT_FILE": str(proxy.certificate)}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=10 * PATIENCE,
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        return done.stdout + done.stderr

    blocks = [found[2] for found in COMMANDS.finditer(PAGE.read_text("utf-8")) if not found[1]]
    roles, init, administrator, works, backup, restore, weekly = blocks
    run(roles)
    database.set_passwords()
    run(init)
    made = re.search(r"skr_\S+", run(administrator))
    assert made
    changes["skr_..."] = made[0]
    with started(*replicas), proxy.serving(url):
        assert SKILL in run(works)
        run(backup)
        assert [file.suffix for file in backups.iterdir()] == [".backup"]
        again = folder / "again.sql"
        again.write_text(re.sub(r"(?m)^CREATE ROLE.*$", "", (FILES / "roles.sql").read_text()))
        again.write_text(again.read_text().replace("skills", "restored"))
        database.psql(again)
        run(restore)
        assert "root" in run(weekly)
    assert _names(database, "restored") == _names(database, "skills") == [SKILL]


def _names(database: Database, name: str) -> list[str]:
    with psycopg.connect(database.server.uri(name)) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM skills")]


@pytest.mark.process
@pytest.mark.peer
def test_the_units_are_what_systemd_accepts(tmp_path: Path):
    units = {file.name.replace("@", "@8001"): file.read_text("utf-8") for file in FILES.glob("*.service")}
    assert len(units) == 2
    single = re.search(r"```ini\n(.*?)```", (ROOT / "docs/deploy.md").read_text("utf-8"), re.DOTALL)
    assert single
    for name, unit in {**units, "skillwire.service": single[1]}.items():
        text = unit.replace("/opt/skillwire/bin/skillwire", "/bin/true")
        assert _said_by_systemd(tmp_path / name, text) == ""
        # It would have noticed.
        assert "Resart" in _said_by_systemd(tmp_path / "bad.service", text.replace("Restart=", "Resart="))


def _said_by_systemd(file: Path, text: str) -> str:
    file.write_text(text)
    command = [program("systemd-analyze"), "verify", "--man=no", str(file)]
    done = subprocess.run(command, env=libraries(), capture_output=True, text=True, timeout=PATIENCE)
    return done.stdout + done.stderr


def test_the_files_of_the_page_are_those_of_its_folder():
    linked = set(re.findall(r"\]\(operate/([^)]+)\)", PAGE.read_text("utf-8")))
    assert linked == {file.name for file in FILES.iterdir()}


def test_cron_runs_commands_that_exist():
    lines = (FILES / "skillwire.cron").read_text("utf-8").splitlines()
    jobs = [line.split(None, 6)[5:] for line in lines if re.match(r"\d", line)]
    assert [user for user, _ in jobs] == ["skillwire", "skillwire"]
    assert (FILES / jobs[0][1]).stat().st_mode & 0o111
    words = shlex.split(jobs[1][1])
    line = parse_line(words[1:])
    assert line.command is not None
    read_words(line.command, line.words)
