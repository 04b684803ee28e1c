"""The one table of agent clients: programs in which a model uses skills and MCP servers.

A row says where a client looks for skills, where it keeps its MCP servers and how it writes one, which
variables show that a process runs inside it, and which skills it brings along.
"""

from skillwire.clients.client import Client, ClientConfig, ClientServer, ConfigFile, render_entry, shown_entry
from skillwire.clients.paths import (
    CANONICAL,
    CANONICAL_TARGET,
    BaseDirectories,
    Scope,
    agents,
    clients,
    detect_agents,
    find_agents,
    running_agent,
    shares_canonical,
    writable_clients,
)

__all__ = [
    "CANONICAL",
    "CANONICAL_TARGET",
    "BaseDirectories",
    "Client",
    "ClientConfig",
    "ClientServer",
    "ConfigFile",
    "Scope",
    "agents",
    "clients",
    "detect_agents",
    "find_agents",
    "render_entry",
    "running_agent",
    "shares_canonical",
    "shown_entry",
    "writable_clients",
]
