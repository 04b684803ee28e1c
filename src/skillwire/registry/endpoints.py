"""Other ways to read a registry: the index of a site with archives, OCI artifacts, what is revoked.

The registry refuses a digest from the moment at which an administrator revoked it. Hosts believe a list alone
that somebody signed whose key their policy pins: that person signs on their own machine, and the registry
never has the private key.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.documents import DocumentError, JsonObject, JsonValue, is_object
from skillwire.errors import (
    FormatError,
    Issue,
    LimitExceeded,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VersionConflict,
)
from skillwire.host.policies import (
    SIGNATURE_SUFFIX,
    SIGNED_REVOCATIONS,
    parse_revocations,
    require_signature,
    revocations_document,
)
from skillwire.limits import DEFAULT_LIMITS
from skillwire.net import ArchiveFile, write_tar_gz
from skillwire.registry.audit import record
from skillwire.registry.publications import SkillPath, checked_namespace, checked_version, revoked_error
from skillwire.registry.queries import SiteRow, SkillQueries
from skillwire.registry.schema import (
    deleted_versions,
    files,
    revocations,
    signed_revocations,
    skills,
    versions,
)
from skillwire.registry.source import EVERY_CHANNEL, NO_CHANNEL, add_changes
from skillwire.registry.store import Store, now
from skillwire.server import Headers, Scope, Send, parse_json, refuse_method, respond
from skillwire.skill import SCHEME, SKILL_FILE, child_uri, digest_of, parse_digest, parse_uri, split_uri
from skillwire.sources.wellknown import SCHEMA
from skillwire.text import safe_line, shown
from skillwire.trust import sign_files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

FEED_PATH: Final = "/registry/v1/revoked.json"
"""Where a registry serves the signed list. Its signature is beside it."""
VALID_DAYS: Final = 90
"""How long a signed list is valid, unless its signer says otherwise."""
_REASON: Final = 200
_AT_ONCE: Final = 400
_NAMED: Final = 5
_SKILL: Final = re.compile(r"(?P<namespace>[^/@]+)/(?P<name>[^/@]+)(?:@(?P<version>[^/@]+))?")


@dataclass(frozen=True, slots=True)
class Revocation:
    """A digest that must not be used. `what` are the skills that it was revoked for."""

    digest: str
    what: str
    reason: str
    revoked_by: str
    revoked_at: int


@dataclass(frozen=True, slots=True)
class SignedList:
    """The list that hosts get, with its signature. `expires` is in milliseconds since 1970."""

    serial: int = 0
    expires: int = 0
    data: bytes = b""
    signature: bytes = b""
    signer: str = ""


NOT_SIGNED: Final = SignedList()

_Affected: TypeAlias = Mapping[int, tuple[str, str, str]]


class Revocations:
    """What is revoked in a store. Every call may block."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def revoke(self, target: str, reason: str, *, by: str) -> tuple[list[str], list[str]]:
        """Refuse a digest, a version of a skill or all versions that it has, from now on.

        Returns the digests, and the versions that have one of them.
        """
        words = safe_line(reason, limit=_REASON)
        if not words:
            raise _refused("the reason is missing", "say why: whoever is refused sees it")
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            digests = _digests(connection, target)
            affected = _versions_with(connection, digests)
            what = _shortened(affected) if target.startswith("sha256:") else target
            connection.execute(revocations.delete().where(revocations.c.digest.in_(digests)))
            row = {"what": what, "reason": words, "revoked_by": by, "revoked_at": now()}
            connection.execute(revocations.insert(), [{"digest": digest, **row} for digest in digests])
            self._mark(connection, affected)
            details: JsonObject = {"reason": words, "digests": [*digests], "versions": len(affected)}
            record(connection, by, "revoke", target, details)
        return digests, _names(affected)

    def undo(self, target: str, *, by: str) -> tuple[list[str], list[str]]:
        """Take a revocation back. Returns the digests, and the versions that have one of them."""
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            asked = revocations.c.digest.in_(_digests(connection, target))
            digests = sorted(connection.execute(sa.select(revocations.c.digest).where(asked)).scalars())
            if not digests:
                raise SkillNotFound(f"{shown(target)} is not revoked")
            connection.execute(revocations.delete().where(asked))
            affected = _versions_with(connection, digests)
            self._mark(connection, affected)
            record(connection, by, "revoke-undo", target, {"digests": [*digests], "versions": len(affected)})
        return digests, _names(affected)

    def listing(self) -> tuple[list[Revocation], SignedList]:
        """What is revoked, the newest first, and what hosts were told last."""
        newest = sa.select(revocations).order_by(revocations.c.revoked_at.desc(), revocations.c.digest)
        with self._store.reading() as connection:
            rows = [Revocation(**row) for row in connection.execute(newest).mappings()]  # pyright: ignore[reportArgumentType]
            return rows, _signed(connection)

    def signed(self) -> SignedList:
        """The list that was signed last; `NOT_SIGNED` before the first."""
        with self._store.reading() as connection:
            return _signed(connection)

    def sign(self, serial: int, expires: int, signature: bytes, key: str, *, by: str) -> SignedList:
        """Serve the current list with this signature, which must be one of exactly that.

        `key` is the signer's public key in PEM. The registry does not judge whose it is: hosts do.
        """
        if expires <= now():
            raise _refused("the list would have expired already", "let it expire later")
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            last = _signed(connection).serial
            data = revocations_document(serial, _time(expires), _reasons(connection))
            if serial != last + 1:
                raise _signed_meanwhile()
            if len(data) > DEFAULT_LIMITS.document_bytes:
                most = f"{DEFAULT_LIMITS.document_bytes:,}"
                raise LimitExceeded(f"the list would have {len(data):,} bytes, and hosts read at most {most}")
            try:
                signer = require_signature(data, signature, [key], SIGNED_REVOCATIONS)
            except SkillwireError:
                raise _signed_meanwhile() from None
            connection.execute(signed_revocations.delete())
            made = SignedList(serial, expires, data, signature, signer)
            connection.execute(
                signed_revocations.insert().values(
                    serial=serial, expires=expires, data=data, signature=signature, signer=signer
                )
            )
            add_changes(self._store, connection, NO_CHANNEL, [("", "")])
            details: JsonObject = {"signer": signer, "expires": _time(expires).isoformat()}
            record(connection, by, "revoke-sign", f"serial {serial}", details)
            return made

    def _mark(self, connection: Connection, affected: _Affected) -> None:
        """Write to each of these versions why it is revoked, if it is, and tell every replica."""
        for some in _parts(sorted(affected)):
            by_set = (
                sa.select(versions.c.id, revocations.c.digest, revocations.c.reason)
                .join(revocations, revocations.c.digest == versions.c.set_digest)
                .where(versions.c.id.in_(some))
            )
            by_file = (
                sa.select(files.c.version_id.label("id"), revocations.c.digest, revocations.c.reason)
                .join(revocations, revocations.c.digest == files.c.digest)
                .where(files.c.version_id.in_(some))
            )
            # Of several digests, the first says why.
            found = sorted(connection.execute(by_set.union_all(by_file)).all(), reverse=True)
            reasons = {row.id: row.reason for row in found}
            connection.execute(
                versions.update()
                .where(versions.c.id == sa.bindparam("of"))
                .values(revoked=sa.bindparam("why")),
                [{"of": one, "why": reasons.get(one)} for one in some],
            )
        places = {(namespace, name) for namespace, name, _ in affected.values()}
        add_changes(self._store, connection, EVERY_CHANNEL, sorted(places))


