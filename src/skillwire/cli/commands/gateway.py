"""The commands of a gateway: the skills of many servers as one server."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import Argument, choice, command, flag, path, seconds, seldom, text, texts
from skillwire.cli.commands.serving import CLIENTS, CONNECTION_OPTIONS, HTTP_OPTIONS, LISTING_OPTIONS

COMMANDS: Final = (
    command(
        "gateway run",
        "gateway:run",
        "Serve the skills of all your servers and folders as one MCP server\n\n"
        "The servers and folders are those of skillwire.toml. Every skill is verified before it is "
        "passed on, and loads only after a yes: the client asks the user if it can; otherwise the model is "
        "told that its user must act, and the log names the command. URIs are "
        "skill://SERVER/PATH/NAME/SKILL.md.",
        choice(
            "--approval required|listed|locked",
            "Who approves skills: each caller (the default), the host that uses it, or a lock.",
        ),
        path("--locked FILE", "Serve only what this skillwire.lock names."),
        *HTTP_OPTIONS,
        path(
            "--tokens FILE",
            "The callers, each with a token, approvals and permissions of their own. "
            "It is read again when it changes. Add callers with `skillwire gateway callers add`.",
        ),
        path(
            "--token-file FILE",
            "Require a bearer token from this file: NAME TOKEN on each line, or one token.",
        ),
        flag(
            "--run",
            "Offer a tool that runs scripts of skills in a sandbox: over stdio those that you granted with "
            "`skillwire run`, over HTTP those that `run` of the callers file names.",
        ),
        flag("--ui", "Also serve the review page at this address, and send callers to it to decide."),
        text("--ui-url URL", "Where browsers reach the page, if a proxy is in front of it."),
        path(
            "--audit FILE",
            "Append a line for each list, entry, load, read, approval and refusal. SIGHUP reopens it.",
        ),
        text(
            "--store URL",
            "Keep approvals and the audit log in this registry, shared with other gateways.",
        ),
        *CONNECTION_OPTIONS,
        *seldom(
            text(
                "--name NAME",
                "The name that the gateway introduces itself by. The default is skillwire-gateway.",
            ),
            text(
                "--instructions TEXT | @FILE",
                "What clients tell their model about the gateway, instead of the default text.",
            ),
            seconds("--ttl SECONDS", "Longest cache lifetime of responses.", default=60, least=0),
        ),
        *LISTING_OPTIONS,
        host=True,
        json=False,
        examples={
            "skillwire gateway": "one client, over stdio",
            "skillwire gateway --http 127.0.0.1:8100 --tokens callers.toml": "a team, over HTTP",
            "skillwire gateway --locked skillwire.lock": "nothing but what the lock names",
        },
    ),
    command(
        "gateway install",
        "gateway_install:install",
        "Add the gateway to the configuration of a client\n\n"
        "Writes one entry, called skillwire, and saves the previous file beside it. The rest of the "
        "file is left unchanged.",
        Argument("client", "CLIENT", f"One of {', '.join(CLIENTS)}.", choices=CLIENTS),
        text("--url URL", "Reach a gateway that runs there, instead of starting one."),
        text(
            "--token-env VARIABLE",
            "The environment variable of the client that has the bearer token. Needs --url.",
        ),
        flag("--dry-run", "Show what would be written, and write nothing."),
        examples={
            "skillwire gateway install claude-desktop": "then restart Claude Desktop",
            "skillwire gateway install cursor --dry-run": "see the change first",
        },
    ),
    command(
        "gateway uninstall",
        "gateway_install:uninstall",
        "Remove the gateway from the configuration of a client\n\n"
        "Shows the entry that `gateway install` wrote, asks, and removes it. The previous file is saved "
        "beside it. The rest of the file is left unchanged. Without CLIENT, the entry is removed from every "
        "client that has it.",
        Argument(
            "clients", "CLIENT", f"One of {', '.join(CLIENTS)}.", choices=CLIENTS, many=True, required=False
        ),
        flag("--yes -y", "Remove it without asking."),
        flag("--dry-run", "Show what would be removed, and write nothing."),
        examples={
            "skillwire gateway uninstall cursor": "show the entry, ask, and remove it",
            "skillwire gateway uninstall --dry-run": "which clients have it",
        },
    ),
    command(
        "gateway callers",
        "gateway:callers",
        "List, add or remove the callers of a gateway\n\n"
        "The token of a new caller is printed once; the file stores only its digest. A running gateway "
        "follows within a second: it accepts a new caller, refuses the token of a removed one, and ends "
        "their streams.",
        Argument(
            "action", "ACTION", "list, add or remove.", choices=("list", "add", "remove"), required=False
        ),
        Argument("name", "NAME", "The name of a caller.", required=False),
        path("--tokens FILE", "The file of callers."),
        texts("--label SERVER", "Show a new caller this server only."),
        texts("--include PATTERN", "Show them only skills whose path matches, such as 'docs/*'."),
        texts("--exclude PATTERN", "Do not show them skills whose path matches."),
        flag("--replace", "Give an existing caller a new token."),
        examples={
            "skillwire gateway callers --tokens callers.toml": "who may use it, and what they may see",
            "skillwire gateway callers add alice --tokens callers.toml --label docs": "docs alone",
            "skillwire gateway callers remove alice --tokens callers.toml": "their token ends",
        },
    ),
)
