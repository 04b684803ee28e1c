"""Publishing: new versions, channels, withdrawn versions. A version is visible completely or not at all.

Files are stored once, by digest. Files of an incomplete version are held as uploads of its namespace: nobody
can publish, and thereby read, a file that only others sent by naming its digest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from skillwire.catalog.search import body_terms, searched_text
from skillwire.documents import JsonObject
from skillwire.errors import (
    FormatError,
    LimitExceeded,
    RefusedByPolicy,
    Severity,
    SkillNotFound,
    VersionConflict,
)
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.net import archive_file, write_tar_gz
from skillwire.registry.access import RegistryCaller, Role, RoleMissing
from skillwire.registry.audit import record
from skillwire.registry.publications import (
    Publication,
    Published,
    PublishRules,
    UploadRow,
    VersionRow,
    checked_channel,
    checked_namespace,
    refused,
    revoked_error,
)
from skillwire.registry.queries import counted_text
from skillwire.registry.revocations import revoked_digests
from skillwire.registry.schema import (
    blobs,
    channels,
    deleted_versions,
    files,
    namespace_files,
    namespaces,
    skills,
    uploads,
    versions,
)
from skillwire.registry.source import current_version, is_before, point, remove
from skillwire.registry.store import Store, new_id, now
from skillwire.registry.upkeep import UPLOAD_SECONDS, prune
from skillwire.skill import SKILL_FILE, Digest, digest_of, lint_skill, parse_skill_md
from skillwire.text import shown
from skillwire.trust import SIGNATURE_FILE, Publisher, check_signature

STABLE: Final = "stable"


@dataclass(frozen=True, slots=True)
class RequiredSigner:
    """Who must sign what is published in a namespace: by a key, or by a root of certificates, in PEM."""

    name: str
    key: bytes | None = None
    root: bytes | None = None

    @property
    def publisher(self) -> Publisher:
        return Publisher.from_pem(self.name, key=self.key, root=self.root)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewVersion:
    """A draft that was checked, with what is stored of it besides its files."""

    draft: Publication
    frontmatter: Mapping[str, object]
    text_terms: Mapping[str, int]
    signer: str
    archive: Digest
    published_by: str


class Publishing:
    """Writes to a store. Every call may block."""

    def __init__(
        self, store: Store, *, rules: PublishRules | None = None, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        """`rules` are those of the policy of this machine, unless they name further files."""
        self._store = store
        self._rules = rules or PublishRules()
        self._limits = limits

    def accept(
        self, draft: Publication, contents: Sequence[bytes], *, caller: RegistryCaller
    ) -> Published | list[Digest]:
        """Store some files of a version, and publish it once all are there. Until then, returns the digests
        of those that are missing."""
        namespace, by = draft.namespace, caller.name
        if not caller.may(Role.READ, namespace):
            raise SkillNotFound(f"there is no namespace {namespace}")
        if not caller.may(Role.PUBLISH, namespace):
            raise RoleMissing(f"you may not publish to {namespace}")
        if contents:
            self.upload(namespace, contents, listed={file.digest for file in draft.files}, by=by)
        return self.missing(draft, by=by) or self.publish(draft, by=by)

    def missing(self, draft: Publication, *, by: str) -> list[Digest]:
        """The digests of files that have to be sent before the draft can be published."""
        with self._store.reading() as connection:
            return _missing(connection, draft, by)

    def upload(
        self,
        namespace: str,
        contents: Iterable[bytes],
        *,
        listed: Collection[Digest] | None = None,
        by: str,
    ) -> list[Digest]:
        """Store files for a version that the same publisher makes later, and return their digests.

        With `listed`, a file that has none of these digests is refused, and nothing is stored.
        """
        stored: list[Digest] = []
        with self._store.writing() as connection:
            row = _namespace(connection, namespace)
            connection.execute(
                uploads.delete().where(
                    uploads.c.at < now() - UPLOAD_SECONDS * 1000, uploads.c.namespace == namespace
                )
            )
            for data in contents:
                digest = digest_of(data)
                if listed is not None and digest not in listed:
                    raise refused(
                        "publish-request",
                        "a file is not in the manifest, or does not match its digest",
                        "use skillwire publish",
                    )
                stored.append(digest)
                self._insert_file(connection, digest, data)
                self._insert(connection, uploads, namespace=namespace, sent_by=by, digest=digest, at=now())
            waiting = connection.execute(
                sa.select(sa.func.coalesce(sa.func.sum(blobs.c.size), 0))
                .join(uploads, uploads.c.digest == blobs.c.digest)
                .where(
                    uploads.c.namespace == namespace,
                    uploads.c.sent_by == by,
                    ~sa.exists().where(
                        namespace_files.c.namespace == namespace, namespace_files.c.digest == blobs.c.digest
                    ),
                )
            ).scalar_one()
            _check_quota(namespace, row.quota_bytes, row.published_bytes + waiting)
        return stored

    def publish(self, draft: Publication, *, by: str) -> Published:
        """Make a version visible, and point its channel to it, unless that has a later version. The same
        version with the same files again changes at most the channel. With other files it is a
        `VersionConflict`, also if the version was deleted meanwhile.
        """
        self._rules.scan(draft, lambda: self._contents(draft, by))
        with self._store.writing() as connection:
            _require_files(connection, draft, by)
            skill_md = self._data(connection, draft, SKILL_FILE) or b""
            frontmatter = self._checked(connection, draft, skill_md)
            name = str(frontmatter["name"])
            signature = self._rules.signature_of(draft, self._data(connection, draft, SIGNATURE_FILE))
            new = _NewVersion(
                draft=draft,
                frontmatter=frontmatter,
                text_terms=body_terms(searched_text(skill_md)),
                signer=self._signer(connection, draft),
                archive=self._archive_digest(connection, draft),
                published_by=by,
            )
            self._store.take_turn(connection)
            _require_files(connection, draft, by)  # Nothing is deleted from here on, and nothing revoked.
            digests = [draft.set_digest, *(file.digest for file in draft.files)]
            self._rules.check(draft, name, signature, revoked_digests(connection, digests))
            skill = _skill_id(connection, draft.namespace, name)
            version = self._same_version(connection, skill, name, draft)
            is_new = version is None
            if version is None:
                version = self._add_version(connection, skill, new)
            was = current_version(connection, draft.channel, draft.namespace, name)
            if draft.expect is not None and was != draft.expect:
                raise VersionConflict(
                    f"{draft.channel} has {draft.namespace}/{name} in version {was or 'none'}, not in "
                    f"{draft.expect}: nothing was published"
                )
            moved = (
                draft.promote
                and (was is None or draft.expect is not None or not is_before(draft.version, was))
                and point(self._store, connection, draft.channel, draft.namespace, name, version)
            )
            connection.execute(
                uploads.delete().where(
                    uploads.c.namespace == draft.namespace,
                    uploads.c.sent_by == by,
                    uploads.c.digest.in_([file.digest for file in draft.files]),
                )
            )
            if is_new or moved:
                details: JsonObject = {"set": draft.set_digest, "signer": new.signer}
                if moved:
                    details["channel"] = draft.channel
                record(connection, by, "publish", f"{draft.namespace}/{name}@{draft.version}", details)
            listed = draft.version if moved else was
            return Published(
                draft.namespace,
                name,
                draft.version,
                draft.set_digest,
                new.signer,
                is_new,
                draft.channel,
                listed,
            )

    def _same_version(self, connection: Connection, skill: int, name: str, draft: Publication) -> int | None:
        """The id of the version if it exists with the same files; `None` if it can be published."""
        existing = connection.execute(
            sa.select(versions.c.id, versions.c.set_digest, versions.c.yanked).where(
                versions.c.skill_id == skill, versions.c.version == draft.version
            )
        ).first()
        deleted = connection.execute(
            sa.select(deleted_versions.c.set_digest).where(
                deleted_versions.c.skill_id == skill, deleted_versions.c.version == draft.version
            )
        ).scalar()
        if (existing.set_digest if existing is not None else deleted) not in (None, draft.set_digest):
            state = "exists" if existing is not None else "existed"
            raise VersionConflict(
                f"{draft.namespace}/{name} {draft.version} {state} with other files: versions never "
                "change, so publish under a new one"
            )
        if existing is not None and existing.yanked is not None:
            raise VersionConflict(
                f"{draft.namespace}/{name} {draft.version} was withdrawn: publish under a new version"
            )
        return None if existing is None else existing.id

    def promote(self, namespace: str, name: str, version: str, channel: str, *, by: str) -> None:
        """Point a channel to a version."""
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            row = _existing(connection, namespace, name, version)
            if row.yanked is not None:
                raise VersionConflict(f"{namespace}/{name} {version} was withdrawn: promote another version")
            if row.revoked is not None:
                raise revoked_error(namespace, name, version, row.revoked)
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
                row.revoked,
            )
            for row in rows
        ]

    def prune(
        self, *, keep: int, by: str, progress: Callable[[int, int], None] | None = None
    ) -> tuple[int, int]:
        """Delete what is old, as `prune` does."""
        return prune(self._store, keep=keep, by=by, progress=progress)

    def waiting_uploads(self) -> list[UploadRow]:
        """The files that were sent and not published, by namespace and sender, the oldest first."""
        query = (
            sa.select(
                uploads.c.namespace,
                uploads.c.sent_by,
                sa.func.count().label("files"),
                sa.func.sum(blobs.c.size).label("size"),
                sa.func.min(uploads.c.at).label("at"),
            )
            .join(blobs, blobs.c.digest == uploads.c.digest)
            .group_by(uploads.c.namespace, uploads.c.sent_by)
            .order_by(sa.func.min(uploads.c.at))
        )
        with self._store.reading() as connection:
            return [UploadRow(**row) for row in connection.execute(query).mappings()]  # pyright: ignore[reportArgumentType]

    def drop_uploads(self, namespace: str, sent_by: str, *, by: str) -> int:
        """Forget what somebody sent to a namespace and did not publish. Returns the number of files."""
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            count = connection.execute(
                uploads.delete().where(uploads.c.namespace == namespace, uploads.c.sent_by == sent_by)
            ).rowcount
            if count:
                record(connection, by, "drop-uploads", f"{namespace}:{sent_by}", {"files": count})
            return count

    def set_namespace(
        self,
        name: str,
        *,
        quota_bytes: int | None = None,
        signer: RequiredSigner | None = None,
        by: str,
    ) -> None:
        """Create a namespace, or change its quota or who must sign."""
        values: dict[str, object] = {}
        if quota_bytes is not None:
            values["quota_bytes"] = quota_bytes
        if signer is not None:
            values["signer_name"] = signer.publisher.name
            values["signer_key"] = signer.key.decode() if signer.key else None
            values["signer_root"] = signer.root.decode() if signer.root else None
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            self._insert(connection, namespaces, name=checked_namespace(name))
            if values:
                connection.execute(namespaces.update().where(namespaces.c.name == name).values(**values))
            record(connection, by, "namespace", name, {key: str(value) for key, value in values.items()})

    def _checked(self, connection: Connection, draft: Publication, skill_md: bytes) -> Mapping[str, object]:
        """The frontmatter, if the sizes are correct and `lint` finds no errors."""
        sizes = self._blobs(connection, draft, blobs.c.size)
        for file in draft.files:
            if sizes[file.digest] != file.size:
                raise refused(
                    "size",
                    f"{shown(file.path)} has {sizes[file.digest]} bytes, the manifest says {file.size}",
                    "send the correct size",
                )
        document = parse_skill_md(skill_md, file=SKILL_FILE, limits=self._limits)
        name = document.frontmatter.get("name")
        issues = lint_skill(
            skill_md,
            directory=name if isinstance(name, str) else "",
            files={file.path: file.size for file in draft.files},
            limits=self._limits,
            document=document,
        )
        # What a server serves with a warning can be published.
        if errors := [issue for issue in issues if issue.severity is Severity.ERROR]:
            raise FormatError(errors)
        return document.frontmatter

    def _signer(self, connection: Connection, draft: Publication) -> str:
        """The publisher who signed, if the namespace requires one. What they did not sign is refused."""
        row = _namespace(connection, draft.namespace)
        if row.signer_name is None:
            return ""
        required = RequiredSigner(
            row.signer_name,
            key=row.signer_key.encode() if row.signer_key else None,
            root=row.signer_root.encode() if row.signer_root else None,
        )
        verdict = check_signature(
            {file.path: file.digest for file in draft.files},
            self._data(connection, draft, SIGNATURE_FILE),
            [required.publisher],
            now=datetime.now(UTC),
        )
        if not verdict.is_signed:
            raise RefusedByPolicy(
                f"the namespace {draft.namespace} accepts only what {shown(row.signer_name)} signed, "
                f"and this is {verdict}: sign it with skillwire sign"
            )
        return row.signer_name

    def _blobs(self, connection: Connection, draft: Publication, column: sa.Column[Any]) -> dict[str, Any]:
        """A column of every file of a draft, by digest."""
        wanted = blobs.c.digest.in_([file.digest for file in draft.files])
        rows = connection.execute(sa.select(blobs.c.digest, column.label("value")).where(wanted))
        return {row.digest: row.value for row in rows}

    def _data(self, connection: Connection, draft: Publication, path: str) -> bytes | None:
        digest = next((file.digest for file in draft.files if file.path == path), None)
        if digest is None:
            return None
        return bytes(connection.execute(sa.select(blobs.c.data).where(blobs.c.digest == digest)).scalar_one())

    def _contents(self, draft: Publication, by: str) -> dict[str, bytes]:
        """Every file of a draft by digest, if this publisher sent it."""
        with self._store.reading() as connection:
            _require_files(connection, draft, by)
            data = self._blobs(connection, draft, blobs.c.data)
        return {digest: bytes(value) for digest, value in data.items()}

    def _archive_digest(self, connection: Connection, draft: Publication) -> Digest:
        data = self._blobs(connection, draft, blobs.c.data)
        return digest_of(
            write_tar_gz(archive_file(file.path, bytes(data[file.digest])) for file in draft.files)
        )

    def _add_version(self, connection: Connection, skill: int, new: _NewVersion) -> int:
        draft = new.draft
        manifest = [[file.path, file.digest, file.size] for file in draft.files]
        inserted = connection.execute(
            versions.insert().values(
                skill_id=skill,
                version=draft.version,
                set_digest=draft.set_digest,
                frontmatter=json.dumps(new.frontmatter, ensure_ascii=False),
                manifest=json.dumps(manifest, ensure_ascii=False),
                text_terms=counted_text(new.text_terms),
                size=sum(file.size for file in draft.files),
                archive_digest=new.archive,
                signer=new.signer,
                published_by=new.published_by,
                published_at=now(),
            )
        )
        version = new_id(inserted)
        connection.execute(
            files.insert(),
            [{"version_id": version, "path": file.path, "digest": file.digest} for file in draft.files],
        )
        self._count_files(connection, draft)
        return version

    def _count_files(self, connection: Connection, draft: Publication) -> None:
        """Count the files of a new version for its namespace, within the quota."""
        sizes: dict[str, int] = {file.digest: file.size for file in draft.files}
        own = sa.and_(
            namespace_files.c.namespace == draft.namespace, namespace_files.c.digest.in_(sorted(sizes))
        )
        known = set(connection.execute(sa.select(namespace_files.c.digest).where(own)).scalars())
        connection.execute(
            namespace_files.update().where(own).values(versions=namespace_files.c.versions + 1)
        )
        if not (new := sorted(sizes.keys() - known)):
            return
        connection.execute(
            namespace_files.insert(),
            [{"namespace": draft.namespace, "digest": digest, "versions": 1} for digest in new],
        )
        namespace = namespaces.c.name == draft.namespace
        added = sum(sizes[digest] for digest in new)
        connection.execute(
            namespaces.update().where(namespace).values(published_bytes=namespaces.c.published_bytes + added)
        )
        row = _namespace(connection, draft.namespace)
        _check_quota(draft.namespace, row.quota_bytes, row.published_bytes)

    def _insert_file(self, connection: Connection, digest: Digest, data: bytes) -> None:
        """Insert a file. One that exists is locked, so that it cannot be deleted before it is referred to."""
        insert = (postgresql.insert if self._store.is_postgresql else sqlite.insert)(blobs).values(
            digest=digest, size=len(data), data=data
        )
        connection.execute(
            insert.on_conflict_do_update(index_elements=[blobs.c.digest], set_={"size": insert.excluded.size})
        )

    def _insert(self, connection: Connection, table: sa.Table, **values: object) -> None:
        """Insert a row, unless it exists."""
        insert = postgresql.insert if self._store.is_postgresql else sqlite.insert
        connection.execute(insert(table).values(**values).on_conflict_do_nothing())


def _check_quota(namespace: str, quota: int | None, used: int) -> None:
    if quota is not None and used > quota:
        raise LimitExceeded(
            f"the namespace {namespace} would have {used:,} bytes, its quota is {quota:,}: "
            "prune old versions, or ask an administrator for more"
        )


def _require_files(connection: Connection, draft: Publication, by: str) -> None:
    if missing := _missing(connection, draft, by):
        raise refused("files-missing", f"{len(missing)} files were not sent", "send the files, then publish")


def _missing(connection: Connection, draft: Publication, by: str) -> list[Digest]:
    """Return what neither the namespace nor this publisher has. What others have does not count."""
    wanted = {file.digest for file in draft.files}
    published = sa.select(namespace_files.c.digest).where(
        namespace_files.c.namespace == draft.namespace, namespace_files.c.digest.in_(sorted(wanted))
    )
    waiting = sa.select(uploads.c.digest).where(
        uploads.c.namespace == draft.namespace,
        uploads.c.sent_by == by,
        uploads.c.digest.in_(sorted(wanted)),
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


def _existing(connection: Connection, namespace: str, name: str, version: str) -> Any:
    row = connection.execute(
        sa.select(versions.c.id, versions.c.yanked, versions.c.revoked)
        .join(skills, skills.c.id == versions.c.skill_id)
        .where(skills.c.namespace == namespace, skills.c.name == name, versions.c.version == version)
    ).first()
    if row is None:
        raise SkillNotFound(f"there is no {shown(namespace)}/{shown(name)} {shown(version)} in the registry")
    return row
