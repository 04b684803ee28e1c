"""The commands about what Skillwire stores and finds on this machine."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import ON_SERVER, Argument, command, flag, text, timeout

_NAMES: Final = Argument(
    "names",
    "NAME",
    "The name of a skill as `skillwire list` shows it, or its URI.",
    many=True,
    completion="skill",
)

COMMANDS: Final = (
    command(
        "config paths",
        "config:paths",
        "Show where configuration, approvals and caches are stored\n\n"
        "With --delete, deletes all of it but the configuration: approvals, trust in projects, logins, what "
        "is known of installations, and caches. Installed folders and lock files stay. Nothing else should "
        "run meanwhile.",
        flag("--delete", "Delete everything that is stored, except configuration files."),
        flag("--yes -y", "Delete without being asked."),
        examples={
            "skillwire config": "all of them",
            "skillwire config paths --delete": "start from nothing",
        },
    ),
    command(
        "config agents",
        "config:agents",
        "List the agents that read skills from folders",
        flag("--all", "Include those that are not found here.", field="everyone"),
        flag("--user", "Their folders for every project, instead of this project's."),
        examples={
            "skillwire config agents": "those that are here",
            "skillwire config agents --all": "every agent that is known",
        },
    ),
    command(
        "config disable",
        "config:disable",
        "Leave skills out: they are not listed or loaded\n\n"
        "Recorded as `disabled` in your skillwire.toml. `skillwire list --all` shows them.",
        _NAMES,
        flag("--project", "Record it in the project's skillwire.toml instead of the user's."),
        ON_SERVER,
        host=True,
        examples={
            "skillwire config disable refunds": "everywhere",
            "skillwire config disable shop/refunds --project": "in this project",
        },
    ),
    command(
        "config enable",
        "config:enable",
        "Use disabled skills again",
        _NAMES,
        ON_SERVER,
        host=True,
        examples={"skillwire config enable refunds": "in every file that disables it"},
    ),
    command(
        "config cache",
        "config:cache",
        "List or delete cached files; approvals stay",
        flag("--clear", "Delete them. They are fetched and verified again when needed."),
        text("--on SERVER", "The files of this server only.", completion="server"),
        examples={
            "skillwire config cache": "all cached files, by server",
            "skillwire config cache --clear --on docs": "those of one server",
        },
    ),
    command(
        "config completion",
        "completion:completion",
        "Print a shell script that completes commands, options and names",
        Argument("shell", "SHELL", "bash, zsh or fish.", choices=("bash", "zsh", "fish")),
        json=False,
        examples={
            "skillwire config completion bash": "in ~/.bashrc: source <(skillwire config completion bash)",
            "skillwire config completion zsh": "in ~/.zshrc: source <(skillwire config completion zsh)",
            "skillwire config completion fish": "save as ~/.config/fish/completions/skillwire.fish",
        },
    ),
    command(
        "doctor",
        "doctor:doctor",
        "Check the installation, configuration, servers and stored files\n\n"
        "Every finding says what to do about it. Exits with 4 if something does not work.",
        flag("--no-servers", "Do not connect to servers."),
        timeout("Wait this long for each server.", default=10),
        examples={
            "skillwire doctor": "everything",
            "skillwire doctor --no-servers": "without starting or connecting to a server",
        },
    ),
)
