"""The commands that decide which skills of servers may be used."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, ON_SERVER, Argument, Command, Group, flag, path, text
from skillwire.cli.commands.use import NAME

CALLER: Final = text("--caller", metavar="NAME", help="For this caller of a gateway, and not for yourself.")
GROUPS: Final = (
    Group(name="approvals", summary="List, export and import approvals", default="approvals list"),
)
COMMANDS: Final = (
    Command(
        name="ui",
        summary="Review skills in a browser: read, compare, approve, decline",
        about="Serves one page on this machine until Ctrl-C, prints a link that opens it once, and opens it. "
        "Needs the packages of the extra `ui`.",
        run="ui:ui",
        host=True,
        options=(
            flag("--open", help="Open the page in the browser.", field="open_browser", default=True),
            text(
                "--http",
                metavar="HOST:PORT",
                help="Listen here instead of on a free port of this machine. An address that other machines "
                "can reach needs --token-file.",
            ),
            text(
                "--allow-host", metavar="NAME", many=True, help="Accept this Host and Origin too. Repeatable."
            ),
            path("--token-file", help="Let people in who enter a token of this file, besides the link."),
        ),
        examples=(
            ("skillwire ui", "opens the page of your servers and directories"),
            ("skillwire ui --no-open --server shop=https://shop.example/mcp", "prints the link alone"),
        ),
    ),
    Command(
        name="decline",
        summary="Decline a skill as it is now",
        about="It is not loaded, and nobody is asked about it, until its files change or it is approved.",
        run="approvals:decline",
        host=True,
        arguments=(NAME,),
        options=(
            text(
                "--digest", metavar="SHA256", help="Only if these are its files, as `skillwire show` prints."
            ),
            ON_SERVER,
            JSON,
        ),
        examples=(("skillwire decline refunds", "`skillwire approve` or `skillwire revoke` takes it back"),),
    ),
    Command(
        name="approve",
        summary="Approve skills with exactly the files that you were shown",
        about="On a terminal each skill is shown and you are asked. Elsewhere --digest must name its files, "
        "as `skillwire show` prints it. Any change to the files revokes the approval.",
        run="approvals:approve",
        host=True,
        arguments=(
            Argument(
                field="names",
                metavar="NAME",
                help="The name of a skill, its URI, or a pattern such as 'shop/*'.",
                required=False,
                many=True,
                completion="skill",
            ),
        ),
        options=(
            text("--digest", metavar="SHA256", help="Approve this set of files. Repeatable.", many=True),
            flag("--all", help="All skills of the server named with --on.", field="everything"),
            flag("--allow-tools", help="Also grant the tools that its allowed-tools field asks for."),
            flag("--allow-code", help="Also allow running code while the skill is in use."),
            ON_SERVER,
            CALLER,
            JSON,
        ),
        examples=(
            ("skillwire approve refunds", "shows it and asks"),
            ("skillwire approve 'shop/*'", "every skill of a server that matches"),
            ("skillwire approve --all --on shop", "every skill of a server"),
        ),
    ),
    Command(
        name="revoke",
        summary="Revoke an approval",
        about="No server is contacted.",
        run="approvals:revoke",
        arguments=(NAME,),
        options=(CALLER, JSON),
        examples=(("skillwire revoke refunds", "it must be approved again before it loads"),),
    ),
    Command(
        name="approvals list",
        summary="List approvals with who gave them, when and how",
        run="approvals:list_approvals",
        options=(JSON,),
        examples=(("skillwire approvals", "everything that is approved"),),
    ),
    Command(
        name="approvals export",
        summary="Print all approvals as JSON, to share them",
        run="approvals:export_approvals",
        examples=(("skillwire approvals export", "redirect it to a file, for the rest of a team"),),
    ),
    Command(
        name="approvals import",
        summary="Import approvals that somebody exported",
        about="They are shown, and you are asked. Each is recorded with who gave it first.",
        run="approvals:import_approvals",
        arguments=(Argument(field="file", metavar="FILE", help="A file of `approvals export`."),),
        options=(flag("--yes", "-y", help="Import them without asking."), JSON),
        examples=(("skillwire approvals import approvals.json", "review, then approve all"),),
    ),
)
