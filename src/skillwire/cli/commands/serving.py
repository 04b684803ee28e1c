"""The options that `serve` and `gateway` share."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import choice, flag, integer, seconds, seldom, text, texts

CLIENTS: Final = (
    "claude-code",
    "claude-desktop",
    "cline",
    "codex",
    "cursor",
    "gemini-cli",
    "github-copilot",
    "goose",
    "junie",
    "opencode",
    "qwen-code",
    "vscode",
    "windsurf",
    "zed",
)
"""The clients of `--print-config` and `gateway install`: those of `skillwire.clients` that a server can
be added to. They are written out here, so that no command has to import the table in order to start."""
HTTP_OPTIONS: Final = (
    text(
        "--http HOST:PORT",
        "Serve Streamable HTTP at /mcp instead of stdio. "
        "A port alone means 127.0.0.1; port 0 picks a free one.",
    ),
    texts("--allow-host NAME", "Accept this Host and Origin too."),
    *seldom(
        flag("--unsafe-no-auth", "Listen on a public address without a token."),
        text(
            "--metrics HOST:PORT",
            "Serve /metrics and the health in detail at this address, for everybody who can reach it.",
        ),
        flag("--access-log", "Log each HTTP request to standard error."),
        choice(
            "--log-format text|json", "Write the log as text or as one JSON object per line.", default="text"
        ),
    ),
)
"""The options of every command that serves over HTTP."""
CONNECTION_OPTIONS: Final = seldom(
    flag("--stateless", "Stateless HTTP: no sessions."),
    integer(
        "--rate N",
        "Requests a minute for each caller with a token; 0 means no limit.",
        limit="http_requests_per_minute",
        least=0,
    ),
    integer(
        "--max-requests N",
        "Open requests for each caller with a token, streams included.",
        limit="http_requests_at_once",
        least=1,
    ),
    integer(
        "--max-failed-tokens N",
        "Tokens that are not valid from one address a minute; 0 means no limit.",
        limit="http_failed_credentials_per_minute",
        least=0,
    ),
    integer(
        "--max-connections N",
        "Accept at most N HTTP connections.",
        limit="http_connections",
        least=1,
    ),
    integer(
        "--max-connections-per-address N",
        "Accept at most N HTTP connections from one address.",
        limit="http_connections_per_address",
        least=1,
    ),
    integer(
        "--max-body-bytes N",
        "Accept HTTP requests of at most N bytes.",
        limit="http_body_bytes",
        least=1,
    ),
    integer(
        "--max-sessions N",
        "Keep at most N HTTP sessions of the 2025 protocol revisions.",
        limit="sessions",
        least=1,
    ),
    integer(
        "--max-views N",
        "Keep servers for at most N callers or sets of permissions.",
        limit="http_views",
        least=1,
    ),
    seconds(
        "--session-timeout SECONDS",
        "End a session after this time without a request.",
        limit="session_idle_seconds",
    ),
    seconds(
        "--head-timeout SECONDS",
        "Close an HTTP connection that has not sent the head of a request by then.",
        limit="http_head_seconds",
    ),
    seconds(
        "--body-timeout SECONDS",
        "Refuse an HTTP request whose body has not arrived by then.",
        limit="http_body_seconds",
    ),
    seconds(
        "--write-timeout SECONDS",
        "Cut off a client that takes less than 64 KiB of a response in this time.",
        limit="http_write_seconds",
    ),
    seconds(
        "--idle-timeout SECONDS",
        "Close an HTTP connection after this time without a request.",
        limit="http_idle_seconds",
        least=1,
    ),
)
"""Sessions, connections and their limits, of every command that serves over HTTP."""
LIMIT_FIELDS: Final = {option.field: option.limit for option in CONNECTION_OPTIONS if option.limit}
"""The field of `Limits` that each of these options sets."""
LISTING_OPTIONS: Final = seldom(
    integer("--page-size N", "Skills per page of a listing.", default=100, least=1, most=1000),
    choice(
        "--tools auto|always|never",
        "Offer load_skill and related tools. auto hides them from clients that support the extension.",
        default="auto",
    ),
    flag("--prompts", "Offer each skill as a prompt, which clients show as a slash command.", default=True),
)
"""How every command that serves skills presents them to clients."""
