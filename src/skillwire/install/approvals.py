"""HostApprovals: who installed a skill approved it, and hosts find that approval where they look for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillwire.clients import Scope
from skillwire.consent import ConsentStore, Key
from skillwire.host import (
    LocalDirectory,
    ServerConfig,
    default_directories,
    label_directories,
    origin_identities,
    state_paths,
)
from skillwire.install.candidates import Candidate
from skillwire.install.lock import Lock
from skillwire.install.workspace import Workspace
from skillwire.skill import SkillEntry
from skillwire.trust import Approval, Grants, Origin, approve

_HOW: Final = "install"


@dataclass(frozen=True, slots=True)
class HostApprovals:
    """Records installations as approvals. `servers` are the configured ones, by label."""

    servers: Mapping[str, ServerConfig]
    file: Path | None = None
    """Where approvals are stored; by default where every host stores them."""

    async def __call__(self, workspace: Workspace, installed: Sequence[tuple[Candidate, Grants]], /) -> None:
        """Store the approvals of these, all or none."""
        directories = _project_directories(workspace) if workspace.scope is Scope.PROJECT else []
        places = [(directory.path.resolve(), directory.origin) for directory in directories]
        folders: dict[tuple[str, ...], set[Path]] = {}
        servers = {Origin.mcp(label): config for label, config in self.servers.items()}
        store = ConsentStore(self.file or state_paths().approvals)
        store.bind(origin_identities(servers, directories))
        approved: dict[Key, tuple[Approval, SkillEntry]] = {}
        for candidate, given in installed:
            powers = candidate.skill.powers
            # What a skill does not ask for is not granted to it either.
            grants = Grants(
                allowed_tools=given.allowed_tools and bool(powers.allowed_tools),
                execute_code=given.execute_code and bool(powers.scripts),
            )
            origin = Origin.mcp(label) if (label := candidate.skill.pin.get("server")) else None
            # A host that does not know the server asks when it does.
            if candidate.entry is not None and origin in servers:
                given_to = approve(candidate.entry, origin, grants=grants)
                approved[store.key(origin, candidate.entry.uri)] = (given_to, candidate.entry)
            targets = candidate.skill.targets
            if targets not in folders:
                folders[targets] = set(workspace.folders(Lock((candidate.skill,))).values())
            for place, local_origin in places:
                if place in folders[targets]:
                    entry = candidate.local_entry
                    local = approve(entry, local_origin, grants=grants)
                    approved[store.key(local_origin, entry.uri)] = (local, entry)
        if approved:
            await store.approve_all(approved, how=_HOW)


def _project_directories(workspace: Workspace) -> list[LocalDirectory]:
    """The directories of the project that a host reads."""
    usual = default_directories(workspace.places.project, workspace.places.home)
    return [one for one in label_directories(usual, ()) if not one.origin.is_own]
