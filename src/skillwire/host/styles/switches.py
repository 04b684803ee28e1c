"""Switches: what a user or an administrator turned off. Turning a server off removes its skills at once."""

from __future__ import annotations

from dataclasses import dataclass

from skillwire.trust.origin import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Which gates are open. All must be, for a server's skills to be seen."""

    admin: bool = True
    """An administrator's switch for skills of servers."""
    folder_trusted: bool = True
    """Whether the user trusts the folder that the agent works in."""
    closed_servers: frozenset[str] = frozenset()
    """Labels of servers whose skills are switched off."""

    def closed_for(self, origin: Origin) -> str:
        """Why the skills of an origin are not seen; empty when they are. Local skills pass every gate."""
        if origin.is_local:
            return ""
        if not self.admin:
            return "skills of servers are switched off by the administrator"
        if not self.folder_trusted:
            return "the working folder is not trusted"
        if origin.fold in {label.casefold() for label in self.closed_servers}:
            return "the skills of this server are switched off"
        return ""


OPEN = Switches()
