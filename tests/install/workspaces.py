"""A project, a home and sources in temporary folders, for tests of installing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from install.samples import skill_md
from skillwire.clients import BaseDirectories, Scope
from skillwire.install import Installer, InstallReport, Lock, SkillFetcher, StateFiles, Workspace
from skillwire.trust import ALL_GRANTS, Grants


def write_skill(
    folder: Path, name: str, files: Mapping[str, str | bytes] | None = None, body: str = ""
) -> Path:
    """Write a skill into a folder of skills."""
    for path, content in {"SKILL.md": skill_md(name, body), **(files or {})}.items():
        file = folder / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        file.write_bytes(data)
        if data.startswith(b"#!"):
            file.chmod(0o755)
    return folder / name


def tree_of(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Every file below a folder with its mode and content, and every link with where it leads."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = (0, str(path.readlink()))
        elif path.is_file():
            found[name] = (path.stat().st_mode & 0o777, path.read_bytes())
    return found


@dataclass
class Machine:
    """A home with its own state, and a project that may be shared with another machine."""

    home: Path
    project: Path
    team: Path

    @classmethod
    def make(cls, base: Path, project: Path | None = None, team: Path | None = None) -> Machine:
        machine = cls(base / "home", project or base / "project", team or base / "team")
        for folder in (machine.home, machine.project, machine.team):
            folder.mkdir(parents=True, exist_ok=True)
        return machine

    @property
    def installed(self) -> Path:
        return self.project / ".agents" / "skills"

    def workspace(self, *, links: bool = True, scope: Scope = Scope.PROJECT) -> Workspace:
        places = BaseDirectories(self.project, self.home, {})
        return Workspace.open(scope, places=places, files=StateFiles(self.home / "state"), links=links)

    def installer(self, *, links: bool = True) -> Installer:
        return Installer(self.workspace(links=links), SkillFetcher(self.project))

    def lock(self) -> Lock:
        return self.workspace().require_lock()

    async def add(
        self, *names: str, targets: Iterable[str] = (), grants: Grants = ALL_GRANTS, links: bool = True
    ) -> InstallReport:
        """Add skills of the team's folder."""
        installer = self.installer(links=links)
        proposal = await installer.propose([str(self.team)], targets=targets, names=names or None)
        assert not proposal.failures, proposal.failures
        return await installer.install(
            proposal.candidates, {candidate.name: grants for candidate in proposal.candidates}
        )

    async def sync(self, *, force: Iterable[str] = ()) -> InstallReport:
        """Sync, and agree to everything."""
        installer = self.installer()
        _, state, made = installer.compare(force=force)
        return await installer.sync(accept=installer.unaccepted(state, made), force=force)
