"""Redaction: what a server says, without what only it and the user should know."""

from __future__ import annotations

import re
from typing import Final

from skillwire.host.config.server import ServerConfig

_SHORTEST: Final = 6
_SECRET: Final = re.compile("key|token|secret|pass|auth|credential", re.IGNORECASE)


def without_secrets(text: str, config: ServerConfig) -> str:
    """The text with stars for what the server was given: it may repeat that in an error or on its way out."""
    options = zip(config.command, config.command[1:], strict=False)
    arguments = (given.rpartition("=")[2] for name, given in options if _SECRET.search(name + given))
    for secret in (config.token, *config.headers.values(), *config.env.values(), *arguments):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "***")
    return text
