"""Publish folders to a registry: over HTTP, or straight into its store. Only missing files are sent."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from skillwire.errors import (
    FormatError,
    Issue,
    LimitExceeded,
    PolicyRefused,
    RefusedByPolicy,
    Severity,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VersionConflict,
)
from skillwire.registry.access import operator
from skillwire.registry.administration import ADMIN_PATH
from skillwire.registry.publications import (
    PUBLISH_PATH,
    FileRow,
    Published,
    PublishRules,
    checked_version,
    publication_of,
)
from skillwire.registry.publishing import STABLE, Publishing
from skillwire.registry.store import Store
from skillwire.skill import digest_of
from skillwire.sources import load_private_key
from skillwire.sources.directory.authoring import SkillFolder, lint_folders, read_folder, sign_folder
from skillwire.text import redact_url, shown

_BATCH_BYTES: Final = 4 << 20
_ATTEMPTS: Final = 3
_BUSY_ATTEMPTS: Final = 8
_LONGEST_PAUSE: Final = 15.0
_BUSY: Final = (429, 503)
_ERRORS: Final[Mapping[int, type[SkillwireError]]] = {
    404: SkillNotFound,
    409: VersionConflict,
    403: RefusedByPolicy,
    413: LimitExceeded,
}


class RegistryUnavailable(SourceError):
    """A registry does not accept anything now: it cannot be reached, is busy, or does not know the caller."""


@dataclass(frozen=True, slots=True)
class LintedSkill:
    """A skill on disk that passed `lint`, ready to be published.

    `contents` are its files, by their paths in the skill.
    """

    name: str
    version: str
    contents: Mapping[str, bytes]
    rows: tuple[FileRow, ...] = ()
    """Its files with their digests, in the order of their paths; computed unless they are known."""

    def __post_init__(self) -> None:
        if not self.rows:
            rows = (FileRow(path, digest_of(data), len(data)) for path, data in sorted(self.contents.items()))
            object.__setattr__(self, "rows", tuple(rows))

    @property
    def by_digest(self) -> dict[str, bytes]:
        return {row.digest: self.contents[row.path] for row in self.rows}


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result for one skill, by the path of its folder: the published version, or the error."""

    path: str
    published: Published | None = None
    error: SkillwireError | None = None


def publish_each(
    paths: Iterable[Path],
    publish: Callable[[LintedSkill], Published],
    *,
    version: str | None = None,
    sign_key: Path | None = None,
) -> Iterator[PublishResult]:
    """Publish every skill in some folders, nested ones too, and go on after one that is refused.

    What `lint` calls an error is not published. A nested skill that has no version has that of the skill
    around it. If the registry is unavailable, the rest is not tried.
    """
    folders, refused = _lint(paths)
    yield from refused
    if sign_key is not None:
        key = load_private_key(sign_key)
        # A signature covers the files of nested skills: theirs are written first.
        for path in sorted(folders, key=lambda one: -len(one.parts)):
            sign_folder(read_folder(path), key)
        folders = dict.fromkeys(folders)  # They have more files now.
    versions: dict[Path, str] = {}
    for number, (path, listed) in enumerate(folders.items()):
        around = next((versions[one] for one in path.parents if one in versions), None)
        try:
            folder = _read(listed or read_folder(path), version, otherwise=around)
            versions[path] = folder.version
            yield PublishResult(str(path), publish(folder))
        except RegistryUnavailable as error:
            yield PublishResult(str(path), error=error)
            for other in list(folders)[number + 1 :]:
                yield PublishResult(str(other), error=RegistryUnavailable("not tried, for the same reason"))
            return
        except SkillwireError as error:
            yield PublishResult(str(path), error=error)


def _lint(paths: Iterable[Path]) -> tuple[dict[Path, SkillFolder | None], list[PublishResult]]:
    """The folders of all skills that can be published, outer ones first, and why others cannot be."""
    folders: dict[Path, SkillFolder | None] = {}
    refused: dict[str, PublishResult] = {}
    for path in paths:
        try:
            linted = lint_folders(path)
        except SkillwireError as error:
            refused[str(path)] = PublishResult(str(path), error=error)
            continue
        for one, folder in linted:
            errors = [issue for issue in one.issues if issue.severity is Severity.ERROR]
            if errors:
                place = one.skill or errors[0].file or str(path)
                refused[place] = PublishResult(place, error=FormatError(errors))
            elif one.skill is not None:
                folders[Path(one.skill)] = folder
    return folders, list(refused.values())


def read_skill(path: Path, version: str | None = None, *, otherwise: str | None = None) -> LintedSkill:
    """The skill in a folder, or a `FormatError` with all its lint errors.

    Without `version`, the frontmatter's `metadata.version` is used, or else `otherwise`.
    """
    return _read(read_folder(path), version, otherwise=otherwise)


def _read(folder: SkillFolder, version: str | None, *, otherwise: str | None) -> LintedSkill:
    """The skill in a folder that was listed before: its files must not have changed since."""
    contents = {name: (folder.path / name).read_bytes() for name in folder.files}
    for name, digest in folder.files.items():
        if digest_of(contents[name]) != digest:
            raise SourceError(f"{shown(str(folder.path / name))} changed while it was read: try again")
    if version is None:
        metadata = folder.frontmatter.get("metadata")
        found = metadata.get("version") if isinstance(metadata, dict) else None
        is_given = isinstance(found, str | int | float) and not isinstance(found, bool)
        version = str(found) if is_given else otherwise
    if version is None:
        raise FormatError(
            Issue(
                rule="no-version",
                message=f"{folder.name} has no version",
                fix="write metadata.version into its frontmatter, or pass --release 1.0.0",
            )
        )
    rows = tuple(FileRow(name, folder.files[name], len(data)) for name, data in sorted(contents.items()))
    return LintedSkill(folder.name, checked_version(version), contents, rows)


