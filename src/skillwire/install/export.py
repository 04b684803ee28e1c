"""Export: pinned skills and their lock, as a folder or an archive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from skillwire.errors import SourceError, VerificationError
from skillwire.files import write_atomic
from skillwire.install.apply import write_tree
from skillwire.install.candidates import read_folder
from skillwire.install.lock import LockedSkill
from skillwire.install.lock_format import format_lock
from skillwire.install.workspace import Workspace
from skillwire.skill.digests import digest_of
from skillwire.sources.archive import ArchiveFile, write_tar_gz


def content_of(workspace: Workspace, skill: LockedSkill) -> dict[str, bytes]:
    """The bytes of a pinned skill, from the version store or from its folder, verified."""
    if workspace.versions.has(skill):
        return workspace.versions.content(skill)
    folder = workspace.places.canonical(workspace.scope) / skill.name
    files = read_folder(folder, limits=workspace.limits).get("", ()) if folder.is_dir() else ()
    content = {file.path: file.data for file in files}
    wanted = {file.path: file.digest for file in skill.files}
    actual = {path: digest_of(data) for path, data in content.items()}
    if actual != wanted:
        raise VerificationError(
            f"{skill.name} is not installed as pinned: run `skillwire sync` first", uri=skill.name
        )
    return content


def export_skills(
    workspace: Workspace, place: Path, names: Iterable[str] | None = None
) -> tuple[LockedSkill, ...]:
    """Write pinned skills and their lock to a new folder, or to a reproducible archive."""
    lock = workspace.require_lock()
    skills = lock.skills if names is None else tuple(lock.require(name) for name in names)
    text = format_lock(replace(lock, skills=tuple(skills)))
    contents = {skill.name: content_of(workspace, skill) for skill in skills}
    if place.name.endswith((".tar.gz", ".tgz")):
        files = [
            ArchiveFile(f"{skill.name}/{file.path}", contents[skill.name][file.path], file.executable)
            for skill in skills
            for file in skill.files
        ]
        _write_new(place, write_tar_gz([*files, ArchiveFile("skillwire.lock", text.encode())]))
        return tuple(skills)
    if place.name.endswith((".zip", ".tar", ".tar.bz2", ".tar.xz", ".tar.zst")):
        raise SourceError(f"{place}: only .tar.gz archives are written: name one, or a new folder")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise SourceError(f"{place} already exists: name a new folder, or a file that ends in .tar.gz")
    try:
        place.mkdir(parents=True, exist_ok=True)
        for skill in skills:
            write_tree(place / skill.name, skill, contents[skill.name])
        (place / "skillwire.lock").write_text(text, "utf-8")
    except OSError as error:
        raise SourceError(f"{place} cannot be written: {error.strerror}") from None
    return tuple(skills)


def _write_new(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data, mode=0o644)
    except OSError as error:
        raise SourceError(f"{path} cannot be written: {error.strerror}") from None
