"""The commands about what Skillwire stores on disk."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import Argument, command, flag, text, timeout

COMMANDS: Final = (
    command(
        "cache list",
        "cache:list_files",
        "List the cached files by server",
        examples={"skillwire cache": "all cached files"},
    ),
    command(
        "cache clear",
        "cache:clear",
        "Delete cached files; approvals stay",
        text("--server NAME", "Delete the files of this server only.", completion="server"),
        examples={"skillwire cache clear --server docs": "they are fetched and verified again when needed"},
    ),
    command(
        "cache path", "cache:path", "Print the directory of the cache", examples={"skillwire cache path": ""}
    ),
    command(
        "paths",
        "paths:paths",
        "Show where configuration, approvals and caches are stored",
        examples={"skillwire paths": ""},
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
    command(
        "completion",
        "completion:completion",
        "Print a shell script that completes commands, options and names",
        Argument("shell", "SHELL", "bash, zsh or fish.", choices=("bash", "zsh", "fish")),
        json=False,
        examples={
            "skillwire completion bash": "add to ~/.bashrc: source <(skillwire completion bash)",
            "skillwire completion zsh": "add to ~/.zshrc: source <(skillwire completion zsh)",
            "skillwire completion fish": "save as ~/.config/fish/completions/skillwire.fish",
        },
    ),
)
