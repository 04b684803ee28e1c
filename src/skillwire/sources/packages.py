"""Skills in installed Python packages, at `PACKAGE/.agents/skills/NAME/SKILL.md`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath
from typing import Final

_FOLDER: Final = (".agents", "skills")
_SKILL_FILE: Final = "SKILL.md"


@dataclass(frozen=True, slots=True, order=True)
class PackageSkills:
    """The folder of skills of one package."""

    package: str
    version: str
    folder: Path


def packages_with_skills(found: Iterable[Distribution] | None = None) -> tuple[PackageSkills, ...]:
    """Every installed package with skills, sorted by name. No package is imported: skills are found by its
    list of installed files.
    """
    packages: dict[Path, PackageSkills] = {}
    for distribution in distributions() if found is None else found:
        name = distribution.metadata["Name"]
        if not name:
            continue
        for folder in _folders(distribution):
            packages.setdefault(folder, PackageSkills(name.lower(), distribution.version, folder))
    return tuple(sorted(packages.values()))


def _folders(distribution: Distribution) -> set[Path]:
    folders: set[Path] = set()
    for file in distribution.files or ():
        parts = PurePosixPath(file).parts
        if parts[-1] != _SKILL_FILE or ".." in parts:
            continue
        for at in range(1, len(parts) - 2):
            if parts[at : at + 2] == _FOLDER:
                folder = Path(str(distribution.locate_file(PurePosixPath(*parts[: at + 2]))))
                if folder.is_dir():
                    folders.add(folder.resolve())
    return folders
