"""The commands of a gateway: the skills of many servers as one server."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, Argument, Command, Group, choice, flag, integer, path, seconds, text

CLIENTS: Final = ("claude-desktop", "cursor", "vscode", "codex", "gemini", "goose", "claude-code")
"""The clients that `gateway install` can set up."""
_YEAR: Final = 365 * 24 * 3600
_TOKENS: Final = path("--tokens", help="The file of callers.")
_CALLER: Final = Argument(field="name", metavar="NAME", help="The name of a caller.")

GROUPS: Final = (
    Group(name="gateway", summary="Serve the skills of many servers as one", default="gateway run"),
)
COMMANDS: Final = (
    Command(
        name="gateway run",
        summary="Serve the skills of all your servers and folders as one MCP server",
        about="The servers and folders are those of skillwire.toml. Every skill is verified before it is "
        "passed on, and loads only after a yes: the client asks, if it can, and else the error names the "
        "command. URIs are skill://SERVER/PATH/NAME/SKILL.md.",
        run="gateway:run",
        host=True,
        options=(
            choice(
                "--approval",
                choices=("required", "listed", "locked"),
                help="Who approves skills: each caller (the default), the host that uses it, or a lock.",
            ),
            path("--locked", help="Serve nothing but what this skillwire.lock names."),
            text(
                "--http",
                metavar="HOST:PORT",
                help="Serve Streamable HTTP at /mcp instead of stdio. "
                "A port alone means 127.0.0.1; port 0 picks a free one.",
            ),
            path(
                "--tokens",
                help="The callers, each with a token, approvals and permissions of their own. "
                "It is read again when it changes. Add callers with `skillwire gateway add-caller`.",
            ),
            path(
                "--token-file",
                help="Require a bearer token of this file: NAME TOKEN on each line, or one token.",
            ),
            flag("--unsafe-no-auth", help="Listen on a public address without a token."),
            text(
                "--allow-host", metavar="NAME", many=True, help="Accept this Host and Origin too. Repeatable."
            ),
            flag("--stateless", help="Stateless HTTP: no sessions."),
            flag(
                "--ui", help="Also serve the review page at this address, and send callers to it to decide."
            ),
            text(
                "--ui-url", metavar="URL", help="Where browsers reach the page, if a proxy is in front of it."
            ),
            path(
                "--audit",
                help="Append a line for each list, load, read, approval and refusal. SIGHUP reopens it.",
            ),
            text(
                "--store",
                metavar="URL",
                help="Keep approvals and the audit log in this registry, shared with other gateways.",
            ),
            integer(
                "--rate", help="Requests a minute for each caller; 0 means no limit.", default=30000, least=0
            ),
            integer(
                "--max-requests",
                help="Open requests for each caller, streams included.",
                default=256,
                least=1,
            ),
            integer("--max-connections", help="Accept at most N HTTP connections.", default=2000, least=1),
            integer(
                "--max-connections-per-address",
                help="Accept at most N HTTP connections from one address.",
                default=512,
                least=1,
            ),
            text(
                "--name",
                metavar="NAME",
                help="The name that the gateway introduces itself by. The default is skillwire-gateway.",
            ),
            text(
                "--instructions",
                metavar="TEXT | @FILE",
                help="What clients tell their model about the gateway, in place of what there is.",
            ),
            flag("--access-log", help="Log each HTTP request to standard error."),
            choice(
                "--log-format",
                choices=("text", "json"),
                default="text",
                help="Write the log as text or as one JSON object per line.",
            ),
            seconds("--ttl", help="Longest cache lifetime of responses.", default=60, most=_YEAR),
            integer("--page-size", help="Skills per page of a listing.", default=100, least=1, most=1000),
            choice(
                "--tools",
                choices=("auto", "always", "never"),
                default="auto",
                help="Offer load_skill and related tools. auto hides them from clients that support the "
                "extension.",
            ),
            flag(
                "--prompts",
                help="Offer each skill as a prompt, which clients show as a slash command.",
                default=True,
            ),
        ),
        examples=(
            ("skillwire gateway", "one client, over stdio"),
            ("skillwire gateway --http 127.0.0.1:8100 --tokens callers.toml", "a team, over HTTP"),
            ("skillwire gateway --locked skillwire.lock", "nothing but what the lock names"),
        ),
    ),
    Command(
        name="gateway install",
        summary="Add the gateway to the configuration of a client",
        about="Writes one entry, called skillwire, and keeps the file as it was beside it. All else in the "
        "file stays as it is.",
        run="gateway:install",
        arguments=(Argument(field="client", metavar="CLIENT", help="The client.", choices=CLIENTS),),
        options=(
            text("--url", metavar="URL", help="Reach a gateway that runs there, instead of starting one."),
            text(
                "--token-env",
                metavar="VARIABLE",
                help="The environment variable of the client that has the bearer token. Needs --url.",
            ),
            flag("--dry-run", help="Show what would be written, and write nothing."),
            JSON,
        ),
        examples=(
            ("skillwire gateway install claude-desktop", "then restart Claude Desktop"),
            ("skillwire gateway install cursor --dry-run", "see the change first"),
        ),
    ),
    Command(
        name="gateway callers",
        summary="List the callers of a gateway and what they may see",
        run="gateway:list_callers",
        options=(_TOKENS, JSON),
        examples=(("skillwire gateway callers --tokens callers.toml", "who may use it"),),
    ),
    Command(
        name="gateway add-caller",
        summary="Add a caller, and print the token for them",
        about="The token is printed once; the file has its digest alone. A gateway that runs takes the "
        "caller in within a second.",
        run="gateway:add_caller",
        arguments=(_CALLER,),
        options=(
            _TOKENS,
            text("--label", metavar="SERVER", many=True, help="Show them this server only. Repeatable."),
            text(
                "--include",
                metavar="PATTERN",
                many=True,
                help="Show them only skills whose path matches, such as 'docs/*'. Repeatable.",
            ),
            text(
                "--exclude",
                metavar="PATTERN",
                many=True,
                help="Do not show them skills whose path matches. Repeatable.",
            ),
            flag("--replace", help="Give a caller who is there already a new token."),
            JSON,
        ),
        examples=(("skillwire gateway add-caller alice --tokens callers.toml --label docs", "docs alone"),),
    ),
    Command(
        name="gateway remove-caller",
        summary="Revoke a caller",
        about="A gateway that runs refuses their token within a second, and ends their streams.",
        run="gateway:remove_caller",
        arguments=(_CALLER,),
        options=(_TOKENS, JSON),
        examples=(("skillwire gateway remove-caller alice --tokens callers.toml", "their token ends"),),
    ),
)
