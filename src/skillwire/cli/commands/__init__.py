"""The table of all commands. Each module here describes a group of commands; none imports what they do."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Final

from skillwire.cli.command import Argument, Command, Group, path, text

ON_SERVER: Final = text(
    "--on SERVER", "The server to take the skill from. No other server is contacted.", completion="server"
)
MODEL: Final = text("--model NAME", "The model: anthropic:NAME, openai:NAME, google:NAME, ollama:NAME.")
PASSWORD: Final = text(
    "--password-env VARIABLE", "The environment variable that holds the private key's password."
)
JUNIT: Final = path("--junit FILE", "Also write a JUnit report to this file.")
SARIF: Final = path("--sarif FILE", "Also write a SARIF 2.1.0 report to this file, for code scanning.")


def action(*words: str) -> Argument:
    """What a command does, as one of these words."""
    listed = f"{', '.join(words[:-1])} or {words[-1]}."
    return Argument("action", "ACTION", listed, choices=words, required=False)


SECTIONS: Final = {
    "Publish": {
        "serve": "publish",
        "new": "publish",
        "lint": "publish",
        "sign": "publish",
        "publish": "registry",
        "verify": "publish",
    },
    "Use": {
        "list": "use",
        "search": "use",
        "show": "use",
        "load": "use",
        "chat": "use",
        "run": "use",
        "eval": "publish",
    },
    "Install": {
        "add": "use",
        "sync": "use",
        "update": "use",
        "remove": "use",
        "rollback": "use",
    },
    "Decide": {
        "approve": "decide",
        "revoke": "decide",
        "approvals": "decide",
        "policy": "decide",
        "trust": "operate",
        "ui": "decide",
    },
    "Operate": {
        "gateway": "operate",
        "registry": "registry",
        "servers": "operate",
        "config": "operate",
        "doctor": "operate",
    },
}
"""The first word of each command by what people want to do, as help presents them, and the module that
describes it."""

_MODULES: Final = {word: module for words in SECTIONS.values() for word, module in words.items()}

_GROUPS: Final = (
    Group("gateway", "Serve the skills of many servers as one", "gateway run"),
    Group("registry", "Run a registry of skills", "registry list"),
    Group("approvals", "List, decline, export and import approvals", "approvals list"),
    Group("policy", "See what the policies of this machine allow", "policy show"),
    Group("servers", "Manage the MCP servers that skills come from", "servers list"),
    Group("config", "See and change what is used on this machine", "config paths"),
)

_OTHER_WORDS: Final = {
    "agents": "config agents",
    "allow": "approve",
    "approval": "approvals",
    "cache": "config cache",
    "cache clear": "config cache --clear",
    "cache list": "config cache",
    "cache path": "config paths",
    "callers": "gateway callers",
    "cat": "load NAME PATH",
    "catalog": "list --for-model",
    "check": "lint",
    "clients": "config agents",
    "completion": "config completion",
    "completions": "config completion",
    "config clear": "config cache --clear",
    "config list": "config paths",
    "config path": "config paths",
    "config show": "config paths",
    "connect": "servers add",
    "create": "new",
    "decline": "approvals decline",
    "delete": "remove",
    "deny": "approvals decline",
    "diff": "update --diff",
    "disable": "config disable",
    "downgrade": "rollback",
    "enable": "config enable",
    "export": "sync --export",
    "fetch": "add",
    "find": "search",
    "fix": "lint --fix",
    "gateway add-caller": "gateway callers add",
    "gateway remove": "gateway uninstall",
    "gateway remove-caller": "gateway callers remove",
    "gateway serve": "gateway run",
    "gateway start": "gateway run",
    "get": "load",
    "i": "add",
    "import": "servers import",
    "info": "show",
    "init": "new",
    "inspect": "show",
    "install": "add",
    "keygen": "sign --new-key",
    "login": "servers login",
    "logout": "servers logout",
    "ls": "list",
    "mcp": "servers",
    "outdated": "update --check",
    "paths": "config paths",
    "policies": "policy",
    "policy explain": "policy show NAME",
    "policy list": "policy show",
    "policy why": "policy show NAME",
    "pull": "add",
    "push": "publish",
    "push-oci": "publish",
    "read": "load NAME PATH",
    "registry grant": "registry grants add SUBJECT ROLE",
    "registry ls": "registry list",
    "registry namespaces": "registry list",
    "registry push-oci": "publish",
    "registry serve": "serve --store",
    "registry show": "registry list NAMESPACE/NAME",
    "registry skills": "registry list NAMESPACE",
    "registry token": "registry tokens",
    "registry ungrant": "registry grants revoke SUBJECT",
    "registry versions": "registry list NAMESPACE/NAME",
    "reject": "approvals decline",
    "restore": "rollback",
    "review": "ui",
    "rm": "remove",
    "server": "servers",
    "servers check": "servers list --check",
    "servers get": "servers show",
    "servers ls": "servers list",
    "servers rm": "servers remove",
    "servers test": "servers list --check",
    "servers trust": "trust",
    "skill": "list",
    "skills": "list",
    "start": "serve",
    "status": "doctor",
    "tokens": "registry tokens",
    "try": "chat -p TASK",
    "undo": "rollback",
    "uninstall": "remove",
    "untrust": "trust --revoke",
    "upgrade": "update",
    "validate": "lint",
    "verify-signature": "sign --check",
    "version": "--version",
    "view": "show",
    "web": "ui",
    "why": "show",
    "yank": "registry yank",
}
"""Words that people type for a command, and the one that they mean."""


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


def other_words() -> list[str]:
    """The words that are no command, and for which `meant` has the right one."""
    return list(_OTHER_WORDS)


def meant(*words: str) -> str:
    """The command that somebody means who types these words; empty if it is not known."""
    return _OTHER_WORDS.get(" ".join(words), "")
