"""What the MCP SDK logs about servers, kept off the terminal (SEC-11).

The SDK logs warnings with pieces of what a server sent. Python writes such records to standard error where
nobody set up logging, and a log file is often read in a terminal. Here a record loses its traceback, which
quotes the server, and the rest of it is put on one clean line. What matters about a server is in the host's
events.
"""

from __future__ import annotations

import logging
from typing import Final

from skillwire.text import safe_line

# The loggers of the SDK's client side. Records are filtered where they are made, so each is named.
_LOGGERS: Final = (
    "client",
    "mcp.client.client",
    "mcp.client.streamable_http",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
    "mcp.shared.direct_dispatcher",
)
_LONGEST: Final = 300


class _Clean(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = safe_line(record.getMessage(), limit=_LONGEST)
        record.args = None
        record.exc_info = None
        record.exc_text = None
        return True


_CLEAN: Final = _Clean()
_NOWHERE: Final = logging.NullHandler()


def keep_off_the_terminal() -> None:
    """Clean the SDK's records, and give them to nobody but the handlers that the program set up."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.addFilter(_CLEAN)
        logger.addHandler(_NOWHERE)
