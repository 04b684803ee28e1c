"""The commands that decide which skills of servers may be used."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import ON_SERVER, Argument, command, flag, path, text
from skillwire.cli.commands.use import NAME

CALLER: Final = text("--caller NAME", "For this caller of a gateway instead of yourself.")
COMMANDS: Final = (
    command(
        "ui",
        "ui:ui",
        "Review skills in a browser: read, compare, approve, decline\n\n"
        "Serves one page on this machine until Ctrl-C, prints a link that opens it once, and opens it. "
        "Needs the packages of the extra `ui`.",
        flag("--open", "Open the page in the browser.", field="open_browser", default=True),
        text(
            "--http HOST:PORT",
            "Listen here instead of on a free port of this machine. An address that other machines "
            "can reach needs --token-file.",
        ),
        text("--allow-host NAME", "Accept this Host and Origin too. Repeatable.", many=True),
        path("--token-file FILE", "Also admit people who enter a token from this file."),
        host=True,
        json=False,
        examples={
            "skillwire ui": "opens the page of your servers and directories",
            "skillwire ui --no-open --server shop=https://shop.example/mcp": "only prints the link",
        },
    ),
    command(
        "decline",
        "approvals:decline",
        "Decline a skill as it is now\n\n"
        "It is not loaded, no model is told of it, and nobody is asked about it, until its files change "
        "or it is approved.",
        NAME,
        text("--digest SHA256", "Only if these are its files, as `skillwire show` prints."),
        ON_SERVER,
        host=True,
        examples={"skillwire decline refunds": "`skillwire approve` or `skillwire revoke` takes it back"},
    ),
    command(
        "approve",
        "approvals:approve",
        "Approve skills with exactly the files that you were shown\n\n"
        "On a terminal each skill is shown and you are asked. Elsewhere --digest must name its files, "
        "as `skillwire show` prints it. Any change to the files revokes the approval.",
        Argument(
            "names",
            "NAME",
            "The name of a skill, its URI, or a pattern such as 'shop/*'.",
            required=False,
            many=True,
            completion="skill",
        ),
        text("--digest SHA256", "Approve this set of files. Repeatable.", many=True),
        flag("--all", "All skills of the server named with --on.", field="everything"),
        flag("--allow-tools", "Also grant the tools that its allowed-tools field asks for."),
        flag("--allow-code", "Also allow running code while the skill is in use."),
        ON_SERVER,
        CALLER,
        host=True,
        examples={
            "skillwire approve refunds": "shows it and asks",
            "skillwire approve 'shop/*'": "every skill of a server that matches",
            "skillwire approve --all --on shop": "every skill of a server",
        },
    ),
    command(
        "revoke",
        "approvals:revoke",
        "Revoke an approval, or take a decline back\n\nNo server is contacted.",
        NAME,
        CALLER,
        examples={"skillwire revoke refunds": "it must be approved again before it loads"},
    ),
    command(
        "approvals list",
        "approvals:list_approvals",
        "List approvals with who gave them, when and how",
        examples={"skillwire approvals": "everything that is approved"},
    ),
    command(
        "approvals export",
        "approvals:export_approvals",
        "Print all approvals as JSON, to share them",
        json=False,
        examples={"skillwire approvals export": "redirect it to a file, for the rest of a team"},
    ),
    command(
        "approvals import",
        "approvals:import_approvals",
        "Import exported approvals\n\n"
        "They are shown, and you are asked. Each is recorded with the person who gave it.",
        Argument("file", "FILE", "A file of `approvals export`."),
        flag("--yes -y", "Import them without asking."),
        examples={"skillwire approvals import approvals.json": "review, then approve all"},
    ),
)
