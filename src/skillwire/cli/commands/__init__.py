"""The table of all commands. Each module here describes a group of commands; none imports what they do."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Final

from skillwire.cli.command import Command, Group

_MODULES: Final = {
    "serve": "publish",
    "gateway": "gateway",
    "lint": "publish",
    "new": "publish",
    "verify": "publish",
    "publish": "registry",
    "registry": "registry",
    "sign": "signing",
    "keygen": "signing",
    "verify-signature": "signing",
    "list": "use",
    "show": "use",
    "search": "use",
    "catalog": "use",
    "load": "use",
    "read": "use",
    "try": "use",
    "enable": "use",
    "disable": "use",
    "approve": "approvals",
    "revoke": "approvals",
    "decline": "approvals",
    "approvals": "approvals",
    "trust": "servers",
    "ui": "approvals",
    "add": "install",
    "sync": "install",
    "outdated": "install",
    "diff": "install",
    "update": "install",
    "rollback": "install",
    "remove": "install",
    "why": "install",
    "export": "install",
    "agents": "install",
    "servers": "servers",
    "cache": "state",
    "paths": "state",
    "doctor": "state",
    "completion": "state",
}
"""The first word of each command, and the module that describes it. Help lists them in this order."""

_GROUPS: Final = (
    Group("gateway", "Serve the skills of many servers as one", "gateway run"),
    Group("registry", "Run a registry of skills", "registry check"),
    Group("approvals", "List, export and import approvals", "approvals list"),
    Group("servers", "Manage the MCP servers that skills come from", "servers list"),
    Group("cache", "Manage the cache of verified files", "cache list"),
)

SECTIONS: Final = {
    "Publish skills": (
        "serve",
        "gateway",
        "new",
        "lint",
        "verify",
        "sign",
        "keygen",
        "verify-signature",
        "publish",
        "registry",
    ),
    "Use skills": (
        "list",
        "show",
        "search",
        "catalog",
        "load",
        "read",
        "try",
        "enable",
        "disable",
        "ui",
        "approve",
        "decline",
        "revoke",
        "approvals",
        "trust",
    ),
    "Install skills": (
        "add",
        "sync",
        "outdated",
        "diff",
        "update",
        "rollback",
        "remove",
        "why",
        "export",
        "agents",
    ),
    "Manage": ("servers", "cache", "paths", "doctor", "completion"),
}
"""The commands as help presents them."""


def names() -> list[str]:
    """The first word of every command."""
    return list(_MODULES)


def commands_of(word: str) -> list[Command]:
    """The command of this name, or all the commands of the group of this name."""
    module = import_module(f"skillwire.cli.commands.{_MODULES[word]}")
    return [one for one in module.COMMANDS if one.name == word or one.name.startswith(f"{word} ")]


def group_of(word: str) -> Group | None:
    """The group of this name, if it is one."""
    return next((group for group in _GROUPS if group.name == word), None)


def all_commands() -> Iterator[Command]:
    for word in _MODULES:
        yield from commands_of(word)
