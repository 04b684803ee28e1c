"""Candidate: a skill that was fetched and checked, ready to be shown, approved and pinned."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from skillwire.documents import JsonValue
from skillwire.errors import (
    FormatError,
    LimitExceeded,
    RefusedByPolicy,
    Severity,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VerificationError,
)
from skillwire.files import expand_user
from skillwire.install.lock import (
    Lock,
    LockedFile,
    LockedSkill,
    Pin,
    requested_powers,
    starts_with_interpreter,
)
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.net import ArchiveFile, read_archive, split_skills
from skillwire.skill import (
    DYNAMIC,
    SKILL_FILE,
    Digest,
    SkillEntry,
    SkillResource,
    belongs_to_skill,
    digest_of,
    make_uri,
    parse_name,
    read_fields,
    set_digest,
)
from skillwire.text import shown
from skillwire.trust import (
    SIGNATURE_FILE,
    UNSIGNED,
    CheckedEntry,
    Origin,
    Publisher,
    Scan,
    SignatureVerdict,
    VerifiedFile,
    check_entry,
    check_signature,
    manifest_issues,
    signer_change,
    signer_text,
    verify_file,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A version of a skill with all its bytes. `skill` is its entry for the lock."""

    skill: LockedSkill
    frontmatter: Mapping[str, JsonValue]
    files: Mapping[str, bytes]
    local_entry: CheckedEntry
    """The skill as listed by a host that reads the folder it is installed into."""
    signature: SignatureVerdict = UNSIGNED
    """Who signed these files, according to the user's publishers."""
    entry: CheckedEntry | None = None
    """The server's entry, when it came from one."""
    scans: tuple[Scan, ...] = ()
    """The findings of the scanners of the policy, once it was scanned."""

    @property
    def name(self) -> str:
        return self.skill.name

    @property
    def description(self) -> str:
        value = self.frontmatter.get("description")
        return value if isinstance(value, str) else ""

    def blobs(self) -> dict[Digest, bytes]:
        """The bytes by digest, as the version store keeps them."""
        return {file.digest: self.files[file.path] for file in self.skill.files}

    def verified(self) -> list[VerifiedFile]:
        """Every file, verified against the list of files."""
        entry, origin = self.local_entry, Origin.project("install")
        resources = () if entry.resources is DYNAMIC else entry.resources
        by_uri = {make_uri([self.name, *path.split("/")]): data for path, data in self.files.items()}
        return [verify_file(entry, one.uri, by_uri[one.uri], origin) for one in resources]

    def for_targets(self, targets: Iterable[str]) -> Candidate:
        return replace(self, skill=replace(self.skill, targets=tuple(sorted(targets))))


OnCandidate: TypeAlias = Callable[[Candidate], None]
"""Called with each skill as soon as it is fetched and checked. It must not raise."""


