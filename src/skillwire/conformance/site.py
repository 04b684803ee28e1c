"""Site: check the skills that a site lists under `/.well-known/agent-skills/`, with every digest.

`verify_site` fetches the index and what it lists, and returns a `SiteReport`; `site_text` and `site_json`
render it. Nothing is installed, and what is fetched is unpacked in memory alone.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from skillwire.conformance.rules import Level
from skillwire.errors import (
    DigestMismatch,
    FormatError,
    Issue,
    LimitExceeded,
    SkillwireError,
    SourceError,
    VerificationError,
)
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import SKILL_FILE, SkillEntry, SkillResource, digest_of, make_uri, parse_skill_md
from skillwire.sources import SourceKind, SourceReference, parse_reference
from skillwire.sources.wellknown import INDEX_PATH, SiteSkill, fetch_entries, fetch_index
from skillwire.text import redact_url, shown
from skillwire.trust import check_entry

if TYPE_CHECKING:
    import httpx2

_TITLES: Final = {Level.MUST: "Must fix", Level.SHOULD: "Should fix", Level.ADVICE: "Advice"}
_PUBLISH_AGAIN: Final = "write the index again after the artifacts, and upload both"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFinding:
    """One thing that is wrong. All text is safe to print on a terminal.

    `skill` is the name in the index; it is empty when the finding is about the index itself.
    """

    level: Level
    message: str
    fix: str
    skill: str = ""

    def __str__(self) -> str:
        return f"{self.skill}: {self.message}" if self.skill else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """The skills that a site lists, and findings, most serious first. URLs are without secrets."""

    target: str
    index: str
    version: str
    """The version of the discovery format; empty if the index could not be read."""
    listed: int
    checked: int
    """The number of skills whose artifact was fetched and compared."""
    findings: tuple[SiteFinding, ...]

    def failures(self, level: Level = Level.SHOULD) -> tuple[SiteFinding, ...]:
        """The findings of this level or more serious."""
        return tuple(finding for finding in self.findings if finding.level.is_at_least(level))

    @property
    def checked_nothing(self) -> bool:
        return self.checked == 0


async def verify_site(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    max_skills: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    client: httpx2.AsyncClient | None = None,
) -> SiteReport:
    """Check a site's index and everything that it lists.

    `headers` are sent to the site itself and nowhere else. `max_skills` bounds how many artifacts are
    fetched. A site that cannot be reached, or has no index, is a `SourceError`.
    """
    reference = _parse(url)
    async with _opened(client, reference.place, headers or {}, limits) as http:
        try:
            index_url, index = await fetch_index(reference, limits=limits, client=http)
        except FormatError as error:
            broken = [
                _finding(Level.MUST, issue.message, issue.fix or _PUBLISH_AGAIN) for issue in error.issues
            ]
            return _report(url, reference.place + INDEX_PATH, "", 0, 0, broken)
        wanted = [entry for entry in index.entries if reference.path in ("", entry.name)]
        chosen = wanted[: limits.verified_skills if max_skills is None else max_skills]
        skills, failures = await fetch_entries(chosen, limits=limits, client=http)
    findings = list(_index_findings(index_url, index.version, index.issues))
    if reference.path and not wanted:
        findings.append(_finding(Level.MUST, "it is not listed", "add it to the index", reference.path))
    for skill in skills:
        findings += _skill_findings(skill, limits)
    findings += [_failure_finding(name, error) for name, error in failures]
    return _report(url, index_url, index.version, len(index.entries), len(chosen), findings)


def _parse(url: str) -> SourceReference:
    """The site of a URL, or a `SourceError`. A password in it is not repeated."""
    try:
        reference = parse_reference(url)
    except FormatError:
        reference = None
    if reference is None or reference.kind is not SourceKind.SITE:
        said = shown(redact_url(url), 200)
        raise SourceError(
            f"{said} is not the URL of a site: write https://SITE, without a password or a query"
        )
    return reference


def _index_findings(index_url: str, version: str, issues: Collection[Issue]) -> Generator[SiteFinding]:
    for issue in issues:
        yield _finding(Level.MUST, issue.message, "correct the entry: installers leave it out")
    if not urlsplit(index_url).path.endswith(INDEX_PATH):
        yield _finding(Level.ADVICE, f"the index is at {redact_url(index_url)}", f"move it to {INDEX_PATH}")
    if version == "0.1.0":
        yield _finding(
            Level.ADVICE,
            "the index is of version 0.1.0, which has no digests: files cannot be checked",
            "write version 0.2.0; `skillwire serve --http HOST:PORT --well-known` does",
        )


def _skill_findings(skill: SiteSkill, limits: Limits) -> Generator[SiteFinding]:
    """Yield what is wrong with a skill whose bytes are those that the index names."""
    entry = skill.entry
    files = {file.path: file.data for file in skill.files}
    try:
        frontmatter = parse_skill_md(files[SKILL_FILE], file=SKILL_FILE, limits=limits).frontmatter
        name = frontmatter.get("name")
        if name != entry.name:
            said = f"its SKILL.md has the name {shown(str(name))!r}"
            yield _finding(Level.MUST, said, "give both the same name", entry.name)
            return
        # ENT-2, ENT-6: the same rules as for a skill that a server lists.
        check_entry(
            SkillEntry(
                uri=make_uri([entry.name, SKILL_FILE]),
                frontmatter=frontmatter,
                resources=tuple(
                    SkillResource(make_uri([entry.name, *path.split("/")]), digest_of(data), len(data))
                    for path, data in sorted(files.items())
                ),
            ),
            limits=limits,
        )
    except FormatError as error:
        for issue in error.issues:
            yield _finding(Level.MUST, str(issue), "correct the skill: installers refuse it", entry.name)
        return
    except SkillwireError as error:
        yield _failure_finding(entry.name, error)
        return
    if frontmatter.get("description") != entry.description:
        yield _finding(
            Level.ADVICE,
            "the description in the index is not the one in its SKILL.md",
            "copy it from the SKILL.md: agents use that one",
            entry.name,
        )


def _failure_finding(name: str, error: SkillwireError) -> SiteFinding:
    match error:
        case DigestMismatch():
            said = f"{error.uri} has the digest {error.actual}, the index says {error.expected}"
            return _finding(Level.MUST, said, _PUBLISH_AGAIN, name)
        case LimitExceeded():
            return _finding(Level.SHOULD, str(error), "make it smaller: installers refuse it", name)
        case FormatError() | VerificationError():
            return _finding(Level.MUST, str(error), "make the archive again: installers refuse it", name)
        case _:
            return _finding(Level.MUST, str(error), "serve what the index names", name)


def _finding(level: Level, message: str, fix: str, skill: str = "") -> SiteFinding:
    return SiteFinding(level=level, message=shown(message, 500), fix=shown(fix, 300), skill=skill)


def _report(
    target: str, index: str, version: str, listed: int, checked: int, findings: Collection[SiteFinding]
) -> SiteReport:
    order = list(Level)
    return SiteReport(
        target=redact_url(target),
        index=redact_url(index),
        version=version,
        listed=listed,
        checked=checked,
        findings=tuple(sorted(findings, key=lambda one: (order.index(one.level), one.skill))),
    )


@asynccontextmanager
async def _opened(
    client: httpx2.AsyncClient | None, place: str, headers: Mapping[str, str], limits: Limits
) -> AsyncGenerator[httpx2.AsyncClient]:
    if client is not None:
        yield client
        return
    from skillwire.net import open_client

    own = urlsplit(place)

    async def add_headers(request: httpx2.Request) -> None:
        # A token is for this site: an artifact or a redirect may belong to anyone.
        if (request.url.scheme, request.url.netloc.decode("ascii")) == (own.scheme, own.netloc.lower()):
            request.headers.update(headers)

    async with open_client(limits) as opened:
        opened.event_hooks["request"].append(add_headers)
        yield opened


def site_text(report: SiteReport) -> str:
    """The findings by level, and how much was checked."""
    version = f" (discovery {report.version})" if report.version else ""
    lines = [report.target, f"  index    {report.index}{version}"]
    lines.append(f"  skills   {report.listed:,} listed, {report.checked:,} fetched and compared")
    for level in Level:
        of_level = [finding for finding in report.findings if finding.level is level]
        if of_level:
            lines += ["", f"{_TITLES[level]} ({len(of_level)})"]
        for finding in of_level:
            lines += [f"  {finding}", f"    fix: {finding.fix}"]
    if not report.findings and report.checked:
        lines += ["", "Every artifact is what the index names, and every skill in it is valid."]
    return "\n".join(lines)


def site_json(report: SiteReport) -> str:
    """The same as a document; fields may be added, none changes its meaning."""
    document = {
        "version": 1,
        "target": report.target,
        "index": report.index,
        "discovery": report.version or None,
        "listed": report.listed,
        "checked": report.checked,
        "ok": not report.failures() and not report.checked_nothing,
        "findings": [
            {
                "level": finding.level.value,
                "skill": finding.skill or None,
                "message": finding.message,
                "fix": finding.fix,
            }
            for finding in report.findings
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=True)
