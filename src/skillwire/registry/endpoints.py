"""Other ways to read a registry: the index of a site with archives, OCI artifacts, what is revoked."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread

from skillwire.documents import DocumentError, JsonValue, is_object
from skillwire.errors import FormatError, LimitExceeded, SkillNotFound
from skillwire.host.policies import SIGNATURE_SUFFIX
from skillwire.limits import DEFAULT_LIMITS
from skillwire.net import ArchiveFile, write_tar_gz
from skillwire.registry.publications import SkillPath, revoked_error
from skillwire.registry.queries import SiteRow, SkillQueries
from skillwire.registry.revocations import Revocations, SignedList
from skillwire.registry.store import Store
from skillwire.server import Headers, Scope, Send, parse_json, refuse_method, respond
from skillwire.skill import SCHEME, SKILL_FILE, child_uri, digest_of, parse_uri, split_uri
from skillwire.sources.wellknown import SCHEMA

FEED_PATH: Final = "/registry/v1/revoked.json"
"""Where a registry serves the signed list. Its signature is beside it."""
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
