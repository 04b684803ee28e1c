"""The commands about what Skillwire stores on disk."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, Argument, Command, Group, flag, seconds, text

GROUPS: Final = (Group("cache", "Manage the cache of verified files", "cache list"),)
COMMANDS: Final = (
    Command(
        "cache list",
        "List the cached files by server",
        "cache:list_files",
        options=(JSON,),
        examples=(("skillwire cache", "all cached files"),),
    ),
    Command(
        "cache clear",
        "Delete cached files; approvals stay",
        "cache:clear",
        options=(text("--server NAME", "Delete the files of this server only.", completion="server"), JSON),
        examples=(
            ("skillwire cache clear --server docs", "they are fetched and verified again when needed"),
        ),
    ),
    Command(
        "cache path",
        "Print the directory of the cache",
        "cache:path",
        options=(JSON,),
        examples=(("skillwire cache path", ""),),
    ),
    Command(
        "paths",
        "Show where configuration, approvals and caches are stored",
        "paths:paths",
        options=(JSON,),
        examples=(("skillwire paths", ""),),
    ),
    Command(
        "doctor",
        "Check the installation, configuration, servers and stored files",
        "doctor:doctor",
        about="Every finding says what to do about it. Exits with 4 if something does not work.",
        options=(
            flag("--no-servers", "Do not connect to servers."),
            seconds("--timeout SECONDS", "Wait this long for each server.", default=10, least=0.1, most=3600),
            JSON,
        ),
        examples=(
            ("skillwire doctor", "everything"),
            ("skillwire doctor --no-servers", "without starting or connecting to a server"),
        ),
    ),
    Command(
        "completion",
        "Print a shell script that completes commands, options and names",
        "completion:completion",
        arguments=(Argument("shell", "SHELL", "bash, zsh or fish.", choices=("bash", "zsh", "fish")),),
        examples=(
            ("skillwire completion bash", "add to ~/.bashrc: source <(skillwire completion bash)"),
            ("skillwire completion zsh", "add to ~/.zshrc: source <(skillwire completion zsh)"),
            ("skillwire completion fish", "save as ~/.config/fish/completions/skillwire.fish"),
        ),
    ),
)
