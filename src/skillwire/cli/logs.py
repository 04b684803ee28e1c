"""Log lines of libraries on standard error, made printable."""

from __future__ import annotations

import logging
import sys

from skillwire.cli.output import printable, verbosity


class _SafeFormatter(logging.Formatter):
    """Log lines may quote what a stranger sent. Each is one line: of a traceback, its last words."""

    def format(self, record: logging.LogRecord) -> str:
        text = f"skillwire: {record.levelname.lower()}: {record.getMessage()}"
        error = record.exc_info[1] if record.exc_info else None
        return printable(text if error is None else f"{text}: {type(error).__name__}: {error}")


def log_to_stderr() -> None:
    """Send warnings of libraries to standard error, made printable; with `--verbose` also what they do."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_SafeFormatter())
    logging.basicConfig(
        level=(logging.ERROR, logging.WARNING, logging.INFO)[verbosity() + 1], handlers=[handler], force=True
    )
