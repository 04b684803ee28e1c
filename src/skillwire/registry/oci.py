"""Skills as OCI artifacts, in the form that the community agreed on, and how to push one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urljoin, urlsplit

import httpx2 as httpx

from skillwire.errors import SourceError
from skillwire.issues import shown
from skillwire.json_types import JsonValue
from skillwire.skill.digests import digest_of
from skillwire.sources.archive import ArchiveFile, write_tar_gz
from skillwire.text import redact_url

MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
ARTIFACT_TYPE: Final = "application/vnd.agentskills.skill.v1"
CONFIG_TYPE: Final = "application/vnd.agentskills.skill.config.v1+json"
LAYER_TYPE: Final = "application/vnd.agentskills.skill.content.v1.tar+gzip"

_REFERENCE: Final = re.compile(
    r"(?:(https?)://)?([^/@\s]+)/([a-z0-9][a-z0-9._/-]*)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
)
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


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
        "artifactType": ARTIFACT_TYPE,
        "config": _descriptor(CONFIG_TYPE, config),
        "layers": [_descriptor(LAYER_TYPE, layer)],
        "annotations": {"org.opencontainers.image.title": name, "org.opencontainers.image.version": version},
    }
    return Artifact(_json(manifest), config, layer)


def push(artifact: Artifact, reference: str, *, credentials: tuple[str, str] | None = None) -> str:
    """Push an artifact to `HOST/REPOSITORY[:TAG]`, and return its digest. Blobs that exist there are not
    sent."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise SourceError(f"{shown(reference)} is not an OCI reference: write HOST/REPOSITORY:TAG")
    host, repository, tag = match[2], match[3], match[4] or "latest"
    is_local = host.rpartition(":")[0] in _LOOPBACK or host in _LOOPBACK
    base = f"{match[1] or ('http' if is_local else 'https')}://{host}/v2/{repository}/"
    try:
        with httpx.Client(timeout=30, follow_redirects=False) as client:
            session = _Session(client, base, credentials)
            for digest, data in artifact.blobs.items():
                session.put_blob(digest, data)
            session.request(
                "PUT",
                f"manifests/{tag}",
                (201,),
                content=artifact.manifest,
                headers={"content-type": MANIFEST_TYPE},
            )
    except httpx.HTTPError as error:
        raise SourceError(f"{redact_url(base)} cannot be reached: {shown(str(error), 200)}") from None
    return artifact.digest


class _Session:
    """Requests to one repository, authenticated as the registry requires."""

    def __init__(self, client: httpx.Client, base: str, credentials: tuple[str, str] | None) -> None:
        self._client = client
        self._base = base
        self._credentials = credentials
        self._headers: dict[str, str] = {}

    def put_blob(self, digest: str, data: bytes) -> None:
        if self.request("HEAD", f"blobs/{digest}", (200, 404)).status_code == 200:
            return
        started = self.request("POST", "blobs/uploads/", (202,))
        place = urljoin(str(started.url), started.headers.get("location", ""))
        if urlsplit(place).netloc != urlsplit(self._base).netloc:
            raise SourceError(
                f"{redact_url(self._base)} sends uploads to another host: nothing was sent there"
            )
        sign = "&" if urlsplit(place).query else "?"
        headers = {"content-type": "application/octet-stream"}
        self.request("PUT", f"{place}{sign}digest={digest}", (201,), content=data, headers=headers)

    def request(
        self,
        method: str,
        path: str,
        expected: tuple[int, ...],
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        url = urljoin(self._base, path)
        response = self._client.request(
            method, url, content=content, headers={**(headers or {}), **self._headers}
        )
        if (
            response.status_code == 401
            and not self._headers
            and self._sign_in(response.headers.get("www-authenticate", ""))
        ):
            response = self._client.request(
                method, url, content=content, headers={**(headers or {}), **self._headers}
            )
        if response.status_code not in expected:
            raise SourceError(
                f"{redact_url(url)} answered {response.status_code} to {method}: "
                + (
                    "check the user name and password"
                    if response.status_code in (401, 403)
                    else "nothing is tagged"
                )
            )
        return response

    def _sign_in(self, challenge: str) -> bool:
        basic: dict[str, str] = {}
        if self._credentials is not None:
            user, password = self._credentials
            basic = {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic" and basic:
            self._headers = basic
            return True
        fields = dict(_CHALLENGE.findall(rest))
        realm = fields.pop("realm", "")
        if scheme.lower() != "bearer" or not realm.startswith(
            ("https://", "http://127.", "http://localhost")
        ):
            return False
        answer = self._client.get(realm, params=fields, headers=basic)
        found = cast("dict[str, object]", answer.json() if answer.status_code == 200 else {})
        token = found.get("token") or found.get("access_token")
        if not isinstance(token, str):
            return False
        self._headers = {"authorization": f"Bearer {token}"}
        return True


def _descriptor(media_type: str, data: bytes) -> dict[str, JsonValue]:
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}


def _json(value: Mapping[str, JsonValue]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
