"""Approvals: the user's approval of an installation, stored where hosts look for it.

Installing is approving. For a skill of a configured MCP server that is an approval of the server's skill,
under the identity of the server and not its label. For a folder of a project, which a host asks about as
well, it is one of the installed copy. Both are bound to exactly the installed files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillwire.host.approvals.store import ApprovalStore
from skillwire.host.config.file import identities_by_label
from skillwire.host.config.server import ServerConfig
from skillwire.host.directories import (
    LocalDirectory,
    default_directories,
    label_directories,
    origin_identities,
    state_places,
)
from skillwire.install.agents import Scope
from skillwire.install.candidates import Candidate
from skillwire.install.lock import Lock
from skillwire.install.workspace import Workspace
from skillwire.skill.entries import SkillEntry
from skillwire.trust.approval import Approval, Grants, approve
from skillwire.trust.origin import Origin

_HOW = "install"


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
        approved: list[tuple[Approval, SkillEntry]] = []
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
                approved.append((approve(candidate.entry, origin, grants=grants), candidate.entry))
            targets = candidate.skill.targets
            if targets not in folders:
                folders[targets] = set(workspace.folders(Lock((candidate.skill,))).values())
            for place, local_origin in places:
                if place in folders[targets]:
                    entry = candidate.local_entry
                    approved.append((approve(entry, local_origin, grants=grants), entry))
        if not approved:
            return
        store = ApprovalStore(self.file or state_places().approvals)
        store.bind(origin_identities(servers, directories), identities_by_label)
        await store.open()
        await store.put_all(approved, how=_HOW)


def _project_directories(workspace: Workspace) -> list[LocalDirectory]:
    """The directories of the project that a host reads."""
    usual = default_directories(workspace.places.project, workspace.places.home)
    return [one for one in label_directories(usual, ()) if not one.origin.is_own]
