"""The commands that decide which skills of servers may be used."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, ON_SERVER, Command, flag
from skillwire.cli.commands.use import NAME

COMMANDS: Final = (
    Command(
        name="approve",
        summary="Approve a skill of a server as it is now",
        about="Any change to its files revokes the approval.",
        run="approvals:approve",
        host=True,
        arguments=(NAME,),
        options=(
            flag("--allow-tools", help="Also grant the tools that its allowed-tools field asks for."),
            flag("--allow-code", help="Also allow running code while the skill is in use."),
            ON_SERVER,
            JSON,
        ),
        examples=(
            ("skillwire show refunds --text", "read it first"),
            ("skillwire approve refunds", "approve exactly those files"),
        ),
    ),
    Command(
        name="revoke",
        summary="Revoke an approval",
        about="No server is contacted.",
        run="approvals:revoke",
        arguments=(NAME,),
        options=(JSON,),
        examples=(("skillwire revoke refunds", "it must be approved again before it loads"),),
    ),
)
