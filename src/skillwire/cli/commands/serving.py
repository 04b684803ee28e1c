"""The options that `serve` and `gateway` share."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import choice, flag, integer, text

HTTP_OPTIONS: Final = (
    text(
        "--http HOST:PORT",
        "Serve Streamable HTTP at /mcp instead of stdio. "
        "A port alone means 127.0.0.1; port 0 picks a free one.",
    ),
    text("--allow-host NAME", "Accept this Host and Origin too. Repeatable.", many=True),
    flag("--unsafe-no-auth", "Listen on a public address without a token."),
    flag("--access-log", "Log each HTTP request to standard error."),
    choice("--log-format text|json", "Write the log as text or as one JSON object per line.", default="text"),
)
"""The options of every command that serves over HTTP."""
CONNECTION_OPTIONS: Final = (
    flag("--stateless", "Stateless HTTP: no sessions."),
    integer("--max-connections N", "Accept at most N HTTP connections.", default=2000, least=1),
    integer(
        "--max-connections-per-address N",
        "Accept at most N HTTP connections from one address.",
        default=512,
        least=1,
    ),
)
"""Sessions and connections of every command that serves over HTTP."""
LISTING_OPTIONS: Final = (
    integer("--page-size N", "Skills per page of a listing.", default=100, least=1, most=1000),
    choice(
        "--tools auto|always|never",
        "Offer load_skill and related tools. auto hides them from clients that support the extension.",
        default="auto",
    ),
    flag("--prompts", "Offer each skill as a prompt, which clients show as a slash command.", default=True),
)
"""How every command that serves skills presents them to clients."""
