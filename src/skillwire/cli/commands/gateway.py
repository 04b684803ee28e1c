"""The commands of a gateway: the skills of many servers as one server."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import Argument, choice, command, flag, integer, path, seconds, text
from skillwire.cli.commands.serving import CONNECTION_OPTIONS, HTTP_OPTIONS, LISTING_OPTIONS

CLIENTS: Final = ("claude-desktop", "cursor", "vscode", "codex", "gemini", "goose", "claude-code")
"""The clients that `gateway install` and `uninstall` can edit."""
_TOKENS: Final = path("--tokens FILE", "The file of callers.")
_CALLER: Final = Argument("name", "NAME", "The name of a caller.")

COMMANDS: Final = (
    command(
        "gateway run",
        "gateway:run",
        "Serve the skills of all your servers and folders as one MCP server\n\n"
        "The servers and folders are those of skillwire.toml. Every skill is verified before it is "
        "passed on, and loads only after a yes: the client asks the user if it can; otherwise the error "
        "names the command that approves it. URIs are skill://SERVER/PATH/NAME/SKILL.md.",
        choice(
            "--approval required|listed|locked",
            "Who approves skills: each caller (the default), the host that uses it, or a lock.",
        ),
        path("--locked FILE", "Serve only what this skillwire.lock names."),
        *HTTP_OPTIONS,
        path(
            "--tokens FILE",
            "The callers, each with a token, approvals and permissions of their own. "
            "It is read again when it changes. Add callers with `skillwire gateway add-caller`.",
        ),
        path(
            "--token-file FILE",
            "Require a bearer token from this file: NAME TOKEN on each line, or one token.",
        ),
        flag("--ui", "Also serve the review page at this address, and send callers to it to decide."),
        text("--ui-url URL", "Where browsers reach the page, if a proxy is in front of it."),
        path(
            "--audit FILE",
            "Append a line for each list, load, read, approval and refusal. SIGHUP reopens it.",
        ),
        text(
            "--store URL",
            "Keep approvals and the audit log in this registry, shared with other gateways.",
        ),
        *CONNECTION_OPTIONS,
        integer("--rate N", "Requests a minute for each caller; 0 means no limit.", default=30000, least=0),
        integer("--max-requests N", "Open requests for each caller, streams included.", default=256, least=1),
        text(
            "--name NAME",
            "The name that the gateway introduces itself by. The default is skillwire-gateway.",
        ),
        text(
            "--instructions TEXT | @FILE",
            "What clients tell their model about the gateway, instead of the default text.",
        ),
        seconds("--ttl SECONDS", "Longest cache lifetime of responses.", default=60, least=0),
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
        "gateway_callers:list_callers",
        "List the callers of a gateway and what they may see",
        _TOKENS,
        examples={"skillwire gateway callers --tokens callers.toml": "who may use it"},
    ),
    command(
        "gateway add-caller",
        "gateway_callers:add_caller",
        "Add a caller, and print the token for them\n\n"
        "The token is printed once; the file stores only its digest. A running gateway accepts the "
        "caller within a second.",
        _CALLER,
        _TOKENS,
        text("--label SERVER", "Show them this server only. Repeatable.", many=True),
        text(
            "--include PATTERN",
            "Show them only skills whose path matches, such as 'docs/*'. Repeatable.",
            many=True,
        ),
        text("--exclude PATTERN", "Do not show them skills whose path matches. Repeatable.", many=True),
        flag("--replace", "Give an existing caller a new token."),
        examples={"skillwire gateway add-caller alice --tokens callers.toml --label docs": "docs alone"},
    ),
    command(
        "gateway remove-caller",
        "gateway_callers:remove_caller",
        "Revoke a caller\n\nA running gateway refuses their token within a second, and ends their streams.",
        _CALLER,
        _TOKENS,
        examples={"skillwire gateway remove-caller alice --tokens callers.toml": "their token ends"},
    ),
)
