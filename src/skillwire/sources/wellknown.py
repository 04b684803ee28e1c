"""Skills that a site lists under `/.well-known/agent-skills/` (Agent Skills Discovery 0.2.0 and 0.1.0).

`parse_site_index` parses an index and does no I/O. `fetch_site` fetches an index and what it lists, within
limits, and refuses everything whose digest does not match.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urljoin, urlsplit

import anyio

from skillwire.errors import DigestMismatch, FormatError, LimitExceeded, SkillwireError, SourceError
from skillwire.issues import Issue, shown
from skillwire.json_types import is_list, is_object
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.digests import Digest, digest_of, parse_digest, set_digest
from skillwire.skill.names import name_issues
from skillwire.sources.archive import ArchiveFile, is_archive, read_archive, safe_path
from skillwire.sources.reference import Reference
from skillwire.text import redact_url

if TYPE_CHECKING:
    import httpx2

SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
"""The schema of version 0.2.0. It is compared as a string and never fetched."""
INDEX_PATH: Final = "/.well-known/agent-skills/index.json"
_OLDER_PATH: Final = "/.well-known/skills/index.json"
_MOST_REDIRECTS: Final = 5
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
    """What a site lists, and what was left out of it."""

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
    """What was fetched from a site, and why other skills were not."""

    index_url: str
    skills: tuple[SiteSkill, ...]
    failures: tuple[tuple[str, SkillwireError], ...] = ()
    issues: tuple[Issue, ...] = ()


def parse_site_index(data: bytes, url: str) -> SiteIndex:
    """Parse an index from `url`, or raise a `FormatError`. A bad entry does not affect the others."""
    try:
        document: object = json.loads(data)
    except (ValueError, RecursionError):
        raise _no_index(url, "it is not JSON") from None
    if not is_object(document) or not is_list(document.get("skills")):
        raise _no_index(url, "it has no list of skills")
    schema = document.get("$schema")
    if schema is not None and schema != SCHEMA:
        # The format requires that unknown versions are refused.
        raise _no_index(url, f"its version {shown(str(schema), 120)} is not known here")
    entries: dict[str, SiteEntry] = {}
    issues: list[Issue] = []
    rows = document["skills"]
    for number, row in enumerate(rows if is_list(rows) else ()):
        try:
            entry = _entry(row, url) if schema else _older_entry(row, url)
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
    return SiteIndex("0.2.0" if schema else "0.1.0", tuple(entries.values()), tuple(issues))


async def fetch_index(
    reference: Reference, *, limits: Limits = DEFAULT_LIMITS, client: httpx2.AsyncClient | None = None
) -> tuple[str, SiteIndex]:
    """The index of a site and where it was found."""
    async with _opened(client, limits) as http:
        return await _find_index(http, reference, limits)


async def fetch_site(
    reference: Reference,
    *,
    names: Iterable[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    client: httpx2.AsyncClient | None = None,
) -> Site:
    """The skills of a site, or some of them by name, fetched concurrently and verified."""
    async with _opened(client, limits) as http:
        url, index = await _find_index(http, reference, limits)
        wanted = {reference.path} if reference.path else None if names is None else set(names)
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
    url: str, digest: str, *, limits: Limits = DEFAULT_LIMITS, client: httpx2.AsyncClient | None = None
) -> tuple[ArchiveFile, ...]:
    """The files of one artifact by its URL, if it still has this digest."""
    entry = SiteEntry(name="", description="", url=url, kind="artifact", digest=parse_digest(digest))
    async with _opened(client, limits) as http:
        return (await _fetch_skill(http, entry, limits)).files


async def _find_index(
    http: httpx2.AsyncClient, reference: Reference, limits: Limits
) -> tuple[str, SiteIndex]:
    place = reference.place
    candidates = [place] if place.endswith("/index.json") else [place + INDEX_PATH, place + _OLDER_PATH]
    refusal: SkillwireError | None = None
    for url in candidates:
        try:
            index = parse_site_index(await _get(http, url, limits.archive_bytes, limits), url)
        except (SourceError, FormatError) as error:
            # An index that cannot be used says more than a missing one; otherwise, the newer path counts.
            if refusal is None or (isinstance(error, FormatError) and not isinstance(refusal, FormatError)):
                refusal = error
            continue
        if len(index.entries) > limits.site_skills:
            raise LimitExceeded(
                f"{redact_url(url)} lists {len(index.entries):,} skills, at most {limits.site_skills:,} are "
                f"read: name one of them ({redact_url(place)}#NAME)"
            )
        return url, index
    raise refusal or SourceError(f"{redact_url(place)} has no index of skills")


async def _fetch_skill(http: httpx2.AsyncClient, entry: SiteEntry, limits: Limits) -> SiteSkill:
    if entry.digest is None:
        return await _fetch_files(http, entry, limits)
    data = await _get(http, entry.url, limits.archive_bytes, limits)
    actual = digest_of(data)
    if actual != entry.digest:
        raise DigestMismatch(uri=redact_url(entry.url), expected=entry.digest, actual=actual)
    # A pinned artifact has no type, so archives are recognized by their first bytes.
    is_text = entry.kind == "skill-md" or (entry.kind == "artifact" and not is_archive(data))
    files = (ArchiveFile("SKILL.md", data),) if is_text else read_archive(data, limits=limits)
    if all(file.path != "SKILL.md" for file in files):
        raise FormatError.of(
            rule="archive", message=f"the archive of {entry.name} has no SKILL.md at its root"
        )
    return SiteSkill(entry, entry.digest, files)


async def _fetch_files(http: httpx2.AsyncClient, entry: SiteEntry, limits: Limits) -> SiteSkill:
    files: list[ArchiveFile] = []
    left = limits.unpacked_bytes
    for path in entry.files:
        data = await _get(http, f"{entry.url}/{quote(path)}", min(left, limits.archive_bytes), limits)
        left -= len(data)
        files.append(ArchiveFile(path, data))
    digest = set_digest((file.path, digest_of(file.data)) for file in files)
    return SiteSkill(entry, Digest(digest), tuple(sorted(files, key=lambda file: file.path)))


async def _get(http: httpx2.AsyncClient, url: str, most: int, limits: Limits) -> bytes:
    """The body of a response, cut off at the limit."""
    import httpx2

    shown_url = redact_url(url)
    try:
        with anyio.fail_after(limits.call_seconds):
            for _ in range(_MOST_REDIRECTS + 1):
                async with http.stream("GET", url) as response:
                    if response.is_redirect:
                        url = _redirected(url, response.headers.get("location", ""))
                        continue
                    if response.status_code != 200:
                        raise _bad_status(url, response.status_code)
                    body = bytearray()
                    async for chunk in response.aiter_bytes():
                        body += chunk
                        if len(body) > most:
                            raise LimitExceeded(f"{shown_url} has more than {most:,} bytes: it is cut off")
                    return bytes(body)
    except TimeoutError:
        raise SourceError(f"{shown_url} did not answer within {limits.call_seconds:g} seconds") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        reason = str(error) or type(error).__name__
        if isinstance(error, httpx2.ConnectError) and "attempts failed" in reason:
            reason = "nothing listens there; check the address"
        elif _is_unknown_name(error):
            reason = "the name of the host is not known; check the address and the network"
        raise SourceError(f"{shown_url} cannot be reached", said=reason) from None
    raise SourceError(f"{shown_url} redirects more than {_MOST_REDIRECTS} times")


def _is_unknown_name(error: BaseException | None) -> bool:
    """Whether a name could not be resolved: that is the first cause of an error, which `httpx2` wraps."""
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    return error is not None


def _bad_status(url: str, status: int) -> SourceError:
    """A site that has no index may be something else that skills come from."""
    words = f"{redact_url(url)} answers with status {status}"
    place, is_index, _ = url.partition(INDEX_PATH)
    path = urlsplit(place).path
    if status == 404 and is_index and path.strip("/"):
        named = redact_url(place)
        words += (
            f": if it is an MCP server, `skillwire servers add NAME {named}` first; if it is a repository, "
            f"write git+{named}"
        )
    return SourceError(words)


def _redirected(url: str, location: str) -> str:
    target = urljoin(url, location)
    if not _is_as_safe(url, target):
        raise SourceError(f"{redact_url(url)} redirects to {redact_url(target)}, which is not followed")
    return target


def _is_as_safe(url: str, target: str) -> bool:
    """Whether a URL is http or https, and no less secure than the one that referred to it."""
    before, after = urlsplit(url), urlsplit(target)
    return bool(after.hostname) and after.scheme in ("https", before.scheme) and "@" not in after.netloc


@asynccontextmanager
async def _opened(client: httpx2.AsyncClient | None, limits: Limits) -> AsyncGenerator[httpx2.AsyncClient]:
    if client is not None:
        yield client
        return
    import httpx2

    async with httpx2.AsyncClient(
        follow_redirects=False, timeout=limits.call_seconds, headers={"Accept-Encoding": "identity"}
    ) as opened:
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
        is_safe = _is_as_safe(index_url, target)
    except ValueError:
        is_safe, target = False, ""
    if not is_safe:
        raise _refused(f"the URL of {name} is not one that is followed from here")
    if not isinstance(digest, str):
        raise _refused(f"{name} has no digest")
    return SiteEntry(
        name=name, description=description, url=target, kind=str(kind), digest=parse_digest(digest)
    )


def _older_entry(row: object, index_url: str) -> SiteEntry:
    name, description = _named(row)
    files = row.get("files") if is_object(row) else None
    if not is_list(files) or not all(isinstance(file, str) for file in files):
        raise _refused(f"{name} has no list of files")
    paths = tuple(dict.fromkeys(safe_path(str(file)) for file in files))
    if "SKILL.md" not in paths:
        raise _refused(f"{name} does not list SKILL.md")
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