def publish_to_store(
    folder: LintedSkill,
    store: Store,
    *,
    namespace: str,
    channel: str = STABLE,
    promote: bool = True,
    expect: str | None = None,
    by: str,
    rules: PublishRules | None = None,
) -> Published:
    """Publish into a store that this machine can reach. Every call may block."""
    publishing, caller, by_digest = Publishing(store, rules=rules), operator(by), folder.by_digest
    draft = publication_of(namespace, folder.version, channel, folder.rows, promote=promote, expect=expect)

    def send(batch: Sequence[str]) -> Published | Sequence[str]:
        return publishing.accept(draft, [by_digest[digest] for digest in batch], caller=caller)

    return _send_missing(by_digest, send, store.place)


def publish_over_http(
    folder: LintedSkill,
    url: str,
    *,
    namespace: str = "",
    channel: str = STABLE,
    promote: bool = True,
    expect: str | None = None,
    token: str | None = None,
) -> Published:
    """Publish to a registry's URL. An interrupted request is retried, and resumes where it stopped; one that
    the registry is too busy for is sent again after a while."""
    import httpx2 as httpx

    target = _target(url, PUBLISH_PATH)
    manifest = {
        "namespace": namespace,
        "version": folder.version,
        "channel": channel,
        "promote": promote,
        "expect": expect,
        "files": [{"path": row.path, "digest": row.digest, "size": row.size} for row in folder.rows],
    }
    by_digest = folder.by_digest
    headers = _bearer(token)
    with httpx.Client(timeout=60, follow_redirects=False, verify=_has_tls(target)) as client:

        def send(batch: Sequence[str]) -> Published | Sequence[str]:
            form: list[tuple[str, Any]] = [("manifest", (None, json.dumps(manifest)))]
            form += [("file", (digest, by_digest[digest], "application/octet-stream")) for digest in batch]
            response = _post(client, target, headers, form)
            answer = _answer(response, target)
            return _published(answer) if response.status_code != 202 else _digests(answer.get("missing"))

        return _send_missing(by_digest, send, redact_url(target))


def _send_missing(
    by_digest: Mapping[str, bytes], send: Callable[[Sequence[str]], Published | Sequence[str]], place: str
) -> Published:
    """Send the files that a registry says are missing, in batches, until the version is published."""
    batch: Sequence[str] = ()
    for _ in range(len(by_digest) + _ATTEMPTS):
        answer = send(batch)
        if isinstance(answer, Published):
            return answer
        batch = _next_batch(answer, by_digest)
    raise SourceError(f"{place} asks for the same files again: nothing was published")


def administrate(
    url: str, command: str, arguments: Mapping[str, object], *, token: str | None = None
) -> dict[str, Any]:
    """Run a command of `Administration` on a registry's URL, with the token of an administrator."""
    import httpx2 as httpx

    target = _target(url, ADMIN_PATH)
    given = {key: value for key, value in arguments.items() if value is not None}
    with httpx.Client(timeout=60, follow_redirects=False, verify=_has_tls(target)) as client:
        try:
            response = client.post(
                target, headers=_bearer(token), json={"command": command, "arguments": given}
            )
        except httpx.TransportError as error:
            reason = shown(str(error), 200)
            raise RegistryUnavailable(f"{redact_url(target)} cannot be reached: {reason}") from None
    return _answer(response, target)


def _target(url: str, path: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise SourceError(f"{shown(redact_url(url))} is not the URL of a registry: write https://HOST")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _has_tls(target: str) -> bool:
    """Whether certificates are needed: to read them takes longer than a request without TLS."""
    return target.startswith("https:")


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


def _post(client: Any, target: str, headers: Mapping[str, str], form: list[tuple[str, Any]]) -> Any:
    import httpx2 as httpx

    failures = busy = 0
    while True:
        try:
            response = client.post(target, headers=headers, files=form)
        except httpx.TransportError as error:
            failures += 1
            if failures == _ATTEMPTS:
                reason = shown(str(error), 200)
                raise RegistryUnavailable(
                    f"{redact_url(target)} cannot be reached: {reason}; what was sent is stored, so publish "
                    "again"
                ) from None
            continue
        busy += 1
        if response.status_code not in _BUSY or busy == _BUSY_ATTEMPTS:
            return response
        time.sleep(_pause(response.headers.get("retry-after", ""), busy))


def _pause(asked: str, attempt: int) -> float:
    """How long to wait: as long as the registry asks, and longer each time; not all at the same moment."""
    least = float(asked) if asked.isdigit() else 1.0
    return min(_LONGEST_PAUSE, least * 1.5 ** (attempt - 1)) * random.uniform(0.8, 1.2)  # noqa: S311


def _digests(missing: object) -> list[str]:
    given = cast("list[object]", missing) if isinstance(missing, list) else []
    return [digest for digest in given if isinstance(digest, str)]


def _next_batch(missing: Sequence[str], by_digest: Mapping[str, bytes]) -> list[str]:
    batch: list[str] = []
    size = 0
    for digest in missing:
        if digest in by_digest:
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
        raise RegistryUnavailable(
            f"{redact_url(target)} requires a valid token: set SKILLWIRE_REGISTRY_TOKEN"
        )
    if status in _BUSY:
        raise RegistryUnavailable(f"{redact_url(target)} answered {status}", said=said)
    if status == 403 and isinstance(answer, dict) and answer.get("refused_by") == "policy":  # pyright: ignore[reportUnknownMemberType]
        raise PolicyRefused(shown(said, 500))
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
        channel=shown(str(answer.get("channel") or ""), 200),
        listed=shown(listed, 200) if isinstance(listed := answer.get("listed"), str) else None,
    )
