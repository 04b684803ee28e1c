"""Publication: a well-formed version to be published; and what a registry reports about versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, cast

from skillwire.errors import FormatError, Issue, LimitExceeded, PolicyRefused, SkillNotFound
from skillwire.host import OWN_REGISTRY, PolicyFiles, Scans, log_decision
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import (
    DYNAMIC,
    SCHEME,
    SKILL_FILE,
    Digest,
    SetDigest,
    SkillEntry,
    SkillResource,
    SkillUri,
    check_portable,
    is_size,
    make_uri,
    parse_digest,
    set_digest,
    shown_uri,
    split_uri,
)
from skillwire.text import shown
from skillwire.trust import (
    AdmissionRequest,
    LayerKind,
    Origin,
    Policy,
    PolicyLayer,
    Purpose,
    SignatureVerdict,
    admit,
    check_entry,
    check_signature,
    excess,
    manifest_issues,
    require,
    verify_file,
)

_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")


@dataclass(frozen=True, slots=True)
class SkillPath:
    """A file or a directory of a skill.

    Without a version, it is in the version that a channel points to. `path` is relative to the skill; it is
    empty for the skill's own directory.
    """

    namespace: str
    name: str
    version: str | None
    path: str

    @property
    def root(self) -> SkillUri:
        return root_uri(self.namespace, self.name, self.version)


def revoked_error(namespace: str, name: str, version: str, reason: str) -> PolicyRefused:
    """The error for whoever asks for a revoked version."""
    return PolicyRefused(f"{namespace}/{name} {version} is revoked: {reason}")


def _entry(draft: Publication, name: str) -> SkillEntry:
    return SkillEntry(
        uri=make_uri([draft.namespace, name, SKILL_FILE]),
        frontmatter={"name": name},
        resources=tuple(
            SkillResource(make_uri([draft.namespace, name, *file.path.split("/")]), file.digest, file.size)
            for file in draft.files
        ),
    )


class PublishRules:
    """What the policy of this machine says about versions: one for a registry, or for a command."""

    def __init__(self, policy_files: PolicyFiles | None = None) -> None:
        self._policy_files = policy_files or PolicyFiles()
        self._scans = Scans()

    def scan(self, draft: Publication, read: Callable[[], Mapping[str, bytes]]) -> None:
        """Scan a version if the policy has a scanner that may refuse it; `check` decides.

        `read` gives the files by digest. Not within a transaction: a scanner may take a minute.
        """
        policy = self._policy_files.current().policy
        named = {"name": "scanned", "description": "Only its files matter here."}
        entry = replace(_entry(draft, "scanned"), frontmatter=named)
        if not policy.thresholds or self._scans.known(policy, entry) is not None:
            return
        data, checked = read(), check_entry(entry)
        origin = Origin.mcp("registry")
        resources = zip(draft.files, () if checked.resources is DYNAMIC else checked.resources, strict=True)
        files = [verify_file(checked, one.uri, data[file.digest], origin) for file, one in resources]
        deciding = [one for one in policy.scanners if one.key in policy.thresholds]
        self._scans.run(policy, deciding, files)

    def signature_of(self, draft: Publication, bundle: bytes | None) -> SignatureVerdict | None:
        """Who signed a version, according to the policy; `None` without one."""
        loaded = self._policy_files.current()
        if not loaded.policy.given:
            return None
        files = {file.path: file.digest for file in draft.files}
        return check_signature(files, bundle, loaded.publishers, now=datetime.now(UTC))

    def check(
        self, draft: Publication, name: str, signature: SignatureVerdict | None, revoked: Mapping[str, str]
    ) -> None:
        """Raise `PolicyRefused` for a version that the policy does not let be published, or that has one of
        the revoked digests, each with its reason."""
        layers = self._policy_files.current().policy.given
        if revoked:
            layers += (
                PolicyLayer(kind=LayerKind.MACHINE, place="", name="of this registry", revoked=revoked),
            )
        entry, policy = _entry(draft, name), Policy(layers)
        origin, source = Origin.mcp("registry"), f"registry:{OWN_REGISTRY}"
        candidate = AdmissionRequest(
            origin=origin,
            entry=entry,
            signature=signature,
            scans=self._scans.known(policy, entry),
            policy=policy,
            sources=(source,),
        )
        decision = admit(candidate, Purpose.INSTALL)
        log_decision(decision, skill=f"{draft.namespace}/{name}", origin=origin, act="publish")
        require(decision, entry.uri, origin)


def root_uri(namespace: str, name: str, version: str | None = None) -> SkillUri:
    """The directory of a skill, or of one version of it."""
    return make_uri([namespace, *([f"@{version}"] if version is not None else []), name])


def parse_skill_path(uri: SkillUri) -> SkillPath:
    """Parse a URI; raise `SkillNotFound` where it cannot name anything in a skill of a registry."""
    parts = split_uri(uri)
    segments = parts.segments
    version: str | None = None
    if segments and segments[0].startswith("@"):
        version, segments = segments[0][1:], segments[1:]
    if parts.scheme != SCHEME or not segments:
        raise SkillNotFound(f"No skill is served at {shown_uri(uri)}", uri=uri)
    return SkillPath(parts.authority, segments[0], version, "/".join(segments[1:]))


def checked_namespace(text: str) -> str:
    """The namespace, or a `FormatError`."""
    if not _NAMESPACE.fullmatch(text):
        raise _refused(f"{shown(text)!r} is not a namespace", "use lowercase letters, digits and hyphens")
    return text


def checked_version(text: str) -> str:
    """The version, or a `FormatError`."""
    if not _VERSION.fullmatch(text):
        raise _refused(f"{shown(text)!r} is not a version", "write it like 1.2.0")
    return text


def checked_channel(text: str) -> str:
    """The channel, or a `FormatError`."""
    if not _NAMESPACE.fullmatch(text):
        raise _refused(f"{shown(text)!r} is not a channel", "name it like stable or beta")
    return text


def _refused(message: str, fix: str) -> FormatError:
    return FormatError(Issue(rule="registry-name", message=message, fix=fix))


PUBLISH_PATH: Final = "/registry/v1/publish"
"""Where a registry takes drafts and their files over HTTP."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file of a version: its path in the skill, its digest and its size."""

    path: str
    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class Publication:
    """A version to be published, and the channel that will point to it.

    `parse_publication` and `publication_of` make one that is well formed. The name of the skill is in
    its `SKILL.md`.
    """

    namespace: str
    version: str
    channel: str
    files: tuple[FileRow, ...]
    promote: bool = True
    """Whether the channel is to point to it, unless the channel has a later version already."""
    expect: str | None = None
    """Publish only if the channel points to this version, and move it, forward or back."""

    @property
    def set_digest(self) -> SetDigest:
        return set_digest((file.path, file.digest) for file in self.files)


