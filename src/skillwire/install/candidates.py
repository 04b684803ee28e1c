"""Candidate: a skill that was fetched and checked, ready to be shown, approved and pinned."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from skillwire.errors import FormatError, LimitExceeded, SkillwireError, SourceError, VerificationError
from skillwire.files import expand_user
from skillwire.install.lock import LockedFile, LockedSkill, Pin
from skillwire.install.powers import requested_powers, starts_with_interpreter
from skillwire.issues import shown
from skillwire.json_types import JsonValue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.digests import Digest, digest_of, set_digest
from skillwire.skill.entries import SkillEntry, SkillResource
from skillwire.skill.files import belongs_to_skill
from skillwire.skill.frontmatter import parse_skill_md
from skillwire.skill.names import parse_name
from skillwire.skill.uris import SKILL_FILE, make_uri
from skillwire.sources.archive import ArchiveFile, read_archive
from skillwire.trust.oms import SIGNATURE_FILE
from skillwire.trust.publishers import Publisher
from skillwire.trust.signatures import UNSIGNED, SignatureVerdict, check_signature
from skillwire.trust.signers import signer_text
from skillwire.trust.verify import CheckedEntry, check_entry


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
    """What the server listed, when it came from one."""

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

    def for_targets(self, targets: Iterable[str]) -> Candidate:
        return replace(self, skill=replace(self.skill, targets=tuple(sorted(targets))))


OnCandidate: TypeAlias = Callable[[Candidate], None]
"""Called with each skill as soon as it is fetched and checked. It must not raise."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that could not be fetched, and why."""

    what: str
    """The name of a skill; where no name is known yet, its path in the source, or the source as the user
    wrote it."""
    error: SkillwireError


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of fetching."""

    candidates: tuple[Candidate, ...] = ()
    failures: tuple[Failure, ...] = ()


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
    content = {file.path: file for file in files}
    skill_md = content.get(SKILL_FILE)
    if skill_md is None:
        raise FormatError.of(rule="no-skill-md", message=f"there is no {SKILL_FILE}", fix="add one")
    frontmatter = parse_skill_md(skill_md.data, file=SKILL_FILE, limits=limits).frontmatter
    given = frontmatter.get("name")
    name = parse_name(given if isinstance(given, str) else "")
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


def split_skills(files: Iterable[ArchiveFile]) -> dict[str, tuple[ArchiveFile, ...]]:
    """The files of every skill among files, by the folder that contains it, with paths relative to that.

    A skill inside another one is part of the outer one.
    """
    listed = tuple(files)
    roots = sorted(file.path.removesuffix(SKILL_FILE) for file in listed if _is_skill_md(file.path))
    outer = [root for root in roots if not any(root != other and root.startswith(other) for other in roots)]
    return {
        root.rstrip("/"): tuple(
            replace(file, path=file.path.removeprefix(root)) for file in listed if file.path.startswith(root)
        )
        for root in outer
    }


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


def _is_skill_md(path: str) -> bool:
    return path == SKILL_FILE or path.endswith(f"/{SKILL_FILE}")


def not_what_is_pinned(skill: LockedSkill, actual: str) -> VerificationError:
    """The error for a source whose bytes differ from the lock."""
    return VerificationError(
        f"{skill.name}: {shown(skill.source, 200)} has another version now ({actual[:19]}…, pinned is "
        f"{skill.digest[:19]}…): `skillwire update {skill.name}` shows what changed",
        uri=skill.name,
    )