@dataclass(frozen=True, slots=True)
class FetchFailure:
    """Something that could not be fetched, and why."""

    what: str
    """The name of a skill; where no name is known yet, its path in the source, or the source as the user
    wrote it."""
    error: SkillwireError
    scans: tuple[Scan, ...] = ()
    """The findings of the scanners of the policy, if it was scanned."""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result of fetching."""

    candidates: tuple[Candidate, ...] = ()
    failures: tuple[FetchFailure, ...] = ()


def make_candidate(
    files: Iterable[ArchiveFile],
    *,
    source: str,
    pin: Pin,
    expected_name: str = "",
    publishers: Sequence[Publisher] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Candidate:
    """Check the files of one skill, `SKILL.md` at their root, and pin them as they are.

    `FormatError`, `LimitExceeded` or `VerificationError` says why they cannot be installed.
    """
    members = tuple(files)
    if wrong := manifest_issues(file.path for file in members):
        raise FormatError(wrong)
    content = {file.path: file for file in members}
    # The same errors as those for which a server leaves a skill out.
    frontmatter, _, issues = read_fields(content[SKILL_FILE].data, directory=None, limits=limits)
    if errors := [issue for issue in issues if issue.severity is Severity.ERROR]:
        raise FormatError(errors)
    name = parse_name(str(frontmatter.get("name")))
    if expected_name and name != expected_name:
        raise FormatError.of(
            rule="name-not-directory",
            message=f"the name is '{shown(name)}', its place says '{shown(expected_name)}'",
            fix="give the skill the name of its directory",
        )
    rows = tuple(
        LockedFile(path, digest_of(file.data), len(file.data), file.executable)
        for path, file in sorted(content.items())
    )
    # ENT-2, ENT-6: the same rules as for a skill that a server lists.
    entry = check_entry(
        SkillEntry(
            uri=make_uri([name, SKILL_FILE]),
            frontmatter=frontmatter,
            resources=tuple(
                SkillResource(make_uri([name, *row.path.split("/")]), row.digest, row.size) for row in rows
            ),
        ),
        limits=limits,
    )
    bundle = content.get(SIGNATURE_FILE)
    signature = check_signature(
        {row.path: row.digest for row in rows},
        bundle.data if bundle is not None else None,
        publishers,
        now=datetime.now(UTC),
    )
    skill = LockedSkill(
        name=name,
        source=source,
        pin=pin,
        digest=set_digest((row.path, row.digest) for row in rows),
        files=rows,
        powers=requested_powers(
            frontmatter, ((file.path, file.data, file.executable) for file in content.values())
        ),
        signer=signer_text(signature),
    )
    return Candidate(
        skill=skill,
        frontmatter=frontmatter,
        files={path: file.data for path, file in content.items()},
        signature=signature,
        local_entry=entry,
    )


def with_interpreters(files: Iterable[tuple[str, bytes]]) -> tuple[ArchiveFile, ...]:
    """Files of a source without file modes: those that begin with `#!` are executable."""
    return tuple(ArchiveFile(path, data, starts_with_interpreter(data)) for path, data in files)


def read_folder(folder: Path, *, limits: Limits = DEFAULT_LIMITS) -> dict[str, tuple[ArchiveFile, ...]]:
    """The files of every skill below a folder, by the path of its own folder.

    A link that stays in the folder is read as the file that it leads to; one that leaves it is an error.
    """
    real = expand_user(folder).resolve()
    if not real.is_dir():
        raise SourceError(
            f"{folder} is not a folder: name a folder with SKILL.md in it or below it"
            if real.exists()
            else f"{folder} does not exist: name a folder with SKILL.md in it or below it"
        )
    found: dict[str, tuple[ArchiveFile, ...]] = {}
    waiting = [""]
    seen = 0
    while waiting:
        below = waiting.pop()
        here = real / below if below else real
        seen += 1
        if seen > limits.directories_per_root:
            raise LimitExceeded(f"{folder} has more than {limits.directories_per_root:,} folders")
        if (here / SKILL_FILE).is_file():
            found[below] = _read_skill(here, real, limits)
            continue
        for entry in sorted(os.scandir(here), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False) and belongs_to_skill(entry.name):
                waiting.append(f"{below}/{entry.name}" if below else entry.name)
    return dict(sorted(found.items()))


def read_archive_file(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> dict[str, tuple[ArchiveFile, ...]]:
    """The files of every skill in an archive on disk."""
    try:
        with expand_user(path).open("rb") as stream:
            data = stream.read(limits.archive_bytes + 1)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    try:
        return split_skills(read_archive(data, limits=limits))
    except FormatError as error:
        raise FormatError(replace(issue, file=str(path)) for issue in error.issues) from None


def _read_skill(folder: Path, root: Path, limits: Limits) -> tuple[ArchiveFile, ...]:
    files: list[ArchiveFile] = []
    total = 0
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(folder / below if below else folder) as entries:
            for entry in entries:
                if not belongs_to_skill(entry.name):
                    continue
                path = f"{below}/{entry.name}" if below else entry.name
                real = Path(entry.path).resolve()
                if entry.is_symlink() and not real.is_relative_to(root):
                    raise VerificationError(
                        f"{shown(path)} is a link that leaves {root}: it is not installed", uri=path
                    )
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file():
                    status = entry.stat()
                    total += status.st_size
                    # Before it is read: `check_entry` sees only what is in memory already.
                    if len(files) >= limits.files_per_skill or total > limits.bytes_per_skill:
                        raise LimitExceeded(
                            f"{folder} has more than {limits.files_per_skill} files or "
                            f"{limits.bytes_per_skill:,} bytes: make it smaller"
                        )
                    files.append(ArchiveFile(path, real.read_bytes(), bool(status.st_mode & 0o100)))
                else:
                    raise VerificationError(
                        f"{shown(path)} is not a plain file: it is not installed", uri=path
                    )
    return tuple(sorted(files, key=lambda file: file.path))


def not_what_is_pinned(skill: LockedSkill, actual: str, *, option: str = "") -> VerificationError:
    """The error for a source whose bytes differ from the lock."""
    return VerificationError(
        f"{skill.name}: {shown(skill.source, 200)} has another version now ({actual[:19]}…, pinned is "
        f"{skill.digest[:19]}…): `skillwire update {skill.name}{option}` shows what changed",
        uri=skill.name,
    )


@dataclass(frozen=True, slots=True)
class Proposal:
    """The skills that would be installed. A candidate in `known` is installed already, as it is."""

    candidates: tuple[Candidate, ...]
    before: Mapping[str, LockedSkill] = field(default_factory=dict[str, LockedSkill])
    """The pins that would be replaced."""
    known: tuple[Candidate, ...] = ()
    failures: tuple[FetchFailure, ...] = ()


def propose(
    fetched: FetchResult, lock: Lock, targets: tuple[str, ...] | None, *, option: str = ""
) -> Proposal:
    """Return the changes to the lock, by name. `targets` of `None` means an update: each skill keeps its own.

    A name that another source has already, or that two skills have, is a failure.
    """
    failures = list(fetched.failures)
    new: dict[str, Candidate] = {}
    known: list[Candidate] = []
    before: dict[str, LockedSkill] = {}
    for candidate in fetched.candidates:
        pinned = lock.get(candidate.name)
        if candidate.name in new or any(one.name == candidate.name for one in known):
            failures.append(FetchFailure(candidate.name, _two_of_one_name(candidate)))
            continue
        if pinned is not None and targets is not None and not _same_source(pinned, candidate.skill):
            failures.append(FetchFailure(candidate.name, _name_taken(pinned, option)))
            continue
        own = targets if targets is not None else pinned.targets if pinned else ()
        merged = sorted({*own, *(pinned.targets if pinned else ())})
        ready = candidate.for_targets(merged)
        if pinned is not None:
            ready = replace(ready, skill=ready.skill.with_unknown_keys(pinned))
        if pinned is not None and _is_pinned(pinned, ready.skill):
            known.append(ready)
            continue
        if pinned is not None:
            before[candidate.name] = pinned
        new[candidate.name] = ready
    return Proposal(tuple(new.values()), before, tuple(known), tuple(failures))


def not_granted(skill: LockedSkill, tools: Sequence[str]) -> SkillwireError:
    """Why a skill with powers is not installed."""
    if tools:
        return RefusedByPolicy(
            f"{skill.name} asks for tools ({shown(' '.join(tools), 200)}) that were not granted: "
            "--allow-tools grants them"
        )
    return RefusedByPolicy(
        f"{skill.name} has scripts ({shown(', '.join(skill.powers.scripts), 200)}) that were not granted: "
        "--allow-code grants them"
    )


def _is_pinned(pinned: LockedSkill, candidate: LockedSkill) -> bool:
    return (
        pinned.digest == candidate.digest
        and pinned.targets == candidate.targets
        and pinned.powers == candidate.powers
        and pinned.pin == candidate.pin
        and pinned.source == candidate.source
        and [file.executable for file in pinned.files] == [file.executable for file in candidate.files]
        # The same files can lose their signer: a certificate expires, a publisher is no longer configured.
        and not signer_change(pinned.signer, candidate.signer)
    )


def _same_source(pinned: LockedSkill, candidate: LockedSkill) -> bool:
    return pinned.source == candidate.source or pinned.pin.identity == candidate.pin.identity


def _name_taken(pinned: LockedSkill, option: str) -> SkillwireError:
    return RefusedByPolicy(
        f"{pinned.name} is already installed from {shown(pinned.source, 200)}: to replace it, run "
        f"`skillwire remove {pinned.name}{option}` first"
    )


def _two_of_one_name(candidate: Candidate) -> SkillwireError:
    return FormatError.of(
        rule="two-skills",
        message=f"two skills are called {candidate.name}, one in {shown(candidate.skill.source, 200)}",
        fix="add one of them by its own path",
    )


class Freshness(StrEnum):
    """Whether a pinned skill is what its source has now."""

    CURRENT = "current"
    """The source has exactly the pinned files."""
    OUTDATED = "outdated"
    """The source has other files under the name; `Check.detail` is their digest."""
    GONE = "gone"
    """The source answers, and no longer has the skill. What is installed stays until the user removes it,
    because the pinned bytes are kept."""
    UNKNOWN = "unknown"
    """The source cannot be reached, or what it says cannot be used; `Check.detail` says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """The answer of a source about one pinned skill."""

    skill: LockedSkill
    freshness: Freshness
    detail: str = ""
    """The digest at the source when the skill is outdated, the reason when it is gone or unknown."""

    @classmethod
    def compared(cls, skill: LockedSkill, same: bool, digest: str) -> Check:
        """The source has the pinned files, or others with this digest."""
        return cls(skill, Freshness.CURRENT) if same else cls(skill, Freshness.OUTDATED, digest)

    @classmethod
    def failed(cls, skill: LockedSkill, error: SkillwireError) -> Check:
        """The source does not have the skill, or could not be asked."""
        gone = isinstance(error, SkillNotFound)
        return cls(skill, Freshness.GONE if gone else Freshness.UNKNOWN, str(error))
