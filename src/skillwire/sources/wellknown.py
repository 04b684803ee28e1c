"""Skills that a site lists under `/.well-known/agent-skills/` (Agent Skills Discovery 0.2.0 and 0.1.0).

`parse_site_index` parses an index and does no I/O. `fetch_site` fetches an index and what it lists, within
limits, and refuses everything whose digest does not match.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urljoin, urlsplit

import anyio

from skillwire.documents import DocumentError, is_list, is_object, read_json
from skillwire.errors import DigestMismatch, FormatError, Issue, SkillwireError, SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.net import ArchiveFile, check_target, is_archive, read_archive
from skillwire.net.addresses import Reachability, is_same_host, reach_of
from skillwire.skill import Digest, digest_of, name_issues, parse_digest, safe_path, set_digest
from skillwire.sources.reference import SourceReference
from skillwire.text import redact_url, shown
from skillwire.trust import excess, manifest_issues

if TYPE_CHECKING:
    import httpx2

    from skillwire.net.http import StatusError

SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
"""The schema of version 0.2.0. It is compared as a string and never fetched."""
INDEX_PATH: Final = "/.well-known/agent-skills/index.json"
_OLDER_PATH: Final = "/.well-known/skills/index.json"
_TOGETHER: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteEntry:
    """One skill of an index. Version 0.1.0 lists files and no digest."""

    name: str
    description: str
    url: str
    """The artifact; in version 0.1.0, the folder of the files."""
    kind: str
    digest: Digest | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteIndex:
    """The skills that a site lists, and what was left out of it."""

    version: str
    entries: tuple[SiteEntry, ...]
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteSkill:
    """A skill that was fetched, its files at the root."""

    entry: SiteEntry
    digest: Digest
    """The digest of the artifact; in version 0.1.0, of the set of files."""
    files: tuple[ArchiveFile, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """The skills fetched from a site, and why others were not."""

    index_url: str
    skills: tuple[SiteSkill, ...]
    failures: tuple[tuple[str, SkillwireError], ...] = ()
    issues: tuple[Issue, ...] = ()


def parse_site_index(
    data: bytes, url: str, *, wanted: Collection[str] = (), limits: Limits = DEFAULT_LIMITS
) -> SiteIndex:
    """Parse an index from `url`, or raise a `FormatError`. A bad entry does not affect the others.

    A longer index than the limit is cut, with one remark; after that only `wanted` names are read.
    """
    try:
        document: object = read_json(data, what=redact_url(url), limits=limits)
    except DocumentError as error:
        raise _no_index(url, str(error)) from None
    if not is_object(document) or not is_list(document.get("skills")):
        raise _no_index(url, "it has no list of skills")
    schema = document.get("$schema")
    if schema is not None and schema != SCHEMA:
        # The format requires that unknown versions are refused.
        raise _no_index(url, f"its version {shown(str(schema), 120)} is not known here")
    entries: dict[str, SiteEntry] = {}
    issues: list[Issue] = []
    rows = document["skills"] if is_list(document["skills"]) else []
    for number, row in enumerate(rows):
        if number >= limits.site_skills and not (is_object(row) and row.get("name") in wanted):
            continue
        try:
            entry = _entry(row, url) if schema else _older_entry(row, url, limits)
        except FormatError as error:
            issues.append(
                Issue(rule="site-entry", message=f"skills[{number}] is left out: {error.issues[0].message}")
            )
            continue
        if entry.name in entries:
            issues.append(
                Issue(rule="site-entry", message=f"skills[{number}] is left out: {entry.name} is there twice")
            )
            continue
        entries[entry.name] = entry
    if len(rows) > limits.site_skills:
        issues.append(
            Issue(
                rule="site-index",
                message=f"{redact_url(url)} lists {len(rows):,} skills, and only the first "
                f"{limits.site_skills:,} are read",
                fix="add #NAME to the address of the site to get another one",
            )
        )
    return SiteIndex("0.2.0" if schema else "0.1.0", tuple(entries.values()), tuple(issues))


async def fetch_index(
    reference: SourceReference,
    *,
    token: str = "",
    limits: Limits = DEFAULT_LIMITS,
    client: httpx2.AsyncClient | None = None,
) -> tuple[str, SiteIndex]:
    """The index of a site and where it was found. The `token` is for that site alone."""
    async with _opened(client, limits, site=reference.place, token=token) as http:
        return await _find_index(http, reference, limits)


async def fetch_site(
    reference: SourceReference,
    *,
    names: Iterable[str] | None = None,
    token: str = "",
    limits: Limits = DEFAULT_LIMITS,
    client: httpx2.AsyncClient | None = None,
) -> Site:
    """The skills of a site, or some of them by name, fetched concurrently and verified. The `token` is for
    that site alone."""
    async with _opened(client, limits, site=reference.place, token=token) as http:
        names = None if names is None else frozenset(names)
        url, index = await _find_index(http, reference, limits, names)
        wanted = {reference.path} if reference.path else names
        entries = [entry for entry in index.entries if wanted is None or entry.name in wanted]
        skills, failures = await fetch_entries(entries, limits=limits, client=http)
        return Site(url, skills, failures, index.issues)


async def fetch_entries(
    entries: Iterable[SiteEntry], *, limits: Limits = DEFAULT_LIMITS, client: httpx2.AsyncClient | None = None
) -> tuple[tuple[SiteSkill, ...], tuple[tuple[str, SkillwireError], ...]]:
    """The skills of these entries, fetched concurrently and verified, and why others failed."""
    skills: dict[str, SiteSkill] = {}
    failures: dict[str, SkillwireError] = {}
    limiter = anyio.CapacityLimiter(_TOGETHER)
    async with _opened(client, limits) as http:

        async def fetch(entry: SiteEntry) -> None:
            async with limiter:
                try:
                    skills[entry.name] = await _fetch_skill(http, entry, limits)
                except SkillwireError as error:
                    failures[entry.name] = error

        async with anyio.create_task_group() as tasks:
            for entry in entries:
                tasks.start_soon(fetch, entry)
    return (
        tuple(skills[name] for name in sorted(skills)),
        tuple((name, failures[name]) for name in sorted(failures)),
    )


async def fetch_artifact(
    url: str,
    digest: str,
    *,
    index: str,
    token: str = "",
    limits: Limits = DEFAULT_LIMITS,
    client: httpx2.AsyncClient | None = None,
) -> tuple[ArchiveFile, ...]:
    """The files of one artifact by its URL, if it still has this digest and `index` may name that URL. The
    `token` is for the site of the index alone."""
    check_target(index, url)
    reach = None if is_same_host(index, url) else reach_of(urlsplit(index).hostname or "")
    entry = SiteEntry(name="", description="", url=url, kind="artifact", digest=parse_digest(digest))
    async with _opened(client, limits, reach=reach, site=index, token=token) as http:
        return (await _fetch_skill(http, entry, limits)).files


async def _find_index(
    http: httpx2.AsyncClient, reference: SourceReference, limits: Limits, names: Iterable[str] | None = None
) -> tuple[str, SiteIndex]:
    from skillwire.net.http import StatusError, fetch

    place = reference.place
    wanted = frozenset({reference.path} if reference.path else names or ())
    candidates = [place] if place.endswith("/index.json") else [place + INDEX_PATH, place + _OLDER_PATH]
    refusal: SkillwireError | None = None
    for url in candidates:
        try:
            data = await fetch(http, url, most=limits.document_bytes, seconds=limits.call_seconds)
            return url, parse_site_index(data, url, wanted=wanted, limits=limits)
        except (SourceError, FormatError) as error:
            if isinstance(error, StatusError):
                error = _better_status(error, url)
            # An index that cannot be used says more than a missing one; otherwise, the newer path counts.
            if refusal is None or (isinstance(error, FormatError) and not isinstance(refusal, FormatError)):
                refusal = error
    raise refusal or SourceError(f"{redact_url(place)} has no index of skills")


async def _fetch_skill(http: httpx2.AsyncClient, entry: SiteEntry, limits: Limits) -> SiteSkill:
    if entry.digest is None:
        return await _fetch_files(http, entry, limits)
    from skillwire.net.http import fetch

    data = await fetch(
        http, entry.url, most=limits.archive_bytes, seconds=limits.call_seconds, is_pinned=True
    )
    actual = digest_of(data)
    if actual != entry.digest:
        raise DigestMismatch(uri=redact_url(entry.url), expected=entry.digest, actual=actual)
    # A pinned artifact has no type, so archives are recognized by their first bytes.
    is_text = entry.kind == "skill-md" or (entry.kind == "artifact" and not is_archive(data))
    files = (ArchiveFile("SKILL.md", data),) if is_text else read_archive(data, limits=limits)
    # The format wants it at the root, which is said here. All files are checked by whoever makes an entry.
    if all(file.path != "SKILL.md" for file in files):
        raise FormatError.of(
            rule="archive", message=f"the archive of {entry.name} has no SKILL.md at its root"
        )
    return SiteSkill(entry, entry.digest, files)


async def _fetch_files(http: httpx2.AsyncClient, entry: SiteEntry, limits: Limits) -> SiteSkill:
    from skillwire.net.http import fetch

    files: list[ArchiveFile] = []
    left = limits.unpacked_bytes
    for path in entry.files:
        url = f"{entry.url}/{quote(path)}"
        data = await fetch(http, url, most=min(left, limits.archive_bytes), seconds=limits.call_seconds)
        left -= len(data)
        files.append(ArchiveFile(path, data))
    digest = set_digest((file.path, digest_of(file.data)) for file in files)
    return SiteSkill(entry, Digest(digest), tuple(sorted(files, key=lambda file: file.path)))


def _better_status(error: StatusError, url: str) -> SourceError:
    """A site that has no index may be something else that skills come from."""
    place, is_index, _ = url.partition(INDEX_PATH)
    if error.status in (401, 403):
        return SourceError(
            f"{error}: if it asks for a token, put yours into a variable and name that with "
            "`add --token-env`, or as token_env of the site under [sources] in your own skillwire.toml"
        )
    if error.status != 404 or not is_index or not urlsplit(place).path.strip("/"):
        return error
    named = redact_url(place)
    return SourceError(
        f"{error}: if it is an MCP server, `skillwire servers add NAME {named}` first; if it is a "
        f"repository, write git+{named}"
    )


@asynccontextmanager
async def _opened(
    client: httpx2.AsyncClient | None,
    limits: Limits,
    *,
    reach: Reachability | None = None,
    site: str = "",
    token: str = "",
) -> AsyncGenerator[httpx2.AsyncClient]:
    if client is not None:
        yield client
        return
    from skillwire.net import open_client

    async with open_client(limits, reach=reach, site=site, token=token) as opened:
        yield opened


def _entry(row: object, index_url: str) -> SiteEntry:
    name, description = _named(row)
    row = row if is_object(row) else {}
    kind, url, digest = row.get("type"), row.get("url"), row.get("digest")
    if kind not in ("skill-md", "archive"):
        raise _refused(f"the type of {name} is not skill-md or archive")
    if not isinstance(url, str) or not url:
        raise _refused(f"{name} has no URL")
    try:
        target = urljoin(index_url, url)
        check_target(index_url, target)
    except (ValueError, SourceError):
        raise _refused(f"the URL of {name} is not one that is followed from here") from None
    if not isinstance(digest, str):
        raise _refused(f"{name} has no digest")
    return SiteEntry(
        name=name, description=description, url=target, kind=str(kind), digest=parse_digest(digest)
    )


def _older_entry(row: object, index_url: str, limits: Limits) -> SiteEntry:
    name, description = _named(row)
    files = row.get("files") if is_object(row) else None
    if not is_list(files) or not all(isinstance(file, str) for file in files):
        raise _refused(f"{name} has no list of files")
    # Before the paths are read.
    if excess(len(files), 0, limits):
        raise _refused(f"{name} lists more than {limits.files_per_skill:,} files")
    paths = tuple(safe_path(str(file)) for file in files)
    if issues := manifest_issues(paths):
        raise _refused(f"{name}: {issues[0].message}")
    folder = urljoin(index_url, quote(name))
    return SiteEntry(name=name, description=description, url=folder, kind="files", files=paths)


def _named(row: object) -> tuple[str, str]:
    if not is_object(row):
        raise _refused("it is not an object")
    name, description = row.get("name"), row.get("description")
    if not isinstance(name, str) or name_issues(name):
        raise _refused("its name is not the name of a skill")
    if not isinstance(description, str) or not description.strip() or len(description) > 1024:
        raise _refused(f"the description of {name} is missing or too long")
    return name, description


def _no_index(url: str, message: str) -> FormatError:
    return FormatError.of(
        rule="site-index",
        message=f"{redact_url(url)} is not an index of skills: {message}",
        fix="tell the site's operator, or use a newer Skillwire",
    )


def _refused(message: str) -> FormatError:
    return FormatError.of(rule="site-entry", message=message)