@dataclass(frozen=True, slots=True)
class Published:
    """A version that is in the registry. `is_new` is false if it was already there, with these files."""

    namespace: str
    name: str
    version: str
    set_digest: str
    signer: str
    is_new: bool
    channel: str
    listed: str | None
    """The version that the channel points to now."""

    def as_json(self) -> dict[str, object]:
        """Return what is said of it besides its name, on a terminal and over HTTP."""
        return {
            "version": self.version,
            "set_digest": self.set_digest,
            "signer": self.signer or None,
            "is_new": self.is_new,
            "channel": self.channel,
            "listed": self.listed,
        }


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of a skill, as `registry list NAMESPACE/NAME` shows it."""

    namespace: str
    name: str
    version: str
    set_digest: str
    size: int
    signer: str
    published_by: str
    published_at: int
    yanked: str | None
    channels: tuple[str, ...]
    revoked: str | None = None


@dataclass(frozen=True, slots=True)
class UploadRow:
    """Files that somebody sent to a namespace and did not publish yet. `at` is when the first one came."""

    namespace: str
    sent_by: str
    files: int
    size: int
    at: int


def publication_of(
    namespace: str,
    version: str,
    channel: str,
    contents: Iterable[FileRow],
    *,
    promote: bool = True,
    expect: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Publication:
    """A draft of well-formed parts, or the `FormatError` or `LimitExceeded` that says what is wrong."""
    rows = tuple(sorted(contents, key=lambda file: file.path))
    size = sum(row.size for row in rows)
    if excess(len(rows), size, limits):
        raise LimitExceeded(
            f"the skill has {len(rows):,} files and {size:,} bytes: at most "
            f"{limits.files_per_skill:,} files and {limits.bytes_per_skill:,} bytes can be published"
        )
    if issues := manifest_issues(row.path for row in rows):
        raise FormatError(issues)
    check_portable((row.path for row in rows), limits=limits)
    return Publication(
        checked_namespace(namespace),
        checked_version(version),
        checked_channel(channel),
        rows,
        promote,
        None if expect is None else checked_version(expect),
    )


def parse_publication(value: object, *, limits: Limits = DEFAULT_LIMITS) -> Publication:
    """A draft from JSON as a client sends it."""
    if not isinstance(value, dict):
        raise refused("draft", "the manifest is not an object", "send namespace, version, channel and files")
    fields = cast("dict[object, object]", value)
    given = fields.get("files")
    rows: list[FileRow] = []
    for one in cast("list[object]", given) if isinstance(given, list) else []:
        match one:
            case {"path": str(path), "digest": str(digest), "size": int(size)} if is_size(size):
                rows.append(FileRow(path, parse_digest(digest), size))
            case _:
                raise refused("draft", "a file has no path, digest and size", "send all three for each file")
    match fields:
        case {"namespace": str(namespace), "version": str(version), "channel": str(channel)}:
            expect = fields.get("expect")
            return publication_of(
                namespace,
                version,
                channel,
                rows,
                promote=fields.get("promote") is not False,
                expect=expect if isinstance(expect, str) else None,
                limits=limits,
            )
        case _:
            raise refused("draft", "namespace, version or channel is missing", "send all three")


def refused(rule: str, message: str, fix: str) -> FormatError:
    """The error for a draft that is not published."""
    return FormatError(Issue(rule=rule, message=message, fix=fix))
