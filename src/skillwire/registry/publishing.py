"""Publishing: new versions, channels, withdrawn versions. A version is visible completely or not at all.

Files are stored once, by digest. Files of an incomplete version are held as uploads of its namespace: nobody
can publish, and thereby read, a file that only others sent by naming its digest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from skillwire.errors import FormatError, LimitExceeded, RefusedByPolicy, SkillNotFound, VersionConflict
from skillwire.issues import Severity, shown
from skillwire.json_types import JsonObject
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.registry.audit import record
from skillwire.registry.channels import point, remove
from skillwire.registry.drafts import Draft, Published, VersionRow, refused
from skillwire.registry.places import checked_channel, checked_namespace
from skillwire.registry.schema import blobs, channels, files, namespaces, skills, uploads, versions
from skillwire.registry.store import Store, new_id, now
from skillwire.skill.digests import Digest, digest_of
from skillwire.skill.frontmatter import parse_skill_md
from skillwire.skill.lint import lint_skill
from skillwire.skill.uris import SKILL_FILE
from skillwire.sources.archive import archive_file, write_tar_gz
from skillwire.trust.oms import SIGNATURE_FILE
from skillwire.trust.signatures import Publisher, check_signature

STABLE: Final = "stable"
_UPLOAD_SECONDS: Final = 24 * 3600


class Publishing:
    """Writes to a store. Every call may block."""

    def __init__(self, store: Store, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._store = store
        self._limits = limits

    def missing(self, draft: Draft) -> list[Digest]:
        """The digests of files that have to be sent before the draft can be published."""
        with self._store.reading() as connection:
            return _missing(connection, draft)

    def upload(self, namespace: str, contents: Iterable[bytes]) -> list[Digest]:
        """Store files for a version that is published later, and return their digests."""
        stored: list[Digest] = []
        with self._store.writing() as connection:
            _namespace(connection, namespace)
            for data in contents:
                digest = digest_of(data)
                stored.append(digest)
                self._insert(connection, blobs, digest=digest, size=len(data), data=data)
                self._insert(connection, uploads, namespace=namespace, digest=digest, at=now())
            self._check_quota(connection, namespace)
        return stored

    def publish(self, draft: Draft, *, by: str) -> Published:
        """Make a version visible, and point its channel to it.

        Publishing the same version with the same files again changes only the channel. With other files it is
        a `VersionConflict`.
        """
        with self._store.writing() as connection:
            if missing := _missing(connection, draft):
                raise refused(
                    "files-missing", f"{len(missing)} files were not sent", "send the files, then publish"
                )
            frontmatter = self._checked(connection, draft)
            name = str(frontmatter["name"])
            signer = self._signer(connection, draft)
            self._store.take_turn(connection)
            skill = _skill_id(connection, draft.namespace, name)
            existing = connection.execute(
                sa.select(versions.c.id, versions.c.set_digest, versions.c.signer, versions.c.yanked).where(
                    versions.c.skill_id == skill, versions.c.version == draft.version
                )
            ).first()
            if existing is not None and existing.set_digest != draft.set_digest:
                raise VersionConflict(
                    f"{draft.namespace}/{name} {draft.version} exists with other files: versions never "
                    "change, so publish under a new one"
                )
            if existing is not None and existing.yanked is not None:
                raise VersionConflict(
                    f"{draft.namespace}/{name} {draft.version} was withdrawn: publish under a new version"
                )
            published = Published(
                draft.namespace, name, draft.version, draft.set_digest, signer, existing is None
            )
            if existing is None:
                version = self._add_version(connection, skill, draft, frontmatter, signer, by)
            else:
                version = existing.id
            moved = point(self._store, connection, draft.channel, draft.namespace, name, version)
            connection.execute(
                uploads.delete().where(
                    uploads.c.namespace == draft.namespace,
                    uploads.c.digest.in_([file.digest for file in draft.files]),
                )
            )
            self._check_quota(connection, draft.namespace)
            if existing is None or moved:
                details: JsonObject = {"channel": draft.channel, "set": draft.set_digest, "signer": signer}
                record(connection, by, "publish", f"{draft.namespace}/{name}@{draft.version}", details)
            return published

    def promote(self, namespace: str, name: str, version: str, channel: str, *, by: str) -> None:
        """Point a channel to a version."""
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            row = _existing(connection, namespace, name, version)
            if row.yanked is not None:
                raise VersionConflict(f"{namespace}/{name} {version} was withdrawn: promote another version")
            if point(self._store, connection, checked_channel(channel), namespace, name, row.id):
                record(connection, by, "promote", f"{namespace}/{name}@{version}", {"channel": channel})

    def yank(self, namespace: str, name: str, version: str, reason: str, *, by: str) -> tuple[str, ...]:
        """Withdraw a version: no channel lists it; whoever pinned it can still read it, and sees the reason.

        Returns the channels that pointed to it. They do not have the skill until another version is promoted.
        """
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            row = _existing(connection, namespace, name, version)
            connection.execute(versions.update().where(versions.c.id == row.id).values(yanked=reason))
            pointing = connection.execute(
                sa.select(channels.c.channel)
                .where(channels.c.version_id == row.id)
                .order_by(channels.c.channel)
            ).scalars()
            left = tuple(pointing)
            for channel in left:
                remove(self._store, connection, channel, namespace, name)
            details: JsonObject = {"reason": reason, "channels": [*left]}
            record(connection, by, "yank", f"{namespace}/{name}@{version}", details)
            return left

    def versions(self, namespace: str, name: str) -> list[VersionRow]:
        """Every version of a skill, the newest first; `SkillNotFound` without any."""
        query = (
            sa.select(versions)
            .join(skills, skills.c.id == versions.c.skill_id)
            .where(skills.c.namespace == namespace, skills.c.name == name)
            .order_by(versions.c.id.desc())
        )
        with self._store.reading() as connection:
            rows = connection.execute(query).all()
            pointing = connection.execute(
                sa.select(channels.c.channel, channels.c.version_id).where(
                    channels.c.namespace == namespace, channels.c.name == name
                )
            ).all()
        if not rows:
            raise SkillNotFound(f"there is no skill {shown(namespace)}/{shown(name)} in the registry")
        return [
            VersionRow(
                namespace,
                name,
                row.version,
                row.set_digest,
                row.size,
                row.signer,
                row.published_by,
                row.published_at,
                row.yanked,
                tuple(sorted(one.channel for one in pointing if one.version_id == row.id)),
            )
            for row in rows
        ]

    def prune(self, *, keep: int, by: str) -> tuple[int, int]:
        """Delete versions beyond the newest `keep` of each skill that no channel points to and that were not
        withdrawn, unfinished uploads, and files that nothing refers to. Returns the counts of versions and
        files.
        """
        ranked = sa.select(
            versions.c.id,
            sa.func.row_number()
            .over(
                partition_by=versions.c.skill_id,
                order_by=versions.c.id.desc(),
            )
            .label("place"),
        ).subquery()
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            old = list(
                connection.execute(
                    sa.select(versions.c.id)
                    .join(ranked, ranked.c.id == versions.c.id)
                    .where(
                        ranked.c.place > keep,
                        versions.c.yanked.is_(None),
                        ~sa.exists().where(channels.c.version_id == versions.c.id),
                    )
                ).scalars()
            )
            for start in range(0, len(old), 500):
                some = old[start : start + 500]
                connection.execute(files.delete().where(files.c.version_id.in_(some)))
                connection.execute(versions.delete().where(versions.c.id.in_(some)))
            connection.execute(uploads.delete().where(uploads.c.at < now() - _UPLOAD_SECONDS * 1000))
            removed = connection.execute(
                blobs.delete().where(
                    ~sa.exists().where(files.c.digest == blobs.c.digest),
                    ~sa.exists().where(uploads.c.digest == blobs.c.digest),
                )
            ).rowcount
            if old or removed:
                record(connection, by, "prune", "", {"versions": len(old), "files": removed})
            return len(old), removed

    def set_namespace(
        self,
        name: str,
        *,
        quota_bytes: int | None = None,
        signer: tuple[str, bytes | None, bytes | None] | None = None,
        by: str,
    ) -> None:
        """Create a namespace, or change its quota or who must sign (a name, a key and a root in PEM)."""
        values: dict[str, object] = {}
        if quota_bytes is not None:
            values["quota_bytes"] = quota_bytes
        if signer is not None:
            Publisher.from_pem(signer[0], key=signer[1], root=signer[2])
            values["signer_name"] = signer[0]
            values["signer_key"] = signer[1].decode() if signer[1] else None
            values["signer_root"] = signer[2].decode() if signer[2] else None
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            self._insert(connection, namespaces, name=checked_namespace(name))
            if values:
                connection.execute(namespaces.update().where(namespaces.c.name == name).values(**values))
            record(connection, by, "namespace", name, {key: str(value) for key, value in values.items()})

    def _checked(self, connection: Connection, draft: Draft) -> Mapping[str, object]:
        """The frontmatter, if the sizes are correct and `lint` finds no errors."""
        sizes = self._blobs(connection, draft, blobs.c.size)
        for file in draft.files:
            if sizes[file.digest] != file.size:
                raise refused(
                    "size",
                    f"{shown(file.path)} has {sizes[file.digest]} bytes, the manifest says {file.size}",
                    "send the correct size",
                )
        skill_md = self._data(connection, draft, SKILL_FILE) or b""
        frontmatter = parse_skill_md(skill_md, file=SKILL_FILE).frontmatter
        name = frontmatter.get("name")
        issues = lint_skill(
            skill_md,
            directory=name if isinstance(name, str) else "",
            files={file.path: file.size for file in draft.files},
            limits=self._limits,
        )
        if errors := [issue for issue in issues if issue.severity is not Severity.ADVICE]:
            raise FormatError(errors)
        return frontmatter

    def _signer(self, connection: Connection, draft: Draft) -> str:
        """The publisher who signed, if the namespace requires one. What they did not sign is refused."""
        row = _namespace(connection, draft.namespace)
        if row.signer_name is None:
            return ""
        publisher = Publisher.from_pem(
            row.signer_name,
            key=row.signer_key.encode() if row.signer_key else None,
            root=row.signer_root.encode() if row.signer_root else None,
        )
        verdict = check_signature(
            {file.path: file.digest for file in draft.files},
            self._data(connection, draft, SIGNATURE_FILE),
            [publisher],
            now=datetime.now(UTC),
        )
        if not verdict.is_signed:
            raise RefusedByPolicy(
                f"the namespace {draft.namespace} accepts only what {shown(row.signer_name)} signed, "
                f"and this is {verdict}: sign it with skillwire sign"
            )
        return row.signer_name

    def _blobs(self, connection: Connection, draft: Draft, column: sa.Column[Any]) -> dict[str, Any]:
        """A column of every file of a draft, by digest."""
        wanted = blobs.c.digest.in_([file.digest for file in draft.files])
        rows = connection.execute(sa.select(blobs.c.digest, column.label("value")).where(wanted))
        return {row.digest: row.value for row in rows}

    def _data(self, connection: Connection, draft: Draft, path: str) -> bytes | None:
        digest = next((file.digest for file in draft.files if file.path == path), None)
        if digest is None:
            return None
        return bytes(connection.execute(sa.select(blobs.c.data).where(blobs.c.digest == digest)).scalar_one())

    def _add_version(
        self,
        connection: Connection,
        skill: int,
        draft: Draft,
        frontmatter: Mapping[str, object],
        signer: str,
        by: str,
    ) -> int:
        data = self._blobs(connection, draft, blobs.c.data)
        archive = write_tar_gz(archive_file(file.path, bytes(data[file.digest])) for file in draft.files)
        manifest = [[file.path, file.digest, file.size] for file in draft.files]
        inserted = connection.execute(
            versions.insert().values(
                skill_id=skill,
                version=draft.version,
                set_digest=draft.set_digest,
                frontmatter=json.dumps(frontmatter, ensure_ascii=False),
                manifest=json.dumps(manifest, ensure_ascii=False),
                size=sum(file.size for file in draft.files),
                archive_digest=digest_of(archive),
                signer=signer,
                published_by=by,
                published_at=now(),
            )
        )
        version = new_id(inserted)
        connection.execute(
            files.insert(),
            [{"version_id": version, "path": file.path, "digest": file.digest} for file in draft.files],
        )
        return version

    def _insert(self, connection: Connection, table: sa.Table, **values: object) -> None:
        """Insert a row, unless it exists."""
        insert = postgresql.insert if self._store.is_postgresql else sqlite.insert
        connection.execute(insert(table).values(**values).on_conflict_do_nothing())

    def _check_quota(self, connection: Connection, namespace: str) -> None:
        """The bytes of a namespace, each file counted once, against its quota."""
        quota = _namespace(connection, namespace).quota_bytes
        if quota is None:
            return
        published = (
            sa.select(files.c.digest)
            .join(versions, versions.c.id == files.c.version_id)
            .join(skills, skills.c.id == versions.c.skill_id)
            .where(skills.c.namespace == namespace)
        )
        waiting = sa.select(uploads.c.digest).where(uploads.c.namespace == namespace)
        used = connection.execute(
            sa.select(sa.func.coalesce(sa.func.sum(blobs.c.size), 0)).where(
                blobs.c.digest.in_(published.union(waiting))
            )
        ).scalar_one()
        if used > quota:
            raise LimitExceeded(
                f"the namespace {namespace} would have {used:,} bytes, its quota is {quota:,}: "
                "prune old versions, or ask an administrator for more"
            )


def _missing(connection: Connection, draft: Draft) -> list[Digest]:
    """What the namespace does not have, published or sent. What others have does not count."""
    wanted = {file.digest for file in draft.files}
    published = (
        sa.select(files.c.digest)
        .join(versions, versions.c.id == files.c.version_id)
        .join(skills, skills.c.id == versions.c.skill_id)
        .where(skills.c.namespace == draft.namespace, files.c.digest.in_(sorted(wanted)))
    )
    waiting = sa.select(uploads.c.digest).where(
        uploads.c.namespace == draft.namespace, uploads.c.digest.in_(sorted(wanted))
    )
    have = set(connection.execute(published.union(waiting)).scalars())
    return sorted(wanted - have)


def _namespace(connection: Connection, name: str) -> Any:
    row = connection.execute(sa.select(namespaces).where(namespaces.c.name == name)).first()
    if row is None:
        raise SkillNotFound(
            f"there is no namespace {shown(name)}: create it with skillwire registry namespace {shown(name)}"
        )
    return row


def _skill_id(connection: Connection, namespace: str, name: str) -> int:
    query = sa.select(skills.c.id).where(skills.c.namespace == namespace, skills.c.name == name)
    found = connection.execute(query).scalar()
    if found is None:
        return new_id(connection.execute(skills.insert().values(namespace=namespace, name=name)))
    return int(found)


def _existing(connection: Connection, namespace: str, name: str, version: str) -> sa.Row[Any, Any]:
    row = connection.execute(
        sa.select(versions.c.id, versions.c.yanked)
        .join(skills, skills.c.id == versions.c.skill_id)
        .where(skills.c.namespace == namespace, skills.c.name == name, versions.c.version == version)
    ).first()
    if row is None:
        raise SkillNotFound(f"there is no {shown(namespace)}/{shown(name)} {shown(version)} in the registry")
    return row
