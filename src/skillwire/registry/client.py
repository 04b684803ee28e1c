"""Publish a folder to a registry: over HTTP, or straight into its store. Only missing files are sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from skillwire.errors import (
    FormatError,
    RefusedByPolicy,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VersionConflict,
)
from skillwire.issues import Issue, shown
from skillwire.registry.drafts import PUBLISH_PATH, FileRow, Published, draft_of
from skillwire.registry.places import checked_version
from skillwire.registry.publishing import STABLE, Publishing
from skillwire.registry.store import Store
from skillwire.skill.digests import digest_of
from skillwire.skill.frontmatter import parse_skill_md
from skillwire.skill.uris import SKILL_FILE
from skillwire.sources.directory.signing import read_folder
from skillwire.text import redact_url

_BATCH_BYTES: Final = 4 << 20
_ATTEMPTS: Final = 3
_ERRORS: Final[Mapping[int, type[SkillwireError]]] = {
    404: SkillNotFound,
    409: VersionConflict,
    403: RefusedByPolicy,
}


@dataclass(frozen=True, slots=True)
class Folder:
    """A skill on disk that passed `lint`, ready to be published.

    `contents` are its files, by their paths in the skill.
    """

    name: str
    version: str
    contents: Mapping[str, bytes]

    @property
    def rows(self) -> list[FileRow]:
        return [FileRow(path, digest_of(data), len(data)) for path, data in sorted(self.contents.items())]


def read_skill(path: Path, version: str | None = None) -> Folder:
    """The skill in a folder, or a `FormatError` with all its lint errors.

    Without `version`, the frontmatter's `metadata.version` is used.
    """
    folder = read_folder(path)
    contents = {name: (folder.path / name).read_bytes() for name in folder.files}
    for name, digest in folder.files.items():
        if digest_of(contents[name]) != digest:
            raise SourceError(f"{shown(str(folder.path / name))} changed while it was read: try again")
    if version is None:
        metadata = parse_skill_md(contents[SKILL_FILE], file=SKILL_FILE).frontmatter.get("metadata")
        found = metadata.get("version") if isinstance(metadata, dict) else None
        version = str(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else None
    if version is None:
        raise FormatError(
            Issue(
                rule="no-version",
                message=f"{folder.name} has no version",
                fix="write metadata.version into its frontmatter, or pass --release 1.0.0",
            )
        )
    return Folder(folder.name, checked_version(version), contents)


def publish_to_store(
    folder: Folder, store: Store, *, namespace: str, channel: str = STABLE, by: str
) -> Published:
    """Publish into a store that this machine can reach. Every call may block."""
    publishing = Publishing(store)
    draft = draft_of(namespace, folder.version, channel, folder.rows)
    missing = set(publishing.missing(draft))
    publishing.upload(namespace, [data for data in folder.contents.values() if digest_of(data) in missing])
    return publishing.publish(draft, by=by)


def publish_over_http(
    folder: Folder, url: str, *, namespace: str = "", channel: str = STABLE, token: str | None = None
) -> Published:
    """Publish to a registry's URL. An interrupted request is retried, and resumes where it stopped."""
    import httpx2 as httpx

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise SourceError(f"{shown(redact_url(url))} is not the URL of a registry: write https://HOST")
    manifest = {
        "namespace": namespace,
        "version": folder.version,
        "channel": channel,
        "files": [{"path": row.path, "digest": row.digest, "size": row.size} for row in folder.rows],
    }
    by_digest: dict[str, bytes] = {digest_of(data): data for data in folder.contents.values()}
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    target = f"{parts.scheme}://{parts.netloc}{PUBLISH_PATH}"
    batch: list[str] = []
    with httpx.Client(timeout=60, follow_redirects=False) as client:
        for _ in range(len(by_digest) + _ATTEMPTS):
            form: list[tuple[str, Any]] = [("manifest", (None, json.dumps(manifest)))]
            form += [("file", (digest, by_digest[digest], "application/octet-stream")) for digest in batch]
            response = _post(client, target, headers, form)
            answer = _answer(response, target)
            if response.status_code != 202:
                return _published(answer)
            batch = _next_batch(answer.get("missing"), by_digest)
    raise SourceError(f"{redact_url(target)} asks for the same files again: nothing was published")


def _post(client: Any, target: str, headers: Mapping[str, str], form: list[tuple[str, Any]]) -> Any:
    import httpx2 as httpx

    for attempt in range(_ATTEMPTS):
        try:
            return client.post(target, headers=headers, files=form)
        except httpx.TransportError as error:
            reason = shown(str(error), 200)
            if attempt < _ATTEMPTS - 1:
                continue
            raise SourceError(
                f"{redact_url(target)} cannot be reached: {reason}; what was sent is stored, so publish again"
            ) from None
    raise AssertionError("unreachable")


def _next_batch(missing: object, by_digest: Mapping[str, bytes]) -> list[str]:
    batch: list[str] = []
    size = 0
    for digest in cast("list[object]", missing) if isinstance(missing, list) else []:
        if isinstance(digest, str) and digest in by_digest:
            size += len(by_digest[digest])
            if batch and size > _BATCH_BYTES:
                break
            batch.append(digest)
    return batch


def _answer(response: Any, target: str) -> dict[str, Any]:
    try:
        answer: object = response.json()
    except ValueError:
        answer = None
    status = response.status_code
    if status in (200, 201, 202) and isinstance(answer, dict):
        return cast("dict[str, Any]", answer)
    said = str(cast("dict[str, Any]", answer).get("error", "")) if isinstance(answer, dict) else ""
    if status == 401:
        raise SourceError(f"{redact_url(target)} requires a valid token: set SKILLWIRE_REGISTRY_TOKEN")
    kind = _ERRORS.get(status)
    if kind is not None and said:
        raise kind(shown(said, 500))
    if status == 422 and said:
        raise FormatError(
            Issue(rule="refused", message=f"the registry refused it: {shown(said, 500)}", fix="")
        )
    raise SourceError(f"{redact_url(target)} answered {status}", said=said)


def _published(answer: Mapping[str, Any]) -> Published:
    return Published(
        *(shown(str(answer.get(key, "")), 200) for key in ("namespace", "name", "version", "set_digest")),
        signer=shown(str(answer.get("signer") or ""), 200),
        is_new=answer.get("is_new") is True,
    )