def revoked_digests(connection: Connection, digests: Iterable[str]) -> dict[str, str]:
    """Those of some digests that are revoked, each with its reason."""
    found: dict[str, str] = {}
    for some in _parts(sorted(set(digests))):
        query = sa.select(revocations.c.digest, revocations.c.reason).where(revocations.c.digest.in_(some))
        found |= {row.digest: row.reason for row in connection.execute(query)}
    return found


def next_list(
    listed: Mapping[str, Any],
    key: EllipticCurvePrivateKey,
    *,
    days: int = VALID_DAYS,
    removed: Collection[str] | None = (),
) -> tuple[JsonObject, list[str], list[str]]:
    """Sign what a registry says is revoked, as the next list.

    `listed` is what it answered to the command `revocations`. A digest that the same key signed before may be
    missing now only if it is in `removed`; with `None`, any may. Returns the arguments of the command
    `revocations-sign`, and the digests that are new in the list and that are not in it any more.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    try:
        revoked = {str(row["digest"]): str(row["reason"]) for row in listed["revoked"]}
        serial = int(listed["serial"]) + 1
        data, signed = b64decode(listed["document"]), b64decode(listed["signature"])
    except (LookupError, TypeError, ValueError, AttributeError):
        raise SourceError("the registry did not say what is revoked: nothing was signed") from None
    before: Mapping[str, str] = {}
    if data:
        with suppress(SkillwireError):  # Somebody else's: what it says is not ours to answer for.
            require_signature(data, signed, [public], SIGNED_REVOCATIONS)
            before = parse_revocations(data)[2]
    gone = sorted(before.keys() - revoked.keys())
    if removed is not None and (missing := [digest for digest in gone if digest not in removed]):
        raise VersionConflict(
            f"nothing was signed: the registry does not list {', '.join(missing[:_NAMED])} any more, which "
            "you signed as revoked; if that is right, use --undo"
        )
    expires = (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0)
    document = revocations_document(serial, expires, revoked)
    signature = sign_files({SIGNED_REVOCATIONS: digest_of(document)}, name=SIGNED_REVOCATIONS, key=key)
    arguments: JsonObject = {
        "serial": serial,
        "expires": round(expires.timestamp() * 1000),
        "signature": b64encode(signature).decode(),
        "key": public,
    }
    return arguments, sorted(revoked.keys() - before.keys()), gone


def signed_digests(listed: Mapping[str, Any]) -> dict[str, str]:
    """The digests that hosts were told, each with its reason, of what a registry answered."""
    try:
        return parse_revocations(b64decode(listed["document"]))[2]
    except (SkillwireError, LookupError, TypeError, ValueError):
        return {}


def _digests(connection: Connection, target: str) -> list[str]:
    """The digests that a target stands for: one, or those of the versions of a skill, deleted ones too."""
    if target.startswith("sha256:"):
        return [parse_digest(target)]
    match = _SKILL.fullmatch(target)
    if match is None:
        raise _refused(
            f"{shown(target)!r} cannot be revoked",
            "write NAMESPACE/NAME@VERSION, NAMESPACE/NAME or sha256:DIGEST",
        )
    skill = [skills.c.namespace == checked_namespace(match["namespace"]), skills.c.name == match["name"]]
    found: set[str] = set()
    for table in (versions, deleted_versions):
        query = sa.select(table.c.set_digest).join(skills, skills.c.id == table.c.skill_id).where(*skill)
        if match["version"] is not None:
            query = query.where(table.c.version == checked_version(match["version"]))
        found |= set(connection.execute(query).scalars())
    if not found:
        raise SkillNotFound(f"there is no {shown(target)} in the registry")
    return sorted(found)


def _versions_with(connection: Connection, digests: Iterable[str]) -> dict[int, tuple[str, str, str]]:
    """The versions that have one of these digests: namespace, name and version, by id."""
    found: dict[int, tuple[str, str, str]] = {}
    for some in _parts(sorted(digests)):
        having = sa.or_(
            versions.c.set_digest.in_(some),
            versions.c.id.in_(sa.select(files.c.version_id).where(files.c.digest.in_(some))),
        )
        rows = connection.execute(
            sa.select(versions.c.id, versions.c.version, skills.c.namespace, skills.c.name)
            .join(skills, skills.c.id == versions.c.skill_id)
            .where(having)
            .order_by(versions.c.id)
        )
        found |= {row.id: (row.namespace, row.name, row.version) for row in rows}
    return found


def _names(affected: _Affected) -> list[str]:
    return [f"{namespace}/{name}@{version}" for namespace, name, version in affected.values()]


def _shortened(affected: _Affected) -> str:
    names = _names(affected)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _reasons(connection: Connection) -> dict[str, str]:
    rows = connection.execute(sa.select(revocations.c.digest, revocations.c.reason))
    return {row.digest: row.reason for row in rows}


def _signed(connection: Connection) -> SignedList:
    row = connection.execute(sa.select(signed_revocations)).first()
    if row is None:
        return NOT_SIGNED
    return SignedList(row.serial, row.expires, bytes(row.data), bytes(row.signature), row.signer)


def _parts(values: list[Any]) -> Iterable[list[Any]]:
    """Databases limit the number of parameters of a query."""
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _signed_meanwhile() -> VersionConflict:
    return VersionConflict(
        "what is revoked was changed or signed by somebody else meanwhile: sign it again, without a target"
    )


def _refused(message: str, fix: str) -> FormatError:
    return FormatError(Issue(rule="registry-revoke", message=message, fix=fix))


MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A skill as an artifact: the manifest and the two blobs that it names."""

    manifest: bytes
    config: bytes
    layer: bytes

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)

    @property
    def blobs(self) -> dict[str, bytes]:
        return {digest_of(self.config): self.config, digest_of(self.layer): self.layer}


