"""The commands about what Skillwire stores on disk."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, Command, Group, text

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
)
