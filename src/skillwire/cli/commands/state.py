"""The commands about what Skillwire stores on disk."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, Argument, Command, Group, flag, seconds, text

GROUPS: Final = (Group(name="cache", summary="Manage the cache of verified files", default="cache list"),)
COMMANDS: Final = (
    Command(
        name="cache list",
        summary="List the cached files by server",
        run="cache:list_files",
        options=(JSON,),
        examples=(("skillwire cache", "all cached files"),),
    ),
    Command(
        name="cache clear",
        summary="Delete cached files; approvals stay",
        run="cache:clear",
        options=(
            text(
                "--server", metavar="NAME", help="Delete the files of this server only.", completion="server"
            ),
            JSON,
        ),
        examples=(
            ("skillwire cache clear --server docs", "they are fetched and verified again when needed"),
        ),
    ),
    Command(
        name="cache path",
        summary="Print the directory of the cache",
        run="cache:path",
        options=(JSON,),
        examples=(("skillwire cache path", ""),),
    ),
    Command(
        name="paths",
        summary="Show where configuration, approvals and caches are stored",
        run="paths:paths",
        options=(JSON,),
        examples=(("skillwire paths", ""),),
    ),
    Command(
        name="doctor",
        summary="Check the installation, configuration, servers and stored files",
        about="Every finding says what to do about it. Exits with 4 if something does not work.",
        run="doctor:doctor",
        options=(
            flag("--no-servers", help="Do not connect to servers."),
            seconds("--timeout", help="Wait this long for each server.", default=10, least=0.1, most=3600),
            JSON,
        ),
        examples=(
            ("skillwire doctor", "everything"),
            ("skillwire doctor --no-servers", "without starting or connecting to a server"),
        ),
    ),
    Command(
        name="completion",
        summary="Print a shell script that completes commands, options and names",
        run="completion:completion",
        arguments=(
            Argument(
                field="shell", metavar="SHELL", help="bash, zsh or fish.", choices=("bash", "zsh", "fish")
            ),
        ),
        examples=(
            ("skillwire completion bash", "add to ~/.bashrc: source <(skillwire completion bash)"),
            ("skillwire completion zsh", "add to ~/.zshrc: source <(skillwire completion zsh)"),
            ("skillwire completion fish", "save as ~/.config/fish/completions/skillwire.fish"),
        ),
    ),
)