def artifact_of(
    name: str, version: str, frontmatter: Mapping[str, JsonValue], contents: Iterable[ArchiveFile]
) -> Artifact:
    """The artifact of a version. Equal files give equal bytes."""
    layer = write_tar_gz(ArchiveFile(f"{name}/{file.path}", file.data, file.executable) for file in contents)
    config = _json({"name": name, "version": version, "description": frontmatter.get("description", "")})
    manifest: dict[str, JsonValue] = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": "application/vnd.agentskills.skill.v1",
        "config": _descriptor("application/vnd.agentskills.skill.config.v1+json", config),
        "layers": [_descriptor("application/vnd.agentskills.skill.content.v1.tar+gzip", layer)],
        "annotations": {"org.opencontainers.image.title": name, "org.opencontainers.image.version": version},
    }
    return Artifact(_json(manifest), config, layer)


def _descriptor(media_type: str, data: bytes) -> dict[str, JsonValue]:
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}


def _json(value: Mapping[str, JsonValue]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


SITE_PATH: Final = "/.well-known/agent-skills/"
OCI_PATH: Final = "/v2/"
_PAGE: Final = 500
_DESCRIPTION: Final = 1024
_ARCHIVE: Final = re.compile(r"([^/@]+)/([^/@]+)@([^/@]+)\.tar\.gz")
_OCI: Final = re.compile(r"([^/]+)/([^/]+)/(manifests|blobs)/([^/]+)")
_ARTIFACTS: Final = 64


class SiteEndpoint:
    """`/.well-known/agent-skills/`: an index with an archive of each skill."""

    async def __call__(self, catalog: SkillQueries, scope: Scope, send: Send) -> None:
        if await refuse_method(scope, send):
            return
        name = unquote(scope["path"][len(SITE_PATH) :])
        if name == "index.json":
            await self._index(catalog, scope, send)
            return
        match = _ARCHIVE.fullmatch(name)
        if match is None:
            raise SkillNotFound("Not Found")
        place = SkillPath(match[1], match[2], match[3], "")
        data = await anyio.to_thread.run_sync(lambda: write_tar_gz(catalog.contents(place)))
        await _send_bytes(scope, send, data, b"application/gzip")

    async def _index(self, catalog: SkillQueries, scope: Scope, send: Send) -> None:
        """Sent page by page: the index may be large, and is never held in memory as a whole."""
        headers = [(b"content-type", b"application/json")]
        rows = await anyio.to_thread.run_sync(partial(catalog.site_page, None, _PAGE))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _send_part(send, f'{{"$schema":{json.dumps(SCHEMA)},"skills":[')
        comma = ""
        while rows and scope["method"] != "HEAD":
            await _send_part(send, comma + ",\n".join(_site_row(row) for row in rows))
            comma = ",\n"
            rows = await anyio.to_thread.run_sync(partial(catalog.site_page, rows[-1].path, _PAGE))
        await send({"type": "http.response.body", "body": b"]}\n"})


class OciEndpoint:
    """`/v2/NAMESPACE/NAME`: pulls of a version or a channel as an OCI artifact."""

    def __init__(self) -> None:
        self._artifacts: OrderedDict[tuple[str, str, str], Artifact] = OrderedDict()

    async def __call__(self, catalog: SkillQueries, scope: Scope, send: Send) -> None:
        if await refuse_method(scope, send):
            return
        rest = unquote(scope["path"][len(OCI_PATH) :])
        if not rest:
            await respond(scope, send, 200, "{}\n", media=b"application/json")
            return
        match = _OCI.fullmatch(rest)
        if match is None:
            raise SkillNotFound("Not Found")
        namespace, name, kind, reference = match.groups()
        found = await anyio.to_thread.run_sync(partial(self._find, catalog, namespace, name, kind, reference))
        if found is None:
            code = "MANIFEST_UNKNOWN" if kind == "manifests" else "BLOB_UNKNOWN"
            body = json.dumps({"errors": [{"code": code, "message": "not found"}]})
            await respond(scope, send, 404, body, media=b"application/json")
            return
        data, digest = found
        media = MANIFEST_TYPE.encode() if kind == "manifests" else b"application/octet-stream"
        await _send_bytes(scope, send, data, media, [(b"docker-content-digest", digest.encode())])

    def _find(
        self, catalog: SkillQueries, namespace: str, name: str, kind: str, reference: str
    ) -> tuple[bytes, str] | None:
        named = catalog.version_names(namespace, name)
        if kind == "manifests" and reference in named:
            version, revoked = named[reference]
            if revoked is not None:
                raise revoked_error(namespace, name, version, revoked)
            artifact = self._artifact(catalog, namespace, name, version)
            return artifact.manifest, artifact.digest
        if not reference.startswith("sha256:"):
            return None
        # Any replica may be asked for a blob whose manifest another one gave: the newest version first.
        usable = dict.fromkeys(one.version for one in named.values() if one.revoked is None)
        for version in reversed(usable):
            artifact = self._artifact(catalog, namespace, name, version)
            if kind == "manifests" and artifact.digest == reference:
                return artifact.manifest, reference
            if kind == "blobs" and reference in artifact.blobs:
                return artifact.blobs[reference], reference
        return None

    def _artifact(self, catalog: SkillQueries, namespace: str, name: str, version: str) -> Artifact:
        key = (namespace, name, version)
        made = self._artifacts.get(key)
        if made is None:
            place = SkillPath(namespace, name, version, "")
            entry = catalog.entry(child_uri(place.root, SKILL_FILE))
            made = self._artifacts[key] = artifact_of(
                name, version, entry.frontmatter, catalog.contents(place)
            )
            while len(self._artifacts) > _ARTIFACTS:
                self._artifacts.popitem(last=False)
        return made


class RevokedEndpoint:
    """The signed list of revoked digests, and its signature beside it, for anyone: hosts ask without a token.

    It is read again when `number`, that of the last change, is another one: between two changes it is there
    even if the database is not.
    """

    def __init__(self, store: Store, number: Callable[[], int]) -> None:
        self._revocations = Revocations(store)
        self._number = number
        self._read: tuple[int, SignedList] | None = None

    async def __call__(self, scope: Scope, send: Send) -> None:
        number = self._number()
        if self._read is None or self._read[0] != number:
            self._read = number, await anyio.to_thread.run_sync(self._revocations.signed)
        signed = self._read[1]
        if not signed.serial:
            raise SkillNotFound("nobody signed what is revoked: do so with skillwire registry revoke --sign")
        data = signed.signature if scope["path"].endswith(SIGNATURE_SUFFIX) else signed.data
        await _send_bytes(scope, send, data, b"application/json", [(b"cache-control", b"no-cache")])


async def namespaces_in(scope: Scope, body: bytes) -> list[str]:
    """The namespaces that a request at `/mcp` names: that of its URI, or of the skill that a tool is for."""
    headers = dict(scope["headers"])
    method, name = headers.get(b"mcp-method", b""), headers.get(b"mcp-name", b"")
    if method and method != b"tools/call":
        uris: list[object] = [name.decode("latin-1")]
    else:
        try:
            message = await parse_json(body, DEFAULT_LIMITS)
        except (DocumentError, LimitExceeded):
            return []  # Not a request: the SDK says what is wrong with it.
        params = message.get("params") if is_object(message) else None
        if not is_object(params):
            return []
        uris = [params.get("uri")]
        arguments = params.get("arguments")
        tool = arguments.get("name") if is_object(arguments) else None
        if isinstance(tool, str) and "/" in tool:
            uris.append(f"{SCHEME}://{tool}")
    return [namespace for uri in uris if (namespace := _namespace_of(uri))]


def _namespace_of(uri: object) -> str:
    try:
        return split_uri(parse_uri(uri)).authority if isinstance(uri, str) and uri else ""
    except FormatError:
        return ""


def _site_row(row: SiteRow) -> str:
    namespace, name, _ = row.path.split("/")
    return json.dumps(
        {
            "name": name,
            "type": "archive",
            "description": row.description[:_DESCRIPTION],
            "url": f"{quote(namespace)}/{quote(name)}@{quote(row.version)}.tar.gz",
            "digest": row.digest,
        }
    )


async def _send_part(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _send_bytes(
    scope: Scope, send: Send, data: bytes, media: bytes, headers: Headers | None = None
) -> None:
    lines = [(b"content-type", media), (b"content-length", b"%d" % len(data)), *(headers or ())]
    await send({"type": "http.response.start", "status": 200, "headers": lines})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else data})
